// A graph pool: memory for tensors that live only inside an update, which every capture uses again.
// Graphs of one pool share these bytes, so their replays run one at a time. Its blocks are freed
// when the pool is closed and no graph refers to them.
#pragma once
#include <mutex>
#include <vector>

#include "device/core/device.hpp"

namespace hotslot {

// Runs graphs that touch the same memory from several streams one after the other, in the order in
// which they were enqueued.
class ReplayOrder {
 public:
  explicit ReplayOrder(Device& device) : last_(device.create_event(false)) {}
  // Held from before() to after(), so that no other replay comes in between.
  std::mutex lock;
  void before(Stream& stream) {
    // The wait is for order only, so an error in one graph does not fail the next.
    if (const auto before = on_.lock(); used_ && before.get() != &stream) stream.wait(last_, true);
    // A replay may run on another device than the memory.
    next_ = &last_->device == &stream.device ? last_ : stream.device.create_event(false);
  }
  void after(Stream& stream) {
    stream.record(next_, false);
    last_ = next_;
    on_ = stream.weak_from_this();
    used_ = true;
  }

 private:
  Ref<Event> last_, next_;
  bool used_ = false;
  std::weak_ptr<Object> on_;  // work of a closed stream may still run
};

// A bump allocator over blocks of device memory. One capture at a time has it
// (Core::enter_capture). Within a capture all allocations are disjoint, and the next capture gets
// the same bytes again.
class GraphPool final : public Object {
 public:
  explicit GraphPool(Ref<Device> device)
      : Object(Kind::pool, device->family),
        device(std::move(device)),
        replay_order(std::make_shared<ReplayOrder>(*this->device)) {}
  ~GraphPool() override;
  const Ref<Device> device;
  const Ref<ReplayOrder> replay_order;

  struct Part {
    double block;  // the handle, owned by the pool: stale when the pool is closed
    size_t offset;
  };
  void rewind() {
    std::lock_guard guard(lock_);
    block_ = used_ = 0;
  }
  // Allowed in a capture.
  Part allocate(size_t bytes);
  size_t bytes() {
    std::lock_guard guard(lock_);
    size_t sum = 0;
    for (auto& block : blocks_) sum += block.memory->bytes;
    return sum;
  }

 private:
  static constexpr size_t alignment = 256, min_block = 1 << 20;
  struct Block {
    Ref<Memory> memory;
    double handle;
  };
  std::mutex lock_;
  std::vector<Block> blocks_;
  size_t block_ = 0, used_ = 0;
};

// Replays graphs in the order of every pool that they touch.
class Replays {
 public:
  static Ref<Exec> instantiate(Graph& graph);
  static bool update(Exec& exec, const Ref<Graph>& graph);
  static void replay(Stream& stream, const Ref<Exec>& exec);
};

}  // namespace hotslot
