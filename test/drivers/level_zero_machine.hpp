// The machine inside the Level Zero software driver: memory the host cannot touch, events, and queues whose operations run in
// the worst order the specification leaves open. One lock guards everything; only copies, fills and kernels run without it.
#pragma once
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <thread>
#include <unordered_map>

#include "kernels/kernel.hpp"
#include "level_zero_newer.hpp"
#include "level_zero_spirv.hpp"
#include "level_zero_testing.hpp"

namespace software {

template <class T>
using Ref = std::shared_ptr<T>;

// Why a call is refused: `what` counts as a violation, unless it is empty because nobody made a mistake.
struct Refusal {
  ze_result_t status;
  std::string what;
};
[[noreturn]] inline void refuse(ze_result_t status, const std::string& what = "") { throw Refusal{status, what}; }
inline void require(bool holds, ze_result_t status, const char* what) {
  if (!holds) refuse(status, what);
}

inline uint64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return uint64_t(t.tv_sec) * 1000000000u + uint64_t(t.tv_nsec);
}

// 12.5 MHz: the same number whether a caller takes it as cycles per second or as nanoseconds per cycle.
constexpr uint64_t cycle_ns = 80, cycles_per_second = 12'500'000;

// ---- objects ---------------------------------------------------------------------------------------------------------

enum class Sort : uint8_t { driver = 1, device, context, queue, fence, list, pool, event, module, build_log, kernel, graph, executable };
constexpr const char* sort_names[] = {"",       "drivers", "devices", "contexts",   "queues",  "fences", "lists",
                                      "pools",  "events",  "modules", "build_logs", "kernels", "graphs", "executables"};

struct Context;
struct Object {
  explicit Object(Sort sort) : sort(sort) {}
  virtual ~Object() = default;
  const Sort sort;
  uintptr_t handle = 0;
  Ref<Context> context;
  int in_use = 0;     // operations on their way that refer to it
  bool live = true;   // not destroyed
  std::atomic<bool> user{false};  // a thread is inside a call that only one thread may make
};

struct Context : Object {
  Context() : Object(Sort::context) {}
};

struct Driver : Object {
  Driver() : Object(Sort::driver) {}
};

struct Device : Object {
  explicit Device(uint32_t index) : Object(Sort::device), index(index) {}
  const uint32_t index;
  uint64_t used = 0;
};

enum class Residence : uint8_t { device, host, shared, imported };

// What the application holds of device memory is an address without access: a host that reads or writes it dies at once. The
// bytes are elsewhere, at `bytes_at`.
struct Allocation {
  Residence residence;
  uintptr_t base;
  size_t bytes;
  uint8_t* bytes_at;
  Ref<Device> device;
  Ref<Context> context;
  uint64_t id;
  size_t mapped = 0;
  bool released_by_free = true;  // else by Intel's own call
  int in_use = 0;
  bool live = true;
};

struct Stamps {
  uint64_t begin = 0, end = 0;
};

// One signal of a counter-based event: whoever waits holds the point, so the event may be signalled again or go away.
struct Point {
  bool done = false, failed = false;
  Stamps stamps;
};

struct Recording;
struct Pool : Object {
  Pool(uint32_t flags, uint32_t count) : Object(Sort::pool), flags(flags), taken(count) {}
  const uint32_t flags;
  std::vector<bool> taken;
};

struct Event : Object {
  Event() : Object(Sort::event) {}
  Ref<Pool> pool;  // null: counter-based
  uint32_t index = 0, signal_scope = 0, counter_flags = 0;
  bool signalled = false, failed = false;
  Stamps stamps;
  Ref<Point> point;  // counter-based: the latest signal; null counts as done
  // Signalled inside a recording last: where in it.
  std::weak_ptr<Recording> recording;
  bool recorded = false;
  std::vector<uint32_t> recorded_after;

  bool host_visible() const { return pool ? pool->flags & ZE_EVENT_POOL_FLAG_HOST_VISIBLE : counter_flags & newer::counter_host_visible; }
  bool timed() const {
    return pool ? pool->flags & (ZE_EVENT_POOL_FLAG_KERNEL_TIMESTAMP | newer::pool_mapped_timestamp)
                : counter_flags & (newer::counter_timestamp | newer::counter_mapped_timestamp);
  }
};

struct Module : Object {
  explicit Module(Spirv&& spirv) : Object(Sort::module), spirv(std::move(spirv)) {}
  const Spirv spirv;
  Ref<Device> device;
};

struct BuildLog : Object {
  explicit BuildLog(std::string text) : Object(Sort::build_log), text(std::move(text)) {}
  const std::string text;
};

struct Kernel : Object {
  Kernel() : Object(Sort::kernel) {}
  Ref<Module> module;
  const hotslot::Kernel* form = nullptr;
  std::string name;
  std::vector<Parameter> parameters;
  std::vector<uint64_t> values;
  std::vector<bool> set;
  uint32_t group = 0;
};

// ---- work ------------------------------------------------------------------------------------------------------------

struct Range {
  uintptr_t address = 0;
  size_t bytes = 0;
  Ref<Allocation> allocation;  // null: pageable host memory
  uint8_t* at() const { return allocation ? allocation->bytes_at + (address - allocation->base) : reinterpret_cast<uint8_t*>(address); }
};

// What was appended: it may run once, or as often as its list or graph does.
struct Work {
  enum Type : uint8_t { nothing, barrier, reset, copy, fill, kernel, stamp } type = nothing;
  bool waits_for_events = false;   // so a barrier waits for those alone
  std::vector<Range> ranges;  // copy: to, from
  const hotslot::Kernel* form = nullptr;
  hotslot::KernelArgs args{};
  uint8_t pattern[16]{};
  size_t pattern_bytes = 1;
  std::vector<Ref<Event>> waits;
  Ref<Event> signal, cleared;
  Ref<Kernel> launched;
  std::vector<Ref<Point>> points;  // of the counter-based events waited for, as they were when this was appended
  std::vector<uint32_t> needs;     // in a recording

  // Null, or why it failed.
  const char* run() const {
    switch (type) {
      case copy:
        memmove(ranges[0].at(), ranges[1].at(), ranges[0].bytes);
        return nullptr;
      case fill:
        for (size_t at = 0; at < ranges[0].bytes; at += pattern_bytes) memcpy(ranges[0].at() + at, pattern, pattern_bytes);
        return nullptr;
      case kernel: {
        hotslot::KernelArgs at = args;
        for (size_t i = 0; i < ranges.size(); ++i) at.pointer[i] = ranges[i].at();
        return form->run(at);
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
  Ref<Run>* active = nullptr;  // the run of the same list or graph that has begun and is not over, if any
  int* pending = nullptr;
  Ref<Op> end;
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
};

// Operations of which some are over; those are dropped when there are many.
struct Ops {
  std::vector<Ref<Op>> list;
  size_t most = 64;
  void add(const Ref<Op>& op) {
    if (list.size() >= most) {
      prune();
      most = std::max<size_t>(64, 2 * list.size());
    }
    list.push_back(op);
  }
  void prune() {
    list.erase(std::remove_if(list.begin(), list.end(), [](auto& op) { return op->state == Op::over; }), list.end());
  }
};

// What bounds the order within a queue, an immediate list or one run.
struct Order {
  bool in_order = false;
  Ref<Op> last, barrier;
  Ops alive;
};

// Whatever takes operations: a queue, or an immediate list.
struct Lane {
  Order order;
  std::vector<Ref<Op>> ready;  // newest last
  bool running = false, listed = false, synchronous = false;
  const char* error = nullptr;  // first failure, sticky
  Ops pending;
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

// ---- the machine -----------------------------------------------------------------------------------------------------

class Machine {
 public:
  static Machine& one() {
    static Machine* machine = new Machine;  // outlives every thread
    return *machine;
  }

  std::mutex lock;
  std::condition_variable news;  // something ended
  const Features features{environment("HOTSLOT_SOFTWARE_ZE")};
  Ref<Driver> driver;
  std::vector<Ref<Device>> devices;
  bool initialised = false;

  // -- objects. Everything below is called with the lock held.

  // Numbers that are no addresses and never come back: a stale handle is known as one, and whoever looks inside it dies.
  template <class T>
  Ref<T> add(Ref<T> object) {
    object->handle = uintptr_t(0x5a00) << 48 | uintptr_t(object->sort) << 40 | ++serial_;
    objects_[object->handle] = object;
    return object;
  }
  template <class T, class H>
  Ref<T> find(H handle, Sort sort) {
    const auto key = uintptr_t(handle);
    if (!key) refuse(ZE_RESULT_ERROR_INVALID_NULL_HANDLE, std::string("a null handle where one of ") + sort_names[size_t(sort)] + " belongs");
    const auto found = objects_.find(key);
    if (found != objects_.end() && found->second->sort == sort) return std::static_pointer_cast<T>(found->second);
    const bool ours = key >> 48 == 0x5a00, right = ours && (key >> 40 & 0xff) == uint8_t(sort);
    refuse(ZE_RESULT_ERROR_INVALID_ARGUMENT,
           std::string(right ? "a destroyed handle" : ours ? "a handle of something else" : "no handle of this driver") + " where one of " +
               sort_names[size_t(sort)] + " belongs");
  }
  Ref<Object> look_up(uintptr_t handle) {
    const auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second;
  }
  void remove(const Ref<Object>& object) {
    object->live = false;
    objects_.erase(object->handle);
  }
  template <class F>
  bool any(F&& matches) {
    for (auto& [handle, object] : objects_)
      if (matches(*object)) return true;
    return false;
  }
  // Every list that took part in the recording is free again.
  void leave(const Ref<Recording>& recording) {
    for (auto& [handle, object] : objects_)
      if (object->sort == Sort::list && static_cast<List&>(*object).recording == recording) static_cast<List&>(*object).recording.reset();
  }
  std::string live() {
    std::map<std::string, uint64_t> counts;
    for (auto& [handle, object] : objects_)
      if (object->sort > Sort::device) counts[sort_names[size_t(object->sort)]]++;
    for (auto& [base, allocation] : allocations_) {
      counts[allocation->residence == Residence::imported ? "imports" : "allocations"]++;
      if (allocation->residence != Residence::imported) counts["bytes"] += allocation->bytes;
    }
    std::string lines;
    for (auto& [kind, count] : counts) lines += kind + " " + std::to_string(count) + "\n";
    return lines;
  }

  // -- memory

  uint64_t memory_bytes() const {
    if (features.memory_mib) return features.memory_mib << 20;
    return uint64_t(sysconf(_SC_PHYS_PAGES)) * uint64_t(sysconf(_SC_PAGESIZE)) / 2;
  }
  // Null: there is no such memory left. What belongs to a device takes of its memory.
  Ref<Allocation> allocate(Residence residence, const Ref<Context>& context, const Ref<Device>& device, size_t bytes) {
    if (device && device->used + bytes > memory_bytes()) return nullptr;
    const size_t mapped = (std::max<size_t>(bytes, 1) + 4095) & ~size_t(4095);
    void* const at = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return nullptr;
    void* shown = at;
    if (residence == Residence::device) {
      shown = mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (shown == MAP_FAILED) {
        munmap(at, mapped);
        return nullptr;
      }
    }
    if (device) device->used += bytes;
    auto allocation = std::make_shared<Allocation>();
    *allocation = {residence, uintptr_t(shown), bytes, static_cast<uint8_t*>(at), device, context, ++serial_, mapped};
    allocations_[allocation->base] = allocation;
    return allocation;
  }
  Ref<Allocation> import(const Ref<Context>& context, void* memory, size_t bytes, bool released_by_free) {
    auto allocation = std::make_shared<Allocation>();
    *allocation = {Residence::imported, uintptr_t(memory), bytes, static_cast<uint8_t*>(memory), nullptr, context, ++serial_, 0, released_by_free};
    allocations_[allocation->base] = allocation;
    return allocation;
  }
  void free(const Ref<Allocation>& allocation) {
    if (allocation->in_use) refuse(ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE, "the memory is freed while queued work uses it");
    if (allocation->device) allocation->device->used -= allocation->bytes;
    allocation->live = false;
    allocations_.erase(allocation->base);
    if (!allocation->mapped) return;
    // The addresses never come back, without access: whoever still has the pointer is found out.
    if (allocation->residence == Residence::device) munmap(allocation->bytes_at, allocation->mapped);
    else mmap(allocation->bytes_at, allocation->mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    freed_[allocation->base] = allocation->mapped;
  }
  bool allocated(const Ref<Context>& context) {
    return std::any_of(allocations_.begin(), allocations_.end(), [&](auto& each) { return each.second->context == context; });
  }
  // The allocation that shares a byte with the range; null when it is nobody's.
  Ref<Allocation> touching(uintptr_t address, size_t bytes) {
    auto after = allocations_.lower_bound(address + std::max<size_t>(bytes, 1));
    if (after == allocations_.begin()) return nullptr;
    auto& allocation = std::prev(after)->second;
    return allocation->base + allocation->bytes > address ? allocation : nullptr;
  }
  Range range(const void* pointer, size_t bytes, const char* what, bool pageable) {
    Range range{uintptr_t(pointer), bytes, touching(uintptr_t(pointer), bytes)};
    const auto wrong = [&](const std::string& how) {
      refuse(ZE_RESULT_ERROR_INVALID_ARGUMENT, std::string(what) + ": " + std::to_string(bytes) + how);
    };
    if (auto& allocation = range.allocation) {
      if (range.address < allocation->base || range.address + bytes > allocation->base + allocation->bytes)
        wrong(" bytes that lie only partly in an allocation of " + std::to_string(allocation->bytes));
      return range;
    }
    const auto after = freed_.upper_bound(range.address);
    if (after != freed_.begin() && range.address < std::prev(after)->first + std::prev(after)->second) wrong(" bytes of memory that is freed");
    if (!pageable && bytes > 0) wrong(" bytes in no live allocation");
    return range;
  }

  // -- operations

  uint64_t stamp(uint64_t ns) const {
    static const uint64_t start = now_ns();
    const uint64_t offset = features.wrap_ms ? (uint64_t(1) << 32) - features.wrap_ms * 1000000 / cycle_ns - start / cycle_ns : 0;
    return (ns / cycle_ns + offset) & 0xffffffff;
  }

  // Enqueues one operation on the lane. `order` is the lane's own or that of a run; `first` are operations it comes after.
  Ref<Op> submit(const Ref<Lane>& lane, Order& order, const Ref<const Work>& work, const Ref<Run>& run = nullptr,
                 const std::vector<Ref<Op>>& first = {}) {
    auto op = std::make_shared<Op>();
    op->work = work;
    op->lane = lane;
    op->run = run;
    op->points = work->points;
    op->number = ++serial_;
    for (auto& range : work->ranges)
      if (range.allocation) range.allocation->in_use++;
    for (auto& event : work->waits) event->in_use++;
    if (work->cleared) work->cleared->in_use++;
    if (auto& event = work->signal) {
      event->in_use++;
      event->recorded = false;
      // From now on whoever waits for a counter-based event waits for this.
      if (!event->pool) event->point = op->point = std::make_shared<Point>();
    }
    if (work->launched) work->launched->in_use++;
    for (auto& earlier : first) follow(op, earlier);
    if (order.in_order) {
      follow(op, order.last);
      order.last = op;
    } else {
      follow(op, order.barrier);
      if (work->type == Work::barrier) {
        // With events it waits for those alone; either way everything later waits for it.
        if (!work->waits_for_events)
          for (auto& earlier : order.alive.list) follow(op, earlier);
        order.barrier = op;
      }
      order.alive.add(op);
    }
    lane->pending.add(op);
    if (op->missing == 0) look_at_events(op, lane->order.in_order ? 0 : now_ns() + features.linger_us * 1000);
    return op;
  }
  // Begin, the works, end; returns the last. Works with `needs` come after those, others after what `order` says.
  Ref<Op> submit_run(const Ref<Lane>& lane, const Ref<Run>& run, const std::vector<Ref<const Work>>& works, bool chained,
                     const Ref<const Work>& before, const Ref<const Work>& behind, const Ref<Op>& previous) {
    ++*run->pending;
    run->of->in_use++;
    run->lane = lane.get();
    const bool graph = run->of->sort == Sort::graph || run->of->sort == Sort::executable;
    auto begin = submit(lane, lane->order, before, run, {previous});
    begin->begins = true;
    Order own;
    own.in_order = chained;
    own.last = begin;
    // A list on a queue shares the queue's barriers, unless the queue has an order that says more.
    Order& order = graph || chained || lane->order.in_order ? own : lane->order;
    std::vector<Ref<Op>> ops;
    for (auto& work : works) {
      std::vector<Ref<Op>> first{begin};
      if (graph)
        for (uint32_t need : work->needs) first.push_back(ops[need]);
      ops.push_back(submit(lane, order, work, run, first));
    }
    ops.push_back(begin);
    auto end = submit(lane, lane->order, behind, run, ops);
    end->ends = true;
    run->end = end;
    return end;
  }

  static bool idle(Lane& lane) {
    lane.pending.prune();
    return lane.pending.list.empty();
  }
  // Waits for what is on the lane now.
  ze_result_t synchronize(std::unique_lock<std::mutex>& held, const Ref<Lane>& lane, uint64_t ns) {
    const uint64_t target = serial_;
    const bool done = wait(held, ns, [&] {
      lane->pending.prune();
      return lane->pending.list.empty() || lane->pending.list.front()->number > target;
    });
    if (lane->error) return ZE_RESULT_ERROR_DEVICE_LOST;
    return done ? ZE_RESULT_SUCCESS : ZE_RESULT_NOT_READY;
  }
  template <class F>
  bool wait(std::unique_lock<std::mutex>& held, uint64_t ns, F&& done) {
    if (ns >= uint64_t(1) << 60) {
      news.wait(held, done);
      return true;
    }
    return news.wait_for(held, std::chrono::nanoseconds(ns), done);
  }

  void signal(Event& event, bool failed, Stamps stamps) {
    event.signalled = true;
    event.failed = failed;
    event.stamps = stamps;
    event_changed();
  }
  // Operations that wait for events look again.
  void event_changed() {
    auto waiting = std::move(blocked_);
    blocked_.clear();
    for (auto& op : waiting) look_at_events(op, 0);
    news.notify_all();
  }
  uint64_t next_serial() { return ++serial_; }

 private:
  static void follow(const Ref<Op>& op, const Ref<Op>& earlier) {
    if (!earlier || earlier == op || earlier->state == Op::over) return;
    earlier->next.push_back(op);
    op->missing++;
  }

  void look_at_events(const Ref<Op>& op, uint64_t due) {
    bool all = true;
    for (auto& event : op->work->waits)
      if (event->pool) all = all && event->signalled;
    for (auto& point : op->points) all = all && point->done;
    if (!all) {
      op->state = Op::blocked;
      blocked_.push_back(op);
      return;
    }
    for (auto& event : op->work->waits) op->failed = op->failed || (event->pool && event->failed);
    for (auto& point : op->points) op->failed = op->failed || point->failed;
    op->state = Op::ready;
    op->due = due;
    Lane& lane = *op->lane;
    lane.ready.push_back(op);
    if (!lane.listed) lanes_.push_back(op->lane);
    lane.listed = true;
    call_a_hand();
  }
  // A kernel may hold its worker for seconds: there is always another for what else is ready.
  void call_a_hand() {
    if (idle_ == 0 && workers_ < 16) {
      workers_++;
      std::thread([this] { work(); }).detach();
    }
    work_.notify_one();
  }

  // The newest of a lane that is due goes first: whatever nothing forbids, happens. One at a time per lane, lanes in turn.
  Ref<Op> take(uint64_t& next_due) {
    const uint64_t now = now_ns();
    next_due = ~uint64_t(0);
    for (size_t i = 0; i < lanes_.size(); ++i) {
      const Ref<Lane> lane = lanes_[i];
      if (lane->running || lane->ready.empty()) continue;
      uint64_t due = ~uint64_t(0);
      for (size_t at = 0; at < lane->ready.size() && due > now; ++at) due = std::min(due, lane->ready[at]->due);
      if (due > now) {
        next_due = std::min(next_due, due);
        continue;
      }
      Ref<Op> op = lane->ready.back();
      lane->ready.pop_back();
      lanes_.erase(lanes_.begin() + long(i));
      if (lane->ready.empty()) lane->listed = false;
      else lanes_.push_back(lane);
      return op;
    }
    return nullptr;
  }

  void work() {
    std::unique_lock held(lock);
    for (;;) {
      uint64_t next_due;
      const Ref<Op> op = take(next_due);
      if (!op) {
        idle_++;
        if (next_due == ~uint64_t(0)) work_.wait(held);
        else work_.wait_for(held, std::chrono::nanoseconds(next_due - std::min(next_due, now_ns())));
        idle_--;
        continue;
      }
      execute(held, op);
    }
  }

  void execute(std::unique_lock<std::mutex>& held, const Ref<Op>& op) {
    const Ref<Lane> keep_lane = op->lane;
    const Ref<const Work> keep_work = op->work;
    Lane& lane = *keep_lane;
    const Work& work = *keep_work;
    op->state = Op::running;
    lane.running = true;
    op->stamps.begin = now_ns();
    const char* failed = lane.error;
    if (!failed && op->failed) failed = "what it waited for failed";
    if (op->begins && !failed) {
      if (*op->run->active) {
        Calls::all().complain("execution", "a list or graph runs while an earlier run of it is not over", true);
        failed = "it ran twice at the same time";
      } else {
        *op->run->active = op->run;
      }
    }
    if (!failed && work.type >= Work::copy) {
      for (auto& other : lanes_)
        if (!other->running && !other->ready.empty()) {
          call_a_hand();
          break;
        }
      held.unlock();
      failed = work.run();
      held.lock();
    }
    if (work.type == Work::reset && !failed) work.cleared->signalled = work.cleared->failed = false;
    if (failed && !lane.error) lane.error = failed;
    op->stamps.end = now_ns();
    finish(op);
    // Lanes and runs remember operations that are over: those hold nothing themselves.
    if (op->run && op->run->end == op) op->run->end.reset();
    op->run.reset(), op->lane.reset(), op->work.reset(), op->fence.reset();
  }

  void finish(const Ref<Op>& op) {
    Lane& lane = *op->lane;
    const Work& work = *op->work;
    op->state = Op::over;
    lane.running = false;
    const bool failed = lane.error != nullptr;
    const Stamps stamps{stamp(op->stamps.begin), stamp(op->stamps.end)};
    for (auto& range : work.ranges)
      if (range.allocation) range.allocation->in_use--;
    for (auto& event : work.waits) event->in_use--;
    if (work.cleared) work.cleared->in_use--;
    if (work.launched) work.launched->in_use--;
    if (op->ends) {
      Run& run = *op->run;
      if (*run.active == op->run) run.active->reset();
      --*run.pending;
      run.of->in_use--;
      run.of.reset();
    }
    for (auto& later : op->next)
      if (--later->missing == 0) look_at_events(later, 0);
    op->next.clear();
    if (op->point) *op->point = {true, failed, stamps};
    if (auto& event = work.signal) {
      event->in_use--;
      if (event->pool) signal(*event, failed, stamps);
    }
    if (op->fence) op->fence->signalled = true, op->fence->failed = failed;
    if (op->point) event_changed();
    news.notify_all();
    if (!lane.ready.empty()) work_.notify_one();
  }

  std::unordered_map<uintptr_t, Ref<Object>> objects_;
  std::map<uintptr_t, Ref<Allocation>> allocations_;
  std::map<uintptr_t, size_t> freed_;
  // Two copies of this library in one process give out different handles: a loader tells objects apart by them.
  uint64_t serial_ = (uintptr_t(&Calls::all()) >> 4 & 0xffff) << 24;
  std::vector<Ref<Op>> blocked_;
  std::vector<Ref<Lane>> lanes_;  // with something ready
  std::condition_variable work_;
  int idle_ = 0, workers_ = 0;
};

}  // namespace software
