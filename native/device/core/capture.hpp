// The rules of captures for every family: the streams that take part, the dependencies of nodes,
// and all errors with CUDA's numbers. The host device and Level Zero build their graphs from the
// work that is recorded here. The drivers of CUDA and ROCm record the work as well. An invalid call
// throws here before it reaches the driver.
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

// Throws unless a fill stores whole patterns at an address that is a multiple of the pattern's
// size, as devices require. Any other fill destroys the context in CUDA. Every family calls this
// function.
inline void check_fill(const Span& to, size_t pattern) {
  if (pattern != 1 && pattern != 2 && pattern != 4 && pattern != 8)
    throw argument("a fill's pattern has 1, 2, 4 or 8 bytes, got ", pattern);
  if (to.bytes % pattern != 0 || uintptr_t(to.address()) % pattern != 0)
    throw range("a fill of ", to.bytes, " bytes at offset ", to.offset, " by ", pattern,
                ": its memory must begin and end at a multiple of ", pattern, " bytes");
}

// One captured operation. Its spans refer to the memory, so a graph keeps all memory alive that it
// touches.
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

  Launch launch;  // for a kernel
  Span to, from;  // for a copy, and a fill uses only `to`
  uint64_t pattern = 0;
  uint32_t pattern_bytes = 1;
  Ref<Event> event;  // for a record: each replay records the event anew
};

class CaptureMembership;

// Nodes in the order in which they were enqueued (which is topological), and the dependencies of
// each node. Streams of several threads may take part. A capture does not change after `ended`, so
// graphs read the nodes without the lock.
struct Capture {
  const CaptureMembership* origin = nullptr;
  std::thread::id thread;
  // Between `ending` and `ended` one thread ends the capture in the driver, and no member stream
  // may enqueue.
  std::atomic<bool> ending{false}, ended{false};
  // The number of calls in progress (see CallInProgress). A call increments it, then reads
  // `ending`. The thread that ends the capture stores `ending`, then waits until `calls` is zero.
  // All four accesses are sequentially consistent.
  std::atomic<int> calls{0};
  // True permanently after a call broke the capture. Threads may read it without the lock.
  std::atomic<bool> invalid{false};
  SpinLock lock;           // guards the fields below; taken after a membership's and an event's
  std::deque<Work> nodes;  // a deque, so a node's address stays when others are added
  std::vector<std::vector<uint32_t>> needs;
  // The streams that take part, each with the nodes on which its next node depends. Closed streams
  // stay in the map, because their work counts.
  using Members = std::map<Ref<CaptureMembership>, Frontier>;
  Members members;
  // Called in the thread that abandons the capture instead of ending it. The argument is the
  // streams that took part.
  std::function<void(const Members& members)> abandoned;
  void invalidate() { invalid.store(true); }
  // Abandons the capture. It allocates nothing, because destructors call it.
  void abandon();
  // Waits until `calls` is zero, so that the driver has received every operation that is recorded
  // here. The caller has set `ending`.
  void settle() const {
    while (calls.load() > 0) sched_yield();
  }
  // Calls `see` for each memory that a node uses, once per use.
  template <class F>
  void each_memory(F&& see) const {
    for (auto& node : nodes) {
      for (auto* span : {&node.to, &node.from})
        if (span->memory) see(*span->memory);
      for (auto& span : node.launch.spans) see(*span.memory);
    }
  }
  // Returns the host memory that nodes touch. Its owner may revoke it.
  std::vector<Memory*> lent() const;
};

// While an object of this class exists, its capture cannot end. So no capture ends between our
// record of an operation and the driver's call for it.
class CallInProgress {
 public:
  CallInProgress() = default;
  ~CallInProgress() {
    if (capture_) capture_->calls.fetch_sub(1);
  }
  CallInProgress(const CallInProgress&) = delete;
  // Counts the call. The caller holds the capture's lock, and `ending` is not set.
  void in(const Ref<Capture>& capture) {
    capture->calls.fetch_add(1);
    capture_ = capture;
  }
  // Returns the capture, or null if the call is not part of a capture.
  Capture* capture() const { return capture_.get(); }

 private:
  Ref<Capture> capture_;
};

// Throws 900 and breaks the capture if the calling thread has a capture open. Such a thread may
// only enqueue work.
void forbid_in_capture(const char* family, const char* call);

// Returns whether the calling thread has a capture open. A thread with an open capture returns no
// memory to the driver.
bool thread_captures();

// Throws 907 if the event was last recorded inside a capture. The caller holds the mark's lock.
void forbid_captured(const char* family, const char* call, const CaptureMark& mark);

// A stream's membership in captures. It can outlive the stream object, because captures refer to
// it. It keeps `hold` alive.
class CaptureMembership : public std::enable_shared_from_this<CaptureMembership> {
 public:
  CaptureMembership(const char* family, Ref<void> hold) : family_(family), hold_(std::move(hold)) {}

  // Held during every operation of the stream, so a capture begins and ends between two operations.
  // The lock is a mutex that sleeps, because a driver's call may block while the thread holds the
  // lock.
  struct Lock : std::mutex {
    void lock() { std::mutex::lock(), ++held(); }
    void unlock() { --held(), std::mutex::unlock(); }
  } lock;
  // Returns the number of these locks that the calling thread holds. A sweep of Retired locks all
  // memberships, so a thread that holds one of these locks must not sweep.
  static int& held() {
    thread_local int count = 0;
    return count;
  }

  // The caller of the following functions holds `lock`.

  // Returns the capture that this stream takes part in, or null. If another thread is ending that
  // capture, open() waits for the end and returns null.
  Ref<Capture> open();
  // Moves `work` to the stream's capture and returns the node. Returns null and leaves `work`
  // unchanged if the stream is in no capture.
  //
  // The capture does not end, and the node exists, until the caller destroys `in_progress`. The
  // caller makes the driver's call before that.
  const Work* add(Work&& work, const char* call, CallInProgress& in_progress);
  // Marks the event with the current position in the capture. Returns false if the stream is in no
  // capture. The caller also holds `mark.lock`.
  bool record(CaptureMark& mark, const char* call, CallInProgress& in_progress);
  // How a wait relates to captures.
  // - outside: the stream and the event are in no capture.
  // - inside: the wait is part of the stream's own capture.
  // - joins: the stream joins the event's capture by the wait.
  // - nothing: the stream is in a capture. The wait has no effect, because the event was never
  //   recorded.
  // - refused: the stream would have to join the event's capture, and `may_join` is false. The call
  //   has changed no state.
  enum class Wait : uint8_t { outside, inside, joins, nothing, refused };
  // `recorded`: whether the event was recorded outside captures before. The caller also holds
  // `mark.lock`.
  Wait wait(CaptureMark& mark, bool recorded, bool may_join, const char* call,
            CallInProgress& in_progress);
  // Throws 900 and breaks the capture if the stream is in a capture.
  void forbid(const char* call, const char* why, const char* advice);
  Ref<Capture> begin();

  // Ends the capture that this thread began on this stream. Calls `driver_end(capture, unjoined)`
  // after the last operation of the capture, and throws errors only after this call. `unjoined` are
  // the streams that joined the capture and were not joined back.
  //
  // The caller holds no membership's lock, and `driver_end` takes none.
  template <class F>
  void end(F&& driver_end) {
    const Ending ending = take();
    ending.capture->settle();
    driver_end(ending.capture, ending.unjoined);
    ending.capture->abandoned = nullptr;  // graphs keep the capture, and this refers to the stream
    ending.capture->ended = true;
    forget(ending);
    judge(ending);
  }
  // Abandons a capture that began on this stream, because this stream is closed and no other stream
  // can end the capture. Afterward, the streams that joined the capture are in no capture. The
  // caller does not hold `lock`.
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
  Ref<Capture> capture_;  // the current capture, or one that was abandoned (see open())
};

}  // namespace hotslot
