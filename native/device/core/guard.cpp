// The guard that each thread has open. A guard belongs to the thread instead of the stream, so a
// thread that is terminated inside a guarded function leaves no guard on a shared stream.
#include "device/core/guard.hpp"

#include "wait/thread_own.hpp"

namespace hotslot {
namespace {

// `on` is null unless a guard is open. The reference keeps the membership's address from being used
// again if the stream is closed meanwhile.
struct OpenGuard {
  Ref<CaptureMembership> on;
  Guard guard;
};
const ThreadOwn<OpenGuard>& own_guard() {
  static const ThreadOwn<OpenGuard> own;
  return own;
}

}  // namespace

void OwnGuard::open(const Ref<CaptureMembership>& on, Guard&& guard) {
  OpenGuard& own = own_guard().made();
  if (own.on)
    throw state_busy(
        "guarded: another guarded function runs in this thread, and guards cannot be nested; "
        "call it after that function");
  own = {on, std::move(guard)};
}

const Guard* OwnGuard::of(const CaptureMembership& on) {
  const OpenGuard* const own = own_guard().get();
  return own && own->on.get() == &on ? &own->guard : nullptr;
}

void OwnGuard::close() {
  if (OpenGuard* const own = own_guard().get()) *own = {};
}

}  // namespace hotslot
