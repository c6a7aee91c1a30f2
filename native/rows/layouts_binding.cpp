// Exports the layouts of shared memory. They have the offset of each value that JavaScript itself
// reads or writes, in bytes from its header's start. So the layouts are defined only once, in the
// C++ headers of this folder.
#include <napi.h>

#include <cstddef>

#include "rows/arguments.hpp"
#include "rows/lanes.hpp"
#include "rows/limiter.hpp"
#include "rows/mailbox.hpp"
#include "rows/mirror.hpp"
#include "rows/packed_steps.hpp"
#include "rows/priority_tree.hpp"
#include "rows/rows.hpp"

namespace hotslot::rows {
namespace {

// (capacity, bytes of a row) → bytes of a replay buffer
double rows_bytes(Info info) { return double(bytes_needed(whole(info, 0), u32(info, 1))); }
// (bytes of a row or place) → bytes from one row or place to the next
double stride_of(Info info) { return double(row_stride(whole(info, 0))); }
// (lanes) → offset of a tree's leaves in its memory, in bytes
double leaves_at(Info info) { return double(tree_leaves_at(whole(info, 0))); }
// (places) → bytes of a mirror
double mirror_bytes(Info info) { return double(Mirror::bytes_of(whole(info, 0))); }

}  // namespace

void export_layouts(Napi::Env env, Napi::Object exports) {
  static constexpr Exported all[] = {{"rowsBytes", rows_bytes},
                                     {"rowStride", stride_of},
                                     {"treeLeavesAt", leaves_at},
                                     {"mirrorBytes", mirror_bytes}};
  add_functions(env, exports, all);
  const Napi::Object layouts = add_group(env, exports, "layouts");
  add_numbers(env, layouts, "rows",
              {{"capacity", offsetof(Header, capacity)},
               {"rowBytes", offsetof(Header, row_bytes)},
               {"reserved", offsetof(Header, reserved)},
               {"committed", offsetof(Header, committed)},
               {"bells", offsetof(Header, bells)},
               {"bellCount", bell_places},
               {"bytes", sizeof(Header)}});
  add_numbers(env, layouts, "lanes",
              {{"lanes", offsetof(LanesHeader, lanes)},
               {"placeBytes", offsetof(LanesHeader, place_bytes)},
               {"perLane", offsetof(LanesHeader, per_lane)},
               {"bells", offsetof(LanesHeader, bells)},
               {"bellCount", lane_bells},
               {"bytes", sizeof(LanesHeader)}});
  add_numbers(env, layouts, "kept", {{"noteBytes", sizeof(Note)}, {"stateNumbers", lane_numbers}});
  add_numbers(env, layouts, "stepRow",
              {{"lane", offsetof(StepRow, lane)},
               {"kind", offsetof(StepRow, kind)},
               {"reward", offsetof(StepRow, reward)},
               {"bytes", sizeof(StepRow)},
               {"ended", ended_bits},
               {"final", final_row},
               {"first", first_bit}});
  add_numbers(env, layouts, "tree",
              {{"largest", offsetof(TreeHeader, largest)},
               {"stale", offsetof(TreeHeader, stale)},
               {"nonFinite", offsetof(TreeHeader, non_finite)},
               {"bytes", sizeof(TreeHeader)}});
  add_numbers(env, layouts, "limiter", {{"bytes", sizeof(Limiter)}});
  add_numbers(env, layouts, "mailbox",
              {{"begun", offsetof(Mailbox, begun)},
               {"published", offsetof(Mailbox, published)},
               {"refused", offsetof(Mailbox, refused)},
               {"bytes", sizeof(Mailbox)}});
  add_numbers(env, layouts, "mirror", {{"brought", offsetof(MirrorHeader, brought)}});
}

}  // namespace hotslot::rows
