// Level Zero's calls and what becomes of their answers.
#pragma once
#include <string>

#include "device/level_zero/abi.hpp"

namespace hotslot::level_zero {

inline constexpr char family_name[] = "xpu";

// The loader's calls; good once the family was found.
const Table& ze();
[[noreturn]] void fail(const char* call, Status status, const std::string& detail = "");
inline void must(const char* call, Status status) {
  if (status != status::success) fail(call, status);
}
// Every driver call that may say no goes through here, or through the same with a `driver.newer`
// entry.
#define HOTSLOT_ZE(entry, ...) \
  ::hotslot::level_zero::must(#entry, ::hotslot::level_zero::ze().entry(__VA_ARGS__))
#define HOTSLOT_ZE_NEWER(driver, entry, ...) \
  ::hotslot::level_zero::must(#entry, (driver).newer.entry(__VA_ARGS__))

// The device is gone for this process, and with it whatever ran there.
bool lost(Status status);
// The driver or the device has no such thing: do without.
bool unsupported(Status status);
// For what is given back; see Unreturned. A lost device, or a driver that shut down, has nothing to
// give back to.
inline bool taken(Status status) {
  return status == status::success || status == status::uninitialized || lost(status);
}
inline void must_take(const char* call, Status status) {
  if (!taken(status)) fail(call, status, "it could not be given back");
}

}  // namespace hotslot::level_zero
