// Keeps the list of a view's drawable steps. Appends steps that have become drawable, and removes
// steps that were overwritten.
#include "rows/drawable.hpp"

#include <algorithm>

#include "rows/memory.hpp"

namespace hotslot::rows {
namespace {

// Maximum number of notes that are copied before the check whether the writer overwrote one of
// them.
constexpr uint64_t notes_at_once = 512;
// Number of ordinals whose memory is prefetched at the same time.
constexpr uint64_t ordinals_ahead = 32;

// Allocates `count` elements. Requests huge pages, because the elements are read in random order.
void make_room(std::vector<uint32_t>& numbers, uint64_t count) {
  numbers.reserve(count);
  ask_huge_pages(numbers.data(), count * sizeof(uint32_t));
  numbers.resize(count);
}

}  // namespace

Drawable::Drawable(const Lanes& lanes, const ViewRule& rule)
    : lanes_(lanes),
      rule_(rule),
      states_(lanes.lanes),
      first_(lanes.lanes + 1),
      notes_(std::min(notes_at_once, lanes.per_lane)) {
  const uint64_t places = lanes.lanes * lanes.per_lane;
  make_room(at_, places);
  if (rule.back() > 0 || rule.relabel != ViewRule::own) make_room(reach_, places);
  if (rule.relabel != ViewRule::own) make_room(rest_, places);
}

void Drawable::sync(Listener* listener) {
  uint64_t sum = 0;
  for (uint64_t lane = 0; lane < lanes_.lanes; ++lane) {
    sync_lane(lane, listener);
    first_[lane] = sum;
    sum += states_[lane].tail - states_[lane].head;
  }
  first_[lanes_.lanes] = sum;
}

void Drawable::sync_lane(uint64_t lane, Listener* listener) {
  State& state = states_[lane];
  const uint64_t capacity = lanes_.per_lane;
  Span now = span(lanes_, lane);
  if (now.to == state.seen.to && now.from == state.seen.from) return;
  // Maximum number of notes to copy before the next check. It falls if the writer overwrote a note
  // meanwhile, and grows after each valid copy.
  //
  // A reader that was slow begins at the oldest place, which the writer overwrites next. If it
  // always copied many notes, the writer could overwrite one of them every time.
  uint64_t most = notes_.size();
  while (true) {
    // Subtracts whole laps, so that entry numbers stay as small as index_of() needs them. The index
    // of an entry is its number mod `capacity`, so it does not change.
    while (state.head >= capacity) {
      state.head -= capacity;
      state.tail -= capacity;
    }
    // Discards all known steps in two cases. In the first, the writer has overwritten every place
    // that was committed at the last sync. In the second, fewer places are committed than before.
    // This breaks Lanes-1, so another thread must have written to the lane's words.
    if (now.from > state.seen.to || now.to < state.seen.to) {
      for (; state.head < state.tail; ++state.head)
        if (listener) listener->on_removed(lane, entry(lane, state.head).place);
      state.running = false;
      state.seen.to = now.from;
    }
    for (; state.head < state.tail; ++state.head) {
      const Step oldest = entry(lane, state.head);
      if (oldest.place - oldest.reach >= now.from) break;
      if (listener) listener->on_removed(lane, oldest.place);
    }
    state.seen.from = now.from;
    state.oldest = now.from % capacity;
    bool overtaken = false;
    while (state.seen.to < now.to && !overtaken) {
      const uint64_t some = std::min<uint64_t>(most, now.to - state.seen.to);
      for (uint64_t i = 0; i < some; ++i) notes_[i] = note_at(lanes_, lane, state.seen.to + i);
      // Lanes-4: the copied notes are trusted only if none of them was overwritten.
      overtaken = lowest_kept(lanes_, lane) > state.seen.to;
      if (overtaken) break;
      for (uint64_t i = 0; i < some; ++i)
        take(lane, state, state.seen.to + i, notes_[i], now.from, listener);
      state.seen.to += some;
      most = std::min<uint64_t>(notes_.size(), 2 * most);
    }
    if (!overtaken) break;
    most = (most + 3) / 4;
    now = span(lanes_, lane);
  }
  if (listener) listener->on_advanced(lane, state.seen);
}

void Drawable::take(uint64_t lane, State& state, uint64_t place, const Note& note, uint64_t from,
                    Listener* listener) {
  if (note.final) {
    // If `running` is false, the final observation is the first place of its episode that this
    // reader sees. Then the episode has no step to judge.
    if (state.running) judge(lane, state, place, rule_.least(), true, from, listener);
    state.running = false;
    return;
  }
  if (!state.running || note.step == 0) {
    // This is the first step of an episode that the reader sees. An earlier writer may not have
    // ended the episode before. The steps of that episode that are still pending then never become
    // drawable.
    state.running = true;
    state.start = place - std::min<uint64_t>(note.step, place);
    state.pending = place;
  }
  if (rule_.relabel != ViewRule::own) return;
  // This place has the observation that the view of an earlier step needs last. That step is
  // `ahead()` places before, and can be judged now.
  judge(lane, state, place, rule_.ahead(), false, from, listener);
}

// Appends each step from `pending` on to the list, if its episode has at least `needed` steps
// before place `end`. The step itself is the first of these. Skips a step if its view needs a place
// below `from`, because such a place may be overwritten.
//
// `ended`: whether the episode ends at `end`. The steps that are then still pending never become
// drawable.
void Drawable::judge(uint64_t lane, State& state, uint64_t end, uint64_t needed, bool ended,
                     uint64_t from, Listener* listener) {
  for (; state.pending + needed <= end; ++state.pending) {
    const uint64_t place = state.pending;
    const uint64_t step = place - state.start;
    const uint64_t reach =
        rule_.relabel == ViewRule::episode ? step : std::min<uint64_t>(step, rule_.back());
    if (place < from + reach) continue;
    const uint64_t at = lane * lanes_.per_lane + state.tail % lanes_.per_lane;
    at_[at] = static_cast<uint32_t>(place % lanes_.per_lane);
    if (!reach_.empty()) reach_[at] = static_cast<uint32_t>(reach);
    if (!rest_.empty()) rest_[at] = static_cast<uint32_t>(end - 1 - place);
    ++state.tail;
    if (listener) listener->on_added(lane, place);
  }
  if (ended) state.pending = end;
}

// Returns the index of a lane's entry in at_, reach_ and rest_.
uint64_t Drawable::index_of(uint64_t lane, uint64_t entry) const {
  const uint64_t per_lane = lanes_.per_lane;
  // `entry` is less than 3 × `per_lane`, and mostly less than 2 × `per_lane`. So subtractions
  // replace a division.
  if (entry >= 2 * per_lane) entry -= 2 * per_lane;
  return lane * per_lane + (entry >= per_lane ? entry - per_lane : entry);
}

// Returns the step at index `i` of at_, which has the step's index in the lane's ring. The ring
// stores exactly one place from seen.from on at each index. So this index determines the place.
Drawable::Step Drawable::step_of(uint64_t lane, uint64_t i) const {
  return {lane, place_at(lane, at_[i]), at_[i], reach_.empty() ? 0 : reach_[i],
          rest_.empty() ? 0 : rest_[i]};
}

// Returns the last lane whose first ordinal is at most `ordinal`. An empty lane has the same first
// ordinal as the next lane. The search has no branches, because they would be unpredictable.
uint64_t Drawable::lane_of(uint64_t ordinal) const {
  uint64_t lane = 0;
  for (uint64_t lanes = lanes_.lanes; lanes > 1;) {
    const uint64_t half = lanes / 2;
    lane += half * uint64_t{first_[lane + half] <= ordinal};
    lanes -= half;
  }
  return lane;
}

Drawable::Step Drawable::at(uint64_t ordinal) const {
  const uint64_t lane = lane_of(ordinal);
  return entry(lane, states_[lane].head + ordinal - first_[lane]);
}

void Drawable::at(const uint32_t* ordinals, uint64_t count, Step* steps) const {
  uint64_t index[ordinals_ahead] = {};
  for (uint64_t i = 0; i < count + ordinals_ahead; ++i) {
    uint64_t& slot = index[i % ordinals_ahead];
    if (i >= ordinals_ahead)
      steps[i - ordinals_ahead] = step_of(steps[i - ordinals_ahead].lane, slot);
    if (i >= count) continue;
    const uint64_t lane = lane_of(ordinals[i]);
    slot = index_of(lane, states_[lane].head + ordinals[i] - first_[lane]);
    steps[i].lane = lane;
    __builtin_prefetch(&at_[slot]);
    if (!reach_.empty()) __builtin_prefetch(&reach_[slot]);
    if (!rest_.empty()) __builtin_prefetch(&rest_[slot]);
  }
}

bool Drawable::find(uint64_t lane, uint64_t place, Step& step) const {
  const State& state = states_[lane];
  uint64_t low = state.head, high = state.tail;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    step = entry(lane, middle);
    if (step.place == place) return true;
    if (step.place < place) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return false;
}

void Drawable::tell(Listener& listener) const {
  for (uint64_t lane = 0; lane < lanes_.lanes; ++lane) {
    const State& state = states_[lane];
    listener.on_reset(lane);
    for (uint64_t at = state.head; at < state.tail; ++at)
      listener.on_added(lane, entry(lane, at).place);
    listener.on_advanced(lane, state.seen);
  }
}

}  // namespace hotslot::rows
