// Stresses the core of replay rows without JavaScript, for the sanitizers: checksummed rows and
// weights under many threads, and every copy loop against a plain one. Prints each error and
// returns 1. Build it in the project's root, with -fsanitize=thread or with
// -fsanitize=address,undefined:
//   g++ -std=c++17 -O1 -g -fsanitize=thread -Inative test/native/rows_harness.cpp
//   native/rows/all.cpp
#include <cstdlib>

#include "rows/copy.hpp"
#include "rows/finite.hpp"
#include "rows/limiter.hpp"
#include "rows/mailbox.hpp"
#include "rows/row_check.hpp"
#include "rows_stress.hpp"
#include "wait/core_pool.hpp"

using namespace rows_stress;

namespace {

// Gathers random rows with both kinds of stores until every writer is done, and checks each.
void read_rows(const Source& source, const std::atomic<int>& writing, uint64_t seed, uint64_t count,
               std::atomic<uint64_t>* gathered) {
  const uint64_t words = source.row_bytes / 8;
  std::vector<uint32_t> indices(count);
  std::vector<uint64_t> out(count * words + 2);
  uint64_t last = 0;
  while (writing.load() > 0 && failures == 0) {
    const Snapshot now = snapshot(source);
    if (now.ptr < last) wrong("ptr went backwards", last, now.ptr);
    last = now.ptr;
    if (now.size == 0) continue;
    draw(++seed, static_cast<uint32_t>(now.size), indices.data(), count);
    // A commit that comes too early would show in the newest rows.
    for (uint64_t i = 0; i < count; i += 3)
      indices[i] = static_cast<uint32_t>((now.ptr - 1 - i % now.size) % source.capacity);
    std::fill(out.begin(), out.end(), 0xabcd);
    GatherJob job;
    while (gather(source, job, indices.data(), count, reinterpret_cast<uint8_t*>(out.data() + 1),
                  now_ns() + 200'000, (seed & 1) != 0) != GatherResult::Done) {}
    if (out.front() != 0xabcd || out.back() != 0xabcd) wrong("gather wrote outside its rows");
    for (uint64_t i = 0; i < count; ++i) {
      if (!whole(&out[1 + i * words], words))
        wrong("torn or unwritten row", source.capacity, out[1 + i * words]);
    }
    *gathered += count;
  }
}

// Time without a batch after which a reader counts as locked out. Even a machine that pauses for
// seconds does not take that long.
constexpr uint64_t locked_out_ns = 60'000'000'000;

// Runs for the given time, and until every reader has gathered a batch. Batches of shared_from
// bytes and more are split for idle cores. With more writers than the board has seats, some writers
// wait for their turn.
void torture(uint64_t capacity, uint32_t row_bytes, uint64_t rows_per_add, int milliseconds,
             uint64_t batch = 97, int writers = 3) {
  Memory memory(capacity, row_bytes);
  const Source source = open(memory.data, memory.bytes);
  constexpr int kReaders = 2;
  std::atomic<int> writing{writers};
  std::atomic<uint64_t> added{0};
  std::atomic<uint64_t> gathered[kReaders] = {};
  const uint64_t begin = now_ns(), end = begin + static_cast<uint64_t>(milliseconds) * 1'000'000;
  const auto over = [&] {
    if (failures != 0) return true;
    if (gathered[0] > 0 && gathered[1] > 0) return now_ns() >= end;
    if (now_ns() < begin + locked_out_ns) return false;
    wrong("a reader was locked out", capacity);
    return true;
  };
  std::vector<std::thread> threads;
  for (int w = 0; w < writers; ++w) {
    threads.emplace_back([&, w] {
      uint64_t first = 0;
      while (!over()) {
        const uint64_t rows = rows_per_add < capacity ? rows_per_add : capacity;
        write_rows(source, w + 1, first, rows);
        first += rows;
      }
      added += first;
      --writing;
    });
  }
  for (int r = 0; r < kReaders; ++r)
    threads.emplace_back([&, r] { read_rows(source, writing, 1000 * r, batch, &gathered[r]); });
  for (auto& thread : threads) thread.join();
  if (snapshot(source).ptr != added)
    wrong("rows lost or counted twice", snapshot(source).ptr, added.load());
  std::printf("capacity %6llu, %4u B, %3llu per add: %8llu added, %8llu gathered\n",
              (unsigned long long)capacity, row_bytes, (unsigned long long)rows_per_add,
              (unsigned long long)added, (unsigned long long)(gathered[0] + gathered[1]));
}

// Blocks that idle cores copy must be at the right offset, even if the time is over before the
// batch is complete.
void shared_copies() {
  for (uint32_t row_bytes : {1720, 70000}) {
    const uint64_t capacity = 100, count = 9 * (shared_from / row_bytes) + 5;
    Memory memory(capacity, row_bytes);
    const Source source = open(memory.data, memory.bytes);
    for (uint64_t i = 0; i < capacity * source.stride; ++i)
      source.rows[i] = static_cast<uint8_t>(mix(i));
    source.header->reserved = source.header->committed = capacity;
    std::vector<uint32_t> indices(count);
    draw(row_bytes, capacity, indices.data(), count);
    std::vector<uint8_t> out(count * row_bytes + 1, 0x5a), alone = out;
    GatherJob job, one;
    int calls = 1;
    while (gather(source, job, indices.data(), count, out.data(), 1, true) == GatherResult::More)
      ++calls;
    gather(source, one, indices.data(), count, alone.data(), 0, false, Hands::one);
    if (out != alone || out.back() != 0x5a) wrong("a shared copy differs", row_bytes);
    if (calls < 2) wrong("gather() did not stop when its time was over", row_bytes);
    for (uint64_t i = 0; i < count; ++i)
      if (std::memcmp(&alone[i * row_bytes], source.rows + indices[i] * source.stride, row_bytes) !=
          0)
        wrong("a copy differs", row_bytes, i);
  }
}

void copies() {
  for (uint32_t row_bytes : {1,  2,  3,  4,  7,  8,   12,  15,  16,  20,  31,  32,
                             33, 48, 63, 64, 65, 100, 127, 128, 172, 256, 300, 1720}) {
    const uint64_t capacity = 37;
    Memory memory(capacity, row_bytes);
    const Source source = open(memory.data, memory.bytes);
    for (uint64_t i = 0; i < capacity * source.stride; ++i)
      source.rows[i] = static_cast<uint8_t>(mix(i));
    source.header->reserved = source.header->committed = capacity;
    uint32_t indices[150];
    draw(row_bytes, capacity, indices, 150);
    indices[0] = 0;
    indices[1] = capacity - 1;
    for (uint64_t count : {1, 2, 3, 65, 150}) {
      for (uint64_t shift : {0, 4, 60}) {
        for (bool stream : {false, true}) {
          const uint64_t bytes = count * row_bytes;
          std::vector<uint8_t> out(64 + shift + bytes + 64, 0x5a);
          uint8_t* start =
              out.data() + (64 - reinterpret_cast<uintptr_t>(out.data()) % 64) % 64 + shift;
          GatherJob job;
          gather(source, job, indices, count, start, 0, stream);
          for (uint64_t i = 0; i < bytes; ++i) {
            if (start[i] !=
                source.rows[uint64_t{indices[i / row_bytes]} * source.stride + i % row_bytes])
              wrong("copy differs", row_bytes, count);
          }
          for (uint8_t* p = out.data(); p < out.data() + out.size(); ++p) {
            if ((p < start || p >= start + bytes) && *p != 0x5a)
              wrong("copy wrote outside", row_bytes, count);
          }
        }
      }
    }
  }
}

void weights(int milliseconds) {
  constexpr uint64_t kWords = 300, kStride = kWords * 8;
  auto box = std::make_unique<Mailbox>();
  box->begun = 0;
  box->published = 0;
  std::vector<uint8_t> buffers(3 * kStride);
  std::atomic<bool> over{false};
  std::atomic<uint64_t> reads{0};
  std::vector<std::thread> readers;
  for (int r = 0; r < 2; ++r) {
    readers.emplace_back([&] {
      std::vector<uint64_t> into(kWords);
      int32_t last = 0;
      while (!over && failures == 0) {
        const int32_t version = read_version(*box, buffers.data(), kStride, kStride,
                                             reinterpret_cast<uint8_t*>(into.data()), last);
        if (version == 0) continue;
        if (version <= last) wrong("versions went backwards", last, version);
        last = version;
        if (into[0] != static_cast<uint64_t>(version) || !whole(into.data(), kWords))
          wrong("torn weights", version, into[0]);
        ++reads;
      }
    });
  }
  std::vector<uint64_t> value(kWords);
  int32_t ahead = 0;
  const uint64_t end = now_ns() + static_cast<uint64_t>(milliseconds) * 1'000'000;
  while ((now_ns() < end || (reads == 0 && now_ns() < end + locked_out_ns)) && failures == 0) {
    const int32_t version = begin_version(*box);
    if (version == 0) {
      if (!publish_version(*box, ++ahead)) wrong("in-order publish refused", ahead);
      continue;
    }
    fill(value.data(), version, kWords);
    to_shared(buffers.data() + (version % 3) * kStride, reinterpret_cast<uint8_t*>(value.data()),
              kStride);
    if (publish_version(*box, version + 1))
      wrong("a version never begun was published", version + 1);
  }
  over = true;
  for (auto& reader : readers) reader.join();
  if (reads == 0) wrong("no version was ever read");
  std::printf("mailbox: %d versions, %llu reads\n", box->published.load(),
              (unsigned long long)reads);
}

// A writer stops between its reservation and its commit, so its row is not available. The reader
// must return in time, must ask writers to let it pass meanwhile, and must then withdraw the
// request.
void stuck_writer() {
  Memory memory(1, 64);
  const Source source = open(memory.data, memory.bytes);
  write_rows(source, 1, 0, 1);
  source.header->reserved = 2;
  const uint32_t index = 0;
  uint64_t out[8];
  GatherJob job;
  std::atomic<bool> asked{false}, over{false};
  std::thread watcher([&] {
    while (!over && !asked) asked = source.header->readers_waiting != 0;
  });
  uint8_t* const to = reinterpret_cast<uint8_t*>(out);
  for (int i = 0; i < 1000 && !asked; ++i) {
    if (gather(source, job, &index, 1, to, now_ns() + 1'000'000, false) != GatherResult::More)
      wrong("gathered a row that its writer had not committed");
  }
  over = true;
  watcher.join();
  if (!asked) wrong("the reader never asked to be let pass");
  if (source.header->readers_waiting != 0) wrong("the reader kept asking");
  // Readers that never withdraw their request delay a writer only briefly.
  source.header->reserved = 1;
  source.header->readers_waiting = 1;
  write_rows(source, 1, 1, 1);
  if (gather(source, job, &index, 1, to, 0, false) != GatherResult::Done || !whole(out, 8))
    wrong("no row after the writer");
}

// Threads take single rows until they are refused. Together they must take exactly as many as the
// limit allows.
void limits() {
  for (int round = 0; round < 100; ++round) {
    auto limiter = std::make_unique<Limiter>();
    limiter->samples_per_insert = 1;
    limiter->min_size = 10;
    limiter->error_buffer = 2000;
    limiter->gates_add = 1;
    limiter->admitted = 0;
    limiter->inserts = 10;
    limiter->samples = 0;
    std::atomic<int> ready{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 2; ++t) {
      threads.emplace_back([&] {
        for (++ready; ready < 2;) {}
        while (take_inserts(*limiter, 1)) {}
        for (++ready; ready < 4;) {}
        while (take_samples(*limiter, 1)) {}
      });
    }
    for (auto& thread : threads) thread.join();
    if (limiter->admitted != 2010)
      wrong("writers took more than there is room for", limiter->admitted.load(), 2010);
    if (limiter->samples != 2000)
      wrong("samplers took more than there is room for", limiter->samples.load(), 2000);
  }
}

}  // namespace

// Compares the fast check for non-finite numbers with a plain one, for every length and position.
// The buffers are exactly as long as the numbers, so that a sanitizer finds a read beyond.
void finite_numbers() {
  const float odd[] = {__builtin_nanf(""), -__builtin_inff(), __builtin_inff()};
  for (uint64_t count = 0; count <= 70; ++count) {
    std::vector<float> floats(count, 3.40282347e38f);
    std::vector<double> doubles(count, -1.7976931348623157e308);
    std::vector<uint16_t> halves(count, 0x7bff), brains(count, 0xff7f);
    const auto bytes = [](auto& values) { return reinterpret_cast<const uint8_t*>(values.data()); };
    const auto look = [&](bool want, uint64_t at) {
      if (all_finite(bytes(floats), count * 4, FloatKind::float32) != want)
        wrong("float32: count, odd at", count, at);
      if (all_finite(bytes(doubles), count * 8, FloatKind::float64) != want)
        wrong("float64: count, odd at", count, at);
      if (all_finite(bytes(halves), count * 2, FloatKind::float16) != want)
        wrong("float16: count, odd at", count, at);
      if (all_finite(bytes(brains), count * 2, FloatKind::bfloat16) != want)
        wrong("bfloat16: count, odd at", count, at);
    };
    look(true, count);
    for (uint64_t at = 0; at < count; ++at) {
      const float was = floats[at];
      floats[at] = odd[at % 3], doubles[at] = double(odd[at % 3]), halves[at] = 0xfc00,
      brains[at] = 0x7fc0;
      look(false, at);
      const FieldKind kind{4, FloatKind::float32, Role::value};
      if (first_non_finite(bytes(floats), count * 4, kind) != at)
        wrong("the first odd number", count, at);
      floats[at] = was, doubles[at] = -0.0, halves[at] = 0x8000, brains[at] = 0;
    }
  }
}

// Adds rows whose next observation is stored as 0 to a small ring, from dense and strided sources
// in the same add.
void zeroed_rows() {
  Memory memory(7, 16);
  const Source source = open(memory.data, memory.bytes);
  RowCheck check({{4, FloatKind::float32, Role::value},
                  {4, FloatKind::float32, Role::next},
                  {4, FloatKind::float32, Role::terminated}});
  const float nan = __builtin_nanf("");
  std::vector<float> packed;
  for (int row = 0; row < 5; ++row)
    packed.insert(packed.end(), {float(row), row == 3 ? nan : 1.0f, nan, row == 3 ? 1.0f : 0.0f});
  for (int row = 0; row < 5; ++row) packed[row * 4 + 2] = row == 3 ? nan : 2.0f;
  const auto* from = reinterpret_cast<const uint8_t*>(packed.data());
  std::vector<Field> fields = {{from, nullptr, 0, 4, 16, nullptr},
                               {from + 4, nullptr, 4, 8, 16, nullptr},
                               {from + 12, nullptr, 12, 4, 16, nullptr}};
  RefusedValue value;
  for (int again = 0; again < 3; ++again) {
    if (!check.look(fields, nullptr, 5, value))
      wrong("a row that terminated was refused", value.row, value.field);
    add(source, fields.data(), fields.size(), nullptr, 5);
  }
  std::vector<float> out(7 * 4);
  read_rows(source, 8, 7, reinterpret_cast<uint8_t*>(out.data()));
  for (uint64_t i = 0; i < 7; ++i) {
    const uint64_t row = (8 + i) % 5;
    const float* got = &out[i * 4];
    if (got[0] != float(row) || got[1] != (row == 3 ? 0 : 1) || got[2] != (row == 3 ? 0 : 2))
      wrong("a stored row", i, row);
  }
  packed[3 * 4 + 3] = 0;  // the row did not terminate
  if (check.look(fields, nullptr, 5, value) || value.row != 3 || value.field != 1 ||
      value.element != 0)
    wrong("a row that must be refused", value.row, value.field);
}

int main(int argc, char** argv) {
  hotslot::IdleCores::use(hotslot::CorePool::table_of_process());
  const int percent = argc > 1 ? std::atoi(argv[1]) : 100;
  const auto ms = [percent](int whole) { return whole * percent / 100; };
#ifndef __SANITIZE_THREAD__
  // These have only one thread.
  finite_numbers();
  zeroed_rows();
  copies();
#endif
  shared_copies();
  stuck_writer();
  for (uint64_t capacity : {1, 2, 3, 7}) torture(capacity, 64, 1, ms(150));
  torture(7, 1720, 5, ms(200));
  torture(64, 172 / 8 * 8, 17, ms(200));
  torture(1000, 64, 300, ms(200));
  torture(uint64_t{1} << 16, 64, 8, ms(150));
  for (int writers : {8, 20}) torture(300, 64, 3, ms(150), 97, writers);
  torture(512, 4096, 3, ms(100), 2 * (shared_from / 4096) + 1);
  // With more writers, one of them would always be writing, because the thread sanitizer takes a
  // millisecond per row.
  torture(3, 65536, 1, ms(100), 2 * (shared_from / 65536), 1);
  ranges({1, 16, 1}, 1, ms(50));
  ranges({7, 64, 1}, 1, ms(100));
  ranges({64, 168, 17}, 1, ms(100));
  ranges({1000, 64, 300}, 3, ms(100));
  kept_rows();
  weights(ms(300));
  limits();
  return failures > 0;
}
