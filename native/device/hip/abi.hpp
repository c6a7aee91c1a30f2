// The part of the HIP runtime's binary interface that Hotslot uses. Most functions have the same
// form as CUDA's under another name. The others are declared here. test/abi checks all of them
// against HIP's headers if they are installed.
#pragma once
#include "device/cuda/abi.hpp"

namespace hotslot::hip {

using cuda::Context;
using cuda::DeviceId;
using cuda::DevicePtr;
using cuda::GraphExecHandle;
using cuda::GraphHandle;
using cuda::GraphNode;
using cuda::Status;
using cuda::StreamHandle;

// Functions that fit CUDA's table: entry of cuda::Table, name in the runtime. Their parameters and
// results have the same sizes in the same order as CUDA's.
#define HOTSLOT_HIP_SAME(REQUIRED, OPTIONAL)                          \
  REQUIRED(device_get_count, hipGetDeviceCount)                       \
  REQUIRED(device_get, hipDeviceGet)                                  \
  REQUIRED(device_get_name, hipDeviceGetName)                         \
  OPTIONAL(device_total_mem, hipDeviceTotalMem)                       \
  REQUIRED(stream_priority_range, hipDeviceGetStreamPriorityRange)    \
  REQUIRED(device_can_access_peer, hipDeviceCanAccessPeer)            \
  REQUIRED(mem_get_info, hipMemGetInfo)                               \
  REQUIRED(mem_alloc, hipMalloc)                                      \
  REQUIRED(mem_free, hipFree)                                         \
  REQUIRED(mem_host_alloc, hipHostMalloc)                             \
  REQUIRED(mem_free_host, hipHostFree)                                \
  REQUIRED(mem_host_register, hipHostRegister)                        \
  REQUIRED(mem_host_unregister, hipHostUnregister)                    \
  REQUIRED(mem_host_get_device_pointer, hipHostGetDevicePointer)      \
  OPTIONAL(mem_alloc_managed, hipMallocManaged)                       \
  OPTIONAL(mem_prefetch_v1, hipMemPrefetchAsync)                      \
  OPTIONAL(mem_advise_v1, hipMemAdvise)                               \
  OPTIONAL(mem_range_get_attribute, hipMemRangeGetAttribute)          \
  REQUIRED(stream_create, hipStreamCreateWithPriority)                \
  REQUIRED(stream_destroy, hipStreamDestroy)                          \
  REQUIRED(stream_query, hipStreamQuery)                              \
  REQUIRED(stream_synchronize, hipStreamSynchronize)                  \
  REQUIRED(stream_wait_event, hipStreamWaitEvent)                     \
  REQUIRED(event_create, hipEventCreateWithFlags)                     \
  REQUIRED(event_destroy, hipEventDestroy)                            \
  REQUIRED(event_record, hipEventRecord)                              \
  OPTIONAL(event_record_with_flags, hipEventRecordWithFlags)          \
  REQUIRED(event_query, hipEventQuery)                                \
  REQUIRED(event_elapsed_time, hipEventElapsedTime)                   \
  REQUIRED(memcpy_htod_async, hipMemcpyHtoDAsync)                     \
  REQUIRED(memcpy_dtoh_async, hipMemcpyDtoHAsync)                     \
  REQUIRED(memcpy_dtod_async, hipMemcpyDtoDAsync)                     \
  REQUIRED(memset_d8_async, hipMemsetD8Async)                         \
  REQUIRED(memset_d16_async, hipMemsetD16Async)                       \
  REQUIRED(memset_d32_async, hipMemsetD32Async)                       \
  REQUIRED(exchange_capture_mode, hipThreadExchangeStreamCaptureMode) \
  REQUIRED(stream_begin_capture, hipStreamBeginCapture)               \
  REQUIRED(stream_end_capture, hipStreamEndCapture)                   \
  REQUIRED(graph_destroy, hipGraphDestroy)                            \
  OPTIONAL(graph_get_nodes, hipGraphGetNodes)                         \
  REQUIRED(graph_instantiate, hipGraphInstantiateWithFlags)           \
  OPTIONAL(graph_upload, hipGraphUpload)                              \
  REQUIRED(graph_launch, hipGraphLaunch)                              \
  REQUIRED(graph_exec_destroy, hipGraphExecDestroy)                   \
  REQUIRED(module_load_data, hipModuleLoadData)                       \
  OPTIONAL(module_unload, hipModuleUnload)                            \
  REQUIRED(module_get_function, hipModuleGetFunction)                 \
  REQUIRED(launch_kernel, hipModuleLaunchKernel)

// Functions that differ from CUDA's: name here, name in the runtime, result, and parameters.
#define HOTSLOT_HIP_OWN(ENTRY)                                                                 \
  ENTRY(init, hipInit, Status, (unsigned))                                                     \
  ENTRY(driver_get_version, hipDriverGetVersion, Status, (int*))                               \
  ENTRY(get_error_name, hipGetErrorName, const char*, (Status))                                \
  ENTRY(get_error_string, hipGetErrorString, const char*, (Status))                            \
  ENTRY(device_get_attribute, hipDeviceGetAttribute, Status, (int*, int, int))                 \
  ENTRY(set_device, hipSetDevice, Status, (int))                                               \
  ENTRY(get_device, hipGetDevice, Status, (int*))                                              \
  ENTRY(enable_peer_access, hipDeviceEnablePeerAccess, Status, (int, unsigned))                \
  ENTRY(memcpy_async, hipMemcpyAsync, Status, (void*, const void*, size_t, int, StreamHandle)) \
  ENTRY(memcpy_peer_async, hipMemcpyPeerAsync, Status,                                         \
        (void*, int, const void*, int, size_t, StreamHandle))                                  \
  ENTRY(graph_exec_update, hipGraphExecUpdate, Status,                                         \
        (GraphExecHandle, GraphHandle, GraphNode*, int*))

enum : int { memcpy_default = 4 };
// HIP numbers its attributes differently from CUDA.
enum Attribute : int {
  attribute_async_engine_count = 2,
  attribute_concurrent_managed_access = 9,
  attribute_integrated = 16,
  attribute_managed_memory = 24,
  attribute_multiprocessor_count = 63,
};

}  // namespace hotslot::hip
