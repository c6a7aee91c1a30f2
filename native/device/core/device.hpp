// The device contract in C++: the same objects and names as src/device/device.ts, in the same
// order. device.cpp and stream.cpp contain the code that all families share, mostly checks. A
// family implements the functions that begin with do_. Code outside a family's folder uses the
// family only through this file. The folder host is the readable specification.
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

// An object that a handle can name. References keep it alive, and queued work and graphs refer to
// the objects that they touch. One family cannot use another's objects, so code compares `family`
// before it casts.
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

// Throws the error "<thing> of <of> cannot <what> on <device>: <instead>" unless the two devices
// are the same. `instead` is an advice for the user.
void require_device(const Device& device, const Device& of, const char* thing, const char* what,
                    const char* instead);

// How the driver reaches host memory.
// - pageable: the driver copies the bytes to its own memory first.
// - registered: the driver has pinned the pages and uses them in place.
// - imported: the driver has imported the pages and uses them in place.
enum class HostKind : uint8_t { pageable, registered, imported };

class ReplayOrder;

// Device memory, or host memory lent to the device. Kernels and copies on a device of the same
// family (`Object::family`) read and write it at `address`.
class Memory : public Object {
 public:
  Memory(Device& device, uint8_t* address, size_t bytes, bool host,
         HostKind host_kind = HostKind::pageable, bool managed = false);
  Device& device;
  uint8_t* const address;
  const size_t bytes;
  const bool host;
  const HostKind host_kind;
  // Whether the CPU and all devices of the family use the memory at one address. The driver moves
  // its pages between them (see Stream::prefetch).
  const bool managed;
  // The order of replays of the graphs that use this memory. Null unless the memory belongs to a
  // graph pool. It is set before any other thread can use the memory.
  Ref<ReplayOrder> replay_order;
  // True after Device::revoke, which the owner of lent bytes calls before it frees them. Work that
  // refers to the memory and has not begun then fails with lender_gone.
  std::atomic<bool> revoked{false};
  // Releases the pages of host memory to which only the caller refers. Returns true after the
  // driver has released them. Returns false if work still uses them. The caller then calls
  // release() again later.
  //
  // With `at_once`, release() does not wait for an idle device. The driver may then block every
  // thread until all running work is done.
  virtual bool release(bool /*at_once*/ = false) { return true; }
  // Stops a release() that has begun, so that registered memory can be used again. Returns false if
  // the driver has already released the pages.
  virtual bool renew() { return false; }
};

// The error's reason and its advice for work that refers to revoked memory.
constexpr const char* lender_gone = "it touches host memory that a thread lent which has ended";
constexpr const char* keep_the_lender = "close what uses the memory before its thread ends";

// A range of bytes in one Memory.
struct Span {
  Ref<Memory> memory;
  size_t offset = 0;
  size_t bytes = 0;
  uint8_t* address() const { return memory->address + offset; }
};

// Throws if the source and the target overlap, because the result would depend on the order in
// which the device copies the bytes. Every family calls this function.
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
  bool recorded = false;  // recorded outside captures, or by a replay; guarded by the mark's lock
  // Notes that the event was recorded outside captures. The caller holds the mark's lock.
  void recorded_outside() {
    capture_mark.captured = false;
    recorded = true;
  }

 protected:
  // Called only for an event that was recorded. The caller holds the mark's lock.
  virtual bool do_query() = 0;
  // Called only for two events that were recorded. Returns nullopt if either event is not done.
  virtual std::optional<double> do_elapsed_ms(Event& start) = 0;
};

// The arguments of a kernel launch. `spans` has a span for each pointer, and `args` has the whole
// numbers and the floats. All are in the order in which the kernel declares them.
struct Launch {
  const Kernel* kernel = nullptr;
  std::vector<Span> spans;
  KernelArgs args;
  // Keeps the kernel alive if a program brought it.
  Ref<Object> module;
  // Returns the Reach of pointer 0, whose bytes determine the size of the grid. How much a kernel
  // that a program brought touches is unknown. For such a kernel, the bytes are those of the first
  // span.
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
  // Makes later replays run `graph`. Replays that are enqueued already run the old graph. Returns
  // true if the driver's object was updated in place, and false if it was created anew.
  bool update(const Ref<Graph>& graph);
  // The orders of the graph pools whose memory the graph touches (see Replays). `replay_lock`
  // guards them. A thread that replays the graph holds the lock until the replay is enqueued. So no
  // other thread can update the graph meanwhile.
  std::mutex replay_lock;
  std::vector<Ref<ReplayOrder>> replay_orders;

 protected:
  virtual bool do_update(const Ref<Graph>& graph) = 0;
};

// Captured work that no longer changes. The graph keeps all memory alive that it touches.
class Graph : public Object {
 public:
  Graph(Device& device, Ref<Capture> capture);
  // The device on whose stream the work was captured.
  Device& device;
  const Ref<Capture> capture;
  size_t node_count() const;
  virtual Ref<Exec> instantiate() = 0;
};

// An ordered queue of work. Its functions return at once. An error is sticky: every later record,
// query or launch throws it.
class Stream : public Object {
 public:
  // `hold` is the family's object that may outlive the stream, because captures keep it alive.
  Stream(Device& device, Ref<void> hold);
  ~Stream() override;
  Device& device;
  // The precision of the stream's matrix products, which is the device's when the stream is
  // created.
  Products products;
  // With `external`, a record inside a capture is a node, and every replay records the event anew.
  // Without `external`, the record only marks a position in the capture.
  void record(const Ref<Event>& event, bool external);
  // The stream's later work begins after the work before the event has ended. If that work failed,
  // this stream fails too. With `order_only`, this stream does not fail.
  void wait(const Ref<Event>& event, bool order_only = false);
  void copy(const Span& to, const Span& from);
  void fill(const Span& to, const void* pattern, size_t pattern_bytes);
  void launch(Launch&& launch);
  void replay(const Ref<Exec>& exec);
  // Moves the pages of managed memory to a device of the family, or to the CPU (`on_cpu`). Not
  // allowed inside a capture. The address stays the same, so graphs that use the memory stay valid.
  void prefetch(const Span& span, int device);
  bool query();
  void begin_capture();
  Ref<Graph> end_capture();
  // Guards the launches, copies and fills that this thread enqueues on the stream until
  // OwnGuard::close(). Each of them runs only if the int32 `word` is a multiple of `every` when the
  // device reaches it. Meanwhile the thread's other calls of this stream throw. Throws on devices
  // without guards.
  void open_guard(const Span& word, int64_t every);
  bool capturing();

 protected:
  // Throws if the work cannot run on this device, or replaces the work by an equivalent that can.
  // The caller does not hold the lock.
  virtual void do_prepare(Work&, const char*) {}
  virtual void do_prepare_capture() {}

  // The caller of the following functions holds the membership's lock.

  // Throws the error that made the stream fail, if it failed.
  virtual void do_check(const char* call) = 0;
  virtual void do_work(Work&& work, const char* call) = 0;
  // The caller of these two functions also holds the mark's lock. do_wait may receive an event that
  // was never recorded.
  virtual void do_record(Event& event) = 0;
  virtual void do_wait(Event& event, bool order_only) = 0;
  virtual void do_replay(const Ref<Exec>& exec) = 0;
  virtual void do_prefetch(const Span& span, int device) = 0;
  virtual bool do_query() = 0;
  // The following functions pass recorded work to a driver that captures as well. With `joins`, the
  // wait makes the stream join the event's capture.
  virtual void do_captured_work(const Work&, const char*) {}
  virtual void do_captured_record(Event&) {}
  virtual void do_captured_wait(Event&, bool /*joins*/) {}
  virtual void do_begin_capture(Capture&) {}

  // The caller does not hold the lock, because other threads hold it while they wait for the end of
  // the capture. See CaptureMembership::end.
  virtual Ref<Graph> do_end_capture(const Ref<Capture>& capture,
                                    const std::vector<Ref<CaptureMembership>>& unjoined) = 0;
  // Called after a capture of this stream was ended, or failed to begin. The caller does not hold
  // the lock.
  virtual void do_capture_over() {}

  // Abandons the stream's capture. No capture refers to the stream afterward. A derived destructor
  // calls it before it frees other resources.
  void leave_captures();
  const Ref<CaptureMembership>& membership() const { return membership_; }

 private:
  void check(const char* call);
  // Throws if this thread has a guard open for the stream.
  void forbid_guarded(const char* call) const;
  void enqueue(Work&& work, const char* call);
  Ref<CaptureMembership> membership_;
};

struct Bell;
struct ModuleRequest;

class Device : public Object {
 public:
  Device(const char* family, int index) : Object(Kind::device, family), index(index) {}
  const int index;
  // Whether a thread has the device open. If so, the device caches freed memory.
  std::atomic<bool> in_use{true};
  // The precision of matrix products of streams that are created from now on. Core sets it while no
  // thread has the device open.
  std::atomic<Products> products{Products::float32};
  // Returns why the device cannot multiply in TF32, or "" if it can. May load a library.
  virtual std::string why_not_tf32() {
    return "TF32 products need an NVIDIA GPU of compute capability 8.0 or newer, and cuBLAS";
  }
  virtual DeviceTraits traits() = 0;
  virtual MemoryInfo memory_info() = 0;
  virtual Ref<Stream> create_stream(int priority) = 0;
  virtual Ref<Event> create_event(bool timing) = 0;
  Ref<Memory> allocate(size_t bytes);
  // Loads everything that the driver would otherwise load when it is first used. That could delay
  // work later.
  virtual void prepare() {}
  // Loads kernels that a program brought. It may take seconds.
  Ref<KernelModule> load_kernels(const ModuleRequest& request);
  // Allocates memory without clearing it. It prefers memory that this device has used before.
  // Allowed inside a capture.
  virtual Ref<Memory> scratch(size_t bytes) = 0;
  // Allocates zeroed managed memory. Advises the driver to place it on this device
  // (preferred_location) and to map it for this device (accessed_by).
  Ref<Memory> allocate_managed(size_t bytes);
  // `where` is the index of a device that exists. For preferred_location it may also be `on_cpu`.
  void advise(const Span& span, Advice advice, int where);
  Residency residency(const Span& span);
  // Returns whether a copy between the two devices is one operation on a stream of either device.
  virtual bool reaches(Device& other) { return other.family == family; }
  // Returns whether streams of each device can wait for events of the other device.
  virtual bool orders(Device& other) { return other.family == family; }
  // Returns whether this device's streams may take part in captures of the other device.
  virtual bool joins(Device& other) { return orders(other); }
  // Returns whether this device's streams support guards (Stream::open_guard).
  virtual bool guards() const { return false; }
  // Frees the memory that the device has cached.
  virtual void trim() = 0;
  // Returns the counts of the cache that `scratch` uses.
  virtual CacheCounts kept() = 0;
  // Allocates host memory through which the bytes of pageable arrays are copied to and from the
  // device. It is pinned if the family pins memory.
  Ref<Memory> allocate_host(size_t bytes);
  // Registers host memory. With `pin`, throws if the driver cannot pin it. Without `pin`, the
  // device uses the memory unpinned.
  Ref<Memory> register_host(void* address, size_t bytes, bool pin);
  // Runs queued work of the device in the calling thread for about `ns`. Returns true if the thread
  // ran some work. GPUs need no thread for their work, so they return false.
  virtual bool help(uint64_t ns) = 0;
  // Blocks until the event is done or `ns` are over. Returns true if the event is done.
  bool wait_event(Event& event, uint64_t ns);
  // Call before the bytes of registered memory are freed. Sets `revoked`, and waits about `ns` for
  // enqueued work that touches the memory. Work that has not begun by then fails.
  //
  // An operation that is running then may still use the bytes. The CPU device waits until this
  // operation has ended. A GPU's driver keeps the pages pinned until then.
  virtual void revoke(const Ref<Memory>& memory, uint64_t ns) = 0;
  // Until dismiss(), the device rings this bell when another thread enqueues or completes work. The
  // bell's owner must call help() soon after every ring, because the device may rely on this thread
  // to run the work. GPUs ignore the call.
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
  // Compiles the source and returns it as an image.
  virtual std::string do_compile(const ModuleRequest& request);
};

}  // namespace hotslot
