// The host device: a full device on the CPU and the readable specification of what a device is. Its memory is its own, so
// an ordering mistake shows as wrong bytes; capture refuses what CUDA refuses, with CUDA's numbers.
#include "device/host.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace hotslot::host {
namespace {

// Captures this thread has open: like CUDA's thread-local mode, it may then not allocate, register or ask for events. Only
// this thread can end them, so they end with it.
struct OpenCaptures {
  std::vector<std::weak_ptr<Capture>> list;
  ~OpenCaptures() {
    for (auto& weak : list)
      if (auto capture = weak.lock()) capture->ended = true;
  }
  void prune() {
    const auto over = [](auto& weak) {
      auto capture = weak.lock();
      return !capture || capture->ended;
    };
    list.erase(std::remove_if(list.begin(), list.end(), over), list.end());
  }
};
thread_local OpenCaptures open_captures;

[[noreturn]] void refuse(const char* call, int status, const char* status_name, const std::string& why, const char* advice) {
  throw Error("host", call, status, status_name, std::string("host: ") + call + " refused with " + status_name + ": " + why, advice);
}

void forbid_in_capture(const char* call) {
  for (auto& weak : open_captures.list)
    if (auto capture = weak.lock(); capture && !capture->ended) {
      capture->invalidate();
      refuse(call, 900, "STREAM_CAPTURE_UNSUPPORTED", "this thread has a capture open, which may only enqueue work",
             "allocate, register, query and synchronise before the capture begins or after it ends");
    }
}

// Under the capture's lock.
void refuse_broken(const Capture& capture, const char* call) {
  if (capture.invalid || capture.ended)
    refuse(call, 901, "STREAM_CAPTURE_INVALIDATED", "an earlier call broke this capture", "end the capture and look at its first error");
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

class OwnMemory final : public Memory {
 public:
  OwnMemory(Device& device, uint8_t* address, size_t bytes, size_t mapped, bool host) : Memory(device, address, bytes, host), mapped_(mapped) {}
  ~OwnMemory() override { munmap(address, mapped_); }

 private:
  const size_t mapped_;
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
  }
  return "impossible: a node is a kernel, a copy or a fill";
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
  forbid_in_capture(call);
  std::lock_guard guard(lock_);
  if (captured_) refuse(call, 907, "CAPTURED_EVENT", "the event was last recorded inside a capture", "record it outside a capture before asking for it");
  return latest_;
}

bool HostEvent::query() {
  const Ref<Point> point = latest("eventQuery");
  return !point || finished(*point, "eventQuery");
}

double HostEvent::elapsed_ms(Event& start) {
  auto& from = static_cast<HostEvent&>(start);
  if (!timing || !from.timing) throw Error("ERR_HOTSLOT_ARGUMENT", "elapsedMs needs two events created with timing: true");
  const char* call = "eventElapsedTime";
  const Ref<Point> begin = from.latest(call), end = latest(call);
  if (!begin || !end || !finished(*begin, call) || !finished(*end, call))
    refuse(call, 600, "NOT_READY", "both events must be recorded and done", "wait for the later event first");
  return (double(end->time_ns) - double(begin->time_ns)) / 1e6;
}

// ---- graphs ----------------------------------------------------------------------------------------------------------

Ref<Exec> HostGraph::instantiate() {
  auto exec = std::make_shared<HostExec>();
  exec->capture = capture;
  for (auto& object : capture->keep) {
    if (object->kind != Kind::memory) continue;
    auto* memory = static_cast<Memory*>(object.get());
    if (memory->host && std::find(exec->lent.begin(), exec->lent.end(), memory) == exec->lent.end()) exec->lent.push_back(memory);
  }
  for (auto& node : capture->nodes) exec->may_hold |= node.may_hold;
  return exec;
}

// ---- streams ---------------------------------------------------------------------------------------------------------

HostStream::HostStream(Device& device, Executor& executor, int priority)
    : device_(device), executor_(executor), queue_(std::make_shared<Queue>()) {
  queue_->priority = priority;
  executor_.add(queue_);
}

HostStream::~HostStream() {
  queue_->closed.store(true);
  // Nobody else can end it: whoever joined is free again.
  if (capture_ && capture_->origin == queue_) capture_->ended = true;
}

// The capture this stream takes part in now; it may have been ended from elsewhere. Under capture_lock_.
Capture* HostStream::open_capture() {
  if (capture_ && capture_->ended) capture_.reset();
  return capture_.get();
}

// Under capture_lock_.
void HostStream::forbid_while_capturing(const char* call, const char* why, const char* advice) {
  Capture* capture = open_capture();
  if (!capture) return;
  capture->invalidate();
  refuse(call, 900, "STREAM_CAPTURE_UNSUPPORTED", why, advice);
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

void HostStream::add_node(Node&& node, std::vector<Ref<Object>>&& keep, const char* call) {
  check(call);
  std::lock_guard guard(capture_lock_);
  if (Capture* capture = open_capture()) {
    std::lock_guard inside(capture->lock);
    refuse_broken(*capture, call);
    Frontier& frontier = capture->streams[queue_];
    const uint32_t index = uint32_t(capture->nodes.size());
    capture->nodes.push_back(node);
    capture->needs.emplace_back(frontier.begin(), frontier.end());
    for (auto& object : keep) capture->keep.push_back(std::move(object));
    frontier = {index};
    return;
  }
  Op op;
  op.type = Op::node;
  op.work = std::make_unique<Node>(node);
  op.keep = std::move(keep);
  push(std::move(op));
}

void HostStream::record(const Ref<Event>& ref) {
  check("eventRecord");
  auto& event = static_cast<HostEvent&>(*ref);
  std::lock_guard guard(capture_lock_);
  std::lock_guard event_guard(event.lock_);
  if (Capture* capture = open_capture()) {
    std::lock_guard inside(capture->lock);
    refuse_broken(*capture, "eventRecord");
    event.captured_ = true;
    event.capture_ = capture_;
    event.frontier_ = capture->streams[queue_];
    return;
  }
  event.captured_ = false;
  event.latest_ = std::make_shared<Point>();
  Op op;
  op.type = Op::record;
  op.point = event.latest_;
  push(std::move(op));
}

void HostStream::wait(const Ref<Event>& ref) {
  const char* call = "streamWaitEvent";
  check(call);
  auto& event = static_cast<HostEvent&>(*ref);
  std::lock_guard guard(capture_lock_);
  std::lock_guard event_guard(event.lock_);
  Capture* const mine = open_capture();
  if (event.captured_) {
    const Ref<Capture> theirs = event.capture_.lock();
    if (!theirs || theirs->ended) refuse(call, 907, "CAPTURED_EVENT", "the event was recorded inside a capture that has ended", "record it again before waiting for it");
    if (mine && mine != theirs.get()) {
      mine->invalidate();
      theirs->invalidate();
      refuse(call, 902, "STREAM_CAPTURE_MERGE", "the event belongs to another capture", "keep two captures apart, or capture both in one");
    }
    // Waiting on a captured event pulls this stream into the capture; it must be joined before the end.
    std::lock_guard inside(theirs->lock);
    refuse_broken(*theirs, call);
    theirs->streams[queue_].insert(event.frontier_.begin(), event.frontier_.end());
    capture_ = theirs;
    return;
  }
  if (!event.latest_) return;
  if (mine) {
    mine->invalidate();
    refuse(call, 905, "STREAM_CAPTURE_ISOLATION", "the event was recorded outside this capture", "record it inside the capture, or wait for it before the capture begins");
  }
  if (event.latest_->done.load() && !event.latest_->error) return;
  Op op;
  op.type = Op::wait;
  op.point = event.latest_;
  push(std::move(op));
}

void HostStream::copy(const Span& to, const Span& from) {
  refuse_overlap(to, from);
  Node node;
  node.type = Node::copy;
  node.to = to.address();
  node.from = from.address();
  node.bytes = to.bytes;
  add_node(std::move(node), {to.memory, from.memory}, "memcpyAsync");
}

void HostStream::fill(const Span& to, const void* pattern, size_t pattern_bytes) {
  Node node;
  node.type = Node::fill;
  node.to = to.address();
  node.bytes = to.bytes;
  memcpy(&node.pattern, pattern, pattern_bytes);
  node.pattern_bytes = uint32_t(pattern_bytes);
  add_node(std::move(node), {to.memory}, "memsetAsync");
}

void HostStream::launch(Launch&& launch) {
  Node node;
  node.type = Node::kernel;
  node.kernel_run = launch.kernel->run;
  node.args = launch.args;
  for (auto& kernel : test_kernels()) node.may_hold |= kernel.run == launch.kernel->run;
  std::vector<Ref<Object>> keep;
  for (size_t i = 0; i < launch.spans.size(); ++i) {
    node.args.pointer[i] = launch.spans[i].address();
    keep.push_back(launch.spans[i].memory);
  }
  add_node(std::move(node), std::move(keep), "launchKernel");
}

void HostStream::replay(const Ref<Exec>& exec) {
  check("graphLaunch");
  std::lock_guard guard(capture_lock_);
  forbid_while_capturing("graphLaunch", "a graph cannot be replayed into a capture", "capture its work directly");
  Op op;
  op.type = Op::graph;
  op.exec = std::static_pointer_cast<HostExec>(exec);
  push(std::move(op));
}

bool HostStream::query() {
  forbid_in_capture("streamQuery");
  std::lock_guard guard(capture_lock_);
  forbid_while_capturing("streamQuery", "the stream is capturing", "end the capture first");
  check("streamQuery");
  if (queue_->pending.load() != 0) return false;
  // The last op may have failed between the two looks.
  check("streamQuery");
  return true;
}

void HostStream::begin_capture() {
  check("streamBeginCapture");
  std::lock_guard guard(capture_lock_);
  if (open_capture()) refuse("streamBeginCapture", 1, "INVALID_VALUE", "the stream is capturing already", "end that capture first");
  capture_ = std::make_shared<Capture>();
  capture_->origin = queue_;
  capture_->thread = std::this_thread::get_id();
  capture_->streams[queue_];
  open_captures.prune();
  open_captures.list.push_back(capture_);
}

Ref<Graph> HostStream::end_capture() {
  const char* call = "streamEndCapture";
  Ref<Capture> capture;
  std::map<Ref<Queue>, Frontier> streams;
  bool broken;
  {
    std::lock_guard guard(capture_lock_);
    if (!open_capture()) refuse(call, 1, "INVALID_VALUE", "no capture is open on this stream", "begin one first");
    if (capture_->origin != queue_) {
      capture_->invalidate();
      refuse(call, 903, "STREAM_CAPTURE_UNMATCHED", "the capture began on another stream", "end it on the stream it began on");
    }
    if (capture_->thread != std::this_thread::get_id())
      refuse(call, 908, "STREAM_CAPTURE_WRONG_THREAD", "the capture began in another thread", "end it in the thread that began it");
    capture.swap(capture_);
    std::lock_guard inside(capture->lock);
    // From here on nobody adds to it, and whoever joined finds out at the next call.
    capture->ended = true;
    streams.swap(capture->streams);
    broken = capture->invalid;
  }
  open_captures.prune();
  if (broken) refuse(call, 901, "STREAM_CAPTURE_INVALIDATED", "a call broke this capture", "look at the first error inside it");
  // Walk back from the origin's last work: what it does not reach was forked off and never joined.
  std::vector<bool> seen(capture->nodes.size());
  std::vector<uint32_t> stack(streams[queue_].begin(), streams[queue_].end());
  while (!stack.empty()) {
    const uint32_t index = stack.back();
    stack.pop_back();
    if (seen[index]) continue;
    seen[index] = true;
    stack.insert(stack.end(), capture->needs[index].begin(), capture->needs[index].end());
  }
  for (auto& [queue, frontier] : streams)
    for (uint32_t index : frontier)
      if (!seen[index]) refuse(call, 904, "STREAM_CAPTURE_UNJOINED", "another stream joined the capture and was not joined back", "record an event there and wait for it on the first stream");
  return std::make_shared<HostGraph>(std::move(capture));
}

bool HostStream::capturing() {
  std::lock_guard guard(capture_lock_);
  return open_capture() != nullptr;
}

// ---- the device ------------------------------------------------------------------------------------------------------

class HostDevice final : public Device {
 public:
  explicit HostDevice(int index) : Device("host", index) {}
  MemoryInfo memory_info() override {
    MemoryInfo info{};
    info.free = available_bytes(&info.total);
    return info;
  }
  Ref<Stream> create_stream(int priority) override { return std::make_shared<HostStream>(*this, executor_, priority); }
  Ref<Event> create_event(bool timing) override { return std::make_shared<HostEvent>(timing); }
  Ref<Memory> allocate(size_t bytes) override { return map(bytes, false); }
  Ref<Memory> allocate_host(size_t bytes) override { return map(bytes, true); }
  Ref<Memory> map(size_t bytes, bool host) {
    forbid_in_capture("memAlloc");
    const size_t mapped = (std::max<size_t>(bytes, 1) + 4095) & ~size_t(4095);
    const bool fits = bytes < (16u << 20) || bytes < available_bytes(nullptr);
    void* address = fits ? mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : MAP_FAILED;
    if (address == MAP_FAILED)
      throw Error("ERR_HOTSLOT_MEMORY", "host: " + std::to_string(bytes) + " bytes were asked for, " + std::to_string(available_bytes(nullptr)) + " are free: use fewer or smaller slots");
    if (bytes >= (4u << 20)) madvise(address, mapped, MADV_HUGEPAGE);
    return std::make_shared<OwnMemory>(*this, static_cast<uint8_t*>(address), bytes, mapped, host);
  }
  Ref<Memory> register_host(void* address, size_t bytes) override {
    forbid_in_capture("memHostRegister");
    return std::make_shared<Memory>(*this, static_cast<uint8_t*>(address), bytes, true);
  }
  bool help(uint64_t ns) override { return executor_.help(ns); }
  bool wait_event(Event& event, uint64_t ns) override {
    return executor_.wait([&event] { return event.query(); }, ns);
  }
  void revoke(const Ref<Memory>& memory, uint64_t ns) override { executor_.revoke(memory, ns); }
  void attend(Bell* bell) override { executor_.attend(bell); }
  void dismiss(Bell* bell) override { executor_.dismiss(bell); }

 private:
  Executor& executor_ = Executor::instance();
};

Ref<Device> open(int index) { return std::make_shared<HostDevice>(index); }

}  // namespace hotslot::host
