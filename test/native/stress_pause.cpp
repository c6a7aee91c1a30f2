// Linked into what is built with HOTSLOT_STRESS: the core harness and the sanitized addons. The
// executor calls it at the moments in which a wake could get lost; now and then they last longer.
#include "device/host/executor.hpp"

void hotslot::host::stress_pause() {
  static thread_local uint32_t draw = uint32_t(now_ns());
  draw = draw * 1664525 + 1013904223;
  if (draw >> 29 == 0) sched_yield();
  if (draw >> 25 == 1) std::this_thread::sleep_for(std::chrono::microseconds(60));
}
