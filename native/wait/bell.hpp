// A thread's bell as native code sees it (src/shm/bell.ts draws the same words): anyone rings, only
// the owner sleeps.
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

// Control words live in JavaScript's shared memory: every access here is a sequentially consistent
// atomic, as JavaScript's are. Less would lose wakes: a sleeper stores that it sleeps, then looks
// at the count; a ringer adds to the count, then looks for who sleeps.
inline std::atomic<int32_t>& word_at(int32_t* word) {
  static_assert(sizeof(std::atomic<int32_t>) == sizeof(int32_t) &&
                std::atomic<int32_t>::is_always_lock_free);
  return *reinterpret_cast<std::atomic<int32_t>*>(word);
}

inline void futex_wake(int32_t* word, int most) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, most, nullptr, nullptr, 0);
}

// Linux lets a sleep last 50 µs longer than was asked, to wake less often: not for a thread that
// waits for a device.
inline void sleep_exactly() {
  static thread_local const int set = prctl(PR_SET_TIMERSLACK, 1'000ul);
  (void)set;
}

// Sleeps while *word == seen, at most `ns`.
inline void futex_wait(int32_t* word, int32_t seen, uint64_t ns) {
  timespec t{time_t(ns / 1000000000u), long(ns % 1000000000u)};
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, &t, nullptr, 0);
}

// A moment in which the core's other thread, or the next look, has the core's means.
inline void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

// Looks at *word for at most `ns`; true as soon as it differs from `seen`. A thread that is ready
// and has no core gets this one: it may be the one that is waited for.
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

// Of a bell with what JavaScript has beside it: a cache line, so that two bells never share one.
constexpr int bell_words = 16;

struct Bell {
  enum Parked : int32_t { awake = 0, javascript = 1, native = 2 };
  int32_t count;
  int32_t parked;

  int32_t read() { return word_at(&count).load(); }

  // After the store the owner should see. A JavaScript sleeper cannot be woken from here: its park
  // is bounded, and the protocol has it park natively whenever native code is what it waits for.
  void ring() {
    word_at(&count).fetch_add(1);
    if (word_at(&parked).load() == native) futex_wake(&count, 1);
  }

  // Owner only. Sleeps until the count differs from `seen`, for at most `ns`; true when it does.
  bool sleep(int32_t seen, uint64_t ns) {
    const int32_t before = word_at(&parked).exchange(native);
    if (read() == seen) futex_wait(&count, seen, ns);
    // Restored rather than cleared: this thread may have an asynchronous waiter in JavaScript,
    // which ringers notify only while the word says so.
    word_at(&parked).store(before);
    return read() != seen;
  }
};

}  // namespace hotslot
