// Exports CUDA's interface: three symbols, and the table of cuGetProcAddress_v2 with the versions
// in which signatures changed.
#pragma once
#include "cuda_entry.hpp"

namespace hotslot::software {

// Returns the options of HOTSLOT_SOFTWARE_CUDA, the version among them. They are read once per
// process.
inline const Options& cuda_options() {
  static const Options options = [] {
    const char* text = getenv("HOTSLOT_SOFTWARE_CUDA");
    Options read(text && *text ? text : "13.0");
    if (read.words.empty()) read.words.push_back("13.0");
    return read;
  }();
  return options;
}
inline int cuda_version() {
  char* end = nullptr;
  const long major = strtol(cuda_options().words[0].c_str(), &end, 10);
  return int(major * 1000 + (end && *end == '.' ? strtol(end + 1, nullptr, 10) * 10 : 0));
}
// Returns the newest PTX version that the driver's compiler reads.
inline int ptx_of(int version) {
  static constexpr int known[][2] = {
      {13010, 91}, {13000, 90}, {12090, 88}, {12080, 87}, {12070, 86}, {12050, 85}, {12040, 84},
      {12030, 83}, {12020, 82}, {12010, 81}, {12000, 80}, {11080, 78}, {11000, 70}};
  for (auto& [driver_version, ptx] : known)
    if (version >= driver_version) return ptx;
  return 63;
}

// The function of a call that cuGetProcAddress_v2 returns.
template <auto F, Call& call>
struct Entrance;
template <class... P, Status (*F)(P...), Call& call>
struct Entrance<F, call> {
  static Status enter(P... parameters) {
    return software::enter(call, false, [&] { return F(parameters...); });
  }
};

// Replaces a call whose lookup asks for a version with an older signature.
inline Status other_signature() {
  desk().complaints.say(
      "a call through a signature that is older than the one it was compiled for");
  return status::unknown;
}

struct Listed {
  const char* name;
  int first, ours;  // version that introduced the name, and version of the implemented signature
  void* entrance;
};

// All calls. TABLE entries must have the types of cuda/abi.hpp. `first` is the version that
// introduced the name, perhaps with another signature, and `ours` the version of the implemented
// signature. A name with two implemented signatures is listed twice, with the older one first.
#define SOFTWARE_CUDA_ENTRIES(TABLE, OTHER)                                     \
  TABLE(get_error_name, cuGetErrorName, 6000, 6000)                             \
  TABLE(get_error_string, cuGetErrorString, 6000, 6000)                         \
  TABLE(device_get_count, cuDeviceGetCount, 2000, 2000)                         \
  TABLE(device_get, cuDeviceGet, 2000, 2000)                                    \
  TABLE(device_get_name, cuDeviceGetName, 2000, 2000)                           \
  TABLE(device_get_attribute, cuDeviceGetAttribute, 2000, 2000)                 \
  TABLE(device_total_mem, cuDeviceTotalMem, 2000, 3020)                         \
  TABLE(primary_context_retain, cuDevicePrimaryCtxRetain, 7000, 7000)           \
  TABLE(primary_context_get_state, cuDevicePrimaryCtxGetState, 7000, 7000)      \
  TABLE(primary_context_set_flags, cuDevicePrimaryCtxSetFlags, 7000, 11000)     \
  OTHER(primary_context_release, cuDevicePrimaryCtxRelease, 7000, 11000)        \
  TABLE(context_set_current, cuCtxSetCurrent, 4000, 4000)                       \
  TABLE(context_get_current, cuCtxGetCurrent, 4000, 4000)                       \
  TABLE(stream_priority_range, cuCtxGetStreamPriorityRange, 5050, 5050)         \
  TABLE(device_can_access_peer, cuDeviceCanAccessPeer, 4000, 4000)              \
  TABLE(context_enable_peer_access, cuCtxEnablePeerAccess, 4000, 4000)          \
  TABLE(mem_get_info, cuMemGetInfo, 2000, 3020)                                 \
  TABLE(mem_alloc, cuMemAlloc, 2000, 3020)                                      \
  TABLE(mem_free, cuMemFree, 2000, 3020)                                        \
  TABLE(mem_host_alloc, cuMemHostAlloc, 2020, 2020)                             \
  TABLE(mem_free_host, cuMemFreeHost, 2000, 2000)                               \
  TABLE(mem_host_register, cuMemHostRegister, 4000, 6050)                       \
  TABLE(mem_host_unregister, cuMemHostUnregister, 4000, 4000)                   \
  TABLE(mem_host_get_device_pointer, cuMemHostGetDevicePointer, 2020, 3020)     \
  TABLE(mem_alloc_managed, cuMemAllocManaged, 6000, 6000)                       \
  TABLE(mem_prefetch_v1, cuMemPrefetchAsync, 8000, 8000)                        \
  TABLE(mem_prefetch, cuMemPrefetchAsync, 12020, 12020)                         \
  TABLE(mem_advise_v1, cuMemAdvise, 8000, 8000)                                 \
  TABLE(mem_advise, cuMemAdvise, 12020, 12020)                                  \
  TABLE(mem_range_get_attribute, cuMemRangeGetAttribute, 8000, 8000)            \
  TABLE(stream_create, cuStreamCreateWithPriority, 5050, 5050)                  \
  TABLE(stream_destroy, cuStreamDestroy, 2000, 4000)                            \
  TABLE(stream_query, cuStreamQuery, 2000, 2000)                                \
  TABLE(stream_synchronize, cuStreamSynchronize, 2000, 2000)                    \
  TABLE(stream_wait_event, cuStreamWaitEvent, 3020, 3020)                       \
  OTHER(stream_is_capturing, cuStreamIsCapturing, 10000, 10000)                 \
  TABLE(event_create, cuEventCreate, 2000, 2000)                                \
  TABLE(event_destroy, cuEventDestroy, 2000, 4000)                              \
  TABLE(event_record, cuEventRecord, 2000, 2000)                                \
  TABLE(event_record_with_flags, cuEventRecordWithFlags, 11010, 11010)          \
  TABLE(event_query, cuEventQuery, 2000, 2000)                                  \
  OTHER(event_synchronize, cuEventSynchronize, 2000, 2000)                      \
  TABLE(event_elapsed_time, cuEventElapsedTime, 2000, 2000)                     \
  TABLE(memcpy_htod_async, cuMemcpyHtoDAsync, 2000, 3020)                       \
  TABLE(memcpy_dtoh_async, cuMemcpyDtoHAsync, 2000, 3020)                       \
  TABLE(memcpy_dtod_async, cuMemcpyDtoDAsync, 3000, 3020)                       \
  TABLE(memcpy_async, cuMemcpyAsync, 4000, 4000)                                \
  TABLE(memcpy_peer_async, cuMemcpyPeerAsync, 4000, 4000)                       \
  TABLE(memset_d8_async, cuMemsetD8Async, 3020, 3020)                           \
  TABLE(memset_d16_async, cuMemsetD16Async, 3020, 3020)                         \
  TABLE(memset_d32_async, cuMemsetD32Async, 3020, 3020)                         \
  TABLE(exchange_capture_mode, cuThreadExchangeStreamCaptureMode, 10010, 10010) \
  TABLE(stream_begin_capture, cuStreamBeginCapture, 10000, 10010)               \
  TABLE(stream_end_capture, cuStreamEndCapture, 10000, 10000)                   \
  TABLE(graph_destroy, cuGraphDestroy, 10000, 10000)                            \
  TABLE(graph_get_nodes, cuGraphGetNodes, 10000, 10000)                         \
  TABLE(graph_instantiate, cuGraphInstantiateWithFlags, 11040, 11040)           \
  TABLE(graph_upload, cuGraphUpload, 11010, 11010)                              \
  TABLE(graph_launch, cuGraphLaunch, 10000, 10000)                              \
  TABLE(graph_exec_update, cuGraphExecUpdate, 10020, 12000)                     \
  TABLE(graph_exec_destroy, cuGraphExecDestroy, 10000, 10000)                   \
  TABLE(module_load_data, cuModuleLoadData, 2000, 2000)                         \
  TABLE(module_unload, cuModuleUnload, 2000, 2000)                              \
  TABLE(module_get_function, cuModuleGetFunction, 2000, 2000)                   \
  TABLE(func_load, cuFuncLoad, 12040, 12040)                                    \
  TABLE(launch_kernel, cuLaunchKernel, 4000, 4000)

#define SOFTWARE_CALL(operation, symbol, first, ours) inline Call call_of_##operation(#symbol);
SOFTWARE_CUDA_ENTRIES(SOFTWARE_CALL, SOFTWARE_CALL)
#undef SOFTWARE_CALL

#define SOFTWARE_SAME(operation, symbol, first, ours)                                       \
  static_assert(                                                                            \
      std::is_same_v<decltype(cuda::Table{}.operation.function), decltype(&op::operation)>, \
      #symbol " is not what cuda/abi.hpp says");
#define SOFTWARE_NOTHING(operation, symbol, first, ours)
SOFTWARE_CUDA_ENTRIES(SOFTWARE_SAME, SOFTWARE_NOTHING)

inline const std::vector<Listed>& listed() {
#define SOFTWARE_LISTED(operation, symbol, first, ours) \
  {#symbol, first, ours,                                \
   reinterpret_cast<void*>(&Entrance<&op::operation, call_of_##operation>::enter)},
  static const std::vector<Listed> list{SOFTWARE_CUDA_ENTRIES(SOFTWARE_LISTED, SOFTWARE_LISTED)};
  return list;
}

inline Call call_cuInit("cuInit"), call_cuDriverGetVersion("cuDriverGetVersion"),
    call_cuGetProcAddress("cuGetProcAddress");

}  // namespace hotslot::software

SOFTWARE_EXPORT int cuInit(unsigned flags) {
  using namespace hotslot::software;
  return enter(call_cuInit, true, [&]() -> Status {
    Driver& all = driver();
    demand(flags == 0, status::invalid_value);
    if (all.initialised) return 0;
    const Options& options = cuda_options();
    all.version = cuda_version();
    const std::string ptx = options.get("ptx", "");
    all.ptx = ptx.empty() ? ptx_of(all.version) : tenths(ptx);
    all.cc = tenths(options.get("cc", "8.0"));
    demand(options.number("devices", 1) > 0, status::no_device);
    make_devices(options);
    take_time();
    all.initialised = true;
    return 0;
  });
}

SOFTWARE_EXPORT int cuDriverGetVersion(int* version) {
  using namespace hotslot::software;
  return enter(call_cuDriverGetVersion, true, [&]() -> Status {
    demand(version, status::invalid_value);
    *version = cuda_version();
    return 0;
  });
}

// Finds the newest signature that is not newer than the caller's `version`.
SOFTWARE_EXPORT int cuGetProcAddress_v2(const char* name, void** out, int version, uint64_t flags,
                                        int* symbol_status) {
  using namespace hotslot::software;
  return enter(call_cuGetProcAddress, true, [&]() -> Status {
    enum Found : int { success = 0, not_found = 1, version_not_sufficient = 2 };
    demand(name && out && flags <= 2 && version <= cuda_version(), status::invalid_value);
    Found found = not_found;
    *out = nullptr;
    for (auto [own, entrance] :
         {std::pair<const char*, void*>{"cuInit", reinterpret_cast<void*>(&cuInit)},
          {"cuDriverGetVersion", reinterpret_cast<void*>(&cuDriverGetVersion)},
          {"cuGetProcAddress", reinterpret_cast<void*>(&cuGetProcAddress_v2)}})
      if (strcmp(name, own) == 0) *out = entrance, found = success;
    for (const Listed& entry : listed()) {
      if (strcmp(name, entry.name) != 0) continue;
      if (version < entry.first) {
        if (found == not_found) found = version_not_sufficient;
        break;
      }
      found = success;
      *out = version >= entry.ours ? entry.entrance : reinterpret_cast<void*>(&other_signature);
    }
    if (symbol_status) *symbol_status = found;
    return 0;
  });
}
