// Finds conflicts: two operations that touch the same bytes, of which at least one writes, and
// which nothing orders. The detector compares what the program asked for. It does not matter in
// which order the operations happened to run.
//
// Every software driver reports what the program enqueues, records, waits for and queries. The
// rules are:
// - An operation comes after all earlier operations of its queue, if the queue keeps an order. It
//   comes after everything that its queue waits for by events, as recorded at the time of the wait.
//   A node of a graph comes after the nodes that it has edges from. A whole graph comes after all
//   earlier operations of its queue.
// - An operation comes after everything that the host knew to be done when the operation was
//   enqueued. If a query or wait of any thread finds an operation done, all threads count as
//   knowing that. Threads inform each other through words in memory, which no driver sees. The
//   detector therefore assumes too much order between host threads, and never between queues.
// - Nothing else is an order: neither a hardware queue that streams share, nor a call that happened
//   to wait, nor time.
// - Memory may return to the driver only after the host knows that all operations on the memory are
//   done.
//
// HOTSLOT_SOFTWARE_ORDER=1 turns the detector on. A conflict is counted like every complaint, and
// ends the process if HOTSLOT_SOFTWARE_STRICT=abort.
#pragma once
#include <algorithm>
#include <deque>
#include <iterator>
#include <memory>

#include "steering.hpp"

namespace hotslot::software {

// A vector clock. Operations form chains, and within a chain each operation comes after the one
// before. A clock stores, for each chain, the number of operations that come before this point.
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

// How a conflict names an operation: its kind, its queue, and its node if it belongs to a graph.
struct Named {
  const char* what;
  uint64_t queue;
  int node = -1;
};

// One operation and its position in the order.
struct Step {
  Named name;
  uint64_t number = 0;
  size_t chain = 0;
  uint64_t count = 0;  // position in its chain, counted from 1
  Clock clock;         // everything before this operation, and the operation
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
  // Turns the detector off. After an injected failure the host may believe that work is done which
  // is not.
  static void off() { wanted().store(false); }

  // Adds the next operation after `clock`, and advances `clock` to include the operation. `clock`
  // must contain what the host knew when the operation was enqueued, because later knowledge orders
  // nothing. The touched bytes are given now or, with `later`, to runs().
  StepRef step(Clock& clock, Named name, const std::vector<Touch>& touches, bool later = false) {
    std::lock_guard guard(lock_);
    auto step = std::make_shared<Step>();
    // Uses any chain whose last operation comes before this one. There are then as many chains as
    // operations were ever concurrent.
    while (step->chain < ends_.size() && clock.of(step->chain) < ends_[step->chain]) step->chain++;
    if (step->chain == ends_.size()) ends_.push_back(0);
    clock.set(step->chain, ++ends_[step->chain]);
    step->name = name, step->number = ++numbers_, step->count = ends_[step->chain],
    step->clock = clock;
    for (auto& each : touches) enter(step, each);
    if (later) later_.push_back(step);
    return step;
  }
  // Adds the bytes of a `later` operation, which runs now.
  void runs(const StepRef& step, const std::vector<Touch>& touches) {
    std::lock_guard guard(lock_);
    later_.erase(std::remove(later_.begin(), later_.end(), step), later_.end());
    for (auto& each : touches) enter(step, each);
  }
  // The host has found everything before `clock` done, or failed for good.
  void seen(const Clock& clock) {
    std::lock_guard guard(lock_);
    host_.join(clock);
  }
  Clock host() {
    std::lock_guard guard(lock_);
    return host_;
  }
  // Removes memory that returns to the driver. The next owner of the address has no order with the
  // operations before. Complains if the host does not know that these are done.
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

  // Splits the part that contains `at`, if one does. Returns the first part that begins at or after
  // `at`.
  Parts::iterator cut(uintptr_t at) {
    const auto next = parts_.lower_bound(at);
    if (next == parts_.begin()) return next;
    const auto before = std::prev(next);
    if (before->second.end <= at) return next;
    const auto made = parts_.emplace_hint(next, at, before->second);
    before->second.end = at;
    return made;
  }

  // Returns whether `step` comes before every operation that has not given its bytes yet.
  bool settled(const Step& step) const {
    return std::all_of(later_.begin(), later_.end(),
                       [&](auto& each) { return step.before(*each); });
  }

  void enter(const StepRef& step, const Touch& touch) {
    if (touch.bytes == 0) return;
    // Operations of a failed stream never run, so the oldest of `later_` are dropped.
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
      // Everything after this access also comes after the covered accesses, so the list no longer
      // needs them.
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

  // Merges a part with the part before it if both have the same accesses. Returns the part that
  // follows.
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
    if (told_ == second.step) return;  // reports each operation once
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
  std::vector<uint64_t> ends_;  // number of operations of each chain
  Clock host_;
  Parts parts_;
  std::deque<StepRef> later_;  // operations that have not given their bytes yet
  StepRef told_;
};

}  // namespace hotslot::software
