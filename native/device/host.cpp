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

// Captures this thread has open: like CUDA's thread-local mode, it may then not allocate, register or ask for events.
thread_local std::vector<std::weak_ptr<Capture>> open_captures;

[[noreturn]] void refuse(const char* call, int status, const char* status_name, const std::string& why, const char* advice) {
  throw Error("host", call, status, status_name, std::string("host: ") + call + " refused with " + status_name + ": " + why, advice);
}

void forbid_in_capture(const char* call) {
  for (auto& weak : open_captures)
    if (auto capture = weak.lock(); capture && !capture->ended) {
      capture->invalid = true;
      refuse(call, 900, "STREAM_CAPTURE_UNSUPPORTED", "this thread has a capture open, which may only enqueue work",
             "allocate, register, query and synchronise before the capture begins or after it ends");
    }
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
      return kernel_fn->run(args);
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

bool HostEvent::query() {
  forbid_in_capture("eventQuery");
  {
    std::lock_guard guard(lock);
    if (!capture.expired())
      refuse("eventQuery", 907, "CAPTURED_EVENT", "the event was last recorded inside a capture", "record it outside a capture before asking for it");
  }
  // Acquire of the drainer's release: whoever sees the record done sees what the stream did before it.
  if (completed.load() < recorded.load()) return false;
  if (const char* why = error.load()) stream_failed("eventQuery", why);
  return true;
}

double HostEvent::elapsed_ms(Event& start) {
  auto& from = static_cast<HostEvent&>(start);
  if (!timing || !from.timing) throw Error("ERR_HOTSLOT_ARGUMENT", "elapsedMs needs two events created with timing: true");
  if (completed.load() == 0 || from.completed.load() == 0 || !query() || !from.query())
    refuse("eventElapsedTime", 600, "NOT_READY", "both events must be recorded and done", "wait for the later event first");
  return (double(time_ns.load()) - double(from.time_ns.load())) / 1e6;
}

// ---- graphs ----------------------------------------------------------------------------------------------------------

Ref<Exec> HostGraph::instantiate() {
  auto exec = std::make_shared<HostExec>();
  exec->capture = capture;
  return exec;
}

// ---- streams ---------------------------------------------------------------------------------------------------------

HostStream::HostStream(Device& device, Executor& executor, int priority)
    : device_(device), executor_(executor), queue(std::make_shared<Queue>()) {
  queue->priority = priority;
  executor_.add(queue);
}

HostStream::~HostStream() { queue->closed.store(true); }

void HostStream::check(const char* call) {
  if (const char* why = queue->error.load()) stream_failed(call, why);
}

void HostStream::push(Op&& op) {
  queue->pending.fetch_add(1);
  {
    std::lock_guard guard(queue->lock);
    queue->ops.push_back(std::move(op));
  }
  executor_.notify();
}

void HostStream::add_node(Node&& node, std::vector<Ref<Object>>&& keep, const char* call) {
  check(call);
  std::lock_guard guard(capture_lock_);
  if (!capture_) {
    Op op;
    op.type = Op::node;
    op.work = std::make_unique<Node>(node);
    op.keep = std::move(keep);
    push(std::move(op));
    return;
  }
  if (capture_->invalid) refuse(call, 901, "STREAM_CAPTURE_INVALIDATED", "an earlier call broke this capture", "end the capture and look at its first error");
  const uint32_t index = uint32_t(capture_->nodes.size());
  capture_->nodes.push_back(node);
  capture_->needs.emplace_back(frontier_.begin(), frontier_.end());
  for (auto& object : keep) capture_->keep.push_back(std::move(object));
  frontier_ = {index};
}

void HostStream::record(const Ref<Event>& ref) {
  check("eventRecord");
  auto event = std::static_pointer_cast<HostEvent>(ref);
  std::lock_guard guard(capture_lock_);
  std::lock_guard event_guard(event->lock);
  if (capture_) {
    event->capture = capture_;
    event->frontier = frontier_;
    return;
  }
  event->capture.reset();
  Op op;
  op.type = Op::record;
  op.number = event->recorded.fetch_add(1) + 1;
  op.object = std::move(event);
  push(std::move(op));
}

void HostStream::wait(const Ref<Event>& ref) {
  check("streamWaitEvent");
  auto event = std::static_pointer_cast<HostEvent>(ref);
  std::lock_guard guard(capture_lock_);
  std::lock_guard event_guard(event->lock);
  if (auto captured = event->capture.lock()) {
    if (captured->ended) refuse("streamWaitEvent", 907, "CAPTURED_EVENT", "the event was recorded inside a capture that has ended", "record it again before waiting for it");
    if (!capture_) {
      // Waiting on a captured event pulls this stream into the capture; it must be joined before the end.
      if (queue->pending.load() != 0) {
        captured->invalid = true;
        refuse("streamWaitEvent", 905, "STREAM_CAPTURE_ISOLATION", "a stream with work outside the capture cannot join it", "synchronise the stream before the capture begins");
      }
      capture_ = captured;
      captured->joined.insert(this);
    } else if (capture_ != captured) {
      captured->invalid = capture_->invalid = true;
      refuse("streamWaitEvent", 902, "STREAM_CAPTURE_MERGE", "the event belongs to another capture", "keep two captures apart, or capture both in one");
    }
    frontier_.insert(event->frontier.begin(), event->frontier.end());
    return;
  }
  if (event->recorded.load() == 0) return;
  if (capture_) {
    capture_->invalid = true;
    refuse("streamWaitEvent", 905, "STREAM_CAPTURE_ISOLATION", "the event was recorded outside this capture", "record it inside the capture, or wait for it before the capture begins");
  }
  Op op;
  op.type = Op::wait;
  op.number = event->recorded.load();
  op.object = std::move(event);
  push(std::move(op));
}

void HostStream::copy(const Span& to, const Span& from) {
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
  node.kernel_fn = launch.kernel;
  node.args = launch.args;
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
  if (capture_) {
    capture_->invalid = true;
    refuse("graphLaunch", 900, "STREAM_CAPTURE_UNSUPPORTED", "a graph cannot be replayed into a capture", "capture its work directly");
  }
  Op op;
  op.type = Op::graph;
  op.object = exec;
  push(std::move(op));
}

bool HostStream::query() {
  forbid_in_capture("streamQuery");
  std::lock_guard guard(capture_lock_);
  if (capture_) {
    capture_->invalid = true;
    refuse("streamQuery", 900, "STREAM_CAPTURE_UNSUPPORTED", "the stream is capturing", "end the capture first");
  }
  check("streamQuery");
  return queue->pending.load() == 0;
}

void HostStream::begin_capture() {
  check("streamBeginCapture");
  std::lock_guard guard(capture_lock_);
  if (capture_) refuse("streamBeginCapture", 1, "INVALID_VALUE", "the stream is capturing already", "end that capture first");
  capture_ = std::make_shared<Capture>();
  capture_->origin = this;
  capture_->thread = std::this_thread::get_id();
  capture_->joined.insert(this);
  frontier_.clear();
  open_captures.push_back(capture_);
}

Ref<Graph> HostStream::end_capture() {
  Ref<Capture> capture;
  Frontier reached;
  {
    std::lock_guard guard(capture_lock_);
    capture = capture_;
    if (!capture) refuse("streamEndCapture", 1, "INVALID_VALUE", "no capture is open on this stream", "begin one first");
    if (capture->origin != this) {
      capture->invalid = true;
      refuse("streamEndCapture", 903, "STREAM_CAPTURE_UNMATCHED", "the capture began on another stream", "end it on the stream it began on");
    }
    if (capture->thread != std::this_thread::get_id())
      refuse("streamEndCapture", 908, "STREAM_CAPTURE_WRONG_THREAD", "the capture began in another thread", "end it in the thread that began it");
    reached = frontier_;
  }
  capture->ended = true;
  open_captures.erase(std::remove_if(open_captures.begin(), open_captures.end(), [](auto& weak) { auto open = weak.lock(); return !open || open->ended; }), open_captures.end());
  // Walk back from the origin's last work: what it does not reach was forked off and never joined.
  std::vector<bool> seen(capture->nodes.size());
  std::vector<uint32_t> stack(reached.begin(), reached.end());
  while (!stack.empty()) {
    const uint32_t index = stack.back();
    stack.pop_back();
    if (seen[index]) continue;
    seen[index] = true;
    stack.insert(stack.end(), capture->needs[index].begin(), capture->needs[index].end());
  }
  bool unjoined = false;
  for (HostStream* stream : capture->joined) {
    std::lock_guard guard(stream->capture_lock_);
    for (uint32_t index : stream->frontier_) unjoined |= !seen[index];
    stream->capture_.reset();
    stream->frontier_.clear();
  }
  if (capture->invalid) refuse("streamEndCapture", 901, "STREAM_CAPTURE_INVALIDATED", "a call broke this capture", "look at the first error inside it");
  if (unjoined) refuse("streamEndCapture", 904, "STREAM_CAPTURE_UNJOINED", "another stream joined the capture and was not joined back", "record an event there and wait for it on the first stream");
  return std::make_shared<HostGraph>(std::move(capture));
}

bool HostStream::capturing() {
  std::lock_guard guard(capture_lock_);
  return capture_ != nullptr;
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
  void attend(Bell* bell) override { executor_.attend(bell); }
  void dismiss(Bell* bell) override { executor_.dismiss(bell); }

 private:
  Executor& executor_ = Executor::instance();
};

Ref<Device> open(int index) { return std::make_shared<HostDevice>(index); }

}  // namespace hotslot::host
