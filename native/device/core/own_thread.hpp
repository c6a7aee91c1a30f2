// Threads that run this library's code and nothing else: what a driver keeps for a thread stays as the library left it.
#pragma once

namespace hotslot {

inline thread_local bool runs_ours_alone = false;

}  // namespace hotslot
