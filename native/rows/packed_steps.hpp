// Steps on their way from one buffer's lanes to another's: a row for each place, as it lies in
// memory.
//
//   u16 lane │ u16 kind │ f32 reward │ the bytes of the place
//
// Kinds: 0 a step, 1 one that terminated its episode, 2 one that truncated it, 3 both; 4 the
// episode's final observation. A step's kind is 8 more where it is the first of its episode.
//   PackedSteps-1  The rows of a lane come in the order of its places; lanes may alternate.
//   PackedSteps-2  Directly behind a step that ended its episode comes the final observation of the
//       same lane, and nowhere else is one. So nobody ever has the one without the other.
//   PackedSteps-3  A first step leaves what ran in its lane unended, as the writer before it did.
//       Any other goes on with it.
//   PackedSteps-4  Of a final observation only the fields that are observations mean anything.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "rows/lanes.hpp"

namespace hotslot::rows {

struct StepRow {
  uint16_t lane, kind;
  float reward;
};
static_assert(sizeof(StepRow) == 8, "rows are dense");

constexpr uint16_t ended_bits = 3, final_row = 4, first_bit = 8;

inline uint64_t step_row_bytes(const Lanes& lanes) { return sizeof(StepRow) + lanes.place_bytes; }

struct PackedSteps {
  const uint8_t* bytes;
  uint64_t rows;
};

// The fields of a place. Those with a role must be finite (finite.hpp).
struct StepRules {
  std::vector<StepField> fields;
  // Those of a final observation.
  std::vector<StepField> observations;
  bool finite_rewards;
};

// How far rows are what they should be, for a writer of `count` lanes: the first row that is wrong,
// or all of them.
struct PackedLook {
  uint64_t good;
  // Of all rows, those that are steps.
  uint64_t steps;
};
PackedLook look_at_steps(const Lanes& lanes, uint64_t count, const PackedSteps& given,
                         const StepRules& rules);

// Adds rows that look_at_steps() found good to the lanes [first, first + count), each step as
// add_steps() would. So a lane may get more than its ring holds. `episode` as for add_steps().
void add_packed_steps(const Lanes& lanes, uint64_t first, uint64_t count, const PackedSteps& given,
                      const StepRules& rules, uint32_t* episode);

// What pack_lane() wrote. Not whole: a writer was over some of it, and it is worth nothing.
struct PackedLane {
  uint64_t rows, steps;
  bool whole;
};
// Writes the places [from, from + count) of a lane, all of them committed, as rows. PackedSteps-2:
// a step that ended its episode is left out where `count` ends in front of its final observation.
PackedLane pack_lane(const Lanes& lanes, uint64_t lane, uint64_t from, uint64_t count,
                     uint8_t* out);

}  // namespace hotslot::rows
