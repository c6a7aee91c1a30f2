// The rules of captures for every family: which streams take part, on which nodes a node depends,
// and which calls are errors. The errors have CUDA's numbers. An invalid call throws here before it
// reaches the driver.
//
// The work of a capture is recorded here. The CPU device and Level Zero build their graphs from
// this record. The drivers of CUDA and ROCm also record the work and build the graph themselves.
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

#include "device/core/guard.hpp"
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
  Span to, from;  // for a copy or a fill, which has no `from`
  uint64_t pattern = 0;
  uint32_t pattern_bytes = 1;
  Ref<Event> event;  // for a record: each replay records the event anew
  Guard guard;       // only on devices that support guards, and never for a record
};

class CaptureMembership;

// The nodes of a capture in the order in which they were enqueued, and the dependencies of each
// node. A node depends only on earlier nodes. Streams of several threads may take part.
//
// A capture does not change after `ended`, so graphs read the nodes without the lock.
struct Capture {
  const CaptureMembership* origin = nullptr;
  std::thread::id thread;
  // While `ending` is true and `ended` is false, one thread ends the capture in the driver. Calls
  // on member streams then wait for `ended` or throw, so no stream adds work.
  std::atomic<bool> ending{false}, ended{false};
  // The number of calls in progress (see CallInProgress). A call reads `ending` and increments
  // `calls` under the lock. The thread that ends the capture sets `ending` under the lock, then
  // waits until `calls` is zero.
  std::atomic<int> calls{0};
  // True permanently after a call broke the capture. Threads may read it without the lock.
  std::atomic<bool> invalid{false};
  // Guards the fields below. A thread that also needs a membership's or an event's lock takes that
  // lock first.
  SpinLock lock;
  std::deque<Work> nodes;  // a deque, so that a node's address never changes
  std::vector<std::vector<uint32_t>> needs;
  // The streams that take part, each with the nodes on which its next node depends. A closed stream
  // stays in the map, so that the capture's end can check whether its work was joined back.
  using Members = std::map<Ref<CaptureMembership>, Frontier>;
  Members members;
  // Ends the capture in the driver if the capture is abandoned. Set by families whose driver
  // captures as well. abandon() calls it and passes the streams that took part.
  std::function<void(const Members& members)> abandoned;
  void invalidate() { invalid.store(true); }
  // Ends the capture without a graph, unless a thread has begun to end it. Member streams are in no
  // capture afterward. abandon() allocates nothing, because destructors call it.
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
      for (auto* span : {&node.to, &node.from, &node.guard.word})
        if (span->memory) see(*span->memory);
      for (auto& span : node.launch.spans) see(*span.memory);
    }
  }
  // Returns each host memory that nodes touch, once. Its lender may revoke it (Device::revoke), and
  // replays of the graph then fail.
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
  // Increments the capture's `calls`, which the destructor decrements. The caller holds the
  // capture's lock, and `ending` is not set.
  void in(const Ref<Capture>& capture) {
    capture->calls.fetch_add(1);
    capture_ = capture;
  }
  // Returns the capture, or null if the call is not part of a capture.
  Capture* capture() const { return capture_.get(); }

 private:
  Ref<Capture> capture_;
};

// Throws capture_unsupported (900) and breaks the capture if the calling thread has a capture open.
// Such a thread may only enqueue work.
void forbid_in_capture(const char* family, const char* call);

// Returns whether the calling thread has a capture open. Such a thread must not free memory of the
// driver.
bool thread_captures();

// Throws captured_event (907) if the event was last recorded inside a capture. The caller holds the
// mark's lock.
void forbid_captured(const char* family, const char* call, const CaptureMark& mark);

// A stream's membership in captures. It can outlive the stream object, because captures refer to
// it. It keeps `hold` alive, which is the family's part of the stream (see Stream).
class CaptureMembership : public std::enable_shared_from_this<CaptureMembership> {
 public:
  CaptureMembership(const char* family, Ref<void> hold) : family_(family), hold_(std::move(hold)) {}

  // Held during every operation of the stream, so that a capture begins and ends between two
  // operations. A thread that waits for the lock sleeps instead of spinning, because the driver may
  // block the thread that holds the lock.
  struct Lock : std::mutex {
    void lock() { std::mutex::lock(), ++held(); }
    void unlock() { --held(), std::mutex::unlock(); }
  } lock;
  // Returns the number of these locks that the calling thread holds. A thread that holds one must
  // not sweep Retired, because the sweep locks all memberships and would deadlock.
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
  // While `in_progress` exists, the capture does not end and the node stays valid. So the caller
  // calls the driver before it destroys `in_progress`.
  const Work* add(Work&& work, const char* call, CallInProgress& in_progress);
  // Stores the stream's current position in the capture in the event's `mark`. Returns false if the
  // stream is in no capture. The caller also holds `mark.lock`.
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
  // `recorded`: whether the event was ever recorded outside captures. `may_join`: whether the
  // stream may join captures of the event's device (Device::joins). The caller also holds
  // `mark.lock`.
  Wait wait(CaptureMark& mark, bool recorded, bool may_join, const char* call,
            CallInProgress& in_progress);
  // Throws capture_unsupported (900) and breaks the capture if the stream is in a capture.
  void forbid(const char* call, const char* why, const char* advice);
  Ref<Capture> begin();

  // Ends the capture that this thread began on this stream. Throws at once unless this thread began
  // a capture on this stream.
  //
  // Otherwise calls `driver_end(capture, unjoined)` after the last operation of the capture.
  // `unjoined` are the streams that joined the capture and were not joined back. If the capture is
  // broken or `unjoined` is not empty, end() throws after this call, so the driver's capture ends
  // too.
  //
  // The caller holds no membership's lock, and `driver_end` takes none.
  template <class F>
  void end(F&& driver_end) {
    const Ending ending = take();
    ending.capture->settle();
    driver_end(ending.capture, ending.unjoined);
    // Graphs keep the capture alive, and this function would keep the stream alive.
    ending.capture->abandoned = nullptr;
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
  Ref<Capture> capture_;  // the current capture, or one that has ended (see open())
};

}  // namespace hotslot
