// Computes the bytes that a kernel touches if these depend on numbers in memory, such as row
// indexes or moves of arrays. The detector (order.hpp) gets these bytes when the kernel runs,
// because the numbers are in memory then.
#pragma once
#include <string_view>

#include "kernels/halo.hpp"
#include "order.hpp"

namespace hotslot::software {

// A stretch of bytes relative to one of the kernel's pointers.
struct Part {
  int pointer;
  uint64_t at, bytes;
  bool writes;
};

// Returns the pointers whose bytes are known only when the kernel runs. Bit i stands for pointer i.
inline uint16_t told_late(const char* kernel) {
  const std::string_view name(kernel);
  if (name == "gather" || name == "gather_places") return 1 << 1;
  // The bits of the buffer and the arrays, without the table.
  if (name.substr(0, 4) == "halo") return 0xffff & ~(1 << 1);
  return 0;
}

// A list of stretches, in which adjacent ones are joined.
class Runs {
 public:
  void add(int pointer, uint64_t at, uint64_t bytes, bool writes) {
    if (!all_.empty()) {
      Part& last = all_.back();
      if (last.pointer == pointer && last.writes == writes && last.at + last.bytes == at) {
        last.bytes += bytes;
        return;
      }
    }
    all_.push_back({pointer, at, bytes, writes});
  }
  std::vector<Part> take() { return std::move(all_); }

 private:
  std::vector<Part> all_;
};

inline std::vector<Part> rows_read(const int32_t* index, int64_t rows, int64_t table_rows,
                                   uint64_t bytes, uint64_t step) {
  std::vector<int32_t> sorted(index, index + rows);
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  Runs parts;
  for (const int32_t row : sorted)
    if (row >= 0 && row < table_rows) parts.add(1, uint64_t(row) * step, bytes, false);
  return parts.take();
}

inline std::vector<Part> moved(const HaloMove* moves, int64_t count, uint64_t itemsize) {
  Runs parts;
  for (const HaloMove* move = moves; move != moves + count; ++move) {
    const bool into_array = (move->flags & 1) != 0;
    parts.add(0, uint64_t(move->buffer) * itemsize, uint64_t(move->count) * itemsize, !into_array);
    for (int64_t i = 0; i < move->count; ++i) {
      int64_t at = move->base, left = i;
      for (int64_t d = move->rank; d-- > 0; left /= move->dims[d].extent)
        at += left % move->dims[d].extent * move->dims[d].step;
      parts.add(2 + int(move->array), uint64_t(at) * itemsize, itemsize, into_array);
    }
  }
  return parts.take();
}

// Returns the bytes that these arguments touch through the pointers of `told_late`. The host must
// be able to read the tensors.
inline std::vector<Part> parts_of(const char* kernel, const KernelArgs& args) {
  const std::string_view name(kernel);
  const auto* index = static_cast<const int32_t*>(args.pointer[2]);
  const int64_t* whole = args.whole;
  if (name == "gather")
    return rows_read(index, whole[0], whole[2], uint64_t(whole[1]) * 4, uint64_t(whole[4]) * 4);
  if (name == "gather_places")
    return rows_read(index, whole[0], whole[2], uint64_t(whole[1]) * 4, uint64_t(whole[1]) * 4);
  const uint64_t bits = uint64_t(atoi(kernel + 4));
  return moved(static_cast<const HaloMove*>(args.pointer[1]), whole[0], bits / 8);
}

}  // namespace hotslot::software
