// Waits in native code until another thread's native call ends. It spins, then yields, then naps.
// It never waits for JavaScript.
#pragma once
#include <sched.h>
#include <time.h>

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace hotslot::rows {

// Number of failed rounds after which a reader asks writers to let it pass.
constexpr uint32_t rounds_of_bad_luck = 32;
// Returns how long, in ns, a reader keeps trying after it has asked writers to wait, even after its
// deadline. This time is longer than a writer takes to copy a row.
constexpr uint64_t patience_ns(uint64_t row_bytes) { return 100'000 + 20 * row_bytes; }
// Returns the number of rounds for which a writer waits for readers that have asked it to. These
// rounds take about as long as the copy of a row. The bound prevents readers from starving writers.
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
