// Scenarios about the CPU device's executor: which threads do the work, which may sleep, and which
// rely on others.
#include <sys/mman.h>

#include "device/core/guard.hpp"
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

// word += 1
void count_up(Stream& stream, const Span& word) {
  Launch launch;
  launch.kernel = find_kernel("count_up");
  launch.spans = {word};
  stream.launch(std::move(launch));
}

void guards() {
  scenario = "guarded work of several threads on one stream, issued and captured";
  auto shared = device()->create_stream(0);
  threads(4, [&](int id) {
    const int every = id + 1;
    auto stream = device()->create_stream(0), other = device()->create_stream(0);
    during(second_ns / 4, [&] {
      // The word is closed while guarded work still reads it.
      Span word{device()->allocate(4), 0, 4};
      Floats some, all, others, one, copied;
      Home home;
      fill(*shared, one, 1);
      finish(*shared);
      const auto round = [&](Stream& on) {
        count_up(on, word);
        on.open_guard(word, every);
        if (refusal([&] { on.wait(device()->create_event(false)); }) != 1)
          violation("a guarded wait was not refused");
        add(*other, others, one);
        add(on, some, one);
        on.copy(copied.span(), some.span());
        OwnGuard::close();
        add(on, all, one);
      };
      for (int i = 0; i < 10; ++i) round(*shared);
      finish(*shared);
      stream->begin_capture();
      round(*stream);
      const auto graph = stream->end_capture();
      const auto exec = graph->instantiate();
      for (int i = 0; i < 10; ++i) stream->replay(exec);
      word = {};
      stream->copy(home.span(), copied.span());
      finish(*stream);
      home.expect(float(20 / every), "guarded work ran at another time");
      stream->copy(home.span(), all.span());
      finish(*stream);
      home.expect(20, "a guard skipped work that it does not guard");
      other->copy(home.span(), others.span());
      finish(*other);
      home.expect(11, "a guard skipped work of another stream");
    });
  });
}

void revoked_guard() {
  scenario = "the word of a guard is revoked before the guarded work begins";
  constexpr size_t page = 4096;
  for (int round = 0; round < 20; ++round, progress++) {
    void* const pages =
        mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const auto memory = device()->register_host(pages, page, false);
    const Floats to;
    Latch latch;
    auto stream = device()->create_stream(0), spare = device()->create_stream(0);
    const auto done = device()->create_event(false);
    const auto guarded_fill = [&](Stream& on) {
      on.open_guard(Span{memory, 64, 4}, 1);
      fill(on, to, 1);
      OwnGuard::close();
    };
    spare->begin_capture();
    guarded_fill(*spare);
    const auto exec = spare->end_capture()->instantiate();
    latch.hold(*stream);
    if (round % 2)
      stream->replay(exec);
    else
      guarded_fill(*stream);
    stream->record(done, false);
    device()->revoke(memory, 0);
    munmap(pages, page);
    latch.open();
    try {
      wait(*done);
      violation("guarded work ran without its word");
    } catch (const Error& error) {
      if (!std::strstr(error.what(), "host memory that a thread lent")) throw;
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
          {"starved", no_starvation},    {"guards", guards},        {"guard", revoked_guard}};
}

}  // namespace hotslot::stress
