// The part of the CUDA driver's binary interface that Hotslot uses. It is declared here, so Hotslot
// neither ships nor needs a vendor's header. The HIP runtime has the same types and mostly the same
// numbers. hip/find.cpp handles the differences. The tests in test/abi check every signature, size
// and value against the vendors' headers if they are installed.
#pragma once
#include <cstddef>
#include <cstdint>

namespace hotslot::cuda {

using Status = int;
using DeviceId = int;
using DevicePtr = unsigned long long;
using Context = struct ContextOf*;
using StreamHandle = struct StreamOf*;
using EventHandle = struct EventOf*;
using GraphHandle = struct GraphOf*;
using GraphNode = struct GraphNodeOf*;
using GraphExecHandle = struct GraphExecOf*;
using Module = struct ModuleOf*;
using Function = struct FunctionOf*;

namespace status {
constexpr Status success = 0, invalid_value = 1, out_of_memory = 2, not_initialized = 3,
                 deinitialized = 4, stub_library = 34, no_device = 100, invalid_device = 101,
                 invalid_image = 200, invalid_context = 201, no_binary_for_gpu = 209,
                 unsupported_ptx_version = 222, invalid_handle = 400, illegal_state = 401,
                 not_found = 500, not_ready = 600, illegal_address = 700, launch_timeout = 702,
                 peer_access_already_enabled = 704, already_registered = 712, not_registered = 713,
                 launch_failed = 719, not_permitted = 800, not_supported = 801,
                 capture_unsupported = 900, capture_invalidated = 901, capture_merge = 902,
                 capture_unmatched = 903, capture_unjoined = 904, capture_isolation = 905,
                 capture_implicit = 906, captured_event = 907, capture_wrong_thread = 908,
                 graph_exec_update_failure = 910, unknown = 999;
}

enum Flag : unsigned {
  stream_non_blocking = 1,
  event_default = 0,
  event_disable_timing = 2,
  event_record_external = 1,
  host_register_portable = 1,
  host_register_devicemap = 2,
  host_alloc_portable = 1,
  sched_blocking_sync = 4,
  mem_attach_global = 1,
};
enum CaptureMode : int { capture_global = 0, capture_thread_local = 1, capture_relaxed = 2 };
enum LookupFlag : uint64_t { lookup_legacy_stream = 1 };
enum Attribute : int {
  attribute_kernel_exec_timeout = 17,
  attribute_integrated = 18,
  attribute_async_engine_count = 40,
  attribute_multiprocessor_count = 16,
  attribute_cc_major = 75,
  attribute_cc_minor = 76,
  attribute_managed_memory = 83,
  attribute_concurrent_managed_access = 89,
  attribute_host_register_supported = 99,
};

// The location of managed memory is a device's id, or one of these values.
constexpr DeviceId device_cpu = -1, device_invalid = -2;
enum LocationType : int { location_device = 1, location_host = 2 };
struct Location {
  int type;  // LocationType
  int id;
};
enum MemoryAdvice : int { advise_preferred_location = 3, advise_accessed_by = 5 };
enum RangeAttribute : int {
  range_preferred_location = 2,
  range_accessed_by = 3,
  range_last_prefetch_location = 4
};

// The result of updating an instantiated graph.
struct ExecUpdateResult {
  int result;  // 0: the update succeeded
  GraphNode error_node, error_from_node;
};

struct Uuid {
  char bytes[16];
};

// The driver's functions: name in Table, name in the driver, the driver version whose signature
// this is, and the parameters. OPTIONAL functions may be missing, and the calling code then does
// without the function. Only tests call device_total_mem and graph_get_nodes. A function whose
// signature changed has an entry for each signature.
#define HOTSLOT_CUDA_ENTRIES(REQUIRED, OPTIONAL)                                                   \
  REQUIRED(get_error_name, cuGetErrorName, 6000, (Status, const char**))                           \
  REQUIRED(get_error_string, cuGetErrorString, 6000, (Status, const char**))                       \
  REQUIRED(device_get_count, cuDeviceGetCount, 2000, (int*))                                       \
  REQUIRED(device_get, cuDeviceGet, 2000, (DeviceId*, int))                                        \
  REQUIRED(device_get_name, cuDeviceGetName, 2000, (char*, int, DeviceId))                         \
  REQUIRED(device_get_attribute, cuDeviceGetAttribute, 2000, (int*, Attribute, DeviceId))          \
  OPTIONAL(device_total_mem, cuDeviceTotalMem, 3020, (size_t*, DeviceId))                          \
  REQUIRED(primary_context_retain, cuDevicePrimaryCtxRetain, 7000, (Context*, DeviceId))           \
  REQUIRED(primary_context_get_state, cuDevicePrimaryCtxGetState, 7000,                            \
           (DeviceId, unsigned*, int*))                                                            \
  REQUIRED(primary_context_set_flags, cuDevicePrimaryCtxSetFlags, 11000, (DeviceId, unsigned))     \
  REQUIRED(context_set_current, cuCtxSetCurrent, 4000, (Context))                                  \
  REQUIRED(context_get_current, cuCtxGetCurrent, 4000, (Context*))                                 \
  REQUIRED(stream_priority_range, cuCtxGetStreamPriorityRange, 5050, (int*, int*))                 \
  REQUIRED(device_can_access_peer, cuDeviceCanAccessPeer, 4000, (int*, DeviceId, DeviceId))        \
  REQUIRED(context_enable_peer_access, cuCtxEnablePeerAccess, 4000, (Context, unsigned))           \
  REQUIRED(mem_get_info, cuMemGetInfo, 3020, (size_t*, size_t*))                                   \
  REQUIRED(mem_alloc, cuMemAlloc, 3020, (DevicePtr*, size_t))                                      \
  REQUIRED(mem_free, cuMemFree, 3020, (DevicePtr))                                                 \
  REQUIRED(mem_host_alloc, cuMemHostAlloc, 2020, (void**, size_t, unsigned))                       \
  REQUIRED(mem_free_host, cuMemFreeHost, 2000, (void*))                                            \
  REQUIRED(mem_host_register, cuMemHostRegister, 6050, (void*, size_t, unsigned))                  \
  REQUIRED(mem_host_unregister, cuMemHostUnregister, 4000, (void*))                                \
  REQUIRED(mem_host_get_device_pointer, cuMemHostGetDevicePointer, 3020,                           \
           (DevicePtr*, void*, unsigned))                                                          \
  OPTIONAL(mem_alloc_managed, cuMemAllocManaged, 6000, (DevicePtr*, size_t, unsigned))             \
  OPTIONAL(mem_prefetch_v1, cuMemPrefetchAsync, 8000, (DevicePtr, size_t, DeviceId, StreamHandle)) \
  OPTIONAL(mem_prefetch, cuMemPrefetchAsync, 12020,                                                \
           (DevicePtr, size_t, Location, unsigned, StreamHandle))                                  \
  OPTIONAL(mem_advise_v1, cuMemAdvise, 8000, (DevicePtr, size_t, MemoryAdvice, DeviceId))          \
  OPTIONAL(mem_advise, cuMemAdvise, 12020, (DevicePtr, size_t, MemoryAdvice, Location))            \
  OPTIONAL(mem_range_get_attribute, cuMemRangeGetAttribute, 8000,                                  \
           (void*, size_t, RangeAttribute, DevicePtr, size_t))                                     \
  REQUIRED(stream_create, cuStreamCreateWithPriority, 5050, (StreamHandle*, unsigned, int))        \
  REQUIRED(stream_destroy, cuStreamDestroy, 4000, (StreamHandle))                                  \
  REQUIRED(stream_query, cuStreamQuery, 2000, (StreamHandle))                                      \
  REQUIRED(stream_synchronize, cuStreamSynchronize, 2000, (StreamHandle))                          \
  REQUIRED(stream_wait_event, cuStreamWaitEvent, 3020, (StreamHandle, EventHandle, unsigned))      \
  REQUIRED(event_create, cuEventCreate, 2000, (EventHandle*, unsigned))                            \
  REQUIRED(event_destroy, cuEventDestroy, 4000, (EventHandle))                                     \
  REQUIRED(event_record, cuEventRecord, 2000, (EventHandle, StreamHandle))                         \
  OPTIONAL(event_record_with_flags, cuEventRecordWithFlags, 11010,                                 \
           (EventHandle, StreamHandle, unsigned))                                                  \
  REQUIRED(event_query, cuEventQuery, 2000, (EventHandle))                                         \
  REQUIRED(event_elapsed_time, cuEventElapsedTime, 2000, (float*, EventHandle, EventHandle))       \
  REQUIRED(memcpy_htod_async, cuMemcpyHtoDAsync, 3020,                                             \
           (DevicePtr, const void*, size_t, StreamHandle))                                         \
  REQUIRED(memcpy_dtoh_async, cuMemcpyDtoHAsync, 3020, (void*, DevicePtr, size_t, StreamHandle))   \
  REQUIRED(memcpy_dtod_async, cuMemcpyDtoDAsync, 3020,                                             \
           (DevicePtr, DevicePtr, size_t, StreamHandle))                                           \
  REQUIRED(memcpy_async, cuMemcpyAsync, 4000, (DevicePtr, DevicePtr, size_t, StreamHandle))        \
  REQUIRED(memcpy_peer_async, cuMemcpyPeerAsync, 4000,                                             \
           (DevicePtr, Context, DevicePtr, Context, size_t, StreamHandle))                         \
  REQUIRED(memset_d8_async, cuMemsetD8Async, 3020,                                                 \
           (DevicePtr, unsigned char, size_t, StreamHandle))                                       \
  REQUIRED(memset_d16_async, cuMemsetD16Async, 3020,                                               \
           (DevicePtr, unsigned short, size_t, StreamHandle))                                      \
  REQUIRED(memset_d32_async, cuMemsetD32Async, 3020, (DevicePtr, unsigned, size_t, StreamHandle))  \
  REQUIRED(exchange_capture_mode, cuThreadExchangeStreamCaptureMode, 10010, (CaptureMode*))        \
  REQUIRED(stream_begin_capture, cuStreamBeginCapture, 10010, (StreamHandle, CaptureMode))         \
  REQUIRED(stream_end_capture, cuStreamEndCapture, 10000, (StreamHandle, GraphHandle*))            \
  REQUIRED(graph_destroy, cuGraphDestroy, 10000, (GraphHandle))                                    \
  OPTIONAL(graph_get_nodes, cuGraphGetNodes, 10000, (GraphHandle, GraphNode*, size_t*))            \
  REQUIRED(graph_instantiate, cuGraphInstantiateWithFlags, 11040,                                  \
           (GraphExecHandle*, GraphHandle, unsigned long long))                                    \
  OPTIONAL(graph_upload, cuGraphUpload, 11010, (GraphExecHandle, StreamHandle))                    \
  REQUIRED(graph_launch, cuGraphLaunch, 10000, (GraphExecHandle, StreamHandle))                    \
  REQUIRED(graph_exec_update, cuGraphExecUpdate, 12000,                                            \
           (GraphExecHandle, GraphHandle, ExecUpdateResult*))                                      \
  REQUIRED(graph_exec_destroy, cuGraphExecDestroy, 10000, (GraphExecHandle))                       \
  REQUIRED(module_load_data, cuModuleLoadData, 2000, (Module*, const void*))                       \
  OPTIONAL(module_unload, cuModuleUnload, 2000, (Module))                                          \
  REQUIRED(module_get_function, cuModuleGetFunction, 2000, (Function*, Module, const char*))       \
  OPTIONAL(func_load, cuFuncLoad, 12040, (Function))                                               \
  REQUIRED(launch_kernel, cuLaunchKernel, 4000,                                                    \
           (Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,        \
            StreamHandle, void**, void**))

// Hotslot gets the addresses of these three functions from the library's symbols. GetProcAddress
// returns the addresses of all other functions.
using Init = Status (*)(unsigned);
using DriverGetVersion = Status (*)(int*);
using GetProcAddress = Status (*)(const char*, void**, int, uint64_t, int*);

// One function of the driver: its name for errors, and its address. The address is null if an
// optional function is missing.
template <class>
struct Call;
template <class... P>
struct Call<Status(P...)> {
  const char* name;
  Status (*function)(P...) = nullptr;
  Status operator()(P... p) const { return function(p...); }
  explicit operator bool() const { return function != nullptr; }
};

struct Table {
#define HOTSLOT_ENTRY(name, symbol, version, parameters) Call<Status parameters> name{#symbol};
  HOTSLOT_CUDA_ENTRIES(HOTSLOT_ENTRY, HOTSLOT_ENTRY)
#undef HOTSLOT_ENTRY
};

// The interface of NVRTC, whose functions begin with nvrtc. hiprtc has the same functions, which
// begin with hiprtc.
using ProgramHandle = struct ProgramOf*;
using RuntimeResult = int;
enum : RuntimeResult { compilation_failed = 6 };
struct RuntimeCalls {
  RuntimeResult (*create)(ProgramHandle*, const char* source, const char* name, int headers,
                          const char* const* texts, const char* const* names);
  RuntimeResult (*compile)(ProgramHandle, int, const char* const* options);
  RuntimeResult (*log_size)(ProgramHandle, size_t*);
  RuntimeResult (*log)(ProgramHandle, char*);
  RuntimeResult (*code_size)(ProgramHandle, size_t*);
  RuntimeResult (*code)(ProgramHandle, char*);
  RuntimeResult (*destroy)(ProgramHandle*);
  // These two return the compute capabilities that the library supports. They are null if the
  // library lacks them, as NVRTC before 11.2 does.
  RuntimeResult (*known_count)(int*) = nullptr;
  RuntimeResult (*known)(int*) = nullptr;
};

}  // namespace hotslot::cuda
