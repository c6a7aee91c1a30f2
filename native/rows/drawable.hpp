// The drawable steps of a view, in order: samplers draw their ordinals. Private to one reader,
// which updates the list from the places committed since its last look, without a search.
#pragma once
#include <cstdint>
#include <vector>

#include "rows/lanes.hpp"

namespace hotslot::rows {

// The places around a step that its view needs.
struct ViewRule {
  enum Edges : uint32_t { transitions, full, tail, anchor };
  enum Relabel : uint32_t { own, future, final, episode };
  Edges edges = transitions;
  // Steps of a transition, and the discount per step.
  uint32_t n = 1;
  double gamma = 1;
  // Steps of a window that are learned from, and steps before them.
  uint32_t length = 1, burn_in = 0;
  // Most frames of a stacked field, 1 if none is stacked.
  uint32_t frames = 1;
  Relabel relabel = own;
  double ratio = 0;

  uint64_t window() const { return uint64_t{burn_in} + length; }
  // Steps before its own that a view needs if the episode has them.
  uint32_t back() const { return frames - 1 + (edges == anchor ? burn_in : 0); }
  // Steps from its own on that it needs in a running episode, in addition to the observation after
  // them.
  uint64_t ahead() const { return edges == transitions ? n : edges == anchor ? length : window(); }
  // Steps from its own on that it needs in an episode that has ended.
  uint64_t least() const {
    return edges == full ? window() : edges == tail ? uint64_t{burn_in} + 1 : 1;
  }
};

class Drawable {
 public:
  struct Step {
    uint64_t lane, place;
    // Its position in the lane's ring.
    uint64_t at;
    // Places before it that its view needs and, for hindsight, steps after it to the end of its
    // episode.
    uint32_t reach, rest;
  };
  // Receives every step that becomes drawable, and every one that ceases to be.
  struct Listener {
    virtual void on_added(uint64_t lane, uint64_t place) = 0;
    virtual void on_removed(uint64_t lane, uint64_t place) = 0;
    // All drawable steps of the lane are about to be reported again.
    virtual void on_reset(uint64_t lane) = 0;
    // The lane is known up to span.to.
    virtual void on_advanced(uint64_t lane, const Span& span) = 0;
  };

  Drawable(const Lanes& lanes, const ViewRule& rule);

  // Takes the snapshot: one committed count per lane. Reports changes to the listener.
  void sync(Listener* listener = nullptr);
  // Reports all drawable steps again.
  void tell(Listener& listener) const;

  uint64_t count() const { return first_.back(); }
  Step at(uint64_t ordinal) const;
  // Does the same for `count` ordinals.
  void at(const uint32_t* ordinals, uint64_t count, Step* steps) const;
  // For places in the lane's ring, by the snapshot: the position of a place, and the place at a
  // position.
  uint64_t ring_place(uint64_t lane, uint64_t place) const {
    const State& state = states_[lane];
    const uint64_t at = state.oldest + (place - state.seen.from);
    return at >= lanes_.per_lane ? at - lanes_.per_lane : at;
  }
  uint64_t place_at(uint64_t lane, uint64_t at) const {
    const State& state = states_[lane];
    return state.seen.from +
           (at >= state.oldest ? at - state.oldest : at + lanes_.per_lane - state.oldest);
  }
  // Finds the step of a place. Returns false if it is not drawable.
  bool find(uint64_t lane, uint64_t place, Step& step) const;
  Span seen(uint64_t lane) const { return states_[lane].seen; }

 private:
  struct State {
    Span seen{0, 0};
    // seen.from mod per_lane.
    uint64_t oldest = 0;
    // The list has the entries [head, tail), entry e at e mod per_lane of the lane's part.
    uint64_t head = 0, tail = 0;
    // The running episode's first place, and its first step that is not judged yet.
    uint64_t start = 0, pending = 0;
    bool running = false;
  };

  void sync_lane(uint64_t lane, Listener* listener);
  void take(uint64_t lane, State& state, uint64_t place, const Note& note, uint64_t from,
            Listener* listener);
  void judge(uint64_t lane, State& state, uint64_t end, uint64_t needed, bool ended, uint64_t from,
             Listener* listener);
  uint64_t index_of(uint64_t lane, uint64_t entry) const;
  Step step_of(uint64_t lane, uint64_t index) const;
  Step entry(uint64_t lane, uint64_t entry) const { return step_of(lane, index_of(lane, entry)); }
  uint64_t lane_of(uint64_t ordinal) const;

  Lanes lanes_;
  ViewRule rule_;
  std::vector<State> states_;
  // For each entry: place mod per_lane and, if the rule needs them, the steps that its view reaches
  // back, and the steps after it.
  std::vector<uint32_t> at_, reach_, rest_;
  // Ordinal of each lane's first step, and at the end the number of all steps.
  std::vector<uint64_t> first_;
  std::vector<Note> notes_;
};

}  // namespace hotslot::rows
