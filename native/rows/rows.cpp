// The seqlock of the replay rows. It decides where a writer may write, and how a reader checks that
// its copy is whole.
#include "rows/rows.hpp"

#include <algorithm>

#include "rows/backoff.hpp"
#include "rows/copy.hpp"
#include "rows/memory.hpp"
#include "wait/bell.hpp"
#include "wait/idle_cores.hpp"

namespace hotslot::rows {
namespace {

// Largest number of bytes that a writer reserves at once. A reader that needs one of these rows
// waits until all of them are written. The limit bounds this wait to ~100 µs.
constexpr uint64_t slice_bytes = uint64_t{1} << 20;

uint64_t rows_per_slice(const Source& source) {
  const uint64_t by_bytes = slice_bytes / source.row_bytes;
  const uint64_t by_capacity = source.capacity / 8;
  return std::max<uint64_t>(1, std::min(by_bytes, by_capacity));
}

template <bool zeros>
void write_rows(const Source& source, const Field* fields, size_t field_count, const uint8_t* mask,
                uint64_t first, uint64_t rows, uint64_t position) {
  uint64_t index = position % source.capacity;
  // While a row is written, the row `ahead` rows later is prefetched. Otherwise the stores of short
  // rows would wait for cache lines. Long rows need no prefetch here, because the hardware does it.
  const uint64_t ahead = source.row_bytes <= 512 ? 8 : rows;
  for (uint64_t row = first; row < first + rows; ++row) {
    uint8_t* to = source.rows + index * source.stride;
    if (row + ahead < first + rows)
      for (uint64_t line = 0; line < source.stride; line += 64)
        __builtin_prefetch(to + ahead * source.stride + line, 1);
    const bool patched = mask != nullptr && mask[row] != 0;
    for (size_t i = 0; i < field_count; ++i) {
      const Field& field = fields[i];
      if (zeros && field.zero != nullptr && field.zero[row] != 0) {
        zero_shared(to + field.offset, field.bytes);
      } else if (patched && field.instead != nullptr) {
        to_shared(to + field.offset, field.instead + row * field.bytes, field.bytes);
      } else {
        to_shared(to + field.offset, field.from + row * field.stride, field.bytes);
      }
    }
    if (++index == source.capacity) index = 0;
  }
}

// Rows-3: takes the written rows that start at `begin` from the board, and sets `end` to their end.
// The calling thread must commit these rows then. Returns false if the board does not have them.
bool take_from_board(Header& header, uint64_t begin, uint64_t& end) {
  for (Written& written : header.board) {
    uint64_t turn = begin + 1;
    if (written.turn.load(std::memory_order_seq_cst) != turn ||
        !written.turn.compare_exchange_strong(turn, Written::held, std::memory_order_seq_cst))
      continue;
    end = written.end;
    written.turn.store(Written::free, std::memory_order_release);
    return true;
  }
  return false;
}

// Puts written rows on the board, so that another thread commits them. Returns false if this thread
// must commit them itself. Either the board is full, or `committed` reached `begin` meanwhile and
// this thread took the rows back.
bool put_on_board(Header& header, uint64_t begin, uint64_t end) {
  for (Written& written : header.board) {
    uint64_t turn = Written::free;
    if (written.turn.load(std::memory_order_relaxed) != turn ||
        !written.turn.compare_exchange_strong(turn, Written::held, std::memory_order_acquire))
      continue;
    written.end = end;
    written.turn.store(begin + 1, std::memory_order_seq_cst);
    uint64_t again = end;
    return header.committed.load(std::memory_order_seq_cst) != begin ||
           !take_from_board(header, begin, again);
  }
  return false;
}

// Commits written rows. Returns when this thread or another one has committed them.
void commit(Header& header, uint64_t begin, uint64_t end) {
  Backoff turn;
  if (header.committed.load(std::memory_order_acquire) != begin &&
      put_on_board(header, begin, end)) {
    while (header.committed.load(std::memory_order_acquire) < end) turn.pause();
    return;
  }
  // Waits until all rows before `begin` are committed. So `committed` rises in order, and never
  // covers a half-written row.
  while (header.committed.load(std::memory_order_acquire) != begin) turn.pause();
  do {
    header.committed.store(end, std::memory_order_seq_cst);
    begin = end;
    // Also commits the rows after these if their owner has put them on the board. Does not search
    // the board if no writer has reserved further rows. A writer that reserves later reads this
    // value of `committed` and commits its rows itself.
  } while (header.reserved.load(std::memory_order_seq_cst) != begin &&
           take_from_board(header, begin, end));
}

void add_slice(const Source& source, const Field* fields, size_t field_count, const uint8_t* mask,
               uint64_t first, uint64_t rows) {
  Header& header = *source.header;
  Backoff courtesy;
  while (header.readers_waiting.load(std::memory_order_relaxed) != 0 &&
         courtesy.rounds() < rounds_of_courtesy(source.row_bytes))
    courtesy.pause();

  // Rows-2: announces the rows to readers before the first byte changes. A reader loads `reserved`
  // after its copy, and then does not trust copies of these rows.
  const uint64_t begin = header.reserved.fetch_add(rows, std::memory_order_seq_cst);
  const uint64_t end = begin + rows;
  Backoff lap;
  while (end > source.capacity &&
         header.committed.load(std::memory_order_acquire) < end - source.capacity)
    lap.pause();
  before_shared_writes();
  const auto write = some_zero(fields, field_count) ? write_rows<true> : write_rows<false>;
  write(source, fields, field_count, mask, first, rows, begin);
  commit(header, begin, end);
}

// Indices that a writer may have written: those of the absolute rows [from, to).
struct Window {
  uint64_t start;  // index of the first row
  uint64_t count;
  uint64_t capacity;

  Window(const Source& source, uint64_t from, uint64_t to)
      : start(from % source.capacity), count(to - from), capacity(source.capacity) {}
  bool covers(uint64_t index) const {
    const uint64_t distance = index >= start ? index - start : index + capacity - start;
    return distance < count;
  }
};

// A reader's request that writers let it pass. It lasts from ask() until the block is copied or the
// reader gives up.
class Plea {
 public:
  explicit Plea(const Source& source)
      : header_(*source.header), patience_ns_(patience_ns(source.row_bytes)) {}
  ~Plea() {
    if (asked_ != 0) header_.readers_waiting.fetch_sub(1, std::memory_order_seq_cst);
  }
  Plea(const Plea&) = delete;
  Plea& operator=(const Plea&) = delete;
  void ask() {
    if (asked_ != 0) return;
    header_.readers_waiting.fetch_add(1, std::memory_order_seq_cst);
    asked_ = now_ns();
  }
  // Returns whether the reader must give up because of its deadline. A reader that has asked keeps
  // trying for at least `patience_ns_`, even after its deadline. Otherwise each of its calls could
  // end before the writers let it pass.
  bool is_over(uint64_t deadline_ns) const {
    if (asked_ == 0 || deadline_ns == 0) return false;
    const uint64_t now = now_ns();
    return now >= deadline_ns && now - asked_ >= patience_ns_;
  }

 private:
  Header& header_;
  const uint64_t patience_ns_;
  uint64_t asked_ = 0;
};

// Copies one row repeatedly, until the copy is whole by Rows-4. Returns false at the deadline, and
// then `out` is invalid.
bool gather_again(const Source& source, uint32_t index, uint8_t* out, Plea& plea,
                  uint64_t deadline_ns) {
  Header& header = *source.header;
  Backoff wait;
  while (true) {
    const uint64_t before = header.committed.load(std::memory_order_acquire);
    // This first check only avoids a copy that the second check would discard.
    if (!Window(source, before, header.reserved.load(std::memory_order_relaxed)).covers(index)) {
      from_shared(out, source.rows + uint64_t{index} * source.stride, source.row_bytes);
      after_shared_reads();
      if (!Window(source, before, header.reserved.load(std::memory_order_acquire)).covers(index))
        return true;
    }
    if (wait.rounds() >= rounds_of_bad_luck) {
      plea.ask();
      if (plea.is_over(deadline_ns)) return false;
    }
    wait.pause();
  }
}

// Copies one block, then copies again the rows that a writer may have overwritten meanwhile.
// Returns the first row that is not whole at the deadline, or `task.end` if all rows are whole.
uint64_t gather_block(const Source& source, CopyRows copy, const CopyTask& task, bool stream_stores,
                      uint64_t deadline_ns) {
  Header& header = *source.header;
  const uint64_t before = header.committed.load(std::memory_order_acquire);
  copy(task);
  after_shared_reads();
  const uint64_t after = header.reserved.load(std::memory_order_acquire);
  if (after == before) return task.end;
  const Window touched(source, before, after);
  Plea plea(source);
  bool drained = !stream_stores;
  for (uint64_t at = task.begin; at < task.end; ++at) {
    if (!touched.covers(task.indices[at])) continue;
    // gather_again() writes to the same bytes with ordinary stores, so the streaming stores must
    // drain first.
    if (!drained) finish_streaming();
    drained = true;
    uint8_t* out = task.out + (at - task.begin) * source.row_bytes;
    if (!gather_again(source, task.indices[at], out, plea, deadline_ns)) return at;
  }
  return task.end;
}

// Number of blocks that each thread copies between two reads of the clock, if idle cores help. With
// fewer blocks, waking a helper would cost more than it saves. Without helpers it is one block.
constexpr uint64_t blocks_each = 4;

void lower(std::atomic<uint64_t>& least, uint64_t value) {
  uint64_t seen = least.load(std::memory_order_relaxed);
  while (value < seen && !least.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {}
}

// Returns the number of rows of a block, which is copied between two reads of `reserved`. A block
// has ~half a MiB. It is a multiple of 64 rows, so that blocks meet at cache lines of the output.
// Rows of 64 KiB and more are copied one by one.
uint64_t rows_per_block(uint32_t row_bytes) {
  if (row_bytes >= (1u << 16)) return 1;
  const uint64_t rows = (uint64_t{1} << 19) / row_bytes;
  return (rows + 63) / 64 * 64;
}

}  // namespace

uint64_t bytes_needed(uint64_t capacity, uint32_t row_bytes) {
  return sizeof(Header) + capacity * row_stride(row_bytes);
}

void format(void* memory, uint32_t capacity, uint32_t row_bytes) {
  Header& header = *static_cast<Header*>(memory);
  header.capacity = capacity;
  header.row_bytes = row_bytes;
  header.version = format_version;
  header.magic = format_magic;
  ask_huge_pages(memory, bytes_needed(capacity, row_bytes));
}

Source open(void* memory, uint64_t bytes) {
  Source source;
  if (reinterpret_cast<uintptr_t>(memory) % alignof(Header) != 0 || bytes < sizeof(Header))
    return source;
  Header* header = static_cast<Header*>(memory);
  if (header->magic != format_magic || header->version != format_version) return source;
  const uint32_t capacity = read_once(header->capacity), row_bytes = read_once(header->row_bytes);
  if (capacity == 0 || row_bytes == 0 || bytes < bytes_needed(capacity, row_bytes)) return source;
  source.header = header;
  source.rows = static_cast<uint8_t*>(memory) + sizeof(Header);
  source.capacity = capacity;
  source.row_bytes = row_bytes;
  source.stride = row_stride(row_bytes);
  return source;
}

Snapshot snapshot(const Source& source) {
  const uint64_t ptr = source.header->committed.load(std::memory_order_acquire);
  return {ptr, ptr < source.capacity ? ptr : source.capacity};
}

void add(const Source& source, const Field* fields, size_t field_count, const uint8_t* mask,
         uint64_t count) {
  const uint64_t slice = rows_per_slice(source);
  for (uint64_t first = 0; first < count; first += slice) {
    add_slice(source, fields, field_count, mask, first,
              count - first < slice ? count - first : slice);
  }
}

GatherResult gather(const Source& source, GatherJob& job, const uint32_t* indices, uint64_t count,
                    uint8_t* out, uint64_t deadline_ns, bool stream_stores, Hands hands) {
  const CopyRows copy = stream_stores ? copy_rows_streaming() : copy_rows_plain();
  const uint64_t block = rows_per_block(source.row_bytes), bytes = count * source.row_bytes;
  const int helpers = hands == Hands::all && bytes >= shared_from ? IdleCores::helpers(bytes) : 0;
  const uint64_t at_once = helpers > 0 ? block * blocks_each * uint64_t(helpers + 1) : block;
  while (job.next_row < count) {
    const uint64_t from = job.next_row, to = std::min(count, from + at_once);
    // The lowest row of this round that was not whole at the deadline, or `to`.
    std::atomic<uint64_t> torn{to};
    IdleCores::run(int((to - from + block - 1) / block), helpers, [&](int piece) {
      const uint64_t begin = from + piece * block, end = std::min(to, begin + block);
      uint8_t* const at = out + begin * source.row_bytes;
      const CopyTask task{source.rows, source.stride, source.row_bytes, indices, begin, end, count,
                          at};
      const uint64_t whole = gather_block(source, copy, task, stream_stores, deadline_ns);
      if (whole < end) lower(torn, whole);
      // The thread that made the stores must drain them, because a fence does not order another
      // thread's stores.
      if (stream_stores) finish_streaming();
    });
    job.next_row = torn.load(std::memory_order_relaxed);
    if (job.next_row < to || (deadline_ns != 0 && to < count && now_ns() >= deadline_ns)) break;
  }
  return job.next_row < count ? GatherResult::More : GatherResult::Done;
}

uint64_t read_rows(const Source& source, uint64_t from, uint64_t count, uint8_t* out) {
  for (uint64_t row = from; row < from + count; ++row, out += source.row_bytes)
    from_shared(out, source.rows + row % source.capacity * source.stride, source.row_bytes);
  after_shared_reads();
  const uint64_t reserved = source.header->reserved.load(std::memory_order_acquire);
  return reserved > source.capacity ? reserved - source.capacity : 0;
}

void put_rows(const Source& source, uint64_t from, uint64_t count, const uint8_t* bytes) {
  for (uint64_t row = from; row < from + count; ++row, bytes += source.row_bytes)
    to_shared(source.rows + row % source.capacity * source.stride, bytes, source.row_bytes);
}

void set_rows(const Source& source, uint64_t committed) {
  source.header->reserved.store(committed, std::memory_order_seq_cst);
  source.header->committed.store(committed, std::memory_order_seq_cst);
}

}  // namespace hotslot::rows
