// What the Level Zero software driver runs. Work is what a caller appended, and an operation is one
// execution of it. Lanes, lists and graphs contain them.
#pragma once
#include <algorithm>

#include "level_zero_objects.hpp"

namespace software {

struct Range {
  uintptr_t address = 0;
  size_t bytes = 0;
  Ref<Allocation> allocation;  // null for pageable host memory
  uint8_t* at() const {
    return allocation ? allocation->bytes_at + (address - allocation->base)
                      : reinterpret_cast<uint8_t*>(address);
  }
};

// Work as it was appended. It runs once, or whenever its list or graph runs.
struct Work {
  enum Type : uint8_t { nothing, barrier, reset, copy, fill, kernel, stamp } type = nothing;
  bool waits_for_events = false;  // whether a barrier waits only for events
  std::vector<Range> ranges;      // copy: target, source
  const hotslot::Kernel* form = nullptr;
  hotslot::KernelArgs args{};
  uint8_t pattern[16]{};
  size_t pattern_bytes = 1;
  std::vector<Ref<Event>> waits;
  Ref<Event> signal, cleared;
  Ref<Kernel> launched;
  std::vector<Ref<Point>> points;  // signals of counter-based events at the time of the append
  std::vector<uint32_t> needs;     // in a recording: nodes that it comes after

  // Runs the work. Returns null, or the reason why it failed.
  const char* run() const {
    switch (type) {
      case copy:
        memmove(ranges[0].at(), ranges[1].at(), ranges[0].bytes);
        return nullptr;
      case fill:
        for (size_t at = 0; at < ranges[0].bytes; at += pattern_bytes)
          memcpy(ranges[0].at() + at, pattern, pattern_bytes);
        return nullptr;
      case kernel: {
        hotslot::KernelArgs at = args;
        for (size_t i = 0; i < ranges.size(); ++i) at.pointer[i] = ranges[i].at();
        return form->run(&at);
      }
      case stamp: {
        const uint64_t cycles = now_ns() / cycle_ns;
        memcpy(ranges[0].at(), &cycles, sizeof cycles);
        return nullptr;
      }
      default:
        return nullptr;
    }
  }
};

struct List;
struct Lane;
struct Op;
struct Fence;

// One execution of a list or a graph.
struct Run {
  Ref<Object> of;
  Ref<Run>* active = nullptr;  // the unfinished run of the list or graph, if any
  int* pending = nullptr;
  Ref<Op> end;
  Clock clock;  // after the run
  Lane* lane = nullptr;
};

struct Op {
  Ref<const Work> work;
  Ref<Lane> lane;
  Ref<Run> run;
  bool begins = false, ends = false;  // whether it begins or ends the run
  std::vector<Ref<Point>> points;
  Ref<Point> point;
  size_t missing = 0;  // number of unfinished operations that it comes after
  std::vector<Ref<Op>> next;
  enum State : uint8_t { held, blocked, ready, running, over } state = held;
  bool failed = false;
  uint64_t due = 0, number = 0;
  Stamps stamps;
  Ref<Fence> fence;
  Clock clock;    // what it comes after, as far as that has finished
  int node = -1;  // index in a graph, or -1
};

// A list of operations. If the list gets long, add() removes those that have finished.
struct Ops {
  std::vector<Ref<Op>> list;
  size_t most = 64;
  Clock dropped;
  void add(const Ref<Op>& op) {
    if (list.size() >= most) {
      prune();
      most = std::max<size_t>(64, 2 * list.size());
    }
    list.push_back(op);
  }
  void prune() {
    for (auto& op : list)
      if (op->state == Op::over) dropped.join(op->clock);
    list.erase(
        std::remove_if(list.begin(), list.end(), [](auto& op) { return op->state == Op::over; }),
        list.end());
  }
};

// What orders operations within a queue, an immediate list or a run.
struct Order {
  bool in_order = false;
  Ref<Op> last, barrier;
  Ops alive;
};

inline uint64_t next_number() {
  static std::atomic<uint64_t> numbers{0};
  return ++numbers;
}

// Accepts operations: a queue or an immediate list.
struct Lane {
  Order order;
  std::vector<Ref<Op>> ready;  // newest last
  bool running = false, listed = false, synchronous = false;
  const char* error = nullptr;  // first failure, which stays
  Ops pending;
  Clock done;  // after all finished operations
  const uint64_t number = next_number();
  Ref<Device> device;
  uint32_t ordinal = 0;
};

struct Queue : Object {
  Queue() : Object(Sort::queue) {}
  const Ref<Lane> lane = std::make_shared<Lane>();
  int fences = 0;
};

struct Fence : Object {
  Fence() : Object(Sort::fence) {}
  Ref<Queue> queue;
  bool signalled = false, failed = false, submitted = false;
  Clock clock;
};

// A graph, during its recording and afterwards.
struct Recording : Object {
  Recording() : Object(Sort::graph) {}
  bool open = false, ended = false;
  std::string broken;  // why the recording is invalid, or empty
  Ref<List> origin;
  std::vector<Ref<const Work>> nodes;
  std::map<List*, std::vector<uint32_t>> members;  // nodes that each list's next node comes after
};

struct Executable : Object {
  Executable() : Object(Sort::executable) {}
  Ref<Recording> graph;
  Ref<Run> active;
  int pending = 0;
};

struct List : Object {
  List() : Object(Sort::list) {}
  Ref<Lane> lane;  // of an immediate list
  bool immediate() const { return lane != nullptr; }
  Ref<Device> device;
  uint32_t ordinal = 0;
  bool in_order = false, closed = false;
  std::vector<Ref<const Work>> work;
  Ref<Run> active, latest;
  int pending = 0;
  Ref<Recording> recording;  // the recording that it takes part in, or null
};

}  // namespace software
