// The place in a capture at which an event was recorded. capture.hpp has the rules.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>

namespace hotslot {

struct Capture;

// Nodes of a capture that the next one depends on.
using Frontier = std::set<uint32_t>;

// An event's last record in a capture. Guarded by `lock`, taken after a stream's own.
struct CaptureMark {
  std::mutex lock;
  bool captured =
      false;  // last recorded in a capture: this one, if it still exists, and where in it
  std::weak_ptr<Capture> capture;
  Frontier frontier;
};

}  // namespace hotslot
