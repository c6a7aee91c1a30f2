// Checks the detector (order.hpp) in the software drivers of CUDA and HIP. For each way to order
// two operations, the program runs once with the order and once without. The detector must complain
// only without. Runs with HOTSLOT_SOFTWARE_ORDER=1.
#pragma once
#include "cuda_check.hpp"

// This namespace keeps CUDA's names apart from those of HIP, which hip_check uses. The vendors
// number some things differently.
namespace order_check {

using namespace hotslot::cuda;

struct Orders {
  const Table& cu;
  Module module = nullptr;
  Function add = nullptr, gather = nullptr;
  StreamHandle learner = nullptr, side = nullptr;
  EventHandle event = nullptr, spent = nullptr;
  DevicePtr a = 0, b = 0, sum = 0;
  static constexpr size_t bytes = 256;

  Orders(const Table& table, const void* image) : cu(table) {
    OK(cu.module_load_data(&module, image));
    OK(cu.module_get_function(&add, module, "axpby"));
    OK(cu.module_get_function(&gather, module, "gather_places"));
    if (cu.func_load) OK(cu.func_load(add)), OK(cu.func_load(gather));
    for (auto* stream : {&learner, &side}) OK(cu.stream_create(stream, stream_non_blocking, 0));
    for (auto* each : {&event, &spent}) OK(cu.event_create(each, event_disable_timing));
    for (auto* memory : {&a, &b, &sum}) OK(cu.mem_alloc(memory, bytes));
  }

  void launch(Function function, StreamHandle on, std::vector<void*> parameters) {
    OK(cu.launch_kernel(function, 1, 1, 1, 64, 1, 1, 0, on, parameters.data(), nullptr));
  }
  void fill(DevicePtr at, StreamHandle on, size_t size = bytes) {
    OK(cu.memset_d8_async(at, 1, size, on));
  }
  // Adds the values at `at` to `sum`.
  void use(DevicePtr at, StreamHandle on) {
    long long n = bytes / 4;
    float one = 1;
    launch(add, on, {&sum, &at, &n, &one, &one});
  }
  void record(EventHandle which, StreamHandle on) { OK(cu.event_record(which, on)); }
  void wait(StreamHandle on, EventHandle which) { OK(cu.stream_wait_event(on, which, 0)); }
  void behind(StreamHandle later, StreamHandle earlier) {
    record(event, earlier), wait(later, event);
  }
  void settle() {
    for (auto stream : {learner, side}) OK(cu.stream_synchronize(stream));
  }

  // Waits for all work, so that the host knows it to be done. Then checks that a complaint names
  // both operations.
  void finds(const char* one, const char* other, const char* line) {
    settle();
    const std::string said = complaints_text();
    if (said.find(one) != std::string::npos && said.find(other) != std::string::npos) return;
    wrong(std::string(line) + ": not found, but '" + said + "'");
  }
  void minds_nothing(const char* line) {
    settle();
    const std::string said = complaints_text();
    if (!said.empty()) wrong(std::string(line) + ": " + said);
  }
#define FINDS(one, other) finds(one, other, CHECK_SAID(""))
#define MINDS_NOTHING() minds_nothing(CHECK_SAID(""))

  // Imitates a pipeline: the side stream gathers the next batch into a slot that the learner's
  // stream used two ticks before. Without a wait for the learner, the gather overwrites a batch
  // that is still read.
  void batch_that_is_still_read(bool waits) {
    constexpr long long rows = 8, words = 8, of = 16, shift = 0;
    DevicePtr ring = 0, places = 0;
    OK(cu.mem_alloc(&ring, of * words * 4)), OK(cu.mem_alloc(&places, rows * 4));
    fill(ring, side, of * words * 4), OK(cu.memset_d8_async(places, 0, rows * 4, side));
    settle();
    const DevicePtr slots[] = {a, b};
    for (int tick = 0; tick < 3; ++tick) {
      DevicePtr slot = slots[tick % 2];
      if (waits && tick >= 2) wait(side, spent);
      launch(gather, side,
             {&slot, &ring, &places, const_cast<long long*>(&rows), const_cast<long long*>(&words),
              const_cast<long long*>(&of), const_cast<long long*>(&shift)});
      behind(learner, side);
      use(slot, learner);
      if (tick == 0) record(spent, learner);
    }
    if (waits)
      MINDS_NOTHING();
    else
      FINDS("axpby #", "gather_places #");
    OK(cu.mem_free(ring)), OK(cu.mem_free(places));
    MINDS_NOTHING();
  }

  void queues_and_events() {
    fill(a, side), use(a, learner);
    FINDS("a fill #", "axpby #");
    fill(a, side), behind(learner, side), use(a, learner);
    MINDS_NOTHING();
    // An event stands for the work before its record. A wait uses the record before the wait.
    record(event, side), fill(a, side), wait(learner, event), use(a, learner);
    FINDS("a fill #", "axpby #");
    record(event, side), wait(learner, event), fill(a, side), record(event, side), use(a, learner);
    FINDS("a fill #", "axpby #");
    // An event that was never recorded orders nothing. In a chain of waits, each counts.
    EventHandle never = nullptr;
    OK(cu.event_create(&never, event_disable_timing));
    fill(a, side), wait(learner, never), use(a, learner);
    FINDS("a fill #", "axpby #");
    StreamHandle third = nullptr;
    OK(cu.stream_create(&third, stream_non_blocking, 0));
    fill(a, side), behind(third, side), behind(learner, third), use(a, learner);
    MINDS_NOTHING();
    // Concurrent reads are no conflict, and neither are adjacent writes. A write that overlaps by
    // one byte is.
    OK(cu.memcpy_dtod_async(b, a, bytes, side)), use(a, learner);
    MINDS_NOTHING();
    fill(a, side, bytes / 2), fill(a + bytes / 2, learner, bytes / 2);
    MINDS_NOTHING();
    fill(a, side, bytes / 2), fill(a + bytes / 2 - 1, learner, 1);
    FINDS("a fill #", "1 bytes at ");
    // Two streams read, and the write waits for only one of them.
    use(a, learner), OK(cu.memcpy_dtod_async(b, a, bytes, third)), behind(side, learner),
        fill(a, side);
    FINDS("a copy #", "a fill #");
    OK(cu.stream_synchronize(third));
    // Copies of pinned memory can conflict. A copy to pageable memory has waited for its source.
    void* pinned = nullptr;
    OK(cu.mem_host_alloc(&pinned, bytes, 0));
    OK(cu.memcpy_dtoh_async(pinned, a, bytes, side)),
        OK(cu.memcpy_htod_async(b, pinned, bytes, learner));
    FINDS("reads", "writes");
    char pageable[bytes];
    fill(a, side), OK(cu.memcpy_dtoh_async(pageable, a, bytes, side)), use(a, learner);
    MINDS_NOTHING();
    OK(cu.mem_free_host(pinned));
  }

  void looks_of_the_host() {
    fill(a, side), record(event, side);
    OK(settled([&] { return cu.event_query(event); }));
    use(a, learner);
    MINDS_NOTHING();
    // The query covers only what was recorded.
    record(event, side), fill(a, side);
    OK(settled([&] { return cu.event_query(event); }));
    use(a, learner);
    FINDS("a fill #", "axpby #");
    fill(a, side);
    OK(settled([&] { return cu.stream_query(side); }));
    use(a, learner);
    MINDS_NOTHING();
    // Memory may be freed only after the host knows that nothing uses it.
    DevicePtr brief = 0;
    OK(cu.mem_alloc(&brief, bytes));
    fill(brief, side), record(event, side), OK(cu.mem_free(brief));
    FINDS("a free of memory", "a fill #");
    OK(cu.mem_alloc(&brief, bytes));
    fill(brief, side), record(event, side);
    OK(settled([&] { return cu.event_query(event); }));
    OK(cu.mem_free(brief));
    MINDS_NOTHING();
    static char lent[4096];
    OK(cu.mem_host_register(lent, sizeof lent, host_register_portable | host_register_devicemap));
    OK(cu.memcpy_htod_async(a, lent, bytes, side)), OK(cu.mem_host_unregister(lent));
    FINDS("an unregistration of memory", "a copy #");
  }

  // Captures a graph with two branches that fill `a`. With `edge`, the second fill comes after the
  // first. Otherwise the fills are concurrent.
  GraphExecHandle branches(bool edge) {
    GraphHandle graph = nullptr;
    GraphExecHandle exec = nullptr;
    OK(cu.stream_begin_capture(learner, capture_thread_local));
    fill(b, learner), behind(side, learner), fill(a, side);
    if (edge) record(spent, side), wait(learner, spent);
    fill(a, learner, 16);
    if (!edge) record(spent, side), wait(learner, spent);
    OK(cu.stream_end_capture(learner, &graph));
    OK(cu.graph_instantiate(&exec, graph, 0));
    OK(cu.graph_destroy(graph));
    return exec;
  }

  void graphs() {
    const GraphExecHandle apart = branches(false), joined = branches(true), again = branches(true);
    OK(cu.graph_launch(apart, learner));
    FINDS("node 1 of a graph, writes 16 bytes", "node 2 of a graph, writes: an edge");
    fill(a, learner), OK(cu.graph_launch(joined, learner)), OK(cu.graph_launch(joined, side));
    MINDS_NOTHING();  // launches of one graph run one after another
    OK(cu.graph_launch(joined, learner)), OK(cu.graph_launch(again, side));
    FINDS("of a graph, writes", "of a graph, writes");
    OK(cu.graph_launch(joined, learner)), behind(side, learner), OK(cu.graph_launch(again, side));
    MINDS_NOTHING();
    OK(cu.graph_launch(joined, learner)), use(a, side);
    FINDS("of a graph, writes", "axpby #");
    if (!cu.event_record_with_flags) return;
    // Each launch records this event again.
    GraphHandle graph = nullptr;
    GraphExecHandle tells = nullptr;
    OK(cu.stream_begin_capture(learner, capture_thread_local));
    fill(a, learner), OK(cu.event_record_with_flags(spent, learner, event_record_external)),
        fill(b, learner);
    OK(cu.stream_end_capture(learner, &graph));
    OK(cu.graph_instantiate(&tells, graph, 0));
    OK(cu.graph_launch(tells, learner)), wait(side, spent), use(a, side);
    MINDS_NOTHING();
    OK(cu.graph_launch(tells, learner)), wait(side, spent), use(b, side);
    FINDS("a fill #", "axpby #");
  }

  // One row of a ring is written while other rows of the ring are gathered.
  void rows() {
    constexpr long long rows = 4, words = 16, of = 8, shift = 0;
    DevicePtr ring = 0, places = 0;
    OK(cu.mem_alloc(&ring, of * words * 4)), OK(cu.mem_alloc(&places, rows * 4));
    const int drawn[] = {6, 1, 2, 1};
    OK(cu.memcpy_htod_async(places, drawn, sizeof drawn, side));
    settle();
    for (const long long row : {0, 1, 2, 3, 6, 7}) {
      launch(gather, side,
             {&a, &ring, &places, const_cast<long long*>(&rows), const_cast<long long*>(&words),
              const_cast<long long*>(&of), const_cast<long long*>(&shift)});
      fill(ring + DevicePtr(row) * words * 4, learner, words * 4);
      if (row == 1 || row == 2 || row == 6)
        FINDS("a fill #", "gather_places #");
      else
        MINDS_NOTHING();
    }
  }

  void all() {
    batch_that_is_still_read(false);
    batch_that_is_still_read(true);
    queues_and_events();
    looks_of_the_host();
    graphs();
    rows();
  }
};

}  // namespace order_check
