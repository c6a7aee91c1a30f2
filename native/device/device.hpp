// The device contract in C++: the same objects and names as src/device/device.ts, in the same order. A family implements
// it; nothing outside the family's own file knows more than this page. host.cpp is its readable specification.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "device/blocks.hpp"
#include "kernels/kernel.hpp"

namespace hotslot {

template <class T>
using Ref = std::shared_ptr<T>;

// Why a call was refused. `code` is the JavaScript error code; `status` is set for a driver's no only.
struct Error : std::runtime_error {
  Error(const char* code, const std::string& text) : std::runtime_error(text), code(code) {}
  Error(const char* family, const char* call, int status, const char* status_name, const std::string& text, const char* advice)
      : std::runtime_error(text), code("ERR_HOTSLOT_DEVICE"), family(family), call(call), status_name(status_name), advice(advice), status(status) {}
  const char* code;
  const char* family = "";
  const char* call = "";
  const char* status_name = "";
  const char* advice = "";
  int status = 0;
};

enum class Kind : uint8_t { device = 1, memory, event, stream, graph, exec, pool };

// Whatever a handle can name. References keep it alive: queued work and graphs hold what they touch.
// What belongs to one family is of no use to another: `family` is compared before anything is cast.
class Object : public std::enable_shared_from_this<Object> {
 public:
  Object(Kind kind, const char* family) : kind(kind), family(family) {}
  virtual ~Object() = default;
  const Kind kind;
  const char* const family;
};

inline void require_family(const char* family, const Object& object, const char* what) {
  if (object.family != family)
    throw Error("ERR_HOTSLOT_ARGUMENT", std::string(what) + " of the " + object.family + " family cannot be used with a " + family + " device");
}

class Device;

// How the driver reaches host memory: through a copy of its own, pinned in place, or imported in place.
enum class HostKind : uint8_t { pageable, registered, imported };

// Where managed pages are or belong: a device of their family by its index, or one of these.
constexpr int on_cpu = -1, nowhere = -2;

class Turns;

// Device memory, or host memory lent to the device. `address` is what kernels and copies of this family take.
class Memory : public Object {
 public:
  Memory(Device& device, uint8_t* address, size_t bytes, bool host, HostKind host_kind = HostKind::pageable, bool managed = false);
  Device& device;
  uint8_t* const address;
  const size_t bytes;
  const bool host;
  const HostKind host_kind;
  // One address for every device of the family and the CPU: pages move, see Stream::prefetch.
  const bool managed;
  // Of a graph pool's memory: graphs that touch it run one at a time. Set before anybody else knows the memory.
  Ref<Turns> turns;
  // The bytes are gone (see Device::revoke): work that refers to them must not begin.
  std::atomic<bool> revoked{false};
  // For host memory that nobody refers to any more: true once the device is done with it and has let go of its pages.
  virtual bool release() { return true; }
};

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
    throw Error("ERR_HOTSLOT_RANGE", "a copy of " + std::to_string(to.bytes) + " bytes from offset " + std::to_string(from.offset) + " to offset " +
                                         std::to_string(to.offset) + " of the same memory: the two overlap");
}

// A point in a stream. Never recorded counts as done; recorded again, only the latest record counts.
class Event : public Object {
 public:
  Event(const char* family, bool timing) : Object(Kind::event, family), timing(timing) {}
  const bool timing;
  virtual bool query() = 0;
  virtual double elapsed_ms(Event& start) = 0;
};

// What a kernel launch carries: spans for the pointers, then whole numbers, then floats, as the kernel declares them.
struct Launch {
  const Kernel* kernel = nullptr;
  std::vector<Span> spans;
  KernelArgs args;
};

class Graph;
struct Capture;

class Exec : public Object {
 public:
  explicit Exec(const char* family) : Object(Kind::exec, family) {}
  // Later replays run `graph`; those enqueued before run what they were enqueued with. True: taken in place, false: made anew.
  virtual bool update(const Ref<Graph>& graph) = 0;
  // Of the graph pools it touches, guarded by the lock, which is held from looking at them to the replay. See Replays.
  std::mutex turns_lock;
  std::vector<Ref<Turns>> turns;
};

// Frozen: what was captured holds whatever it touches.
class Graph : public Object {
 public:
  Graph(const char* family, Ref<Capture> capture) : Object(Kind::graph, family), capture(std::move(capture)) {}
  const Ref<Capture> capture;
  size_t node_count() const;
  virtual Ref<Exec> instantiate() = 0;
};

// An ordered queue. Every call returns at once; an error is sticky and surfaces at the next record, query or launch.
class Stream : public Object {
 public:
  explicit Stream(const char* family) : Object(Kind::stream, family) {}
  // In a capture, `external` makes the record a node that every replay renews; otherwise it only marks a place in the capture.
  virtual void record(const Ref<Event>& event, bool external) = 0;
  void wait(const Ref<Event>& event) { wait(event, false); }
  // `order_only`: an error on the event's stream stays there; this stream goes on once it is over.
  virtual void wait(const Ref<Event>& event, bool order_only) = 0;
  virtual void copy(const Span& to, const Span& from) = 0;
  virtual void fill(const Span& to, const void* pattern, size_t pattern_bytes) = 0;
  virtual void launch(Launch&& launch) = 0;
  virtual void replay(const Ref<Exec>& exec) = 0;
  // Brings the pages of managed memory to a device of the family, or to the CPU (`on_cpu`). Never part of a capture: the
  // address stays, so a graph that uses it finds the pages wherever they are.
  virtual void prefetch(const Span& span, int device) = 0;
  virtual bool query() = 0;
  virtual void begin_capture() = 0;
  virtual Ref<Graph> end_capture() = 0;
  virtual bool capturing() = 0;
};

struct MemoryInfo {
  uint64_t total, free;
};

// What a device is and can do, beyond the contract.
struct DeviceTraits {
  std::string description;         // what it calls itself, with its driver's version
  bool timing_events = true;       // events can measure time
  bool graph_events = true;        // graphs can record events for outsiders
  bool rings = false;              // completions ring the bell that attends
  std::string no_managed;          // why there is no managed memory; empty: there is
  bool moves_pages = true;         // managed pages go to the CPU and to other devices too, and it is known where they are
  const char* submitter = "";      // who moves host rows: 'host_stream', 'cuda_driver', 'hip_runtime', 'level_zero'
  const char* matrix_products = "";  // what gemm runs on
};

// What is known of managed pages: the same for all of a range, else `nowhere`.
struct Residency {
  int location = nowhere;   // where they were brought last; `nowhere` also before that, and where nobody tells
  int preferred = nowhere;  // where they belong
  std::vector<int> accessed_by;  // devices that reach them without moving them
};

enum class Advice : uint8_t { preferred_location, accessed_by };

struct Bell;

class Device : public Object {
 public:
  Device(const char* family, int index) : Object(Kind::device, family), index(index) {}
  const int index;
  // Somebody has it open: memory that comes back is worth keeping.
  std::atomic<bool> in_use{true};
  virtual DeviceTraits traits() = 0;
  virtual MemoryInfo memory_info() = 0;
  virtual Ref<Stream> create_stream(int priority) = 0;
  virtual Ref<Event> create_event(bool timing) = 0;
  virtual Ref<Memory> allocate(size_t bytes) = 0;
  // As allocate, but with whatever was in it: memory that this device had before, if there is some. Allowed in a capture.
  virtual Ref<Memory> scratch(size_t bytes) = 0;
  // Zeroed; preferred location and accessed-by are this device.
  virtual Ref<Memory> allocate_managed(size_t bytes) = 0;
  // `where` is `on_cpu` or the index of a device that exists; for accessed_by a device.
  virtual void advise(const Span& span, Advice advice, int where) = 0;
  virtual Residency residency(const Span& span) = 0;
  // Whether copies between the two are one operation on either's streams, and whether those can wait for each other's events.
  virtual bool reaches(Device& other) { return other.family == family; }
  virtual bool orders(Device& other) { return other.family == family; }
  // Gives back what is kept for later.
  virtual void trim() = 0;
  // Of the memory that `scratch` uses again.
  virtual CacheCounts kept() = 0;
  // Host memory of the core's own, pinned where the family pins: staging for reads and writes of pageable arrays.
  virtual Ref<Memory> allocate_host(size_t bytes) = 0;
  // Throws when the driver refuses to pin; without `pin` the memory is used as it is.
  virtual Ref<Memory> register_host(void* address, size_t bytes, bool pin) = 0;
  // Lends the calling thread to the device for about `ns`; true if it did something. GPUs need no help.
  virtual bool help(uint64_t ns) = 0;
  // Blocks until the event is done or `ns` are over; true when done.
  virtual bool wait_event(Event& event, uint64_t ns) = 0;
  // The bytes of registered memory are about to go: waits about `ns` for the work that touches them; then lets an operation
  // that is running end and makes every later one that refers to them fail.
  virtual void revoke(const Ref<Memory>& memory, uint64_t ns) = 0;
  // Completions ring this bell until it is dismissed. Its owner promises to come and help soon after every ring.
  virtual void attend(Bell* bell) = 0;
  virtual void dismiss(Bell* bell) = 0;
};

inline Memory::Memory(Device& device, uint8_t* address, size_t bytes, bool host, HostKind host_kind, bool managed)
    : Object(Kind::memory, device.family), device(device), address(address), bytes(bytes), host(host), host_kind(host_kind), managed(managed) {}

}  // namespace hotslot
