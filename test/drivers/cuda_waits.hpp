// What a card makes its callers wait for, where its documents say so or others measured it:
// - A free, an unregistration, the load of a module or of a kernel, and the first products of
//   cuBLAS wait until all work of the context is done. Meanwhile no other call gets in. (A HIP
//   runtime waits, and lets others in.)
// - Streams share a few hardware queues, in which work starts in the order it was given: what has
//   to wait at the head of one keeps everybody behind it waiting.
// - A stream takes about a thousand pieces of work; then the call waits until it has begun some.
// How long each call kept a thread is noted. One that keeps its caller for a second is complained
// about: on a card, a test that holds a stream and then makes such a call never ends.
#pragma once
#include <time.h>
#include <unistd.h>

#include <cstring>

#include "cuda_order.hpp"
#include "wait/bell.hpp"

namespace hotslot::software {

// While a call keeps its caller.
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
  // Between two looks; without the driver's lock.
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

// At the door: while another thread's call waits for all work, no call on that device gets in.
// Those that only concern the thread do.
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

// Whether everything that the stream was given, outside captures, is done. A failed stream does
// nothing any more.
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

// Until all work of the device is done.
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

// So long, whatever the work does meanwhile.
inline void pass(uint64_t us, const char* by) {
  if (us == 0) return;
  const uint64_t end = now_ns() + us * 1000;
  keep_until(by, [end] { return now_ns() >= end; });
}

// What a driver needs to wake up, or to compile what it is given.
inline void take_time() {
  const uint64_t ms = driver().slow;
  if (!ms) return;
  const Unlocked others;
  const timespec time{time_t(ms / 1000), long(ms % 1000) * 1'000'000};
  nanosleep(&time, nullptr);
}

// Before what a driver loads when it is first needed. A capture is no place for it.
inline void load(Device& device, const std::string& what) {
  if (!driver().loads_wait) return;
  for (auto& capture : driver().captures)
    if (capture->thread == thread_state().id)
      desk().complaints.say("a capture is the first to need " + what);
  drain(device);
}

// Behind what the stream was given so far, for as long as a capture keeps it from being asked.
inline void mark_before(Stream& stream) {
  try {
    stream.before = stream.owner.host->create_event(false);
    stream.host->record(stream.before, false);
  } catch (const Error&) {
    stream.before.reset();
  }
}

// The queue of a new stream: one that has the fewest, in turn. Without streams that go, that is the
// order in which they are made; what a card does when some went is not known.
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

// The place of one piece of work, or of a graph of so many, among what was given before. Made just
// before it is given; outside captures alone.
inline void take_place(const Ref<Stream>& stream, Engine engine, uint64_t count = 1) {
  if (stream->capturing()) return;
  // A mark every so often; what lies between two counts as pending with the later one.
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
    // It has failed: whoever gives it work is told so there.
  }
}

}  // namespace hotslot::software
