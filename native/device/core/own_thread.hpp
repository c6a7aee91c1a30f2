// Whether the calling thread runs this library's code alone. Nobody else changes the driver's state
// of such a thread.
#pragma once

namespace hotslot {

inline thread_local bool is_own_thread = false;

}  // namespace hotslot
