// What came before what: finds operations that touch the same bytes, one of them writing, with
// nothing that orders the two. It does not matter how they happened to meet: what is compared is
// what the program asked for.
//
// Known to every software driver, which says what is enqueued, recorded, waited for and looked at.
// The rules:
// - An operation comes after what its queue was given before it, where the queue keeps an order;
//   after what its queue waits for by events, as they were recorded then; in a graph after the
//   nodes that it has edges from, and the whole graph after what its queue was given before.
// - It comes after all that the host knew to be done when it enqueued it. What a query or a wait of
//   any thread has
// found
//   done is known to all threads from then on: they tell each other by words in memory, which no
//   driver sees, and a call that comes later comes later for all of them. So between threads of the
//   host the detector believes too much, between queues never.
// - Nothing else is an order: no queue of the hardware that streams share, no call that happened to
//   wait, no time.
// - Memory goes back to the driver when the host knows that all is done that touched it.
//
// HOTSLOT_SOFTWARE_ORDER=1 turns it on. A conflict is a complaint like others: it is counted, and
// HOTSLOT_SOFTWARE_STRICT=abort ends the process.
#pragma once
#include <algorithm>
#include <deque>
#include <iterator>
#include <memory>

#include "steering.hpp"

namespace hotslot::software {

// A point in the order. Operations form chains, each of them one behind the other; the point is
// behind so many of each.
class Clock {
 public:
  uint64_t of(size_t chain) const { return chain < counts_.size() ? counts_[chain] : 0; }
  void set(size_t chain, uint64_t count) {
    if (chain >= counts_.size()) counts_.resize(chain + 1);
    counts_[chain] = count;
  }
  void join(const Clock& other) {
    if (counts_.size() < other.counts_.size()) counts_.resize(other.counts_.size());
    for (size_t i = 0; i < other.counts_.size(); ++i)
      counts_[i] = std::max(counts_[i], other.counts_[i]);
  }

 private:
  std::vector<uint64_t> counts_;
};

// How a conflict names an operation: what it does, on which queue, as which node of a graph.
struct Named {
  const char* what;
  uint64_t queue;
  int node = -1;
};

// One operation and its place.
struct Step {
  Named name;
  uint64_t number = 0;
  size_t chain = 0;
  uint64_t count = 0;  // how manieth of its chain
  Clock clock;         // what it comes after, and itself
  bool before(const Step& other) const { return other.clock.of(chain) >= count; }
};
using StepRef = std::shared_ptr<const Step>;

struct Touch {
  uintptr_t at;
  uint64_t bytes;
  bool writes;
};

class Detector {
 public:
  using Say = void (*)(const std::string&);
  explicit Detector(Say say) : say_(say) {}

  static bool on() { return wanted().load(std::memory_order_relaxed); }
  // Where a call was made to fail, the host knows what is not so.
  static void off() { wanted().store(false); }

  // The next operation behind `clock`, which is behind it afterwards; what the host knew when it
  // was enqueued is in there: what it has found out since orders nothing. It has its bytes at once,
  // or `later`, when it runs.
  StepRef step(Clock& clock, Named name, const std::vector<Touch>& touches, bool later = false) {
    std::lock_guard guard(lock_);
    auto step = std::make_shared<Step>();
    // Any chain whose end it comes after: so there are as many chains as operations were ever side
    // by side.
    while (step->chain < ends_.size() && clock.of(step->chain) < ends_[step->chain]) step->chain++;
    if (step->chain == ends_.size()) ends_.push_back(0);
    clock.set(step->chain, ++ends_[step->chain]);
    step->name = name, step->number = ++numbers_, step->count = ends_[step->chain],
    step->clock = clock;
    for (auto& each : touches) enter(step, each);
    if (later) later_.push_back(step);
    return step;
  }
  // The bytes of one that runs now.
  void runs(const StepRef& step, const std::vector<Touch>& touches) {
    std::lock_guard guard(lock_);
    later_.erase(std::remove(later_.begin(), later_.end(), step), later_.end());
    for (auto& each : touches) enter(step, each);
  }
  // The host found it done, or failed for good.
  void seen(const Clock& clock) {
    std::lock_guard guard(lock_);
    host_.join(clock);
  }
  Clock host() {
    std::lock_guard guard(lock_);
    return host_;
  }
  // Memory that goes back; what lies there next is somebody else's.
  void gone(uintptr_t at, uint64_t bytes, const char* how) {
    std::lock_guard guard(lock_);
    const auto end = cut(at + bytes);
    for (auto part = cut(at); part != end; part = parts_.erase(part))
      for (auto& access : part->second.accesses)
        if (host_.of(access.step->chain) < access.step->count && told_ != access.step) {
          told_ = access.step;
          say_(std::string(how) + " of memory that " + text(access) +
               ", and the host does not know that to be done: it has to see an event behind it "
               "done first");
        }
  }

 private:
  struct Access {
    StepRef step;
    bool writes;
    bool operator==(const Access& other) const {
      return step == other.step && writes == other.writes;
    }
  };
  struct Part {
    uintptr_t end;
    std::vector<Access> accesses;
  };
  using Parts = std::map<uintptr_t, Part>;

  // The first part at or behind an address, which no part goes across afterwards.
  Parts::iterator cut(uintptr_t at) {
    const auto next = parts_.lower_bound(at);
    if (next == parts_.begin()) return next;
    const auto before = std::prev(next);
    if (before->second.end <= at) return next;
    const auto made = parts_.emplace_hint(next, at, before->second);
    before->second.end = at;
    return made;
  }

  // Whether nothing that is yet to say its bytes can be in conflict with it.
  bool settled(const Step& step) const {
    return std::all_of(later_.begin(), later_.end(),
                       [&](auto& each) { return step.before(*each); });
  }

  void enter(const StepRef& step, const Touch& touch) {
    if (touch.bytes == 0) return;
    // What a failed stream never came to is given up at last.
    constexpr uint64_t most = 4096;
    while (!later_.empty() && later_.front()->number + most < numbers_) later_.pop_front();
    const Access access{step, touch.writes};
    const uintptr_t end = touch.at + touch.bytes;
    cut(end);
    auto part = cut(touch.at);
    for (uintptr_t at = touch.at; at < end;) {
      if (part == parts_.end() || part->first > at) {
        const uintptr_t until = part == parts_.end() ? end : std::min(end, part->first);
        part = parts_.emplace_hint(part, at, Part{until, {}});
      }
      auto& accesses = part->second.accesses;
      for (auto& other : accesses)
        if ((other.writes || access.writes) && !other.step->before(*step) &&
            !step->before(*other.step))
          conflict(other, access, at, std::min(end, part->second.end));
      // What comes after this one comes after those too.
      const auto covered = [&](auto& other) {
        return (access.writes || !other.writes) && other.step->before(*step) &&
               settled(*other.step);
      };
      accesses.erase(std::remove_if(accesses.begin(), accesses.end(), covered), accesses.end());
      accesses.push_back(access);
      at = part->second.end;
      part = merged(part);
    }
    if (part != parts_.end()) merged(part);
  }

  // The part behind this one, which becomes one with the part before where both were touched alike.
  Parts::iterator merged(Parts::iterator part) {
    if (part != parts_.begin()) {
      const auto before = std::prev(part);
      if (before->second.end == part->first && before->second.accesses == part->second.accesses) {
        before->second.end = part->second.end;
        return parts_.erase(part);
      }
    }
    return std::next(part);
  }

  static std::string text(const Access& access) {
    const Named& name = access.step->name;
    return std::string(name.what) + " #" + std::to_string(access.step->number) + " on queue " +
           std::to_string(name.queue) +
           (name.node < 0 ? "" : ", node " + std::to_string(name.node) + " of a graph,") +
           (access.writes ? " writes" : " reads");
  }
  void conflict(const Access& first, const Access& second, uintptr_t at, uintptr_t end) {
    if (told_ == second.step) return;  // of one operation once
    told_ = second.step;
    char where[64];
    std::snprintf(where, sizeof where, "%zu bytes at 0x%zx", size_t(end - at), size_t(at));
    const bool inside = first.step->name.node >= 0 && second.step->name.node >= 0;
    say_("no order between two operations: " + text(first) + " " + where + " that " + text(second) +
         (inside ? ": an edge of the graph, or an event between the launches,"
                 : ": an event between the queues,") +
         " or a look of the host in between has to order them");
  }

  static std::atomic<bool>& wanted() {
    static std::atomic<bool> wanted{*environment("HOTSLOT_SOFTWARE_ORDER") != 0};
    return wanted;
  }

  const Say say_;
  std::mutex lock_;
  uint64_t numbers_ = 0;
  std::vector<uint64_t> ends_;  // of each chain
  Clock host_;
  Parts parts_;
  std::deque<StepRef> later_;  // those that have not said their bytes
  StepRef told_;
};

}  // namespace hotslot::software
