// The position in a capture at which an event was recorded. capture.hpp has the rules.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>

namespace hotslot {

struct Capture;

// The nodes of a capture on which the next node depends.
using Frontier = std::set<uint32_t>;

// The latest record of an event, if this record was inside a capture. `lock` guards the fields. A
// thread that needs a membership's lock too takes that lock first.
struct CaptureMark {
  std::mutex lock;
  bool captured = false;           // whether the latest record was inside a capture
  std::weak_ptr<Capture> capture;  // that capture, if it still exists
  Frontier frontier;               // the position of the record in that capture
};

}  // namespace hotslot
