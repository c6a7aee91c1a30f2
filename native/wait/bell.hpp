// A thread's bell in native code (src/shm/bell.ts shows the same words). Any thread rings it, and
// only its owner sleeps on it.
#pragma once
#include <linux/futex.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace hotslot {

inline uint64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return uint64_t(t.tv_sec) * 1000000000u + uint64_t(t.tv_nsec);
}

// Returns a control word as an atomic. Control words are in JavaScript's shared memory, so every
// access here is a sequentially consistent atomic, as in JavaScript.
//
// A weaker order would lose wake-ups. A sleeper stores that it sleeps, then reads the count. A
// ringer adds to the count, then reads whether a thread sleeps. Each could then miss the other's
// store, and the sleeper would not be woken.
inline std::atomic<int32_t>& word_at(int32_t* word) {
  static_assert(sizeof(std::atomic<int32_t>) == sizeof(int32_t) &&
                std::atomic<int32_t>::is_always_lock_free);
  return *reinterpret_cast<std::atomic<int32_t>*>(word);
}

inline void futex_wake(int32_t* word, int most) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, most, nullptr, nullptr, 0);
}

// Makes the calling thread's sleeps end on time. By default Linux lets a sleep last 50 µs longer
// than requested, to wake less often. Threads that wait for a device call this.
inline void sleep_exactly() {
  static thread_local const int set = prctl(PR_SET_TIMERSLACK, 1'000ul);
  (void)set;
}

// Sleeps while *word == seen, for at most `ns` nanoseconds.
inline void futex_wait(int32_t* word, int32_t seen, uint64_t ns) {
  timespec t{time_t(ns / 1000000000u), long(ns % 1000000000u)};
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, &t, nullptr, 0);
}

// Pauses for some cycles between two polls of a word. Meanwhile the core's other hardware thread
// can use the core's execution units.
inline void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

// Polls *word for at most `ns`. Returns true as soon as it differs from `seen`. Between polls it
// yields the core, because the awaited thread may be ready and need a core.
inline bool look_until(int32_t* word, int32_t seen, uint64_t ns) {
  constexpr int looks = 16;
  const uint64_t deadline = now_ns() + ns;
  do {
    for (int i = 0; i < looks; ++i) {
      if (word_at(word).load() != seen) return true;
      pause_core();
    }
    sched_yield();
  } while (now_ns() < deadline);
  return false;
}

// Number of words of a bell, including those that only JavaScript uses. A bell fills a cache line,
// so that two bells never share one.
constexpr int bell_words = 16;

struct Bell {
  enum Parked : int32_t { awake = 0, javascript = 1, native = 2 };
  int32_t count;
  int32_t parked;

  int32_t read() { return word_at(&count).load(); }

  // Raises the count, and wakes the owner if it sleeps in native code. Call ring() after the store
  // that the owner should see.
  //
  // ring() cannot wake an owner that sleeps in JavaScript, but such a sleep is bounded. By the
  // protocol, a thread that waits for native code parks natively.
  void ring() {
    word_at(&count).fetch_add(1);
    if (word_at(&parked).load() == native) futex_wake(&count, 1);
  }

  // Sleeps until the count differs from `seen`, for at most `ns`. Returns whether it differs. Only
  // the owner calls it.
  bool sleep(int32_t seen, uint64_t ns) {
    const int32_t before = word_at(&parked).exchange(native);
    if (read() == seen) futex_wait(&count, seen, ns);
    // Restores `parked` instead of clearing it. This thread may have an asynchronous waiter in
    // JavaScript, and ringers notify that waiter only while the word is `javascript`.
    word_at(&parked).store(before);
    return read() != seen;
  }
};

}  // namespace hotslot
