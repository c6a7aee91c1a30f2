// Calls on devices and contexts, and the names of errors.
#pragma once
#include <fcntl.h>
#include <sys/file.h>

#include "cuda_memory.hpp"

namespace hotslot::software::op {

// ---- devices and contexts -----------------------------------------------------------------------

inline Status device_get_count(int* out) {
  demand(out, status::invalid_value);
  *out = int(driver().devices.size());
  return 0;
}

inline Status device_get(DeviceId* out, int index) {
  demand(out, status::invalid_value);
  *out = device_at(index).index;
  return 0;
}

inline Status device_get_name(char* out, int length, DeviceId id) {
  device_at(id);
  demand(out && length > 0, status::invalid_value);
  // test/rig/error-scope.ts reads the end of the name.
  const char* const scope = driver().card.kernels_lose_contexts ? ", errors lose the context" : "";
#ifdef HOTSLOT_SOFTWARE_HIP
  snprintf(out, size_t(length), "Hotslot software driver (HIP %d%s)", HOTSLOT_SOFTWARE_HIP, scope);
#else
  snprintf(out, size_t(length), "Hotslot software driver (CUDA %d.%d%s)", driver().version / 1000,
           driver().version % 1000 / 10, scope);
#endif
  return 0;
}

inline Status device_get_attribute(int* out, Attribute attribute, DeviceId id) {
  device_at(id);
  demand(out && attribute > 0 && attribute < 200, status::invalid_value);
  enum {
    max_threads_per_block = 1,
    unified_addressing = 41,
    stream_priorities = 78,
    same_host_pointer = 91
  };
  static const std::map<int, int> known{{max_threads_per_block, 1024},
                                        {attribute_multiprocessor_count, 2},
                                        {attribute_async_engine_count, 2},
                                        {unified_addressing, 1},
                                        {stream_priorities, 1},
                                        {same_host_pointer, 1}};
  const auto found = known.find(attribute);
  *out = found == known.end() ? 0 : found->second;
  if (attribute == attribute_cc_major) *out = driver().cc / 10;
  if (attribute == attribute_cc_minor) *out = driver().cc % 10;
  if (attribute == attribute_host_register_supported) *out = !driver().refuse_register;
  if (attribute == attribute_kernel_exec_timeout) *out = driver().exec_timeout;
  if (attribute == attribute_managed_memory) *out = driver().managed;
  if (attribute == attribute_concurrent_managed_access)
    *out = driver().managed && driver().concurrent;
  return 0;
}

inline Status device_total_mem(size_t* out, DeviceId id) {
  Device& device = device_at(id);
  demand(out, status::invalid_value);
  *out = capacity(device);
  return 0;
}

// Returns whether no other process has the devices. From then on this process has them until it
// ends.
inline bool alone() {
  if (driver().exclusive.empty()) return true;
  static const int file = open(driver().exclusive.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  return file >= 0 && flock(file, LOCK_EX | LOCK_NB) == 0;
}

inline Status primary_context_retain(Context* out, DeviceId id) {
  Device& device = device_at(id);
  demand(out, status::invalid_value);
  refuse_poisoned(device);
  take_time();
  demand(alone(), exclusive_process);
  device.retained++;
  *out = reinterpret_cast<Context>(&device);
  return 0;
}

inline Status primary_context_release(DeviceId id) {
  Device& device = device_at(id);
  demand(device.retained > 0, status::invalid_context);
  if (--device.retained == 0)
    desk().complaints.say(
        "the last release of a primary context, which resets it for the whole process");
  return 0;
}

inline Status primary_context_get_state(DeviceId id, unsigned* flags, int* active) {
  Device& device = device_at(id);
  demand(flags && active, status::invalid_value);
  *flags = device.flags;
  *active = device.retained > 0;
  return 0;
}

inline Status primary_context_set_flags(DeviceId id, unsigned flags) {
  Device& device = device_at(id);
  demand((flags & ~0x1fu) == 0, status::invalid_value);
  device.flags = flags;
  return 0;
}

inline Status context_set_current(Context context) {
  thread_state().current = context ? &device_of(context) : nullptr;
  return 0;
}

inline Status context_get_current(Context* out) {
  demand(out, status::invalid_value);
  *out = reinterpret_cast<Context>(thread_state().current);
  return 0;
}

inline Status device_can_access_peer(int* out, DeviceId from, DeviceId to) {
  device_at(from), device_at(to);
  demand(out, status::invalid_value);
  *out = from != to && driver().peer;
  return 0;
}

inline Status enable_peer_access(Device& peer, unsigned flags) {
  Device& device = current();
  demand(flags == 0, status::invalid_value);
  demand(&peer != &device && driver().peer, peer_access_unsupported);
  demand(device.peers.insert(&peer).second, status::peer_access_already_enabled);
  return 0;
}

inline Status context_enable_peer_access(Context context, unsigned flags) {
  return enable_peer_access(device_of(context), flags);
}

struct ErrorName {
  Status status;
  const char *cuda, *hip, *text;
};
inline constexpr ErrorName error_names[] = {
    {0, "CUDA_SUCCESS", "hipSuccess", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "hipErrorInvalidValue", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "hipErrorOutOfMemory", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "hipErrorNotInitialized", "initialization error"},
    {4, "CUDA_ERROR_DEINITIALIZED", "hipErrorDeinitialized", "driver shutting down"},
    {21, nullptr, "hipErrorInvalidMemcpyDirection", "invalid copy direction for memcpy"},
    {46, "CUDA_ERROR_DEVICE_UNAVAILABLE", nullptr,
     "CUDA-capable device(s) is/are busy or unavailable"},
    {98, nullptr, "hipErrorInvalidDeviceFunction", "invalid device function"},
    {100, "CUDA_ERROR_NO_DEVICE", "hipErrorNoDevice", "no device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "hipErrorInvalidDevice", "invalid device ordinal"},
    {200, "CUDA_ERROR_INVALID_IMAGE", "hipErrorInvalidImage", "device kernel image is invalid"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "hipErrorInvalidContext", "invalid device context"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "hipErrorNoBinaryForGpu",
     "no kernel image is available for execution on the device"},
    {217, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", "hipErrorPeerAccessUnsupported",
     "peer access is not supported between these two devices"},
    {218, "CUDA_ERROR_INVALID_PTX", "hipErrorInvalidKernelFile", "a PTX JIT compilation failed"},
    {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", nullptr,
     "the provided PTX was compiled with an unsupported toolchain."},
    {400, "CUDA_ERROR_INVALID_HANDLE", "hipErrorInvalidHandle", "invalid resource handle"},
    {401, "CUDA_ERROR_ILLEGAL_STATE", "hipErrorIllegalState",
     "the operation cannot be performed in the present state"},
    {500, "CUDA_ERROR_NOT_FOUND", "hipErrorNotFound", "named symbol not found"},
    {600, "CUDA_ERROR_NOT_READY", "hipErrorNotReady", "device not ready"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "hipErrorIllegalAddress",
     "an illegal memory access was encountered"},
    {704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "hipErrorPeerAccessAlreadyEnabled",
     "peer access is already enabled"},
    {712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "hipErrorHostMemoryAlreadyRegistered",
     "part or all of the memory is already mapped"},
    {713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "hipErrorHostMemoryNotRegistered",
     "pointer does not correspond to a registered memory region"},
    {716, "CUDA_ERROR_MISALIGNED_ADDRESS", nullptr, "misaligned address"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "hipErrorLaunchFailure", "unspecified launch failure"},
    {801, "CUDA_ERROR_NOT_SUPPORTED", "hipErrorNotSupported", "operation not supported"},
    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "hipErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "hipErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {902, "CUDA_ERROR_STREAM_CAPTURE_MERGE", "hipErrorStreamCaptureMerge",
     "operation would result in a merge of separate capture sequences"},
    {903, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "hipErrorStreamCaptureUnmatched",
     "capture was not ended in the same stream as it began"},
    {904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "hipErrorStreamCaptureUnjoined",
     "capturing stream has unjoined work"},
    {905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "hipErrorStreamCaptureIsolation",
     "dependency created on uncaptured work in another stream"},
    {906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", "hipErrorStreamCaptureImplicit",
     "dependency of the legacy stream on a capturing one"},
    {907, "CUDA_ERROR_CAPTURED_EVENT", "hipErrorCapturedEvent",
     "operation not permitted on an event last recorded in a capturing stream"},
    {908, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", "hipErrorStreamCaptureWrongThread",
     "capture ended in another thread than it began"},
    {910, "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE", "hipErrorGraphExecUpdateFailure",
     "the graph update violated constraints"},
    {999, "CUDA_ERROR_UNKNOWN", "hipErrorUnknown", "unknown error"},
};
inline const ErrorName* error_name(Status code) {
  for (auto& name : error_names)
    if (name.status == code) return &name;
  return nullptr;
}
inline Status get_error_name(Status code, const char** out) {
  const ErrorName* found = error_name(code);
  *out = found ? found->cuda : nullptr;
  return *out ? 0 : status::invalid_value;
}
inline Status get_error_string(Status code, const char** out) {
  const ErrorName* found = error_name(code);
  *out = found && found->cuda ? found->text : nullptr;
  return *out ? 0 : status::invalid_value;
}

}  // namespace hotslot::software::op
