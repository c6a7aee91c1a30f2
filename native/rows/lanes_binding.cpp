// The functions of rows.node that lanes and their writers call. JavaScript has checked the
// arguments, and these functions check only what memory safety needs.
#include <napi.h>

#include <algorithm>
#include <vector>

#include "rows/arguments.hpp"
#include "rows/copy.hpp"
#include "rows/lanes.hpp"
#include "rows/mark.hpp"
#include "rows/packed_steps.hpp"
#include "rows/row_check.hpp"

namespace hotslot::rows {
namespace {

// (new memory, lanes, places per lane, bytes of a place): writes the header
void format_lanes_js(Info info) {
  const uint32_t lanes = u32(info, 1), place_bytes = u32(info, 3);
  const uint64_t per_lane = whole(info, 2);
  format_lanes(require_bytes(info, 0, lanes_bytes(lanes, per_lane, place_bytes)).data, lanes,
               per_lane, place_bytes);
}

double lanes_bytes_js(Info info) {
  return double(lanes_bytes(u32(info, 0), whole(info, 1), u32(info, 2)));
}

Napi::Value open_lanes_js(Info info) {
  const Bytes memory = require_bytes(info, 0, sizeof(LanesHeader));
  const Lanes lanes = open_lanes(memory.data, memory.size);
  if (lanes.header == nullptr)
    throw argument("this memory is not a Hotslot trajectory buffer of version ", lanes_version);
  return hold(info, 0, lanes);
}

// (lanes, out: two float64): writes the number of steps ever committed and of steps available now
void lane_counts(Info info) {
  const LaneCounts counts = count_steps(held<Lanes>(info, 0));
  give(info, 1, {double(counts.ptr), double(counts.size)});
}

void clear_js(Info info) { clear_lanes(held<Lanes>(info, 0)); }

// ---- writers ------------------------------------------------------------------------------------

struct Writer {
  Lanes lanes;
  uint64_t first, count;
  StepRules rules;
  std::vector<bool> observation;
  // Number of steps in each lane's running episode.
  std::vector<uint32_t> episode;
};

// (lanes, first, count, fields, whether to continue unended episodes, whether rewards must be
// finite) → writer of the lanes [first, first + count). A field is [offset, bytes, whether it is an
// observation, bytes of an element, kind of floats, role].
Napi::Value open_writer(Info info) {
  const Lanes& lanes = held<Lanes>(info, 0);
  Writer writer{lanes, whole(info, 1), whole(info, 2), {{}, {}, info[5].ToBoolean()}, {}, {}};
  if (writer.first > lanes.lanes || writer.count > lanes.lanes - writer.first)
    throw range("rows addon: no such lanes");
  const Bytes table = require_bytes(info, 3, 0);
  const auto* row = reinterpret_cast<const uint32_t*>(table.data);
  for (uint64_t i = 0; i + 5 < table.size / 4; i += 6, row += 6) {
    if (row[1] == 0 || uint64_t{row[0]} + row[1] > lanes.place_bytes)
      throw range("rows addon: a field is empty, or ends after its place");
    writer.rules.fields.push_back({nullptr, nullptr, row[0], row[1], kind_of(row + 3)});
    writer.observation.push_back(row[2] != 0);
    if (row[2] != 0) writer.rules.observations.push_back(writer.rules.fields.back());
  }
  writer.episode.resize(writer.count);
  for (uint64_t i = 0; i < writer.count; ++i) {
    take_over(lanes, writer.first + i);
    if (info[4].ToBoolean()) writer.episode[i] = steps_so_far(lanes, writer.first + i);
  }
  // The new handle keeps the handle of the lanes alive, which keeps their memory alive.
  return hold(info, 0, std::move(writer));
}

// (writer, sources, finals?, rewards, terminated, truncated, skip?, steps, limiter?, out): adds one
// step to each lane that is not skipped. `steps` is the number of these lanes. Returns 1, or 0 if
// the limiter has no room yet.
//
// Returns −1 if a value is rejected. Then writes its row, field and element, as look_at_lanes()
// describes them, to `out` (three float64).
double add_steps_js(Info info) {
  const napi_env env = info.Env();
  Writer& writer = held<Writer>(info, 0);
  const bool finals = info[2].IsArray();
  std::vector<StepField>& fields = writer.rules.fields;
  for (size_t i = 0; i < fields.size(); ++i) {
    StepField& field = fields[i];
    const Bytes from = element(env, info[1], i);
    const Bytes last = finals && writer.observation[i] ? element(env, info[2], i) : Bytes{};
    if (from.size < writer.count * field.bytes ||
        (last.data != nullptr && last.size < writer.count * field.bytes))
      throw range("rows addon: a field is shorter than its lanes");
    field.from = from.data;
    field.last = last.data;
  }
  const auto* rewards =
      reinterpret_cast<const float*>(require_bytes(info, 3, writer.count * 4).data);
  const uint8_t* terminated = require_bytes(info, 4, writer.count).data;
  const uint8_t* truncated = require_bytes(info, 5, writer.count).data;
  const Bytes skip = bytes_if_any(env, info[6]);
  if (skip.data != nullptr && skip.size < writer.count)
    throw range("rows addon: skip is too short");
  const uint64_t steps = whole(info, 7);
  const StepsToAdd given{fields.data(), fields.size(), rewards, terminated, truncated, skip.data};
  RefusedValue value;
  if (writer.rules.finite_rewards && !look_at_lanes(given, writer.count, value)) {
    give(info, 9, {double(value.row), double(value.field), double(value.element)});
    return -1;
  }
  // Admits and commits in one native call, because a thread that is ended still completes this
  // call. So it never leaves steps that the limiter has counted and that are not in the lanes.
  Limiter* limiter = info[8].IsExternal() ? held<Limiter*>(info, 8) : nullptr;
  if (limiter != nullptr && !take_inserts(*limiter, steps)) return 0;
  add_steps(writer.lanes, writer.first, writer.count, given, writer.episode.data());
  if (limiter != nullptr) limiter->inserts.fetch_add(steps, std::memory_order_seq_cst);
  return 1;
}

// (writer, bytes, number of rows, limiter?, words?, index, value): adds packed rows, and returns
// how many. Returns 0 if the limiter has no room yet, and −1 − i if row i is the first wrong row.
//
// After the last commit, sets `words[index]` to `value` (mark.hpp). It also does this for 0 rows.
double add_packed_steps_js(Info info) {
  Writer& writer = held<Writer>(info, 0);
  const uint64_t rows = whole(info, 2);
  const PackedSteps given{require_bytes(info, 1, rows * step_row_bytes(writer.lanes)).data, rows};
  const Mark mark = mark_of(info, 4);
  const PackedLook look = look_at_steps(writer.lanes, writer.count, given, writer.rules);
  if (look.good < rows) return -1 - double(look.good);
  Limiter* limiter = look.steps > 0 && info[3].IsExternal() ? held<Limiter*>(info, 3) : nullptr;
  if (limiter != nullptr && !take_inserts(*limiter, look.steps)) return 0;
  add_packed_steps(writer.lanes, writer.first, writer.count, given, writer.rules,
                   writer.episode.data());
  if (limiter != nullptr) limiter->inserts.fetch_add(look.steps, std::memory_order_seq_cst);
  mark.move();
  return double(rows);
}

// (writer): leaves running episodes unended. The next step of each lane begins a new episode
void cut_episodes(Info info) {
  std::vector<uint32_t>& episode = held<Writer>(info, 0).episode;
  std::fill(episode.begin(), episode.end(), 0);
}

// ---- readers ------------------------------------------------------------------------------------

// (lanes, lane, out: two float64): writes `from` and `to`. A reader may read the lane's places
// [from, to) now
void lane_span(Info info) {
  const Lanes& lanes = held<Lanes>(info, 0);
  const uint64_t lane = whole(info, 1);
  if (lane >= lanes.lanes) throw range("rows addon: there is no lane ", lane);
  const Span now = span(lanes, lane);
  give(info, 2, {double(now.from), double(now.to)});
}

// (lanes, out: a float64 per lane): writes the place after each lane's last committed place
void lane_ends(Info info) {
  const Lanes& lanes = held<Lanes>(info, 0);
  auto* out = reinterpret_cast<double*>(require_bytes(info, 1, lanes.lanes * 8).data);
  for (uint64_t lane = 0; lane < lanes.lanes; ++lane)
    out[lane] = double(lanes.of[lane].committed.load(std::memory_order_acquire));
}

// (lanes, lane, from, count, out, at, counts): packs the lane's places [from, from + count) into
// rows, and writes these to `out` from byte `at` on. Writes the number of rows and the number of
// steps among them to `counts`. A final observation is a row and not a step.
//
// Returns false if a writer overwrote some of the places meanwhile. The rows are then invalid.
bool pack_lane_js(Info info) {
  const Lanes& lanes = held<Lanes>(info, 0);
  const uint64_t lane = whole(info, 1), count = whole(info, 3), at = whole(info, 5);
  if (lane >= lanes.lanes) throw range("rows addon: there is no lane ", lane);
  uint8_t* out = require_bytes(info, 4, at + count * step_row_bytes(lanes)).data + at;
  const PackedLane packed = pack_lane(lanes, lane, whole(info, 2), count, out);
  give(info, 6, {double(packed.rows), double(packed.steps)});
  return packed.whole;
}

// (lanes, ids, count, [offset, bytes, at, whether it is an observation] of each field, out,
// rewards, steps, flags): copies `count` places. Place n of lane l has the id n × number of lanes +
// l. The values of a field are written to `out` from byte `at` on.
//
// Returns −1 if all places are stored. Otherwise stops, and returns the index of the first id whose
// place is not stored.
double read_places(Info info) {
  const Lanes& lanes = held<Lanes>(info, 0);
  const uint64_t count = whole(info, 2);
  const auto* ids = reinterpret_cast<const double*>(require_bytes(info, 1, count * 8).data);
  const Bytes table = require_bytes(info, 3, 0), out = require_bytes(info, 4, 0);
  auto* rewards = reinterpret_cast<float*>(require_bytes(info, 5, count * 4).data);
  auto* steps = reinterpret_cast<uint32_t*>(require_bytes(info, 6, count * 4).data);
  uint8_t* flags = require_bytes(info, 7, count * 3).data;
  const auto* fields = reinterpret_cast<const double*>(table.data);
  for (const double* row = fields; row + 3 < fields + table.size / 8; row += 4)
    if (!(row[0] >= 0 && row[1] >= 1 && row[0] + row[1] <= lanes.place_bytes && row[2] >= 0 &&
          row[2] + double(count) * row[1] <= double(out.size)))
      throw range("rows addon: a field ends after its place, or does not fit");
  for (uint64_t i = 0; i < count; ++i) {
    const auto id = static_cast<uint64_t>(ids[i]);
    const uint64_t lane = id % lanes.lanes, place = id / lanes.lanes;
    const Span there = span(lanes, lane);
    bool kept = place >= there.from && place < there.to;
    if (kept) {
      const Note note = note_at(lanes, lane, place);
      rewards[i] = note.reward;
      steps[i] = note.step;
      flags[i] = note.terminated;
      flags[count + i] = note.truncated;
      flags[2 * count + i] = note.final;
      const uint8_t* from =
          lanes.places + (lane * lanes.per_lane + place % lanes.per_lane) * lanes.stride;
      for (const double* row = fields; row + 3 < fields + table.size / 8; row += 4) {
        const auto bytes = static_cast<uint64_t>(row[1]),
                   at = static_cast<uint64_t>(row[2]) + i * bytes;
        // A final observation has only observation fields. The other fields were never written, so
        // they are zeros in `out`.
        if (note.final && row[3] == 0) {
          std::fill_n(out.data + at, bytes, 0);
        } else {
          from_shared(out.data + at, from + static_cast<uint64_t>(row[0]), bytes);
        }
      }
      kept = lowest_kept(lanes, lane) <= place;
    }
    if (!kept) return double(i);
  }
  return -1;
}

// (lanes, ids) → −1, or the index of the first id whose place was never written
double first_unwritten(Info info) {
  const Lanes& lanes = held<Lanes>(info, 0);
  const Bytes given = require_bytes(info, 1, 0);
  const auto* ids = reinterpret_cast<const double*>(given.data);
  for (uint64_t i = 0; i < given.size / 8; ++i) {
    const auto id = static_cast<uint64_t>(ids[i]);
    if (id / lanes.lanes >= span(lanes, id % lanes.lanes).to) return double(i);
  }
  return -1;
}

}  // namespace

void export_lanes(Napi::Env env, Napi::Object exports) {
  static constexpr Exported all[] = {
      {"formatLanes", format_lanes_js}, {"lanesBytes", lanes_bytes_js},
      {"openLanes", open_lanes_js},     {"laneCounts", lane_counts},
      {"clearLanes", clear_js},         {"openWriter", open_writer},
      {"addSteps", add_steps_js},       {"addPackedSteps", add_packed_steps_js},
      {"cutEpisodes", cut_episodes},    {"laneSpan", lane_span},
      {"laneEnds", lane_ends},          {"packLane", pack_lane_js},
      {"readPlaces", read_places},      {"firstUnwritten", first_unwritten},
  };
  add_functions(env, exports, all);
}

}  // namespace hotslot::rows
