// The shared code of all families' streams. It checks the family, the device and the rules of
// captures, and throws their errors. It then calls the family's do_… function under the lock of the
// stream's membership.
#include <exception>

#include "device/core/capture.hpp"

namespace hotslot {
namespace {

// Runs `driver_call`, which passes a recorded operation to the driver. If it throws, the driver's
// capture lacks an operation of our record, so the capture is broken.
template <class F>
void in_driver(const CallInProgress& in_progress, F&& driver_call) {
  try {
    driver_call();
  } catch (...) {
    in_progress.capture()->invalidate();
    throw;
  }
}

}  // namespace

Stream::Stream(Device& device, Ref<void> hold)
    : Object(Kind::stream, device.family),
      device(device),
      products(device.products),
      membership_(std::make_shared<CaptureMembership>(device.family, std::move(hold))) {}

Stream::~Stream() { leave_captures(); }

void Stream::leave_captures() {
  if (membership_) membership_->abandon();
  membership_.reset();
}

// If another thread is ending the stream's capture, waits for the end. Then throws if the stream
// has failed.
void Stream::check(const char* call) {
  membership_->open();
  do_check(call);
}

void Stream::open_guard(const Span& word, int64_t every) {
  if (!device.guards())
    throw unavailable("guarded: ", family, ":", device.index,
                      " cannot skip single work by a word in its memory; use a CPU device");
  require_family(family, *word.memory, "the word of a guard");
  if (uintptr_t(word.address()) % sizeof(int32_t) != 0)
    throw range("guarded: the word must begin at a multiple of 4 bytes, got offset ", word.offset);
  if (every < 1 || every > INT32_MAX)
    throw range("guarded: every must be from 1 to ", INT32_MAX, ", got ", every);
  OwnGuard::open(membership_, {word, int32_t(every)});
}

void Stream::forbid_guarded(const char* call) const {
  if (OwnGuard::of(*membership_))
    refuse(family, call, refusal::invalid_value,
           "a guarded function enqueues only launches, copies and fills on its stream",
           "call it before or after the guarded function");
}

// ---- work ---------------------------------------------------------------------------------------

void Stream::enqueue(Work&& work, const char* call) {
  for (const Span* span : {&work.to, &work.from})
    if (span->memory) require_family(family, *span->memory, "memory");
  for (auto& span : work.launch.spans) require_family(family, *span.memory, "memory");
  // Called before the work is added to a capture. If the work cannot run here, do_prepare() throws,
  // and the capture stays intact.
  do_prepare(work, call);
  if (const Guard* guard = OwnGuard::of(*membership_)) work.guard = *guard;
  std::lock_guard guard(membership_->lock);
  check(call);
  CallInProgress in_progress;
  if (const Work* captured = membership_->add(std::move(work), call, in_progress))
    return in_driver(in_progress, [&] { do_captured_work(*captured, call); });
  if (work.type == Work::record)
    refuse(family, call, refusal::invalid_value,
           "an external record must be inside a capture, and this stream is not capturing",
           "record it plainly");
  do_work(std::move(work), call);
}

void Stream::copy(const Span& to, const Span& from) {
  enqueue(Work::copy_of(to, from), "memcpyAsync");
}

void Stream::fill(const Span& to, const void* pattern, size_t pattern_bytes) {
  enqueue(Work::fill_of(to, pattern, pattern_bytes), "memsetAsync");
}

void Stream::launch(Launch&& launch) { enqueue(Work::of(std::move(launch)), "launchKernel"); }

void Stream::replay(const Ref<Exec>& exec) {
  const char* call = "graphLaunch";
  require_family(family, *exec, "a graph");
  require_device(device, exec->device, "a graph", "be replayed",
                 "replay it on a stream of its own device");
  forbid_guarded(call);
  std::lock_guard guard(membership_->lock);
  check(call);
  membership_->forbid(call, "a graph cannot be replayed into a capture",
                      "capture its work directly");
  do_replay(exec);
}

void Stream::prefetch(const Span& span, int device) {
  const char* call = "memPrefetchAsync";
  require_family(family, *span.memory, "memory");
  forbid_guarded(call);
  std::lock_guard guard(membership_->lock);
  check(call);
  membership_->forbid(
      call, "a graph cannot contain a prefetch",
      "prefetch before the capture, or before a replay: the address stays the same");
  do_prefetch(span, device);
}

// ---- events -------------------------------------------------------------------------------------

void Stream::record(const Ref<Event>& event, bool external) {
  const char* call = "eventRecord";
  require_family(family, *event, "an event");
  require_device(device, event->device, "an event", "be recorded",
                 "record one of the stream's device, and streams of both can wait for it");
  forbid_guarded(call);
  if (external) return enqueue(Work::record_of(event), call);
  std::lock_guard guard(membership_->lock);
  check(call);
  std::lock_guard event_guard(event->capture_mark.lock);
  CallInProgress in_progress;
  if (membership_->record(event->capture_mark, call, in_progress))
    return in_driver(in_progress, [&] { do_captured_record(*event); });
  // The driver's call comes first, so the event is unchanged if the call fails.
  do_record(*event);
  event->recorded_outside();
}

void Stream::wait(const Ref<Event>& event, bool order_only) {
  const char* call = "streamWaitEvent";
  require_family(family, *event, "an event");
  if (!device.orders(event->device))
    throw argument("an event of ", family, ":", event->device.index, " cannot be waited for on ",
                   family, ":", device.index, ": the two belong to different drivers");
  forbid_guarded(call);
  std::lock_guard guard(membership_->lock);
  check(call);
  std::lock_guard event_guard(event->capture_mark.lock);
  CallInProgress in_progress;
  const bool may_join = device.joins(event->device);
  switch (membership_->wait(event->capture_mark, event->recorded, may_join, call, in_progress)) {
    case CaptureMembership::Wait::refused:
      throw argument("a stream of ", family, ":", device.index,
                     " cannot take part in a capture of ", family, ":", event->device.index,
                     ", whose graph runs there alone: capture what each device does by itself, ",
                     "and order the two by events outside");
    case CaptureMembership::Wait::outside:
      return do_wait(*event, order_only);
    case CaptureMembership::Wait::nothing:
      return;
    case CaptureMembership::Wait::inside:
      return in_driver(in_progress, [&] { do_captured_wait(*event, false); });
    case CaptureMembership::Wait::joins:
      return in_driver(in_progress, [&] { do_captured_wait(*event, true); });
  }
}

bool Stream::query() {
  const char* call = "streamQuery";
  forbid_in_capture(family, call);
  std::lock_guard guard(membership_->lock);
  membership_->forbid(call, "the stream is capturing", "end the capture first");
  check(call);
  return do_query();
}

// ---- captures -----------------------------------------------------------------------------------

bool Stream::capturing() {
  std::lock_guard guard(membership_->lock);
  return membership_->open() != nullptr;
}

void Stream::begin_capture() {
  forbid_guarded("streamBeginCapture");
  do_prepare_capture();
  try {
    std::lock_guard guard(membership_->lock);
    check("streamBeginCapture");
    const Ref<Capture> capture = membership_->begin();
    try {
      do_begin_capture(*capture);
    } catch (...) {
      capture->abandon();
      throw;
    }
  } catch (...) {
    do_capture_over();
    throw;
  }
}

Ref<Graph> Stream::end_capture() {
  forbid_guarded("streamEndCapture");
  struct Over {
    Stream& stream;
    ~Over() { stream.do_capture_over(); }
  } over{*this};
  Ref<Graph> graph;
  std::exception_ptr driver_said_no;
  membership_->end(
      [&](const Ref<Capture>& capture, const std::vector<Ref<CaptureMembership>>& unjoined) {
        try {
          graph = do_end_capture(capture, unjoined);
        } catch (...) {
          driver_said_no = std::current_exception();
        }
      });
  // Errors of our own capture rules are thrown before this error of the driver.
  if (driver_said_no) std::rethrow_exception(driver_said_no);
  return graph;
}

}  // namespace hotslot
