// The functions of rows.node that checkpoints call. They copy ranges of rows and places out of
// memory that writers still change, and into memory that is not in use yet. JavaScript has checked
// the arguments, and these functions check only what memory safety needs.
#include <napi.h>

#include <cstring>

#include "rows/arguments.hpp"
#include "rows/lanes.hpp"
#include "rows/limiter.hpp"
#include "rows/priority_tree.hpp"
#include "rows/rows.hpp"

namespace hotslot::rows {
namespace {

// Opens the replay buffer whose memory is argument 0. Checkpoints pass the memory and not a handle,
// because only binding.cpp can read the handles of buffers.
Source source_of(Info info) {
  const Bytes memory = require_bytes(info, 0, sizeof(Header));
  const Source source = open(memory.data, memory.size);
  if (source.header == nullptr) throw argument("rows addon: this is not a replay buffer's memory");
  return source;
}

Lanes lanes_of(Info info) {
  const Bytes memory = require_bytes(info, 0, sizeof(LanesHeader));
  const Lanes lanes = open_lanes(memory.data, memory.size);
  if (lanes.header == nullptr)
    throw argument("rows addon: this is not a trajectory buffer's memory");
  return lanes;
}

uint64_t lane_of(Info info, const Lanes& lanes) {
  const uint64_t lane = whole(info, 1);
  if (lane >= lanes.lanes) throw range("rows addon: there is no lane ", lane);
  return lane;
}

// (memory, from, count, out): copies the absolute rows [from, from + count) to `out`. Returns the
// lowest row that no writer can have overwritten meanwhile. Copies of lower rows are invalid.
double read_rows_js(Info info) {
  const Source source = source_of(info);
  const uint64_t count = whole(info, 2);
  uint8_t* out = require_bytes(info, 3, count * source.row_bytes).data;
  return double(read_rows(source, whole(info, 1), count, out));
}

// (memory, from, count, bytes): writes the absolute rows [from, from + count) to their indices
void put_rows_js(Info info) {
  const Source source = source_of(info);
  const uint64_t count = whole(info, 2);
  put_rows(source, whole(info, 1), count, require_bytes(info, 3, count * source.row_bytes).data);
}

// (memory, rows ever committed): sets this number, which makes the written rows readable
void set_rows_js(Info info) { set_rows(source_of(info), whole(info, 1)); }

// (memory, lane, from, count, out): copies the lane's places [from, from + count) to `out`. Returns
// the lowest place that the writer cannot have overwritten meanwhile. Copies of lower places are
// invalid.
double read_range_js(Info info) {
  const Lanes lanes = lanes_of(info);
  const uint64_t count = whole(info, 3);
  uint8_t* out = require_bytes(info, 4, count * saved_bytes(lanes)).data;
  return double(read_range(lanes, lane_of(info, lanes), whole(info, 2), count, out));
}

// (memory, lane, from, count, bytes): writes the lane's places [from, from + count)
void put_range_js(Info info) {
  const Lanes lanes = lanes_of(info);
  const uint64_t count = whole(info, 3);
  put_range(lanes, lane_of(info, lanes), whole(info, 2), count,
            require_bytes(info, 4, count * saved_bytes(lanes)).data);
}

static_assert(sizeof(Note) == 2 * sizeof(double));

// (memory, out: lane_numbers float64 per lane): writes the state of every lane
void lane_states(Info info) {
  const Lanes lanes = lanes_of(info);
  auto* out =
      reinterpret_cast<double*>(require_bytes(info, 1, lanes.lanes * lane_numbers * 8).data);
  for (uint64_t lane = 0; lane < lanes.lanes; ++lane, out += lane_numbers) {
    const LaneState state = lane_state(lanes, lane);
    out[0] = double(state.from);
    out[1] = double(state.to);
    out[2] = double(state.steps);
    std::memcpy(out + 3, &state.last, sizeof state.last);
  }
}

// (memory, result of lane_states()): restores the state of every lane
void set_lane_states(Info info) {
  const Lanes lanes = lanes_of(info);
  const auto* in =
      reinterpret_cast<const double*>(require_bytes(info, 1, lanes.lanes * lane_numbers * 8).data);
  for (uint64_t lane = 0; lane < lanes.lanes; ++lane, in += lane_numbers) {
    LaneState state{uint64_t(in[0]), uint64_t(in[1]), uint64_t(in[2]), {}};
    std::memcpy(&state.last, in + 3, sizeof state.last);
    set_lane(lanes, lane, state);
  }
}

// (memory of the tree, leaves, lanes): completes a restored tree (PriorityTree::adopt)
void adopt_tree(Info info) {
  const uint64_t leaves = whole(info, 1), lanes = whole(info, 2);
  PriorityTree(require_bytes(info, 0, tree_bytes(leaves, lanes)).data, leaves, lanes).adopt();
}

// (memory of a limiter that is not in use yet, rows inserted, rows sampled): sets the counts
void set_limiter(Info info) {
  auto& limiter = *reinterpret_cast<Limiter*>(require_bytes(info, 0, sizeof(Limiter)).data);
  limiter.admitted.store(whole(info, 1));
  limiter.inserts.store(whole(info, 1));
  limiter.samples.store(whole(info, 2));
}

}  // namespace

void export_kept(Napi::Env env, Napi::Object exports) {
  static constexpr Exported all[] = {
      {"readRows", read_rows_js},         {"putRows", put_rows_js},   {"setRows", set_rows_js},
      {"readRange", read_range_js},       {"putRange", put_range_js}, {"laneStates", lane_states},
      {"setLaneStates", set_lane_states}, {"adoptTree", adopt_tree},  {"setLimiter", set_limiter},
  };
  add_functions(env, exports, all);
}

}  // namespace hotslot::rows
