// The CPU device's graphs: how captured work becomes nodes, and how a node runs.
#include "device/host/graph.hpp"

#include <algorithm>
#include <cstring>

#include "device/host/managed.hpp"

namespace hotslot::host {

// Returns whether the guard skips the node now.
bool Node::skipped() const {
  int32_t word;
  memcpy(&word, guard, sizeof word);
  return word % every != 0;
}

inline const char* Node::run_kernel() const {
  try {
    return kernel_run(&args);
  } catch (const std::bad_alloc&) {
    return "a kernel found no memory";
  }
}

// Most nodes are kernels without a guard, so these come first.
const char* Node::run() const {
  if (type == kernel) return run_kernel();
  if (type == guarded) return skipped() ? nullptr : run_as(guarded_type);
  return run_as(type);
}

const char* Node::run_as(Type as) const {
  switch (as) {
    case kernel:
      return run_kernel();
    case copy:
      memmove(to, from, bytes);
      return nullptr;
    case fill:
      if (pattern_bytes == 1) {
        memset(to, int(pattern & 0xff), bytes);
      } else {
        for (size_t at = 0; at + pattern_bytes <= bytes; at += pattern_bytes)
          memcpy(to + at, &pattern, pattern_bytes);
      }
      return nullptr;
    case prefetch:
      return static_cast<ManagedMemory*>(managed)->move(at, bytes, target);
    case record:  // the executor runs it, because each replay has its own points
    case guarded:
      break;
  }
  return "impossible: a node is a kernel, a copy, a fill or a prefetch";
}

Node node_of(const Work& work) {
  Node node;
  if (work.to.memory) {
    node.to = work.to.address();
    node.bytes = work.to.bytes;
  }
  switch (work.type) {
    case Work::kernel:
      node.type = Node::kernel;
      node.kernel_run = work.launch.kernel->run;
      node.args = work.launch.args;
      for (size_t i = 0; i < work.launch.spans.size(); ++i)
        node.args.pointer[i] = work.launch.spans[i].address();
      node.may_hold = work.launch.kernel->may_hold;
      break;
    case Work::copy:
      node.type = Node::copy;
      node.from = work.from.address();
      break;
    case Work::fill:
      node.type = Node::fill;
      node.pattern = work.pattern;
      node.pattern_bytes = work.pattern_bytes;
      break;
    case Work::record:
      node.type = Node::record;
      break;
  }
  if (work.guard.word.memory) {
    node.guarded_type = node.type;
    node.type = Node::guarded;
    node.guard = work.guard.word.address();
    node.every = work.guard.every;
  }
  return node;
}

Program::Program(Ref<Capture> source) : capture(std::move(source)), lent(capture->lent()) {
  for (auto& work : capture->nodes) {
    nodes.push_back(node_of(work));
    may_hold |= nodes.back().may_hold;
    if (work.type != Work::record) continue;
    nodes.back().point = uint32_t(events.size());
    events.push_back(work.event);
  }
}

Ref<Exec> HostGraph::instantiate() {
  return std::make_shared<HostExec>(device, std::make_shared<Program>(capture));
}

bool HostExec::do_update(const Ref<Graph>& graph) {
  auto next = std::make_shared<Program>(static_cast<HostGraph&>(*graph).capture);
  std::lock_guard guard(lock_);
  const auto& had = program_->nodes;
  const bool same = std::equal(had.begin(), had.end(), next->nodes.begin(), next->nodes.end(),
                               [](auto& a, auto& b) { return a.type == b.type; });
  program_ = std::move(next);
  return same;
}

}  // namespace hotslot::host
