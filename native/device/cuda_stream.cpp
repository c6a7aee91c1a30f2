// CUDA's and ROCm's streams, events and graphs.
#include <algorithm>
#include <cstring>

#include "device/cublas.hpp"
#include "device/cuda.hpp"

namespace hotslot::cuda {
namespace {

constexpr unsigned block_threads = 256;

CudaMemory& memory_of(const Span& span) { return static_cast<CudaMemory&>(*span.memory); }
DevicePtr on_device(const Span& span) { return memory_of(span).on_device + span.offset; }

// A driver's graph is not for several threads at once: `lock` is held while it is read.
class RawGraph {
 public:
  RawGraph(CudaDevice& device, GraphHandle handle) : device(device), handle(handle) {}
  ~RawGraph() {
    if (handle) device.give_back(device.driver.call.graph_destroy, handle);
  }
  RawGraph(const RawGraph&) = delete;
  CudaDevice& device;
  const GraphHandle handle;
  std::mutex lock;
};

class RawExec {
 public:
  // Under the graph's lock.
  explicit RawExec(const RawGraph& graph) : device(graph.device) {
    const Driver& driver = device.driver;
    const Enter enter(driver, device.context);
    const Relaxed relaxed(driver);
    driver.check(driver.call.graph_instantiate, &handle, graph.handle, 0ull);
  }
  ~RawExec() {
    device.give_back(device.driver.call.graph_exec_destroy, handle);
  }
  RawExec(const RawExec&) = delete;
  CudaDevice& device;
  GraphExecHandle handle = nullptr;
};

class CudaGraph final : public Graph {
 public:
  CudaGraph(CudaDevice& device, GraphHandle handle, Ref<Capture> capture)
      : Graph(device.family, std::move(capture)), raw(device, handle) {}
  Ref<Exec> instantiate() override;
  RawGraph raw;
};

// For a driver that would not end a capture with streams left in it; we refuse the graph all the same.
void join(RawStream& origin, const std::vector<Ref<Lane>>& lanes) {
  for (auto& lane : lanes)
    release([&] {
      auto& other = static_cast<RawStream&>(*std::static_pointer_cast<RawStream>(lane->hold()));
      const Driver& driver = origin.device.driver;
      if (&other == &origin) return;
      const Enter enter(driver, origin.device.context);
      RawEvent event(other.device, false);
      driver.check(driver.call.event_record, event.handle, other.handle);
      driver.check(driver.call.stream_wait_event, origin.handle, event.handle, 0u);
    });
}

// A capture that the driver found broken is over too, without a graph. After any other refusal it may still be open.
Status end_in_driver(RawStream& raw, GraphHandle& graph) {
  const Driver& driver = raw.device.driver;
  const auto over = [&](Status got) {
    return got == status::success || (driver.ends_broken_captures && got >= status::capture_unsupported && got < status::capture_wrong_thread);
  };
  try {
    const Enter enter(driver, raw.device.context);
    const Status got = driver.call.stream_end_capture(raw.handle, &graph);
    if (over(got)) return got;
    GraphHandle late = nullptr;
    // Once more, in case the refusal had nothing to do with the capture.
    if (!over(driver.call.stream_end_capture(raw.handle, &late))) raw.captive = true;
    if (late) raw.device.give_back(driver.call.graph_destroy, late);
    return got;
  } catch (const Error& error) {
    raw.captive = true;
    return error.status;
  }
}

constexpr const char* lender_gone = "it touches host memory that a thread lent which has ended";

void refuse_revoked(const Memory& memory, const char* call) {
  if (memory.revoked.load()) refuse(memory.family, call, status::launch_failed, "LAUNCH_FAILED", lender_gone, "close what uses the memory before its thread ends");
}

}  // namespace

// ---- events ----------------------------------------------------------------------------------------------------------

bool CudaEvent::query() {
  forbid_in_capture(family, "eventQuery");
  std::lock_guard guard(mark_.lock);
  forbid_captured(family, "eventQuery", mark_);
  const Driver& driver = raw_.device.driver;
  if (!recorded_ || done_) return true;
  const auto on = on_.lock();
  if (!on) {
    if (const Status got = fate_->load(); got != status::success) driver.refuse(driver.call.event_query.name, got);
    return done_ = true;
  }
  if (!driver.may_poll()) return false;
  const Enter enter(driver, raw_.device.context);
  const Relaxed relaxed(driver);
  const Status got = driver.call.event_query(raw_.handle);
  if (got == status::not_ready) return false;
  if (got != status::success) driver.refuse(driver.call.event_query.name, got);
  return done_ = true;
}

double CudaEvent::elapsed_ms(Event& start) {
  require_family(family, start, "an event");
  auto& from = static_cast<CudaEvent&>(start);
  if (!timing || !from.timing) throw Error("ERR_HOTSLOT_ARGUMENT", "elapsedMs needs two events created with timing: true");
  const Driver& driver = raw_.device.driver;
  const char* call = driver.call.event_elapsed_time.name;
  forbid_in_capture(family, call);
  const auto recorded = [&](CudaEvent& event) {
    std::lock_guard guard(event.mark_.lock);
    forbid_captured(family, call, event.mark_);
    return event.recorded_;
  };
  Status got = status::not_ready;
  float ms = 0;
  // The driver says itself when one is not done: asking for the events first is not always allowed (see may_poll).
  if (recorded(from) && recorded(*this)) {
    const Enter enter(driver, raw_.device.context);
    const Relaxed relaxed(driver);
    got = driver.call.event_elapsed_time(&ms, from.raw_.handle, raw_.handle);
  }
  if (got == status::not_ready)
    hotslot::refuse(family, call, got, "NOT_READY", "both events must be recorded and done", "wait for the later event first");
  if (got != status::success) driver.refuse(call, got);
  return double(ms);
}

// ---- graphs ----------------------------------------------------------------------------------------------------------

class CudaExec final : public Exec {
 public:
  CudaExec(CudaDevice& device, Ref<RawExec> raw, Ref<Capture> capture)
      : Exec(device.family), device_(device), raw_(std::move(raw)), capture_(std::move(capture)), lent_(capture_->lent()) {}
  ~CudaExec() override {
    // Replays may be under way: what they touch stays until they are over.
    device_.driver.retired.add([raw = std::move(raw_), capture = std::move(capture_)] {});
  }

  bool update(const Ref<Graph>& graph) override {
    require_family(family, *graph, "a graph");
    auto& next = static_cast<CudaGraph&>(*graph);
    const Driver& driver = device_.driver;
    const Enter enter(driver, device_.context);
    const Relaxed relaxed(driver);
    Ref<RawExec> old;
    Ref<Capture> before;
    ExecUpdateResult result{};
    Status got;
    {
      std::lock_guard guard(lock_);
      std::lock_guard graph_guard(next.raw.lock);
      got = driver.call.graph_exec_update(raw_->handle, next.raw.handle, &result);
      if (got != status::success && got != status::graph_exec_update_failure && got != status::not_supported)
        driver.refuse(driver.call.graph_exec_update.name, got);
      old = raw_;
      if (got != status::success) raw_ = std::make_shared<RawExec>(next.raw);
      before = std::exchange(capture_, next.capture);
      lent_ = capture_->lent();
    }
    // Without the lock: marks take every lane's, and replays take a lane's lock before this one.
    device_.driver.retired.add([old = std::move(old), before = std::move(before)] {});
    return got == status::success;
  }

  void launch(const Ref<RawStream>& stream) {
    const Driver& driver = device_.driver;
    std::lock_guard guard(lock_);
    for (const Memory* memory : lent_) refuse_revoked(*memory, driver.call.graph_launch.name);
    // Replays run one at a time, whatever streams they are on: the driver sees to that for one exec of its own at most, and an
    // update may have made another. A stream that is gone was idle, and one that failed is nobody else's business.
    if (const auto on = last_on_.lock(); on && on != stream && pending())
      driver.check(driver.call.stream_wait_event, stream->handle, last_.handle, 0u);
    driver.check(driver.call.graph_launch, raw_->handle, stream->handle);
    // A stream that fails this early says so to whoever asks it next.
    driver.call.event_record(last_.handle, stream->handle);
    last_on_ = stream;
    // What the graph records is the events' latest record from here on.
    for (auto& node : capture_->nodes) {
      if (node.type != Work::record) continue;
      auto& event = static_cast<CudaEvent&>(*node.event);
      std::lock_guard event_guard(event.mark_.lock);
      event.mark_.captured = false;
      event.recorded_ = true;
      event.done_ = false;
      event.on_ = stream, event.fate_ = stream->fate;
    }
  }

 private:
  bool pending() const {
    const Driver& driver = device_.driver;
    if (!driver.may_poll()) return true;
    const Relaxed relaxed(driver);
    return driver.call.event_query(last_.handle) == status::not_ready;
  }

  CudaDevice& device_;
  std::mutex lock_;
  RawEvent last_{device_, false};  // behind the latest replay
  std::weak_ptr<RawStream> last_on_;
  Ref<RawExec> raw_;
  Ref<Capture> capture_;
  std::vector<Memory*> lent_;
};

namespace {

Ref<Exec> CudaGraph::instantiate() {
  std::lock_guard guard(raw.lock);
  return std::make_shared<CudaExec>(raw.device, std::make_shared<RawExec>(raw), capture);
}

}  // namespace

// ---- streams ---------------------------------------------------------------------------------------------------------

CudaStream::CudaStream(CudaDevice& device, int priority)
    : Stream(device.family),
      device_(device),
      driver_(device.driver),
      raw_(std::make_shared<RawStream>(device, priority)),
      lane_(std::make_shared<Lane>(device.family, raw_)) {
  std::lock_guard guard(device.streams_lock_);
  device.streams_.push_back({raw_, lane_});
}

CudaStream::~CudaStream() {
  lane_->abandon();
  // Its work goes on; a product may still use its workspace, which is let go like all memory. An idle stream goes at once.
  workspace_.reset();
  captured_workspace_.reset();
  lane_.reset();
  raw_.reset();
  driver_.sweep();
}

void CudaStream::refuse_captive(const char* call) const {
  lane_->open();  // not before its capture has ended, should that be under way
  if (raw_->captive)
    hotslot::refuse(family, call, status::capture_invalidated, "STREAM_CAPTURE_INVALIDATED", "the driver would not end this stream's capture",
                    "close the stream and make another one");
}

// Bookkeeping first, then the driver; when that says no inside a capture, the two differ and the capture is broken.
template <class F>
void CudaStream::issue(Work&& work, const char* call, F&& driver_call) {
  const auto check = [&](const Span& span) {
    if (!span.memory) return;
    require_family(family, *span.memory, "memory");
    refuse_revoked(*span.memory, call);
  };
  const Enter enter(driver_, device_.context);
  std::lock_guard guard(lane_->lock);
  refuse_captive(call);
  // Under the lock: a revocation puts its marks under it too, and either finds this work or is found here.
  check(work.to), check(work.from);
  for (auto& span : work.launch.spans) check(span);
  Busy busy;
  lane_->add(std::move(work), call, &busy);
  in_driver(busy, driver_call);
}

// Under the lane's lock.
template <class F>
void CudaStream::in_driver(const Busy& busy, F&& driver_call) {
  try {
    driver_call();
  } catch (const Error&) {
    if (busy.capture()) busy.capture()->invalidate();
    throw;
  }
}

void CudaStream::record(const Ref<Event>& ref, bool external) {
  require_family(family, *ref, "an event");
  auto& event = static_cast<CudaEvent&>(*ref);
  const char* call = driver_.call.event_record.name;
  const Enter enter(driver_, device_.context);
  std::lock_guard guard(lane_->lock);
  refuse_captive(call);
  Busy busy;
  if (external) {
    if (!driver_.call.event_record_with_flags) hotslot::refuse(family, call, status::not_supported, "NOT_SUPPORTED", "this driver has no event records inside graphs", "install a newer driver, or record outside the graph");
    if (!lane_->add(Work::record_of(ref), call, &busy))
      hotslot::refuse(family, call, status::invalid_value, "INVALID_VALUE", "an external record belongs in a capture, and none is open on this stream", "record it plainly");
    return in_driver(busy, [&] { driver_.check(driver_.call.event_record_with_flags, event.raw_.handle, raw_->handle, unsigned(event_record_external)); });
  }
  std::lock_guard event_guard(event.mark_.lock);
  const bool captured = lane_->record(event.mark_, call, &busy);
  event.done_ = false;
  if (!captured) event.recorded_ = true, event.on_ = raw_, event.fate_ = raw_->fate;
  in_driver(busy, [&] { driver_.check(driver_.call.event_record, event.raw_.handle, raw_->handle); });
}

// An error takes the whole context, or stays on its stream: waiting passes none on.
void CudaStream::wait(const Ref<Event>& ref, bool) {
  require_family(family, *ref, "an event");
  auto& event = static_cast<CudaEvent&>(*ref);
  const Enter enter(driver_, device_.context);
  std::lock_guard guard(lane_->lock);
  refuse_captive(driver_.call.stream_wait_event.name);
  Busy busy;
  std::lock_guard event_guard(event.mark_.lock);
  // Joining: what it was given before is no part of the capture and has no other mark.
  if (event.mark_.captured && !lane_->open()) raw_->before_capture = mark(*raw_);
  const bool inside = lane_->wait(event.mark_, event.recorded_, driver_.call.stream_wait_event.name, &busy);
  if (inside && !event.mark_.captured) return;  // never recorded: nothing to wait for
  if (!inside && event.recorded_ && event.on_.expired()) return;  // its stream is gone, and was idle
  in_driver(busy, [&] { driver_.check(driver_.call.stream_wait_event, raw_->handle, event.raw_.handle, 0u); });
}

// Kernels and fills go by the device's own address of the memory.
void CudaStream::require_reachable(const Span& span, const char* call) const {
  require_family(family, *span.memory, "memory");
  const CudaMemory& memory = memory_of(span);
  if (span.bytes == 0) return;
  if (memory.host && memory.host_kind == HostKind::pageable)
    hotslot::refuse(family, call, status::invalid_value, "INVALID_VALUE", "the device cannot reach host memory that is not pinned", "copy it to device memory first");
  if (!memory.host && !memory.managed && &memory.device != &device_)
    hotslot::refuse(family, call, status::invalid_value, "INVALID_VALUE", "the memory is another device's", "copy it to this device first");
}

void CudaStream::copy(const Span& to, const Span& from) {
  const auto& call = driver_.call;
  issue(Work::copy_of(to, from), call.memcpy_async.name, [&] {
    if (to.bytes == 0) return;
    auto &target = memory_of(to), &source = memory_of(from);
    const bool managed = target.managed || source.managed;  // has no side of its own
    const bool to_here = !managed && !target.host && &target.device == &device_, from_here = !managed && !source.host && &source.device == &device_;
    if (source.host && to_here) return driver_.check(call.memcpy_htod_async, on_device(to), static_cast<const void*>(from.address()), to.bytes, raw_->handle);
    if (target.host && from_here) return driver_.check(call.memcpy_dtoh_async, static_cast<void*>(to.address()), on_device(from), to.bytes, raw_->handle);
    if (to_here && from_here) return driver_.check(call.memcpy_dtod_async, on_device(to), on_device(from), to.bytes, raw_->handle);
    if (!managed && !source.host && !target.host && &source.device != &target.device) {
      target.cuda().reach(source.cuda());
      source.cuda().reach(target.cuda());
      return driver_.check(call.memcpy_peer_async, on_device(to), target.cuda().context, on_device(from), source.cuda().context, to.bytes, raw_->handle);
    }
    // Managed memory, host memories, another device's and the host's: there is one address space, and the driver finds out.
    const auto at = [](const Span& span) { return memory_of(span).host ? DevicePtr(span.address()) : on_device(span); };
    driver_.check(call.memcpy_async, at(to), at(from), to.bytes, raw_->handle);
  });
}

void CudaStream::fill(const Span& to, const void* pattern, size_t pattern_bytes) {
  const auto& call = driver_.call;
  Work work = Work::fill_of(to, pattern, pattern_bytes);
  const uint64_t value = work.pattern;
  // Eight bytes are more than the driver can set, unless both halves are alike.
  const bool halves = pattern_bytes == 8 && uint32_t(value) == uint32_t(value >> 32);
  require_reachable(to, call.memset_d8_async.name);
  const Kernel* const kernel = pattern_bytes == 8 && !halves ? find_kernel("fill") : nullptr;
  if (kernel) device_.function(*kernel);
  issue(std::move(work), call.memset_d8_async.name, [&] {
    const DevicePtr at = on_device(to);
    const size_t count = to.bytes / pattern_bytes;
    if (count == 0) return;
    if (kernel) {
      KernelArgs args{};
      args.whole[0] = int64_t(count);
      args.whole[1] = int64_t(value);
      return run(*kernel, args, {at});
    }
    if (pattern_bytes == 1) return driver_.check(call.memset_d8_async, at, static_cast<unsigned char>(value), count, raw_->handle);
    if (pattern_bytes == 2) return driver_.check(call.memset_d16_async, at, static_cast<unsigned short>(value), count, raw_->handle);
    driver_.check(call.memset_d32_async, at, unsigned(value), halves ? 2 * count : count, raw_->handle);
  });
}

// Of matrix products: each capture has one of its own, since its graph may run beside whatever the stream does next.
Ref<Memory> CudaStream::workspace() {
  Ref<Capture> capture;
  {
    std::lock_guard guard(lane_->lock);
    capture = lane_->open();
  }
  std::lock_guard guard(workspace_lock_);
  auto& room = capture ? captured_workspace_ : workspace_;
  if (!room || (capture && workspace_of_.lock() != capture)) room = device_.scratch(Blas::workspace_bytes);
  if (capture) workspace_of_ = capture;
  return room;
}

void CudaStream::launch(Launch&& launch) {
  const Kernel& kernel = *launch.kernel;
  const KernelArgs args = launch.args;
  for (auto& span : launch.spans) require_reachable(span, driver_.call.launch_kernel.name);
  std::vector<DevicePtr> pointers;
  for (auto& span : launch.spans) pointers.push_back(on_device(span));
  Blas* const blas = std::strcmp(kernel.name, "gemm") == 0 ? device_.blas() : nullptr;
  if (!blas) device_.function(kernel);  // what cannot run is refused before it can break a capture
  Work work = Work::of(std::move(launch));
  if (blas) {
    work.from = Span{workspace(), 0, Blas::workspace_bytes};  // graphs hold it
  }
  const DevicePtr room = blas ? static_cast<CudaMemory&>(*work.from.memory).on_device : 0;
  issue(std::move(work), driver_.call.launch_kernel.name, [&] {
    if (blas) return blas->gemm(raw_->handle, room, args, pointers[0], pointers[1], pointers[2]);
    run(kernel, args, pointers);
  });
}

// Arguments in the kernel's order: pointers, whole numbers, reals as floats. As many threads as the output has elements; every
// kernel strides over what is more.
void CudaStream::run(const Kernel& kernel, const KernelArgs& args, const std::vector<DevicePtr>& pointers) {
  uint64_t need[max_pointers]{};
  kernel.need(args, need);
  const uint64_t threads = std::max<uint64_t>(need[0] / 4, 1);
  const unsigned blocks = unsigned(std::min<uint64_t>((threads + block_threads - 1) / block_threads, device_.most_blocks()));
  float reals[max_floats];
  void* values[max_pointers + max_wholes + max_floats];
  int n = 0;
  for (int i = 0; i < kernel.pointers; ++i) values[n++] = const_cast<DevicePtr*>(&pointers[size_t(i)]);
  for (int i = 0; i < kernel.wholes; ++i) values[n++] = const_cast<int64_t*>(&args.whole[i]);
  for (int i = 0; i < kernel.reals; ++i) reals[i] = float(args.real[i]), values[n++] = &reals[i];
  driver_.check(driver_.call.launch_kernel, device_.function(kernel), blocks, 1u, 1u, block_threads, 1u, 1u, 0u, raw_->handle, static_cast<void**>(values),
                static_cast<void**>(nullptr));
}

void CudaStream::replay(const Ref<Exec>& exec) {
  require_family(family, *exec, "a graph");
  const Enter enter(driver_, device_.context);
  std::lock_guard guard(lane_->lock);
  refuse_captive(driver_.call.graph_launch.name);
  lane_->forbid(driver_.call.graph_launch.name, "a graph cannot be replayed into a capture", "capture its work directly");
  static_cast<CudaExec&>(*exec).launch(raw_);
}

void CudaStream::prefetch(const Span& span, int device) {
  require_family(family, *span.memory, "memory");
  const char* call = driver_.call.mem_prefetch_v1.name;
  const Enter enter(driver_, device_.context);
  const Relaxed relaxed(driver_);
  std::lock_guard guard(lane_->lock);
  refuse_captive(call);
  lane_->forbid(call, "a prefetch is no part of a graph", "prefetch before the capture, or before a replay: the address stays the same");
  if (span.bytes != 0) driver_.prefetch(on_device(span), span.bytes, device, raw_->handle);
}

bool CudaStream::query() {
  forbid_in_capture(family, "streamQuery");
  const Enter enter(driver_, device_.context);
  std::lock_guard guard(lane_->lock);
  refuse_captive(driver_.call.stream_query.name);
  lane_->forbid("streamQuery", "the stream is capturing", "end the capture first");
  if (!driver_.may_poll()) return false;
  const Relaxed relaxed(driver_);
  const Status got = driver_.call.stream_query(raw_->handle);
  if (got == status::not_ready) return false;
  if (got != status::success) driver_.refuse(driver_.call.stream_query.name, got);
  return true;
}

void CudaStream::begin_capture() {
  device_.prepare();
  const Enter enter(driver_, device_.context);
  try {
    std::lock_guard guard(lane_->lock);
    refuse_captive(driver_.call.stream_begin_capture.name);
    lane_->begin();
    const Ref<Capture> capture = lane_->open();
    raw_->before_capture = mark(*raw_);
    // Counted before it begins: nobody asks for events any more.
    driver_.open_captures.fetch_add(1);
    try {
      driver_.check(driver_.call.stream_begin_capture, raw_->handle, capture_thread_local);
    } catch (const Error&) {
      driver_.open_captures.fetch_sub(1);
      throw;
    }
    capture->abandoned = [raw = raw_](const std::vector<Ref<Lane>>& lanes) {
      Driver& driver = raw->device.driver;
      GraphHandle graph = nullptr;
      if (!driver.ends_broken_captures) join(*raw, lanes);
      end_in_driver(*raw, graph);
      // Another thread than the one that began it cannot end it at all: the stream goes with its capture, and at once, for
      // whoever joined is free behind this.
      if (raw->captive) raw->destroy();
      if (graph) raw->device.give_back(driver.call.graph_destroy, graph);
      driver.open_captures.fetch_sub(1);
    };
  } catch (const Error& error) {
    // 1: it was capturing before, and goes on.
    if (error.status != status::invalid_value || std::strcmp(error.call, "streamBeginCapture") != 0) lane_->abandon();
    forget_capture();
    throw;
  }
}

// A stream that lives long does not keep an event for a capture that is over.
void CudaStream::forget_capture() {
  std::shared_ptr<Mark> mark;  // goes without the lock
  std::lock_guard guard(lane_->lock);
  if (!lane_->open() && !raw_->captive) mark.swap(raw_->before_capture);
}

Ref<Graph> CudaStream::end_capture() {
  const Enter enter(driver_, device_.context);
  GraphHandle handle = nullptr;
  Status got = status::success;
  const auto end = [&](const std::vector<Ref<Lane>>& unjoined) {
    if (!driver_.ends_broken_captures) join(*raw_, unjoined);
    got = end_in_driver(*raw_, handle);
    driver_.open_captures.fetch_sub(1);
  };
  Ref<Capture> capture;
  try {
    capture = lane_->end(end);
    forget_capture();
  } catch (const Error&) {
    if (handle) device_.give_back(driver_.call.graph_destroy, handle);
    forget_capture();
    throw;
  }
  if (got != status::success) driver_.refuse(driver_.call.stream_end_capture.name, got);
  return std::make_shared<CudaGraph>(device_, handle, std::move(capture));
}

bool CudaStream::capturing() {
  std::lock_guard guard(lane_->lock);
  return lane_->open() != nullptr;
}

Ref<Stream> CudaDevice::create_stream(int priority) { return std::make_shared<CudaStream>(*this, priority); }
Ref<Event> CudaDevice::create_event(bool timing) { return std::make_shared<CudaEvent>(*this, timing); }

}  // namespace hotslot::cuda
