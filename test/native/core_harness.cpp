// Stresses the native core without JavaScript, for the sanitizers, on the devices of one family.
// The scenarios use handles, streams, events, captures, graphs, bells, and objects that are closed
// or left open. On the CPU device the timeout that hides lost wakes is compiled out. A lost wake
// then stalls the program, and the watchdog prints where. Prints the first violation and returns 1.
// harnesses.ts builds it:
//   core_harness [host | cuda | rocm | xpu [milliseconds [scenario…]]]
#include <sys/mman.h>

#include <algorithm>

#include "device/core/handles.hpp"
#include "stress.hpp"
#include "wait/core_pool.hpp"

namespace hotslot::stress {
namespace {

// Reports a lost wake if nothing progresses for ten seconds, because no scenario takes that long.
void watchdog() {
  std::thread([] {
    for (uint64_t last = ~0ull;;) {
      std::this_thread::sleep_for(std::chrono::seconds(10));
      const uint64_t now = progress.load();
      if (now == last) {
#ifdef __SANITIZE_ADDRESS__
        std::this_thread::sleep_for(
            // a sanitizer may be writing a report, which ends the process
            std::chrono::seconds(60));
#endif
        violation("stalled: a wake was lost", double(now));
      }
      last = now;
    }
  }).detach();
}

void ordering() {
  scenario = "chains of streams, asked, waited and attended for";
  threads(6, [](int id) {
    Attendant attendant;
    during(second_ns, [&] {
      if (id % 3 == 0)
        chain(id, ask);
      else if (id % 3 == 1)
        chain(id, wait);
      else {
        chain(id, [&](Event& event) { attendant.until_done(event); });
        attendant.attend(false);  // parks elsewhere, so no thread may count on its help
        chain(id, ask);
      }
    });
  });
}

void graphs() {
  scenario = "one exec replayed by many threads";
  Floats sum, one, copy;
  Home home;
  auto origin = device()->create_stream(0), side = device()->create_stream(0);
  auto fork = device()->create_event(false), join = device()->create_event(false);
  origin->begin_capture();
  fill(*origin, one, 1);
  origin->record(fork, false);
  side->wait(fork);
  add(*origin, sum, one);
  // Another thread captures the side stream's part of the graph.
  std::thread([&] {
    for (int i = 0; i < 40; ++i) side->copy(copy.span(), one.span());
    side->record(join, false);
  }).join();
  origin->wait(join);
  auto graph = origin->end_capture();
  if (graph->node_count() != 42) violation("nodes were lost", double(graph->node_count()));
  auto exec = graph->instantiate();
  graph.reset();
  std::atomic<int> replays{0};
  threads(4, [&](int id) {
    auto stream = device()->create_stream(0);
    auto event = device()->create_event(false);
    during(second_ns / 2, [&] {
      for (int i = 0; i < 5; ++i, ++replays) stream->replay(exec);
      stream->record(event, false);
      if (id % 2)
        wait(*event);
      else
        ask(*event);
    });
  });
  origin->copy(home.span(), sum.span());
  finish(*origin);
  if (replays < (1 << 24)) home.expect(float(replays), "replays of one exec overlapped");
}

void captures() {
  scenario = "captures side by side, joined from other threads and broken";
  auto plain = device()->create_event(false);
  auto other = device()->create_stream(0);
  threads(4, [&](int id) {
    during(second_ns / 2, [&] {
      auto origin = device()->create_stream(0), side = device()->create_stream(0);
      auto fork = device()->create_event(false), join = device()->create_event(false);
      Floats a, b, c;
      origin->begin_capture();
      fill(*origin, a, float(id));
      origin->record(fork, false);
      std::thread helper([&] {
        side->wait(fork);
        for (int i = 0; i < 10; ++i) side->copy(b.span(), a.span());
        side->record(join, false);
      });
      for (int i = 0; i < 10; ++i) fill(*origin, c, float(id + i));
      helper.join();
      const int how = int(progress % 3);
      if (how == 0) origin->wait(join);
      if (how == 2 && refusal([&] { origin->query(); }) != 900)
        violation("a query of a capturing stream did not fail with 900");
      side.reset();
      Ref<Graph> graph;
      const int status = refusal([&] { graph = origin->end_capture(); });
      if (graph) {
        other->replay(graph->instantiate());
        other->record(plain, false);
      }
      static const int expected[] = {0, 904, 901};
      if (status != expected[how])
        violation("a capture ended with an unexpected status", how, status);
      if (origin->capturing()) violation("a stream stayed in its capture");
      // On devices that cannot be queried during a capture, the answer is false until all captures
      // have ended.
      while (!origin->query()) std::this_thread::yield();
    });
  });
  wait(*plain);
}

void held_streams() {
  scenario = "held streams hold nobody else, and nobody helps";
  for (int round = 0; round < 5; ++round, progress++) {
    Latch latch;
    std::vector<Ref<Stream>> held;
    auto tail = device()->create_event(false);
    for (int i = 0; i < 6; ++i) {
      held.push_back(device()->create_stream(0));
      auto passed = device()->create_event(false);
      auto behind = device()->create_stream(0);
      // `behind` is blocked, then released by an operation whose stream continues into a latch.
      held[size_t(i)]->record(passed, false);
      latch.hold(*held[size_t(i)]);
      behind->wait(passed);
      Home home;
      fill(*behind, home.span(), 3);
      behind->record(tail, false);
      ask(*tail);
      home.expect(3, "the event was done before its work");
      if (held[size_t(i)]->query()) violation("a held stream says it is done");
    }
    latch.open();
    for (auto& stream : held) {
      stream->record(tail, false);
      ask(*tail);
    }
  }
}

void released_late() {
  scenario = "a record that frees another stream, followed by a latch";
  for (int round = 0; round < 50; ++round, progress++) {
    Latch first, second;
    auto a = device()->create_stream(0), b = device()->create_stream(0);
    auto free = device()->create_event(false), done = device()->create_event(false);
    first.hold(*a);
    a->record(free, false);
    second.hold(*a);
    b->wait(free);
    b->record(done, false);
    first.open();
    ask(*done);
    second.open();
    a->record(done, false);
    ask(*done);
  }
}

void not_trapped() {
  scenario = "whoever waits is not caught in work that waits for the outside";
  for (int round = 0; round < 50; ++round, progress++) {
    Latch latch;
    auto held = device()->create_stream(-1), free = device()->create_stream(0);
    auto event = device()->create_event(false);
    latch.hold(*held);
    free->record(event, false);
    wait(*event);
    Attendant attendant;
    free->record(event, false);
    attendant.until_done(*event);
    if (held->query()) violation("the latch did not hold");
    latch.open();
    held->record(event, false);
    attendant.until_done(*event);
  }
}

void failures() {
  scenario = "a failed stream fails alone";
  // Level Zero reports a failed kernel as a lost device
  const int expected = is("xpu") ? 0x70000001 : 719;
  Launch fail;
  fail.kernel = find_kernel("fail");
  threads(3, [&](int id) {
    during(second_ns / 4, [&] {
      auto bad = device()->create_stream(0), good = device()->create_stream(0);
      auto event = device()->create_event(false);
      bad->launch(Launch(fail));
      try {
        bad->record(event, false);
        if (progress % 2) bad.reset();  // later queries of its event still report the failure
        for (; !event->query();) std::this_thread::yield();
        violation("an event of a failed stream reported success");
      } catch (const Error& error) {
        if (error.status != expected) violation("another error than the kernel's", error.status);
      }
      // The latest record counts, and its stream is healthy.
      good->record(event, false);
      ask(*event);
      chain(id, wait);
    });
  });
}

class Canary final : public Object {
 public:
  explicit Canary(Kind kind) : Object(kind, "canary") {}
  ~Canary() override { alive = 0; }
  std::atomic<uint64_t> alive{0x5afe};
};

void handles() {
  scenario = "pins, unpins and removals of the same handles";
  static HandleTable table;
  constexpr int many = 64;
  static std::atomic<double> shared[many]{};
  for (auto& handle : shared) handle = table.add(std::make_shared<Canary>(Kind::event));
  threads(7, [&](int id) {
    uint32_t draw = uint32_t(id) * 2654435761u + 1;
    during(second_ns / 2, [&] {
      for (int i = 0; i < 500; ++i) {
        draw = draw * 1664525 + 1013904223;
        auto& place = shared[(draw >> 8) % many];
        const double handle = place.load();
        if (id < 4) {
          if (table.pin(handle, Kind::stream)) violation("a handle was pinned as another kind");
          auto* canary = static_cast<Canary*>(table.pin(handle, Kind::event));
          if (!canary) continue;
          if (canary->alive != 0x5afe) violation("a pinned object died");
          table.unpin(handle);
        } else if (id < 6 ? table.remove(handle, forever_ns) != nullptr
                          : table.retire(handle).has_value()) {
          if (table.pin(handle, Kind::event)) violation("a closed handle was pinned");
          if (table.remove(handle, 0) || table.retire(handle))
            violation("a handle was closed twice");
          place = table.add(std::make_shared<Canary>(Kind::event));
        }
      }
      // A user may still have up to four retired objects pinned.
      if (table.count(Kind::event).entries > many + 4) violation("handles leaked");
    });
  });
  const auto [entries, pinned] = table.count(Kind::event);
  if (entries != many || pinned != 0) violation("a pin or a retired object was left behind");
}

void retired_handles() {
  scenario = "a retired handle and its last unpin in another thread";
  static HandleTable table;
  const auto canary = std::make_shared<Canary>(Kind::event);
  const double handle = table.add(canary);
  for (int i = 0; i < 2; ++i)
    if (table.pin(handle, Kind::event) != canary.get()) violation("an open handle was not pinned");
  const auto taken = table.retire(handle);
  if (!taken || *taken) violation("retire() of a pinned handle returned the object");
  if (table.is_open(handle) || table.pin(handle, Kind::event))
    violation("a retired handle was pinned");
  if (table.retire(handle) || table.remove(handle, 0))
    violation("a retired handle was closed again");
  table.unpin(handle);
  if (canary.use_count() != 2) violation("an object was released before its last unpin");
  threads(1, [&](int) { table.unpin(handle); });
  if (canary.use_count() != 1)
    violation("the last unpin of a retired handle did not free the object");
  if (table.count(Kind::event).entries != 0) violation("a retired entry was not freed");
  if (table.retire(table.add(canary)).value() != canary)
    violation("retire() of an unpinned handle did not return the object");
}

void sleeping_remover() {
  scenario = "a remover asleep until the last unpin, or until it gives up";
  static HandleTable table;
  const double handle = table.add(std::make_shared<Canary>(Kind::event));
  table.pin(handle, Kind::event);
  threads(1, [&](int) {
    const auto own_ns = [] {
      timespec t;
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
      return uint64_t(t.tv_sec) * 1'000'000'000 + uint64_t(t.tv_nsec);
    };
    const uint64_t begin = own_ns();
    try {
      table.remove(handle, 300'000'000);
      violation("a pinned handle was removed");
    } catch (const Error&) {}
    // A thread that spins would use most of the 300 ms.
    if (own_ns() - begin > 30'000'000) violation("a remover did not sleep");
  });
  if (!table.is_open(handle)) violation("a remover that gave up left the handle closing");
  std::atomic<bool> removed{false};
  std::thread remover([&] {
    if (!table.remove(handle, forever_ns)) violation("a remover found its handle stale");
    removed = true;
  });
  while (table.is_open(handle)) std::this_thread::yield();
  if (removed) violation("a remover did not wait for the pin");
  table.unpin(handle);
  remover.join();
}

// Makes a file that the HIP software driver accepts as a code object. It lists the kernels' names.
void name_kernels() {
  const int file = memfd_create("kernels", 0);
  dprintf(file, "HOTSLOT-SOFTWARE-HSACO\n");
  for (auto& kernel : all_kernels()) dprintf(file, "%s\n", kernel.name);
  setenv("HOTSLOT_HIP_KERNELS", ("/proc/self/fd/" + std::to_string(file)).c_str(), 1);
}

int run(int count, char** words) {
  const std::string name = count > 1 ? words[1] : "host";
  for (const Family* each : {&cuda_family(), &hip_family(), &level_zero_family()})
    if (name == each->name) family = each;
  if (name != family->name) return std::printf("there is no family '%s'\n", name.c_str()), 2;
  if (count > 2) second_ns = uint64_t(std::atoi(words[2])) * 1'000'000;
  name_kernels();
  if (devices() == 0) return std::printf("%s\n", family->find().reason.c_str()), 2;
  watchdog();
  std::vector<Scenario> all{{"ordering", ordering},      {"graphs", graphs},
                            {"captures", captures},      {"held", held_streams},
                            {"released", released_late}, {"trapped", not_trapped},
                            {"failures", failures}};
  const auto join = [&](std::vector<Scenario> more) {
    all.insert(all.end(), more.begin(), more.end());
  };
  if (device()->traits().rings)
    join(executor_scenarios()),
        join({{"handles", handles}, {"retired", retired_handles}, {"remover", sleeping_remover}});
  join(lifetime_scenarios());
  join(shared_scenarios());
  for (int i = 3; i < count; ++i)
    if (std::none_of(all.begin(), all.end(),
                     [&](const Scenario& each) { return std::strcmp(words[i], each.name) == 0; }))
      return std::printf("no scenario '%s'\n", words[i]), 2;
  const uint64_t begin = now_ns();
  for (auto& each : all) {
    const auto wanted = [&](const char* word) { return std::strcmp(word, each.name) == 0; };
    if (count > 3 && std::none_of(words + 3, words + count, wanted)) continue;
    each.run();
    progress++;
  }
  leave_work();
  std::printf("%s: no violation in %.1f s\n", device()->traits().description.c_str(),
              double(now_ns() - begin) / 1e9);
  return 0;
}

}  // namespace
}  // namespace hotslot::stress

int main(int count, char** words) {
  hotslot::IdleCores::use(hotslot::CorePool::table_of_process());
  // registered first, so that it runs after all static objects are destroyed
  std::atexit(hotslot::stress::finish_work);
  try {
    return hotslot::stress::run(count, words);
  } catch (const hotslot::Error& error) {
    hotslot::stress::violation("an unexpected refusal", error.status, 0, error.what());
  }
}
