// Whose turn it is when a graph is replayed. pool.hpp has the words.
#include "device/pool.hpp"

#include <algorithm>

#include "device/capture.hpp"
#include "device/core.hpp"

namespace hotslot {

GraphPool::~GraphPool() {
  constexpr uint64_t pins_ns = 100'000'000;
  for (auto& block : blocks_) {
    try {
      Core::instance().handles.remove(block.handle, pins_ns);
    } catch (const Error&) {
      // Somebody has it pinned for longer, and goes on with it.
    }
  }
}

GraphPool::Part GraphPool::allocate(size_t bytes) {
  std::lock_guard guard(lock_);
  for (; block_ < blocks_.size(); ++block_, used_ = 0)
    if (blocks_[block_].memory->bytes - used_ >= bytes) break;
  if (block_ == blocks_.size()) {
    Ref<Memory> fresh = device->scratch(std::max(bytes, least_block));
    fresh->turns = turns;
    const double handle = Core::instance().handles.add(fresh);
    blocks_.push_back({std::move(fresh), handle});
  }
  const Part part{blocks_[block_].handle, used_};
  used_ = std::min((used_ + bytes + alignment - 1) / alignment * alignment, blocks_[block_].memory->bytes);
  return part;
}

namespace {

// In one order for everybody: nobody holds what another one waits for.
std::vector<Ref<Turns>> turns_of(const Graph& graph) {
  std::vector<Ref<Turns>> turns;
  graph.capture->each_memory([&](Memory& memory) {
    if (memory.turns) turns.push_back(memory.turns);
  });
  std::sort(turns.begin(), turns.end());
  turns.erase(std::unique(turns.begin(), turns.end()), turns.end());
  return turns;
}

}  // namespace

Ref<Exec> Replays::instantiate(Graph& graph) {
  Ref<Exec> exec = graph.instantiate();
  exec->turns = turns_of(graph);
  return exec;
}

bool Replays::update(Exec& exec, const Ref<Graph>& graph) {
  std::vector<Ref<Turns>> turns = turns_of(*graph);
  std::lock_guard guard(exec.turns_lock);
  const bool in_place = exec.update(graph);
  exec.turns = std::move(turns);
  return in_place;
}

void Replays::replay(Stream& stream, const Ref<Exec>& exec) {
  std::lock_guard guard(exec->turns_lock);
  const auto& turns = exec->turns;
  if (turns.empty()) return stream.replay(exec);
  std::vector<std::unique_lock<std::mutex>> locks;
  for (auto& each : turns) locks.emplace_back(each->lock);
  for (auto& each : turns) each->before(stream);
  stream.replay(exec);
  for (auto& each : turns) each->after(stream);
}

}  // namespace hotslot
