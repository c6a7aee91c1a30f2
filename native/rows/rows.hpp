// Replay rows in shared memory: the layout of a buffer and its three operations (snapshot, add,
// gather). Compiled into rows.node (collectors, in-process sampling) and pack.node. Any number of
// threads may write and read.
//
//   memory   header (16 lines) │ row 0 │ row 1 │ … │ row capacity−1
//
// Absolute row p (counted from the first row ever added) is at index p mod capacity. Each row
// begins row_stride() bytes after the row before.
//   Rows-1  reserved ≥ committed. Rows [committed, reserved) may be half written, and all rows
//       below committed are whole.
//   Rows-2  A writer owns the rows [a, b) that its fetch_add on `reserved` returned. It writes them
//       only after committed ≥ b − capacity, when the rows that were at the same indices before are
//       whole.
//   Rows-3  Commits are in order. Only the holder of the rows [a, b) moves committed, from a to b.
//       Their owner holds the rows until it puts them on the board. The thread that commits up to a
//       takes them from the board, and then holds and commits them.
//       The owner puts the rows on the board and then reads committed. A thread that commits stores
//       committed and then reads the board. So one of the two always finds the rows. If the owner
//       reads that committed is already a, it takes the rows back.
//       The first preempted writer to resume commits for all. So the delays of preempted writers do
//       not add up.
//   Rows-4  A reader trusts a copied row only if no writer can have begun on its index. The reader
//       decides this by the `committed` that it read before the copy and the `reserved` that it
//       read after the copy.
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

// Rows [begin, end) that are written and that wait for the commit of the rows before them (Rows-3).
struct Written {
  static constexpr uint64_t free = 0, held = ~uint64_t{0};
  // free, held (a thread fills or empties the entry), or begin + 1. The store of begin + 1
  // publishes `end` and the rows.
  //
  // A thread that puts rows here stores `turn`, then reads `committed`. A thread that commits
  // stores `committed`, then reads `turn`. One of the two must see the other's store, so all four
  // accesses are sequentially consistent.
  //
  // put_on_board() looks for a free entry with a relaxed load, because the exchange after it checks
  // the value again. That exchange acquires the release with which another thread emptied the
  // entry.
  std::atomic<uint64_t> turn;
  uint64_t end;
};

struct alignas(64) Header {
  uint32_t magic;
  uint32_t version;
  uint32_t capacity;
  uint32_t row_bytes;
  // Number of rows that writers ever reserved. A writer raises it before it changes the first byte
  // of its rows (Rows-2). A reader loads it after the last byte of its copy (Rows-4).
  alignas(64) std::atomic<uint64_t> reserved;
  // Number of rows ever committed. A store to `committed` publishes all rows below the stored
  // value, and pairs with the loads in snapshot() and gather(). Threads that wait for a value of
  // `committed` load it with acquire.
  //
  // After the store, the thread reads the board and `reserved` to find the next rows to commit.
  // These reads must not run before the store is visible. Otherwise this thread and the rows' owner
  // could miss each other (Rows-3), so the store is sequentially consistent.
  alignas(64) std::atomic<uint64_t> committed;
  // Number of readers that repeatedly failed to copy a whole row. While it is not 0, writers wait
  // before they reserve, up to a bound. Each reader lowers the number before its native call
  // returns.
  //
  // The number publishes no data, so writers load it relaxed. A writer whose load is stale waits
  // the next time.
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
// it touches as few lines as possible. A short row begins at the alignment of a vector load.
inline uint64_t row_stride(uint64_t row_bytes) {
  const uint64_t grain = row_bytes >= 256 ? 64 : 16;
  return (row_bytes + grain - 1) / grain * grain;
}

struct Snapshot {
  uint64_t ptr;   // number of rows ever committed
  uint64_t size;  // number of rows to draw from: min(ptr, capacity)
};

// Returns the size of a buffer in bytes. The buffer begins at a 64-byte boundary.
uint64_t bytes_needed(uint64_t capacity, uint32_t row_bytes);

// Writes the header to memory that is new, zeroed and 64-byte-aligned. Requests huge pages if the
// system has them.
void format(void* memory, uint32_t capacity, uint32_t row_bytes);

// Opens formatted memory. Returns a source without a header if the memory is not a buffer of this
// version, is misaligned, or is shorter than its header says.
Source open(void* memory, uint64_t bytes);

// Returns the number of whole rows at this moment.
Snapshot snapshot(const Source& source);

// One field of the rows to add. A row's `bytes` bytes are copied from `from` + row × `stride` to
// `offset` in the packed row. If `instead` is not null, rows whose mask byte is not 0 are copied
// from this dense array. If `zero` is not null, rows whose byte in it is not 0 get zeros.
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

// Adds `count` rows slice by slice: reserves, writes and commits each slice. Waits only for writers
// that are writing now and, up to a bound, for readers that failed repeatedly. `mask` (count bytes)
// may be null. Returns when the rows are committed.
void add(const Source& source, const Field* fields, size_t field_count, const uint8_t* mask,
         uint64_t count);

// The progress of a gather. Start each batch with a new, value-initialized job.
struct GatherJob {
  uint64_t next_row = 0;  // all rows before it are whole in `out`
};

// The threads that gather. `one` is the calling thread alone. `all` also uses idle cores if the
// batch has at least shared_from bytes.
enum class Hands { one, all };
constexpr uint64_t shared_from = uint64_t{1} << 20;

enum class GatherResult { Done, More };

// Copies the rows `indices[0 … count)` (each below the snapshot's size) to `out`, packed. At
// `deadline_ns` (CLOCK_MONOTONIC, 0: none), gather() stops and returns More. Then call it again
// with the same job.
//
// `stream_stores` selects stores that bypass the cache. They suit large batches that this CPU does
// not read again. All stores are ordered before the caller's next store. Each block of rows is
// checked by Rows-4 separately, so any thread may copy a block.
GatherResult gather(const Source& source, GatherJob& job, const uint32_t* indices, uint64_t count,
                    uint8_t* out, uint64_t deadline_ns, bool stream_stores,
                    Hands hands = Hands::all);

// Copies the absolute rows [from, from + count) to `out`, packed. All of them must be committed.
// Returns the lowest row that cannot have been overwritten meanwhile (Rows-4). Copies of rows below
// the returned row are invalid.
uint64_t read_rows(const Source& source, uint64_t from, uint64_t count, uint8_t* out);

// Restore a buffer that is not in use yet. put_rows() writes rows at their indices. They become
// readable when set_rows() sets the number of rows ever committed.
void put_rows(const Source& source, uint64_t from, uint64_t count, const uint8_t* bytes);
void set_rows(const Source& source, uint64_t committed);

// Returns whether streaming stores are faster for a batch of `bytes` bytes.
inline bool should_stream(uint64_t bytes) { return bytes >= (uint64_t{1} << 20); }

}  // namespace hotslot::rows
