// Level Zero's calls, and the checks of their statuses.
#pragma once
#include <string>

#include "device/level_zero/abi.hpp"

namespace hotslot::level_zero {

inline constexpr char family_name[] = "xpu";

// Returns the loader's calls, which are valid once the family was found.
const Table& ze();
[[noreturn]] void fail(const char* call, Status status, const std::string& detail = "");
inline void must(const char* call, Status status) {
  if (status != status::success) fail(call, status);
}
// Calls the driver and throws if the call fails. HOTSLOT_ZE_NEWER does so with a `driver.newer`
// entry.
#define HOTSLOT_ZE(entry, ...) \
  ::hotslot::level_zero::must(#entry, ::hotslot::level_zero::ze().entry(__VA_ARGS__))
#define HOTSLOT_ZE_NEWER(driver, entry, ...) \
  ::hotslot::level_zero::must(#entry, (driver).newer.entry(__VA_ARGS__))

// Returns whether the device, with all its work, is lost for this process.
bool lost(Status status);
// Returns whether the driver or the device lacks the feature, which is then not used.
bool unsupported(Status status);
// Returns whether freeing succeeded. See Unreturned. It counts as success for a lost device or a
// driver that shut down.
inline bool taken(Status status) {
  return status == status::success || status == status::uninitialized || lost(status);
}
inline void must_take(const char* call, Status status) {
  if (!taken(status)) fail(call, status, "it could not be given back");
}

}  // namespace hotslot::level_zero
