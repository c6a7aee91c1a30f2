// Compares our declarations of the HIP runtime with AMD's headers. Most are CUDA's with another
// name. -DNEGATIVE adds declarations that are wrong.
#define __HIP_PLATFORM_AMD__
#define __HIP_DISABLE_CPP_FUNCTIONS__  // overloads would hide the plain functions
#include <hip/hip_runtime_api.h>
#include <hip/hiprtc.h>

#include "device/hip/abi.hpp"
#include "same.hpp"

namespace hotslot::hip {

using abi::same_function;

template <class Entry>
struct Declared;
template <class R, class... P>
struct Declared<cuda::Call<R(P...)>> {
  using Pointer = R (*)(P...);
};

#define SAME(entry, symbol)                                                             \
  static_assert(same_function<typename Declared<decltype(cuda::Table::entry)>::Pointer, \
                              decltype(&::symbol), true>,                               \
                #symbol " is not cuda::Table::" #entry);
// Calls that older headers lack are only checked with newer headers.
#if HIP_VERSION_MAJOR >= 6
#define OPTIONAL_hipGraphUpload(entry) SAME(entry, hipGraphUpload)
#else
#define OPTIONAL_hipGraphUpload(entry)
#endif
#if HIP_VERSION_MAJOR >= 7
#define OPTIONAL_hipEventRecordWithFlags(entry) SAME(entry, hipEventRecordWithFlags)
#else
#define OPTIONAL_hipEventRecordWithFlags(entry)
#endif
// These are optional because only tests call them.
#define OPTIONAL_hipDeviceTotalMem(entry) SAME(entry, hipDeviceTotalMem)
#define OPTIONAL_hipGraphGetNodes(entry) SAME(entry, hipGraphGetNodes)
#define OPTIONAL_hipModuleUnload(entry) SAME(entry, hipModuleUnload)
// If these are missing, the device has no managed memory.
#define OPTIONAL_hipMallocManaged(entry) SAME(entry, hipMallocManaged)
#define OPTIONAL_hipMemPrefetchAsync(entry) SAME(entry, hipMemPrefetchAsync)
#define OPTIONAL_hipMemAdvise(entry) SAME(entry, hipMemAdvise)
#define OPTIONAL_hipMemRangeGetAttribute(entry) SAME(entry, hipMemRangeGetAttribute)
#define OPTIONAL(entry, symbol) OPTIONAL_##symbol(entry)
HOTSLOT_HIP_SAME(SAME, OPTIONAL)

#define OWN(name, symbol, result, parameters)                                   \
  static_assert(same_function<result(*) parameters, decltype(&::symbol), true>, \
                #symbol " has another signature");
HOTSLOT_HIP_OWN(OWN)

#define COMPILER(entry, symbol)                                                                \
  static_assert(same_function<decltype(cuda::RuntimeCalls::entry), decltype(&::symbol), true>, \
                #symbol " is not cuda::RuntimeCalls::" #entry)
COMPILER(create, hiprtcCreateProgram);
COMPILER(compile, hiprtcCompileProgram);
COMPILER(log_size, hiprtcGetProgramLogSize);
COMPILER(log, hiprtcGetProgramLog);
COMPILER(code_size, hiprtcGetCodeSize);
COMPILER(code, hiprtcGetCode);
COMPILER(destroy, hiprtcDestroyProgram);
SAME_NUMBER(cuda::compilation_failed, HIPRTC_ERROR_COMPILATION);

namespace status = cuda::status;
SAME_NUMBER(status::success, hipSuccess);
SAME_NUMBER(status::invalid_value, hipErrorInvalidValue);
SAME_NUMBER(status::out_of_memory, hipErrorOutOfMemory);
SAME_NUMBER(status::not_initialized, hipErrorNotInitialized);
SAME_NUMBER(status::deinitialized, hipErrorDeinitialized);
SAME_NUMBER(status::no_device, hipErrorNoDevice);
SAME_NUMBER(status::invalid_device, hipErrorInvalidDevice);
SAME_NUMBER(status::invalid_image, hipErrorInvalidImage);
SAME_NUMBER(status::invalid_context, hipErrorInvalidContext);
SAME_NUMBER(status::no_binary_for_gpu, hipErrorNoBinaryForGpu);
SAME_NUMBER(status::invalid_handle, hipErrorInvalidHandle);
SAME_NUMBER(status::not_found, hipErrorNotFound);
SAME_NUMBER(status::not_ready, hipErrorNotReady);
SAME_NUMBER(status::illegal_address, hipErrorIllegalAddress);
SAME_NUMBER(status::launch_timeout, hipErrorLaunchTimeOut);
SAME_NUMBER(status::peer_access_already_enabled, hipErrorPeerAccessAlreadyEnabled);
SAME_NUMBER(status::already_registered, hipErrorHostMemoryAlreadyRegistered);
SAME_NUMBER(status::not_registered, hipErrorHostMemoryNotRegistered);
SAME_NUMBER(status::launch_failed, hipErrorLaunchFailure);
SAME_NUMBER(status::not_supported, hipErrorNotSupported);
SAME_NUMBER(status::capture_unsupported, hipErrorStreamCaptureUnsupported);
SAME_NUMBER(status::capture_invalidated, hipErrorStreamCaptureInvalidated);
SAME_NUMBER(status::capture_merge, hipErrorStreamCaptureMerge);
SAME_NUMBER(status::capture_unmatched, hipErrorStreamCaptureUnmatched);
SAME_NUMBER(status::capture_unjoined, hipErrorStreamCaptureUnjoined);
SAME_NUMBER(status::capture_isolation, hipErrorStreamCaptureIsolation);
SAME_NUMBER(status::capture_implicit, hipErrorStreamCaptureImplicit);
SAME_NUMBER(status::captured_event, hipErrorCapturedEvent);
SAME_NUMBER(status::capture_wrong_thread, hipErrorStreamCaptureWrongThread);
SAME_NUMBER(status::graph_exec_update_failure, hipErrorGraphExecUpdateFailure);
SAME_NUMBER(status::unknown, hipErrorUnknown);

SAME_NUMBER(cuda::stream_non_blocking, hipStreamNonBlocking);
SAME_NUMBER(cuda::event_default, hipEventDefault);
SAME_NUMBER(cuda::event_disable_timing, hipEventDisableTiming);
SAME_NUMBER(cuda::host_register_portable, hipHostRegisterPortable);
SAME_NUMBER(cuda::host_register_devicemap, hipHostRegisterMapped);
SAME_NUMBER(cuda::host_alloc_portable, hipHostMallocPortable);
SAME_NUMBER(cuda::capture_global, hipStreamCaptureModeGlobal);
SAME_NUMBER(cuda::capture_thread_local, hipStreamCaptureModeThreadLocal);
SAME_NUMBER(cuda::capture_relaxed, hipStreamCaptureModeRelaxed);
SAME_NUMBER(cuda::mem_attach_global, hipMemAttachGlobal);
SAME_NUMBER(cuda::device_cpu, hipCpuDeviceId);
SAME_NUMBER(cuda::device_invalid, hipInvalidDeviceId);
SAME_NUMBER(cuda::advise_preferred_location, hipMemAdviseSetPreferredLocation);
SAME_NUMBER(cuda::advise_accessed_by, hipMemAdviseSetAccessedBy);
SAME_NUMBER(cuda::range_preferred_location, hipMemRangeAttributePreferredLocation);
SAME_NUMBER(cuda::range_accessed_by, hipMemRangeAttributeAccessedBy);
SAME_NUMBER(cuda::range_last_prefetch_location, hipMemRangeAttributeLastPrefetchLocation);
SAME_NUMBER(memcpy_default, hipMemcpyDefault);
SAME_NUMBER(attribute_async_engine_count, hipDeviceAttributeAsyncEngineCount);
SAME_NUMBER(attribute_concurrent_managed_access, hipDeviceAttributeConcurrentManagedAccess);
SAME_NUMBER(attribute_integrated, hipDeviceAttributeIntegrated);
SAME_NUMBER(attribute_managed_memory, hipDeviceAttributeManagedMemory);
SAME_NUMBER(attribute_multiprocessor_count, hipDeviceAttributeMultiprocessorCount);

#ifdef NEGATIVE
static_assert(same_function<Status (*)(cuda::StreamHandle), decltype(&::hipStreamWaitEvent), true>,
              "wrong: two parameters too few");
static_assert(same_function<Status (*)(DevicePtr, unsigned, size_t, cuda::StreamHandle),
                            decltype(&::hipMemsetD8Async), true>,
              "wrong: a byte as a word");
SAME_NUMBER(attribute_integrated, cuda::attribute_integrated);
#endif

}  // namespace hotslot::hip
