// The host form of the halo kernels. It copies a move in planes of two dimensions. In a plane,
// memcpy copies long contiguous runs. Plain loops over two strides copy everything else.
#include "kernels/halo.hpp"

#include <cstdlib>
#include <cstring>

#include "kernels/need.hpp"
#include "kernels/overlap.hpp"
#include "wait/idle_cores.hpp"

namespace hotslot {
namespace {

// Bytes of one piece of work, and the maximum number of parts of a move. Waking another core costs
// about as much as copying 200 KiB, so smaller pieces would gain little.
constexpr int64_t piece_bytes = 512 << 10, max_parts = 64;

char* text() {
  static thread_local char buffer[200];
  return buffer;
}

template <class... V>
const char* say(const char* format, V... values) {
  std::snprintf(text(), 200, format, (long long)values...);
  return text();
}

const char* wrong(const HaloMove& move, int64_t m, HaloArray buffer, const HaloArray* arrays,
                  int64_t n_arrays) {
  if (move.array < 0 || move.array >= n_arrays)
    return say("move %lld is of array %lld, there are %lld", m, move.array, n_arrays);
  if (move.rank < 0 || move.rank > halo_max_rank)
    return say("move %lld has rank %lld", m, move.rank);
  __int128 count = 1, low = move.base, high = move.base;
  for (int64_t d = 0; d < move.rank; ++d) {
    const auto [extent, step] = move.dims[d];
    if (extent < 0 || (count *= extent) > INT64_MAX)
      return say("move %lld has an extent of %lld", m, extent);
    (step < 0 ? low : high) += __int128(extent - 1) * step;
  }
  if (count != move.count)
    return say("move %lld says %lld elements, its extents say otherwise", m, move.count);
  if (count == 0) return nullptr;
  if (move.buffer < 0 || __int128(move.buffer) + count > buffer.elements)
    return say("move %lld: %lld elements from %lld on end beyond a buffer of %lld", m, move.count,
               move.buffer, buffer.elements);
  const HaloArray& array = arrays[move.array];
  if (low < 0 || high >= array.elements)
    return say("move %lld reaches outside its array of %lld elements", m, array.elements);
  return nullptr;
}

enum class To { buffer, buffer_negated, array };

template <class T, To to>
inline void one(T* dense, T* strided) {
  constexpr T sign = T(1) << (8 * sizeof(T) - 1);
  if constexpr (to == To::array)
    *strided = *dense;
  else
    *dense = to == To::buffer_negated ? T(*strided ^ sign) : *strided;
}

// One dimension of a walk: `extent` elements, which are `step` elements apart in the array and
// `dense` elements apart in the buffer.
struct Loop {
  int64_t extent = 1, step = 1, dense = 1;
};

// Copies rows element by element. If N > 0, it is the number of columns, known at compile time.
template <class T, To to, int N>
void rows_of(T* dense, T* strided, const Loop& row, int64_t columns, int64_t step) {
  const int64_t width = N > 0 ? N : columns;
  for (int64_t i = 0; i < row.extent; ++i, dense += row.dense, strided += row.step)
    for (int64_t j = 0; j < width; ++j) one<T, to>(dense + j, strided + j * step);
}

template <class T, To to>
void runs_of(T* dense, T* strided, const Loop& row, int64_t columns) {
  for (int64_t i = 0; i < row.extent; ++i, dense += row.dense, strided += row.step) {
    if constexpr (to == To::array)
      std::memcpy(strided, dense, size_t(columns) * sizeof(T));
    else
      std::memcpy(dense, strided, size_t(columns) * sizeof(T));
  }
}

// Copies rows whose columns are contiguous in the buffer.
template <class T, To to>
void plane(T* dense, T* strided, const Loop& row, int64_t columns, int64_t step) {
  if (step == 1 && to != To::buffer_negated && columns * int64_t(sizeof(T)) > 64)
    return runs_of<T, to>(dense, strided, row, columns);
  switch (columns) {
    case 1:
      return rows_of<T, to, 1>(dense, strided, row, 1, step);
    case 2:
      return rows_of<T, to, 2>(dense, strided, row, 2, step);
    case 3:
      return rows_of<T, to, 3>(dense, strided, row, 3, step);
    case 4:
      return rows_of<T, to, 4>(dense, strided, row, 4, step);
  }
  // The compiler vectorizes loops with a constant step.
  if (step == 1) return rows_of<T, to, 0>(dense, strided, row, columns, 1);
  if (step == -1) return rows_of<T, to, 0>(dense, strided, row, columns, -1);
  // Copies the same block of columns of all rows before the next block. So every row of the plane
  // finds the cache lines that the first row fetched.
  constexpr int64_t block = 64 / sizeof(T);
  for (int64_t j = 0; j < columns; j += block)
    rows_of<T, to, 0>(dense + j, strided + j * step, row, std::min(block, columns - j), step);
}

template <class T, To to>
void walk(const Loop* loops, int64_t rank, T* dense, T* strided) {
  if (rank <= 2) return plane<T, to>(dense, strided, loops[0], loops[1].extent, loops[1].step);
  for (int64_t i = 0; i < loops[0].extent; ++i)
    walk<T, to>(loops + 1, rank - 1, dense + i * loops[0].dense, strided + i * loops[0].step);
}

// Walks the dimensions in the buffer's order, with one exception. The plane that is copied at once
// always includes the array's densest dimension.
template <class T, To to>
void walk_all(const HaloMove& move, T* dense, T* strided) {
  Loop loops[halo_max_rank + 2];
  int64_t each = 1;
  for (int64_t d = move.rank - 1; d >= 0; --d) {
    loops[2 + d] = {move.dims[d].extent, move.dims[d].step, each};
    each *= move.dims[d].extent;
  }
  Loop* const first = loops + std::min<int64_t>(move.rank, 2);
  Loop* const last = loops + 1 + move.rank;
  if (move.rank > 2) {
    Loop* const densest = std::min_element(first, last, [](const Loop& a, const Loop& b) {
      return std::abs(a.step) < std::abs(b.step);
    });
    if (std::abs(densest->step) < std::abs(last->step)) std::rotate(densest, densest + 1, last);
  }
  walk<T, to>(first, last + 1 - first, dense, strided);
}

template <class T>
void move_one(const HaloMove& move, void* buffer, const HaloArray* arrays) {
  T* const dense = static_cast<T*>(buffer) + move.buffer;
  T* const strided = static_cast<T*>(arrays[move.array].at) + move.base;
  if (move.flags & HaloMove::unpacks)
    walk_all<T, To::array>(move, dense, strided);
  else if (move.flags & HaloMove::negates)
    walk_all<T, To::buffer_negated>(move, dense, strided);
  else
    walk_all<T, To::buffer>(move, dense, strided);
}

void move_any(const HaloMove& move, int64_t itemsize, void* buffer, const HaloArray* arrays) {
  if (move.count == 0) return;
  if (itemsize == 8)
    move_one<uint64_t>(move, buffer, arrays);
  else if (itemsize == 4)
    move_one<uint32_t>(move, buffer, arrays);
  else if (itemsize == 2)
    move_one<uint16_t>(move, buffer, arrays);
  else
    move_one<uint8_t>(move, buffer, arrays);
}

// Returns part `p` of `parts` of a move that is divided along its outermost dimension.
HaloMove part_of(const HaloMove& move, int64_t p, int64_t parts) {
  HaloMove part = move;
  auto& [extent, step] = part.dims[0];
  const int64_t all = extent, from = all * p / parts, each = move.count / all;
  extent = all * (p + 1) / parts - from;
  part.base += from * step;
  part.buffer += from * each;
  part.count = extent * each;
  return part;
}

}  // namespace

const char* halo_move(const HaloMove* moves, int64_t n, int64_t itemsize, HaloArray buffer,
                      const HaloArray* arrays, int64_t n_arrays) {
  int64_t bytes = 0;
  for (int64_t m = 0; m < n; ++m) {
    if (const char* why = wrong(moves[m], m, buffer, arrays, n_arrays)) return why;
    bytes += moves[m].count * itemsize;
  }
  const auto move = [&](int64_t m) { move_any(moves[m], itemsize, buffer.at, arrays); };
  if (bytes < 2 * piece_bytes) {
    for (int64_t m = 0; m < n; ++m) move(m);
    return nullptr;
  }
  // The work of one core at a time: a part of a large move, or several small moves.
  struct Piece {
    int64_t first, last, part, parts;
  };
  std::vector<Piece> pieces;
  const auto run = [&](size_t at) {
    const auto [first, last, part, parts] = pieces[at];
    if (parts > 1) return move_any(part_of(moves[first], part, parts), itemsize, buffer.at, arrays);
    for (int64_t m = first; m < last; ++m) move(m);
  };
  int64_t some = 0;
  for (int64_t m = 0; m < n; ++m) {
    const int64_t own = moves[m].count * itemsize;
    const int64_t parts =
        moves[m].rank == 0 ? 1 : std::min({own / piece_bytes, max_parts, moves[m].dims[0].extent});
    const bool joins =
        parts <= 1 && !pieces.empty() && pieces.back().parts == 1 && some + own <= piece_bytes;
    some = joins ? some + own : own;
    if (joins)
      pieces.back().last = m + 1;
    else if (parts <= 1)
      pieces.push_back({m, m + 1, 0, 1});
    else
      for (int64_t part = 0; part < parts; ++part) pieces.push_back({m, m + 1, part, parts});
  }
  // Moves to the buffer write disjoint parts of the buffer. Moves to arrays may overlap, so they
  // run in order, and the values of the later move stay.
  const int helpers = IdleCores::helpers(uint64_t(bytes));
  const bool in_order = std::any_of(
      moves, moves + n, [](const HaloMove& each) { return each.flags & HaloMove::unpacks; });
  for (size_t from = 0, to; from < pieces.size(); from = to) {
    to = in_order ? from + size_t(pieces[from].parts) : pieces.size();
    IdleCores::run(int(to - from), helpers, [&](int at) { run(from + size_t(at)); });
  }
  return nullptr;
}

namespace {

Overlap::Part part_of(const HaloMove& move) {
  Overlap::Part part;
  part.base = move.base;
  for (int64_t d = 0; d < move.rank; ++d) part.add(move.dims[d].extent, move.dims[d].step);
  return part;
}

}  // namespace

bool halo_moves_meet(const HaloMove& a, const HaloMove& b, int64_t shift) {
  if (a.count == 0 || b.count == 0) return false;
  Overlap::Part second = part_of(b);
  second.base += shift;
  return Overlap::meet(part_of(a), second);
}

bool halo_move_meets_itself(const HaloMove& move) {
  return move.count > 0 && Overlap::meets_itself(part_of(move));
}

// ---- as kernels ---------------------------------------------------------------------------------

namespace {

// Runs the kernel, whose parameters halo.gk describes. The table may hold any values, so
// halo_move() checks it before a move runs.
template <class T>
const char* run(const KernelArgs* given) {
  const KernelArgs& args = *given;
  HaloArray arrays[halo_arrays];
  for (int i = 0; i < halo_arrays; ++i) arrays[i] = {args.pointer[2 + i], args.whole[2 + i]};
  return halo_move(static_cast<const HaloMove*>(args.pointer[1]), args.whole[0], sizeof(T),
                   {args.pointer[0], args.whole[1]}, arrays, halo_arrays);
}

template <class T>
const char* need(const KernelArgs& args, Reach* reach) {
  Check check(args, reach);
  const int64_t moves = check.size(0, "moves"), total = check.size(1, "total");
  check.at_most(0, "moves", halo_arrays), check.at_most(1, "total", UINT32_MAX);
  check.items(0, total, sizeof(T)), check.items(1, moves, sizeof(HaloMove));
  static const char* const rooms[] = {"room 0", "room 1", "room 2", "room 3", "room 4",
                                      "room 5", "room 6", "room 7", "room 8", "room 9"};
  for (int i = 0; i < halo_arrays; ++i)
    check.items(2 + i, check.at_least(2 + i, rooms[i], 0), sizeof(T));
  return check.verdict();
}

template <class T>
Kernel kernel(const char* name) {
  Kernel kernel{name, 2 + halo_arrays, 2 + halo_arrays, 0, need<T>, run<T>};
  kernel.widths.fill(sizeof(T));
  kernel.widths[1] = sizeof(int64_t);
  // A move's flags decide whether it writes the buffer or an array, so the kernel may write all of
  // them. It never writes the table.
  kernel.writes = uint16_t((1 << kernel.pointers) - 1) & ~(1 << 1);
  kernel.shares = kernel.writes & ~1;
  return kernel;
}

}  // namespace

std::vector<Kernel> halo_kernels() {
  return {kernel<uint8_t>("halo8"), kernel<uint16_t>("halo16"), kernel<uint32_t>("halo32"),
          kernel<uint64_t>("halo64")};
}

const Kernel* halo_kernel(int64_t itemsize) {
  static const Kernel* const kernels[] = {find_kernel("halo8"), find_kernel("halo16"),
                                          find_kernel("halo32"), find_kernel("halo64")};
  return kernels[itemsize == 8 ? 3 : itemsize == 4 ? 2 : itemsize == 2 ? 1 : 0];
}

}  // namespace hotslot
