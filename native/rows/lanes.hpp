// Trajectories in shared memory. Each environment has a lane, a ring of places that store its
// steps. A lane has one writer and any number of readers. Compiled into rows.node (writers,
// in-process sampling) and pack.node.
//
//   memory   header │ begun, committed, steps, floor of each lane │ notes │ places
//
// Place n of lane l (counted from the first place ever written in the lane) is at index l ×
// per_lane + n mod per_lane. It stores a step, or an episode's final observation. Its note says
// which of the two it is, and has the values that every view needs. Notes are adjacent in memory.
//   Lanes-1  A lane has one writer. Only the writer moves `begun`, `committed` and `steps`, and
//       their values never fall.
//   Lanes-2  The writer stores begun = b before it writes a byte of any place below b. Place n
//       overwrites place n − per_lane. So places below b − per_lane may be overwritten.
//   Lanes-3  The writer stores committed = c after every byte of the places below c. One store
//       commits a step that ends its episode together with the final observation after it.
//   Lanes-4  A reader trusts its copy of place n < c only if begun, read after the copy, is at most
//       n + per_lane.
//   Lanes-5  A writer that dies between Lanes-2 and Lanes-3 leaves begun > committed. Its successor
//       continues at committed and does not change begun. A writer that dies after Lanes-3 may not
//       have added its last step to `steps`. Its successor adds this step first (take_over()).
//   Lanes-6  clear() raises `floor` to committed. Readers treat places below `floor` like
//       overwritten places.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "rows/finite.hpp"
#include "rows/limiter.hpp"
#include "wait/bell.hpp"

namespace hotslot::rows {

constexpr uint32_t lanes_magic = 0x4c544f48;  // "HOTL"
constexpr uint32_t lanes_version = 1;
constexpr uint32_t lane_bells = 8;

struct alignas(64) LanesHeader {
  uint32_t magic;
  uint32_t version;
  uint32_t lanes;
  uint32_t place_bytes;
  uint64_t per_lane;
  // Number of readers that repeatedly failed to copy a whole step. While it is not 0, each writer
  // waits before its next add, for a limited time (stand_back()). A reader that raised it lowers it
  // before its native call returns.
  alignas(64) std::atomic<uint32_t> readers_waiting;
  // A BellBoard (src/shm/bell.ts). Only JavaScript uses it.
  alignas(64) int32_t bells[lane_bells * bell_words];
};

// The values of a place that every view needs.
struct Note {
  float reward;
  // Index of the step in its episode, from 0. For a final observation, the number of steps in the
  // episode.
  uint32_t step;
  uint8_t terminated, truncated, final, none;
  // Number of steps written in the lane before this place, mod 2³².
  uint32_t before;
};
static_assert(sizeof(Note) == 16, "notes are dense");

// The words of all lanes are adjacent, and a writer owns a range of adjacent lanes. So two writers
// share at most the cache line in which their ranges meet.
//
// The writer loads `begun`, `committed` and `steps` relaxed, because no other thread stores them
// while it is the writer. It sees the stores of the previous writer, because it first took over
// that writer's claim.
//
//   begun      The writer stores it relaxed, and a release fence orders it before every byte
//              that the writer writes next (Lanes-2). Readers acquire it after an acquire fence,
//              which orders their copies before it (Lanes-4).
//   committed  The writer stores it with release after the bytes. Readers load it with acquire
//              before they read the bytes (Lanes-3).
//   steps      The writer releases it after `committed`. So a thread that sees a step counted also
//              sees it committed.
//   floor      A thread that clears raises `floor` to a value of `committed`, with a release. Its
//              first load of `floor` is relaxed, because the exchange checks the value again.
//              Readers acquire `floor`, so that they ignore every place below it. They could
//              otherwise mistake such a place for the place that is written at the same index next.
struct alignas(32) LaneWords {
  std::atomic<uint64_t> begun, committed, steps, floor;
};

struct Lanes {
  LanesHeader* header = nullptr;
  LaneWords* of = nullptr;
  uint8_t* notes = nullptr;
  uint8_t* places = nullptr;
  uint64_t lanes = 0, per_lane = 0;
  uint32_t place_bytes = 0;
  uint64_t stride = 0;
};

// Returns the size of the lanes in bytes. Their memory begins at a 64-byte boundary.
uint64_t lanes_bytes(uint64_t lanes, uint64_t per_lane, uint32_t place_bytes);
// Writes the header to memory that is new, zeroed and aligned.
void format_lanes(void* memory, uint32_t lanes, uint64_t per_lane, uint32_t place_bytes);
// Opens formatted memory. Returns lanes without a header if the memory has another format, is
// misaligned, or is shorter than its header says.
Lanes open_lanes(void* memory, uint64_t bytes);

// The places [from, to) of a lane that are committed, and that no writer may be overwriting.
struct Span {
  uint64_t from, to;
};
Span span(const Lanes& lanes, uint64_t lane);

// Returns the lowest place of a lane that cannot have been overwritten (Lanes-4) or cleared. Call
// it after copying places. Copies of places below the returned place are invalid. A fence orders
// the copies before the check.
uint64_t lowest_kept(const Lanes& lanes, uint64_t lane);

struct LaneCounts {
  // Number of steps ever committed, and number of steps available now. Final observations do not
  // count.
  uint64_t ptr, size;
};
LaneCounts count_steps(const Lanes& lanes);
uint64_t count_steps_ever(const Lanes& lanes);

// Clears every lane by Lanes-6.
void clear_lanes(const Lanes& lanes);

// Copies a note out of shared memory. The caller checks Lanes-4 afterwards.
Note note_at(const Lanes& lanes, uint64_t lane, uint64_t place);
// Writes a note to index `at` of its lane's ring. The caller has stored `begun` before (Lanes-2).
void write_note(const Lanes& lanes, uint64_t lane, uint64_t at, const Note& note);

// Returns the bytes that read_range() writes for a place: its note, then its bytes.
inline uint64_t saved_bytes(const Lanes& lanes) { return sizeof(Note) + lanes.place_bytes; }
// Copies the places [from, from + count) of a lane to `out`. All of them must be committed. Returns
// the lowest place that cannot have been overwritten meanwhile (Lanes-4). Copies of lower places
// are invalid. Cleared places that are not overwritten yet count as valid.
uint64_t read_range(const Lanes& lanes, uint64_t lane, uint64_t from, uint64_t count, uint8_t* out);

// The state of a lane, without the bytes of its places. `last` is the note of place to − 1, even if
// that place was cleared. A writer that continues the episode needs the note's `step`.
struct LaneState {
  uint64_t from, to, steps;
  Note last;
};
LaneState lane_state(const Lanes& lanes, uint64_t lane);

// Restore lanes that are not in use yet. put_range() writes places, which become readable when
// set_lane() sets the lane's words.
void put_range(const Lanes& lanes, uint64_t lane, uint64_t from, uint64_t count,
               const uint8_t* bytes);
void set_lane(const Lanes& lanes, uint64_t lane, const LaneState& state);

// Returns the number of steps so far in the episode that the lane's last writer did not end.
// Returns 0 if the last episode has ended, or if its last note may be overwritten.
uint32_t steps_so_far(const Lanes& lanes, uint64_t lane);

// Adds the last committed step to `steps` if the lane's last writer died before it counted this
// step (Lanes-5). A new writer calls this function first.
void take_over(const Lanes& lanes, uint64_t lane);

// Waits until `readers_waiting` is 0, for at most rounds_of_courtesy() pauses. Every add calls it
// first, so that a reader that failed repeatedly can complete its copy.
void stand_back(const Lanes& lanes);

// One field of the steps to add. The arrays have `bytes` bytes per lane, one lane after the other.
struct StepField {
  const uint8_t* from;
  // Final observations of the episodes that end, or null if the field is not an observation.
  const uint8_t* last;
  uint32_t offset, bytes;
  FieldKind kind;

  bool is_finite(const uint8_t* value) const {
    return !kind.is_checked() || all_finite(value, bytes, kind.floats);
  }
  // Stores a final observation. Stores zeros if it is not finite and its episode terminated
  // (finite.hpp).
  void store_last(uint8_t* place, const uint8_t* value, bool terminated) const;
};

struct StepsToAdd {
  const StepField* fields;
  size_t field_count;
  const float* rewards;
  // One byte per lane. `skip` may be null, which skips no lane.
  const uint8_t *terminated, *truncated, *skip;

  bool takes(uint64_t lane) const { return skip == nullptr || skip[lane] == 0; }
  bool ends(uint64_t lane) const { return terminated[lane] != 0 || truncated[lane] != 0; }
};

// Adds one step to each of the lanes [first, first + count) that `steps.skip` does not skip.
// `episode[i]` counts the steps of the running episode of lane first + i. The array belongs to the
// writer, and this function updates it.
void add_steps(const Lanes& lanes, uint64_t first, uint64_t count, const StepsToAdd& steps,
               uint32_t* episode);

// Exists while a reader that failed repeatedly tries again. Until its destructor runs, each writer
// waits in stand_back() before its next add.
class Courtesy {
 public:
  explicit Courtesy(const Lanes& lanes) : waiting_(lanes.header->readers_waiting) {
    waiting_.fetch_add(1);
  }
  ~Courtesy() { waiting_.fetch_sub(1); }
  Courtesy(const Courtesy&) = delete;

 private:
  std::atomic<uint32_t>& waiting_;
};

}  // namespace hotslot::rows
