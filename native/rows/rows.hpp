// Replay rows in shared memory: the layout of a buffer and its three operations (snapshot, add,
// gather). Compiled into rows.node (collectors, in-process sampling) and pack.node. Any number of
// writers and readers, on any thread.
//
//   memory   header (16 lines) │ row 0 │ row 1 │ … │ row capacity−1
//
// Absolute row p (counted from the first ever added) lies at index p mod capacity, row_stride()
// bytes from the row before.
//   Rows-1  reserved ≥ committed. Rows [committed, reserved) may be half written, and all rows
//       below committed are whole.
//   Rows-2  a writer owns the rows [a, b) that its fetch_add on `reserved` returned. It writes them
//       only once committed ≥ b − capacity, when the earlier lap of the same places is whole.
//   Rows-3  commits are in order: only the holder of [a, b) moves committed, from a to b. The owner
//       holds it until it puts it on the board. From there the thread that committed up to a takes
//       it, or the owner itself once committed is a. The owner reads committed after it put the
//       rows there, and a thread that commits reads the board after that: one of them finds the
//       rows. So preempted writers do not delay each other in turn, because the first one to resume
//       commits for all.
//   Rows-4  a reader trusts a copied row only if `reserved`, read after the copy, shows that no
//       writer can have begun on that place since the `committed` read before the copy.
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
  // free, held (being filled or emptied), or begin + 1. Its store publishes `end` and the rows. It
  // is sequentially consistent where it becomes begin + 1 and where that is looked for. A thread
  // that puts rows here stores `turn`, then reads `committed`. A thread that commits stores
  // `committed`, then reads `turn`. One of the two must see the other's store. Taking a place from
  // `free` needs only to acquire the release that emptied it, and the load before it is a hint, so
  // it is relaxed.
  std::atomic<uint64_t> turn;
  uint64_t end;
};

struct alignas(64) Header {
  uint32_t magic;
  uint32_t version;
  uint32_t capacity;
  uint32_t row_bytes;
  // End of the rows that writers own. Writers add to it before their first byte (Rows-2), and
  // readers load it after their last (Rows-4).
  alignas(64) std::atomic<uint64_t> reserved;
  // Rows ever committed. Its store publishes the rows below it, and pairs with every load in
  // snapshot() and gather(). After the store the thread looks for the next writer in turn, on the
  // board and in `reserved`, so the store is sequentially consistent. Threads that wait for it, or
  // for the lap before it, need only to acquire the rows that it published.
  alignas(64) std::atomic<uint64_t> committed;
  // Readers that could not get a whole row. Writers let them pass before they reserve again. Never
  // held across calls. It is a courtesy that publishes no data: a writer whose relaxed load is
  // stale lets them pass the next time.
  alignas(64) std::atomic<uint32_t> readers_waiting;
  alignas(64) Written board[board_places];
  // A BellBoard (src/shm/bell.ts). Only JavaScript uses it.
  alignas(64) int32_t bells[bell_places * bell_words];
};

struct Source {
  Header* header = nullptr;
  uint8_t* rows = nullptr;
  uint64_t capacity = 0;
  uint32_t row_bytes = 0;
  uint64_t stride = 0;
};

// Returns the bytes from one row to the next in memory. A long row begins on a cache line, so that
// it touches as few lines as possible. A short one begins at the alignment of a vector load.
inline uint64_t row_stride(uint64_t row_bytes) {
  const uint64_t grain = row_bytes >= 256 ? 64 : 16;
  return (row_bytes + grain - 1) / grain * grain;
}

struct Snapshot {
  uint64_t ptr;   // rows ever committed
  uint64_t size;  // rows to draw from: min(ptr, capacity)
};

// Returns the bytes that a buffer takes from a 64-byte boundary on.
uint64_t bytes_needed(uint64_t capacity, uint32_t row_bytes);

// Writes the header of a fresh, zeroed, 64-byte-aligned piece of memory, and requests huge pages if
// the system has them.
void format(void* memory, uint32_t capacity, uint32_t row_bytes);

// Opens formatted memory. Returns a null header if it is not a buffer of this version, is
// misaligned, or is shorter than its header says.
Source open(void* memory, uint64_t bytes);

// Returns the rows that are whole now.
Snapshot snapshot(const Source& source);

// One field of the rows to add: `bytes` per row, `stride` bytes from one row to the next, to
// `offset` within the packed row. Rows whose mask byte is not zero take their bytes from `instead`,
// dense, if it is not null. Rows whose byte in `zero` is not zero get zeros.
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

// Adds `count` rows: reserves, writes and commits, slice by slice. It waits only for writers that
// are writing now. `mask` (count bytes) may be null. Returns when the rows are committed.
void add(const Source& source, const Field* fields, size_t field_count, const uint8_t* mask,
         uint64_t count);

// The progress of a gather. Value-initialize one per batch.
struct GatherJob {
  uint64_t next_row = 0;  // rows before it are whole in `out`
};

// The threads that gather: the calling thread alone, or idle cores too if a batch is large enough
// for them (shared_from bytes).
enum class Hands { one, all };
constexpr uint64_t shared_from = uint64_t{1} << 20;

enum class GatherResult { Done, More };

// Copies rows `indices[0 … count)` (each below the snapshot's size) to `out`, packed. Stops at
// `deadline_ns` (CLOCK_MONOTONIC, 0 = none) and returns More: call again with the same job.
// Streaming stores bypass the cache, which suits large batches that this CPU does not read again.
// Every store is ordered before the caller's next store. Each block of rows keeps Rows-4 by itself,
// so any thread may copy it.
GatherResult gather(const Source& source, GatherJob& job, const uint32_t* indices, uint64_t count,
                    uint8_t* out, uint64_t deadline_ns, bool stream_stores,
                    Hands hands = Hands::all);

// Copies the absolute rows [from, from + count), all of them committed, to `out`, packed. Returns
// the lowest row that cannot have been overwritten meanwhile (Rows-4). The copies of rows below it
// are invalid.
uint64_t read_rows(const Source& source, uint64_t from, uint64_t count, uint8_t* out);

// Restores a buffer that is not in use yet. Rows are written to their places, and count after
// set_rows(), which sets the number of rows ever committed.
void put_rows(const Source& source, uint64_t from, uint64_t count, const uint8_t* bytes);
void set_rows(const Source& source, uint64_t committed);

// Whether streaming stores are faster for a batch of `bytes` bytes.
inline bool should_stream(uint64_t bytes) { return bytes >= (uint64_t{1} << 20); }

}  // namespace hotslot::rows
