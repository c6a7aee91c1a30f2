// Exports HIP's interface as plain symbols. HOTSLOT_SOFTWARE_HIP is 5 for the calls of ROCm 5.2,
// and 7 for all calls. HIP shows no contexts: a thread has a current device, at first device 0, and
// every call initializes the driver.
#pragma once
#include "cuda_entry.hpp"

namespace hotslot::software {

inline const Options& hip_options() {
  static const Options options(getenv("HOTSLOT_SOFTWARE_HIP"));
  return options;
}

inline void hip_ready() {
  Driver& all = driver();
  if (all.initialised) return;
  all.arch = hip_options().get("arch", "gfx90a");
  make_devices(hip_options());
  all.initialised = true;
}

template <class F>
Status hip_enter(Call& call, F&& f) {
  const Status status = enter(call, true, [&] {
    hip_ready();
    return f();
  });
  if (status) thread_state().last = status;
  return status;
}

// HIP has its own numbers of attributes.
inline Status hip_attribute(int* out, int attribute, int device) {
  op::device_at(device);
  demand(out && attribute >= 0 && (attribute <= 88 || (attribute >= 10000 && attribute < 20000)),
         status::invalid_value);
  enum {
    async_engines = 2,
    can_map_host_memory = 3,
    concurrent_managed = 9,
    cc_major = 23,
    managed = 24
  };
  enum { max_threads_per_block = 56, multiprocessors = 63 };
  static const std::map<int, int> known{{async_engines, 2},
                                        {can_map_host_memory, 1},
                                        {cc_major, 9},
                                        {max_threads_per_block, 1024},
                                        {multiprocessors, 2}};
  const auto found = known.find(attribute);
  *out = found == known.end() ? 0 : found->second;
  if (attribute == managed) *out = driver().managed;
  if (attribute == concurrent_managed) *out = driver().managed && driver().concurrent;
  return 0;
}

// Copies, and rejects a copy whose direction does not match its addresses. Kind 4 accepts any
// addresses.
inline Status hip_memcpy(void* to, const void* from, size_t bytes, int kind,
                         cuda::StreamHandle on) {
  constexpr Status invalid_direction = 21;
  demand(kind >= 0 && kind <= 4, invalid_direction);
  if (kind != 4 && bytes > 0) {
    const auto on_device = [&](const void* at) {
      const Ref<Range> range = op::range_around(uintptr_t(at));
      return range && range->kind == Range::device;
    };
    demand(on_device(to) == (kind == 1 || kind == 3) && on_device(from) == (kind == 2 || kind == 3),
           invalid_direction);
  }
  return op::memcpy_async(uintptr_t(to), uintptr_t(from), bytes, on);
}

}  // namespace hotslot::software

// Arguments: the name, the parameters, and the expression that returns the status.
#define SOFTWARE_HIP_CALL(symbol, parameters, does)                    \
  static hotslot::software::Call call_##symbol(#symbol);               \
  SOFTWARE_EXPORT int symbol parameters {                              \
    using namespace hotslot::software;                                 \
    return hip_enter(call_##symbol, [&]() -> Status { return does; }); \
  }

using HipStream = hotslot::cuda::StreamHandle;
using HipEvent = hotslot::cuda::EventHandle;
using HipGraph = hotslot::cuda::GraphHandle;
using HipExec = hotslot::cuda::GraphExecHandle;
using HipNode = hotslot::cuda::GraphNode;
using HipModule = hotslot::cuda::Module;
using HipFunction = hotslot::cuda::Function;
using HipPointer = hotslot::cuda::DevicePtr;  // void* in HIP's headers
using HipCaptureMode = hotslot::cuda::CaptureMode;
using HipAdvice = hotslot::cuda::MemoryAdvice;
using HipRangeAttribute = hotslot::cuda::RangeAttribute;

SOFTWARE_HIP_CALL(hipInit, (unsigned flags),
                  flags                      ? status::invalid_value
                  : driver().devices.empty() ? status::invalid_device
                                             : 0)
SOFTWARE_HIP_CALL(hipDriverGetVersion, (int* out),
                  (*out = HOTSLOT_SOFTWARE_HIP < 7 ? 50221153 : 70051831, 0))
SOFTWARE_HIP_CALL(hipRuntimeGetVersion, (int* out),
                  (*out = HOTSLOT_SOFTWARE_HIP < 7 ? 50221153 : 70051831, 0))
SOFTWARE_HIP_CALL(hipGetDeviceCount, (int* out),
                  op::device_get_count(out) ? status::invalid_value
                  : *out == 0               ? status::no_device
                                            : 0)
SOFTWARE_HIP_CALL(hipDeviceGet, (int* out, int index), op::device_get(out, index))
SOFTWARE_HIP_CALL(hipDeviceGetName, (char* out, int length, int device),
                  op::device_get_name(out, length, device))
SOFTWARE_HIP_CALL(hipDeviceGetAttribute, (int* out, int attribute, int device),
                  hip_attribute(out, attribute, device))
SOFTWARE_HIP_CALL(hipDeviceTotalMem, (size_t * out, int device), op::device_total_mem(out, device))
SOFTWARE_HIP_CALL(hipSetDevice, (int device), (thread_state().current = &op::device_at(device), 0))
SOFTWARE_HIP_CALL(hipGetDevice, (int* out),
                  out ? (*out = op::current().index, 0) : status::invalid_value)
SOFTWARE_HIP_CALL(hipMemGetInfo, (size_t * free, size_t* total), op::mem_get_info(free, total))
SOFTWARE_HIP_CALL(hipMalloc, (HipPointer * out, size_t bytes), op::mem_alloc(out, bytes))
SOFTWARE_HIP_CALL(hipFree, (HipPointer at), op::mem_free(at))
SOFTWARE_HIP_CALL(hipMallocManaged, (HipPointer * out, size_t bytes, unsigned flags),
                  op::mem_alloc_managed(out, bytes, flags))
SOFTWARE_HIP_CALL(hipMemPrefetchAsync, (HipPointer at, size_t bytes, int device, HipStream on),
                  op::mem_prefetch_v1(at, bytes, device, on))
SOFTWARE_HIP_CALL(hipMemAdvise, (HipPointer at, size_t bytes, HipAdvice advice, int device),
                  op::mem_advise_v1(at, bytes, advice, device))
SOFTWARE_HIP_CALL(hipMemRangeGetAttribute,
                  (void* out, size_t size, HipRangeAttribute attribute, HipPointer at,
                   size_t bytes),
                  op::mem_range_get_attribute(out, size, attribute, at, bytes))
SOFTWARE_HIP_CALL(hipHostMalloc, (void** out, size_t bytes, unsigned flags),
                  op::mem_host_alloc(out, bytes, flags))
SOFTWARE_HIP_CALL(hipHostFree, (void* at), op::mem_free_host(at))
SOFTWARE_HIP_CALL(hipHostRegister, (void* at, size_t bytes, unsigned flags),
                  op::mem_host_register(at, bytes, flags))
SOFTWARE_HIP_CALL(hipHostUnregister, (void* at), op::mem_host_unregister(at))
SOFTWARE_HIP_CALL(hipHostGetDevicePointer, (HipPointer * out, void* at, unsigned flags),
                  op::mem_host_get_device_pointer(out, at, flags))
SOFTWARE_HIP_CALL(hipDeviceGetStreamPriorityRange, (int* least, int* greatest),
                  op::stream_priority_range(least, greatest))
SOFTWARE_HIP_CALL(hipStreamCreateWithPriority, (HipStream * out, unsigned flags, int priority),
                  op::stream_create(out, flags, priority))
SOFTWARE_HIP_CALL(hipStreamDestroy, (HipStream stream), op::stream_destroy(stream))
SOFTWARE_HIP_CALL(hipStreamQuery, (HipStream stream), op::stream_query(stream))
SOFTWARE_HIP_CALL(hipStreamSynchronize, (HipStream stream), op::stream_synchronize(stream))
SOFTWARE_HIP_CALL(hipStreamWaitEvent, (HipStream stream, HipEvent event, unsigned flags),
                  op::stream_wait_event(stream, event, flags))
SOFTWARE_HIP_CALL(hipStreamIsCapturing, (HipStream stream, int* out),
                  op::stream_is_capturing(stream, out))
SOFTWARE_HIP_CALL(hipEventCreateWithFlags, (HipEvent * out, unsigned flags),
                  op::event_create(out, flags))
SOFTWARE_HIP_CALL(hipEventDestroy, (HipEvent event), op::event_destroy(event))
SOFTWARE_HIP_CALL(hipEventRecord, (HipEvent event, HipStream stream),
                  op::event_record(event, stream))
SOFTWARE_HIP_CALL(hipEventQuery, (HipEvent event), op::event_query(event))
SOFTWARE_HIP_CALL(hipEventSynchronize, (HipEvent event), op::event_synchronize(event))
SOFTWARE_HIP_CALL(hipEventElapsedTime, (float* out, HipEvent from, HipEvent to),
                  op::event_elapsed_time(out, from, to))
SOFTWARE_HIP_CALL(hipMemcpyHtoDAsync, (HipPointer to, void* from, size_t bytes, HipStream on),
                  op::memcpy_htod_async(to, from, bytes, on))
SOFTWARE_HIP_CALL(hipMemcpyDtoHAsync, (void* to, HipPointer from, size_t bytes, HipStream on),
                  op::memcpy_dtoh_async(to, from, bytes, on))
SOFTWARE_HIP_CALL(hipMemcpyDtoDAsync, (HipPointer to, HipPointer from, size_t bytes, HipStream on),
                  op::memcpy_dtod_async(to, from, bytes, on))
SOFTWARE_HIP_CALL(hipMemcpyAsync,
                  (void* to, const void* from, size_t bytes, int kind, HipStream on),
                  hip_memcpy(to, from, bytes, kind, on))
SOFTWARE_HIP_CALL(hipMemcpyPeerAsync,
                  (void* to, int to_device, const void* from, int from_device, size_t bytes,
                   HipStream on),
                  op::copy_between(op::device_at(to_device), uintptr_t(to),
                                   op::device_at(from_device), uintptr_t(from), bytes, on))
SOFTWARE_HIP_CALL(hipMemsetD8Async,
                  (HipPointer to, unsigned char value, size_t count, HipStream on),
                  op::memset_d8_async(to, value, count, on))
SOFTWARE_HIP_CALL(hipMemsetD16Async,
                  (HipPointer to, unsigned short value, size_t count, HipStream on),
                  op::memset_d16_async(to, value, count, on))
SOFTWARE_HIP_CALL(hipMemsetD32Async, (HipPointer to, int value, size_t count, HipStream on),
                  op::memset_d32_async(to, unsigned(value), count, on))
SOFTWARE_HIP_CALL(hipThreadExchangeStreamCaptureMode, (HipCaptureMode * mode),
                  op::exchange_capture_mode(mode))
SOFTWARE_HIP_CALL(hipStreamBeginCapture, (HipStream stream, HipCaptureMode mode),
                  op::stream_begin_capture(stream, mode))
SOFTWARE_HIP_CALL(hipStreamEndCapture, (HipStream stream, HipGraph* out),
                  op::stream_end_capture(stream, out))
SOFTWARE_HIP_CALL(hipGraphDestroy, (HipGraph graph), op::graph_destroy(graph))
SOFTWARE_HIP_CALL(hipGraphGetNodes, (HipGraph graph, HipNode* out, size_t* count),
                  op::graph_get_nodes(graph, out, count))
SOFTWARE_HIP_CALL(hipGraphInstantiate, (HipExec * out, HipGraph graph, HipNode*, char*, size_t),
                  op::graph_instantiate(out, graph, 0))
SOFTWARE_HIP_CALL(hipGraphInstantiateWithFlags,
                  (HipExec * out, HipGraph graph, unsigned long long flags),
                  op::graph_instantiate(out, graph, flags))
SOFTWARE_HIP_CALL(hipGraphLaunch, (HipExec exec, HipStream stream), op::graph_launch(exec, stream))
SOFTWARE_HIP_CALL(hipGraphExecDestroy, (HipExec exec), op::graph_exec_destroy(exec))
SOFTWARE_HIP_CALL(hipModuleLoadData, (HipModule * out, const void* image),
                  op::module_load_data(out, image))
SOFTWARE_HIP_CALL(hipModuleUnload, (HipModule module), op::module_unload(module))
SOFTWARE_HIP_CALL(hipModuleGetFunction, (HipFunction * out, HipModule module, const char* name),
                  op::module_get_function(out, module, name))
SOFTWARE_HIP_CALL(hipModuleLaunchKernel,
                  (HipFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                   HipStream on, void** parameters, void** extra),
                  op::launch_kernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
                                    shared_bytes, on, parameters, extra))
SOFTWARE_HIP_CALL(hipDeviceCanAccessPeer, (int* out, int from, int to),
                  op::device_can_access_peer(out, from, to))
SOFTWARE_HIP_CALL(hipDeviceEnablePeerAccess, (int peer, unsigned flags),
                  op::enable_peer_access(op::device_at(peer), flags))

// HIP returns two separate results: the node with the error, and the reason.
SOFTWARE_HIP_CALL(hipGraphExecUpdate, (HipExec exec, HipGraph graph, HipNode* error_node, int* why),
                  ([&] {
                    demand(error_node && why, status::invalid_value);
                    *error_node = nullptr;
                    op::UpdateResult result = op::updated;
                    const Status answer = op::update(exec, graph, result);
                    *why = result;
                    return answer;
                  }()))

#if HOTSLOT_SOFTWARE_HIP >= 7
SOFTWARE_HIP_CALL(hipEventRecordWithFlags, (HipEvent event, HipStream stream, unsigned flags),
                  op::event_record_with_flags(event, stream, flags))
SOFTWARE_HIP_CALL(hipGraphUpload, (HipExec exec, HipStream stream), op::graph_upload(exec, stream))
#endif

// These calls do not return the status of the call itself.
static hotslot::software::Call call_hipGetErrorName("hipGetErrorName"),
    call_hipGetErrorString("hipGetErrorString"), call_hipGetLastError("hipGetLastError");
SOFTWARE_EXPORT const char* hipGetErrorName(int status) {
  call_hipGetErrorName.count.fetch_add(1);
  const auto* found = hotslot::software::op::error_name(status);
  return found && found->hip ? found->hip : "hipErrorUnknown";
}
SOFTWARE_EXPORT const char* hipGetErrorString(int status) {
  call_hipGetErrorString.count.fetch_add(1);
  const auto* found = hotslot::software::op::error_name(status);
  return found && found->hip ? found->text : "unknown error";
}
SOFTWARE_EXPORT int hipGetLastError(void) {
  call_hipGetLastError.count.fetch_add(1);
  return std::exchange(hotslot::software::thread_state().last, 0);
}
