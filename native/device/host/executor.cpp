// Decides which thread runs the operations (ops) in the CPU device's queues.
//
// A thread that enqueues an op ensures that some thread will run it. A thread that stops running
// queues, or that begins a long op, ensures the same for runnable ops in the other queues.
//
// An attending actor is sure to run the ops unless it is inside help(). A pool thread is sure to
// run them unless it is in a long op.
#include "device/host/executor.hpp"

#include <algorithm>
#include <exception>
#include <limits>
#include <memory>
#include <thread>

#include "wait/idle_cores.hpp"

namespace hotslot::host {
namespace {
// The bell with which this thread attends, or null. Work that this thread enqueues itself need not
// ring it.
thread_local Bell* own_bell = nullptr;
// How many times this thread attends: the calls of attend() minus those of dismiss(). It is more
// than 1 if the thread hosts several pollers, and each of them attends.
thread_local int own_attends = 0;
thread_local bool pool_thread = false;
// Maximum number of pool threads. The pool adds a thread only if all its threads run long ops.
// While 16 long ops run at once, ops that no other thread runs wait until one of the 16 is done.
constexpr int max_pool_threads = 16;
}  // namespace

Executor& Executor::instance() {
  // Never destroyed, because pool threads may still run while statics are destroyed.
  static Executor* executor = new Executor;
  return *executor;
}

void Executor::add(const Ref<Queue>& queue) {
  std::lock_guard guard(lock_);
  auto next = std::make_shared<Queues>();
  for (auto& old : *queues_)
    if (!old->closed.load() || old->pending.load() != 0) next->push_back(old);
  next->push_back(queue);
  std::stable_sort(next->begin(), next->end(),
                   [](auto& a, auto& b) { return a->priority < b->priority; });
  queues_ = std::move(next);
}

std::shared_ptr<const Executor::Queues> Executor::queues() {
  std::lock_guard guard(lock_);
  return queues_;
}

void Executor::notify() {
  const int attending = attending_.load();
  if (attending > 0) {
    std::lock_guard guard(attendants_lock_);
    for (Bell* bell : attendants_)
      if (bell != own_bell) bell->ring();
  }
  if (attending - busy_.load() <= 0) wake_pool();
}

void Executor::look_for_pool() {
  if (pool_threads_.load() == 0) wake_pool();
}

void Executor::wake_pool() {
  // The pool's word changes before the counts are read (Executor-1). So a thread that these counts
  // include as awake sees the new word before it sleeps, and then does not sleep.
  word_at(&pool_word_).fetch_add(1);
  if (pool_threads_.load() - pool_parked_.load() - pool_held_.load() > 0) return;
  if (pool_parked_.load() > 0) {
    futex_wake(&pool_word_, 1);
    return;
  }
  std::lock_guard guard(pool_mutex_);
  if (pool_threads_.load() >= max_pool_threads) return;
  pool_threads_.fetch_add(1);
  try {
    // `counted` adds the new thread to IdleCores' number of threads. It is created here, before the
    // thread runs, so that this thread already finds the new thread in that number.
    std::thread([this, counted = std::make_unique<IdleCores::Thread>()] { pool_main(); }).detach();
  } catch (const std::exception&) {
    pool_threads_.fetch_sub(
        1);  // the system has no thread or memory left, so the existing threads run all work
  }
}

void Executor::pool_main() {
  pool_thread = true;
  for (;;) {
    // The word is read before the check for work. A push after the check changes the word, so
    // futex_wait returns at once.
    const int32_t seen = word_at(&pool_word_).load();
    if (help(std::numeric_limits<uint64_t>::max() / 2)) continue;
    stress_pause();
    pool_parked_.fetch_add(1);
    futex_wait(&pool_word_, seen, max_sleep_ns);
    pool_parked_.fetch_sub(1);
  }
}

Executor::LongOp::LongOp(Executor& executor, bool may_take_long)
    : executor(may_take_long ? &executor : nullptr) {
  if (!may_take_long) return;
  // This thread counts as held before it checks for runnable work. So either an enqueuer sees that
  // this thread is held, or the check finds the enqueuer's work.
  if (pool_thread) executor.pool_held_.fetch_add(1);
  if (executor.runnable()) executor.wake_pool();
}

Executor::LongOp::~LongOp() {
  if (executor && pool_thread) executor->pool_held_.fetch_sub(1);
}

// Returns whether a thread that claims the queue could run an op. A queue that is not ready may
// become ready at any time.
bool Executor::ready(Queue& queue) {
  if (queue.pending.load() == 0) return false;
  std::lock_guard guard(queue.lock);
  if (queue.ops.empty()) return false;
  const Op& op = queue.ops.front();
  if (op.type == Op::wait) return op.point->done.load();
  if (op.type == Op::graph && op.next_node == 0) return !op.exec->running.load();
  return true;
}

bool Executor::next_for_pool(Queue& queue) {
  std::lock_guard guard(queue.lock);
  return !queue.ops.empty() && queue.ops.front().for_pool();
}

bool Executor::claimable(Queue& queue) { return !queue.claimed.load() && ready(queue); }

bool Executor::runnable() {
  const auto all = queues();  // this reference keeps the list alive, because add() replaces it
  for (auto& queue : *all)
    if (claimable(*queue)) return true;
  return false;
}

bool Executor::help(uint64_t ns) {
  const uint64_t deadline = now_ns() + ns;
  bool any = false, late = false;
  // notify() subtracts `busy_` from `attending_`, which counts this thread once for each time that
  // it attends. So `busy_` must count the thread as often. Otherwise notify() would count on this
  // thread although it is busy.
  const int attends = own_attends;
  if (attends > 0) busy_.fetch_add(attends);
  for (bool ran = true; ran && !late;) {
    ran = false;
    const auto all = queues();
    for (auto& queue : *all) {
      // The time is over, so the pool must run the queues that are runnable and not claimed.
      if (late && claimable(*queue)) {
        wake_pool();
        break;
      }
      if (late || queue->pending.load() == 0) continue;
      // Checks the queue again after the claim is released. The queue may have become runnable
      // while this thread had the claim, and no other thread could claim the queue then.
      while (!queue->claimed.exchange(true)) {
        const bool went_on = drain(*queue, deadline);
        ran |= went_on;
        late = went_on && now_ns() >= deadline;
        stress_pause();
        // Publishes this thread's writes to the next thread that claims the queue.
        queue->claimed.store(false);
        if (late || !ready(*queue)) break;
        if (!pool_thread && next_for_pool(*queue)) {
          wake_pool();
          break;
        }
      }
    }
    any |= ran;
  }
  if (attends > 0) busy_.fetch_sub(attends);
  stress_pause();
  // An attendant calls help() again by itself. Any other thread may not come back, so it notifies a
  // thread that will run the queue.
  if (any && !own_bell && runnable()) notify();
  return any;
}

// Runs ops from the front of the queue until the queue is empty or blocked, or until `deadline`.
// Returns whether any op ran. The caller has the queue's claim.
bool Executor::drain(Queue& queue, uint64_t deadline) {
  bool any = false;
  for (;;) {
    Op* op;
    {
      std::lock_guard guard(queue.lock);
      if (queue.ops.empty()) return any;
      op = &queue.ops
                .front();  // stays valid: a push at the back of a deque does not move its front op
    }
    if (!pool_thread && op->for_pool()) return any;
    const char* failed = queue.error.load();
    switch (run(*op, failed, queue, deadline)) {
      case Ran::blocked:
        return any;
      case Ran::some:
        return true;
      case Ran::all:
        break;
    }
    if (failed) queue.error.store(failed);
    const bool record = op->type == Op::record || (op->type == Op::graph && !op->points.empty());
    Op finished;
    {
      std::lock_guard guard(queue.lock);
      finished = std::move(queue.ops.front());
      queue.ops.pop_front();
    }
    const size_t left = queue.pending.fetch_sub(1) - 1;
    any = true;
    if (record || left == 0) completed();
    if (now_ns() >= deadline) return any;
  }
}

void Executor::completed() {
  word_at(&completions_).fetch_add(1);
  if (waiters_.load() > 0) futex_wake(&completions_, std::numeric_limits<int>::max());
  if (attending_.load() > 0) {
    std::lock_guard guard(attendants_lock_);
    for (Bell* bell : attendants_)
      if (bell != own_bell) bell->ring();
  }
}

bool Executor::wait(const std::function<bool()>& done, uint64_t ns) {
  const uint64_t deadline = now_ns() + ns;
  waiters_.fetch_add(1);
  struct Leave {
    Executor& executor;
    ~Leave() {
      executor.waiters_.fetch_sub(1);
      if (executor.runnable()) executor.notify();
    }
  } leave{*this};
  for (;;) {
    const int32_t seen = word_at(&completions_).load();
    if (done()) return true;
    const uint64_t now = now_ns();
    if (now >= deadline) return false;
    if (help(std::min<uint64_t>(deadline - now, 100'000))) continue;
    futex_wait(&completions_, seen, std::min<uint64_t>(deadline - now, max_sleep_ns));
  }
}

void Executor::revoke(const Ref<Memory>& memory, uint64_t ns) {
  const auto touches = [&](const Op& op) {
    if (op.type == Op::graph)
      return std::find(op.program->lent.begin(), op.program->lent.end(), memory.get()) !=
             op.program->lent.end();
    return std::find(op.keep.begin(), op.keep.end(), memory) != op.keep.end();
  };
  const auto in_use = [&](bool running_only) {
    const auto all = queues();
    for (auto& queue : *all) {
      std::lock_guard guard(queue->lock);
      if (running_only && (!queue->claimed.load() || queue->ops.empty())) continue;
      const auto end = running_only ? queue->ops.begin() + 1 : queue->ops.end();
      if (std::any_of(queue->ops.begin(), end, touches)) return true;
    }
    return false;
  };
  wait([&] { return !in_use(false); }, ns);
  // `revoked` is stored before the check for a running operation. So if an operation began before
  // the store, the check finds it running. An operation that begins later finds `revoked` and
  // fails.
  memory->revoked.store(true);
  while (!wait([&] { return !in_use(true); }, max_sleep_ns)) continue;
}

void Executor::attend(Bell* bell) {
  std::lock_guard guard(attendants_lock_);
  attendants_.push_back(bell);
  own_bell = bell;
  own_attends++;
  attending_.fetch_add(1);
}

void Executor::dismiss(Bell* bell) {
  {
    std::lock_guard guard(attendants_lock_);
    auto at = std::find(attendants_.begin(), attendants_.end(), bell);
    if (at == attendants_.end()) return;
    attendants_.erase(at);
    attending_.fetch_sub(1);
    if (own_bell == bell && --own_attends == 0) own_bell = nullptr;
  }
  stress_pause();
  if (runnable()) wake_pool();
}

}  // namespace hotslot::host
