// What the Level Zero software driver runs: work as it was appended, an operation per execution of
// it, and what both lie in.
#pragma once
#include <algorithm>

#include "level_zero_objects.hpp"

namespace software {

struct Range {
  uintptr_t address = 0;
  size_t bytes = 0;
  Ref<Allocation> allocation;  // null: pageable host memory
  uint8_t* at() const {
    return allocation ? allocation->bytes_at + (address - allocation->base)
                      : reinterpret_cast<uint8_t*>(address);
  }
};

// What was appended: it may run once, or as often as its list or graph does.
struct Work {
  enum Type : uint8_t { nothing, barrier, reset, copy, fill, kernel, stamp } type = nothing;
  bool waits_for_events = false;  // so a barrier waits for those alone
  std::vector<Range> ranges;      // copy: to, from
  const hotslot::Kernel* form = nullptr;
  hotslot::KernelArgs args{};
  uint8_t pattern[16]{};
  size_t pattern_bytes = 1;
  std::vector<Ref<Event>> waits;
  Ref<Event> signal, cleared;
  Ref<Kernel> launched;
  std::vector<Ref<Point>>
      points;  // of the counter-based events waited for, as they were when this was appended
  std::vector<uint32_t> needs;  // in a recording

  // Null, or why it failed.
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
  Ref<Run>* active =
      nullptr;  // the run of the same list or graph that has begun and is not over, if any
  int* pending = nullptr;
  Ref<Op> end;
  Clock clock;  // behind it
  Lane* lane = nullptr;
};

struct Op {
  Ref<const Work> work;
  Ref<Lane> lane;
  Ref<Run> run;
  bool begins = false, ends = false;  // the run
  std::vector<Ref<Point>> points;
  Ref<Point> point;
  size_t missing = 0;  // operations that have to be over first
  std::vector<Ref<Op>> next;
  enum State : uint8_t { held, blocked, ready, running, over } state = held;
  bool failed = false;
  uint64_t due = 0, number = 0;
  Stamps stamps;
  Ref<Fence> fence;
  Clock clock;    // what it comes after, as far as that is over
  int node = -1;  // of a graph
};

// Operations of which some are over; those are dropped when there are many.
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

// What bounds the order within a queue, an immediate list or one run.
struct Order {
  bool in_order = false;
  Ref<Op> last, barrier;
  Ops alive;
};

inline uint64_t next_number() {
  static std::atomic<uint64_t> numbers{0};
  return ++numbers;
}

// Whatever takes operations: a queue, or an immediate list.
struct Lane {
  Order order;
  std::vector<Ref<Op>> ready;  // newest last
  bool running = false, listed = false, synchronous = false;
  const char* error = nullptr;  // first failure, sticky
  Ops pending;
  Clock done;  // behind what is over
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

// A graph while it is recorded and afterwards.
struct Recording : Object {
  Recording() : Object(Sort::graph) {}
  bool open = false, ended = false;
  std::string broken;  // what broke it
  Ref<List> origin;
  std::vector<Ref<const Work>> nodes;
  std::map<List*, std::vector<uint32_t>> members;  // what the list's next node comes after
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
  Ref<Recording> recording;  // it takes part in
};

}  // namespace software
