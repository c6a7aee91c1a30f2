// Calls of Level Zero's functions, and the checks of their statuses.
#pragma once
#include <string>

#include "device/level_zero/abi.hpp"

namespace hotslot::level_zero {

inline constexpr char family_name[] = "xpu";

// Returns the loader's functions. They are valid after the family's devices were searched for.
const Table& ze();
[[noreturn]] void fail(const char* call, Status status, const std::string& detail = "");
inline void must(const char* call, Status status) {
  if (status != status::success) fail(call, status);
}
// Calls a function and throws if it fails. HOTSLOT_ZE_NEWER does the same with a function of
// `driver.newer`.
#define HOTSLOT_ZE(entry, ...) \
  ::hotslot::level_zero::must(#entry, ::hotslot::level_zero::ze().entry(__VA_ARGS__))
#define HOTSLOT_ZE_NEWER(driver, entry, ...) \
  ::hotslot::level_zero::must(#entry, (driver).newer.entry(__VA_ARGS__))

// Returns whether the status means that the device and all its work are lost for this process.
bool lost(Status status);
// Returns whether the status means that the driver or the device lacks the feature.
bool unsupported(Status status);
// Returns whether the driver has freed an object, or nothing is left to free. The latter is the
// case for a lost device and a driver that has shut down. See Unreturned.
inline bool taken(Status status) {
  return status == status::success || status == status::uninitialized || lost(status);
}
inline void must_take(const char* call, Status status) {
  if (!taken(status)) fail(call, status, "it could not be given back");
}

}  // namespace hotslot::level_zero
