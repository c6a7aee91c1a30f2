// Facts about what the driver allows and which state it leaves: registration, captures, managed
// memory, a lost device.
#include <cstdint>
#include <set>
#include <thread>

#include "cuda_facts.hpp"

namespace raw {

// Asks which registrations the driver accepts: overlapping ranges, and separate ranges on one page.
void registering(const Rig& rig, Json& json) {
  const auto& call = rig.call;
  auto* at = static_cast<unsigned char*>(pages(4));
  const auto take = [&](size_t from, size_t bytes) {
    return call.mem_host_register(at + from, bytes, as_hotslot_registers);
  };
  rig.must(take(0, 4096), "cuMemHostRegister");
  json.number("registerAgain", take(0, 4096)).number("registerOverlapping", take(0, 8192));
  json.number("unregister", call.mem_host_unregister(at))
      .number("unregisterAgain", call.mem_host_unregister(at));
  json.number("registerPartOfPage", take(16, 64)).number("registerSamePageApart", take(1024, 64));
  call.mem_host_unregister(at + 1024), call.mem_host_unregister(at + 16);
}

namespace {

// Asks which calls a thread-local capture forbids to its thread, and whether a forbidden call
// invalidates the capture.
void barred(const Rig& rig, Json& json) {
  const auto& call = rig.call;
  const EventHandle event = rig.new_event(event_disable_timing);
  rig.must(call.event_record(event, rig.stream), "cuEventRecord");
  rig.synchronize();
  const StreamHandle other = rig.new_stream();
  const auto attempt = [&](const char* what, auto&& act) {
    const StreamHandle stream = rig.new_stream();
    GraphHandle graph = nullptr;
    rig.must(call.stream_begin_capture(stream, capture_thread_local), "cuStreamBeginCapture");
    json.number((std::string("inCapture_") + what).c_str(), act());
    json.number((std::string("endCapture_") + what).c_str(),
                call.stream_end_capture(stream, &graph));
    if (graph) call.graph_destroy(graph);
    call.stream_destroy(stream);
  };
  DevicePtr memory = 0;
  attempt("nothing", [] { return status::success; });
  attempt("memAlloc", [&] { return call.mem_alloc(&memory, 4096); });
  attempt("eventQuery", [&] { return call.event_query(event); });
  attempt("otherStreamQuery", [&] { return call.stream_query(other); });
  attempt("memAllocRelaxed", [&] {
    CaptureMode mode = capture_relaxed;
    call.exchange_capture_mode(&mode);
    const Status got = call.mem_alloc(&memory, 4096);
    call.exchange_capture_mode(&mode);
    return got;
  });
}

// Asks whether a stream that joined a capture is usable again without having been joined back. The
// capture either ends or, with `destroys`, loses its origin stream.
void left_behind(const Rig& rig, Json& json, const char* how, bool destroys) {
  const auto& call = rig.call;
  const DevicePtr memory = rig.allocate(16);
  const StreamHandle origin = rig.new_stream(), side = rig.new_stream();
  const EventHandle fork = rig.new_event(event_disable_timing);
  GraphHandle graph = nullptr;
  const auto tell = [&](const char* what, Status got) {
    json.number((std::string(how) + what).c_str(), got);
  };
  rig.must(call.stream_begin_capture(origin, capture_thread_local), "cuStreamBeginCapture");
  rig.must(call.event_record(fork, origin), "cuEventRecord");
  rig.must(call.stream_wait_event(side, fork, 0), "cuStreamWaitEvent");
  rig.must(call.memset_d32_async(memory, 1, 1, side), "cuMemsetD32Async");
  if (destroys)
    tell("_streamDestroy", call.stream_destroy(origin));
  else
    tell("_endCapture", call.stream_end_capture(origin, &graph));
  if (graph) call.graph_destroy(graph);
  tell("_sideQuery", call.stream_query(side));
  tell("_sideMemset", call.memset_d32_async(memory, 1, 1, side));
  tell("_sideSynchronize", call.stream_synchronize(side));
  if (!destroys) tell("_originMemset", call.memset_d32_async(memory, 1, 1, origin));
  if (!destroys) tell("_originSynchronize", call.stream_synchronize(origin));
  DevicePtr at = 0;
  tell("_memAlloc", call.mem_alloc(&at, 4096));
  tell("_beginCaptureAgain", call.stream_begin_capture(side, capture_thread_local));
  graph = nullptr;
  tell("_endCaptureAgain", call.stream_end_capture(side, &graph));
}

// Asks what happens if another thread ends a capture, twice, and whether the stream can then begin
// a new one.
void ended_elsewhere(const Rig& rig, Json& json) {
  const auto& call = rig.call;
  const StreamHandle stream = rig.new_stream();
  GraphHandle graph = nullptr;
  rig.must(call.stream_begin_capture(stream, capture_thread_local), "cuStreamBeginCapture");
  std::thread([&] {
    rig.must(call.context_set_current(rig.context), "cuCtxSetCurrent");
    json.number("elsewhere_endCapture", call.stream_end_capture(stream, &graph));
    json.number("elsewhere_endCaptureAgain", call.stream_end_capture(stream, &graph));
  }).join();
  json.number("elsewhere_beginCapture", call.stream_begin_capture(stream, capture_thread_local));
  call.stream_end_capture(stream, &graph);
}

}  // namespace

void capturing(const Rig& rig, Json& json) {
  barred(rig, json);
  left_behind(rig, json, "unjoined", false);
  left_behind(rig, json, "destroyed", true);
  ended_elsewhere(rig, json);
}

// Asks about managed memory: where small allocations are, and which bytes a hint or a prefetch
// affects. Also measures what a prefetch on an idle stream costs its caller.
void managed(const Rig& rig, Json& json) {
  const auto& call = rig.call;
  int concurrent = 0;
  rig.must(call.device_get_attribute(&concurrent, attribute_concurrent_managed_access, rig.device),
           "cuDeviceGetAttribute");
  json.number("concurrentManagedAccess", concurrent);
  if (!has_managed(rig)) return static_cast<void>(json.text("managed", "none"));
  const auto take = [&](size_t bytes) {
    DevicePtr at = 0;
    rig.must(call.mem_alloc_managed(&at, bytes, mem_attach_global), "cuMemAllocManaged");
    return at;
  };
  const auto tell = [&](const char* what, RangeAttribute attribute, DevicePtr at, size_t bytes) {
    int where = -99;
    const Status got = call.mem_range_get_attribute
                           ? call.mem_range_get_attribute(&where, 4, attribute, at, bytes)
                           : Status(status::not_supported);
    json.number(what, got == status::success
                          ? where
                          : 1000 + got);  // a device, -1: host, -2: none, else 1000 + status
  };
  const DevicePtr one = take(256), two = take(256);
  json.number("smallAddressesApart", double(two > one ? two - one : one - two));
  json.number("smallAddressModulo64KiB", double(one % 65536))
      .number("smallAddressModulo2MiB", double(one % (2 << 20)));
  json.number("prefer_small", prefer(rig, one, 256, rig.device));
  tell("preferredOfTheOther", range_preferred_location, two, 256);
  json.number("prefetch_small", prefetch(rig, one, 256, rig.device, rig.stream));
  rig.synchronize();
  tell("prefetchedOfIt", range_last_prefetch_location, one, 256);
  tell("prefetchedOfTheOther", range_last_prefetch_location, two, 256);

  constexpr size_t page = 4096, large = 4 << 20;
  const DevicePtr many = take(large);
  auto* const bytes = reinterpret_cast<unsigned char*>(many);
  for (size_t i = 0; i < large; i += page) bytes[i] = 1;
  json.number("prefer_aPage", prefer(rig, many, page, rig.device));
  tell("preferredOfThePage", range_preferred_location, many, page);
  tell("preferredOfTheNextPage", range_preferred_location, many + page, page);
  json.number("prefetch_aPage", prefetch(rig, many, page, rig.device, rig.stream));
  rig.synchronize();
  tell("prefetchedOfThePage", range_last_prefetch_location, many, page);
  tell("prefetchedOfTheNextPage", range_last_prefetch_location, many + page, page);
  tell("prefetchedOf64KiBOn", range_last_prefetch_location, many + 65536, page);
  tell("prefetchedOfBoth", range_last_prefetch_location, many, 2 * page);

  const auto timed = [&](const char* what, DeviceId to) {
    const double begin = now_us();
    const Status got = prefetch(rig, many, large, to, rig.stream);
    json.number((std::string("msOfPrefetch_") + what).c_str(), (now_us() - begin) / 1000);
    if (got != status::success) json.number((std::string("status_") + what).c_str(), got);
    rig.synchronize();
    json.number((std::string("msUntilPrefetched_") + what).c_str(), (now_us() - begin) / 1000);
  };
  timed("toDevice", rig.device), timed("toDeviceAgain", rig.device);
  timed("toHost", device_cpu), timed("backToDevice", rig.device);
  for (const DevicePtr each : {one, two, many}) rig.must(call.mem_free(each), "cuMemFree");
}

// Asks what calls return after a kernel has trapped. No call works after that, and every call
// should return the same status.
void losing(const Rig& rig, Json& json) {
  const auto& call = rig.call;
  const EventHandle event = rig.new_event(event_disable_timing);
  const StreamHandle other = rig.new_stream();
  const DevicePtr memory = rig.allocate(4096);
  const SmallGraph graph(rig, memory, memory + 4, 2);
  const GraphExecHandle exec = graph.instantiate();
  void *mine = pages(2), *yours = static_cast<unsigned char*>(mine) + 4096, *host = nullptr,
       *more = nullptr;
  rig.must(call.mem_host_register(mine, 4096, as_hotslot_registers), "cuMemHostRegister");
  rig.must(call.mem_host_alloc(&host, 4096, 0), "cuMemHostAlloc");
  const Function axpby = rig.function("axpby");
  rig.must(rig.launch(rig.function("fail"), nullptr, rig.stream), "cuLaunchKernel");
  json.number("trap", call.stream_synchronize(rig.stream));
  std::set<Status> seen;
  const auto tell = [&](const char* what, Status got) {
    seen.insert(got);
    json.number((std::string("lost_") + what).c_str(), got);
  };
  StreamHandle stream = nullptr;
  EventHandle another = nullptr;
  DevicePtr at = 0;
  size_t free = 0, total = 0;
  long long n = 1;
  float one = 1;
  DevicePtr y = memory, x = memory + 4;
  void* arguments[] = {&y, &x, &n, &one, &one};
  tell("otherStreamQuery", call.stream_query(other));
  tell("eventQuery", call.event_query(event));
  tell("eventRecord", call.event_record(event, other));
  tell("streamWaitEvent", call.stream_wait_event(other, event, 0));
  tell("memset", call.memset_d8_async(memory, 0, 16, other));
  tell("copyToHost", call.memcpy_dtoh_async(host, memory, 16, other));
  tell("launch", rig.launch(axpby, arguments, other));
  tell("graphLaunch", call.graph_launch(exec, other));
  tell("synchronize", call.stream_synchronize(other));
  tell("memGetInfo", call.mem_get_info(&free, &total));
  tell("memAlloc", call.mem_alloc(&at, 4096));
  tell("hostAlloc", call.mem_host_alloc(&more, 4096, 0));
  tell("hostRegister", call.mem_host_register(yours, 4096, as_hotslot_registers));
  tell("streamCreate", call.stream_create(&stream, stream_non_blocking, 0));
  tell("eventCreate", call.event_create(&another, event_default));
  GraphHandle made = nullptr;
  tell("beginCapture", call.stream_begin_capture(other, capture_thread_local));
  tell("endCapture", call.stream_end_capture(other, &made));
  tell("execDestroy", call.graph_exec_destroy(exec));
  tell("hostUnregister", call.mem_host_unregister(mine));
  tell("freeHost", call.mem_free_host(host));
  tell("memFree", call.mem_free(memory));
  tell("eventDestroy", call.event_destroy(event));
  tell("streamDestroy", call.stream_destroy(other));
  std::string statuses;
  for (const Status each : seen) statuses += (statuses.empty() ? "" : " ") + std::to_string(each);
  json.text("lostStatuses", statuses);
}

}  // namespace raw
