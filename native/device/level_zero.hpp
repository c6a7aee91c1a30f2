// Level Zero's parts. A stream is one immediate command list per engine it uses; every append signals an event of its own (a
// point), which is what later work, records, memory to be freed and the host wait for. Where the driver keeps no order
// within a list, each append waits for the point before it; where it does, points cost next to nothing.
#pragma once
#include <deque>
#include <map>
#include <mutex>
#include <set>

#include "device/blocks.hpp"
#include "device/capture.hpp"
#include "device/family.hpp"
#include "device/gpu.hpp"
#include "device/level_zero_abi.hpp"
#include "device/library.hpp"

namespace hotslot::level_zero {

inline constexpr char family_name[] = "xpu";

// The loader's calls; good once the family was found.
const Table& ze();
[[noreturn]] void fail(const char* call, Status status, const std::string& detail = "");
inline void must(const char* call, Status status) {
  if (status != status::success) fail(call, status);
}
// Every driver call that may say no goes through here, or through the same with a `driver.newer` entry.
#define HOTSLOT_ZE(entry, ...) ::hotslot::level_zero::must(#entry, ::hotslot::level_zero::ze().entry(__VA_ARGS__))
#define HOTSLOT_ZE_NEWER(driver, entry, ...) ::hotslot::level_zero::must(#entry, (driver).newer.entry(__VA_ARGS__))

// The device is gone for this process, and with it whatever ran there.
bool lost(Status status);
// The driver or the device has no such thing: do without.
bool unsupported(Status status);
// Gives something back to the driver. Nobody is there to hear a no: what the driver does not take it gets once more at once,
// and should it not take that either, the sentence is kept. False: it still has it. A lost device has nothing to give back to.
void not_taken(const char* call, Status status);
inline bool taken(Status status) { return status == status::success || status == status::uninitialized || lost(status); }
template <class F, class... A>
bool give_back(const char* call, F function, A... arguments) {
  if (taken(function(arguments...))) return true;
  const Status got = function(arguments...);
  if (!taken(got)) not_taken(call, got);
  return taken(got);
}

struct Driver;
class XpuDevice;

// ---- events ----------------------------------------------------------------------------------------------------------

// A driver's event, lent by Points. Counter-based ones may be signalled again at any time; pooled ones are one-shot, and are
// lent again only when nobody can wait for them any more: who waits on the device holds the point until it has passed.
struct Slot {
  EventHandle event = nullptr;
  bool timed = false, counter = false;
  PoolHandle pool = nullptr;
  uint32_t index = 0;
};

// One signal of an event, in a list. As a mark it is passed when it is done, or when its stream failed.
class Point final : public Mark {
 public:
  enum State : uint8_t { unarmed, pending, done, failed };
  Point(Driver& driver, Slot slot) : driver_(driver), slot_(slot) {}
  ~Point() override;
  EventHandle event() const { return slot_.event; }
  // The append that signals it was taken by the driver.
  void arm() { state_.store(pending); }
  State state() const { return state_.load(); }
  // Asks the driver while it is pending. `odd` gets the status of an answer that says neither yes nor no.
  State look(Status* odd = nullptr);
  bool passed() override { return look() != pending; }
  Status why() const { return why_.load(); }
  // The device's clock when it was signalled.
  uint64_t stamp() const;
  // The event inside a graph that this one was signalled behind: it has the time.
  std::shared_ptr<class Gate> inner;

 private:
  Driver& driver_;
  Slot slot_;
  std::atomic<State> state_{unarmed};
  std::atomic<Status> why_{status::success};
};

// An event built into a command list: signalled by each run, reset before the next. Free when its list is gone.
class Gate {
 public:
  Gate(Driver& driver, bool timed);
  ~Gate();
  Gate(const Gate&) = delete;
  EventHandle event() const { return slot_.event; }

 private:
  Driver& driver_;
  Slot slot_;
};

// Every event of a driver, used again and again.
class Points {
 public:
  explicit Points(Driver& driver) : driver_(driver) {}
  // `counter`: for in-order immediate lists of a device that has them.
  Ref<Point> point(XpuDevice& device, bool timed, bool counter);
  Slot slot(XpuDevice* device, bool timed, bool counter);
  // How an event comes back: as it was lent; or nothing will signal it any more; or its signal is still on the way.
  enum Left { clean, signalled, unsure };
  // Never throws.
  void give(Slot slot, Left left);
  // Gives back to the driver what nobody uses.
  void trim();

 private:
  static constexpr uint32_t pool_events = 64;
  struct Pool {
    PoolHandle handle;
    uint64_t taken;  // a bit per event
  };
  struct Kind {
    std::vector<Slot> free;
    std::vector<std::pair<Slot, Left>> rest;  // looked at again when nothing is free
    std::vector<Pool> pools;
  };
  Slot fresh(bool timed);
  void settle(Kind& kind);
  Driver& driver_;
  std::mutex lock_;
  Kind kinds_[2][2];  // timed, counter
};

// ---- streams ---------------------------------------------------------------------------------------------------------

struct Instance;

// What a stream is to the driver. It outlives the stream object while a capture holds it, and its own last work.
class Queue {
 public:
  static Ref<Queue> open(XpuDevice& device, int priority);
  ~Queue();
  XpuDevice& device;

  // Throws what made the stream fail, however long ago.
  void check();
  void issue(const Work& work, const char* call);
  // To this device, which is all there is.
  void prefetch(const Span& span);
  void advise(const void* at, size_t bytes, MemoryAdvice advice, DeviceHandle about);
  // What comes after waits for it too.
  void wait(const Ref<Point>& point, bool order_only);
  // Behind everything so far; null when there never was anything. `timed`: with the device's clock.
  Ref<Point> record(bool timed);
  // Everything is done; throws when the stream failed.
  bool idle();
  // One run of a graph after `earlier`. `over` becomes the point behind it, `relays` gets one per event that it records; both
  // say what is under way when this throws.
  void run(Instance& instance, const std::vector<Memory*>& lent, const std::vector<Ref<Point>>& earlier, Ref<Point>& over, std::vector<Ref<Point>>& relays);
  void marks(Marks& marks);
  // Forgets what is over.
  void tidy();
  // The driver let go of everything. False: work is still on its way, or the driver says so.
  bool destroyed();
  bool failed();

 private:
  enum Engine { compute, copies, relay, engines };
  struct Flight {
    Ref<Point> point;
    std::vector<Ref<Point>> waits;
  };
  Queue(XpuDevice& device, int priority);
  ListHandle list(Engine engine);
  Engine engine_of(const Work& work) const;
  std::vector<Ref<Point>> ahead(Engine engine);
  template <class F>
  Ref<Point> append(Engine engine, bool timed, std::vector<Ref<Point>> waits, EventHandle inner, F&& call);
  Ref<Point> barrier(Engine engine, bool timed, std::vector<Ref<Point>> waits, EventHandle inner = nullptr);
  template <class F>
  void eventless(F&& call);
  Ref<Point> renew(Instance& instance);
  void run_beside(Instance& instance, Ref<Point>& over);
  void sweep(std::deque<Flight>& flights, size_t most);
  void check_locked();
  void note(Status status);
  template <class H>
  bool destroy(const char* call, Status (*function)(H), H& handle);

  const int priority_;
  const bool moves_;  // copies and fills run on an engine of their own; see engine_of
  std::mutex lock_;   // guards what follows; only Points' and kernels' locks are taken under it
  ListHandle lists_[engines]{};
  QueueHandle queue_ = nullptr;  // for closed lists where they cannot be appended
  Engine last_;
  Ref<Point> tail_, relay_tail_;       // behind everything given to the stream; to its relay
  struct Ahead {
    Ref<Point> point;
    bool order_only;  // its failure is nothing to this stream
  };
  std::vector<Ahead> pending_;         // the next append waits for these too
  std::deque<Flight> flights_, relays_;  // in order; what is passed is dropped from the front
  Status failed_ = status::success;    // sticky
  bool told_ = false;                  // that something could not be given back
};

class XpuEvent final : public Event {
 public:
  XpuEvent(XpuDevice& device, bool timing) : Event(family_name, timing), device(device) {}
  bool query() override;
  double elapsed_ms(Event& start) override;
  XpuDevice& device;

 private:
  friend class XpuStream;
  Ref<Point> latest(const char* call, bool* recorded);
  CaptureMark mark_;
  bool recorded_ = false;  // outside captures, or by a replay; guarded, like latest_, by the mark's lock
  Ref<Point> latest_;      // null: nothing to wait for
};

class XpuStream final : public Stream {
 public:
  XpuStream(XpuDevice& device, int priority)
      : Stream(family_name), device_(device), queue_(Queue::open(device, priority)), lane_(std::make_shared<Lane>(family_name, queue_)) {}
  ~XpuStream() override { lane_->abandon(); }
  void record(const Ref<Event>& event, bool external) override;
  void wait(const Ref<Event>& event, bool order_only) override;
  void copy(const Span& to, const Span& from) override;
  void fill(const Span& to, const void* pattern, size_t pattern_bytes) override;
  void launch(Launch&& launch) override;
  void replay(const Ref<Exec>& exec) override;
  void prefetch(const Span& span, int device) override;
  bool query() override;
  void begin_capture() override;
  Ref<Graph> end_capture() override;
  bool capturing() override;

 private:
  void enqueue(Work&& work, const char* call);
  XpuDevice& device_;
  const Ref<Queue> queue_;
  const Ref<Lane> lane_;
};

// ---- graphs ----------------------------------------------------------------------------------------------------------

// A capture as the driver runs it: a recorded graph, or a closed list with the events that its runs signal.
struct Instance {
  explicit Instance(XpuDevice& device) : device(device) {}
  ~Instance();
  Instance(const Instance&) = delete;
  XpuDevice& device;
  ListHandle list = nullptr;
  GraphHandle graph = nullptr;
  ExecutableHandle executable = nullptr;
  std::unique_ptr<Gate> go, end;               // of a list that runs on a queue beside the stream
  std::vector<std::shared_ptr<Gate>> records;  // in the order of its program's events
  std::vector<Ref<Point>> relays;              // of its latest run: passed before the events are reset
  std::weak_ptr<Queue> queue;                  // a list stays with the queue it first ran on
  bool assigned = false, broken = false;
};

// An instantiated graph. Never changed but for its instances, which are guarded by the exec's lock.
struct Program {
  Program(XpuDevice& device, Ref<Capture> capture);
  XpuDevice& device;
  const Ref<Capture> capture;  // holds what the nodes touch
  const std::vector<Memory*> lent;
  std::vector<Ref<Event>> events;  // recorded by every replay
  std::vector<Ref<Instance>> instances;
  Ref<Instance> instance_for(const Ref<Queue>& queue);

 private:
  Ref<Instance> build() const;
  void fill_list(Instance& instance) const;
  bool record_graph(Instance& instance) const;
};

class XpuGraph final : public Graph {
 public:
  XpuGraph(XpuDevice& device, Ref<Capture> capture) : Graph(family_name, std::move(capture)), device(device) {}
  Ref<Exec> instantiate() override;
  XpuDevice& device;
};

class XpuExec final : public Exec {
 public:
  explicit XpuExec(Ref<Program> program) : Exec(family_name), program_(std::move(program)) {}
  ~XpuExec() override;
  bool update(const Ref<Graph>& graph) override;
  // Enqueues a run; the events it records and the points they then have.
  std::vector<std::pair<Ref<Event>, Ref<Point>>> run(const Ref<Queue>& queue);

 private:
  std::mutex lock_;
  Ref<Program> program_;
  Ref<Point> last_;  // behind the latest run: one at a time, whatever streams they are on
};

// ---- driver and device -----------------------------------------------------------------------------------------------

// One of the loader's drivers with its context; lives as long as the process.
struct Driver {
  DriverHandle handle = nullptr, own = nullptr;  // the loader's and the driver's, often the same
  uint32_t version = 0, build = 0;  // of the interface; of the driver
  Newer newer;
  bool imports_pages = false, imports_any = false;  // the standard's way and Intel's
  bool graphs = false, lists_append = false;
  Points points{*this};
  Retired retired{[this] { return marks(); }};

  ContextHandle context();
  void resolve(const Library& library, bool alone);
  // A mark behind everything that streams of this driver have been given so far. Costs nothing: every stream has one.
  Marks marks();
  void arrive(const Ref<Queue>& queue);
  void depart(std::unique_ptr<Queue> queue);
  // Frees what can be freed, and what is only kept for the next use.
  void tidy();
  // What the driver would not take back is offered again whenever it is tidied here. `offer`: it took it.
  void keep(std::function<bool()> offer);
  template <class F, class... A>
  void take_back(const char* call, F function, A... arguments) {
    if (!give_back(call, function, arguments...)) keep([=] { return taken(function(arguments...)); });
  }

  // Imports in force, by address: a second registration inside one shares it.
  struct Import {
    size_t bytes;
    int users;
    bool pages;
  };
  HostKind import(uint8_t* address, size_t bytes);
  void release_import(uint8_t* address);
  bool imported_pages(const uint8_t* address);

  // Host memory of the driver's, in powers of two, used again and again.
  uint8_t* take_staging(size_t room);
  void give_staging(uint8_t* at, size_t room);

 private:
  void sweep_departed();
  std::mutex context_lock_;
  std::atomic<ContextHandle> context_{nullptr};
  std::mutex lock_;  // guards what follows; those queues' own locks are taken under it
  // All there are, by address: a reference would be gone some time before its queue is among the departed.
  std::vector<Queue*> queues_;
  std::vector<std::unique_ptr<Queue>> departed_;  // their streams are gone, their last work is not
  std::vector<std::function<bool()>> kept_;
  std::mutex memory_lock_;
  std::map<uint8_t*, Import> imports_;
  std::multimap<size_t, uint8_t*> staging_;
  size_t staging_bytes_ = 0;
};

class XpuDevice final : public GpuDevice {
 public:
  XpuDevice(Driver& driver, DeviceHandle handle, int index);
  DeviceTraits traits() override;
  MemoryInfo memory_info() override;
  Ref<Stream> create_stream(int priority) override { return std::make_shared<XpuStream>(*this, priority); }
  Ref<Event> create_event(bool timing) override { return std::make_shared<XpuEvent>(*this, timing); }
  Ref<Memory> allocate(size_t bytes) override;
  Ref<Memory> scratch(size_t bytes) override;
  Ref<Memory> allocate_managed(size_t bytes) override;
  void advise(const Span& span, Advice advice, int where) override;
  // Nobody tells.
  Residency residency(const Span&) override { return {}; }
  bool reaches(Device& other) override;
  bool orders(Device& other) override;
  void trim() override;
  CacheCounts kept() override { return blocks.counts(); }
  Ref<Memory> allocate_host(size_t bytes) override;
  Ref<Memory> register_host(void* address, size_t bytes, bool pin) override;

  Driver& driver;
  const DeviceHandle handle;
  DeviceProperties properties{};
  // What lists keep their order, whether in-order lists signal counters, events have the device's clock, graphs are the driver's.
  bool in_order = false, counters = false, timing = false, graphs = false;
  bool kernels_reach(const Memory& memory) const;
  bool reaches_pageable = false;  // kernels reach any memory of the process
  bool shares = false, shares_all = false;  // managed memory: its own; other devices' of its driver too
  struct Group {
    uint32_t ordinal = 0, queues = 1;
    size_t most_fill_pattern = 0;
  };
  Group compute, copies;  // the latter of engines that only copy, where `has_copies`
  bool has_copies = false;

  ListHandle immediate_list(const Group& group, int priority, bool ordered);
  uint32_t next_index(const Group& group) { return next_index_.fetch_add(1) % group.queues; }
  // Appends one captured or enqueued operation to a list of this group.
  void append(ListHandle list, const Work& work, EventHandle signal, uint32_t count, EventHandle* waits);
  // Makes sure that the kernel can be launched; throws why it cannot.
  void prepare(const Kernel& kernel) { kernel_named(kernel.name); }
  // Refuses memory that this device does not reach: peers', and for kernels also host memory that is not imported.
  void reach(const Memory& memory, const Kernel* kernel);
  // Memory of the driver's own, whether or not this thread captures.
  Ref<Memory> staging(size_t bytes);

  std::mutex record_lock;            // of the list below
  ListHandle record_list = nullptr;  // graphs are recorded with it; it never runs anything
  std::atomic<uint64_t> used{0};     // bytes of device and managed memory that are allocated; what `blocks` keeps is free
  Blocks<void*> blocks;              // nothing that was enqueued touches them any more

 private:
  // The driver's kernel holds the arguments of its next launch: one at a time, under its lock, until it is appended.
  struct Loaded {
    std::mutex lock;
    KernelHandle handle = nullptr;
    uint32_t group = 0;
  };
  void probe();
  void find_groups();
  void load_module();
  Loaded& kernel_named(const std::string& name);
  // What a launch passes to a kernel, and how many threads it wants.
  struct Arguments {
    std::vector<const void*> pointers;
    std::vector<int64_t> wholes;
    std::vector<float> reals;
    uint64_t threads = 1;
  };
  void launch(ListHandle list, const std::string& name, const Arguments& arguments, EventHandle signal, uint32_t count, EventHandle* waits);
  uint64_t free_bytes() const;
  template <class F>
  Status reclaiming(F&& allocate);
  void* device_memory(size_t bytes, size_t room);
  template <class F>
  void on_own(F&& use);
  void zero(void* address, size_t bytes);
  bool take_advice(const void* at, size_t bytes, MemoryAdvice advice, DeviceHandle about);
  bool can_access(XpuDevice& peer);

  std::atomic<uint32_t> next_index_{0};
  uint64_t total_ = 0;
  uint32_t largest_group_ = 256, most_groups_ = 1024;
  std::mutex load_lock_;
  ModuleHandle module_ = nullptr;
  std::map<std::string, std::unique_ptr<Loaded>> kernels_;
  std::map<const Device*, bool> peers_;
  std::mutex own_lock_;
  Ref<Queue> own_;  // for new memory and advice; made anew when it failed
};

MemoryAccessProperties access_of(DeviceHandle device);
constexpr const char* no_managed = "this device has no memory that it shares with the CPU";

const Family::Found& found();
// Of a device that exists.
std::pair<Driver*, DeviceHandle> device_at(int index);
Ref<Device> open(int index);

}  // namespace hotslot::level_zero
