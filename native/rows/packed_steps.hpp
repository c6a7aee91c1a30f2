// Steps in transit from one buffer's lanes to another's: a row for each place, with its bytes as in
// memory.
//
//   u16 lane │ u16 kind │ f32 reward │ the bytes of the place
//
// Kinds: 0 a step, 1 one that terminated its episode, 2 one that truncated it, 3 both, 4 the
// episode's final observation. A step's kind is 8 more if it is the first of its episode.
//   PackedSteps-1  The rows of a lane come in the order of its places. Lanes may alternate.
//   PackedSteps-2  The final observation of a lane comes directly after the step that ended its
//       episode, and only there. So a receiver never has one without the other.
//   PackedSteps-3  A first step leaves the running episode of its lane unended, as the writer
//       before it did. Any other step continues the running episode.
//   PackedSteps-4  A final observation has meaning only in the fields that are observations.
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
  // The fields of a final observation.
  std::vector<StepField> observations;
  bool finite_rewards;
};

// The result of checking rows for a writer of `count` lanes: the first wrong row, or the number of
// rows.
struct PackedLook {
  uint64_t good;
  // Number of rows that are steps.
  uint64_t steps;
};
PackedLook look_at_steps(const Lanes& lanes, uint64_t count, const PackedSteps& given,
                         const StepRules& rules);

// Adds rows that look_at_steps() found good to the lanes [first, first + count), each step as
// add_steps() would. A lane may get more steps than its ring holds. `episode` as for add_steps().
void add_packed_steps(const Lanes& lanes, uint64_t first, uint64_t count, const PackedSteps& given,
                      const StepRules& rules, uint32_t* episode);

// The result of pack_lane(). If not `whole`, a writer overwrote part of it, and the rows are
// invalid.
struct PackedLane {
  uint64_t rows, steps;
  bool whole;
};
// Writes the places [from, from + count) of a lane, all of them committed, as rows. PackedSteps-2:
// a step that ended its episode is left out if `count` ends before its final observation.
PackedLane pack_lane(const Lanes& lanes, uint64_t lane, uint64_t from, uint64_t count,
                     uint8_t* out);

}  // namespace hotslot::rows
