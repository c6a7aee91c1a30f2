// Facts about enqueued work: the first call of each kind in a process, the cost of queries, and the
// order between events and streams.
#include <unistd.h>

#include "cuda_facts.hpp"

namespace raw {

void loading(const Rig& rig, Json& json) {
  const auto& call = rig.call;
  json.number("secondsOfContext", rig.context_us / 1e6)
      .number("secondsOfModuleLoad", rig.module_us / 1e6);
  const DevicePtr y = rig.allocate(4), x = rig.allocate(4);
  const SmallGraph hundred(rig, y, x, 100), ten(rig, y, x, 10);
  std::vector<double> first, second, upload, uploaded;
  const auto timed = [&](std::vector<double>& times, auto&& act) {
    const double begin = now_us();
    rig.must(act(), "a call on a graph");
    times.push_back(now_us() - begin);
    rig.synchronize();
  };
  for (int i = 0; i < 5; ++i) {
    const GraphExecHandle plain = hundred.instantiate(), ahead = hundred.instantiate();
    timed(first, [&] { return call.graph_launch(plain, rig.stream); });
    timed(second, [&] { return call.graph_launch(plain, rig.stream); });
    if (call.graph_upload) {
      timed(upload, [&] { return call.graph_upload(ahead, rig.stream); });
      timed(uploaded, [&] { return call.graph_launch(ahead, rig.stream); });
    }
    rig.must(call.graph_exec_destroy(plain), "cuGraphExecDestroy");
    rig.must(call.graph_exec_destroy(ahead), "cuGraphExecDestroy");
  }
  json.number("usFirstReplay100", median(first)).number("usSecondReplay100", median(second));
  if (!upload.empty())
    json.number("usUpload100", median(upload))
        .number("usFirstReplay100AfterUpload", median(uploaded));
  constexpr int execs = 200;
  const auto free_now = [&] {
    size_t free = 0, total = 0;
    rig.must(call.mem_get_info(&free, &total), "cuMemGetInfo");
    return double(free);
  };
  const double before = free_now();
  std::vector<GraphExecHandle> made;
  for (int i = 0; i < execs; ++i) made.push_back(ten.instantiate());
  json.number("bytesPerExec10", (before - free_now()) / execs);
  for (const GraphExecHandle each : made)
    rig.must(call.graph_launch(each, rig.stream), "cuGraphLaunch"), rig.synchronize();
  json.number("bytesPerExec10Replayed", (before - free_now()) / execs);
  for (const GraphExecHandle each : made)
    rig.must(call.graph_exec_destroy(each), "cuGraphExecDestroy");
  json.number("bytesPerExec10Destroyed", (before - free_now()) / execs);
}

// Measures the first call of each kind in the process, for which the driver may load a kernel.
// Prints how long the call took, and how long until its work was done. Either is about 100 ms if it
// waited for the busy stream.
void firsts(const Rig& rig, Json& json) {
  const auto& call = rig.call;
  const StreamHandle busy = rig.new_stream();
  DevicePtr memory = 0, y = 0, x = 0;
  void* host = nullptr;
  rig.must(call.mem_alloc(&memory, 1 << 16), "cuMemAlloc");
  rig.must(call.mem_alloc(&y, 4), "cuMemAlloc");
  rig.must(call.mem_alloc(&x, 4), "cuMemAlloc");
  rig.must(call.mem_host_alloc(&host, 1 << 16, 0), "cuMemHostAlloc");
  const SmallGraph graph(rig, y, x, 3);
  const GraphExecHandle exec = graph.instantiate();
  const EventHandle event = rig.new_event(event_disable_timing);
  const Function fill = rig.function("fill");
  const auto first = [&](const std::string& what, auto&& act) {
    rig.occupy(busy, busy_us);
    const double begin = now_us();
    const Status got = act();
    json.number(("msBeside_" + what).c_str(), (now_us() - begin) / 1000);
    if (got != status::success) json.number(("status_" + what).c_str(), got);
    for (const double end = now_us() + 3e6; now_us() < end;)
      if (call.stream_query(rig.stream) != status::not_ready) break;
    json.number(("msUntilDone_" + what).c_str(), (now_us() - begin) / 1000);
    rig.must(call.stream_synchronize(busy), "cuStreamSynchronize");
  };
  first("firstMemsetD32", [&] { return call.memset_d32_async(memory, 1, 16, rig.stream); });
  first("firstMemsetD8", [&] { return call.memset_d8_async(memory + 1, 1, 17, rig.stream); });
  first("firstCopyToDevice",
        [&] { return call.memcpy_htod_async(memory, host, 1 << 12, rig.stream); });
  first("firstCopyOnDevice",
        [&] { return call.memcpy_dtod_async(memory + (1 << 15), memory, 1 << 12, rig.stream); });
  first("firstCopyToHost",
        [&] { return call.memcpy_dtoh_async(host, memory, 1 << 12, rig.stream); });
  first("firstEventRecord", [&] { return call.event_record(event, rig.stream); });
  first("firstLaunchOfAKernel", [&] {
    long long n = 1, pattern = 1;
    void* arguments[] = {&memory, &n, &pattern};
    return rig.launch(fill, arguments, rig.stream);
  });
  first("firstReplay", [&] { return call.graph_launch(exec, rig.stream); });
  first("secondMemsetD32", [&] { return call.memset_d32_async(memory, 1, 16, rig.stream); });
}

void synchronizing(const Rig& rig, Json& json) {
  const auto& call = rig.call;
  const DevicePtr memory = rig.allocate(4096);
  const auto each = [&](auto&& act) {
    std::vector<double> times;
    for (int i = 0; i < 200; ++i) {
      const double begin = now_us();
      act();
      times.push_back(now_us() - begin);
    }
    return median(times);
  };
  const auto fill = [&] {
    rig.must(call.memset_d32_async(memory, 1, 16, rig.stream), "cuMemsetD32Async");
  };
  rig.warm_up(0.3);
  json.number("usOfSynchronizeWhenDone", each([&] { rig.synchronize(); }));
  json.number("usOfMemsetAndSynchronize", each([&] { fill(), rig.synchronize(); }));
  json.number("usOfMemsetAndAsking", each([&] {
                fill();
                while (call.stream_query(rig.stream) == status::not_ready) continue;
              }));
}

void marks(const Rig& rig, Json& json) {
  const auto& call = rig.call;
  const auto each = [&](const char* what, auto&& act) {
    std::vector<double> times;
    for (int i = 0; i < 100; ++i) {
      const double begin = now_us();
      act();
      times.push_back(now_us() - begin);
    }
    json.number(what, median(times));
  };
  const StreamHandle busy = rig.new_stream();
  const auto mark_on = [&](StreamHandle stream) {
    const EventHandle event = rig.new_event(event_disable_timing);
    rig.must(call.event_record(event, stream), "cuEventRecord");
    rig.must(call.event_destroy(event), "cuEventDestroy");
  };
  const EventHandle kept = rig.new_event(event_disable_timing);
  rig.warm_up(0.3);
  for (const bool idle : {true, false}) {
    const std::string when = idle ? "Idle" : "Busy";
    if (!idle) rig.occupy(busy, busy_us);
    each(("usOfStreamQuery" + when).c_str(), [&] { call.stream_query(busy); });
    each(("usOfEventRecord" + when).c_str(),
         [&] { rig.must(call.event_record(kept, busy), "cuEventRecord"); });
    each(("usOfEventQuery" + when).c_str(), [&] { call.event_query(kept); });
    each(("usOfEventMadeRecordedDestroyed" + when).c_str(), [&] { mark_on(busy); });
  }
  rig.must(call.stream_synchronize(busy), "cuStreamSynchronize");
  Context context = nullptr;
  each("usOfContextGet", [&] { call.context_get_current(&context); });
  each("usOfContextSet", [&] { call.context_set_current(rig.context); });
  CaptureMode mode = capture_relaxed;
  each("usOfExchangeMode", [&] { call.exchange_capture_mode(&mode); });
}

// Asks about an event that a graph records. On some drivers, a launch of the graph resets the
// event: a query returns 600 at once, although no node has run yet.
void events(const Rig& rig, Json& json) {
  const auto& call = rig.call;
  if (!call.event_record_with_flags) return static_cast<void>(json.text("eventNodes", "none"));
  const EventHandle event = rig.new_event(event_disable_timing);
  const StreamHandle waits = rig.new_stream();
  const DevicePtr memory = rig.allocate(16);
  GraphHandle graph = nullptr;
  GraphExecHandle exec = nullptr;
  rig.must(call.stream_begin_capture(rig.stream, capture_thread_local), "cuStreamBeginCapture");
  rig.occupy(rig.stream, busy_us);
  rig.must(call.event_record_with_flags(event, rig.stream, event_record_external),
           "cuEventRecordWithFlags");
  rig.must(call.stream_end_capture(rig.stream, &graph), "cuStreamEndCapture");
  rig.must(call.graph_instantiate(&exec, graph, 0), "cuGraphInstantiateWithFlags");
  json.number("eventQueryBeforeAnyReplay", call.event_query(event));
  const auto replay = [&](const std::string& which) {
    rig.must(call.graph_launch(exec, rig.stream), "cuGraphLaunch");
    json.number(("eventQueryAfter" + which).c_str(), call.event_query(event));
    json.number(("streamQueryAfter" + which).c_str(), call.stream_query(rig.stream));
    // A stream that waits for the event now waits for this replay.
    rig.must(call.stream_wait_event(waits, event, 0), "cuStreamWaitEvent");
    rig.must(call.memset_d32_async(memory, 1, 1, waits), "cuMemsetD32Async");
    usleep(10'000);
    json.number(("waiterQueryAfter" + which).c_str(), call.stream_query(waits));
    json.number(("eventQueryWithin" + which).c_str(), call.event_query(event));
    rig.synchronize();
    json.number(("eventQueryBehind" + which).c_str(), call.event_query(event));
    rig.must(call.stream_synchronize(waits), "cuStreamSynchronize");
  };
  replay("GraphLaunch"), replay("SecondLaunch");
  rig.must(call.graph_exec_destroy(exec), "cuGraphExecDestroy");
  rig.must(call.graph_destroy(graph), "cuGraphDestroy");
}

namespace {

// Returns how many streams a kernel can block while another stream still runs. Streams share
// hardware queues (CUDA_DEVICE_MAX_CONNECTIONS). A queue stops if the work at its head has to wait.
// With `behind`, each blocked stream has such work after its kernel.
int held_beside_a_free_one(const Rig& rig, bool behind) {
  const auto& call = rig.call;
  // The host opens the latch. A stream that opened it could share a queue with a blocked one.
  auto* const gate = static_cast<volatile int*>(pages(1));
  DevicePtr word = 0;
  rig.must(call.mem_host_register(const_cast<int*>(gate), 4096,
                                  host_register_portable | host_register_devicemap),
           "cuMemHostRegister");
  rig.must(call.mem_host_get_device_pointer(&word, const_cast<int*>(gate), 0),
           "cuMemHostGetDevicePointer");
  const DevicePtr other = rig.allocate(8);
  const EventHandle event = rig.new_event(event_disable_timing);
  const StreamHandle free = rig.new_stream();
  rig.must(call.memset_d32_async(other, 1, 1, free), "cuMemsetD32Async");
  rig.must(call.stream_synchronize(free), "cuStreamSynchronize");
  long long ms = 5000;
  void* arguments[] = {&word, &ms};
  std::vector<StreamHandle> held;
  bool goes_on = true;
  for (int i = 0; i < 64; ++i) held.push_back(rig.new_stream());
  int most = 0;
  for (; most < 64 && goes_on; ++most) {
    const StreamHandle stream = held[size_t(most)];
    rig.must(rig.launch(rig.function("latch"), arguments, stream), "cuLaunchKernel");
    if (behind) {
      rig.must(call.event_record(event, stream), "cuEventRecord");
      rig.must(call.memset_d32_async(other + 4, 3, 1, stream), "cuMemsetD32Async");
    }
    rig.must(call.memset_d32_async(other, 2, 1, free), "cuMemsetD32Async");
    goes_on = false;
    for (const double end = now_us() + 50'000; !goes_on && now_us() < end;)
      goes_on = call.stream_query(free) == status::success;
  }
  *gate = 1;
  for (const StreamHandle stream : held)
    rig.must(call.stream_synchronize(stream), "cuStreamSynchronize");
  rig.must(call.stream_synchronize(free), "cuStreamSynchronize");
  rig.must(call.mem_host_unregister(const_cast<int*>(gate)), "cuMemHostUnregister");
  return goes_on ? most : most - 1;
}

}  // namespace

void holding(const Rig& rig, Json& json) {
  json.number("streamsHeldBesideAFreeOne", held_beside_a_free_one(rig, false));
  json.number("streamsHeldWithWorkBehindThem", held_beside_a_free_one(rig, true));
}

}  // namespace raw
