// What a capture may do, for every family alike: which streams take part, what depends on what,
// every refusal, with CUDA's numbers. The host device and Level Zero build their graphs from what
// is recorded here; CUDA and ROCm record in the driver as well, which is then never asked for what
// this page would refuse.
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

// For every family's fill: devices store a pattern whole, at multiples of its size. CUDA loses its
// context by another one.
inline void check_fill(const Span& to, size_t pattern) {
  if (pattern != 1 && pattern != 2 && pattern != 4 && pattern != 8)
    throw argument("a fill's pattern has 1, 2, 4 or 8 bytes, got ", pattern);
  if (to.bytes % pattern != 0 || uintptr_t(to.address()) % pattern != 0)
    throw range("a fill of ", to.bytes, " bytes at offset ", to.offset, " by ", pattern,
                ": its memory must begin and end at a multiple of ", pattern, " bytes");
}

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

// Nodes in the order they were enqueued (which is topological) and, per node, what it depends on.
// Streams of several threads may take part. Frozen once `ended`: graphs read the nodes without the
// lock.
struct Capture {
  const CaptureMembership* origin = nullptr;
  std::thread::id thread;
  // A thread ends it: from `ending` to `ended` the driver does, and no stream that takes part may
  // enqueue meanwhile.
  std::atomic<bool> ending{false}, ended{false};
  // See CallInProgress. Sequentially consistent with `ending`: a call counts itself, then looks
  // whether the capture is ending; who ends it stores that, then waits until nobody is counted.
  std::atomic<int> calls{0};
  // Set for good, by whichever thread broke it; may be read without the lock.
  std::atomic<bool> invalid{false};
  SpinLock lock;           // guards what follows; taken after a membership's and an event's
  std::deque<Work> nodes;  // each stays where it is while others are added
  std::vector<std::vector<uint32_t>> needs;
  // The streams that take part, and the nodes that the next one of each depends on. Closed streams
  // stay: their work counts.
  using Members = std::map<Ref<CaptureMembership>, Frontier>;
  Members members;
  // Runs when the capture is given up instead of ended, in the thread that gives up; is told which
  // streams took part.
  std::function<void(const Members& members)> abandoned;
  void invalidate() { invalid.store(true); }
  // Destructors come here: it asks for no memory.
  void abandon();
  // From `ending` on: waits for the threads that are between our record and the driver's call.
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

// While this lives, the end of the capture waits: our record of an operation and the driver's call
// are one step.
class CallInProgress {
 public:
  CallInProgress() = default;
  ~CallInProgress() {
    if (capture_) capture_->calls.fetch_sub(1);
  }
  CallInProgress(const CallInProgress&) = delete;
  // Under the capture's lock, before a thread ends it.
  void in(const Ref<Capture>& capture) {
    capture->calls.fetch_add(1);
    capture_ = capture;
  }
  // Null: outside captures.
  Capture* capture() const { return capture_.get(); }

 private:
  Ref<Capture> capture_;
};

// Throws 900, and breaks the capture, when the calling thread has one open: it may only enqueue
// work then.
void forbid_in_capture(const char* family, const char* call);

// Whether it has: what gives memory back to the driver waits until it has not.
bool thread_captures();

// 907 when the event was last recorded inside a capture. Under the mark's lock.
void forbid_captured(const char* family, const char* call, const CaptureMark& mark);

// A stream's part in captures. It outlives the stream object: captures hold it. `hold` is what must
// live as long.
class CaptureMembership : public std::enable_shared_from_this<CaptureMembership> {
 public:
  CaptureMembership(const char* family, Ref<void> hold) : family_(family), hold_(std::move(hold)) {}

  // Taken by every operation of the stream, so that beginning and ending a capture fall between two
  // of them. A driver's call under it may block: a thread that waits for it sleeps.
  struct Lock : std::mutex {
    void lock() { std::mutex::lock(), ++held(); }
    void unlock() { --held(), std::mutex::unlock(); }
  } lock;
  // How many of these locks the calling thread holds: Retired takes them all, and must not while it
  // holds one.
  static int& held() {
    thread_local int count = 0;
    return count;
  }

  // Under lock, each of the following:

  // The capture this stream takes part in now; it may have been ended from elsewhere.
  Ref<Capture> open();
  // Takes work that belongs to a capture; null, and the work is the caller's still, outside of one.
  // Here and below, `in_progress` keeps the capture from ending, and what was taken in its place,
  // for the driver's call.
  const Work* add(Work&& work, const char* call, CallInProgress& in_progress);
  // True: a record inside a capture, which only marks a place in it. `mark.lock` is held.
  bool record(CaptureMark& mark, const char* call, CallInProgress& in_progress);
  // Whether a wait is part of a capture: no; yes, and the stream takes part already, or joins by
  // it; yes, but the event was never recorded, so there is nothing to wait for; it would join, and
  // may not: nothing is changed. `recorded`: it ever was outside captures. `mark.lock` is held.
  enum class Wait : uint8_t { outside, inside, joins, nothing, refused };
  Wait wait(CaptureMark& mark, bool recorded, bool may_join, const char* call,
            CallInProgress& in_progress);
  // Refuses with 900 while capturing, and breaks the capture.
  void forbid(const char* call, const char* why, const char* advice);
  Ref<Capture> begin();

  // Ends the capture that began here, in this thread. `driver_end(capture, unjoined)` runs between
  // the last operation that can belong to it and the verdict, whatever that is, and is told which
  // streams joined and were not joined back; it takes no membership's lock. Without lock.
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
  // The stream is closed: no other can end a capture that began here, and streams that joined it
  // are free again. Without lock.
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
  Ref<Capture> capture_;  // it takes part in this one, or did in one that was given up; see open()
};

}  // namespace hotslot
