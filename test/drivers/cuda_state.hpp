// The software driver's objects: what the vendor's handles name, each over an object of the host
// device, and the books that a real driver keeps or should keep: which memory is live, what queued
// work and graphs refer to, who captures.
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

// Leaves a call with this status.
struct Refusal {
  Status status;
};
inline void demand(bool holds, Status otherwise) {
  if (!holds) throw Refusal{otherwise};
}

struct Stream;
struct Event;
struct Device;

// A stretch of memory the driver knows: its own or registered.
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
  const Ref<Memory> memory;  // null: registered
  // Cleared when it is freed or unregistered; queued work and graphs may still hold it.
  std::atomic<bool> live{true};
  uintptr_t end() const { return begin + bytes; }
  size_t offset(uintptr_t at) const { return at - reinterpret_cast<uintptr_t>(memory->address); }
  bool managed() const { return memory && memory->managed; }
  // Of registered memory that a fork took from the device: the pages that the device goes on with.
  bool parted = false;
  std::vector<uint8_t> pages;
  uintptr_t seen(uintptr_t at) const {
    return parted ? reinterpret_cast<uintptr_t>(pages.data()) + (at - begin) : at;
  }
  unsigned reached_by = 0;  // of managed memory: devices that advice named, a bit each

  // The streams whose queues hold work on it. Views count themselves in and out, on whatever thread
  // finishes the work.
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

// A part of a range as one piece of work sees it, or of pageable memory. The host device keeps it
// until that work is done.
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
  const Ref<Stream> stream_;  // null: of a graph
};

// What pageable memory held when it was handed over.
class Snapshot final : public Memory {
 public:
  Snapshot(hotslot::Device& device, const void* from, size_t bytes)
      : Memory(device, new uint8_t[bytes], bytes, true) {
    memcpy(address, from, bytes);
  }
  ~Snapshot() override { delete[] address; }
};

// How a stream failed, once it has: a kernel that found its work wrong, or one that was given a
// wrong address.
struct Fault {
  std::atomic<Status> status{status::launch_failed};
  Clock clock;  // for the detector: behind all that the stream was given
};

// A queue of the hardware, which several streams may share: what is given to it starts in order.
struct HardwareQueue {
  std::weak_ptr<Stream> last;   // who gave it something last
  Ref<hotslot::Event> started;  // that something has begun
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

// What a graph holds, as far as the driver must know.
struct Contents {
  struct Node {
    char type;     // k kernel, m copy, s fill, e event record
    int memories;  // of a copy: which kinds, which an update may not change
    // For the detector: what it is called, its bytes or under which number it will say them, and
    // which nodes it has edges from.
    const char* what = nullptr;
    std::vector<Touch> touches;
    uint64_t late = 0;
    std::vector<uint32_t> after;
    Ref<Event> event;  // of a record
  };
  std::vector<Node> nodes;
  std::vector<Ref<Range>> ranges;
  std::vector<Ref<Module>> modules;
  bool illegal = false;  // a kernel in it has a wrong address
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
  Ref<Capture> capture;  // the last one it took part in
  Ref<Fault> fault = std::make_shared<Fault>();
  size_t queue = 0;            // of the hardware
  uint64_t held_by = 0;        // the thread whose call keeps the whole stream
  Ref<hotslot::Event> before;  // behind what it was given before its capture
  // How much it was given, and marks that tell how much of it is done.
  uint64_t given = 0, passed = 0;
  std::deque<std::pair<uint64_t, Ref<hotslot::Event>>> marks;
  // For the detector: its name, and in a capture which nodes its next work comes after.
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
  Ref<Capture> capture;  // last recorded inside this one
  Ref<Fault> fault;      // of the stream that recorded it last
  // What it was recorded behind: outside captures, and in one.
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
  Clock clock;  // behind its launches
};

// A piece of managed memory, and how much of it was given away.
struct Packing {
  Ref<Memory> memory;
  size_t used = 0;
};

// A device and its primary context in one; their addresses are what the context's handles are.
struct Device {
  int index = 0;
  Ref<hotslot::Device> host;
  int retained = 0;
  unsigned flags = 0;
  uint64_t used = 0;
  Status poisoned = 0;
  std::set<std::string> loaded;  // what was loaded when it was first used
  size_t last_queue = SIZE_MAX;  // that a stream was given
  uint64_t drained_by = 0;       // the thread that waits for all work, and lets no other call in
  HardwareQueue queues[2][32];   // for kernels, for copies
  Packing packing;               // what managed memory comes out of
  std::set<Device*> peers;       // whose memory its kernels may touch
  std::vector<std::weak_ptr<Stream>> streams;  // also destroyed ones that still work
};

// Handles are numbers that are never used twice, for no kind of object, and no address of anything.
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

// The one thread that begins and ends captures on the host device: there, a capture belongs to its
// thread and bars it from much. Which thread may do what here is this driver's own business, for it
// has modes.
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

// A replay that may still run.
struct Flight {
  Ref<hotslot::Event> done;
  Ref<const Contents> contents;
};

struct Driver {
  std::mutex lock;  // every call holds it, except while it blocks
  bool initialised = false;
  int version = 0, ptx = 0, cc = 0;  // 13000, 90, 80
  Card card;
  bool refuse_register = false, peer = true;
  bool managed = true,
       concurrent = true;  // managed memory is there; the CPU may use it at any time
  std::string hang;        // the call that never returns
  // What a card makes wait; see cuda_waits.hpp.
  bool frees_wait = true, loads_wait = true, allocations_wait = false, prefetches_wait = true;
  uint64_t pageable_copies =
      0;  // out of memory that is not pinned, or into it, that were no part of a capture
  uint64_t connections = 8, depth = 1000, slow = 0;
  bool exec_timeout = false;
  bool fills_load =
      false;              // fills are made by kernels, which are loaded when they are first needed
  std::string exclusive;  // a file: one process at a time has the devices
  bool late_graph_events = false;  // a graph's record shows when it is made, and not before
  uint64_t memory = 0;             // per device; 0: the machine's
  std::string arch;
  std::vector<std::unique_ptr<Device>> devices;
  Registry<Stream, cuda::StreamHandle> streams;
  Registry<Event, cuda::EventHandle> events;
  Registry<Graph, cuda::GraphHandle> graphs;
  Registry<Exec, cuda::GraphExecHandle> execs;
  Registry<Module, cuda::Module> modules;
  Registry<Function, cuda::Function> functions;
  std::map<uintptr_t, Ref<Range>> ranges;  // by their begin; none overlaps another
  std::vector<Ref<Capture>> captures;      // open ones
  std::list<Flight> flights;
  Relay relay;
};

inline Driver& driver() {
  static Driver* driver = new Driver;
  return *driver;
}

// The calling thread's part.
struct ThreadState {
  // Never used again, unlike what the system calls a thread: captures outlive theirs.
  const uint64_t id = [] {
    static std::atomic<uint64_t> last{0};
    return last.fetch_add(1) + 1;
  }();
  Device* current = nullptr;
  cuda::CaptureMode mode = cuda::capture_global;
  Status last = 0;
  Call* call = nullptr;  // the one it is in
};
inline ThreadState& thread_state() {
  static thread_local ThreadState state;
  return state;
}
// 0 in a thread that is ending, where another thread may end captures: an H100 took a thread for
// another one when the destructors of its pthread keys ran.
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
