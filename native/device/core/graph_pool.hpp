// A graph pool: memory for tensors that exist only inside an update. Every capture allocates the
// same bytes again. So graphs of one pool share bytes, and their replays run one at a time.
//
// The pool's blocks are freed when the pool is closed and no graph refers to them.
#pragma once
#include <mutex>
#include <vector>

#include "device/core/device.hpp"

namespace hotslot {

// Orders the replays of graphs that use the same memory, also on several streams. Each replay
// begins when the replay that was enqueued before it has ended. Call before(), enqueue the replay,
// then call after().
class ReplayOrder {
 public:
  explicit ReplayOrder(Device& device) : last_(device.create_event(false)) {}
  // The caller holds the lock from before() to after(), so that no other replay is enqueued between
  // them.
  std::mutex lock;
  void before(Stream& stream) {
    // If the last replay was on the same stream, the stream already orders the two. The wait is
    // `order_only`, so an error in one graph does not fail the next.
    if (const auto before = on_.lock(); used_ && before.get() != &stream) stream.wait(last_, true);
    // The event must belong to the stream's device, which may differ from the device of the memory.
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
  // The stream of the last replay. Null after the stream was closed. The next replay then waits,
  // because the closed stream's work may still run.
  std::weak_ptr<Object> on_;
};

// A bump allocator over blocks of device memory. Only one capture at a time uses it
// (Core::enter_capture). Allocations of one capture are disjoint. rewind() runs before the next
// capture, which receives the same bytes again.
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
    double block;  // the handle, which belongs to the pool: stale after the pool is closed
    size_t offset;
  };
  void rewind() {
    std::lock_guard guard(lock_);
    block_ = used_ = 0;
  }
  // Returns a part of a block with room for `bytes`. Allocates a new block if no block has the
  // room. Allowed inside a capture.
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

// Instantiates, updates and replays graphs. A replay follows the ReplayOrder of each graph pool
// whose memory the graph uses.
class Replays {
 public:
  static Ref<Exec> instantiate(Graph& graph);
  static bool update(Exec& exec, const Ref<Graph>& graph);
  static void replay(Stream& stream, const Ref<Exec>& exec);
};

}  // namespace hotslot
