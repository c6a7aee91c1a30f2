// Imitates the waits of a GPU's driver, as its documents describe or others measured:
// - A free, an unregistration, and the load of a module or a kernel wait until all work of the
//   context is done. So do the first products of cuBLAS. Meanwhile no other call of the context
//   begins. (A HIP runtime waits, but does not block other calls.)
// - Streams share a few hardware queues, in which work starts in the order of the calls. Work that
//   waits at the head of a queue blocks all work after it.
// - A stream holds about a thousand operations. When it is full, the next call waits until the
//   stream has begun some.
//
// The driver measures how long each call blocks its thread. It complains about a call that blocks
// for a second. On a GPU a test would hang that holds a stream and then makes such a call.
#pragma once
#include <time.h>
#include <unistd.h>

#include <cstring>

#include "cuda_order.hpp"
#include "wait/bell.hpp"

namespace hotslot::software {

// Measures how long a call blocks its thread.
class Kept {
 public:
  explicit Kept(const char* by) : by_(by), begin_(now_ns()) {}
  Kept(const Kept&) = delete;
  ~Kept() {
    Call& call = *thread_state().call;
    auto& longest = gettid() == getpid() ? call.kept_main : call.kept_other;
    const uint64_t now = now_ns() - begin_;
    for (uint64_t seen = longest.load(); seen < now && !longest.compare_exchange_weak(seen, now);) {
    }
  }
  // Sleeps between two checks, without the driver's lock.
  void nap() {
    constexpr uint64_t too_long = 1'000'000'000;
    if (!told_ && now_ns() - begin_ > too_long) {
      told_ = true;
      desk().complaints.say(std::string(thread_state().call->name) + " was kept for a second by " +
                            by_);
    }
    const Unlocked others;
    const timespec time{0, 20'000};
    nanosleep(&time, nullptr);
  }

 private:
  const char* const by_;
  const uint64_t begin_;
  bool told_ = false;
};

template <class Over>
void keep_until(const char* by, Over&& over) {
  if (over()) return;
  for (Kept kept(by); !over();) kept.nap();
}

// Blocks a call while a call of another thread waits for all work of the device. Calls that concern
// only the thread do not block.
inline void await_entry(const Call& call) {
  Device* const device = thread_state().current;
  if (!device || !device->drained_by) return;
  for (const char* free : {"cuCtx", "cuThread", "cuGet", "cuDeviceGet", "cuDriver"})
    if (strncmp(call.name, free, strlen(free)) == 0) return;
  for (const char* query : {"cuEventQuery", "cuStreamQuery"})
    if (driver().card.queries_pass && strcmp(call.name, query) == 0) return;
  keep_until("a call that waits for all work of the context",
             [device] { return !device->drained_by || device->drained_by == thread_state().id; });
}

// Returns whether all work of the stream outside captures is done. A failed stream does no more
// work.
inline bool idle(Stream& stream) {
  try {
    return stream.capturing() ? !stream.before || stream.before->query() : stream.host->query();
  } catch (const Error&) {
    return true;
  }
}

inline bool idle(Device& device) {
  for (auto& weak : device.streams)
    if (const Ref<Stream> stream = weak.lock(); stream && !idle(*stream)) return false;
  return true;
}

// Waits until all work of the device is done.
inline void drain(Device& device) {
#ifdef HOTSLOT_SOFTWARE_HIP
  keep_until("work that is not done", [&] { return idle(device); });
#else
  await_entry(*thread_state().call);
  if (idle(device)) return;
  device.drained_by = thread_state().id;
  keep_until("work that is not done", [&] { return idle(device); });
  device.drained_by = 0;
#endif
}

// Blocks the caller for `us` microseconds, whatever the device does.
inline void pass(uint64_t us, const char* by) {
  if (us == 0) return;
  const uint64_t end = now_ns() + us * 1000;
  keep_until(by, [end] { return now_ns() >= end; });
}

// Sleeps for the time that a driver needs to wake up or to compile.
inline void take_time() {
  const uint64_t ms = driver().slow;
  if (!ms) return;
  const Unlocked others;
  const timespec time{time_t(ms / 1000), long(ms % 1000) * 1'000'000};
  nanosleep(&time, nullptr);
}

// Imitates what a driver loads at its first use, which waits for all work. Complains if a capture
// causes the load.
inline void load(Device& device, const std::string& what) {
  if (!driver().loads_wait) return;
  for (auto& capture : driver().captures)
    if (capture->thread == thread_state().id)
      desk().complaints.say("a capture is the first to need " + what);
  drain(device);
}

// Records an event after all earlier work of the stream, because the stream cannot be queried
// during a capture.
inline void mark_before(Stream& stream) {
  try {
    stream.before = stream.owner.host->create_event(false);
    stream.host->record(stream.before, false);
  } catch (const Error&) {
    stream.before.reset();
  }
}

// Returns the hardware queue of a new stream: the next one in turn of those with the fewest
// streams. It is unknown what a GPU does after streams were destroyed.
inline size_t next_queue(Device& device) {
  std::vector<size_t> streams(driver().connections);
  for (auto& weak : device.streams)
    if (const Ref<Stream> stream = weak.lock()) ++streams[stream->queue];
  size_t best = (device.last_queue + 1) % streams.size();
  for (size_t i = 1; i < streams.size(); ++i) {
    const size_t queue = (device.last_queue + 1 + i) % streams.size();
    if (streams[queue] < streams[best]) best = queue;
  }
  return device.last_queue = best;
}

enum class Engine : uint8_t { compute, copy };

// Gives `count` operations a position in the stream and in its hardware queue. Called just before
// they are enqueued. Does nothing in a capture.
inline void take_place(const Ref<Stream>& stream, Engine engine, uint64_t count = 1) {
  if (stream->capturing()) return;
  // There is one mark for every `every` operations. Operations between two marks count as pending
  // until the later mark is done.
  const uint64_t depth = driver().depth, every = depth / 20 + 1;
  auto& marks = stream->marks;
  keep_until("a launch queue that is full", [&] {
    while (!marks.empty()) {
      try {
        if (!marks.front().second->query()) break;
      } catch (const Error&) {}
      stream->passed = marks.front().first;
      marks.pop_front();
    }
    return marks.empty() || stream->given - stream->passed + count <= depth;
  });
  try {
    Device& device = stream->owner;
    const uint64_t last = stream->given;
    stream->given += count;
    if (last / every != stream->given / every) {
      marks.emplace_back(last, device.host->create_event(false));
      stream->host->record(marks.back().second, false);
    }
    const auto shares = [&](auto& weak) {
      const Ref<Stream> other = weak.lock();
      return other && other->queue == stream->queue;
    };
    const auto sharing = std::count_if(device.streams.begin(), device.streams.end(), shares);
    HardwareQueue& queue = device.queues[size_t(engine)][stream->queue];
    if (sharing < 2) return queue.started.reset();
    if (queue.started && queue.last.lock() != stream) stream->host->wait(queue.started, true);
    queue.started = device.host->create_event(false);
    stream->host->record(queue.started, false);
    queue.last = stream;
  } catch (const Error&) {
    // The stream has failed. The call that enqueues the work returns the error.
  }
}

}  // namespace hotslot::software
