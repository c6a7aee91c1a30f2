// Pauses between two checks of a value that another thread changes in its native call. The first
// pauses spin, later ones yield the CPU, and then the thread sleeps 50 µs each time. No loop waits
// for JavaScript in this way.
#pragma once
#include <sched.h>
#include <time.h>

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace hotslot::rows {

// Number of failed attempts to copy a row after which a reader asks writers to wait
// (`readers_waiting`).
constexpr uint32_t rounds_of_bad_luck = 32;
// Returns for how many ns a reader keeps trying after it has asked writers to wait, even after its
// deadline. This time is longer than a writer takes to copy a row. So the writers that are already
// copying finish before the reader gives up.
constexpr uint64_t patience_ns(uint64_t row_bytes) { return 100'000 + 20 * row_bytes; }
// Returns the maximum number of pauses of a writer that readers have asked to wait. These pauses
// take about as long as the copy of a row. Because of the maximum, readers cannot stop a writer
// forever.
constexpr uint32_t rounds_of_courtesy(uint64_t row_bytes) {
  return 256 + static_cast<uint32_t>(row_bytes / 128);
}

class Backoff {
 public:
  void pause() {
    ++rounds_;
    if (rounds_ <= 64) {
#if defined(__x86_64__)
      _mm_pause();
#endif
    } else if (rounds_ <= 1024) {
      sched_yield();
    } else {
      const timespec nap{0, 50'000};
      nanosleep(&nap, nullptr);
    }
  }
  uint32_t rounds() const { return rounds_; }

 private:
  uint32_t rounds_ = 0;
};

}  // namespace hotslot::rows
