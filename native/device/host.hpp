// The host device's parts: plain memory of its own, streams as queues, and the executor that drains them. host.cpp has the
// words; this page has the shapes. Enqueueing never executes: a small pool and whoever waits natively do.
#pragma once
#include <deque>
#include <functional>
#include <mutex>

#include "device/blocks.hpp"
#include "device/capture.hpp"
#include "wait/bell.hpp"

namespace hotslot::host {

inline constexpr char family_name[] = "host";

// The longest sleep is a net under a lost wake that nothing may need. The stress harness takes it away and pauses where a
// wake could get lost.
#ifdef HOTSLOT_STRESS
void stress_pause();
constexpr uint64_t longest_sleep_ns = 3'600'000'000'000;
#else
inline void stress_pause() {}
constexpr uint64_t longest_sleep_ns = 1'000'000'000;
#endif

// One node of a graph: everything resolved, nothing looked up at replay.
struct Node {
  enum Type : uint8_t { kernel, copy, fill, record, prefetch } type;
  // The function, not its registry entry: pool threads may outlive the registry when the process exits.
  const char* (*kernel_run)(const KernelArgs&) = nullptr;
  KernelArgs args{};
  bool may_hold = false;  // it waits for the outside: its last run says nothing about the next
  uint8_t* to = nullptr;
  const uint8_t* from = nullptr;
  size_t bytes = 0;
  uint64_t pattern = 0;
  uint32_t pattern_bytes = 1;
  uint32_t point = 0;  // of a record: which of its replay's points
  Memory* managed = nullptr;  // of a prefetch: `bytes` of it from `at` on go to `target`
  size_t at = 0;
  int target = nowhere;
  // Null when it went well, else why not.
  const char* run() const;
};

// One record of an event. The record's op completes it; whoever waits for this record holds it, so that recording the event
// again, on whatever stream, changes nothing for them.
struct Point {
  // Released last by the drainer that got here: everything before it on the stream is done, the fields below are final.
  std::atomic<bool> done{false};
  const char* error = nullptr;
  uint64_t time_ns = 0;
};

class HostEvent final : public Event {
 public:
  explicit HostEvent(bool timing) : Event(family_name, timing) {}
  bool query() override;
  double elapsed_ms(Event& start) override;

 private:
  friend class HostStream;
  // The latest record; null when there is none.
  Ref<Point> latest(const char* call);
  CaptureMark mark_;
  Ref<Point> latest_;  // guarded by the mark's lock; null: never recorded, which counts as done
};

// A graph made ready: what a replay runs. Never changed, so replays enqueued before an update keep theirs.
struct Program {
  explicit Program(Ref<Capture> capture);
  const Ref<Capture> capture;  // holds what the nodes touch
  std::vector<Node> nodes;
  std::vector<Ref<Event>> events;     // recorded by every replay: one point each
  const std::vector<Memory*> lent;    // see Device::revoke
  bool may_hold = false;              // a node does
  std::atomic<uint64_t> last_run_ns{0};
};

class HostGraph final : public Graph {
 public:
  explicit HostGraph(Ref<Capture> capture) : Graph(family_name, std::move(capture)) {}
  Ref<Exec> instantiate() override;
};

class HostExec final : public Exec {
 public:
  explicit HostExec(Ref<Program> program) : Exec(family_name), program_(std::move(program)) {}
  bool update(const Ref<Graph>& graph) override;
  Ref<Program> program() {
    std::lock_guard guard(lock_);
    return program_;
  }
  // Replays of one exec run one at a time, whatever streams they are on.
  std::atomic<bool> running{false};

 private:
  SpinLock lock_;
  Ref<Program> program_;
};

struct Op {
  enum Type : uint8_t { node, record, wait, graph } type = node;
  std::unique_ptr<Node> work;
  Ref<Point> point;       // of a record, or of the record to wait for
  bool order_only = false;  // of a wait: the record's error is nothing to this queue
  Ref<HostExec> exec;     // of a graph, with what it was when it was enqueued
  Ref<Program> program;
  std::vector<Ref<Point>> points;  // of the graph's own records
  size_t next_node = 0;   // how far a graph has come; guarded by the queue's lock
  uint64_t spent_ns = 0;  // on the graph so far
  std::vector<Ref<Object>> keep;
};

// A stream's work. It outlives the stream object: a closed stream still finishes what was enqueued.
struct Queue {
  SpinLock lock;
  std::deque<Op> ops;                       // guarded by lock
  std::atomic<size_t> pending{0};           // ops not finished; enqueuer adds, drainer takes off
  std::atomic<bool> claimed{false};         // the one thread that may run ops of this queue
  std::atomic<const char*> error{nullptr};  // first failure, sticky
  std::atomic<bool> closed{false};
  int priority = 0;
};

class Executor;

class HostStream final : public Stream {
 public:
  HostStream(Device& device, Executor& executor, int priority);
  ~HostStream() override;
  void record(const Ref<Event>& event, bool external) override;
  void wait(const Ref<Event>& event, bool order_only) override;
  void copy(const Span& to, const Span& from) override;
  void fill(const Span& to, const void* pattern, size_t pattern_bytes) override;
  void launch(Launch&& launch) override;
  void replay(const Ref<Exec>& exec) override;
  void prefetch(const Span& span, int device) override;
  bool query() override;
  void begin_capture() override;
  Ref<Graph> end_capture() override;
  bool capturing() override;

 private:
  void push(Op&& op);
  void enqueue(Work&& work, const char* call);
  void check(const char* call);

  Device& device_;
  Executor& executor_;
  const Ref<Queue> queue_;
  const Ref<Lane> lane_;
};

// Drains queues. Threads that help: actors that attend, threads in wait_event, and a pool that is woken only when nobody
// else has promised to come.
class Executor {
 public:
  static Executor& instance();
  void add(const Ref<Queue>& queue);
  // Something became runnable: see that somebody comes.
  void notify();
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
  bool ready(Queue& queue);
  bool claimable(Queue& queue);
  bool next_for_pool(Queue& queue);
  void completed();
  // While one exists, its thread is inside an op that may take long and counts as no help for anybody else.
  struct LongOp {
    LongOp(Executor& executor, bool may_take_long);
    ~LongOp();
    Executor* executor;
  };
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
  // Pool threads, those asleep, and those inside a long op: the rest look at every queue again before they sleep.
  std::atomic<int> pool_threads_{0}, pool_parked_{0}, pool_held_{0};
  int32_t pool_word_ = 0;
  std::atomic<int> waiters_{0};
  int32_t completions_ = 0;
};

// host:0, host:1, …: separate devices of one machine, with their own memory and one executor between them.
constexpr int devices = 8;
std::string describe();
Ref<Device> open(int index);

}  // namespace hotslot::host
