// What a capture may do, for every family alike: who takes part, what depends on what, and every refusal, with CUDA's
// numbers. The host device and Level Zero build their graphs from what is recorded here; CUDA and ROCm record in the driver
// as well, which is then never asked for what this page would refuse.
#pragma once
#include <sched.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "device/device.hpp"

namespace hotslot {

// Short critical sections; a preempted holder is waited for by yielding.
class SpinLock {
 public:
  void lock() {
    for (int spins = 0; flag_.exchange(true, std::memory_order_acquire); ++spins)
      if (spins > 64) sched_yield();
  }
  void unlock() { flag_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> flag_{false};
};

// One captured operation. Its spans hold the memory, so a graph holds what it touches.
struct Work {
  enum Type : uint8_t { kernel, copy, fill, record } type = kernel;
  static Work of(Launch&& launch) {
    Work work;
    work.launch = std::move(launch);
    return work;
  }
  static Work copy_of(const Span& to, const Span& from) {
    refuse_overlap(to, from);
    Work work;
    work.type = copy;
    work.to = to;
    work.from = from;
    return work;
  }
  static Work fill_of(const Span& to, const void* pattern, size_t bytes) {
    Work work;
    work.type = fill;
    work.to = to;
    memcpy(&work.pattern, pattern, bytes);
    work.pattern_bytes = uint32_t(bytes);
    return work;
  }
  static Work record_of(const Ref<Event>& event) {
    Work work;
    work.type = record;
    work.event = event;
    return work;
  }

  Launch launch;  // of a kernel
  Span to, from;  // of a copy; a fill has `to` alone
  uint64_t pattern = 0;
  uint32_t pattern_bytes = 1;
  Ref<Event> event;  // of a record: each replay records it anew
};

using Frontier = std::set<uint32_t>;
class Lane;

// Nodes in the order they were enqueued (which is topological) and, per node, what it depends on. Streams of several threads
// may take part. Frozen once `ended`: graphs read the nodes without the lock.
struct Capture {
  const Lane* origin = nullptr;
  std::thread::id thread;
  // Somebody ends it: from `ending` to `ended` the driver does, and no stream that takes part may enqueue meanwhile.
  std::atomic<bool> ending{false}, ended{false};
  std::atomic<int> calls{0};  // see Busy
  SpinLock lock;  // guards what follows; taken after a lane's and an event's
  bool invalid = false;
  std::vector<Work> nodes;
  std::vector<std::vector<uint32_t>> needs;
  // Who takes part, and the nodes its next one depends on. Kept for streams that were closed meanwhile: their work counts.
  std::map<Ref<Lane>, Frontier> lanes;
  // Runs when the capture is given up instead of ended, in the thread that gives up; is told who took part.
  std::function<void(const std::vector<Ref<Lane>>& lanes)> abandoned;
  void invalidate() {
    std::lock_guard guard(lock);
    invalid = true;
  }
  void abandon();
  // From `ending` on: until whoever was between the books and the driver has left.
  void settle() const {
    while (calls.load() > 0) sched_yield();
  }
  // Whatever the nodes touch, as often as they do.
  template <class F>
  void each_memory(F&& see) const {
    for (auto& node : nodes) {
      for (auto* span : {&node.to, &node.from})
        if (span->memory) see(*span->memory);
      for (auto& span : node.launch.spans) see(*span.memory);
    }
  }
  // The host memory among that: it can be revoked.
  std::vector<Memory*> lent() const;
};

// Keeps a capture from ending between the books and the driver's call that they are about.
class Busy {
 public:
  Busy() = default;
  ~Busy() {
    if (capture_) capture_->calls.fetch_sub(1);
  }
  Busy(const Busy&) = delete;
  // Under the capture's lock, while nobody ends it.
  void in(const Ref<Capture>& capture) {
    capture->calls.fetch_add(1);
    capture_ = capture;
  }
  // Null: outside captures.
  Capture* capture() const { return capture_.get(); }

 private:
  Ref<Capture> capture_;
};

// What an event knows of captures. Guarded by `lock`, taken after a lane's.
struct CaptureMark {
  std::mutex lock;
  bool captured = false;  // last recorded in a capture: this one, if it still exists, and where in it
  std::weak_ptr<Capture> capture;
  Frontier frontier;
};

// A driver's no, in the form every family throws it.
[[noreturn]] void refuse(const char* family, const char* call, int status, const char* status_name, const std::string& why, const char* advice);

// Throws 900, and breaks the capture, when the calling thread has one open: it may only enqueue work then.
void forbid_in_capture(const char* family, const char* call);

// Whether it has: what gives memory back to the driver waits until it has not.
bool thread_captures();

// 907 when the event was last recorded inside a capture. Under the mark's lock.
void forbid_captured(const char* family, const char* call, const CaptureMark& mark);

// A stream's part in captures. It outlives the stream object: captures hold it. `hold` is what must live as long.
class Lane : public std::enable_shared_from_this<Lane> {
 public:
  Lane(const char* family, Ref<void> hold) : family_(family), hold_(std::move(hold)) {}

  // Taken by every operation of the stream, so that beginning and ending a capture fall between two of them.
  // A driver's call under it may block: who waits sleeps.
  struct Lock : std::mutex {
    void lock() { std::mutex::lock(), ++held(); }
    void unlock() { --held(), std::mutex::unlock(); }
  } lock;
  // How many lanes the calling thread has locked: whoever takes them all (Retired) has to wait until it has none.
  static int& held() {
    thread_local int count = 0;
    return count;
  }

  // Under lock, each of the following:

  // The capture this stream takes part in now; it may have been ended from elsewhere.
  Ref<Capture> open();
  // True: the work belongs to a capture and was recorded there. Here and below, `busy` keeps that capture for the driver's call.
  bool add(Work&& work, const char* call, Busy* busy = nullptr);
  // True: a record inside a capture, which only marks a place in it. Unmarks the event otherwise. `mark.lock` is held.
  bool record(CaptureMark& mark, const char* call, Busy* busy = nullptr);
  // True: the wait is part of a capture, which this stream joins by it. `recorded`: the event was ever recorded outside
  // captures, so there is something to wait for. `mark.lock` is held.
  bool wait(CaptureMark& mark, bool recorded, const char* call, Busy* busy = nullptr);
  // Refuses with 900 while capturing, and breaks the capture.
  void forbid(const char* call, const char* why, const char* advice);
  void begin();

  // Ends the capture that began here, in this thread. `driver_end(unjoined)` runs between the last operation that can belong
  // to it and the verdict, whatever that is, and is told which streams joined and were not joined back; it takes no lane's
  // lock. Without lock.
  template <class F>
  Ref<Capture> end(F&& driver_end) {
    const Ending ending = take();
    ending.capture->settle();
    driver_end(ending.unjoined);
    ending.capture->abandoned = nullptr;  // graphs keep the capture, and that would keep the stream
    ending.capture->ended = true;
    return judge(ending);
  }
  // The stream is closed: nobody else can end a capture that began here, and whoever joined it is free again. Without lock.
  void abandon();

  const Ref<void>& hold() const { return hold_; }

 private:
  struct Ending {
    Ref<Capture> capture;
    std::map<Ref<Lane>, Frontier> lanes;
    std::vector<Ref<Lane>> unjoined;
    bool broken;
  };
  Ending take();
  void find_unjoined(Ending& ending) const;
  Ref<Capture> judge(const Ending& ending);
  void refuse_broken(const Capture& capture, const char* call) const;

  const char* const family_;
  const Ref<void> hold_;
  Ref<Capture> capture_;  // the last one it took part in; see open()
};

}  // namespace hotslot
