// Functions for JavaScript that pack or unpack all parts of a halo in one call, on a device or in
// the calling thread.
#include "kernels/halo.hpp"
#include "device/addon/arguments.hpp"

namespace hotslot {
namespace {

// The elements of an array that a move into this array writes. src/extras/halo/launches.ts passes
// the HaloMoves of a launch, then one Written for each move.
struct Written {
  int64_t low, end;  // indices of the array's elements: the first that the move writes, and one
                     // more than the last
  int64_t meets;     // bit i: writes an element that move i also writes, if the arrays are the same
};

// launchHalo(stream, after, event, itemsize, spans, wholes): launches a halo kernel. If `after` is
// a stream and not 0, the kernel runs after all work that is enqueued on `after`. `event` is an
// event that this function may record for that.
//
// `spans` has the handle, offset and bytes of the buffer, the table and the arrays. The kernel has
// pointers for more arrays. These get the buffer, and the kernel does not read it through them.
//
// `wholes` has the kernel's whole numbers. For moves into arrays, a copy of the table and the
// Written values follow. Two moves of one launch must not write the same element, because their
// order is undefined. So a move that writes an element of an earlier move begins another launch.
void launch_halo(Info info) {
  const Bytes spans = bytes_of(info[4], "the spans"),
              wholes = bytes_of(info[5], "the whole numbers");
  const int64_t itemsize = int64_t(whole(info, 3));
  const Kernel* kernel = halo_kernel(itemsize);
  const auto* numbers = reinterpret_cast<const double*>(spans.data);
  const int given = int(spans.size / (3 * sizeof(double)));
  if (given < 1 || int(wholes.size / sizeof(double)) < kernel->wholes)
    throw argument("a halo's arguments are incomplete");
  Launch call;
  call.kernel = kernel;
  for (int i = 0; i < kernel->wholes; ++i)
    call.args.whole[i] = int64_t(reinterpret_cast<const double*>(wholes.data)[i]);
  call.spans.reserve(size_t(kernel->pointers));
  for (int i = 0; i < kernel->pointers; ++i)
    call.spans.push_back(
        i < given ? span(numbers[3 * i], uint64_t(numbers[3 * i + 1]), uint64_t(numbers[3 * i + 2]))
                  : call.spans[0]);
  check_launch(call);
  const int count = int(call.args.whole[0]);
  const size_t numbers_end = size_t(kernel->wholes) * sizeof(double),
               plan = wholes.size - numbers_end;
  if (plan && plan < size_t(count) * (sizeof(HaloMove) + sizeof(Written)))
    throw argument("a halo's moves are incomplete");
  const auto on = stream(info, 0);
  if (number(info, 1) != 0) {
    const auto after = stream(info, 1);
    if (thread_captures() || !after->query()) {
      const auto mark = event(info, 2);
      after->record(mark.ref(), false);
      on->wait(mark.ref());
    }
  }
  int first = 0;
  if (plan) {
    const auto* moves = reinterpret_cast<const HaloMove*>(wholes.data + numbers_end);
    const auto* written = reinterpret_cast<const Written*>(moves + count);
    uintptr_t at[halo_arrays], low[halo_arrays], end[halo_arrays];
    for (int m = 0; m < count; ++m) {
      at[m] = uintptr_t(call.spans[size_t(2 + m)].address());
      low[m] = at[m] + uintptr_t(written[m].low * itemsize),
      end[m] = at[m] + uintptr_t(written[m].end * itemsize);
    }
    // Returns whether two moves write the same element.
    const auto meet = [&](int a, int b) {
      if (low[a] >= end[b] || low[b] >= end[a]) return false;
      if (at[a] == at[b]) return (written[a].meets >> b & 1) != 0;
      return halo_moves_meet(moves[a], moves[b], (int64_t(at[b]) - int64_t(at[a])) / itemsize);
    };
    // Launches the moves with the indices `first` to `last` - 1 of the table. The grid also has
    // threads for the buffer's elements before move `first`, and these threads do nothing.
    const auto some = [&](int last) {
      Launch part = call;
      part.spans[1].offset += size_t(first) * sizeof(HaloMove);
      part.spans[1].bytes -= size_t(first) * sizeof(HaloMove);
      part.args.whole[0] = last - first;
      part.args.whole[1] = moves[last - 1].buffer + moves[last - 1].count;
      if (part.args.whole[1] > 0) on->launch(std::move(part));
      first = last;
    };
    // `lowest` and `highest` are the range of all addresses that earlier moves write. A move
    // outside this range needs no comparison with each earlier move. Most moves are outside,
    // because most arrays come in the order of their addresses.
    uintptr_t lowest = low[0], highest = end[0];
    for (int m = 1; m < count; ++m) {
      const bool outside = low[m] >= highest || end[m] <= lowest;
      lowest = std::min(lowest, low[m]), highest = std::max(highest, end[m]);
      if (outside) continue;
      for (int before = first; before < m; ++before)
        if (meet(m, before)) {
          some(m);
          break;
        }
    }
    if (first > 0) some(count);
  }
  if (first == 0) on->launch(std::move(call));
}

// Returns whether the moves `a` and `b` of a table write the same element of an array. If `a`
// equals `b`, returns whether the move writes an element twice.
bool halo_meets(Info info) {
  const Bytes table = bytes_of(info[0], "the table");
  const auto* moves = reinterpret_cast<const HaloMove*>(table.data);
  const size_t a = size_t(whole(info, 1)), b = size_t(whole(info, 2)),
               count = table.size / sizeof(HaloMove);
  if (a >= count || b >= count) throw argument("the table has ", count, " moves");
  return a == b ? halo_move_meets_itself(moves[a]) : halo_moves_meet(moves[a], moves[b], 0);
}

// moveHalo(table, itemsize, buffer, arrays): moves the halo on the CPU, in the calling thread (see
// kernels/halo.hpp). Returns true, see answered() in src/base/addon.ts.
bool move_halo(Info info) {
  const Bytes table = bytes_of(info[0], "the table"), buffer = bytes_of(info[2], "the buffer");
  const int64_t itemsize = int64_t(whole(info, 1));
  if (itemsize < 1) throw argument("an element has a byte at least, got ", itemsize);
  uint32_t n = 0;
  if (napi_get_array_length(info.Env(), info[3], &n) != napi_ok)
    throw argument("the quantities' data must be an array");
  HaloArray few[16];
  std::vector<HaloArray> many(n > 16 ? n : 0);
  HaloArray* const arrays = n > 16 ? many.data() : few;
  for (uint32_t i = 0; i < n; ++i) {
    napi_value each = nullptr;
    napi_get_element(info.Env(), info[3], i, &each);
    const Bytes bytes = bytes_of(Napi::Value(info.Env(), each), "a quantity's data");
    if (bytes.data < buffer.data + buffer.size && buffer.data < bytes.data + bytes.size)
      throw range("the buffer and the data of quantity ", i,
                  " share memory: pass a buffer of its own");
    arrays[i] = {bytes.data, int64_t(bytes.size) / itemsize};
  }
  const char* why = halo_move(reinterpret_cast<const HaloMove*>(table.data),
                              int64_t(table.size / sizeof(HaloMove)), itemsize,
                              {buffer.data, int64_t(buffer.size) / itemsize}, arrays, n);
  if (why) throw range(why);
  return true;
}

}  // namespace

void add_halo_functions(Napi::Env env, Napi::Object exports) {
  static constexpr Exported all[] = {
      {"launchHalo", launch_halo}, {"haloMeets", halo_meets}, {"moveHalo", move_halo}};
  const Napi::Object group = add_group(env, exports, "halos");
  add_functions(env, group, all);
  add_numbers(env, group, "layout",
              {{"words", sizeof(HaloMove) / 8},
               {"maxRank", halo_max_rank},
               {"arrays", halo_arrays},
               {"unpacks", HaloMove::unpacks},
               {"negates", HaloMove::negates}});
}

}  // namespace hotslot
