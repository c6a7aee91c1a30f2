// Calls the CUDA driver without Hotslot, so that benchmarks can compare the costs. Uses no toolkit
// and no vendor header. The declarations and the kernels' images are Hotslot's.
#pragma once
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "device/cuda/abi.hpp"
#include "kernels/images.hpp"

namespace raw {

using namespace hotslot::cuda;

[[noreturn]] inline void fail(const std::string& sentence) {
  std::fprintf(stderr, "raw_cuda: %s\n", sentence.c_str());
  std::exit(1);
}

inline double now_us() {
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.at(values.size() / 2);
}

// What every command starts with: the driver's functions, the device's primary context as the
// current one, a stream, and the kernels.
struct Rig {
  Table call;
  int version = 0;
  DeviceId device = 0;
  std::string name;
  double context_us = 0, module_us = 0;  // time to create each
  Context context = nullptr;
  StreamHandle stream = nullptr;
  Module module = nullptr;

  explicit Rig(int index, bool kernels = true) {
    const char* path = std::getenv("HOTSLOT_CUDA");
    void* library = dlopen(path && *path ? path : "libcuda.so.1", RTLD_NOW);
    if (!library) fail(dlerror());
    const double begin = now_us();
    const auto init = reinterpret_cast<Init>(dlsym(library, "cuInit"));
    const auto get_version =
        reinterpret_cast<DriverGetVersion>(dlsym(library, "cuDriverGetVersion"));
    const auto lookup = reinterpret_cast<GetProcAddress>(dlsym(library, "cuGetProcAddress_v2"));
    if (!init || !get_version || !lookup) fail("no CUDA driver of 12.0 or newer");
    must(init(0), "cuInit"), must(get_version(&version), "cuDriverGetVersion");
    const auto find = [&](auto& entry, int since) {
      void* found = nullptr;
      int how = 0;
      if (lookup(entry.name, &found, since, lookup_legacy_stream, &how) == status::success)
        entry.function = reinterpret_cast<decltype(entry.function)>(found);
    };
#define RAW_FIND(name, symbol, since, parameters) find(call.name, since);
    HOTSLOT_CUDA_ENTRIES(RAW_FIND, RAW_FIND)
#undef RAW_FIND
    must(call.device_get(&device, index), "cuDeviceGet");
    char text[256] = "";
    must(call.device_get_name(text, sizeof text, device), "cuDeviceGetName");
    name = text;
    must(call.primary_context_set_flags(device, sched_blocking_sync), "cuDevicePrimaryCtxSetFlags");
    must(call.primary_context_retain(&context, device), "cuDevicePrimaryCtxRetain");
    must(call.context_set_current(context), "cuCtxSetCurrent");
    stream = new_stream();
    context_us = now_us() - begin;
    if (kernels)
      must(call.module_load_data(&module, hotslot::ptx_images[0].data), "cuModuleLoadData");
    module_us = now_us() - begin - context_us;
  }

  void must(Status status, const char* what) const {
    if (status == status::success) return;
    const char* name = nullptr;
    const bool known =
        call.get_error_name && call.get_error_name(status, &name) == status::success && name;
    fail(std::string(what) + " failed with " + std::to_string(status) +
         (known ? " " + std::string(name) : ""));
  }
  StreamHandle new_stream() const {
    StreamHandle made = nullptr;
    must(call.stream_create(&made, stream_non_blocking, 0), "cuStreamCreateWithPriority");
    return made;
  }
  EventHandle new_event(unsigned flags) const {
    EventHandle made = nullptr;
    must(call.event_create(&made, flags), "cuEventCreate");
    return made;
  }
  DevicePtr allocate(size_t bytes) const {
    DevicePtr at = 0;
    must(call.mem_alloc(&at, bytes), "cuMemAlloc");
    must(call.memset_d8_async(at, 0, bytes, stream), "cuMemsetD8Async");
    return synchronize(), at;
  }
  void synchronize() const { must(call.stream_synchronize(stream), "cuStreamSynchronize"); }
  Function function(const char* kernel) const {
    Function found = nullptr;
    must(call.module_get_function(&found, module, kernel), "cuModuleGetFunction");
    return found;
  }
  // Launches as Hotslot does for one element.
  Status launch(Function kernel, void** arguments, StreamHandle on) const {
    return call.launch_kernel(kernel, 1, 1, 1, 256, 1, 1, 0, on, arguments, nullptr);
  }
  // Enqueues a kernel that keeps the stream busy for `us` microseconds.
  void occupy(StreamHandle which, long long us) const {
    void* arguments[] = {&us};
    must(launch(function("spin"), arguments, which), "cuLaunchKernel");
  }
  // Keeps the GPU busy for `seconds` before a measurement. An idle GPU lowers its clocks and the
  // speed of its PCIe link.
  void warm_up(double seconds) const {
    for (const double end = now_us() + seconds * 1e6; now_us() < end; synchronize())
      occupy(stream, 5000);
  }
};

// Prints one flat JSON object, in the order of the calls. With a part's name it prints each value
// at once as an object on its own line. If a later call hangs or crashes, the earlier values are
// already printed.
class Json {
 public:
  explicit Json(const char* part = nullptr) : part_(part) {}
  Json& number(const char* key, double value) {
    char text[64];
    std::snprintf(text, sizeof text, "%.9g", value);
    return add(key, text);
  }
  Json& text(const char* key, const std::string& value) {
    std::string quoted = "\"";
    for (const char c : value)
      quoted += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
    return add(key, quoted + "\"");
  }
  void print() const { std::printf("{%s}\n", body_.c_str()); }

 private:
  Json& add(const char* key, const std::string& value) {
    if (part_) {
      std::printf("{\"part\":\"%s\",\"%s\":%s}\n", part_, key, value.c_str());
      std::fflush(stdout);
      return *this;
    }
    body_ += (body_.empty() ? "\"" : ",\"") + std::string(key) + "\":" + value;
    return *this;
  }
  const char* const part_;
  std::string body_;
};

}  // namespace raw
