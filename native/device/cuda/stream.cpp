// CUDA's and ROCm's streams.
#include <cstring>

#include "device/core/product_limits.hpp"
#include "device/cuda/blas.hpp"
#include "device/cuda/graph.hpp"

namespace hotslot::cuda {
namespace {

constexpr unsigned block_threads = 256;

CudaMemory& memory_of(const Span& span) { return static_cast<CudaMemory&>(*span.memory); }
DevicePtr on_device(const Span& span) { return memory_of(span).on_device + span.offset; }

// Returns whether a launch is a matrix product that is large enough for the vendor's library.
bool is_large_product(const Launch& launch) {
  const Kernel& kernel = *launch.kernel;
  if (kernel.module || std::strncmp(kernel.name, "gemm", 4) != 0) return false;
  // m, n and k follow the two flags, and the number of products if there are several.
  const int64_t* const sizes = launch.args.whole + (kernel.wholes > 8 ? 3 : 2);
  return !is_own_product(sizes[0], sizes[1], sizes[2]);
}

// Returns whether both halves of an eight-byte pattern are equal. The driver cannot set other
// patterns of eight bytes.
bool halves_alike(const Work& fill) {
  return fill.pattern_bytes == 8 && uint32_t(fill.pattern) == uint32_t(fill.pattern >> 32);
}
const Kernel* kernel_for(const Work& fill) {
  return fill.pattern_bytes == 8 && !halves_alike(fill) ? find_kernel("fill") : nullptr;
}

template <class F>
void each_span(const Work& work, F&& see) {
  for (const Span* span : {&work.to, &work.from})
    if (span->memory) see(*span);
  for (auto& span : work.launch.spans) see(span);
}

}  // namespace

CudaStream::CudaStream(CudaDevice& device, int priority)
    : CudaStream(device, std::make_shared<RawStream>(device, priority)) {}

CudaStream::CudaStream(CudaDevice& device, const Ref<RawStream>& raw)
    : Stream(device, raw), device_(device), driver_(device.driver), raw_(raw) {
  std::lock_guard guard(device.streams_lock_);
  device.streams_.push_back({raw_, membership()});
}

CudaStream::~CudaStream() {
  // The stream's enqueued work continues. A matrix product may still use its workspace, so the
  // workspace is retired like all memory. If the stream is idle, the sweep destroys it at once.
  leave_captures();
  workspace_.reset();
  captured_workspace_.reset();
  raw_.reset();
  driver_.sweep();
}

void CudaStream::do_check(const char* call) {
  if (raw_->capture_stuck)
    hotslot::refuse(family, call, refusal::capture_invalidated,
                    "the driver would not end this stream's capture",
                    "close the stream and make another one");
}

// ---- work ---------------------------------------------------------------------------------------

// Throws for memory that kernels and fills on this device cannot reach.
void CudaStream::require_reachable(const Span& span, const char* call) const {
  const CudaMemory& memory = memory_of(span);
  if (span.bytes == 0) return;
  if (memory.host && memory.host_kind == HostKind::pageable)
    hotslot::refuse(family, call, refusal::invalid_value,
                    "the device cannot reach host memory that is not pinned",
                    "copy it to device memory first");
  if (!memory.host && !memory.managed && &memory.device != &device_)
    hotslot::refuse(family, call, refusal::invalid_value, "the memory is another device's",
                    "copy it to this device first");
}

void CudaStream::do_prepare(Work& work, const char* call) {
  each_span(work, [&](const Span& span) { refuse_revoked(*span.memory, call); });
  switch (work.type) {
    case Work::copy:
      if (!capturing() && !thread_captures()) stage(work);
      return;
    case Work::fill:
      require_reachable(work.to, call);
      if (const Kernel* kernel = kernel_for(work)) device_.function(*kernel);
      return;
    case Work::record:
      if (!driver_.call.event_record_with_flags)
        hotslot::refuse(family, call, {status::not_supported, "NOT_SUPPORTED"},
                        "this driver has no event records inside graphs",
                        "install a newer driver, or record outside the graph");
      return;
    case Work::kernel:
      for (auto& span : work.launch.spans) require_reachable(span, call);
      // The workspace becomes part of the work, so a graph keeps the workspace of its products
      // alive.
      if (Blas* const blas = is_large_product(work.launch) ? device_.blas() : nullptr;
          blas && blas->runs(*work.launch.kernel)) {
        if (capturing()) blas->rehearse(*work.launch.kernel, work.launch.args, products);
        work.from = Span{workspace(), 0, blas->workspace_bytes()};
      } else
        device_.function(*work.launch.kernel);
      return;
  }
}

// Allocates staging memory for a copy from host memory that is not pinned. `do_work` then copies
// the bytes to it before it returns. Without staging memory the driver would block the caller until
// the stream reaches the copy.
void CudaStream::stage(Work& work) {
  const Memory& from = *work.from.memory;
  if (!from.host || from.host_kind != HostKind::pageable || work.to.memory->host ||
      work.from.bytes == 0)
    return;
  try {
    work.launch.spans = {{device_.allocate_host(work.from.bytes), 0, work.from.bytes}};
  } catch (const Error&) {
    // Without pinned memory, the driver stages the copy itself.
  }
}

void CudaStream::do_work(Work&& work, const char* call) {
  // The caller holds the lock of the stream's membership. A revocation first stores `revoked`, then
  // takes this lock to create its marks. So either the revocation's marks come after this work, or
  // this check finds `revoked`.
  each_span(work, [&](const Span& span) { refuse_revoked(*span.memory, call); });
  if (work.type == Work::copy && !work.launch.spans.empty()) {
    Span staging = std::move(work.launch.spans[0]);
    std::memcpy(staging.address(), work.from.address(), staging.bytes);
    work.from = std::move(staging);
  }
  issue(work);
}

void CudaStream::do_captured_work(const Work& work, const char*) { issue(work); }

void CudaStream::issue(const Work& work) {
  const Enter enter(driver_, device_.context);
  switch (work.type) {
    case Work::copy:
      return issue_copy(work.to, work.from);
    case Work::fill:
      return issue_fill(work);
    case Work::kernel:
      return issue_kernel(work);
    case Work::record:
      const RawEvent& event = static_cast<CudaEvent&>(*work.event).raw_;
      return driver_.check(driver_.call.event_record_with_flags, event.handle, raw_->handle,
                           unsigned(event_record_external));
  }
}

CudaStream::Side CudaStream::side_of(const Span& span) const {
  const CudaMemory& memory = memory_of(span);
  if (memory.managed) return Side::managed;
  if (memory.host) return Side::host;
  return &memory.device == &device_ ? Side::here : Side::peer;
}

void CudaStream::issue_copy(const Span& to, const Span& from) {
  if (to.bytes == 0) return;
  const auto& call = driver_.call;
  const Side target = side_of(to), source = side_of(from);
  if (source == Side::host && target == Side::here)
    return driver_.check(call.memcpy_htod_async, on_device(to),
                         static_cast<const void*>(from.address()), to.bytes, raw_->handle);
  if (source == Side::here && target == Side::host)
    return driver_.check(call.memcpy_dtoh_async, static_cast<void*>(to.address()), on_device(from),
                         to.bytes, raw_->handle);
  if (source == Side::here && target == Side::here)
    return driver_.check(call.memcpy_dtod_async, on_device(to), on_device(from), to.bytes,
                         raw_->handle);
  const auto own = [](Side side) { return side == Side::here || side == Side::peer; };
  if (own(source) && own(target)) {
    CudaDevice &there = memory_of(to).cuda(), &here = memory_of(from).cuda();
    if (&there != &here) {
      there.reach(here);
      here.reach(there);
      return driver_.check(call.memcpy_peer_async, on_device(to), there.context, on_device(from),
                           here.context, to.bytes, raw_->handle);
    }
  }
  // In all other cases, the driver finds the direction from the addresses. Examples are managed
  // memory, host to host, and copies between the host and another device.
  const auto at = [](const Span& span) {
    return memory_of(span).host ? DevicePtr(span.address()) : on_device(span);
  };
  driver_.check(call.memcpy_async, at(to), at(from), to.bytes, raw_->handle);
}

void CudaStream::issue_fill(const Work& work) {
  const auto& call = driver_.call;
  const DevicePtr at = on_device(work.to);
  const uint64_t value = work.pattern;
  const size_t count = work.to.bytes / work.pattern_bytes;
  if (count == 0) return;
  if (const Kernel* kernel = kernel_for(work)) {
    KernelArgs args{};
    args.whole[0] = int64_t(count);
    args.whole[1] = int64_t(value);
    return run(*kernel, args, {at}, {uint64_t(work.to.bytes)});
  }
  if (work.pattern_bytes == 1)
    return driver_.check(call.memset_d8_async, at, static_cast<unsigned char>(value), count,
                         raw_->handle);
  if (work.pattern_bytes == 2)
    return driver_.check(call.memset_d16_async, at, static_cast<unsigned short>(value), count,
                         raw_->handle);
  driver_.check(call.memset_d32_async, at, unsigned(value), halves_alike(work) ? 2 * count : count,
                raw_->handle);
}

// Returns the workspace for matrix products. Each capture has a workspace of its own, because its
// graph may run while the stream does other work.
Ref<Memory> CudaStream::workspace() {
  Ref<Capture> capture;
  {
    std::lock_guard guard(membership()->lock);
    capture = membership()->open();
  }
  std::lock_guard guard(workspace_lock_);
  auto& room = capture ? captured_workspace_ : workspace_;
  if (!room || (capture && workspace_of_.lock() != capture))
    room = device_.scratch(device_.blas()->workspace_bytes());
  if (capture) workspace_of_ = capture;
  return room;
}

void CudaStream::issue_kernel(const Work& work) {
  std::vector<DevicePtr> pointers;
  for (auto& span : work.launch.spans) pointers.push_back(on_device(span));
  if (!work.from.memory)
    return run(*work.launch.kernel, work.launch.args, pointers, work.launch.output());
  device_.blas()->multiply(raw_->handle, memory_of(work.from).on_device, work.from.bytes,
                           *work.launch.kernel, work.launch.args, pointers.data(), products);
}

// Launches a kernel. Its arguments are pointers, then whole numbers, then reals as floats.
void CudaStream::run(const Kernel& kernel, const KernelArgs& args,
                     const std::vector<DevicePtr>& pointers, const Reach& output) {
  const auto blocks =
      unsigned(kernel.blocks(output, args.whole, block_threads, device_.max_blocks()));
  float reals[max_floats];
  void* values[max_pointers + max_wholes + max_floats];
  int n = 0;
  for (int i = 0; i < kernel.pointers; ++i)
    values[n++] = const_cast<DevicePtr*>(&pointers[size_t(i)]);
  for (int i = 0; i < kernel.wholes; ++i) values[n++] = const_cast<int64_t*>(&args.whole[i]);
  for (int i = 0; i < kernel.reals; ++i) {
    reals[i] = float(args.real[i]);
    values[n++] = &reals[i];
  }
  driver_.check(driver_.call.launch_kernel, device_.function(kernel), blocks, 1u, 1u, block_threads,
                1u, 1u, 0u, raw_->handle, static_cast<void**>(values),
                static_cast<void**>(nullptr));
}

void CudaStream::do_replay(const Ref<Exec>& exec) {
  const Enter enter(driver_, device_.context);
  static_cast<CudaExec&>(*exec).launch(raw_);
}

void CudaStream::do_prefetch(const Span& span, int device) {
  if (span.bytes == 0) return;
  const Enter enter(driver_, device_.context);
  const RelaxedCaptureMode relaxed(driver_);
  driver_.prefetch(on_device(span), span.bytes, device, raw_->handle);
}

// ---- events -------------------------------------------------------------------------------------

void CudaStream::do_record(Event& each) {
  auto& event = static_cast<CudaEvent&>(each);
  const Enter enter(driver_, device_.context);
  driver_.check(driver_.call.event_record, event.raw_.handle, raw_->handle);
  event.note(raw_);
}

void CudaStream::do_captured_record(Event& event) {
  const Enter enter(driver_, device_.context);
  driver_.check(driver_.call.event_record, static_cast<CudaEvent&>(event).raw_.handle,
                raw_->handle);
}

// Ignores `order_only`, because a wait passes no error of the event's stream on to this stream. In
// CUDA an error either loses the whole context or stays on its stream.
void CudaStream::do_wait(Event& each, bool) {
  auto& event = static_cast<CudaEvent&>(each);
  if (event.recorded && event.on_.expired()) return;  // its stream was idle and is destroyed
  const Enter enter(driver_, device_.context);
  const RawEvent& point = event.behind_ ? *event.behind_ : event.raw_;
  driver_.check(driver_.call.stream_wait_event, raw_->handle, point.handle, 0u);
}

void CudaStream::do_captured_wait(Event& event, bool joins) {
  const Enter enter(driver_, device_.context);
  // This wait makes the stream a member of the capture. The mark is after the stream's earlier
  // work, which is outside the capture. While the stream captures, the driver can create no other
  // mark for this work.
  if (joins) raw_->before_capture = mark(*raw_);
  driver_.check(driver_.call.stream_wait_event, raw_->handle,
                static_cast<CudaEvent&>(event).raw_.handle, 0u);
}

bool CudaStream::do_query() {
  if (!driver_.may_poll()) return false;
  const Enter enter(driver_, device_.context);
  const RelaxedCaptureMode relaxed(driver_);
  const Status got = driver_.call.stream_query(raw_->handle);
  if (got == status::not_ready) return false;
  if (got != status::success) driver_.refuse(driver_.call.stream_query.name, got);
  return true;
}

Ref<Stream> CudaDevice::create_stream(int priority) {
  return std::make_shared<CudaStream>(*this, priority);
}
Ref<Event> CudaDevice::create_event(bool timing) {
  return std::make_shared<CudaEvent>(*this, timing);
}

}  // namespace hotslot::cuda
