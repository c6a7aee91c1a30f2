// The host device: a full device on the CPU and the readable specification of what a device is. Its memory is its own, so
// an ordering mistake shows as wrong bytes; capture refuses what CUDA refuses, with CUDA's numbers.
#include "device/host.hpp"

#include "device/host_managed.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace hotslot::host {
namespace {

[[noreturn]] void refuse(const char* call, int status, const char* status_name, const std::string& why, const char* advice) {
  hotslot::refuse(family_name, call, status, status_name, why, advice);
}

[[noreturn]] void stream_failed(const char* call, const char* why) {
  refuse(call, 719, "LAUNCH_FAILED", std::string("earlier work on the stream failed: ") + why,
         "close what uses this stream and open it again; the text names what failed first");
}

uint64_t available_bytes(uint64_t* total) {
  uint64_t free = 0;
  if (FILE* file = fopen("/proc/meminfo", "re")) {
    char line[128];
    unsigned long long kib;
    while (fgets(line, sizeof line, file)) {
      if (sscanf(line, "MemTotal: %llu", &kib) == 1 && total) *total = kib * 1024;
      if (sscanf(line, "MemAvailable: %llu", &kib) == 1) free = kib * 1024;
    }
    fclose(file);
  }
  return free;
}

// Blocks of one device, of which some wait to be used again.
class OwnMemory final : public Memory {
 public:
  OwnMemory(Device& device, uint8_t* address, size_t bytes, size_t mapped, bool host, Blocks<uint8_t*>* blocks)
      : Memory(device, address, bytes, host), mapped_(mapped), blocks_(blocks) {}
  ~OwnMemory() override {
    if (!blocks_ || !device.in_use || !blocks_->keep(address, mapped_)) munmap(address, mapped_);
  }

 private:
  const size_t mapped_;
  Blocks<uint8_t*>* const blocks_;  // null: it does not go back there
};

}  // namespace

const char* Node::run() const {
  switch (type) {
    case kernel:
      try {
        return kernel_run(args);
      } catch (const std::bad_alloc&) {
        return "a kernel found no memory";
      }
    case copy:
      memmove(to, from, bytes);
      return nullptr;
    case fill:
      if (pattern_bytes == 1) {
        memset(to, int(pattern & 0xff), bytes);
      } else {
        for (size_t at = 0; at + pattern_bytes <= bytes; at += pattern_bytes) memcpy(to + at, &pattern, pattern_bytes);
      }
      return nullptr;
    case prefetch:
      return static_cast<ManagedMemory*>(managed)->move(at, bytes, target);
    case record:
      break;  // the executor's: a replay has its own points
  }
  return "impossible: a node is a kernel, a copy, a fill or a prefetch";
}

// ---- events ----------------------------------------------------------------------------------------------------------

namespace {

// Acquire of the drainer's release: whoever sees the record done sees what the stream did before it.
bool finished(const Point& point, const char* call) {
  if (!point.done.load()) return false;
  if (point.error) stream_failed(call, point.error);
  return true;
}

}  // namespace

Ref<Point> HostEvent::latest(const char* call) {
  forbid_in_capture(family_name, call);
  std::lock_guard guard(mark_.lock);
  forbid_captured(family_name, call, mark_);
  return latest_;
}

bool HostEvent::query() {
  const Ref<Point> point = latest("eventQuery");
  return !point || finished(*point, "eventQuery");
}

double HostEvent::elapsed_ms(Event& start) {
  require_family(family_name, start, "an event");
  auto& from = static_cast<HostEvent&>(start);
  if (!timing || !from.timing) throw Error("ERR_HOTSLOT_ARGUMENT", "elapsedMs needs two events created with timing: true");
  const char* call = "eventElapsedTime";
  const Ref<Point> begin = from.latest(call), end = latest(call);
  if (!begin || !end || !finished(*begin, call) || !finished(*end, call))
    refuse(call, 600, "NOT_READY", "both events must be recorded and done", "wait for the later event first");
  return (double(end->time_ns) - double(begin->time_ns)) / 1e6;
}

// ---- graphs ----------------------------------------------------------------------------------------------------------

namespace {

Node node_of(const Work& work) {
  Node node;
  if (work.to.memory) node.to = work.to.address(), node.bytes = work.to.bytes;
  switch (work.type) {
    case Work::kernel:
      node.type = Node::kernel;
      node.kernel_run = work.launch.kernel->run;
      node.args = work.launch.args;
      for (size_t i = 0; i < work.launch.spans.size(); ++i) node.args.pointer[i] = work.launch.spans[i].address();
      for (auto& kernel : test_kernels()) node.may_hold |= kernel.run == node.kernel_run;
      break;
    case Work::copy:
      node.type = Node::copy;
      node.from = work.from.address();
      break;
    case Work::fill:
      node.type = Node::fill;
      node.pattern = work.pattern;
      node.pattern_bytes = work.pattern_bytes;
      break;
    case Work::record:
      node.type = Node::record;
      break;
  }
  return node;
}

}  // namespace

Program::Program(Ref<Capture> source) : capture(std::move(source)), lent(capture->lent()) {
  for (auto& work : capture->nodes) {
    nodes.push_back(node_of(work));
    may_hold |= nodes.back().may_hold;
    if (work.type != Work::record) continue;
    nodes.back().point = uint32_t(events.size());
    events.push_back(work.event);
  }
}

Ref<Exec> HostGraph::instantiate() { return std::make_shared<HostExec>(std::make_shared<Program>(capture)); }

bool HostExec::update(const Ref<Graph>& graph) {
  require_family(family_name, *graph, "a graph");
  auto next = std::make_shared<Program>(static_cast<HostGraph&>(*graph).capture);
  std::lock_guard guard(lock_);
  const auto& had = program_->nodes;
  const bool same = std::equal(had.begin(), had.end(), next->nodes.begin(), next->nodes.end(), [](auto& a, auto& b) { return a.type == b.type; });
  program_ = std::move(next);
  return same;
}

// ---- streams ---------------------------------------------------------------------------------------------------------

HostStream::HostStream(Device& device, Executor& executor, int priority)
    : Stream(family_name), device_(device), executor_(executor), queue_(std::make_shared<Queue>()), lane_(std::make_shared<Lane>(family_name, queue_)) {
  queue_->priority = priority;
  executor_.add(queue_);
}

HostStream::~HostStream() {
  queue_->closed.store(true);
  lane_->abandon();
}

void HostStream::check(const char* call) {
  if (const char* why = queue_->error.load()) stream_failed(call, why);
}

void HostStream::push(Op&& op) {
  queue_->pending.fetch_add(1);
  {
    std::lock_guard guard(queue_->lock);
    queue_->ops.push_back(std::move(op));
  }
  stress_pause();
  // Who has the claim looks at the queue once more after giving it back, so it needs no telling.
  if (!queue_->claimed.load()) executor_.notify();
}

void HostStream::enqueue(Work&& work, const char* call) {
  if (work.to.memory) require_family(family_name, *work.to.memory, "memory");
  if (work.from.memory) require_family(family_name, *work.from.memory, "memory");
  for (auto& span : work.launch.spans) require_family(family_name, *span.memory, "memory");
  check(call);
  std::lock_guard guard(lane_->lock);
  Op op;
  if (!lane_->open()) {
    op.type = Op::node;
    op.work = std::make_unique<Node>(node_of(work));
    if (work.to.memory) op.keep.push_back(std::move(work.to.memory));
    if (work.from.memory) op.keep.push_back(std::move(work.from.memory));
    for (auto& span : work.launch.spans) op.keep.push_back(std::move(span.memory));
    push(std::move(op));
  } else {
    lane_->add(std::move(work), call);
  }
}

void HostStream::record(const Ref<Event>& ref, bool external) {
  require_family(family_name, *ref, "an event");
  check("eventRecord");
  auto& event = static_cast<HostEvent&>(*ref);
  std::lock_guard guard(lane_->lock);
  if (external) {
    if (lane_->add(Work::record_of(ref), "eventRecord")) return;
    refuse("eventRecord", 1, "INVALID_VALUE", "an external record belongs in a capture, and none is open on this stream", "record it plainly");
  }
  std::lock_guard event_guard(event.mark_.lock);
  if (lane_->record(event.mark_, "eventRecord")) return;
  event.latest_ = std::make_shared<Point>();
  Op op;
  op.type = Op::record;
  op.point = event.latest_;
  push(std::move(op));
}

void HostStream::wait(const Ref<Event>& ref, bool order_only) {
  const char* call = "streamWaitEvent";
  require_family(family_name, *ref, "an event");
  check(call);
  auto& event = static_cast<HostEvent&>(*ref);
  std::lock_guard guard(lane_->lock);
  std::lock_guard event_guard(event.mark_.lock);
  if (lane_->wait(event.mark_, event.latest_ != nullptr, call)) return;
  if (!event.latest_ || (event.latest_->done.load() && (order_only || !event.latest_->error))) return;
  Op op;
  op.type = Op::wait;
  op.order_only = order_only;
  op.point = event.latest_;
  push(std::move(op));
}

void HostStream::copy(const Span& to, const Span& from) {
  enqueue(Work::copy_of(to, from), "memcpyAsync");
}

void HostStream::fill(const Span& to, const void* pattern, size_t pattern_bytes) {
  enqueue(Work::fill_of(to, pattern, pattern_bytes), "memsetAsync");
}

void HostStream::launch(Launch&& launch) {
  enqueue(Work::of(std::move(launch)), "launchKernel");
}

void HostStream::replay(const Ref<Exec>& exec) {
  require_family(family_name, *exec, "a graph");
  check("graphLaunch");
  std::lock_guard guard(lane_->lock);
  lane_->forbid("graphLaunch", "a graph cannot be replayed into a capture", "capture its work directly");
  Op op;
  op.type = Op::graph;
  op.exec = std::static_pointer_cast<HostExec>(exec);
  op.program = op.exec->program();
  for (auto& each : op.program->events) {
    auto& event = static_cast<HostEvent&>(*each);
    std::lock_guard event_guard(event.mark_.lock);
    event.mark_.captured = false;
    event.latest_ = op.points.emplace_back(std::make_shared<Point>());
  }
  push(std::move(op));
}

void HostStream::prefetch(const Span& span, int device) {
  const char* call = "memPrefetchAsync";
  require_family(family_name, *span.memory, "memory");
  check(call);
  std::lock_guard guard(lane_->lock);
  lane_->forbid(call, "a prefetch is no part of a graph", "prefetch before the capture, or before a replay: the address stays the same");
  auto node = std::make_unique<Node>();
  node->type = Node::prefetch;
  node->managed = span.memory.get();
  node->at = span.offset, node->bytes = span.bytes, node->target = device;
  Op op;
  op.type = Op::node;
  op.work = std::move(node);
  op.keep.push_back(span.memory);
  push(std::move(op));
}

bool HostStream::query() {
  forbid_in_capture(family_name, "streamQuery");
  std::lock_guard guard(lane_->lock);
  lane_->forbid("streamQuery", "the stream is capturing", "end the capture first");
  check("streamQuery");
  if (queue_->pending.load() != 0) return false;
  // The last op may have failed between the two looks.
  check("streamQuery");
  return true;
}

void HostStream::begin_capture() {
  check("streamBeginCapture");
  std::lock_guard guard(lane_->lock);
  lane_->begin();
}

Ref<Graph> HostStream::end_capture() {
  return std::make_shared<HostGraph>(lane_->end([](auto&) {}));
}

bool HostStream::capturing() {
  std::lock_guard guard(lane_->lock);
  return lane_->open() != nullptr;
}

// ---- the device ------------------------------------------------------------------------------------------------------

std::string describe() { return std::to_string(std::thread::hardware_concurrency()) + " cores, matrix products by " + gemm_provider(); }

class HostDevice final : public Device {
 public:
  explicit HostDevice(int index) : Device(family_name, index) {}
  DeviceTraits traits() override {
    DeviceTraits traits;
    traits.description = describe();
    traits.rings = true;
    traits.submitter = "host_stream";
    traits.matrix_products = gemm_provider();
    return traits;
  }
  MemoryInfo memory_info() override {
    MemoryInfo info{};
    info.free = available_bytes(&info.total);
    return info;
  }
  Ref<Stream> create_stream(int priority) override { return std::make_shared<HostStream>(*this, executor_, priority); }
  Ref<Event> create_event(bool timing) override { return std::make_shared<HostEvent>(timing); }
  Ref<Memory> allocate(size_t bytes) override {
    forbid_in_capture(family_name, "memAlloc");
    return map(bytes, (std::max<size_t>(bytes, 1) + 4095) & ~size_t(4095), false, nullptr);
  }
  Ref<Memory> scratch(size_t bytes) override { return reused(bytes, false); }
  Ref<Memory> reused(size_t bytes, bool host) {
    const size_t room = Blocks<uint8_t*>::room_for(bytes);
    if (uint8_t* at = blocks_.take(room)) return std::make_shared<OwnMemory>(*this, at, bytes, room, host, &blocks_);
    return map(bytes, room, host, &blocks_);
  }
  Ref<Memory> allocate_managed(size_t bytes) override {
    forbid_in_capture(family_name, "memAllocManaged");
    return ManagedMemory::reserve(*this, bytes);
  }
  void advise(const Span& span, Advice advice, int where) override {
    static_cast<ManagedMemory&>(*span.memory).advise(span.offset, span.bytes, advice, where);
  }
  Residency residency(const Span& span) override { return static_cast<ManagedMemory&>(*span.memory).residency(span.offset, span.bytes); }
  void trim() override {
    for (auto& [at, room] : blocks_.take_all()) munmap(at, room);
  }
  CacheCounts kept() override { return blocks_.counts(); }
  Ref<Memory> allocate_host(size_t bytes) override {
    forbid_in_capture(family_name, "memAllocHost");
    return reused(bytes, true);
  }
  Ref<Memory> map(size_t bytes, size_t mapped, bool host, Blocks<uint8_t*>* blocks) {
    if (bytes >= (16u << 20) && bytes >= available_bytes(nullptr)) trim();
    const bool fits = bytes < (16u << 20) || bytes < available_bytes(nullptr);
    void* address = fits ? mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : MAP_FAILED;
    if (address == MAP_FAILED)
      throw Error("ERR_HOTSLOT_MEMORY", "host: " + std::to_string(bytes) + " bytes were asked for, " + std::to_string(available_bytes(nullptr)) + " are free: use fewer or smaller slots");
    if (bytes >= (4u << 20)) madvise(address, mapped, MADV_HUGEPAGE);
    return std::make_shared<OwnMemory>(*this, static_cast<uint8_t*>(address), bytes, mapped, host, blocks);
  }
  Ref<Memory> register_host(void* address, size_t bytes, bool) override {
    forbid_in_capture(family_name, "memHostRegister");
    return std::make_shared<Memory>(*this, static_cast<uint8_t*>(address), bytes, true);
  }
  bool help(uint64_t ns) override { return executor_.help(ns); }
  bool wait_event(Event& event, uint64_t ns) override {
    require_family(family_name, event, "an event");
    return executor_.wait([&event] { return event.query(); }, ns);
  }
  void revoke(const Ref<Memory>& memory, uint64_t ns) override { executor_.revoke(memory, ns); }
  void attend(Bell* bell) override { executor_.attend(bell); }
  void dismiss(Bell* bell) override { executor_.dismiss(bell); }

 private:
  Executor& executor_ = Executor::instance();
  Blocks<uint8_t*> blocks_;
};

Ref<Device> open(int index) { return std::make_shared<HostDevice>(index); }

}  // namespace hotslot::host
