// Packs places of lanes into rows, checks rows, and adds them to lanes as a lane's writer does.
#include "rows/packed_steps.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "rows/copy.hpp"

namespace hotslot::rows {
namespace {

StepRow row_at(const Lanes& lanes, const PackedSteps& given, uint64_t i) {
  StepRow row;
  std::memcpy(&row, given.bytes + i * step_row_bytes(lanes), sizeof row);
  return row;
}

bool ends_episode(const StepRow& row) { return (row.kind & ended_bits) != 0; }

uint16_t kind_of(const Note& step) {
  return static_cast<uint16_t>((step.terminated ? 1 : 0) | (step.truncated ? 2 : 0) |
                               (step.step == 0 ? first_bit : 0));
}

uint8_t* bytes_at(const Lanes& lanes, uint64_t lane, uint64_t at) {
  return lanes.places + (lane * lanes.per_lane + at) * lanes.stride;
}

}  // namespace

namespace {

bool are_finite(const std::vector<StepField>& fields, const uint8_t* place) {
  return std::all_of(fields.begin(), fields.end(), [place](const StepField& field) {
    return field.is_finite(place + field.offset);
  });
}

}  // namespace

PackedLook look_at_steps(const Lanes& lanes, uint64_t count, const PackedSteps& given,
                         const StepRules& rules) {
  PackedLook look{0, 0};
  StepRow before{0, 0, 0};
  for (; look.good < given.rows; ++look.good) {
    const StepRow row = row_at(lanes, given, look.good);
    const bool final = row.kind == final_row;
    if (row.lane >= count || !(final || (row.kind & ~first_bit) <= ended_bits)) return look;
    // PackedSteps-2: the row before a final observation must be the step that ended its episode.
    if (final && !(ends_episode(before) && before.lane == row.lane)) return look;
    if (!final && ends_episode(before)) {
      --look.good;
      return look;
    }
    const uint8_t* place = given.bytes + look.good * step_row_bytes(lanes) + sizeof row;
    if (final && (before.kind & 1) == 0 && !are_finite(rules.observations, place)) return look;
    if (!final && !are_finite(rules.fields, place)) return look;
    if (!final && rules.finite_rewards && !std::isfinite(row.reward)) return look;
    if (!final) ++look.steps;
    before = row;
  }
  if (ends_episode(before)) --look.good;
  return look;
}

void add_packed_steps(const Lanes& lanes, uint64_t first, uint64_t count, const PackedSteps& given,
                      const StepRules& rules, uint32_t* episode) {
  const uint64_t row_bytes = step_row_bytes(lanes);
  uint64_t steps = 0;
  for (uint64_t i = 0; i < given.rows; ++i) {
    const StepRow row = row_at(lanes, given, i);
    const bool ends = ends_episode(row);
    // The rows may be in shared memory, and another thread may have changed them after
    // look_at_steps() checked them. This check keeps all writes in these lanes, and all reads in
    // the given rows.
    if (row.lane >= count || i + ends >= given.rows) return;
    // Lets readers that wait pass once per `count` steps. add_steps() does this once per call, and
    // a call adds at most one step to each of `count` lanes.
    if (steps++ % count == 0) stand_back(lanes);
    const uint64_t lane = first + row.lane;
    LaneWords& words = lanes.of[lane];
    const uint64_t place = words.committed.load(std::memory_order_relaxed);
    const uint64_t before = words.steps.load(std::memory_order_relaxed);
    const uint64_t end = place + (ends ? 2 : 1);
    // Lanes-2: announces only the places of this step. If `begun` covered all rows at once, readers
    // would treat the oldest places as overwritten long before they are.
    if (words.begun.load(std::memory_order_relaxed) < end)
      words.begun.store(end, std::memory_order_relaxed);
    before_shared_writes();

    const uint8_t* bytes = given.bytes + i * row_bytes + sizeof row;
    uint32_t& step = episode[row.lane];
    if ((row.kind & first_bit) != 0) step = 0;
    const uint8_t terminated = row.kind & 1, truncated = row.kind >> 1 & 1;
    uint64_t at = place % lanes.per_lane;
    to_shared(bytes_at(lanes, lane, at), bytes, lanes.place_bytes);
    write_note(lanes, lane, at,
               {row.reward, step++, terminated, truncated, 0, 0, static_cast<uint32_t>(before)});
    if (ends) {
      ++i;
      bytes += row_bytes;
      at = at + 1 == lanes.per_lane ? 0 : at + 1;
      uint8_t* to = bytes_at(lanes, lane, at);
      for (const StepField& field : rules.observations)
        field.store_last(to, bytes + field.offset, terminated != 0);
      write_note(lanes, lane, at, {0, step, 0, 0, 1, 0, static_cast<uint32_t>(before + 1)});
      step = 0;
    }
    // Lanes-3: publishes the places. Counts the step afterwards, as add_steps() does.
    words.committed.store(end, std::memory_order_release);
    words.steps.store(before + 1, std::memory_order_release);
  }
}

PackedLane pack_lane(const Lanes& lanes, uint64_t lane, uint64_t from, uint64_t count,
                     uint8_t* out) {
  PackedLane packed{0, 0, false};
  StepRow row{static_cast<uint16_t>(lane), 0, 0};
  for (; packed.rows < count; ++packed.rows) {
    const uint64_t place = from + packed.rows;
    const Note note = note_at(lanes, lane, place);
    row.kind = note.final ? final_row : kind_of(note);
    row.reward = note.reward;
    if (packed.rows + 1 == count && ends_episode(row)) break;
    std::memcpy(out, &row, sizeof row);
    from_shared(out + sizeof row, bytes_at(lanes, lane, place % lanes.per_lane), lanes.place_bytes);
    if (!note.final) ++packed.steps;
    out += step_row_bytes(lanes);
  }
  // Lanes-4: checks that no writer may have overwritten the places. Ignores `floor`, because the
  // bytes of a cleared place remain until a writer overwrites them.
  after_shared_reads();
  packed.whole = lanes.of[lane].begun.load(std::memory_order_acquire) <= from + lanes.per_lane;
  return packed;
}

}  // namespace hotslot::rows
