// The list of the steps that a view can sample now, lane by lane, with each lane's oldest step
// first. Samplers draw ordinals, which are positions in this list. Each reader has its own list.
// sync() updates the list from only the places that were committed since the last sync().
#pragma once
#include <cstdint>
#include <vector>

#include "rows/lanes.hpp"

namespace hotslot::rows {

// Decides which places around a step its view needs.
struct ViewRule {
  enum Edges : uint32_t { transitions, full, tail, anchor };
  enum Relabel : uint32_t { own, future, final, episode };
  Edges edges = transitions;
  // Number of steps of a transition, and discount per step.
  uint32_t n = 1;
  double gamma = 1;
  // Number of steps of a window that are learned from, and number of burn-in steps before them.
  uint32_t length = 1, burn_in = 0;
  // Largest number of frames of a stacked field, or 1 if no field is stacked.
  uint32_t frames = 1;
  Relabel relabel = own;
  double ratio = 0;

  uint64_t window() const { return uint64_t{burn_in} + length; }
  // Returns how many steps before its own step a view needs. Near the start of an episode, it needs
  // only the steps that exist.
  uint32_t back() const { return frames - 1 + (edges == anchor ? burn_in : 0); }
  // Returns how many steps a view needs while the episode is running, counted from and including
  // its own step. The view also needs the observation after these steps.
  uint64_t ahead() const { return edges == transitions ? n : edges == anchor ? length : window(); }
  // Returns how many steps a view needs at least if the episode has ended, counted from and
  // including its own step.
  uint64_t least() const {
    return edges == full ? window() : edges == tail ? uint64_t{burn_in} + 1 : 1;
  }
};

class Drawable {
 public:
  struct Step {
    uint64_t lane, place;
    // Index in the lane's ring: `place` mod the number of places of the ring.
    uint64_t at;
    // `reach`: number of places before the step that the step's view needs. `rest`: for hindsight,
    // the number of steps after the step in its episode.
    uint32_t reach, rest;
  };
  // Receives every step that becomes drawable, and every step that is no longer drawable.
  struct Listener {
    virtual void on_added(uint64_t lane, uint64_t place) = 0;
    virtual void on_removed(uint64_t lane, uint64_t place) = 0;
    // Called before all drawable steps of the lane are reported again.
    virtual void on_reset(uint64_t lane) = 0;
    // Called at the end of the lane's update. The list then includes the lane's places below
    // span.to.
    virtual void on_advanced(uint64_t lane, const Span& span) = 0;
  };

  Drawable(const Lanes& lanes, const ViewRule& rule);

  // Takes a snapshot: reads the committed count of each lane and updates the list. Reports changes
  // to the listener.
  void sync(Listener* listener = nullptr);
  // Reports all drawable steps to the listener again.
  void tell(Listener& listener) const;

  uint64_t count() const { return first_.back(); }
  Step at(uint64_t ordinal) const;
  // Writes the steps of `count` ordinals to `steps`.
  void at(const uint32_t* ordinals, uint64_t count, Step* steps) const;
  // Return the index of a place in the lane's ring, and the place at an index. The ring must have
  // stored this place at the last sync().
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
  // Writes the step at `place` to `step`. Returns false if this step is not drawable. `step` is
  // then any step of the lane.
  bool find(uint64_t lane, uint64_t place, Step& step) const;
  Span seen(uint64_t lane) const { return states_[lane].seen; }

 private:
  struct State {
    Span seen{0, 0};
    // seen.from mod per_lane.
    uint64_t oldest = 0;
    // The lane's entries in the list have the numbers [head, tail). Entry e is at index lane ×
    // per_lane + e mod per_lane of at_, reach_ and rest_.
    uint64_t head = 0, tail = 0;
    // First place of the running episode, and first step of it that judge() has not judged.
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
  // For each entry, the index of its step in the lane's ring, and the members `reach` and `rest` of
  // Step. `reach_` and `rest_` are empty if the rule does not need them.
  std::vector<uint32_t> at_, reach_, rest_;
  // Ordinal of each lane's first step, and as the last element the number of all steps.
  std::vector<uint64_t> first_;
  std::vector<Note> notes_;
};

}  // namespace hotslot::rows
