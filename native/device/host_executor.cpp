// Who runs the host device's queues. The rule: whoever enqueues sees that somebody comes; whoever leaves with runnable
// work behind it does the same. An attending actor counts as somebody coming unless it is busy running something.
#include <algorithm>
#include <limits>

#include "device/host.hpp"

namespace hotslot::host {
namespace {
// The bell of this thread while it attends: its own enqueueing need not ring it.
thread_local Bell* own_bell = nullptr;
constexpr uint64_t long_graph_ns = 200'000, clock_every_nodes = 16;
}  // namespace

Executor& Executor::instance() {
  // Never destroyed: pool threads may outlive every static.
  static Executor* executor = new Executor;
  return *executor;
}

void Executor::add(const Ref<HostStream::Queue>& queue) {
  std::lock_guard guard(lock_);
  auto next = std::make_shared<Queues>();
  for (auto& old : *queues_)
    if (!old->closed.load() || old->pending.load() != 0) next->push_back(old);
  next->push_back(queue);
  std::stable_sort(next->begin(), next->end(), [](auto& a, auto& b) { return a->priority < b->priority; });
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

void Executor::wake_pool() {
  word_at(&pool_word_).fetch_add(1);
  if (pool_parked_.load() > 0) {
    futex_wake(&pool_word_, 1);
    return;
  }
  static const int most = int(std::clamp(std::thread::hardware_concurrency(), 2u, 5u)) - 1;
  std::lock_guard guard(pool_mutex_);
  if (pool_threads_ >= most) return;
  pool_threads_++;
  std::thread([this] { pool_main(); }).detach();
}

size_t Executor::pool_size() const { return size_t(pool_threads_); }

void Executor::pool_main() {
  for (;;) {
    // Read before looking: a push after the look has moved the word, and the wait returns at once.
    const int32_t seen = word_at(&pool_word_).load();
    if (help(std::numeric_limits<uint64_t>::max() / 2)) continue;
    pool_parked_.fetch_add(1);
    futex_wait(&pool_word_, seen, 1'000'000'000);
    pool_parked_.fetch_sub(1);
  }
}

bool Executor::blocked(HostStream::Queue& queue) {
  std::lock_guard guard(queue.lock);
  if (queue.ops.empty()) return true;
  const Op& op = queue.ops.front();
  if (op.type == Op::wait) return static_cast<HostEvent&>(*op.object).completed.load() < op.number;
  if (op.type == Op::graph && op.next_node == 0) return static_cast<HostExec&>(*op.object).running.load();
  return false;
}

bool Executor::runnable() {
  for (auto& queue : *queues())
    if (queue->pending.load() != 0 && !queue->claimed.load() && !blocked(*queue)) return true;
  return false;
}

bool Executor::help(uint64_t ns) {
  const uint64_t start = now_ns(), deadline = start + ns;
  bool any = false;
  if (own_bell) busy_.fetch_add(1);
  for (;;) {
    bool ran = false;
    for (auto& queue : *queues()) {
      if (queue->pending.load() == 0 || queue->claimed.exchange(true)) continue;
      ran |= drain(*queue, deadline);
      // Releases what this thread did to the next one that claims the queue.
      queue->claimed.store(false);
    }
    any |= ran;
    if (!ran || now_ns() >= deadline) break;
  }
  if (own_bell) busy_.fetch_sub(1);
  // A promise-keeper comes back by itself; anyone else leaves word.
  if (any && !own_bell && runnable()) notify();
  return any;
}

// Runs ops from the head until the queue is empty, blocked or the time is over. The caller has the claim.
bool Executor::drain(HostStream::Queue& queue, uint64_t deadline) {
  bool any = false;
  for (;;) {
    Op* op;
    {
      std::lock_guard guard(queue.lock);
      if (queue.ops.empty()) return any;
      op = &queue.ops.front();  // stays put: a deque never moves its front while others push at the back
    }
    const char* failed = queue.error.load();
    switch (op->type) {
      case Op::node:
        if (!failed) failed = op->work->run();
        break;
      case Op::record: {
        auto& event = static_cast<HostEvent&>(*op->object);
        if (failed) event.error.store(failed);
        if (event.timing) event.time_ns.store(now_ns());
        // Publishes everything this queue did before the record to whoever finds it done.
        uint64_t done = event.completed.load();
        while (done < op->number && !event.completed.compare_exchange_weak(done, op->number)) continue;
        break;
      }
      case Op::wait: {
        auto& event = static_cast<HostEvent&>(*op->object);
        if (event.completed.load() < op->number) return any;
        if (!failed) failed = event.error.load();
        break;
      }
      case Op::graph: {
        auto& exec = static_cast<HostExec&>(*op->object);
        if (failed) break;
        if (op->next_node == 0 && exec.running.exchange(true)) return any;
        const auto& nodes = exec.capture->nodes;
        if (own_bell && exec.last_run_ns.load() > long_graph_ns && op->next_node == 0 && runnable()) wake_pool();
        const uint64_t begin = now_ns();
        size_t next = op->next_node;
        while (next < nodes.size() && !failed) {
          failed = nodes[next++].run();
          if (next % clock_every_nodes == 0 && now_ns() >= deadline) break;
        }
        op->spent_ns += now_ns() - begin;
        if (next < nodes.size() && !failed) {
          op->next_node = next;
          return true;
        }
        exec.last_run_ns.store(op->spent_ns);
        exec.running.store(false);
        break;
      }
    }
    if (failed) queue.error.store(failed);
    const bool record = op->type == Op::record;
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
    futex_wait(&completions_, seen, std::min<uint64_t>(deadline - now, 50'000'000));
  }
}

void Executor::attend(Bell* bell) {
  std::lock_guard guard(attendants_lock_);
  attendants_.push_back(bell);
  own_bell = bell;
  attending_.fetch_add(1);
}

void Executor::dismiss(Bell* bell) {
  {
    std::lock_guard guard(attendants_lock_);
    auto at = std::find(attendants_.begin(), attendants_.end(), bell);
    if (at == attendants_.end()) return;
    attendants_.erase(at);
    attending_.fetch_sub(1);
    if (own_bell == bell) own_bell = nullptr;
  }
  if (runnable()) wake_pool();
}

}  // namespace hotslot::host
