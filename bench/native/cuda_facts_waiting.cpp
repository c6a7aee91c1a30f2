// Facts about calls that wait, either for the work of another stream or for another thread inside
// the driver.
#include <pthread.h>
#include <unistd.h>

#include <thread>

#include "cuda_facts.hpp"

namespace raw {
namespace {

void waiting_memory(const Rig& rig, StreamHandle busy, Json& json) {
  const auto& call = rig.call;
  const DevicePtr memory = rig.allocate(1 << 20);
  DevicePtr small = 0, large = 0;
  void *host = nullptr, *mine = pages(256), *pageable = pages(256);
  beside_work(rig, busy, json, "nothing", [] { return status::success; });
  beside_work(rig, busy, json, "memAllocSmall", [&] { return call.mem_alloc(&small, 256); });
  beside_work(rig, busy, json, "memAlloc", [&] { return call.mem_alloc(&large, 64 << 20); });
  beside_work(rig, busy, json, "memFreeSmall", [&] { return call.mem_free(small); });
  beside_work(rig, busy, json, "memFree", [&] { return call.mem_free(large); });
  beside_work(rig, busy, json, "hostAlloc",
              [&] { return call.mem_host_alloc(&host, 64 << 20, 0); });
  beside_work(rig, busy, json, "freeHost", [&] { return call.mem_free_host(host); });
  void* few = nullptr;
  beside_work(rig, busy, json, "hostAllocSmall",
              [&] { return call.mem_host_alloc(&few, 4096, 0); });
  rig.must(call.mem_free_host(few), "cuMemFreeHost");
  const double begin = now_us();
  rig.must(call.mem_host_alloc(&host, 64 << 20, 0), "cuMemHostAlloc");
  json.number("msAlone_hostAlloc", (now_us() - begin) / 1000);
  rig.must(call.mem_free_host(host), "cuMemFreeHost");
  beside_work(rig, busy, json, "hostRegister",
              [&] { return call.mem_host_register(mine, 1 << 20, as_hotslot_registers); });
  beside_work(rig, busy, json, "hostUnregister", [&] { return call.mem_host_unregister(mine); });
  beside_work(rig, busy, json, "copyFromPageable",
              [&] { return call.memcpy_htod_async(memory, pageable, 1 << 20, rig.stream); });
  beside_work(rig, busy, json, "copyFromPageableSameStream",
              [&] { return call.memcpy_htod_async(memory, pageable, 1 << 20, busy); });
  beside_work(rig, busy, json, "copyToPageable",
              [&] { return call.memcpy_dtoh_async(pageable, memory, 1 << 20, rig.stream); });
  rig.synchronize();
  rig.must(call.mem_free(memory), "cuMemFree");
}

void waiting_managed(const Rig& rig, StreamHandle busy, Json& json) {
  if (!has_managed(rig)) return static_cast<void>(json.text("managed", "none"));
  constexpr size_t bytes = 1 << 20;
  DevicePtr at = 0;
  beside_work(rig, busy, json, "allocManaged",
              [&] { return rig.call.mem_alloc_managed(&at, bytes, mem_attach_global); });
  if (!at) return;
  beside_work(rig, busy, json, "memAdvise", [&] { return prefer(rig, at, bytes, rig.device); });
  beside_work(rig, busy, json, "prefetch",
              [&] { return prefetch(rig, at, bytes, rig.device, rig.stream); });
  rig.synchronize();
  beside_work(rig, busy, json, "freeManaged", [&] { return rig.call.mem_free(at); });
}

void waiting_objects(const Rig& rig, StreamHandle busy, Json& json) {
  const auto& call = rig.call;
  StreamHandle stream = nullptr;
  EventHandle event = nullptr;
  Module module = nullptr;
  beside_work(rig, busy, json, "streamCreate",
              [&] { return call.stream_create(&stream, stream_non_blocking, 0); });
  beside_work(rig, busy, json, "streamDestroy", [&] { return call.stream_destroy(stream); });
  beside_work(rig, busy, json, "eventCreate",
              [&] { return call.event_create(&event, event_default); });
  beside_work(rig, busy, json, "eventDestroy", [&] { return call.event_destroy(event); });
  beside_work(rig, busy, json, "moduleLoad",
              [&] { return call.module_load_data(&module, hotslot::ptx_images[0].data); });
  beside_work(rig, busy, json, "moduleUnload", [&] { return call.module_unload(module); });
  const DevicePtr y = rig.allocate(4), x = rig.allocate(4), z = rig.allocate(4);
  {
    const SmallGraph one(rig, y, x, 10), other(rig, z, x, 10);
    GraphExecHandle exec = nullptr;
    ExecUpdateResult result{};
    beside_work(rig, busy, json, "graphInstantiate",
                [&] { return call.graph_instantiate(&exec, one.graph, 0); });
    beside_work(rig, busy, json, "graphLaunch",
                [&] { return call.graph_launch(exec, rig.stream); });
    rig.synchronize();
    beside_work(rig, busy, json, "execUpdate",
                [&] { return call.graph_exec_update(exec, other.graph, &result); });
    beside_work(rig, busy, json, "execDestroy", [&] { return call.graph_exec_destroy(exec); });
  }
  for (const DevicePtr each : {x, y, z}) rig.must(call.mem_free(each), "cuMemFree");
}

// Measures the time of a call while another thread is inside a free, which may wait for a busy
// stream.
template <class F>
void beside_free(const Rig& rig, StreamHandle busy, Json& json, const std::string& what, F&& act) {
  const auto& call = rig.call;
  DevicePtr memory = 0;
  rig.must(call.mem_alloc(&memory, 1 << 20), "cuMemAlloc");
  rig.occupy(busy, busy_us);
  std::thread other([&] {
    rig.must(call.context_set_current(rig.context), "cuCtxSetCurrent");
    rig.must(call.mem_free(memory), "cuMemFree");
  });
  usleep(20'000);
  const double begin = now_us();
  const Status got = act();
  json.number(("msWhileAnotherFrees_" + what).c_str(), (now_us() - begin) / 1000);
  if (got != status::success && got != status::not_ready)
    json.number(("status_" + what).c_str(), got);
  other.join();
  rig.must(call.stream_synchronize(busy), "cuStreamSynchronize");
}

}  // namespace

void waiting(const Rig& rig, Json& json) {
  const auto& call = rig.call;
  const StreamHandle busy = rig.new_stream();
  waiting_memory(rig, busy, json);
  waiting_objects(rig, busy, json);
  waiting_managed(rig, busy, json);
  const EventHandle event = rig.new_event(event_disable_timing);
  const DevicePtr memory = rig.allocate(4096);
  rig.must(call.event_record(event, rig.stream), "cuEventRecord");
  beside_free(rig, busy, json, "eventQuery", [&] { return call.event_query(event); });
  beside_free(rig, busy, json, "streamQuery", [&] { return call.stream_query(rig.stream); });
  beside_free(rig, busy, json, "memset",
              [&] { return call.memset_d32_async(memory, 1, 1, rig.stream); });
  beside_free(rig, busy, json, "eventRecord", [&] { return call.event_record(event, rig.stream); });
  rig.synchronize();
}

namespace {

struct Blas {
  std::string name, reason;
  int (*create)(void**) = nullptr;
  int (*set_stream)(void*, StreamHandle) = nullptr;
  int (*set_workspace)(void*, void*, size_t) = nullptr;
  int (*sgemm)(void*, int, int, int, int, int, const float*, const float*, int, const float*, int,
               const float*, float*, int) = nullptr;

  bool open() {
    const char* path = std::getenv("HOTSLOT_CUBLAS");
    const char* driver = std::getenv("HOTSLOT_CUDA");
    const bool named = path && *path;
    if (named && std::string(path) == "none") return reason = "HOTSLOT_CUBLAS=none", false;
    // The system's cuBLAS would load the system's driver, and not the one that HOTSLOT_CUDA names.
    if (!named && driver && *driver)
      return reason = "not tried over the driver that HOTSLOT_CUDA names", false;
    for (const char* each :
         {named ? path : "libcublas.so.13", "libcublas.so.12", "libcublas.so.11"}) {
      void* library = dlopen(each, RTLD_NOW);
      if (library) return name = each, find(library);
      reason += (reason.empty() ? "" : "; ") + std::string(dlerror());
      if (named) break;
    }
    return false;
  }

 private:
  bool find(void* library) {
    const auto symbol = [&](auto& function, const char* its_name) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, its_name));
      return function != nullptr;
    };
    const bool all =
        symbol(create, "cublasCreate_v2") && symbol(set_stream, "cublasSetStream_v2") &&
        symbol(set_workspace, "cublasSetWorkspace_v2") && symbol(sgemm, "cublasSgemm_v2");
    if (!all) reason = name + " is no cuBLAS";
    return all;
  }
};

}  // namespace

void products(const Rig& rig, Json& json) {
  Blas blas;
  if (!blas.open()) return static_cast<void>(json.text("cublas", "none: " + blas.reason));
  json.text("cublas", blas.name);
  const auto& call = rig.call;
  const StreamHandle busy = rig.new_stream();
  constexpr int most = 512;
  constexpr size_t room = 4 << 20, bytes = size_t(most) * most * sizeof(float);
  const DevicePtr a = rig.allocate(bytes), b = rig.allocate(bytes), c = rig.allocate(bytes),
                  work = rig.allocate(room);
  rig.occupy(rig.stream, 1);
  rig.synchronize();
  void* handle = nullptr;
  beside_work(rig, busy, json, "cublasCreate", [&] { return blas.create(&handle); });
  if (!handle) return;
  const auto product = [&](int size, bool transposed) {
    const float alpha = 1, beta = 0;
    blas.set_stream(handle, rig.stream);
    blas.set_workspace(handle, reinterpret_cast<void*>(work), room);
    return blas.sgemm(handle, transposed, 0, size, size, size, &alpha,
                      reinterpret_cast<const float*>(a), size, reinterpret_cast<const float*>(b),
                      size, &beta, reinterpret_cast<float*>(c), size);
  };
  const auto beside = [&](const char* what, int size, bool transposed) {
    beside_work(rig, busy, json, what, [&] { return product(size, transposed); });
    rig.synchronize();
  };
  beside("sgemmFirst", 32, false);
  beside("sgemmAgain", 32, false);
  beside("sgemmTransposed", 32, true);
  beside("sgemmLarge", most, false);
  beside("sgemmLargeAgain", most, false);
  // cuBLAS may have to load a kernel inside the capture for a new shape.
  GraphHandle graph = nullptr;
  rig.must(call.stream_begin_capture(rig.stream, capture_relaxed), "cuStreamBeginCapture");
  const double begin = now_us();
  json.number("inCapture_sgemmNewShape", product(96, true));
  json.number("msInCapture_sgemmNewShape", (now_us() - begin) / 1000);
  json.number("endCapture_sgemmNewShape", call.stream_end_capture(rig.stream, &graph));
  if (graph) call.graph_destroy(graph);
}

}  // namespace raw
