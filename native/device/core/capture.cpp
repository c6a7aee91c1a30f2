// Implements the rules of captures, which capture.hpp describes.
#include "device/core/capture.hpp"

#include <algorithm>
#include <new>

#include "wait/thread_own.hpp"

namespace hotslot {
namespace {

// The captures that this thread has open. Meanwhile the thread may not allocate, register or query,
// as in CUDA's thread-local mode. Only this thread can end these captures, so the destructor
// abandons them at the thread's end.
struct OpenCaptures {
  std::vector<std::weak_ptr<Capture>> list;
  ~OpenCaptures() {
    for (auto& weak : list)
      if (auto capture = weak.lock()) capture->abandon();
  }
  void prune() {
    const auto over = [](auto& weak) {
      auto capture = weak.lock();
      return !capture || capture->ended;
    };
    list.erase(std::remove_if(list.begin(), list.end(), over), list.end());
  }
};
// The get() of the result returns null until this thread begins a capture.
const ThreadOwn<OpenCaptures>& own_captures() {
  static const ThreadOwn<OpenCaptures> own;
  return own;
}
OpenCaptures* open_captures() { return own_captures().get(); }

const char* const end_call = "streamEndCapture";

// Runs `f`. If `f` throws, breaks the capture, because `f` may have recorded only a part of an
// operation.
template <class F>
auto all_or_broken(Capture& capture, F&& f) {
  try {
    return f();
  } catch (...) {
    capture.invalidate();
    throw;
  }
}

}  // namespace

void forbid_in_capture(const char* family, const char* call) {
  const OpenCaptures* const open = open_captures();
  if (!open) return;
  for (auto& weak : open->list)
    if (auto capture = weak.lock(); capture && !capture->ending) {
      capture->invalidate();
      refuse(
          family, call, refusal::capture_unsupported,
          "this thread has a capture open, which may only enqueue work",
          "allocate, register, query and synchronize before the capture begins or after it ends");
    }
}

bool thread_captures() {
  const OpenCaptures* const open = open_captures();
  return open && std::any_of(open->list.begin(), open->list.end(), [](auto& weak) {
           auto capture = weak.lock();
           return capture && !capture->ending;
         });
}

void forbid_captured(const char* family, const char* call, const CaptureMark& mark) {
  if (mark.captured)
    refuse(family, call, refusal::captured_event, "the event was last recorded inside a capture",
           "record it outside a capture before asking for it");
}

void Capture::abandon() {
  Members gone;  // freed after the lock is released, because freeing a member may free a capture
  decltype(abandoned) last;
  {
    std::lock_guard guard(lock);
    if (ending.exchange(true)) return;
    gone.swap(members);
    last.swap(abandoned);
  }
  settle();
  {
    // Streams wait for `ended`, so the destructor sets it even if the driver's call throws.
    struct End {
      Capture& capture;
      ~End() { capture.ended = true; }
    } end{*this};
    if (last) last(gone);
  }
  nodes.clear();  // no thread adds a node after `ending`
}

std::vector<Memory*> Capture::lent() const {
  std::vector<Memory*> found;
  each_memory([&](Memory& memory) {
    if (memory.host && std::find(found.begin(), found.end(), &memory) == found.end())
      found.push_back(&memory);
  });
  return found;
}

Ref<Capture> CaptureMembership::open() {
  while (capture_ && capture_->ending && !capture_->ended) sched_yield();
  if (capture_ && capture_->ended) capture_.reset();
  return capture_;
}

// The caller holds the capture's lock.
void CaptureMembership::refuse_broken(const Capture& capture, const char* call) const {
  if (capture.invalid || capture.ending)
    refuse(family_, call, refusal::capture_invalidated, "an earlier call broke this capture",
           "end the capture and look at its first error");
}

const Work* CaptureMembership::add(Work&& work, const char* call, CallInProgress& in_progress) {
  const Ref<Capture> capture = open();
  if (!capture) return nullptr;
  std::lock_guard inside(capture->lock);
  refuse_broken(*capture, call);
  in_progress.in(capture);
  return all_or_broken(*capture, [&] {
    Frontier& frontier = capture->members[shared_from_this()];
    const uint32_t index = uint32_t(capture->nodes.size());
    capture->nodes.push_back(std::move(work));
    capture->needs.emplace_back(frontier.begin(), frontier.end());
    frontier = {index};
    return &capture->nodes.back();
  });
}

bool CaptureMembership::record(CaptureMark& mark, const char* call, CallInProgress& in_progress) {
  const Ref<Capture> capture = open();
  if (!capture) return false;
  std::lock_guard inside(capture->lock);
  refuse_broken(*capture, call);
  in_progress.in(capture);
  Frontier here = all_or_broken(*capture, [&] { return capture->members[shared_from_this()]; });
  mark.captured = true;
  mark.capture = capture;
  mark.frontier = std::move(here);
  return true;
}

CaptureMembership::Wait CaptureMembership::wait(CaptureMark& mark, bool recorded, bool may_join,
                                                const char* call, CallInProgress& in_progress) {
  const Ref<Capture> mine = open();
  if (mark.captured) {
    const Ref<Capture> theirs = mark.capture.lock();
    if (!theirs || theirs->ending)
      refuse(family_, call, refusal::captured_event,
             "the event was recorded inside a capture that has ended",
             "record it again before waiting for it");
    if (mine && mine != theirs) {
      mine->invalidate();
      theirs->invalidate();
      refuse(family_, call, refusal::capture_merge, "the event belongs to another capture",
             "keep two captures apart, or capture both in one");
    }
    if (!mine && !may_join) return Wait::refused;
    // A wait for a captured event makes this stream join the capture. The stream must be joined
    // back before the capture ends.
    std::lock_guard inside(theirs->lock);
    refuse_broken(*theirs, call);
    in_progress.in(theirs);
    all_or_broken(*theirs, [&] {
      theirs->members[shared_from_this()].insert(mark.frontier.begin(), mark.frontier.end());
    });
    capture_ = theirs;
    return mine ? Wait::inside : Wait::joins;
  }
  if (mine && recorded) {
    mine->invalidate();
    refuse(family_, call, refusal::capture_isolation, "the event was recorded outside this capture",
           "record it inside the capture, or wait for it before the capture begins");
  }
  return mine ? Wait::nothing : Wait::outside;
}

void CaptureMembership::forbid(const char* call, const char* why, const char* advice) {
  const Ref<Capture> capture = open();
  if (!capture) return;
  capture->invalidate();
  refuse(family_, call, refusal::capture_unsupported, why, advice);
}

Ref<Capture> CaptureMembership::begin() {
  if (open())
    refuse(family_, "streamBeginCapture", refusal::invalid_value, "the stream is capturing already",
           "end that capture first");
  auto made = std::make_shared<Capture>();
  made->origin = this;
  made->thread = std::this_thread::get_id();
  made->members[shared_from_this()];
  OpenCaptures& open = own_captures().made();
  open.prune();
  open.list.push_back(made);
  return capture_ = std::move(made);
}

CaptureMembership::Ending CaptureMembership::take() {
  Ending ending;
  std::lock_guard guard(lock);
  if (!open())
    refuse(family_, end_call, refusal::invalid_value, "no capture is open on this stream",
           "begin one first");
  if (capture_->origin != this) {
    capture_->invalidate();
    refuse(family_, end_call, refusal::capture_unmatched, "the capture began on another stream",
           "end it on the stream it began on");
  }
  if (capture_->thread != std::this_thread::get_id())
    refuse(family_, end_call, refusal::capture_wrong_thread, "the capture began in another thread",
           "end it in the thread that began it");
  ending.capture = capture_;
  std::lock_guard inside(ending.capture->lock);
  // From here on no thread adds work. Member streams wait until the driver has ended the capture
  // too.
  ending.capture->ending = true;
  ending.members.swap(ending.capture->members);
  ending.broken = ending.capture->invalid;
  try {
    find_unjoined(ending);
  } catch (const std::bad_alloc&) {
    // The capture still ends, because streams wait for its end.
    ending.no_memory = true;
  }
  return ending;
}

// Walks back from the last work of the origin stream along the dependencies. A stream with work
// that this walk does not reach was forked off and never joined back. The caller holds the
// capture's lock.
void CaptureMembership::find_unjoined(Ending& ending) const {
  const Capture& capture = *ending.capture;
  if (ending.broken) {
    // The record of a broken capture may be incomplete, so every other stream counts as unjoined. A
    // driver may require that these streams are joined before it ends the capture.
    for (auto& [membership, frontier] : ending.members)
      if (membership.get() != this) ending.unjoined.push_back(membership);
    return;
  }
  std::vector<bool> seen(capture.nodes.size());
  std::vector<uint32_t> stack;
  for (auto& [membership, frontier] : ending.members)
    if (membership.get() == this) stack.assign(frontier.begin(), frontier.end());
  while (!stack.empty()) {
    const uint32_t index = stack.back();
    stack.pop_back();
    if (seen[index]) continue;
    seen[index] = true;
    stack.insert(stack.end(), capture.needs[index].begin(), capture.needs[index].end());
  }
  for (auto& [membership, frontier] : ending.members)
    if (std::any_of(frontier.begin(), frontier.end(), [&](uint32_t index) { return !seen[index]; }))
      ending.unjoined.push_back(membership);
}

// Releases the members' references to the capture. A member stream may be idle for long, and only
// the graph should keep the captured work alive. Takes one lock at a time.
void CaptureMembership::forget(const Ending& ending) {
  for (auto& [membership, frontier] : ending.members) {
    std::lock_guard guard(membership->lock);
    if (membership->capture_ == ending.capture)
      membership->capture_.reset();  // `ending` still has a reference
  }
}

void CaptureMembership::judge(const Ending& ending) const {
  if (OpenCaptures* const open = open_captures()) open->prune();
  if (ending.no_memory) throw std::bad_alloc();
  if (ending.broken)
    refuse(family_, end_call, refusal::capture_invalidated, "a call broke this capture",
           "look at the first error inside it");
  if (!ending.unjoined.empty())
    refuse(family_, end_call, refusal::capture_unjoined,
           "another stream joined the capture and was not joined back",
           "record an event there and wait for it on the first stream");
}

void CaptureMembership::abandon() {
  Ref<Capture> capture;
  {
    std::lock_guard guard(lock);
    capture = open();
  }
  if (capture && capture->origin == this) capture->abandon();
}

}  // namespace hotslot
