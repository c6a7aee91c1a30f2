// raw_cuda facts INDEX SECONDS, a line of JSON per fact: how this driver behaves where its documents leave it open, and
// Hotslot's books depend on it. Times are milliseconds that a call kept its thread while another stream was busy for
// 100; a call that does not wait takes next to none.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>

#include "raw_cuda.hpp"

namespace raw {
namespace {

constexpr long long busy_us = 100'000;

// The call's time beside a stream that is busy, and what it answered when that was no success.
template <class F>
void beside_work(const Rig& rig, StreamHandle busy, Json& json, const char* what, F&& act) {
  long long us = busy_us;
  void* arguments[] = {&us};
  rig.must(rig.launch(rig.function("spin"), arguments, busy), "cuLaunchKernel");
  const double begin = now_us();
  const Status got = act();
  json.number((std::string("msBeside_") + what).c_str(), (now_us() - begin) / 1000);
  if (got != status::success) json.number((std::string("status_") + what).c_str(), got);
  rig.must(rig.call.stream_synchronize(busy), "cuStreamSynchronize");
}

void* pages(size_t count) {
  void* at = mmap(nullptr, count * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (at == MAP_FAILED) fail("no memory");
  return at;
}

// How long calls wait for work of another stream.
void waiting(const Rig& rig, Json& json) {
  const auto& call = rig.call;
  const StreamHandle busy = rig.new_stream();
  const DevicePtr memory = rig.allocate(1 << 20);
  DevicePtr another = 0;
  void *host = nullptr, *mine = pages(256), *pageable = pages(256);
  StreamHandle stream = nullptr;
  EventHandle event = nullptr;
  Module module = nullptr;
  beside_work(rig, busy, json, "launch", [] { return status::success; });
  beside_work(rig, busy, json, "memAlloc", [&] { return call.mem_alloc(&another, 64 << 20); });
  beside_work(rig, busy, json, "memFree", [&] { return call.mem_free(another); });
  beside_work(rig, busy, json, "hostAlloc", [&] { return call.mem_host_alloc(&host, 64 << 20, 0); });
  beside_work(rig, busy, json, "freeHost", [&] { return call.mem_free_host(host); });
  beside_work(rig, busy, json, "hostRegister",
              [&] { return call.mem_host_register(mine, 1 << 20, host_register_portable | host_register_devicemap); });
  beside_work(rig, busy, json, "hostUnregister", [&] { return call.mem_host_unregister(mine); });
  beside_work(rig, busy, json, "streamCreate", [&] { return call.stream_create(&stream, stream_non_blocking, 0); });
  beside_work(rig, busy, json, "streamDestroy", [&] { return call.stream_destroy(stream); });
  beside_work(rig, busy, json, "eventCreate", [&] { return call.event_create(&event, event_default); });
  beside_work(rig, busy, json, "eventDestroy", [&] { return call.event_destroy(event); });
  beside_work(rig, busy, json, "moduleLoad",
              [&] { return call.module_load_data(&module, hotslot::ptx_images[0].data); });
  beside_work(rig, busy, json, "moduleUnload", [&] { return call.module_unload(module); });
  beside_work(rig, busy, json, "copyFromPageable",
              [&] { return call.memcpy_htod_async(memory, pageable, 1 << 20, rig.stream); });
  beside_work(rig, busy, json, "copyFromPageableSameStream",
              [&] { return call.memcpy_htod_async(memory, pageable, 1 << 20, busy); });
}

// What registration takes: ranges that overlap, and ranges apart that share a page.
void registering(const Rig& rig, Json& json) {
  const auto& call = rig.call;
  auto* at = static_cast<unsigned char*>(pages(4));
  const auto take = [&](size_t from, size_t bytes) {
    return call.mem_host_register(at + from, bytes, host_register_portable | host_register_devicemap);
  };
  rig.must(take(0, 4096), "cuMemHostRegister");
  json.number("registerAgain", take(0, 4096)).number("registerOverlapping", take(0, 8192));
  json.number("unregister", call.mem_host_unregister(at)).number("unregisterAgain", call.mem_host_unregister(at));
  json.number("registerPartOfPage", take(16, 64)).number("registerSamePageApart", take(1024, 64));
  call.mem_host_unregister(at + 1024), call.mem_host_unregister(at + 16);
}

// What a capture in this thread's mode bars, and whether trying breaks it.
void capturing(const Rig& rig, Json& json) {
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
    json.number((std::string("endCapture_") + what).c_str(), call.stream_end_capture(stream, &graph));
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

// How many streams can be held while another one goes on: they share hardware queues (CUDA_DEVICE_MAX_CONNECTIONS). A
// queue clogs when work that has to wait stands at its head, so `behind` each latch there is some, or not.
int held_beside_a_free_one(const Rig& rig, bool behind) {
  const auto& call = rig.call;
  // Opened from the host: a stream for it could share a queue with one that is held.
  auto* const gate = static_cast<volatile int*>(pages(1));
  DevicePtr word = 0;
  rig.must(call.mem_host_register(const_cast<int*>(gate), 4096, host_register_portable | host_register_devicemap),
           "cuMemHostRegister");
  rig.must(call.mem_host_get_device_pointer(&word, const_cast<int*>(gate), 0), "cuMemHostGetDevicePointer");
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
  for (const StreamHandle stream : held) rig.must(call.stream_synchronize(stream), "cuStreamSynchronize");
  rig.must(call.stream_synchronize(free), "cuStreamSynchronize");
  rig.must(call.mem_host_unregister(const_cast<int*>(gate)), "cuMemHostUnregister");
  return goes_on ? most : most - 1;
}

void holding(const Rig& rig, Json& json) {
  json.number("streamsHeldBesideAFreeOne", held_beside_a_free_one(rig, false));
  json.number("streamsHeldWithWorkBehindThem", held_beside_a_free_one(rig, true));
}

// What a kernel that traps leaves: last, for nothing works behind it.
void losing(const Rig& rig, Json& json) {
  const auto& call = rig.call;
  const EventHandle event = rig.new_event(event_disable_timing);
  const StreamHandle other = rig.new_stream();
  const DevicePtr memory = rig.allocate(4096);
  rig.must(rig.launch(rig.function("fail"), nullptr, rig.stream), "cuLaunchKernel");
  json.number("trap", call.stream_synchronize(rig.stream));
  StreamHandle stream = nullptr;
  EventHandle another = nullptr;
  DevicePtr at = 0;
  size_t free = 0, total = 0;
  json.number("lost_otherStreamQuery", call.stream_query(other)).number("lost_eventQuery", call.event_query(event));
  json.number("lost_eventRecord", call.event_record(event, other))
      .number("lost_streamWaitEvent", call.stream_wait_event(other, event, 0));
  json.number("lost_memset", call.memset_d8_async(memory, 0, 16, other))
      .number("lost_memGetInfo", call.mem_get_info(&free, &total));
  json.number("lost_memAlloc", call.mem_alloc(&at, 4096))
      .number("lost_streamCreate", call.stream_create(&stream, stream_non_blocking, 0));
  json.number("lost_eventCreate", call.event_create(&another, event_default))
      .number("lost_beginCapture", call.stream_begin_capture(other, capture_thread_local));
  json.number("lost_memFree", call.mem_free(memory))
      .number("lost_eventDestroy", call.event_destroy(event))
      .number("lost_streamDestroy", call.stream_destroy(other));
}

}  // namespace

// Each part in a process of its own, which opens the driver itself: what one of them loses, the others still tell.
// After so many seconds it is ended; 0: never. How many parts did not come to their end.
int facts(int index, unsigned seconds) {
  const char* connections = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  Json("setting").text("CUDA_DEVICE_MAX_CONNECTIONS", connections ? connections : "");
  const std::pair<const char*, void (*)(const Rig&, Json&)> parts[] = {{"waiting", waiting},
                                                                       {"registering", registering},
                                                                       {"capturing", capturing},
                                                                       {"holding", holding},
                                                                       {"losing", losing}};
  int lost = 0;
  for (const auto& [name, part] : parts) {
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child < 0) fail("no process for a part");
    if (child == 0) {
      alarm(seconds);
      const Rig rig{index};
      Json json(name);
      json.text("device", rig.name).number("cuda", rig.version);
      part(rig, json);
      std::fflush(nullptr);
      // Not through the driver's own ending: a context that was lost may hang there.
      _exit(0);
    }
    int how = 0;
    waitpid(child, &how, 0);
    const bool ended = WIFEXITED(how) && WEXITSTATUS(how) == 0;
    Json(name).text("end", ended              ? "ok"
                           : WIFSIGNALED(how) ? "signal " + std::to_string(WTERMSIG(how))
                                              : "status " + std::to_string(WEXITSTATUS(how)));
    lost += !ended;
  }
  return lost;
}

}  // namespace raw
