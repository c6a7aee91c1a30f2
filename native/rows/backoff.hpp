// Waits of native code for the end of another thread's native call: spin, then yield, then nap.
// Never waits for JavaScript.
#pragma once
#include <sched.h>
#include <time.h>

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace hotslot::rows {

// Failed rounds after which a reader asks writers to let it pass.
constexpr uint32_t rounds_of_bad_luck = 32;
// Nanoseconds that a reader stays after it has asked, at any deadline: longer than a row is copied.
constexpr uint64_t patience_ns(uint64_t row_bytes) { return 100'000 + 20 * row_bytes; }
// Rounds a writer stands back for such readers: as long as a row is copied. Bounded, so that
// readers cannot starve writers either.
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
