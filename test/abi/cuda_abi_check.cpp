// Compares our declarations of the CUDA driver with NVIDIA's. cudaTypedefs.h has a name for every
// version of every signature. -DNEGATIVE adds declarations that are wrong, each in its own way.
// That build must fail with exactly their messages.
#include <cuda.h>
#include <cudaTypedefs.h>

#include "device/cuda/abi.hpp"
#include "same.hpp"

namespace hotslot::cuda {

using abi::same_function;

#define HOTSLOT_ENTRY(name, symbol, version, parameters)                        \
  static_assert(same_function<Status(*) parameters, PFN_##symbol##_v##version>, \
                #symbol " of version " #version " has another signature");
HOTSLOT_CUDA_ENTRIES(HOTSLOT_ENTRY, HOTSLOT_ENTRY)
#undef HOTSLOT_ENTRY
static_assert(same_function<Init, PFN_cuInit_v2000>, "cuInit has another signature");
static_assert(same_function<DriverGetVersion, PFN_cuDriverGetVersion_v2020>,
              "cuDriverGetVersion has another signature");
static_assert(same_function<GetProcAddress, PFN_cuGetProcAddress_v12000>,
              "cuGetProcAddress has another signature");

SAME_NUMBER(status::success, CUDA_SUCCESS);
SAME_NUMBER(status::invalid_value, CUDA_ERROR_INVALID_VALUE);
SAME_NUMBER(status::out_of_memory, CUDA_ERROR_OUT_OF_MEMORY);
SAME_NUMBER(status::not_initialized, CUDA_ERROR_NOT_INITIALIZED);
SAME_NUMBER(status::deinitialized, CUDA_ERROR_DEINITIALIZED);
SAME_NUMBER(status::stub_library, CUDA_ERROR_STUB_LIBRARY);
SAME_NUMBER(status::no_device, CUDA_ERROR_NO_DEVICE);
SAME_NUMBER(status::invalid_device, CUDA_ERROR_INVALID_DEVICE);
SAME_NUMBER(status::invalid_image, CUDA_ERROR_INVALID_IMAGE);
SAME_NUMBER(status::invalid_context, CUDA_ERROR_INVALID_CONTEXT);
SAME_NUMBER(status::no_binary_for_gpu, CUDA_ERROR_NO_BINARY_FOR_GPU);
SAME_NUMBER(status::unsupported_ptx_version, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
SAME_NUMBER(status::invalid_handle, CUDA_ERROR_INVALID_HANDLE);
SAME_NUMBER(status::not_found, CUDA_ERROR_NOT_FOUND);
SAME_NUMBER(status::not_ready, CUDA_ERROR_NOT_READY);
SAME_NUMBER(status::illegal_address, CUDA_ERROR_ILLEGAL_ADDRESS);
SAME_NUMBER(status::launch_timeout, CUDA_ERROR_LAUNCH_TIMEOUT);
SAME_NUMBER(status::peer_access_already_enabled, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
SAME_NUMBER(status::already_registered, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
SAME_NUMBER(status::not_registered, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
SAME_NUMBER(status::launch_failed, CUDA_ERROR_LAUNCH_FAILED);
SAME_NUMBER(status::not_permitted, CUDA_ERROR_NOT_PERMITTED);
SAME_NUMBER(status::not_supported, CUDA_ERROR_NOT_SUPPORTED);
SAME_NUMBER(status::capture_unsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
SAME_NUMBER(status::capture_invalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
SAME_NUMBER(status::capture_merge, CUDA_ERROR_STREAM_CAPTURE_MERGE);
SAME_NUMBER(status::capture_unmatched, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
SAME_NUMBER(status::capture_unjoined, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
SAME_NUMBER(status::capture_isolation, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
SAME_NUMBER(status::capture_implicit, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
SAME_NUMBER(status::captured_event, CUDA_ERROR_CAPTURED_EVENT);
SAME_NUMBER(status::capture_wrong_thread, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
SAME_NUMBER(status::graph_exec_update_failure, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
SAME_NUMBER(status::unknown, CUDA_ERROR_UNKNOWN);

SAME_NUMBER(stream_non_blocking, CU_STREAM_NON_BLOCKING);
SAME_NUMBER(event_default, CU_EVENT_DEFAULT);
SAME_NUMBER(event_disable_timing, CU_EVENT_DISABLE_TIMING);
SAME_NUMBER(event_record_external, CU_EVENT_RECORD_EXTERNAL);
SAME_NUMBER(host_register_portable, CU_MEMHOSTREGISTER_PORTABLE);
SAME_NUMBER(host_register_devicemap, CU_MEMHOSTREGISTER_DEVICEMAP);
SAME_NUMBER(host_alloc_portable, CU_MEMHOSTALLOC_PORTABLE);
SAME_NUMBER(sched_blocking_sync, CU_CTX_SCHED_BLOCKING_SYNC);
SAME_NUMBER(mem_attach_global, CU_MEM_ATTACH_GLOBAL);
SAME_NUMBER(device_cpu, CU_DEVICE_CPU);
SAME_NUMBER(device_invalid, CU_DEVICE_INVALID);
SAME_NUMBER(location_device, CU_MEM_LOCATION_TYPE_DEVICE);
SAME_NUMBER(location_host, CU_MEM_LOCATION_TYPE_HOST);
SAME_NUMBER(advise_preferred_location, CU_MEM_ADVISE_SET_PREFERRED_LOCATION);
SAME_NUMBER(advise_accessed_by, CU_MEM_ADVISE_SET_ACCESSED_BY);
SAME_NUMBER(range_preferred_location, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION);
SAME_NUMBER(range_accessed_by, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY);
SAME_NUMBER(range_last_prefetch_location, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION);
SAME_NUMBER(capture_global, CU_STREAM_CAPTURE_MODE_GLOBAL);
SAME_NUMBER(capture_thread_local, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
SAME_NUMBER(capture_relaxed, CU_STREAM_CAPTURE_MODE_RELAXED);
SAME_NUMBER(lookup_legacy_stream, CU_GET_PROC_ADDRESS_LEGACY_STREAM);
SAME_NUMBER(attribute_integrated, CU_DEVICE_ATTRIBUTE_INTEGRATED);
SAME_NUMBER(attribute_async_engine_count, CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT);
SAME_NUMBER(attribute_multiprocessor_count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME_NUMBER(attribute_cc_major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME_NUMBER(attribute_cc_minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME_NUMBER(attribute_managed_memory, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY);
SAME_NUMBER(attribute_concurrent_managed_access, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS);
SAME_NUMBER(attribute_host_register_supported, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED);

SAME_STRUCT(ExecUpdateResult, CUgraphExecUpdateResultInfo);
SAME_FIELD(ExecUpdateResult, result, CUgraphExecUpdateResultInfo, result);
SAME_FIELD(ExecUpdateResult, error_node, CUgraphExecUpdateResultInfo, errorNode);
SAME_FIELD(ExecUpdateResult, error_from_node, CUgraphExecUpdateResultInfo, errorFromNode);
SAME_NUMBER(0, CU_GRAPH_EXEC_UPDATE_SUCCESS);
SAME_STRUCT(Location, CUmemLocation);
SAME_FIELD(Location, type, CUmemLocation, type);
SAME_FIELD(Location, id, CUmemLocation, id);
SAME_STRUCT(Uuid, CUuuid);
SAME_FIELD(Uuid, bytes, CUuuid, bytes);

#ifdef NEGATIVE
struct Shifted {
  GraphNode error_node, error_from_node;
  int result;
};
static_assert(same_function<Status (*)(StreamHandle), PFN_cuStreamBeginCapture_v10010>,
              "wrong: a parameter too few");
#if CUDA_VERSION >= 12020
static_assert(same_function<Status (*)(DevicePtr, size_t, void*, unsigned, StreamHandle),
                            PFN_cuMemPrefetchAsync_v12020>,
              "wrong: a structure by address");
#else
static_assert(false, "wrong: a structure by address");
#endif
SAME_NUMBER(event_disable_timing, CU_EVENT_BLOCKING_SYNC);
SAME_FIELD(Shifted, result, CUgraphExecUpdateResultInfo, result);
SAME_STRUCT(Uuid, CUgraphExecUpdateResultInfo);
#endif

}  // namespace hotslot::cuda
