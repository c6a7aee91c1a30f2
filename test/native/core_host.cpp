// Scenarios about the CPU device's executor: which threads do the work, which may sleep, and which
// rely on others.
#include "stress.hpp"

namespace hotslot::stress {
namespace {

void merged_attendants() {
  scenario = "enqueuers leave all work to one attendant";
  auto stream = device()->create_stream(0);
  std::atomic<bool> stop{false};
  Attendant attendant;
  std::thread poller([&] {
    attendant.attend(true);
    for (; !stop; progress++) {
      const int32_t seen = attendant.bell.read();
      if (stop) break;
      if (!device()->help(50'000)) attendant.bell.sleep(seen, forever_ns);
    }
    attendant.attend(false);
  });
  threads(3, [&](int id) { during(second_ns / 2, [&] { chain(id, ask); }); });
  stop = true;
  attendant.bell.ring();
  poller.join();
}

void given_back() {
  scenario = "a queue becomes runnable while a thread that found it blocked gives it back";
  threads(2, [](int) {
    auto front = device()->create_stream(0), behind = device()->create_stream(0);
    auto free = device()->create_event(false), done = device()->create_event(false);
    Floats floats;
    during(second_ns, [&] {
      fill(*front, floats, 1);
      front->record(free, false);
      behind->wait(free);
      behind->record(done, false);
      // This thread helps until the first stream is done, then stops. The pool runs the second
      // stream.
      wait(*free);
      ask(*done);
    });
  });
}

void back_to_back() {
  scenario = "one stream, asked for again and again while the pool goes to sleep";
  auto stream = device()->create_stream(0);
  auto event = device()->create_event(false);
  during(second_ns / 2, [&] {
    stream->record(event, false);
    ask(*event);
  });
}

void promise_broken() {
  scenario = "an attendant goes away with work behind it";
  auto stream = device()->create_stream(0);
  auto event = device()->create_event(false);
  for (int round = 0; round < 200; ++round, progress++) {
    Attendant attendant;
    std::atomic<int> step{0};
    std::thread keeper([&] {
      attendant.attend(true);
      step = 1;
      while (step != 2) std::this_thread::yield();
      attendant.attend(false);
    });
    while (step != 1) std::this_thread::yield();
    stream->record(event, false);
    step = 2;
    ask(*event);
    keeper.join();
  }
}

void helper_leaves() {
  scenario = "a helper's time is over in the middle of a queue that everybody else left to it";
  auto stream = device()->create_stream(0);
  auto entered = device()->create_event(false), event = device()->create_event(false);
  const Span large{device()->allocate(16 << 20), 0, 16 << 20};
  for (int round = 0; round < 20; ++round, progress++) {
    Attendant attendant;
    attendant.attend(true);  // only here, so that the pool is not woken
    stream->record(entered, false);
    for (int i = 0; i < 3; ++i) stream->fill(large, &round, 1);
    stream->record(event, false);
    std::thread helper([] { device()->help(1'000'000); });
    ask(*entered);
    attendant.attend(false);
    ask(*event);
    helper.join();
  }
}

void woken_by_completion() {
  scenario = "an attendant sleeps until somebody else's work is done";
  auto stream = device()->create_stream(0);
  auto event = device()->create_event(false);
  for (int round = 0; round < 50; ++round, progress++) {
    Attendant attendant;
    Latch latch;
    attendant.attend(true);
    latch.hold(*stream);  // the pool runs it, like every operation that waits for something outside
    stream->record(event, false);
    std::thread opener([&] {
      // Opens once the attendant sleeps. A ring that arrives a little earlier only makes the round
      // easier.
      while (word_at(&attendant.bell.parked).load() != Bell::native) std::this_thread::yield();
      latch.open();
    });
    attendant.until_done(*event);
    opener.join();
  }
}

void no_starvation() {
  scenario = "an attendant with a stream that never runs dry leaves another one alone";
  auto busy = device()->create_stream(0), other = device()->create_stream(1);
  auto event = device()->create_event(false);
  Floats floats;
  Attendant attendant;
  attendant.attend(true);
  for (int round = 0; round < 5; ++round, progress++) {
    other->record(event, false);
    while (!event->query()) {
      for (int i = 0; i < 2000; ++i) fill(*busy, floats, 1);
      device()->help(50'000);
    }
  }
}

// Work that waits while the process ends, and runs after all static objects are destroyed.
// Everything that the threads of the CPU device or of a software driver read must still exist. No
// driver may be called then, so the program watches the result in memory.
struct Left {
  Latch latch;
  Ref<Stream> stream = device()->create_stream(0);
  Floats y, x;
  Home home;
};
Left* left = nullptr;

}  // namespace

void leave_work() {
#ifdef __SANITIZE_THREAD__
  return;  // the thread sanitizer knows no order of these accesses
#endif
  left = new Left;
  Stream& stream = *left->stream;
  left->latch.hold(stream);
  fill(stream, left->y, 1), fill(stream, left->x, 2);
  for (int i = 0; i < 100; ++i) add(stream, left->y, left->x);
  stream.copy(left->home.span(), left->y.span());
}

void finish_work() {
  if (!left) return;
  scenario = "work that goes on while the process ends";
  left->latch.open();
  const auto& last = word_at(reinterpret_cast<int32_t*>(left->home.memory->address) + n - 1);
  const float wanted = 201;
  int32_t bits;
  memcpy(&bits, &wanted, 4);
  while (last.load() != bits) std::this_thread::yield();
}

std::vector<Scenario> executor_scenarios() {
  return {{"merged", merged_attendants}, {"given", given_back},     {"back", back_to_back},
          {"promise", promise_broken},   {"leaves", helper_leaves}, {"woken", woken_by_completion},
          {"starved", no_starvation}};
}

}  // namespace hotslot::stress
