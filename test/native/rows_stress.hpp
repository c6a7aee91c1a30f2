// What the stress of replay rows shares: rows that contain their own id, and readers of ranges,
// which checkpoints use. They read while writers add at full speed, and restore into an unused
// buffer.
#pragma once
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "check.hpp"
#include "rows/rows.hpp"
#include "rows/sampler.hpp"
#include "wait/bell.hpp"

namespace rows_stress {

using namespace hotslot::rows;
using hotslot::now_ns;

inline uint64_t mix(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdull;
  x ^= x >> 33;
  return x * 0xc4ceb9fe1a85ec53ull;
}

// Fills a row. The first word is the id, which is never 0, and the other words follow from it.
inline void fill(uint64_t* row, uint64_t id, uint64_t words) {
  row[0] = id;
  for (uint64_t k = 1; k < words; ++k) row[k] = mix(id * 31 + k);
}
inline bool whole(const uint64_t* row, uint64_t words) {
  if (row[0] == 0) return false;
  for (uint64_t k = 1; k < words; ++k) {
    if (row[k] != mix(row[0] * 31 + k)) return false;
  }
  return true;
}

struct Memory {
  uint64_t bytes;
  uint8_t* data;
  Memory(uint64_t capacity, uint32_t row_bytes)
      : bytes((bytes_needed(capacity, row_bytes) + 63) / 64 * 64) {
    data = static_cast<uint8_t*>(std::aligned_alloc(64, bytes));
    std::memset(data, 0, bytes);
    format(data, static_cast<uint32_t>(capacity), row_bytes);
  }
  ~Memory() { std::free(data); }
};

// Adds rows as two fields, so that no row is written by a single copy.
inline void write_rows(const Source& source, uint64_t writer, uint64_t first, uint64_t rows) {
  const uint64_t words = source.row_bytes / 8;
  std::vector<uint64_t> packed(rows * words), heads(rows), tails(rows * (words - 1));
  for (uint64_t r = 0; r < rows; ++r) {
    fill(&packed[r * words], (writer << 40) + first + r + 1, words);
    heads[r] = packed[r * words];
    for (uint64_t k = 1; k < words; ++k) tails[r * (words - 1) + k - 1] = packed[r * words + k];
  }
  const Field fields[] = {{reinterpret_cast<uint8_t*>(heads.data()), nullptr, 0, 8, 8, nullptr},
                          {reinterpret_cast<uint8_t*>(tails.data()), nullptr, 8,
                           static_cast<uint32_t>((words - 1) * 8), (words - 1) * 8, nullptr}};
  add(source, fields, 2, nullptr, rows);
}

struct Ring {
  uint64_t capacity;
  uint32_t row_bytes;
  uint64_t per_add;
};

// Reads ranges of rows, most often the oldest, which are overtaken first. If there is one writer,
// row p has the id p + 1.
struct RangeReader {
  const Source& source;
  bool numbered;
  uint64_t seed;
  uint64_t trusted = 0, overtaken = 0;

  void read(uint64_t most) {
    const uint64_t words = source.row_bytes / 8;
    const Snapshot now = snapshot(source);
    if (now.size == 0) return;
    seed = mix(seed + 1);
    const uint64_t skipped = seed % 3 == 0 ? mix(seed) % now.size : 0;
    const uint64_t from = now.ptr - now.size + skipped, left = now.size - skipped;
    const uint64_t count = left < most ? left : most;
    std::vector<uint64_t> out(count * words + 2, 0xabcd);
    const uint64_t lowest =
        hotslot::rows::read_rows(source, from, count, reinterpret_cast<uint8_t*>(out.data() + 1));
    if (out.front() != 0xabcd || out.back() != 0xabcd)
      wrong("a range was written outside its rows");
    for (uint64_t row = from; row < from + count; ++row) {
      if (row < lowest) {
        ++overtaken;
        continue;
      }
      ++trusted;
      const uint64_t* const at = &out[1 + (row - from) * words];
      if (!whole(at, words)) wrong("torn row, lowest", row, lowest);
      if (numbered && at[0] != (uint64_t{1} << 40) + row + 1) wrong("another row", row, at[0]);
    }
  }
};

inline void ranges(const Ring& ring, int writers, int milliseconds) {
  Memory memory(ring.capacity, ring.row_bytes);
  const Source source = open(memory.data, memory.bytes);
  std::atomic<int> reading{2};
  std::vector<std::thread> threads;
  for (int w = 1; w <= writers; ++w)
    threads.emplace_back([&, w] {
      for (uint64_t first = 0; reading > 0; first += ring.per_add)
        write_rows(source, w, first, ring.per_add);
    });
  uint64_t trusted[2] = {}, overtaken[2] = {};
  for (int r = 0; r < 2; ++r)
    threads.emplace_back([&, r] {
      RangeReader reader{source, writers == 1, static_cast<uint64_t>(r)};
      const uint64_t end = now_ns() + static_cast<uint64_t>(milliseconds) * 1'000'000;
      // Continues until the reader has read trusted rows and overtaken ones. Otherwise the test
      // would show nothing.
      while ((now_ns() < end || reader.trusted == 0 || reader.overtaken == 0) && failures == 0)
        reader.read(r == 0 ? ring.capacity : 5);
      trusted[r] = reader.trusted;
      overtaken[r] = reader.overtaken;
      --reading;
    });
  for (auto& thread : threads) thread.join();
  std::printf("ranges of %llu rows, %d writers: %llu rows trusted, %llu overtaken\n",
              (unsigned long long)ring.capacity, writers,
              (unsigned long long)(trusted[0] + trusted[1]),
              (unsigned long long)(overtaken[0] + overtaken[1]));
}

// Checks every moment of a writer in sequence. Trusted rows must be whole, and only the rows that
// the writer has reserved may be given up.
inline void range_beside_a_pen(uint64_t capacity) {
  constexpr uint64_t words = 2;
  Memory memory(capacity, words * 8);
  const Source source = open(memory.data, memory.bytes);
  std::vector<uint64_t> out(capacity * words);
  const auto look = [&](uint64_t reserved) {
    const Snapshot now = snapshot(source);
    const uint64_t from = now.ptr - now.size;
    const uint64_t lowest =
        hotslot::rows::read_rows(source, from, now.size, reinterpret_cast<uint8_t*>(out.data()));
    if (lowest != (reserved > capacity ? reserved - capacity : 0))
      wrong("lowest, reserved", lowest, reserved);
    for (uint64_t row = from < lowest ? lowest : from; row < now.ptr; ++row)
      if (out[(row - from) * words] != (uint64_t{1} << 40) + row + 1 ||
          !whole(&out[(row - from) * words], words))
        wrong("a row while a writer was active", row, now.ptr);
  };
  for (uint64_t row = 0; row < 3 * capacity + 2; ++row) {
    look(row);
    source.header->reserved = row + 1;
    look(row + 1);
    // Writes only half of the row.
    const uint64_t id = (uint64_t{1} << 40) + row + 1;
    std::memcpy(source.rows + row % capacity * source.stride, &id, 8);
    look(row + 1);
    source.header->reserved = row;
    write_rows(source, 1, row, 1);
    look(row + 1);
  }
}

// Restores rows into an unused buffer, in pieces and from every position of the ring. Then both
// buffers get the same rows and must stay equal.
inline void kept_rows() {
  for (uint64_t capacity : {1, 2, 3}) range_beside_a_pen(capacity);
  constexpr uint64_t capacity = 7, words = 8;
  for (uint64_t added = 0; added < 3 * capacity; ++added) {
    Memory from(capacity, words * 8), to(capacity, words * 8);
    const Source saved = open(from.data, from.bytes), fresh = open(to.data, to.bytes);
    if (added > 0) write_rows(saved, 1, 0, added);
    const Snapshot then = snapshot(saved);
    std::vector<uint8_t> bytes(3 * words * 8);
    for (uint64_t row = then.ptr - then.size; row < then.ptr; row += 3) {
      const uint64_t count = then.ptr - row < 3 ? then.ptr - row : 3;
      if (hotslot::rows::read_rows(saved, row, count, bytes.data()) > row)
        wrong("a range counted as overtaken without a writer", row);
      put_rows(fresh, row, count, bytes.data());
    }
    set_rows(fresh, then.ptr);
    const auto same = [&] {
      const Snapshot now = snapshot(saved), there = snapshot(fresh);
      if (there.ptr != now.ptr || there.size != now.size) wrong("ptr, size", there.ptr, there.size);
      if (std::memcmp(saved.rows, fresh.rows, capacity * saved.stride) != 0)
        wrong("other rows after", now.ptr);
    };
    same();
    for (const Source& each : {saved, fresh}) write_rows(each, 1, added, 3);
    same();
  }
}

}  // namespace rows_stress
