// The device contract in C++: the same objects and names as src/device/device.ts, in the same
// order. What every family does alike, its refusals above all, is in device.cpp and stream.cpp
// beside this; a family adds what begins with do_. Nothing outside a family's own folder knows more
// of it than this page. The folder host is the readable specification.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "device/core/block_cache.hpp"
#include "device/core/capture_mark.hpp"
#include "device/core/error.hpp"
#include "device/core/facts.hpp"
#include "kernels/kernel.hpp"

namespace hotslot {

template <class T>
using Ref = std::shared_ptr<T>;

enum class Kind : uint8_t { device = 1, memory, event, stream, graph, exec, pool, kernels };

// Whatever a handle can name. References keep it alive: queued work and graphs hold what they
// touch. What belongs to one family is of no use to another: `family` is compared before anything
// is cast.
class Object : public std::enable_shared_from_this<Object> {
 public:
  Object(Kind kind, const char* family) : kind(kind), family(family) {}
  virtual ~Object() = default;
  const Kind kind;
  const char* const family;
};

inline void require_family(const char* family, const Object& object, const char* what) {
  if (object.family != family)
    throw argument(what, " of the ", object.family, " family cannot be used with a ", family,
                   " device");
}

class Device;

// Refuses what a thing can do on its own device alone, and says what to do instead.
void require_device(const Device& device, const Device& of, const char* thing, const char* what,
                    const char* instead);

// How the driver reaches host memory: through a copy of its own, pinned in place, or imported in
// place.
enum class HostKind : uint8_t { pageable, registered, imported };

class ReplayOrder;

// Device memory, or host memory lent to the device. `address` is what kernels and copies of this
// family take.
class Memory : public Object {
 public:
  Memory(Device& device, uint8_t* address, size_t bytes, bool host,
         HostKind host_kind = HostKind::pageable, bool managed = false);
  Device& device;
  uint8_t* const address;
  const size_t bytes;
  const bool host;
  const HostKind host_kind;
  // One address for every device of the family and the CPU: pages move, see Stream::prefetch.
  const bool managed;
  // Of a graph pool's memory: graphs that touch it run one at a time. Set before another thread
  // knows the memory.
  Ref<ReplayOrder> replay_order;
  // The bytes are gone (see Device::revoke): work that refers to them must not begin, and fails
  // with lender_gone.
  std::atomic<bool> revoked{false};
  // For host memory without references: true once the device is done with it and has let go of its
  // pages. `at_once`: even if the driver lets nobody do anything until all that runs is done.
  virtual bool release(bool /*at_once*/ = false) { return true; }
  // For registered memory whose release() has begun: true when the driver still has it, which stays
  // so until the next release().
  virtual bool renew() { return false; }
};

// Why work fails that refers to revoked memory, and what helps.
constexpr const char* lender_gone = "it touches host memory that a thread lent which has ended";
constexpr const char* keep_the_lender = "close what uses the memory before its thread ends";

// A range of one memory.
struct Span {
  Ref<Memory> memory;
  size_t offset = 0;
  size_t bytes = 0;
  uint8_t* address() const { return memory->address + offset; }
};

// For every family's copy: bytes that are source and target at once have no defined order.
inline void refuse_overlap(const Span& to, const Span& from) {
  const auto a = uintptr_t(to.address()), b = uintptr_t(from.address());
  if (a < b + from.bytes && b < a + to.bytes)
    throw range("a copy of ", to.bytes, " bytes from offset ", from.offset, " to offset ",
                to.offset, " of the same memory: the two overlap");
}

// A point in a stream. Never recorded counts as done; recorded again, only the latest record
// counts.
class Event : public Object {
 public:
  Event(Device& device, bool timing);
  Device& device;
  const bool timing;
  bool query();
  double elapsed_ms(Event& start);

  CaptureMark capture_mark;
  bool recorded = false;  // outside captures, or by a replay; guarded by the mark's lock
  // It was just now. Under the mark's lock.
  void recorded_outside() {
    capture_mark.captured = false;
    recorded = true;
  }

 protected:
  // Of one that was recorded. Under the mark's lock.
  virtual bool do_query() = 0;
  // Of two that were recorded; nothing when one is not done.
  virtual std::optional<double> do_elapsed_ms(Event& start) = 0;
};

// What a kernel launch carries: spans for the pointers, then whole numbers, then floats, as the
// kernel declares them.
struct Launch {
  const Kernel* kernel = nullptr;
  std::vector<Span> spans;
  KernelArgs args;
  // Holds the kernel, where a program brought it.
  Ref<Object> module;
  // What the grid is made for: what is touched behind pointer 0; of a kernel that a program
  // brought, all that it was given.
  Reach output() const {
    Reach reach[max_pointers];
    kernel->need(args, reach);
    if (module && !spans.empty()) reach[0].bytes = spans[0].bytes;
    return reach[0];
  }
};

class CaptureMembership;
class Graph;
struct Work;

class Exec : public Object {
 public:
  explicit Exec(Device& device);
  Device& device;
  // Later replays run `graph`; those enqueued before run what they were enqueued with. True: taken
  // in place, false: made anew.
  bool update(const Ref<Graph>& graph);
  // Of the graph pools it touches, guarded by the lock, which is held from looking at them to the
  // replay. See Replays.
  std::mutex replay_lock;
  std::vector<Ref<ReplayOrder>> replay_orders;

 protected:
  virtual bool do_update(const Ref<Graph>& graph) = 0;
};

// Frozen: what was captured holds whatever it touches.
class Graph : public Object {
 public:
  Graph(Device& device, Ref<Capture> capture);
  // Of the stream that it was captured on.
  Device& device;
  const Ref<Capture> capture;
  size_t node_count() const;
  virtual Ref<Exec> instantiate() = 0;
};

// An ordered queue. Every call returns at once; an error is sticky and surfaces at the next record,
// query or launch.
class Stream : public Object {
 public:
  // `hold` is what captures keep alive of the stream.
  Stream(Device& device, Ref<void> hold);
  ~Stream() override;
  Device& device;
  // In a capture, `external` makes the record a node that every replay renews; otherwise it only
  // marks a place in the capture.
  void record(const Ref<Event>& event, bool external);
  // `order_only`: an error on the event's stream stays there; this stream goes on once it is over.
  void wait(const Ref<Event>& event, bool order_only = false);
  void copy(const Span& to, const Span& from);
  void fill(const Span& to, const void* pattern, size_t pattern_bytes);
  void launch(Launch&& launch);
  void replay(const Ref<Exec>& exec);
  // Brings the pages of managed memory to a device of the family, or to the CPU (`on_cpu`). Never
  // part of a capture: the address stays, so a graph that uses it finds the pages wherever they
  // are.
  void prefetch(const Span& span, int device);
  bool query();
  void begin_capture();
  Ref<Graph> end_capture();
  bool capturing();

 protected:
  // Refuses what cannot run here, or replaces it by work that can. Without lock.
  virtual void do_prepare(Work&, const char*) {}
  virtual void do_prepare_capture() {}

  // Under the membership's lock, each of the following:

  // Throws what made the stream fail.
  virtual void do_check(const char* call) = 0;
  virtual void do_work(Work&& work, const char* call) = 0;
  // These two under the mark's lock too. An event that was never recorded may be waited for.
  virtual void do_record(Event& event) = 0;
  virtual void do_wait(Event& event, bool order_only) = 0;
  virtual void do_replay(const Ref<Exec>& exec) = 0;
  virtual void do_prefetch(const Span& span, int device) = 0;
  virtual bool do_query() = 0;
  // What a capture has recorded goes to a driver that captures too. `joins`: the stream was in no
  // capture before.
  virtual void do_captured_work(const Work&, const char*) {}
  virtual void do_captured_record(Event&) {}
  virtual void do_captured_wait(Event&, bool /*joins*/) {}
  virtual void do_begin_capture(Capture&) {}

  // Without the lock, which others hold while they wait for this: see CaptureMembership::end.
  virtual Ref<Graph> do_end_capture(const Ref<Capture>& capture,
                                    const std::vector<Ref<CaptureMembership>>& unjoined) = 0;
  // A capture of this stream was ended, or did not begin. Without lock.
  virtual void do_capture_over() {}

  // For a destructor that has more to do behind this: what is captured is given up, and no capture
  // knows the stream.
  void leave_captures();
  const Ref<CaptureMembership>& membership() const { return membership_; }

 private:
  void check(const char* call);
  void enqueue(Work&& work, const char* call);
  Ref<CaptureMembership> membership_;
};

struct Bell;
struct ModuleRequest;

class Device : public Object {
 public:
  Device(const char* family, int index) : Object(Kind::device, family), index(index) {}
  const int index;
  // A thread has it open: memory that comes back is worth keeping.
  std::atomic<bool> in_use{true};
  virtual DeviceTraits traits() = 0;
  virtual MemoryInfo memory_info() = 0;
  virtual Ref<Stream> create_stream(int priority) = 0;
  virtual Ref<Event> create_event(bool timing) = 0;
  Ref<Memory> allocate(size_t bytes);
  // Loads what is loaded when it is first used, while there is no work that would have to wait for
  // it. Once.
  virtual void prepare() {}
  // Kernels that a program brings; it may take seconds.
  Ref<KernelModule> load_kernels(const ModuleRequest& request);
  // As allocate, but with whatever was in it: memory that this device had before, if there is some.
  // Allowed in a capture.
  virtual Ref<Memory> scratch(size_t bytes) = 0;
  // Zeroed; preferred location and accessed-by are this device.
  Ref<Memory> allocate_managed(size_t bytes);
  // `where` is `on_cpu` or the index of a device that exists; for accessed_by a device.
  void advise(const Span& span, Advice advice, int where);
  Residency residency(const Span& span);
  // Whether copies between the two are one operation on either's streams, and whether those can
  // wait for each other's events.
  virtual bool reaches(Device& other) { return other.family == family; }
  virtual bool orders(Device& other) { return other.family == family; }
  // Whether this device's streams may take part in captures of the other's.
  virtual bool joins(Device& other) { return orders(other); }
  // Gives back what is kept for later.
  virtual void trim() = 0;
  // Of the memory that `scratch` uses again.
  virtual CacheCounts kept() = 0;
  // Host memory of the core's own, pinned where the family pins: staging for reads and writes of
  // pageable arrays.
  Ref<Memory> allocate_host(size_t bytes);
  // Throws when the driver refuses to pin; without `pin` the memory is used as it is.
  Ref<Memory> register_host(void* address, size_t bytes, bool pin);
  // Lends the calling thread to the device for about `ns`; true if it did something. GPUs need no
  // help.
  virtual bool help(uint64_t ns) = 0;
  // Blocks until the event is done or `ns` are over; true when done.
  bool wait_event(Event& event, uint64_t ns);
  // The bytes of registered memory are about to go: waits about `ns` for the work that touches
  // them; then lets an operation that is running end and makes every later one that refers to them
  // fail.
  virtual void revoke(const Ref<Memory>& memory, uint64_t ns) = 0;
  // Completions ring this bell until it is dismissed. Its owner promises to come and help soon
  // after every ring.
  virtual void attend(Bell* bell) = 0;
  virtual void dismiss(Bell* bell) = 0;

 protected:
  virtual Ref<Memory> do_allocate(size_t bytes) = 0;
  virtual Ref<Memory> do_allocate_managed(size_t bytes) = 0;
  virtual Ref<Memory> do_allocate_host(size_t bytes) = 0;
  virtual Ref<Memory> do_register_host(void* address, size_t bytes, bool pin) = 0;
  // Of at least one byte.
  virtual void do_advise(const Span& span, Advice advice, int where) = 0;
  virtual Residency do_residency(const Span& span) = 0;
  virtual bool do_wait_event(Event& event, uint64_t ns) = 0;
  // There is an image at least.
  virtual Ref<KernelModule> do_load_kernels(const ModuleRequest& request) = 0;
  // The source as an image.
  virtual std::string do_compile(const ModuleRequest& request);
};

}  // namespace hotslot
