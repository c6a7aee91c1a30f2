// Whether the calling thread runs only this library's code. No other code changes the driver's
// state of such a thread.
#pragma once

namespace hotslot {

inline thread_local bool is_own_thread = false;

}  // namespace hotslot
