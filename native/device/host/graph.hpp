// The CPU device's graphs. A graph is a list of nodes, which is made from a capture. The executor
// runs the nodes.
#pragma once
#include "device/core/capture.hpp"
#include "device/host/device.hpp"

namespace hotslot::host {

// One node of a graph. All its pointers are known before a replay.
struct Node {
  // `guarded` is a kernel, a copy or a fill that its guard may skip. A type of its own costs other
  // nodes nothing, and a check of `guard` would read one more cache line of each node.
  enum Type : uint8_t { kernel, copy, fill, record, guarded, prefetch } type;
  Type guarded_type = kernel;  // for a guarded node: what runs unless the guard skips it
  // The kernel's function. A node stores the function instead of a pointer to the kernel's registry
  // entry. When the process exits, pool threads may still run after the registry is destroyed.
  const char* (*kernel_run)(const KernelArgs*) = nullptr;
  KernelArgs args{};
  bool may_hold = false;  // see Kernel::may_hold
  uint8_t* to = nullptr;
  const uint8_t* from = nullptr;
  size_t bytes = 0;
  uint64_t pattern = 0;
  uint32_t pattern_bytes = 1;
  uint32_t point = 0;  // for a record: the index of the replay's point
  union {
    Memory* managed = nullptr;  // for a prefetch: moves its bytes [at, at + bytes) to `target`
    const uint8_t* guard;  // for a guarded node: runs it if this int32 is a multiple of `every`
  };
  size_t at = 0;
  int target = nowhere;
  int32_t every = 1;
  // Runs the node. Returns null, or the reason why it failed.
  const char* run() const;

 private:
  const char* run_kernel() const;
  const char* run_as(Type as) const;
  bool skipped() const;
};

// An instantiated graph. It never changes. An update creates another Program, so replays that are
// enqueued already run the old one.
struct Program {
  explicit Program(Ref<Capture> capture);
  const Ref<Capture> capture;  // keeps the memory alive that nodes touch
  std::vector<Node> nodes;
  std::vector<Ref<Event>> events;   // recorded by every replay, with one point each
  const std::vector<Memory*> lent;  // see Device::revoke
  bool may_hold = false;            // whether a node has `may_hold`
  std::atomic<uint64_t> last_run_ns{0};
};

class HostGraph final : public Graph {
 public:
  using Graph::Graph;
  Ref<Exec> instantiate() override;
};

class HostExec final : public Exec {
 public:
  HostExec(Device& device, Ref<Program> program) : Exec(device), program_(std::move(program)) {}
  Ref<Program> program() {
    std::lock_guard guard(lock_);
    return program_;
  }
  // True while a replay runs. Replays of one exec run one at a time, also on different streams.
  std::atomic<bool> running{false};

 protected:
  bool do_update(const Ref<Graph>& graph) override;

 private:
  SpinLock lock_;
  Ref<Program> program_;
};

// Returns a node that runs the captured work. All its pointers are known.
Node node_of(const Work& work);

}  // namespace hotslot::host
