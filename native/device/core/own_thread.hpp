// Whether the calling thread runs only Hotslot's code. If so, no other code changes the driver's
// state of this thread, such as the current context. The core then need not ask the driver for this
// state.
#pragma once

namespace hotslot {

inline thread_local bool is_own_thread = false;

}  // namespace hotslot
