// The executor, which drains the host device's queues by a small pool and by threads that attend or
// wait.
#pragma once
#include <functional>
#include <mutex>

#include "device/host/stream.hpp"
#include "wait/bell.hpp"

namespace hotslot::host {

// The longest sleep limits the effect of a lost wake-up, which must never happen. The stress
// harness sets it to an hour and pauses where a wake-up could get lost.
#ifdef HOTSLOT_STRESS
void stress_pause();
constexpr uint64_t max_sleep_ns = 3'600'000'000'000;
#else
inline void stress_pause() {}
constexpr uint64_t max_sleep_ns = 1'000'000'000;
#endif

// Drains queues. Actors that attend, threads in wait_event, and a pool help. The pool is woken only
// if no other thread has promised to come.
//
//   Executor-1  A thread that enqueues stores the op, then rings every attendant, and wakes the
//       pool unless one attendant is not busy. The pool's word changes before its threads are
//       counted.
//   Executor-2  A thread that is about to sleep reads its word, then looks for work, then counts
//       itself, then sleeps on the word that it read.
//   Executor-3  One thread at a time has a queue's claim. A thread that releases it looks at the
//       queue again, and wakes the pool for an op that only the pool may begin.
//   Executor-4  A thread that begins an op that may take long is first counted as no help, and then
//       wakes the pool if a queue is runnable. A record within a graph does so too.
//   Executor-5  A thread that leaves, or is out of time, and does not come back by itself, notifies
//       another thread if a queue is runnable.
//   Executor-6  A thread that ends an op marks it as done first, then changes the word of
//       completions, then wakes the waiters and rings the attendants.
//
// `test/model/executor.ts` checks every interleaving of small cases, with each of these rules
// broken in turn.
class Executor {
 public:
  static Executor& instance();
  void add(const Ref<Queue>& queue);
  // Ensures that a thread comes, because work became runnable.
  void notify();
  // Starts a pool thread if the pool has none, for a caller that only queries. An earlier attempt
  // to start one may have failed.
  void look_for_pool();
  // Runs runnable ops for about `ns`. Returns true if it ran any.
  bool help(uint64_t ns);
  bool runnable();
  bool wait(const std::function<bool()>& done, uint64_t ns);
  // See Device::revoke. Graphs that hold the memory fail when they are replayed.
  void revoke(const Ref<Memory>& memory, uint64_t ns);
  void attend(Bell* bell);
  void dismiss(Bell* bell);

 private:
  using Queues = std::vector<Ref<Queue>>;
  std::shared_ptr<const Queues> queues();
  bool drain(Queue& queue, uint64_t deadline);
  // The result of running an op. blocked: not begun, because it has to wait. some: not finished,
  // because the time is over. all: done or failed.
  enum class Ran : uint8_t { blocked, some, all };
  Ran run(Op& op, const char*& failed, Queue& queue, uint64_t deadline);
  Ran run_graph(Op& op, const char*& failed, Queue& queue, uint64_t deadline);
  bool ready(Queue& queue);
  bool claimable(Queue& queue);
  bool next_for_pool(Queue& queue);
  void completed();
  // While it exists, its thread is inside an op that may take long, and counts as no help for other
  // queues.
  struct LongOp {
    LongOp(Executor& executor, bool may_take_long);
    ~LongOp();
    Executor* executor;
  };
  void wake_pool();
  void pool_main();

  SpinLock lock_;
  std::shared_ptr<const Queues> queues_ = std::make_shared<Queues>();
  // The following fields are sequentially consistent, because they are always used in pairs. A
  // thread that enqueues stores the work, then reads which threads could run it (attending, parked,
  // held). A thread that goes to sleep or begins a long op counts itself, then looks for work once
  // more. A thread that waits for an op counts itself among the waiters, then checks whether it is
  // done. A thread that ends an op marks it as done, then looks for waiters.
  SpinLock attendants_lock_;
  std::vector<Bell*> attendants_;
  std::atomic<int> attending_{0};
  // Attendants inside help(), counted as often as they attend. They run an op and cannot be relied
  // on for another.
  std::atomic<int> busy_{0};
  std::mutex pool_mutex_;
  // Pool threads, those asleep, and those inside a long op. The others look at every queue again
  // before they sleep.
  std::atomic<int> pool_threads_{0}, pool_parked_{0}, pool_held_{0};
  int32_t pool_word_ = 0;
  std::atomic<int> waiters_{0};
  int32_t completions_ = 0;
};

}  // namespace hotslot::host
