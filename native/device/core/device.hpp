// The device contract in C++: the same objects and names as src/device/device.ts, in the same
// order. device.cpp and stream.cpp have the parts that all families share, mostly checks. A family
// implements the functions that begin with do_. Code outside a family's folder uses it only through
// this file. The folder host is the readable specification.
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

// An object that a handle can name. References keep it alive, and queued work and graphs hold the
// objects they touch. A family cannot use another's objects, so `family` is compared before any
// cast.
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

// Throws unless the two devices are the same. The error says what to do instead.
void require_device(const Device& device, const Device& of, const char* thing, const char* what,
                    const char* instead);

// How the driver reaches host memory: through its own copy, pinned in place, or imported in place.
enum class HostKind : uint8_t { pageable, registered, imported };

class ReplayOrder;

// Device memory, or host memory lent to the device. Kernels and copies of this family take
// `address`.
class Memory : public Object {
 public:
  Memory(Device& device, uint8_t* address, size_t bytes, bool host,
         HostKind host_kind = HostKind::pageable, bool managed = false);
  Device& device;
  uint8_t* const address;
  const size_t bytes;
  const bool host;
  const HostKind host_kind;
  // Has one address for every device of the family and the CPU. Its pages move, see
  // Stream::prefetch.
  const bool managed;
  // Set for a graph pool's memory, because graphs that touch it run one at a time. Set before
  // another thread has the memory.
  Ref<ReplayOrder> replay_order;
  // The bytes are freed (see Device::revoke). Work that refers to them must not begin, and fails
  // with lender_gone.
  std::atomic<bool> revoked{false};
  // For host memory without references: returns true once the device has finished with it and has
  // released its pages. `at_once`: even if the driver blocks every thread until all running work is
  // done.
  virtual bool release(bool /*at_once*/ = false) { return true; }
  // For registered memory whose release() has begun: returns true if the driver still has it, and
  // keeps it until the next release().
  virtual bool renew() { return false; }
};

// The reason why work that refers to revoked memory fails, and the advice.
constexpr const char* lender_gone = "it touches host memory that a thread lent which has ended";
constexpr const char* keep_the_lender = "close what uses the memory before its thread ends";

// A range of one memory.
struct Span {
  Ref<Memory> memory;
  size_t offset = 0;
  size_t bytes = 0;
  uint8_t* address() const { return memory->address + offset; }
};

// Throws if source and target overlap, because such a copy has no defined order. Every family calls
// it.
inline void refuse_overlap(const Span& to, const Span& from) {
  const auto a = uintptr_t(to.address()), b = uintptr_t(from.address());
  if (a < b + from.bytes && b < a + to.bytes)
    throw range("a copy of ", to.bytes, " bytes from offset ", from.offset, " to offset ",
                to.offset, " of the same memory: the two overlap");
}

// A point in a stream. An event that was never recorded counts as done. If it is recorded several
// times, only the latest record counts.
class Event : public Object {
 public:
  Event(Device& device, bool timing);
  Device& device;
  const bool timing;
  bool query();
  double elapsed_ms(Event& start);

  CaptureMark capture_mark;
  bool recorded = false;  // outside captures, or by a replay; guarded by the mark's lock
  // Notes a record outside captures. Under the mark's lock.
  void recorded_outside() {
    capture_mark.captured = false;
    recorded = true;
  }

 protected:
  // For an event that was recorded. Under the mark's lock.
  virtual bool do_query() = 0;
  // For two events that were recorded. Returns nullopt if one is not done.
  virtual std::optional<double> do_elapsed_ms(Event& start) = 0;
};

// The arguments of a kernel launch: spans for the pointers, then whole numbers, then floats, as the
// kernel declares them.
struct Launch {
  const Kernel* kernel = nullptr;
  std::vector<Span> spans;
  KernelArgs args;
  // Holds the kernel if a program brought it.
  Ref<Object> module;
  // Returns the memory that determines the grid: the bytes touched from pointer 0 on. For a kernel
  // that a program brought they are its whole first span.
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
  // Later replays run `graph`, and replays enqueued before run the graph they were enqueued with.
  // Returns true if it was updated in place, and false if it was made anew.
  bool update(const Ref<Graph>& graph);
  // The orders of the graph pools it touches. The lock guards them and is held from reading them to
  // the replay. See Replays.
  std::mutex replay_lock;
  std::vector<Ref<ReplayOrder>> replay_orders;

 protected:
  virtual bool do_update(const Ref<Graph>& graph) = 0;
};

// Frozen captured work, which holds all memory it touches.
class Graph : public Object {
 public:
  Graph(Device& device, Ref<Capture> capture);
  // The device of the stream that it was captured on.
  Device& device;
  const Ref<Capture> capture;
  size_t node_count() const;
  virtual Ref<Exec> instantiate() = 0;
};

// An ordered queue. Every call returns at once. An error is sticky, and the next record, query or
// launch throws it.
class Stream : public Object {
 public:
  // `hold` is the part of the stream that captures keep alive.
  Stream(Device& device, Ref<void> hold);
  ~Stream() override;
  Device& device;
  // In a capture, `external` makes the record a node that every replay renews. Otherwise it only
  // marks a place in the capture.
  void record(const Ref<Event>& event, bool external);
  // `order_only`: an error on the event's stream stays there, and this stream continues after that
  // work has ended.
  void wait(const Ref<Event>& event, bool order_only = false);
  void copy(const Span& to, const Span& from);
  void fill(const Span& to, const void* pattern, size_t pattern_bytes);
  void launch(Launch&& launch);
  void replay(const Ref<Exec>& exec);
  // Moves the pages of managed memory to a device of the family, or to the CPU (`on_cpu`). It is
  // never part of a capture. The address stays, so a graph that uses it finds the pages wherever
  // they are.
  void prefetch(const Span& span, int device);
  bool query();
  void begin_capture();
  Ref<Graph> end_capture();
  bool capturing();

 protected:
  // Throws for work that cannot run here, or replaces it by work that can. Without lock.
  virtual void do_prepare(Work&, const char*) {}
  virtual void do_prepare_capture() {}

  // Each of the following runs under the membership's lock:

  // Throws the error that made the stream fail.
  virtual void do_check(const char* call) = 0;
  virtual void do_work(Work&& work, const char* call) = 0;
  // These two also run under the mark's lock. do_wait may get an event that was never recorded.
  virtual void do_record(Event& event) = 0;
  virtual void do_wait(Event& event, bool order_only) = 0;
  virtual void do_replay(const Ref<Exec>& exec) = 0;
  virtual void do_prefetch(const Span& span, int device) = 0;
  virtual bool do_query() = 0;
  // Passes recorded work to a driver that captures too. `joins`: the stream was in no capture
  // before.
  virtual void do_captured_work(const Work&, const char*) {}
  virtual void do_captured_record(Event&) {}
  virtual void do_captured_wait(Event&, bool /*joins*/) {}
  virtual void do_begin_capture(Capture&) {}

  // Without the lock, because other threads hold it while they wait for this. See
  // CaptureMembership::end.
  virtual Ref<Graph> do_end_capture(const Ref<Capture>& capture,
                                    const std::vector<Ref<CaptureMembership>>& unjoined) = 0;
  // A capture of this stream was ended, or did not begin. Without lock.
  virtual void do_capture_over() {}

  // For a destructor that has more to do afterward: abandons the stream's capture, after which no
  // capture has the stream.
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
  // A thread has it open, so freed memory is worth keeping.
  std::atomic<bool> in_use{true};
  virtual DeviceTraits traits() = 0;
  virtual MemoryInfo memory_info() = 0;
  virtual Ref<Stream> create_stream(int priority) = 0;
  virtual Ref<Event> create_event(bool timing) = 0;
  Ref<Memory> allocate(size_t bytes);
  // Loads once, before any work has to wait for it, everything that would be loaded at its first
  // use.
  virtual void prepare() {}
  // Loads kernels that a program brings. It may take seconds.
  Ref<KernelModule> load_kernels(const ModuleRequest& request);
  // Allocates memory without clearing it, if possible memory that this device had before. Allowed
  // in a capture.
  virtual Ref<Memory> scratch(size_t bytes) = 0;
  // Allocates zeroed managed memory. Its preferred location and accessed-by are this device.
  Ref<Memory> allocate_managed(size_t bytes);
  // `where` is `on_cpu` or the index of a device that exists. For accessed_by it is a device.
  void advise(const Span& span, Advice advice, int where);
  Residency residency(const Span& span);
  // reaches: whether copies between the two devices are one operation on either's streams. orders:
  // whether those streams can wait for each other's events.
  virtual bool reaches(Device& other) { return other.family == family; }
  virtual bool orders(Device& other) { return other.family == family; }
  // Returns whether this device's streams may take part in captures of the other's.
  virtual bool joins(Device& other) { return orders(other); }
  // Frees the memory that is kept for later.
  virtual void trim() = 0;
  // The counts of the memory that `scratch` uses again.
  virtual CacheCounts kept() = 0;
  // Allocates host memory, pinned if the family pins. It is staging for reads and writes of
  // pageable arrays.
  Ref<Memory> allocate_host(size_t bytes);
  // Throws if the driver cannot pin. Without `pin` the memory is used as it is.
  Ref<Memory> register_host(void* address, size_t bytes, bool pin);
  // Lends the calling thread to the device for about `ns`. Returns true if it did some work. GPUs
  // need no help.
  virtual bool help(uint64_t ns) = 0;
  // Blocks until the event is done or `ns` are over. Returns true if it is done.
  bool wait_event(Event& event, uint64_t ns);
  // Prepares for the end of registered memory. Waits about `ns` for the work that touches it, then
  // lets a running operation end and makes every later one that refers to it fail.
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
  // `span` has at least one byte.
  virtual void do_advise(const Span& span, Advice advice, int where) = 0;
  virtual Residency do_residency(const Span& span) = 0;
  virtual bool do_wait_event(Event& event, uint64_t ns) = 0;
  // `request` has at least one image.
  virtual Ref<KernelModule> do_load_kernels(const ModuleRequest& request) = 0;
  // Returns the compiled source as an image.
  virtual std::string do_compile(const ModuleRequest& request);
};

}  // namespace hotslot
