// Implements the seqlock of a lane: the order of its writer's stores, and the checks with which a
// reader decides which of its copies are valid.
#include "rows/lanes.hpp"

#include <cstring>

#include "rows/backoff.hpp"
#include "rows/copy.hpp"
#include "rows/memory.hpp"
#include "rows/rows.hpp"

namespace hotslot::rows {
namespace {

struct Offsets {
  uint64_t notes, places, end;
  Offsets(uint64_t lanes, uint64_t per_lane, uint64_t stride)
      : notes(line_up(sizeof(LanesHeader) + lanes * sizeof(LaneWords))),
        places(line_up(notes + lanes * per_lane * sizeof(Note))),
        end(places + lanes * per_lane * stride) {}
};

// Raises a word to `to`, unless the word is already higher. If several threads raise the word at
// once, it ends with the highest value.
void raise(std::atomic<uint64_t>& word, uint64_t to) {
  uint64_t now = word.load(std::memory_order_relaxed);
  while (now < to && !word.compare_exchange_weak(now, to, std::memory_order_release,
                                                 std::memory_order_relaxed)) {}
}

}  // namespace

uint64_t lanes_bytes(uint64_t lanes, uint64_t per_lane, uint32_t place_bytes) {
  return Offsets(lanes, per_lane, row_stride(place_bytes)).end;
}

void format_lanes(void* memory, uint32_t lanes, uint64_t per_lane, uint32_t place_bytes) {
  LanesHeader& header = *static_cast<LanesHeader*>(memory);
  header.lanes = lanes;
  header.per_lane = per_lane;
  header.place_bytes = place_bytes;
  header.version = lanes_version;
  header.magic = lanes_magic;
  ask_huge_pages(memory, lanes_bytes(lanes, per_lane, place_bytes));
}

Lanes open_lanes(void* memory, uint64_t bytes) {
  Lanes opened;
  if (reinterpret_cast<uintptr_t>(memory) % alignof(LanesHeader) != 0 ||
      bytes < sizeof(LanesHeader))
    return opened;
  auto* header = static_cast<LanesHeader*>(memory);
  if (header->magic != lanes_magic || header->version != lanes_version) return opened;
  // Reads each value once, because another thread could change it after the check. With these
  // bounds the products below cannot overflow.
  const uint32_t lanes = read_once(header->lanes), place_bytes = read_once(header->place_bytes);
  const uint64_t per_lane = read_once(header->per_lane);
  if (lanes == 0 || per_lane < 2 || per_lane > UINT32_MAX / lanes || place_bytes == 0 ||
      place_bytes > INT32_MAX)
    return opened;
  const Offsets offsets(lanes, per_lane, row_stride(place_bytes));
  if (bytes < offsets.end) return opened;
  auto* base = static_cast<uint8_t*>(memory);
  opened.header = header;
  opened.of = reinterpret_cast<LaneWords*>(base + sizeof(LanesHeader));
  opened.notes = base + offsets.notes;
  opened.places = base + offsets.places;
  opened.lanes = lanes;
  opened.per_lane = per_lane;
  opened.place_bytes = place_bytes;
  opened.stride = row_stride(place_bytes);
  return opened;
}

Span span(const Lanes& lanes, uint64_t lane) {
  // Loads `begun` before `committed`. In the other order, the reader could pause between the loads
  // while the writer fills the whole ring. `kept` would then be at least `to`, and the reader would
  // find an empty span.
  const uint64_t kept = lowest_kept(lanes, lane);
  // Lanes-3: pairs with the writer's store, so the reader sees the bytes of the places below `to`.
  // `to` is at least `floor`, because `floor` is an earlier value of `committed`.
  const uint64_t to = lanes.of[lane].committed.load(std::memory_order_acquire);
  if (kept >= to) return {to, to};
  return {to - kept > lanes.per_lane ? to - lanes.per_lane : kept, to};
}

uint64_t lowest_kept(const Lanes& lanes, uint64_t lane) {
  after_shared_reads();
  const uint64_t begun = lanes.of[lane].begun.load(std::memory_order_acquire);
  const uint64_t floor = lanes.of[lane].floor.load(std::memory_order_acquire);
  const uint64_t kept = begun > lanes.per_lane ? begun - lanes.per_lane : 0;
  return kept > floor ? kept : floor;
}

LaneCounts count_steps(const Lanes& lanes) {
  LaneCounts counts{0, 0};
  for (uint64_t lane = 0; lane < lanes.lanes; ++lane) {
    while (true) {
      const Span now = span(lanes, lane);
      const uint32_t before = note_at(lanes, lane, now.from).before;
      const uint64_t steps = lanes.of[lane].steps.load(std::memory_order_acquire);
      const bool none = now.from == now.to;
      // Repeats if the writer may have overwritten the oldest place during these loads. `before`
      // may then be invalid, and some of the counted steps may be overwritten.
      if (!none && lowest_kept(lanes, lane) > now.from) continue;
      counts.ptr += steps;
      if (!none) counts.size += static_cast<uint32_t>(steps) - before;
      break;
    }
  }
  return counts;
}

uint64_t count_steps_ever(const Lanes& lanes) {
  uint64_t ptr = 0;
  for (uint64_t lane = 0; lane < lanes.lanes; ++lane)
    ptr += lanes.of[lane].steps.load(std::memory_order_acquire);
  return ptr;
}

void clear_lanes(const Lanes& lanes) {
  for (uint64_t lane = 0; lane < lanes.lanes; ++lane)
    raise(lanes.of[lane].floor, lanes.of[lane].committed.load(std::memory_order_acquire));
}

Note note_at(const Lanes& lanes, uint64_t lane, uint64_t place) {
  Note note;
  from_shared(reinterpret_cast<uint8_t*>(&note),
              lanes.notes + (lane * lanes.per_lane + place % lanes.per_lane) * sizeof(Note),
              sizeof(Note));
  return note;
}

void write_note(const Lanes& lanes, uint64_t lane, uint64_t at, const Note& note) {
  to_shared(lanes.notes + (lane * lanes.per_lane + at) * sizeof(Note),
            reinterpret_cast<const uint8_t*>(&note), sizeof(Note));
}

uint64_t read_range(const Lanes& lanes, uint64_t lane, uint64_t from, uint64_t count,
                    uint8_t* out) {
  for (uint64_t place = from; place < from + count; ++place) {
    const Note note = note_at(lanes, lane, place);
    std::memcpy(out, &note, sizeof note);
    const uint8_t* at =
        lanes.places + (lane * lanes.per_lane + place % lanes.per_lane) * lanes.stride;
    from_shared(out + sizeof note, at, lanes.place_bytes);
    out += saved_bytes(lanes);
  }
  after_shared_reads();
  const uint64_t begun = lanes.of[lane].begun.load(std::memory_order_acquire);
  return begun > lanes.per_lane ? begun - lanes.per_lane : 0;
}

LaneState lane_state(const Lanes& lanes, uint64_t lane) {
  while (true) {
    const Span now = span(lanes, lane);
    const uint64_t steps = lanes.of[lane].steps.load(std::memory_order_acquire);
    if (now.to == 0) return {0, 0, 0, {}};
    const Note last = note_at(lanes, lane, now.to - 1);
    after_shared_reads();
    if (lanes.of[lane].begun.load(std::memory_order_acquire) > now.to - 1 + lanes.per_lane)
      continue;
    // Number of steps below place `to`, mod 2³². It differs a little from the loaded `steps` in two
    // cases. The writer may have added steps since, or may not have counted its last step yet.
    const uint32_t counted = last.before + (last.final ? 0 : 1);
    const auto ahead = static_cast<int32_t>(counted - static_cast<uint32_t>(steps));
    return {now.from, now.to, steps + static_cast<uint64_t>(int64_t{ahead}), last};
  }
}

void put_range(const Lanes& lanes, uint64_t lane, uint64_t from, uint64_t count,
               const uint8_t* bytes) {
  for (uint64_t place = from; place < from + count; ++place) {
    Note note;
    std::memcpy(&note, bytes, sizeof note);
    const uint64_t at = place % lanes.per_lane;
    write_note(lanes, lane, at, note);
    to_shared(lanes.places + (lane * lanes.per_lane + at) * lanes.stride, bytes + sizeof note,
              lanes.place_bytes);
    bytes += saved_bytes(lanes);
  }
}

void set_lane(const Lanes& lanes, uint64_t lane, const LaneState& state) {
  LaneWords& words = lanes.of[lane];
  words.begun.store(state.to, std::memory_order_seq_cst);
  if (state.to > 0) write_note(lanes, lane, (state.to - 1) % lanes.per_lane, state.last);
  // The lane needs a `floor` only if it begins above the oldest place of a full ring. Otherwise
  // `begun` already determines where the lane begins.
  const uint64_t oldest = state.to > lanes.per_lane ? state.to - lanes.per_lane : 0;
  words.floor.store(state.from > oldest ? state.from : 0, std::memory_order_seq_cst);
  words.committed.store(state.to, std::memory_order_seq_cst);
  words.steps.store(state.steps, std::memory_order_seq_cst);
}

uint32_t steps_so_far(const Lanes& lanes, uint64_t lane) {
  const uint64_t to = lanes.of[lane].committed.load(std::memory_order_acquire);
  if (to == 0) return 0;
  const Note last = note_at(lanes, lane, to - 1);
  // A writer that died during an add may have begun to overwrite this place with a place of the
  // next lap. The note is then invalid.
  if (lanes.of[lane].begun.load(std::memory_order_acquire) > to - 1 + lanes.per_lane) return 0;
  return last.final ? 0 : last.step + 1;
}

void take_over(const Lanes& lanes, uint64_t lane) {
  const uint64_t committed = lanes.of[lane].committed.load(std::memory_order_acquire);
  if (committed == 0) return;
  const Note last = note_at(lanes, lane, committed - 1);
  const uint64_t begun = lanes.of[lane].begun.load(std::memory_order_acquire);
  if (begun > committed - 1 + lanes.per_lane) return;
  const uint64_t steps = lanes.of[lane].steps.load(std::memory_order_relaxed);
  const uint32_t missed = last.before + (last.final ? 0 : 1) - static_cast<uint32_t>(steps);
  lanes.of[lane].steps.store(steps + missed, std::memory_order_release);
}

void stand_back(const Lanes& lanes) {
  Backoff courtesy;
  while (lanes.header->readers_waiting.load(std::memory_order_relaxed) != 0 &&
         courtesy.rounds() < rounds_of_courtesy(lanes.place_bytes))
    courtesy.pause();
}

void StepField::store_last(uint8_t* place, const uint8_t* value, bool terminated) const {
  if (terminated && !is_finite(value)) {
    zero_shared(place + offset, bytes);
  } else {
    to_shared(place + offset, value, bytes);
  }
}

void add_steps(const Lanes& lanes, uint64_t first, uint64_t count, const StepsToAdd& steps,
               uint32_t* episode) {
  stand_back(lanes);

  // Lanes-2 for all lanes: one fence orders these stores before every byte that the second loop
  // writes.
  for (uint64_t i = 0; i < count; ++i) {
    if (!steps.takes(i)) continue;
    const uint64_t lane = first + i;
    const uint64_t end =
        lanes.of[lane].committed.load(std::memory_order_relaxed) + (steps.ends(i) ? 2 : 1);
    if (lanes.of[lane].begun.load(std::memory_order_relaxed) < end)
      lanes.of[lane].begun.store(end, std::memory_order_relaxed);
  }
  before_shared_writes();

  for (uint64_t i = 0; i < count; ++i) {
    if (!steps.takes(i)) continue;
    const uint64_t lane = first + i;
    const uint64_t place = lanes.of[lane].committed.load(std::memory_order_relaxed);
    const uint64_t before = lanes.of[lane].steps.load(std::memory_order_relaxed);
    uint64_t at = place % lanes.per_lane;
    uint8_t* to = lanes.places + (lane * lanes.per_lane + at) * lanes.stride;
    for (size_t f = 0; f < steps.field_count; ++f) {
      const StepField& field = steps.fields[f];
      to_shared(to + field.offset, field.from + i * field.bytes, field.bytes);
    }
    const uint8_t terminated = steps.terminated[i] != 0, truncated = steps.truncated[i] != 0;
    write_note(lanes, lane, at,
               {steps.rewards[i], episode[i]++, terminated, truncated, 0, 0,
                static_cast<uint32_t>(before)});
    uint64_t end = place + 1;
    if (steps.ends(i)) {
      at = at + 1 == lanes.per_lane ? 0 : at + 1;
      to = lanes.places + (lane * lanes.per_lane + at) * lanes.stride;
      for (size_t f = 0; f < steps.field_count; ++f) {
        const StepField& field = steps.fields[f];
        if (field.last != nullptr)
          field.store_last(to, field.last + i * field.bytes, terminated != 0);
      }
      write_note(lanes, lane, at, {0, episode[i], 0, 0, 1, 0, static_cast<uint32_t>(before + 1)});
      episode[i] = 0;
      ++end;
    }
    // Lanes-3: a thread that acquires this value of `committed` sees the bytes written before.
    // `steps` is stored after `committed`. So a thread that acquires the new `steps` also sees that
    // the step is committed.
    lanes.of[lane].committed.store(end, std::memory_order_release);
    lanes.of[lane].steps.store(before + 1, std::memory_order_release);
  }
}

}  // namespace hotslot::rows
