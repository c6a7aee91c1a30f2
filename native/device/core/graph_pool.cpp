// Runs the graphs of a pool in order, as graph_pool.hpp describes.
#include "device/core/graph_pool.hpp"

#include <algorithm>

#include "device/core/capture.hpp"
#include "device/core/core.hpp"

namespace hotslot {

GraphPool::~GraphPool() {
  for (auto& block : blocks_) Core::instance().handles.retire(block.handle);
}

GraphPool::Part GraphPool::allocate(size_t bytes) {
  std::lock_guard guard(lock_);
  for (; block_ < blocks_.size(); ++block_, used_ = 0)
    if (blocks_[block_].memory->bytes - used_ >= bytes) break;
  if (block_ == blocks_.size()) {
    Ref<Memory> fresh = device->scratch(std::max(bytes, min_block));
    fresh->replay_order = replay_order;
    FreshHandle handle(Core::instance().handles, fresh);
    blocks_.push_back({std::move(fresh), handle.get()});
    handle.take();
  }
  const Part part{blocks_[block_].handle, used_};
  used_ = std::min((used_ + bytes + alignment - 1) / alignment * alignment,
                   blocks_[block_].memory->bytes);
  return part;
}

namespace {

// Returns the ReplayOrders of the pools whose memory the graph uses, sorted by address. All threads
// lock them in this sequence, so they cannot deadlock.
std::vector<Ref<ReplayOrder>> orders_of(const Graph& graph) {
  std::vector<Ref<ReplayOrder>> replay_orders;
  graph.capture->each_memory([&](Memory& memory) {
    if (memory.replay_order) replay_orders.push_back(memory.replay_order);
  });
  std::sort(replay_orders.begin(), replay_orders.end());
  replay_orders.erase(std::unique(replay_orders.begin(), replay_orders.end()), replay_orders.end());
  return replay_orders;
}

}  // namespace

Ref<Exec> Replays::instantiate(Graph& graph) {
  Ref<Exec> exec = graph.instantiate();
  exec->replay_orders = orders_of(graph);
  return exec;
}

bool Replays::update(Exec& exec, const Ref<Graph>& graph) {
  std::vector<Ref<ReplayOrder>> replay_orders = orders_of(*graph);
  std::lock_guard guard(exec.replay_lock);
  const bool in_place = exec.update(graph);
  exec.replay_orders = std::move(replay_orders);
  return in_place;
}

void Replays::replay(Stream& stream, const Ref<Exec>& exec) {
  std::lock_guard guard(exec->replay_lock);
  const auto& replay_orders = exec->replay_orders;
  if (replay_orders.empty()) return stream.replay(exec);
  std::vector<std::unique_lock<std::mutex>> locks;
  for (auto& each : replay_orders) locks.emplace_back(each->lock);
  for (auto& each : replay_orders) each->before(stream);
  stream.replay(exec);
  for (auto& each : replay_orders) each->after(stream);
}

}  // namespace hotslot
