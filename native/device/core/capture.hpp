// The rules of captures for every family: the streams that take part, the dependencies of nodes,
// and all errors, with CUDA's numbers. The host device and Level Zero build their graphs from what
// is recorded here. CUDA and ROCm record in the driver as well, and this file throws before the
// driver sees an invalid call.
#pragma once
#include <sched.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "device/core/device.hpp"
#include "wait/spin_lock.hpp"

namespace hotslot {

// Throws unless a fill stores whole patterns at multiples of their size, as devices do. CUDA loses
// its context by any other fill. Every family calls it.
inline void check_fill(const Span& to, size_t pattern) {
  if (pattern != 1 && pattern != 2 && pattern != 4 && pattern != 8)
    throw argument("a fill's pattern has 1, 2, 4 or 8 bytes, got ", pattern);
  if (to.bytes % pattern != 0 || uintptr_t(to.address()) % pattern != 0)
    throw range("a fill of ", to.bytes, " bytes at offset ", to.offset, " by ", pattern,
                ": its memory must begin and end at a multiple of ", pattern, " bytes");
}

// One captured operation. Its spans hold the memory, so a graph holds all memory it touches.
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
    check_fill(to, bytes);
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

class CaptureMembership;

// Nodes in the order they were enqueued (which is topological) and, per node, its dependencies.
// Streams of several threads may take part. It is frozen once `ended`, so graphs read the nodes
// without the lock.
struct Capture {
  const CaptureMembership* origin = nullptr;
  std::thread::id thread;
  // Between `ending` and `ended` a thread ends the capture in the driver, and no member stream may
  // enqueue.
  std::atomic<bool> ending{false}, ended{false};
  // See CallInProgress. It is sequentially consistent with `ending`: a call adds one, then reads
  // `ending`. The thread that ends the capture stores `ending`, then waits until `calls` is zero.
  std::atomic<int> calls{0};
  // Set permanently by the thread that broke the capture. It may be read without the lock.
  std::atomic<bool> invalid{false};
  SpinLock lock;           // guards what follows; taken after a membership's and an event's
  std::deque<Work> nodes;  // each stays where it is while others are added
  std::vector<std::vector<uint32_t>> needs;
  // The streams that take part, each with the nodes on which its next one depends. Closed streams
  // stay, because their work counts.
  using Members = std::map<Ref<CaptureMembership>, Frontier>;
  Members members;
  // Runs when the capture is abandoned instead of ended, in the thread that abandons it. Its
  // argument is the streams that took part.
  std::function<void(const Members& members)> abandoned;
  void invalidate() { invalid.store(true); }
  // Abandons the capture. It allocates nothing, because destructors call it.
  void abandon();
  // Waits, after `ending` is set, for the threads that are between our record and the driver's
  // call.
  void settle() const {
    while (calls.load() > 0) sched_yield();
  }
  // Calls `see` for each use of a memory by a node.
  template <class F>
  void each_memory(F&& see) const {
    for (auto& node : nodes) {
      for (auto* span : {&node.to, &node.from})
        if (span->memory) see(*span->memory);
      for (auto& span : node.launch.spans) see(*span.memory);
    }
  }
  // Returns the host memory that nodes touch, which can be revoked.
  std::vector<Memory*> lent() const;
};

// While this lives, the end of the capture waits, so that our record of an operation and the
// driver's call are one step.
class CallInProgress {
 public:
  CallInProgress() = default;
  ~CallInProgress() {
    if (capture_) capture_->calls.fetch_sub(1);
  }
  CallInProgress(const CallInProgress&) = delete;
  // Counts the call. Under the capture's lock, before a thread ends the capture.
  void in(const Ref<Capture>& capture) {
    capture->calls.fetch_add(1);
    capture_ = capture;
  }
  // Null: outside captures.
  Capture* capture() const { return capture_.get(); }

 private:
  Ref<Capture> capture_;
};

// Throws 900 and breaks the capture if the calling thread has one open, because it may only enqueue
// work then.
void forbid_in_capture(const char* family, const char* call);

// Returns whether the calling thread has a capture open. Memory is not returned to the driver until
// it has none.
bool thread_captures();

// Throws 907 if the event was last recorded inside a capture. Under the mark's lock.
void forbid_captured(const char* family, const char* call, const CaptureMark& mark);

// A stream's membership in captures. It outlives the stream object, because captures hold it.
// `hold` is an object that must live as long.
class CaptureMembership : public std::enable_shared_from_this<CaptureMembership> {
 public:
  CaptureMembership(const char* family, Ref<void> hold) : family_(family), hold_(std::move(hold)) {}

  // Every operation of the stream takes it, so a capture begins and ends between two operations. It
  // is a mutex that sleeps, because a driver's call under it may block.
  struct Lock : std::mutex {
    void lock() { std::mutex::lock(), ++held(); }
    void unlock() { --held(), std::mutex::unlock(); }
  } lock;
  // The number of these locks that the calling thread holds. Retired takes them all, and must not
  // while the thread holds one.
  static int& held() {
    thread_local int count = 0;
    return count;
  }

  // Each of the following runs under `lock`:

  // Returns the capture this stream takes part in now. Another thread may have ended it.
  Ref<Capture> open();
  // Takes work that belongs to a capture. Outside of a capture it returns null and leaves the work
  // to the caller. Here and below, `in_progress` keeps the capture from ending and the taken work
  // in its place during the driver's call.
  const Work* add(Work&& work, const char* call, CallInProgress& in_progress);
  // Returns true inside a capture, where a record only marks a place in it. `mark.lock` is held.
  bool record(CaptureMark& mark, const char* call, CallInProgress& in_progress);
  // Whether a wait is part of a capture. outside: no. inside: yes, of the stream's own capture.
  // joins: yes, and the stream joins the capture by it. nothing: yes, but the event was never
  // recorded, so there is nothing to wait for. refused: the stream would join but may not, and
  // nothing is changed. `recorded`: the event was recorded outside captures before. `mark.lock` is
  // held.
  enum class Wait : uint8_t { outside, inside, joins, nothing, refused };
  Wait wait(CaptureMark& mark, bool recorded, bool may_join, const char* call,
            CallInProgress& in_progress);
  // Throws 900 while capturing, and breaks the capture.
  void forbid(const char* call, const char* why, const char* advice);
  Ref<Capture> begin();

  // Ends the capture that began here, in this thread. `driver_end(capture, unjoined)` runs after
  // the last operation that can belong to it and before errors are thrown, in any case. `unjoined`
  // are the streams that joined and were not joined back. It takes no membership's lock. Without
  // lock.
  template <class F>
  void end(F&& driver_end) {
    const Ending ending = take();
    ending.capture->settle();
    driver_end(ending.capture, ending.unjoined);
    ending.capture->abandoned = nullptr;  // graphs keep the capture, and that would keep the stream
    ending.capture->ended = true;
    forget(ending);
    judge(ending);
  }
  // Abandons a capture that began here, because the stream is closed and no other can end it.
  // Streams that joined it are free again. Without lock.
  void abandon();

  const Ref<void>& hold() const { return hold_; }

 private:
  struct Ending {
    Ref<Capture> capture;
    Capture::Members members;
    std::vector<Ref<CaptureMembership>> unjoined;
    bool broken = false, no_memory = false;
  };
  Ending take();
  void find_unjoined(Ending& ending) const;
  static void forget(const Ending& ending);
  void judge(const Ending& ending) const;
  void refuse_broken(const Capture& capture, const char* call) const;

  const char* const family_;
  const Ref<void> hold_;
  Ref<Capture> capture_;  // the current capture, or one that was abandoned; see open()
};

}  // namespace hotslot
