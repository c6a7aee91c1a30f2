// The exception class of the core, and a function for each error code that creates it. The core
// throws only these JavaScript error codes and ERR_HOTSLOT_COMPILE (kernel_module.hpp). The
// functions join their arguments as a stream does: throw range(bytes, " bytes at ", offset).
#pragma once
#include <locale>
#include <sstream>
#include <stdexcept>
#include <string>

#include "device/core/api.h"

namespace hotslot {

// `code` is the JavaScript error code. The other fields are set only for a driver's error.
struct Error : std::runtime_error {
  Error(const char* code, const std::string& text) : std::runtime_error(text), code(code) {}
  Error(const char* family, const char* call, int status, const char* status_name,
        const std::string& text, const char* advice)
      : std::runtime_error(text),
        code("ERR_HOTSLOT_DEVICE"),
        family(family),
        call(call),
        status_name(status_name),
        advice(advice),
        status(status) {}
  const char* code;
  const char* family = "";
  const char* call = "";
  const char* status_name = "";
  const char* advice = "";
  int status = 0;
};

// Returns the error in the form of api.h. The result is valid while `error` exists.
inline hotslot_error view(const Error& error) {
  return {error.code,        error.what(), error.family, error.call,
          error.status_name, error.advice, error.status};
}

template <class... Parts>
std::string sentence(const Parts&... parts) {
  std::ostringstream text;
  text.imbue(std::locale::classic());
  (text << ... << parts);
  return text.str();
}

// The error for an argument of the wrong kind.
template <class... Parts>
Error argument(const Parts&... parts) {
  return {"ERR_HOTSLOT_ARGUMENT", sentence(parts...)};
}

// The error for an argument of the right kind with an invalid value.
template <class... Parts>
Error range(const Parts&... parts) {
  return {"ERR_HOTSLOT_RANGE", sentence(parts...)};
}

// The error if another thread or the device uses the object now. The same call can succeed later.
template <class... Parts>
Error state_busy(const Parts&... parts) {
  return {"ERR_HOTSLOT_STATE_BUSY", sentence(parts...)};
}

// The error for a call that is not allowed inside a capture, or only allowed there.
template <class... Parts>
Error state_capture(const Parts&... parts) {
  return {"ERR_HOTSLOT_STATE_CAPTURE", sentence(parts...)};
}

// The error if this device or driver does not support the call.
template <class... Parts>
Error unavailable(const Parts&... parts) {
  return {"ERR_HOTSLOT_UNAVAILABLE", sentence(parts...)};
}

template <class... Parts>
Error out_of_memory(const Parts&... parts) {
  return {"ERR_HOTSLOT_MEMORY", sentence(parts...)};
}

template <class... Parts>
Error unknown_device(const Parts&... parts) {
  return {"ERR_HOTSLOT_UNKNOWN_DEVICE", sentence(parts...)};
}

// The error for a JavaScript object that was closed and has no handle.
inline Error closed(const char* what) {
  return {"ERR_HOTSLOT_STATE_CLOSED", sentence(what, " is closed")};
}

// The error for addons of different builds.
template <class... Parts>
Error wrong_addon(const Parts&... parts) {
  return {"ERR_HOTSLOT_ADDON", sentence(parts...)};
}

// The error for the handle of an object that was closed.
inline Error stale(const char* what) {
  return {"ERR_HOTSLOT_STALE_HANDLE", sentence("this ", what, " is closed (its handle is stale)")};
}

// The number and the name of a driver's error status.
struct Refusal {
  int status;
  const char* name;
};

// The statuses of errors that Hotslot's own rules throw, for every family. They have the numbers
// and names of CUDA's statuses. Errors of captures begin at 900.
namespace refusal {
constexpr Refusal invalid_value{1, "INVALID_VALUE"};
constexpr Refusal not_ready{600, "NOT_READY"};
constexpr Refusal launch_failed{719, "LAUNCH_FAILED"};
constexpr Refusal capture_unsupported{900, "STREAM_CAPTURE_UNSUPPORTED"};
constexpr Refusal capture_invalidated{901, "STREAM_CAPTURE_INVALIDATED"};
constexpr Refusal capture_merge{902, "STREAM_CAPTURE_MERGE"};
constexpr Refusal capture_unmatched{903, "STREAM_CAPTURE_UNMATCHED"};
constexpr Refusal capture_unjoined{904, "STREAM_CAPTURE_UNJOINED"};
constexpr Refusal capture_isolation{905, "STREAM_CAPTURE_ISOLATION"};
constexpr Refusal captured_event{907, "CAPTURED_EVENT"};
constexpr Refusal capture_wrong_thread{908, "STREAM_CAPTURE_WRONG_THREAD"};
}  // namespace refusal

// Throws a driver's error, or one of the statuses above, in the form that every family uses.
[[noreturn]] inline void refuse(const char* family, const char* call, const Refusal& no,
                                const std::string& why, const char* advice) {
  throw Error(family, call, no.status, no.name,
              sentence(family, ": ", call, " refused with ", no.name, ": ", why), advice);
}

}  // namespace hotslot
