// The machine inside the Level Zero software driver: memory that the host cannot touch, events, and
// queues. Operations run in the worst order that the specification allows. One lock guards
// everything. Only copies, fills and kernels run without the lock.
#pragma once
#include <sys/mman.h>

#include <condition_variable>
#include <thread>
#include <unordered_map>

#include "level_zero_work.hpp"

namespace software {

class Machine {
 public:
  static Machine& one() {
    static Machine* machine = new Machine;  // never destroyed
    return *machine;
  }

  std::mutex lock;
  std::condition_variable news;  // notified when something ends
  const Features features{environment("HOTSLOT_SOFTWARE_ZE")};
  Detector detector{[](const std::string& text) { Calls::all().complain("order", text); }};
  Ref<Driver> driver;
  std::vector<Ref<Device>> devices;
  bool initialised = false;

  // -- objects. The functions below are called with the lock held.

  // Adds an object. Handles are numbers that are never reused and that are not addresses. The
  // driver recognizes a stale handle, and a program that dereferences a handle crashes.
  template <class T>
  Ref<T> add(Ref<T> object) {
    object->handle = uintptr_t(0x5a00) << 48 | uintptr_t(object->sort) << 40 | ++serial_;
    objects_[object->handle] = object;
    return object;
  }
  template <class T, class H>
  Ref<T> find(H handle, Sort sort) {
    const auto key = uintptr_t(handle);
    if (!key)
      refuse(ZE_RESULT_ERROR_INVALID_NULL_HANDLE,
             std::string("a null handle where one of ") + sort_names[size_t(sort)] + " belongs");
    const auto found = objects_.find(key);
    if (found != objects_.end() && found->second->sort == sort)
      return std::static_pointer_cast<T>(found->second);
    const bool ours = key >> 48 == 0x5a00, right = ours && (key >> 40 & 0xff) == uint8_t(sort);
    refuse(ZE_RESULT_ERROR_INVALID_ARGUMENT, std::string(right  ? "a destroyed handle"
                                                         : ours ? "a handle of something else"
                                                                : "no handle of this driver") +
                                                 " where one of " + sort_names[size_t(sort)] +
                                                 " belongs");
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
  // Removes all lists from a recording.
  void leave(const Ref<Recording>& recording) {
    for (auto& [handle, object] : objects_)
      if (object->sort == Sort::list && static_cast<List&>(*object).recording == recording)
        static_cast<List&>(*object).recording.reset();
  }
  std::string live() {
    std::map<std::string, uint64_t> counts;
    for (auto& [handle, object] : objects_)
      if (object->sort > Sort::device) counts[sort_names[size_t(object->sort)]]++;
    for (auto& [base, allocation] : allocations_) {
      counts[allocation->residence == Residence::imported ? "imports" : "allocations"]++;
      if (allocation->residence != Residence::imported) counts["bytes"] += allocation->bytes;
    }
    return lines(counts);
  }

  // -- memory

  uint64_t memory_bytes() const {
    if (features.memory_mib) return features.memory_mib << 20;
    return uint64_t(sysconf(_SC_PHYS_PAGES)) * uint64_t(sysconf(_SC_PAGESIZE)) / 2;
  }
  // Allocates memory, or returns null if none is left. Memory with a device counts as memory of
  // that device.
  Ref<Allocation> allocate(Residence residence, const Ref<Context>& context,
                           const Ref<Device>& device, size_t bytes) {
    if (device && device->used + bytes > memory_bytes()) return nullptr;
    const size_t mapped = (std::max<size_t>(bytes, 1) + 4095) & ~size_t(4095);
    void* const at =
        mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
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
    *allocation = {residence, uintptr_t(shown), bytes,     static_cast<uint8_t*>(at),
                   device,    context,          ++serial_, mapped};
    allocations_[allocation->base] = allocation;
    return allocation;
  }
  Ref<Allocation> import(const Ref<Context>& context, void* memory, size_t bytes,
                         bool released_by_free) {
    auto allocation = std::make_shared<Allocation>();
    *allocation = {Residence::imported,
                   uintptr_t(memory),
                   bytes,
                   static_cast<uint8_t*>(memory),
                   nullptr,
                   context,
                   ++serial_,
                   0,
                   released_by_free};
    allocations_[allocation->base] = allocation;
    return allocation;
  }
  void free(const Ref<Allocation>& allocation) {
    if (allocation->in_use)
      refuse(ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE, "the memory is freed while queued work uses it");
    if (Detector::on()) detector.gone(allocation->base, allocation->bytes, "a free");
    if (allocation->device) allocation->device->used -= allocation->bytes;
    allocation->live = false;
    allocations_.erase(allocation->base);
    if (!allocation->mapped) return;
    // The addresses are never reused and become inaccessible, so that a use of the stale pointer
    // crashes.
    if (allocation->residence == Residence::device)
      munmap(allocation->bytes_at, allocation->mapped);
    else
      mmap(allocation->bytes_at, allocation->mapped, PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    freed_[allocation->base] = allocation->mapped;
  }
  bool allocated(const Ref<Context>& context) {
    return std::any_of(allocations_.begin(), allocations_.end(),
                       [&](auto& each) { return each.second->context == context; });
  }
  // Returns the allocation that shares a byte with the range, or null.
  Ref<Allocation> touching(uintptr_t address, size_t bytes) {
    auto after = allocations_.lower_bound(address + std::max<size_t>(bytes, 1));
    if (after == allocations_.begin()) return nullptr;
    auto& allocation = std::prev(after)->second;
    return allocation->base + allocation->bytes > address ? allocation : nullptr;
  }
  Range range(const void* pointer, size_t bytes, const char* what, bool pageable) {
    Range range{uintptr_t(pointer), bytes, touching(uintptr_t(pointer), bytes)};
    const auto wrong = [&](const std::string& how) {
      refuse(ZE_RESULT_ERROR_INVALID_ARGUMENT,
             std::string(what) + ": " + std::to_string(bytes) + how);
    };
    if (auto& allocation = range.allocation) {
      if (range.address < allocation->base ||
          range.address + bytes > allocation->base + allocation->bytes)
        wrong(" bytes that lie only partly in an allocation of " +
              std::to_string(allocation->bytes));
      return range;
    }
    const auto after = freed_.upper_bound(range.address);
    if (after != freed_.begin() &&
        range.address < std::prev(after)->first + std::prev(after)->second)
      wrong(" bytes of memory that is freed");
    if (!pageable && bytes > 0) wrong(" bytes in no live allocation");
    return range;
  }

  // -- operations

  uint64_t stamp(uint64_t ns) const {
    static const uint64_t start = now_ns();
    const uint64_t offset =
        features.wrap_ms
            ? (uint64_t(1) << 32) - features.wrap_ms * 1000000 / cycle_ns - start / cycle_ns
            : 0;
    return (ns / cycle_ns + offset) & 0xffffffff;
  }

  // Enqueues one operation on the lane. `order` belongs to the lane or to a run. The operation
  // comes after those in `first`.
  Ref<Op> submit(const Ref<Lane>& lane, Order& order, const Ref<const Work>& work,
                 const Ref<Run>& run = nullptr, const std::vector<Ref<Op>>& first = {});
  // Submits the begin, the works and the end of a run, and returns the end. In a graph, each work
  // comes after its `needs`. Otherwise `order` decides.
  Ref<Op> submit_run(const Ref<Lane>& lane, const Ref<Run>& run,
                     const std::vector<Ref<const Work>>& works, bool chained,
                     const Ref<const Work>& before, const Ref<const Work>& behind,
                     const Ref<Op>& previous);

  static bool idle(Lane& lane) {
    lane.pending.prune();
    return lane.pending.list.empty();
  }
  // Waits for the operations that are on the lane at the call.
  ze_result_t synchronize(std::unique_lock<std::mutex>& held, const Ref<Lane>& lane, uint64_t ns) {
    const uint64_t target = serial_;
    const bool done = wait(held, ns, [&] {
      lane->pending.prune();
      return lane->pending.list.empty() || lane->pending.list.front()->number > target;
    });
    if (done && Detector::on()) detector.seen(lane->done);
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

  void signal(Event& event, bool failed, Stamps stamps, const Clock& clock) {
    event.signalled = true;
    event.clock = clock;
    event.failed = failed;
    event.stamps = stamps;
    event_changed();
  }
  // Checks all operations that wait for events again.
  void event_changed() {
    auto waiting = std::move(blocked_);
    blocked_.clear();
    for (auto& op : waiting) look_at_events(op, 0);
    news.notify_all();
  }
  uint64_t next_serial() { return ++serial_; }

 private:
  static void follow(const Ref<Op>& op, const Ref<Op>& earlier) {
    if (!earlier || earlier == op) return;
    if (earlier->state == Op::over) return op->clock.join(earlier->clock);
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
    for (auto& event : op->work->waits) {
      op->failed = op->failed || (event->pool && event->failed);
      op->clock.join(event->clock);
    }
    for (auto& point : op->points) {
      op->failed = op->failed || point->failed;
      op->clock.join(point->clock);
    }
    op->state = Op::ready;
    op->due = due;
    Lane& lane = *op->lane;
    lane.ready.push_back(op);
    if (!lane.listed) lanes_.push_back(op->lane);
    lane.listed = true;
    call_a_hand();
  }
  // Wakes an idle worker, or starts a worker if none is idle. A kernel may occupy a worker for
  // seconds.
  void call_a_hand() {
    if (idle_ == 0 && workers_ < 16) {
      workers_++;
      std::thread([this] { work(); }).detach();
    }
    work_.notify_one();
  }

  Ref<Op> take(uint64_t& next_due);
  void work();
  void execute(std::unique_lock<std::mutex>& held, const Ref<Op>& op);
  void touch(Op& op);
  void finish(const Ref<Op>& op);

  std::unordered_map<uintptr_t, Ref<Object>> objects_;
  std::map<uintptr_t, Ref<Allocation>> allocations_;
  std::map<uintptr_t, size_t> freed_;
  // Two copies of this library in one process must create different handles, because a loader
  // distinguishes objects by their handles.
  uint64_t serial_ = (uintptr_t(&Calls::all()) >> 4 & 0xffff) << 24;
  std::vector<Ref<Op>> blocked_;
  std::vector<Ref<Lane>> lanes_;  // lanes with ready operations
  std::condition_variable work_;
  int idle_ = 0, workers_ = 0;
};

}  // namespace software
