// Trajectories in shared memory: the steps of environments, in a ring of places for each
// environment (a lane). Compiled into rows.node (writers, in-process sampling) and pack.node. A
// lane has one writer and any number of readers.
//
//   memory   header │ begun, committed, steps, floor of each lane │ notes │ places
//
// Place n of lane l (counted from the first ever written in it) lies at l × per_lane + n mod
// per_lane. It holds a step, or an episode's final observation. Its note records which, and holds
// the numbers that every view needs, densely.
//   Lanes-1  A lane has one writer. Only it moves `begun`, `committed` and `steps`, and they never
//       fall.
//   Lanes-2  The writer stores begun = b before it writes a byte of any place below b, so places
//       below b − per_lane may be gone.
//   Lanes-3  committed = c is stored after every byte of the places below c. A step that ends its
//       episode and the final observation after it are committed by one store.
//   Lanes-4  A reader trusts what it copied of place n < c only if begun, read after the copy, is
//       at most n + per_lane.
//   Lanes-5  A writer that died between Lanes-2 and Lanes-3 left begun > committed. Its successor
//       continues at committed, and begun stays. One that died after Lanes-3 left a step uncounted:
//       the successor counts it first.
//   Lanes-6  clear() raises `floor` to committed. Places below it are gone, as if overwritten.
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
  // Readers that could not get a whole step. Writers let them pass before they begin again. Never
  // held across calls.
  alignas(64) std::atomic<uint32_t> readers_waiting;
  // A BellBoard and one claim word per lane (src/store/lanes). Only JavaScript uses them.
  alignas(64) int32_t bells[lane_bells * bell_words];
};

// The part of a place that every view needs.
struct Note {
  float reward;
  // The step's number in its episode, from 0. For a final observation, the episode's length.
  uint32_t step;
  uint8_t terminated, truncated, final, none;
  // Steps written in its lane before it, mod 2³².
  uint32_t before;
};
static_assert(sizeof(Note) == 16, "notes are dense");

// Adjacent, so that the writers of neighboring lanes share only the cache line in which they meet.
// The writer reads its own three words relaxed, because only it writes them, and before it the
// predecessor whose claim it took over.
//
//   begun      stored relaxed and followed by a release fence, which orders it before every byte
//              that follows (Lanes-2). Readers acquire it after an acquire fence, which orders
//              their copies before it (Lanes-4).
//   committed  released after the bytes, acquired before them (Lanes-3).
//   steps      released after committed: a thread that sees a step counted finds it committed.
//   floor      raised by a thread that clears, to a count that was committed. It is released, and
//              acquired by readers, so that they never take a place below it for the one that lies
//              there next. A thread that raises it loads it relaxed first.
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

// Returns the bytes that the lanes take from a 64-byte boundary on.
uint64_t lanes_bytes(uint64_t lanes, uint64_t per_lane, uint32_t place_bytes);
// Writes the header of a fresh, zeroed, aligned piece of memory.
void format_lanes(void* memory, uint32_t lanes, uint64_t per_lane, uint32_t place_bytes);
// Returns a null header if the memory has another format, is misaligned, or is shorter than its
// header says.
Lanes open_lanes(void* memory, uint64_t bytes);

// The places of a lane that a reader may take now: whole, and not being written.
struct Span {
  uint64_t from, to;
};
Span span(const Lanes& lanes, uint64_t lane);

// Lanes-4: returns the lowest place of a lane that cannot have been overwritten. Reads before this
// call are ordered before it.
uint64_t lowest_kept(const Lanes& lanes, uint64_t lane);

struct LaneCounts {
  // Steps ever committed, and steps available now, both without final observations.
  uint64_t ptr, size;
};
LaneCounts count_steps(const Lanes& lanes);
uint64_t count_steps_ever(const Lanes& lanes);

// Does Lanes-6 for every lane.
void clear_lanes(const Lanes& lanes);

// Copies a note out of shared memory. The caller does Lanes-4.
Note note_at(const Lanes& lanes, uint64_t lane, uint64_t place);
// Copies a note to position `at` of its lane's ring. The caller does Lanes-2.
void write_note(const Lanes& lanes, uint64_t lane, uint64_t at, const Note& note);

// Returns the bytes of a place as read_range() copies it: its note, then its bytes.
inline uint64_t saved_bytes(const Lanes& lanes) { return sizeof(Note) + lanes.place_bytes; }
// Copies the places [from, from + count) of a lane, all of them committed, to `out`. Returns the
// lowest place that cannot have been overwritten meanwhile (Lanes-4, without the floor). The copies
// of places below it are invalid.
uint64_t read_range(const Lanes& lanes, uint64_t lane, uint64_t from, uint64_t count, uint8_t* out);

// The state of a lane, without the bytes of its places. The note is that of place to − 1, even if
// it was cleared: a writer that continues the episode needs its step.
struct LaneState {
  uint64_t from, to, steps;
  Note last;
};
LaneState lane_state(const Lanes& lanes, uint64_t lane);

// Restores lanes that are not in use yet. Places that are written count after set_lane().
void put_range(const Lanes& lanes, uint64_t lane, uint64_t from, uint64_t count,
               const uint8_t* bytes);
void set_lane(const Lanes& lanes, uint64_t lane, const LaneState& state);

// Returns the steps so far of the episode that the lane's last writer left unended, or 0 if it left
// none.
uint32_t steps_so_far(const Lanes& lanes, uint64_t lane);

// The first act of a new writer: counts the last step of a writer that died after its store of
// `committed`.
void take_over(const Lanes& lanes, uint64_t lane);

// The first act of every add: lets readers pass that have failed for long, up to a bound.
void stand_back(const Lanes& lanes);

// A field of the steps to add: `bytes` per lane, one lane after the other.
struct StepField {
  const uint8_t* from;
  // The final observation of an episode that ends, null for fields that are not observations.
  const uint8_t* last;
  uint32_t offset, bytes;
  FieldKind kind;

  bool is_finite(const uint8_t* value) const {
    return !kind.is_checked() || all_finite(value, bytes, kind.floats);
  }
  // Stores a final observation, or zeros if it is not finite and its episode terminated
  // (finite.hpp).
  void store_last(uint8_t* place, const uint8_t* value, bool terminated) const;
};

struct StepsToAdd {
  const StepField* fields;
  size_t field_count;
  const float* rewards;
  // A byte per lane. `skip` may be null.
  const uint8_t *terminated, *truncated, *skip;

  bool takes(uint64_t lane) const { return skip == nullptr || skip[lane] == 0; }
  bool ends(uint64_t lane) const { return terminated[lane] != 0 || truncated[lane] != 0; }
};

// Adds one step of each of the lanes [first, first + count) that are not skipped. `episode[i]` is
// the number of steps of the running episode of lane first + i, and belongs to the writer.
void add_steps(const Lanes& lanes, uint64_t first, uint64_t count, const StepsToAdd& steps,
               uint32_t* episode);

// Asks writers to stand back for a reader that has failed for long, during the life of this object.
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
