// The format in which steps travel from one buffer's lanes to another buffer's lanes. A row has the
// bytes of one place, as they are in memory.
//
//   u16 lane │ u16 kind │ f32 reward │ the bytes of the place
//
// Kinds: 0 is a step, 1 a step that terminated its episode, and 2 a step that truncated it. 3 is a
// step that did both, and 4 is the episode's final observation. The kind of an episode's first step
// is 8 more.
//   PackedSteps-1  The rows of a lane are in the order of its places. Rows of different lanes may
//       alternate.
//   PackedSteps-2  The final observation of a lane directly follows the step that ended its
//       episode, and occurs nowhere else. So a receiver never has one of the two without the other.
//   PackedSteps-3  If a first step arrives while an episode of its lane is running, that episode
//       stays unended, as its writer left it. Any other step continues the running episode.
//   PackedSteps-4  In a final observation, only the fields that are observations have meaning.
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

// The fields of a place. Fields with a role must be finite (finite.hpp).
struct StepRules {
  std::vector<StepField> fields;
  // The fields of a final observation.
  std::vector<StepField> observations;
  bool finite_rewards;
};

// The result of look_at_steps(), which checks rows for a writer of `count` lanes. `good` is the
// index of the first wrong row, or the number of rows if none is wrong. A step that ends its
// episode is wrong if its final observation is missing.
struct PackedLook {
  uint64_t good;
  // Number of checked rows that are steps.
  uint64_t steps;
};
PackedLook look_at_steps(const Lanes& lanes, uint64_t count, const PackedSteps& given,
                         const StepRules& rules);

// Adds the rows to the lanes [first, first + count), each step as add_steps() does. Call
// look_at_steps() first, and call this function only if no row is wrong. A lane may get more steps
// than its ring has places. `episode` is the same array as for add_steps().
void add_packed_steps(const Lanes& lanes, uint64_t first, uint64_t count, const PackedSteps& given,
                      const StepRules& rules, uint32_t* episode);

// The result of pack_lane(). `rows` is the number of rows that it wrote, and `steps` is the number
// of these rows that are not final observations. If `whole` is false, a writer may have overwritten
// some of the places meanwhile, and the rows are invalid.
struct PackedLane {
  uint64_t rows, steps;
  bool whole;
};
// Packs the places [from, from + count) of a lane into rows. All of them must be committed. If the
// last place is a step that ended its episode, this step is left out, because its final observation
// is missing (PackedSteps-2).
PackedLane pack_lane(const Lanes& lanes, uint64_t lane, uint64_t from, uint64_t count,
                     uint8_t* out);

}  // namespace hotslot::rows
