// Replay rows in shared memory: the layout of a buffer and the three things done to it (snapshot,
// add, gather). Compiled into rows.node (collectors, in-process sampling) and pack.node; any number
// of writers and readers, any thread.
//
//   memory   header (16 lines) │ row 0 │ row 1 │ … │ row capacity−1
//
// Absolute row p (counted from the first ever added) lies at index p mod capacity, row_stride()
// bytes from the row before.
//   Rows-1  reserved ≥ committed; rows [committed, reserved) may be under a writer's pen, all below
//       committed are whole.
//   Rows-2  a writer owns the rows [a, b) that its fetch_add on `reserved` returned, and writes
//       them only once committed ≥ b − capacity: the earlier lap of the same places is whole.
//   Rows-3  commits are in order: only who holds [a, b) moves committed, from a to b. Its owner
//       holds it until it lies on the board; from there whoever committed up to a takes it, or the
//       owner itself once committed is a. Whoever puts it there looks at committed behind that,
//       whoever commits looks at the board behind that: one of them finds it. So writers that were
//       put off their cores hold nobody up in turn, who comes back first commits for all.
//   Rows-4  a reader trusts a row it copied only if `reserved`, read after the copy, shows that no
//       writer can have begun on that place since the `committed` it read before the copy.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "wait/bell.hpp"

namespace hotslot::rows {

constexpr uint32_t format_magic = 0x52544f48;  // "HOTR"
constexpr uint32_t format_version = 3;
constexpr uint32_t board_places = 16;
constexpr uint32_t bell_places = 8;

// Written rows [begin, end) whose turn has not come (Rows-3).
struct Written {
  static constexpr uint64_t free = 0, held = ~uint64_t{0};
  // free, held (being filled or emptied), or begin + 1. Its store publishes `end` and the rows.
  // Sequentially consistent where it becomes begin + 1 and where that is looked for: who puts
  // stores `turn`, then looks at `committed`; who commits stores `committed`, then looks at `turn`.
  // One of the two must see the other's. A place that is taken from `free` needs to acquire only
  // what emptied it released, and the look before that is worth nothing by itself: relaxed.
  std::atomic<uint64_t> turn;
  uint64_t end;
};

struct alignas(64) Header {
  uint32_t magic;
  uint32_t version;
  uint32_t capacity;
  uint32_t row_bytes;
  // Highest row that a writer owns. Writers add to it before their first byte (Rows-2); readers
  // load it after their last (Rows-4).
  alignas(64) std::atomic<uint64_t> reserved;
  // Rows ever committed. Its store publishes the rows below it; pairs with every load in snapshot()
  // and gather(). Behind it the next writer in turn is looked for, on the board and in `reserved`:
  // so the store is sequentially consistent. Who waits for it, and the lap before it, need no more
  // than to acquire what it published.
  alignas(64) std::atomic<uint64_t> committed;
  // Readers that could not get a whole row; writers let them pass before they reserve again. Never
  // held across calls. A courtesy: nothing is published by it, and a writer that sees it late,
  // relaxed, lets them pass the next time.
  alignas(64) std::atomic<uint32_t> readers_waiting;
  alignas(64) Written board[board_places];
  // A BellBoard (src/shm/bell.ts); JavaScript's alone.
  alignas(64) int32_t bells[bell_places * bell_words];
};

struct Source {
  Header* header = nullptr;
  uint8_t* rows = nullptr;
  uint64_t capacity = 0;
  uint32_t row_bytes = 0;
  uint64_t stride = 0;
};

// Bytes from one row to the next in memory. A long row begins on a cache line, so that it touches
// no line more than it must; a short one begins where a vector may be loaded at once.
inline uint64_t row_stride(uint64_t row_bytes) {
  const uint64_t grain = row_bytes >= 256 ? 64 : 16;
  return (row_bytes + grain - 1) / grain * grain;
}

struct Snapshot {
  uint64_t ptr;   // rows ever committed
  uint64_t size;  // rows to draw from: min(ptr, capacity)
};

// Bytes a buffer takes from a 64-byte boundary on.
uint64_t bytes_needed(uint64_t capacity, uint32_t row_bytes);

// Writes the header of a fresh, zeroed, 64-byte-aligned piece of memory, and asks for huge pages
// where they help.
void format(void* memory, uint32_t capacity, uint32_t row_bytes);

// Opens formatted memory. Null header when it is not a buffer of this version, misaligned, or
// shorter than it says.
Source open(void* memory, uint64_t bytes);

// The rows that are whole now.
Snapshot snapshot(const Source& source);

// One field of the rows to add: `bytes` per row, `stride` bytes from one row to the next, to
// `offset` within the packed row. Rows whose mask byte is not zero take their bytes from `instead`,
// dense, where it is not null. Rows whose byte in `zero` is not zero get zeros.
struct Field {
  const uint8_t* from;
  const uint8_t* instead;
  uint32_t offset;
  uint32_t bytes;
  uint64_t stride;
  const uint8_t* zero;
};
inline bool some_zero(const Field* fields, size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (fields[i].zero != nullptr) return true;
  return false;
}

// Adds `count` rows: reserves, writes, commits, slice by slice; waits only for writers that are
// writing now. `mask` (count bytes) may be null. Returns when the rows are committed.
void add(const Source& source, const Field* fields, size_t field_count, const uint8_t* mask,
         uint64_t count);

// How far a gather came; value-initialise one per batch.
struct GatherJob {
  uint64_t next_row = 0;  // rows before it are whole in `out`
};

// Who gathers: the calling thread alone, or idle cores too where a batch is large enough for them
// (shared_from bytes).
enum class Hands { one, all };
constexpr uint64_t shared_from = uint64_t{1} << 20;

enum class GatherResult { Done, More };

// Copies rows `indices[0 … count)` (each below the snapshot's size) to `out`, packed. Stops at
// `deadline_ns` (CLOCK_MONOTONIC, 0 = none) and answers More; call again with the same job.
// Streaming stores bypass the cache: right for large batches this CPU does not read again. Every
// store is ordered before what the caller stores next. Each block of rows keeps Rows-4 by itself,
// so it does not matter which thread copies it.
GatherResult gather(const Source& source, GatherJob& job, const uint32_t* indices, uint64_t count,
                    uint8_t* out, uint64_t deadline_ns, bool stream_stores,
                    Hands hands = Hands::all);

// Copies the absolute rows [from, from + count), all of them committed, to `out`, packed. Returns
// the lowest row that cannot have been written over meanwhile (Rows-4): what lies below it in `out`
// is worth nothing.
uint64_t read_rows(const Source& source, uint64_t from, uint64_t count, uint8_t* out);

// The way back, for a buffer that nobody uses yet: rows are written to their places, and count when
// set_rows() says how many were ever committed.
void put_rows(const Source& source, uint64_t from, uint64_t count, const uint8_t* bytes);
void set_rows(const Source& source, uint64_t committed);

// Whether streaming stores pay for a batch of this many bytes.
inline bool should_stream(uint64_t bytes) { return bytes >= (uint64_t{1} << 20); }

}  // namespace hotslot::rows
