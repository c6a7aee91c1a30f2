// The executor drains the host device's queues: a small pool does, and threads that attend or wait.
#pragma once
#include <functional>
#include <mutex>

#include "device/host/stream.hpp"
#include "wait/bell.hpp"

namespace hotslot::host {

// The longest sleep is a net under a lost wake that nothing may need. The stress harness takes it
// away and pauses where a wake could get lost.
#ifdef HOTSLOT_STRESS
void stress_pause();
constexpr uint64_t max_sleep_ns = 3'600'000'000'000;
#else
inline void stress_pause() {}
constexpr uint64_t max_sleep_ns = 1'000'000'000;
#endif

// Drains queues. Threads that help: actors that attend, threads in wait_event, and a pool that is
// woken only when no other thread has promised to come.
//
//   Executor-1  Who enqueues stores the op, then looks who comes: it rings who attends, and wakes
//       the pool unless one of them is not busy. The pool's word moves before its threads are
//       counted.
//   Executor-2  Who is to sleep reads its word, then looks for work, then counts itself, then
//       sleeps on the word that it read.
//   Executor-3  One thread at a time has a queue's claim. Who gives it back looks at the queue
//       again, and wakes the pool for what only the pool may begin.
//   Executor-4  Who begins an op that may take long is counted as no help first, and wakes the pool
//       then if a queue is runnable. A record within a graph does so too.
//   Executor-5  Who goes away, or is out of time, and does not come back by itself, leaves word if
//       a queue is runnable.
//   Executor-6  Who ends an op says so first, then moves the word of completions, then wakes who
//       waits and rings who attends.
//
// `test/model/executor.ts` goes through every interleaving of small cases, with each of these rules
// broken in turn.
class Executor {
 public:
  static Executor& instance();
  void add(const Ref<Queue>& queue);
  // Something became runnable: see that a thread comes.
  void notify();
  // Of one who only asks whether work is done: where no thread could be had before, one may be had
  // now.
  void look_for_pool();
  // Runs what is runnable for about `ns`; true if it ran anything.
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
  // What became of an op: not begun, because it has to wait; not through, because the time is over;
  // done or failed.
  enum class Ran : uint8_t { blocked, some, all };
  Ran run(Op& op, const char*& failed, Queue& queue, uint64_t deadline);
  Ran run_graph(Op& op, const char*& failed, Queue& queue, uint64_t deadline);
  bool ready(Queue& queue);
  bool claimable(Queue& queue);
  bool next_for_pool(Queue& queue);
  void completed();
  // While one exists, its thread is inside an op that may take long and counts as no help for other
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
  // What follows is sequentially consistent throughout, for it is always the same pair: who
  // enqueues stores the work, then looks who could run it (attending, parked, held); who goes to
  // sleep or to a long op counts itself, then looks for work once more. Who waits for an op counts
  // itself among the waiters, then looks whether it is done; who ends one says so, then looks for
  // waiters.
  SpinLock attendants_lock_;
  std::vector<Bell*> attendants_;
  std::atomic<int> attending_{0};
  // Attendants inside help(), as often as they attend: they run something and cannot be counted on
  // for anything else.
  std::atomic<int> busy_{0};
  std::mutex pool_mutex_;
  // Pool threads, those asleep, and those inside a long op: the rest look at every queue again
  // before they sleep.
  std::atomic<int> pool_threads_{0}, pool_parked_{0}, pool_held_{0};
  int32_t pool_word_ = 0;
  std::atomic<int> waiters_{0};
  int32_t completions_ = 0;
};

}  // namespace hotslot::host
