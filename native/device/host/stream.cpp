// The CPU device's streams and events.
#include "device/host/stream.hpp"

#include "device/host/executor.hpp"

namespace hotslot::host {
namespace {

[[noreturn]] void stream_failed(const char* call, const char* why) {
  refuse(family_name, call, refusal::launch_failed,
         sentence("earlier work on the stream failed: ", why),
         "close what uses this stream and open it again; the text names what failed first");
}

// Returns whether the record is done. Throws if its stream failed. The load of `done` pairs with
// Point::finish(), so the caller sees all writes of the stream before the record.
bool finished(const Point& point, const char* call) {
  if (!point.done.load()) return false;
  if (point.error) stream_failed(call, point.error);
  return true;
}

}  // namespace

Ref<Point> HostEvent::latest() {
  std::lock_guard guard(capture_mark.lock);
  return latest_;
}

bool HostEvent::do_query() {
  if (finished(*latest_, "eventQuery")) return true;
  Executor::instance().look_for_pool();
  return false;
}

std::optional<double> HostEvent::do_elapsed_ms(Event& start) {
  const char* call = "eventElapsedTime";
  const Ref<Point> begin = static_cast<HostEvent&>(start).latest(), end = latest();
  if (!finished(*begin, call) || !finished(*end, call)) return {};
  return (double(end->time_ns) - double(begin->time_ns)) / 1e6;
}

// ---- streams ------------------------------------------------------------------------------------

HostStream::HostStream(Device& device, Executor& executor, int priority)
    : HostStream(device, executor, std::make_shared<Queue>()) {
  queue_->priority = priority;
  executor_.add(queue_);
}

HostStream::HostStream(Device& device, Executor& executor, const Ref<Queue>& queue)
    : Stream(device, queue), executor_(executor), queue_(queue) {}

HostStream::~HostStream() { queue_->closed.store(true); }

void HostStream::do_check(const char* call) {
  if (const char* why = queue_->error.load()) stream_failed(call, why);
}

void HostStream::push(Op&& op) {
  queue_->pending.fetch_add(1);
  {
    std::lock_guard guard(queue_->lock);
    try {
      queue_->ops.push_back(std::move(op));
    } catch (...) {
      queue_->pending.fetch_sub(1);
      throw;
    }
  }
  stress_pause();
  // A thread that has the claim checks the queue again after it releases the claim. So this
  // operation needs no notification while the queue is claimed.
  if (!queue_->claimed.load()) executor_.notify();
}

void HostStream::do_work(Work&& work, const char*) {
  Op op;
  op.type = Op::node;
  op.work = std::make_unique<Node>(node_of(work));
  for (Span* span : {&work.to, &work.from, &work.guard.word})
    if (span->memory) op.keep.push_back(std::move(span->memory));
  for (auto& span : work.launch.spans) op.keep.push_back(std::move(span.memory));
  if (work.launch.module) op.keep.push_back(std::move(work.launch.module));
  push(std::move(op));
}

void HostStream::do_record(Event& event) {
  Op op;
  op.type = Op::record;
  Ref<Point> point = op.point = std::make_shared<Point>();
  push(std::move(op));
  // If push() threw, the event is unchanged.
  static_cast<HostEvent&>(event).latest_ = std::move(point);
}

void HostStream::do_wait(Event& event, bool order_only) {
  const Ref<Point>& point = static_cast<HostEvent&>(event).latest_;
  if (!point || (point->done.load() && (order_only || !point->error))) return;
  Op op;
  op.type = Op::wait;
  op.order_only = order_only;
  op.point = point;
  push(std::move(op));
}

void HostStream::do_replay(const Ref<Exec>& exec) {
  Op op;
  op.type = Op::graph;
  op.exec = std::static_pointer_cast<HostExec>(exec);
  op.program = op.exec->program();
  for (size_t i = op.program->events.size(); i > 0; --i)
    op.points.push_back(std::make_shared<Point>());
  auto points = op.points;
  const Ref<Program> program = op.program;
  push(std::move(op));
  for (size_t i = 0; i < points.size(); ++i) {
    auto& event = static_cast<HostEvent&>(*program->events[i]);
    std::lock_guard event_guard(event.capture_mark.lock);
    event.recorded_outside();
    event.latest_ = std::move(points[i]);
  }
}

void HostStream::do_prefetch(const Span& span, int device) {
  auto node = std::make_unique<Node>();
  node->type = Node::prefetch;
  node->managed = span.memory.get();
  node->at = span.offset;
  node->bytes = span.bytes;
  node->target = device;
  Op op;
  op.type = Op::node;
  op.work = std::move(node);
  op.keep.push_back(span.memory);
  push(std::move(op));
}

bool HostStream::do_query() {
  if (queue_->pending.load() != 0) {
    executor_.look_for_pool();
    return false;
  }
  // The last op may have failed after the caller checked the stream for an error.
  do_check("streamQuery");
  return true;
}

Ref<Graph> HostStream::do_end_capture(const Ref<Capture>& capture,
                                      const std::vector<Ref<CaptureMembership>>&) {
  return std::make_shared<HostGraph>(device, capture);
}

}  // namespace hotslot::host
