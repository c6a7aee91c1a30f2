// Runs an operation for the executor. A graph stops after the caller's deadline, and the next call
// runs its remaining nodes. Any other operation runs to its end in one call.
#include <algorithm>

#include "device/host/executor.hpp"

namespace hotslot::host {
namespace {

constexpr uint64_t clock_every_nodes = 16;

}  // namespace

// Runs an op. `failed` is the reason why the queue has failed, or null. If the op fails, `failed`
// becomes the reason.
Executor::Ran Executor::run(Op& op, const char*& failed, Queue& queue, uint64_t deadline) {
  switch (op.type) {
    case Op::node:
      if (!failed) failed = revoked(op.keep);
      if (!failed) {
        const LongOp held(*this, op.may_take_long());
        failed = op.work->run();
      }
      return Ran::all;
    case Op::record:
      op.point->finish(failed);
      return Ran::all;
    case Op::wait:
      if (!op.point->done.load()) return Ran::blocked;
      if (!failed && !op.order_only) failed = op.point->error;
      return Ran::all;
    case Op::graph:
      return run_graph(op, failed, queue, deadline);
  }
  return Ran::all;
}

Executor::Ran Executor::run_graph(Op& op, const char*& failed, Queue& queue, uint64_t deadline) {
  HostExec& exec = *op.exec;
  Program& program = *op.program;
  if (failed) {
    if (op.next_node > 0) exec.running.store(false);
    op.settle(failed);
    return Ran::all;
  }
  if (op.next_node == 0 && exec.running.exchange(true)) return Ran::blocked;
  const LongOp held(*this, op.may_take_long());
  const uint64_t begin = now_ns();
  size_t next = op.next_node;
  while (next < program.nodes.size() && !failed) {
    failed = revoked(program.lent);
    if (failed) break;
    if (const Node& node = program.nodes[next++]; node.type == Node::record) {
      op.points[node.point]->finish(nullptr);
      completed();
      if (runnable()) wake_pool();
    } else {
      failed = node.run();
    }
    if (next % clock_every_nodes == 0 && now_ns() >= deadline) break;
  }
  op.spent_ns += now_ns() - begin;
  if (next < program.nodes.size() && !failed) {
    std::lock_guard guard(queue.lock);
    op.next_node = next;
    return Ran::some;
  }
  program.last_run_ns.store(std::max<uint64_t>(op.spent_ns, 1));
  exec.running.store(false);
  op.settle(failed);
  return Ran::all;
}

}  // namespace hotslot::host
