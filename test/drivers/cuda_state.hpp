// The objects that the vendor's handles refer to, each on top of an object of the CPU device. They
// also record what a driver must know: which memory is live, what queued work and graphs refer to,
// and which thread captures.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <set>
#include <thread>
#include <unordered_map>

#include "cuda_card.hpp"
#include "cuda_desk.hpp"
#include "device/cuda/abi.hpp"
#include "device/host/device.hpp"
#include "order.hpp"

namespace hotslot::software {

using cuda::Status;
namespace status = cuda::status;
constexpr Status illegal_state = 401, invalid_ptx = 218, invalid_device_function = 98,
                 peer_access_unsupported = 217, exclusive_process = 46;

// Thrown to return from a call with this status.
struct Refusal {
  Status status;
};
inline void demand(bool holds, Status otherwise) {
  if (!holds) throw Refusal{otherwise};
}

struct Stream;
struct Event;
struct Device;

// A range of memory that the driver allocated or that the program registered.
struct Range {
  enum Kind : uint8_t { device, host, registered };
  Range(Kind range_kind, Device& owner_device, uintptr_t start, size_t length, unsigned range_flags,
        Ref<Memory> backing)
      : kind(range_kind),
        owner(owner_device),
        begin(start),
        bytes(length),
        flags(range_flags),
        memory(std::move(backing)) {}
  const Kind kind;
  Device& owner;
  const uintptr_t begin;
  const size_t bytes;
  const unsigned flags;
  const Ref<Memory> memory;  // null if the memory is registered
  // False after the memory is freed or unregistered. Queued work and graphs may still refer to the
  // range.
  std::atomic<bool> live{true};
  uintptr_t end() const { return begin + bytes; }
  size_t offset(uintptr_t at) const { return at - reinterpret_cast<uintptr_t>(memory->address); }
  bool managed() const { return memory && memory->managed; }
  // Set if a fork separated registered memory from the device. `pages` is then the copy that the
  // device continues to use.
  bool parted = false;
  std::vector<uint8_t> pages;
  uintptr_t seen(uintptr_t at) const {
    return parted ? reinterpret_cast<uintptr_t>(pages.data()) + (at - begin) : at;
  }
  unsigned reached_by = 0;  // devices that advice about this managed memory named, one bit each

  // Counts the streams whose queued work uses the range. A View calls hold() when it is created and
  // release() when it is destroyed, on any thread.
  void hold(const Ref<Stream>& stream) {
    std::lock_guard guard(lock_);
    auto& user = users_[stream.get()];
    user.first++;
    user.second = stream;
  }
  void release(Stream* stream) {
    std::lock_guard guard(lock_);
    auto user = users_.find(stream);
    if (--user->second.first == 0) users_.erase(user);
  }
  std::vector<Ref<Stream>> users() {
    std::lock_guard guard(lock_);
    std::vector<Ref<Stream>> found;
    for (auto& [stream, user] : users_)
      if (auto held = user.second.lock()) found.push_back(std::move(held));
    return found;
  }

 private:
  SpinLock lock_;
  std::map<Stream*, std::pair<int, std::weak_ptr<Stream>>> users_;
};

// The memory that one piece of work uses: a part of a range, or pageable memory. The CPU device
// keeps the view until the work is done.
class View final : public Memory {
 public:
  View(hotslot::Device& device, uintptr_t address, size_t bytes, Ref<Range> range,
       Ref<Stream> stream)
      : Memory(device, reinterpret_cast<uint8_t*>(address), bytes,
               !range || range->kind != Range::device),
        range_(std::move(range)),
        stream_(std::move(stream)) {
    if (range_ && stream_) range_->hold(stream_);
  }
  ~View() override {
    if (range_ && stream_) range_->release(stream_.get());
  }

 private:
  const Ref<Range> range_;
  const Ref<Stream> stream_;  // null for work of a graph
};

// A copy of pageable memory, made when the call was made.
class Snapshot final : public Memory {
 public:
  Snapshot(hotslot::Device& device, const void* from, size_t bytes)
      : Memory(device, new uint8_t[bytes], bytes, true) {
    memcpy(address, from, bytes);
  }
  ~Snapshot() override { delete[] address; }
};

// How a stream failed: a kernel found invalid work, or it got an invalid address.
struct Fault {
  std::atomic<Status> status{status::launch_failed};
  Clock clock;  // for the detector: after everything that the stream was given
};

// A hardware queue, which several streams may share. Its work starts in order.
struct HardwareQueue {
  std::weak_ptr<Stream> last;   // the stream that used the queue last
  Ref<hotslot::Event> started;  // done when the last work has started
};

struct Module {
  Device& owner;
  std::atomic<bool> live{true};
};

struct Function {
  Ref<Module> module;
  std::string name, parameters;
  const Kernel* kernel;
};

// What the driver knows about the contents of a graph.
struct Contents {
  struct Node {
    char type;     // k kernel, m copy, s fill, e event record
    int memories;  // of a copy: the kinds of memory, which an update must not change
    // For the detector: name, touched bytes (or the number under which LateKernels reports them),
    // and the nodes that this node has edges from.
    const char* what = nullptr;
    std::vector<Touch> touches;
    uint64_t late = 0;
    std::vector<uint32_t> after;
    Ref<Event> event;  // of an event record
  };
  std::vector<Node> nodes;
  std::vector<Ref<Range>> ranges;
  std::vector<Ref<Module>> modules;
  bool illegal = false;  // whether a kernel of the graph has an invalid address
};

struct Capture {
  Ref<Stream> origin;
  uint64_t thread;
  cuda::CaptureMode mode;
  bool ended = false;
  Ref<Contents> contents = std::make_shared<Contents>();
};

struct Stream {
  Device& owner;
  Ref<hotslot::Stream> host;
  int priority = 0;
  Ref<Capture> capture;  // the last capture that the stream took part in
  Ref<Fault> fault = std::make_shared<Fault>();
  size_t queue = 0;            // index of the hardware queue
  uint64_t held_by = 0;        // thread whose call blocks the stream for other threads, or 0
  Ref<hotslot::Event> before;  // after all work before the capture
  // Number of operations that the stream was given, and number of those that are known to be done.
  // `marks` has the events that show which are done.
  uint64_t given = 0, passed = 0;
  std::deque<std::pair<uint64_t, Ref<hotslot::Event>>> marks;
  // For the detector: the stream's name and, in a capture, the nodes that its next operation comes
  // after.
  uint64_t number = 0;
  std::vector<uint32_t> last_nodes;
  Clock& clock() { return fault->clock; }
  Capture* capturing() {
    if (capture && capture->ended) capture.reset();
    return capture.get();
  }
};

struct Event {
  Device& owner;
  Ref<hotslot::Event> host;
  bool timing = true, recorded = false, in_graph = false;
  Ref<Capture> capture;  // the capture that it was last recorded in, or null
  Ref<Fault> fault;      // of the stream that recorded it last
  // For the detector: what the last record comes after, outside captures and in a capture.
  Clock clock;
  std::vector<uint32_t> last_nodes;
};

struct Graph {
  Device& owner;
  Ref<hotslot::Graph> host;
  Ref<const Contents> contents;
};

struct Exec {
  Device& owner;
  Ref<hotslot::Exec> host;
  Ref<const Contents> contents;
  Clock clock;  // after its launches
};

// A block of managed memory, and how many of its bytes are allocated.
struct Packing {
  Ref<Memory> memory;
  size_t used = 0;
};

// A device and its primary context. The address of this object is the context's handle.
struct Device {
  int index = 0;
  Ref<hotslot::Device> host;
  int retained = 0;
  unsigned flags = 0;
  uint64_t used = 0;
  Status poisoned = 0;
  std::set<std::string> loaded;  // what its first use has loaded
  size_t last_queue = SIZE_MAX;  // hardware queue of the newest stream
  uint64_t drained_by = 0;       // thread that waits for all work and blocks other calls, or 0
  HardwareQueue queues[2][32];   // for kernels and for copies
  Packing packing;               // the block that managed memory is allocated from
  std::set<Device*> peers;       // devices whose memory its kernels may touch
  std::vector<std::weak_ptr<Stream>> streams;  // includes destroyed streams that still have work
};

// Handles are numbers that are never reused, not even for another kind of object, and that are not
// addresses.
inline uintptr_t new_handle() {
  static std::atomic<uintptr_t> last{0x5eed'0000'0000};
  return last.fetch_add(16) + 16;
}
template <class T, class Handle>
class Registry {
 public:
  Handle add(Ref<T> object) {
    const uintptr_t id = new_handle();
    live_.emplace(id, std::move(object));
    return reinterpret_cast<Handle>(id);
  }
  const Ref<T>& get(Handle handle) const {
    const auto found = live_.find(reinterpret_cast<uintptr_t>(handle));
    demand(found != live_.end(), status::invalid_handle);
    return found->second;
  }
  Ref<T> take(Handle handle) {
    Ref<T> object = get(handle);
    live_.erase(reinterpret_cast<uintptr_t>(handle));
    return object;
  }
  size_t size() const { return live_.size(); }
  template <class F>
  void remove_if(F&& f) {
    for (auto at = live_.begin(); at != live_.end();)
      at = f(*at->second) ? live_.erase(at) : std::next(at);
  }

 private:
  std::unordered_map<uintptr_t, Ref<T>> live_;
};

// Begins and ends all captures of the CPU device in one thread. On the CPU device a capture
// belongs to its thread and bars it from many calls. The software driver itself decides which
// thread may make which call, because the vendor's captures have modes.
class Relay {
 public:
  void run(const std::function<void()>& job) {
    std::exception_ptr thrown;
    std::unique_lock guard(lock_);
    if (!started_) std::thread([this] { main(); }).detach();
    started_ = true;
    job_ = [&] {
      try {
        job();
      } catch (...) {
        thrown = std::current_exception();
      }
    };
    changed_.notify_all();
    changed_.wait(guard, [this] { return !job_; });
    if (thrown) std::rethrow_exception(thrown);
  }

 private:
  void main() {
    std::unique_lock guard(lock_);
    for (;;) {
      changed_.wait(guard, [this] { return bool(job_); });
      job_();
      job_ = nullptr;
      changed_.notify_all();
    }
  }
  std::mutex lock_;
  std::condition_variable changed_;
  std::function<void()> job_;
  bool started_ = false;
};

// A replay that may still be running.
struct Flight {
  Ref<hotslot::Event> done;
  Ref<const Contents> contents;
};

struct Driver {
  std::mutex lock;  // held by every call, except while the call blocks
  bool initialised = false;
  int version = 0, ptx = 0, cc = 0;  // e.g. 13000, 90, 80
  Card card;
  bool refuse_register = false, peer = true;
  bool managed = true,
       concurrent = true;  // whether managed memory exists, and whether the CPU may always use it
  std::string hang;        // the call that never returns
  // Whether calls wait for all work, as on a GPU. See cuda_waits.hpp.
  bool frees_wait = true, loads_wait = true, allocations_wait = false, prefetches_wait = true;
  uint64_t pageable_copies = 0;  // copies from or to memory that is not pinned, outside captures
  uint64_t connections = 8, depth = 1000, slow = 0;
  bool exec_timeout = false;
  bool fills_load = false;  // whether a fill loads a kernel when first used
  std::string exclusive;    // lock file, with which one process at a time has the devices
  // whether a graph's events count as done even before their record runs
  bool late_graph_events = false;
  uint64_t memory = 0;  // bytes per device, or 0 for the machine's memory
  std::string arch;
  std::vector<std::unique_ptr<Device>> devices;
  Registry<Stream, cuda::StreamHandle> streams;
  Registry<Event, cuda::EventHandle> events;
  Registry<Graph, cuda::GraphHandle> graphs;
  Registry<Exec, cuda::GraphExecHandle> execs;
  Registry<Module, cuda::Module> modules;
  Registry<Function, cuda::Function> functions;
  std::map<uintptr_t, Ref<Range>> ranges;  // by begin address, without overlaps
  std::vector<Ref<Capture>> captures;      // open captures
  std::list<Flight> flights;
  Relay relay;
};

inline Driver& driver() {
  static Driver* driver = new Driver;
  return *driver;
}

// State of the calling thread.
struct ThreadState {
  // A number that is never reused. The system reuses its thread ids, and a capture may outlive its
  // thread.
  const uint64_t id = [] {
    static std::atomic<uint64_t> last{0};
    return last.fetch_add(1) + 1;
  }();
  Device* current = nullptr;
  cuda::CaptureMode mode = cuda::capture_global;
  Status last = 0;
  Call* call = nullptr;  // the call that runs
};
inline ThreadState& thread_state() {
  static thread_local ThreadState state;
  return state;
}
// Returns the thread's id, or 0 in a thread that is ending. Another thread may end a capture of
// such a thread. On an H100, a thread counted as another one while the destructors of its pthread
// keys ran.
inline uint64_t calling_thread() {
  static thread_local bool ends = false;
  struct End {
    bool& ends;
    ~End() { ends = true; }
  };
  static thread_local const End end{ends};
  (void)end;
  return ends && driver().card.captures_end_elsewhere ? 0 : thread_state().id;
}

struct Unlocked {
  Unlocked() { driver().lock.unlock(); }
  ~Unlocked() { driver().lock.lock(); }
};

}  // namespace hotslot::software
