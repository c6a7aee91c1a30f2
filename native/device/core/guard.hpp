// The guard of a function's work. Guarded work runs only if a word in device memory is a multiple
// of a number at the moment when the device reaches the work. Otherwise the device skips the work.
#pragma once
#include "device/core/device.hpp"

namespace hotslot {

// The condition of guarded work: the int32 `word` is a multiple of `every`. A guard without memory
// has no condition.
struct Guard {
  Span word;
  int32_t every = 1;
};

// The guard that the calling thread has open. A thread has at most one.
struct OwnGuard {
  // Opens a guard for the work that this thread enqueues on the stream of `on`. Throws if this
  // thread has a guard open.
  static void open(const Ref<CaptureMembership>& on, Guard&& guard);
  // Returns this thread's guard for the stream of `on`, or null. The pointer is valid until
  // close().
  static const Guard* of(const CaptureMembership& on);
  // Closes this thread's guard if one is open.
  static void close();
};

}  // namespace hotslot
