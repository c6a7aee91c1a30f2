// The host device's graphs: a capture prepared as a list of nodes, which the executor runs.
#pragma once
#include "device/core/capture.hpp"
#include "device/host/device.hpp"

namespace hotslot::host {

// One node of a graph. All its pointers are resolved before a replay.
struct Node {
  enum Type : uint8_t { kernel, copy, fill, record, prefetch } type;
  // The function instead of its registry entry, because pool threads may outlive the registry when
  // the process exits.
  const char* (*kernel_run)(const KernelArgs*) = nullptr;
  KernelArgs args{};
  bool may_hold = false;  // see Kernel::may_hold
  uint8_t* to = nullptr;
  const uint8_t* from = nullptr;
  size_t bytes = 0;
  uint64_t pattern = 0;
  uint32_t pattern_bytes = 1;
  uint32_t point = 0;         // of a record: which of its replay's points
  Memory* managed = nullptr;  // of a prefetch: `bytes` of it from `at` on move to `target`
  size_t at = 0;
  int target = nowhere;
  // Returns null, or why it failed.
  const char* run() const;
};

// A prepared graph that replays run. It never changes, so replays enqueued before an update keep
// theirs.
struct Program {
  explicit Program(Ref<Capture> capture);
  const Ref<Capture> capture;  // holds the memory that nodes touch
  std::vector<Node> nodes;
  std::vector<Ref<Event>> events;   // recorded by every replay: one point each
  const std::vector<Memory*> lent;  // see Device::revoke
  bool may_hold = false;            // a node does
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
  // Replays of one exec run one at a time on all streams.
  std::atomic<bool> running{false};

 protected:
  bool do_update(const Ref<Graph>& graph) override;

 private:
  SpinLock lock_;
  Ref<Program> program_;
};

// Returns the node that runs captured work, with all pointers resolved.
Node node_of(const Work& work);

}  // namespace hotslot::host
