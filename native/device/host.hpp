// The host device's parts: plain memory of its own, streams as queues, and the executor that drains them. host.cpp has the
// words; this page has the shapes. Enqueueing never executes: a small pool and whoever waits natively do.
#pragma once
#include <sched.h>

#include <deque>
#include <functional>
#include <mutex>
#include <set>
#include <thread>

#include "device/device.hpp"
#include "wait/bell.hpp"

namespace hotslot::host {

// Short critical sections between enqueuers and drainers; a preempted holder is waited for by yielding.
class SpinLock {
 public:
  void lock() {
    for (int spins = 0; flag_.exchange(true, std::memory_order_acquire); ++spins)
      if (spins > 64) sched_yield();
  }
  void unlock() { flag_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> flag_{false};
};

class HostStream;
class HostEvent;

// One node of a graph: everything resolved, nothing looked up at replay.
struct Node {
  enum Type : uint8_t { kernel, copy, fill } type;
  const Kernel* kernel_fn = nullptr;
  KernelArgs args{};
  uint8_t* to = nullptr;
  const uint8_t* from = nullptr;
  size_t bytes = 0;
  uint64_t pattern = 0;
  uint32_t pattern_bytes = 1;
  // Null when it went well, else why not.
  const char* run() const;
};

// An open capture: nodes in the order they were enqueued (which is topological) and, per node, what it depends on.
struct Capture {
  HostStream* origin;
  std::thread::id thread;
  std::vector<Node> nodes;
  std::vector<std::vector<uint32_t>> needs;
  std::vector<Ref<Object>> keep;
  std::set<HostStream*> joined;
  bool invalid = false;
  bool ended = false;
};

using Frontier = std::set<uint32_t>;

class HostEvent final : public Event {
 public:
  explicit HostEvent(bool timing) : Event(timing) {}
  bool query() override;
  double elapsed_ms(Event& start) override;
  // Written by whoever enqueues a record (under the stream's lock); the number of the latest one.
  std::atomic<uint64_t> recorded{0};
  // Written by the drainer that reached record n: a release of everything before it on the stream.
  std::atomic<uint64_t> completed{0};
  std::atomic<uint64_t> time_ns{0};
  std::atomic<const char*> error{nullptr};
  // The capture this was last recorded in, and where in it; guarded by `lock`.
  SpinLock lock;
  std::weak_ptr<Capture> capture;
  Frontier frontier;
};

class HostGraph final : public Graph {
 public:
  explicit HostGraph(Ref<Capture> capture) : capture(std::move(capture)) {}
  size_t node_count() const override { return capture->nodes.size(); }
  Ref<Exec> instantiate() override;
  Ref<Capture> capture;
};

class HostExec final : public Exec {
 public:
  Ref<Capture> capture;
  // Replays of one exec run one at a time, whatever streams they are on.
  std::atomic<bool> running{false};
  std::atomic<uint64_t> last_run_ns{0};
};

struct Op {
  enum Type : uint8_t { node, record, wait, graph } type = node;
  std::unique_ptr<Node> work;
  Ref<Object> object;     // event or exec
  uint64_t number = 0;    // of the record, or of the record to wait for
  size_t next_node = 0;   // how far a graph has come
  uint64_t spent_ns = 0;  // on the graph so far
  std::vector<Ref<Object>> keep;
};

class Executor;

class HostStream final : public Stream {
 public:
  HostStream(Device& device, Executor& executor, int priority);
  ~HostStream() override;
  void record(const Ref<Event>& event) override;
  void wait(const Ref<Event>& event) override;
  void copy(const Span& to, const Span& from) override;
  void fill(const Span& to, const void* pattern, size_t pattern_bytes) override;
  void launch(Launch&& launch) override;
  void replay(const Ref<Exec>& exec) override;
  bool query() override;
  void begin_capture() override;
  Ref<Graph> end_capture() override;
  bool capturing() override;

 private:
  friend class Executor;
  void push(Op&& op);
  void add_node(Node&& node, std::vector<Ref<Object>>&& keep, const char* call);
  void check(const char* call);

  Device& device_;
  Executor& executor_;

 public:
  // The queue outlives the stream object: a closed stream still finishes what was enqueued.
  struct Queue {
    SpinLock lock;
    std::deque<Op> ops;                       // guarded by lock
    std::atomic<size_t> pending{0};           // ops not finished; enqueuer adds, drainer takes off
    std::atomic<bool> claimed{false};         // the one thread that may run ops of this queue
    std::atomic<const char*> error{nullptr};  // first failure, sticky
    std::atomic<bool> closed{false};
    int priority = 0;
  };
  Ref<Queue> queue;

 private:
  SpinLock capture_lock_;
  Ref<Capture> capture_;
  Frontier frontier_;
};

// Drains queues. Threads that help: actors that attend, threads in wait_event, and a pool that is woken only when nobody
// else has promised to come.
class Executor {
 public:
  static Executor& instance();
  void add(const Ref<HostStream::Queue>& queue);
  // Something became runnable: see that somebody comes.
  void notify();
  // Runs what is runnable for about `ns`; true if it ran anything.
  bool help(uint64_t ns);
  bool runnable();
  bool wait(const std::function<bool()>& done, uint64_t ns);
  void attend(Bell* bell);
  void dismiss(Bell* bell);
  size_t pool_size() const;

 private:
  using Queues = std::vector<Ref<HostStream::Queue>>;
  std::shared_ptr<const Queues> queues();
  bool drain(HostStream::Queue& queue, uint64_t deadline);
  bool blocked(HostStream::Queue& queue);
  void completed();
  void wake_pool();
  void pool_main();

  SpinLock lock_;
  std::shared_ptr<const Queues> queues_ = std::make_shared<Queues>();
  SpinLock attendants_lock_;
  std::vector<Bell*> attendants_;
  std::atomic<int> attending_{0};
  // Attendants inside help(): they run something and cannot be counted on for anything else.
  std::atomic<int> busy_{0};
  std::mutex pool_mutex_;
  int pool_threads_ = 0;
  std::atomic<int> pool_parked_{0};
  int32_t pool_word_ = 0;
  std::atomic<int> waiters_{0};
  int32_t completions_ = 0;
};

// host:0, host:1, …: separate devices of one machine, with their own memory and one executor between them.
Ref<Device> open(int index);

}  // namespace hotslot::host
