// The host device's streams and events: queues of operations. Enqueueing never executes them. The
// executor does.
#pragma once
#include <deque>
#include <mutex>

#include "device/host/graph.hpp"

namespace hotslot::host {

// One record of an event. The record's op completes it. A stream that waits for this record holds
// it, so recording the event again on any stream does not affect that wait.
struct Point {
  // Stored last by the drainer, when everything before the record on the stream is done and the
  // fields below are final.
  std::atomic<bool> done{false};
  const char* error = nullptr;
  uint64_t time_ns = 0;
  // Publishes everything done before the record to every thread that finds it done.
  void finish(const char* failed);
};

class HostEvent final : public Event {
 public:
  using Event::Event;

 protected:
  bool do_query() override;
  std::optional<double> do_elapsed_ms(Event& start) override;

 private:
  friend class HostStream;
  Ref<Point> latest();
  Ref<Point> latest_;  // the latest record; guarded by the mark's lock; null: never recorded
};

struct Op {
  enum Type : uint8_t { node, record, wait, graph } type = node;
  std::unique_ptr<Node> work;
  Ref<Point> point;         // of a record, or of the record to wait for
  bool order_only = false;  // of a wait: the record's error does not fail this queue
  Ref<HostExec> exec;       // of a graph, with its program when it was enqueued
  Ref<Program> program;
  std::vector<Ref<Point>> points;  // of the graph's own records
  size_t next_node = 0;            // how far a graph has come; guarded by the queue's lock
  uint64_t spent_ns = 0;           // on the graph so far
  std::vector<Ref<Object>> keep;

  // Returns true for kernels and for graphs that never ran, which may take any time. Known long
  // graphs and large copies count too.
  bool may_take_long() const;
  // Returns true for work that waits for something outside the device. Only the pool starts it,
  // because other helping threads have promised to be back in time.
  bool for_pool() const;
  // Finishes the replay's own records that it did not reach.
  void settle(const char* failed) const;
};

// Returns why work on this memory must not begin, or null.
const char* revoked(const std::vector<Memory*>& lent);
const char* revoked(const std::vector<Ref<Object>>& keep);

// A stream's work. It outlives the stream object, because a closed stream still finishes its
// enqueued work.
struct Queue {
  SpinLock lock;
  std::deque<Op> ops;                       // guarded by lock
  std::atomic<size_t> pending{0};           // unfinished ops; enqueuer adds, drainer subtracts
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

 protected:
  void do_check(const char* call) override;
  void do_work(Work&& work, const char* call) override;
  void do_record(Event& event) override;
  void do_wait(Event& event, bool order_only) override;
  void do_replay(const Ref<Exec>& exec) override;
  void do_prefetch(const Span& span, int device) override;
  bool do_query() override;
  Ref<Graph> do_end_capture(const Ref<Capture>& capture,
                            const std::vector<Ref<CaptureMembership>>& unjoined) override;

 private:
  HostStream(Device& device, Executor& executor, const Ref<Queue>& queue);
  void push(Op&& op);

  Executor& executor_;
  const Ref<Queue> queue_;
};

}  // namespace hotslot::host
