// Whether the calling thread runs only Hotslot's code. Then no other code changes the driver's
// state of this thread.
#pragma once

namespace hotslot {

inline thread_local bool is_own_thread = false;

}  // namespace hotslot
