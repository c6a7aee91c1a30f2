// Linked into programs and addons that are built with HOTSLOT_STRESS. The host's executor calls
// stress_pause() at points where a wake could be lost. Some calls pause, which makes these points
// last longer.
#include "device/host/executor.hpp"

void hotslot::host::stress_pause() {
  static thread_local uint32_t draw = uint32_t(now_ns());
  draw = draw * 1664525 + 1013904223;
  if (draw >> 29 == 0) sched_yield();
  if (draw >> 25 == 1) std::this_thread::sleep_for(std::chrono::microseconds(60));
}
