// The executor, which runs the operations (ops) of the CPU device's queues. It has a small pool of
// threads. Threads that attend and threads that wait for an event run ops too.
#pragma once
#include <functional>
#include <mutex>

#include "device/host/stream.hpp"
#include "wait/bell.hpp"

namespace hotslot::host {

// The longest sleep of a thread, in nanoseconds. A wake-up must never get lost. If one did, the
// thread would still find its work after this time. In the stress harness the sleep takes an hour,
// so that a lost wake-up shows as a hang. The harness also pauses threads where a wake-up could get
// lost.
#ifdef HOTSLOT_STRESS
void stress_pause();
constexpr uint64_t max_sleep_ns = 3'600'000'000'000;
#else
inline void stress_pause() {}
constexpr uint64_t max_sleep_ns = 1'000'000'000;
#endif

// Runs the operations of all queues. Three kinds of threads help: actors that attend, threads in
// wait_event, and pool threads. A thread that attends (an attendant) has promised to call help()
// after its bell rings. The pool is woken only if no attendant is free.
//
//   Executor-1  A thread that enqueues stores the op, then rings every attendant. It then wakes the
//       pool unless at least one attendant is not busy. To wake the pool, it changes the pool's
//       word before it counts the pool's threads.
//   Executor-2  A thread that is about to sleep reads its word, then looks for work, then counts
//       itself as asleep. It then sleeps while the word has the value that it read.
//   Executor-3  One thread at a time has a queue's claim. A thread that releases the claim checks
//       the queue again. It wakes the pool if only the pool may begin the next op.
//   Executor-4  A pool thread that begins an op that may take long first counts itself as held, so
//       that enqueuers do not rely on it. Any thread that begins such an op then wakes the pool if
//       a queue is runnable. A thread that has run a record in a graph also does the latter.
//   Executor-5  If a queue is runnable, a thread that leaves or whose time is over notifies another
//       thread. An attendant that leaves help() need not notify, because it calls help() again.
//   Executor-6  A thread that ends an op first marks the op as done, then changes the word of
//       completions. It then wakes the waiters and rings the attendants.
//
// `test/model/executor.ts` checks every interleaving of small cases. It also breaks each of these
// rules in turn.
class Executor {
 public:
  static Executor& instance();
  void add(const Ref<Queue>& queue);
  // Ensures that a thread will run work that became runnable.
  void notify();
  // Starts a pool thread if the pool has none. A caller that only queries calls this. An earlier
  // attempt to start a thread may have failed, and then no thread might ever run the work.
  void look_for_pool();
  // Runs runnable ops for about `ns`. Returns whether it ran any.
  bool help(uint64_t ns);
  bool runnable();
  bool wait(const std::function<bool()>& done, uint64_t ns);
  // See Device::revoke. Replays of graphs that touch the memory fail afterward.
  void revoke(const Ref<Memory>& memory, uint64_t ns);
  void attend(Bell* bell);
  void dismiss(Bell* bell);

 private:
  using Queues = std::vector<Ref<Queue>>;
  std::shared_ptr<const Queues> queues();
  bool drain(Queue& queue, uint64_t deadline);
  // The result of running an op.
  // - blocked: the op has not begun, because it has to wait.
  // - some: the op is not finished, because the time is over.
  // - all: the op is done or has failed.
  enum class Ran : uint8_t { blocked, some, all };
  Ran run(Op& op, const char*& failed, Queue& queue, uint64_t deadline);
  Ran run_graph(Op& op, const char*& failed, Queue& queue, uint64_t deadline);
  bool ready(Queue& queue);
  bool claimable(Queue& queue);
  bool next_for_pool(Queue& queue);
  void completed();
  // Exists while its thread runs an op that may take long. Enqueuers do not rely on a pool thread
  // meanwhile. If `may_take_long` is false, the object does nothing.
  struct LongOp {
    LongOp(Executor& executor, bool may_take_long);
    ~LongOp();
    Executor* executor;
  };
  void wake_pool();
  void pool_main();

  SpinLock lock_;
  std::shared_ptr<const Queues> queues_ = std::make_shared<Queues>();
  // All accesses to the atomic fields below are sequentially consistent. Two kinds of thread pairs
  // need this. Each thread of a pair first stores, then reads what the other stores. So at least
  // one of them sees the other's store.
  //
  // A thread that enqueues stores the work, then reads how many threads attend, sleep or are held.
  // A thread that goes to sleep or begins a long op counts itself, then looks for work once more.
  //
  // A thread that waits for an op counts itself in `waiters_`, then checks whether the op is done.
  // A thread that ends an op marks the op as done, then reads `waiters_`.
  SpinLock attendants_lock_;
  std::vector<Bell*> attendants_;
  std::atomic<int> attending_{0};
  // The number of attendants inside help(), where each counts as often as it attends. They may be
  // running an op, so an enqueuer cannot rely on them.
  std::atomic<int> busy_{0};
  std::mutex pool_mutex_;
  // The number of pool threads, of sleeping ones, and of those in a long op. All other pool threads
  // check every queue again before they sleep.
  std::atomic<int> pool_threads_{0}, pool_parked_{0}, pool_held_{0};
  int32_t pool_word_ = 0;
  std::atomic<int> waiters_{0};
  int32_t completions_ = 0;
};

}  // namespace hotslot::host
