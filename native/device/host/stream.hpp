// The CPU device's streams and events. A stream is a queue of operations. Enqueueing an operation
// never runs it, because only the executor runs operations.
#pragma once
#include <deque>
#include <mutex>

#include "device/host/graph.hpp"

namespace hotslot::host {

// One record of an event. The record's op completes the point. A stream that waits for the record
// keeps a reference to the point. So recording the event again on any stream does not affect the
// wait.
struct Point {
  // Stored last, by the thread that runs the queue. By then everything before the record is done,
  // and the fields below are final.
  std::atomic<bool> done{false};
  const char* error = nullptr;
  uint64_t time_ns = 0;
  // Marks the record as done. A thread that reads `done` sees all writes before the record.
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
  Ref<Point> latest_;  // the latest record, or null; guarded by the mark's lock
};

struct Op {
  enum Type : uint8_t { node, record, wait, graph } type = node;
  std::unique_ptr<Node> work;
  Ref<Point> point;         // for a record: its point. For a wait: the point to wait for
  bool order_only = false;  // for a wait: whether the record's error does not affect this queue
  Ref<HostExec> exec;       // for a graph: what is replayed
  Ref<Program> program;     // for a graph: the program of `exec` when the replay was enqueued
  std::vector<Ref<Point>> points;  // for the graph's own records
  size_t next_node = 0;            // for a graph: the next node to run; guarded by the queue's lock
  uint64_t spent_ns = 0;           // running time of the graph so far
  std::vector<Ref<Object>> keep;

  // Returns whether the op may take long. True for kernels and for graphs that have never run,
  // because their time is unknown. Also true for graphs whose last run was long or that have a node
  // with `may_hold`, and for large copies and fills.
  bool may_take_long() const;
  // Returns true for work that may wait for something outside the device (see Kernel::may_hold).
  // Only pool threads begin such work, because other threads that help must return when their time
  // is over.
  bool for_pool() const;
  // Marks the points of all records that the replay has not reached as done. `failed` is the reason
  // why the replay failed, or null.
  void settle(const char* failed) const;
};

// Returns the reason why work on this memory must not begin, or null.
const char* revoked(const std::vector<Memory*>& lent);
const char* revoked(const std::vector<Ref<Object>>& keep);

// The operations of a stream. The queue can outlive the stream object, because a closed stream
// finishes its enqueued work.
struct Queue {
  SpinLock lock;
  std::deque<Op> ops;                       // guarded by lock
  std::atomic<size_t> pending{0};           // unfinished ops: enqueuers add, drainers subtract
  std::atomic<bool> claimed{false};         // whether a thread has claimed the queue to run its ops
  std::atomic<const char*> error{nullptr};  // the reason of the first failure, never reset
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
