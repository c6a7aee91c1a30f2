// The functions of rows.node that collectors and in-process samplers call for replay buffers.
// JavaScript has checked the arguments, and these functions check only what memory safety needs. A
// handle is opened with a typed array over the shared memory, and keeps this array alive.
#include <napi.h>

#include <vector>

#include "rows/arguments.hpp"
#include "rows/limiter.hpp"
#include "rows/mailbox.hpp"
#include "rows/mark.hpp"
#include "rows/mean.hpp"
#include "rows/row_check.hpp"
#include "rows/rows.hpp"
#include "rows/sampler.hpp"

namespace hotslot::rows {
namespace {

struct Buffer {
  Source source;
  std::vector<Field> fields;      // offset and bytes are set once, the other members in each add()
  std::vector<uint32_t> indices;  // scratch: 64-bit indices as 32 bits, or indices not returned
  double* result;  // for JavaScript: [ptr, size] of the last sample, or a rejected value
  RowCheck check;
  bool all_floats;  // true if every byte of a row belongs to a float32 that is checked
};

// (to, vectors): writes the mean of the vectors to `to`. All are float32 arrays of the same length.
void mean_of(Info info) {
  const Bytes to = require_bytes(info, 0, 0);
  const auto list = info[1].As<Napi::Array>();
  std::vector<const float*> vectors;
  for (uint32_t i = 0; i < list.Length(); ++i) {
    const Bytes each = bytes_of(list.Get(i), "a vector");
    if (each.size != to.size) throw argument("vectors of a mean are equally long");
    vectors.push_back(reinterpret_cast<const float*>(each.data));
  }
  mean(reinterpret_cast<float*>(to.data), vectors, to.size / sizeof(float));
}

void format_buffer(Info info) {
  const uint32_t capacity = u32(info, 1), row_bytes = u32(info, 2);
  format(require_bytes(info, 0, bytes_needed(capacity, row_bytes)).data, capacity, row_bytes);
}

// (memory, [offset, bytes, bytes of an element, kind of floats, role] per field, result) → handle.
// Later calls write to `result`, three float64, what JavaScript reads there.
Napi::Value open_buffer(Info info) {
  const Bytes memory = require_bytes(info, 0, sizeof(Header));
  const Bytes table = require_bytes(info, 1, 20);
  const Bytes result = require_bytes(info, 2, 24);
  const Source source = open(memory.data, memory.size);
  if (source.header == nullptr)
    throw argument("this memory is not a Hotslot replay buffer of version ", format_version);
  std::vector<Field> fields;
  std::vector<FieldKind> kinds;
  uint64_t floats = 0;
  const auto* of = reinterpret_cast<const uint32_t*>(table.data);
  for (const uint32_t* end = of + table.size / 4; of + 4 < end; of += 5) {
    if (of[1] == 0 || uint64_t{of[0]} + of[1] > source.row_bytes)
      throw range("rows addon: a field is empty, or ends after its row");
    fields.push_back({nullptr, nullptr, of[0], of[1], of[1], nullptr});
    kinds.push_back(kind_of(of + 2));
    if (kinds.back().is_checked() && kinds.back().floats == FloatKind::float32) floats += of[1];
  }
  auto* out = reinterpret_cast<double*>(result.data);
  return hold(info, 0,
              Buffer{source,
                     std::move(fields),
                     {},
                     out,
                     RowCheck(std::move(kinds)),
                     floats == source.row_bytes});
}

// Writes row, field and element of a rejected value to the result array. Returns −1, which the
// calling function returns to JavaScript.
double refused(const Buffer& buffer, const RefusedValue& value) {
  buffer.result[0] = double(value.row);
  buffer.result[1] = double(value.field);
  buffer.result[2] = double(value.element);
  return -1;
}

double ptr(Info info) { return double(snapshot(held<Buffer>(info, 0).source).ptr); }

// Sets the arrays from which add() copies each field. The arguments from `first` on are the typed
// arrays of the fields. Each field is its own argument, because reading an argument costs less than
// reading an element of an array.
//
// If there is a mask, `terminals` is an array with one element per field: a typed array or
// undefined. Rows whose mask byte is not 0 are copied from this typed array.
void line_up(Info info, Buffer& buffer, uint64_t rows, size_t first, const Bytes& mask,
             napi_value terminals) {
  const napi_env env = info.Env();
  for (size_t i = 0; i < buffer.fields.size(); ++i) {
    Field& field = buffer.fields[i];
    const Bytes from = bytes_if_any(env, info[first + i]);
    const Bytes instead = mask.data == nullptr ? Bytes{} : element(env, terminals, i);
    if (from.size / field.bytes < rows ||
        (instead.data != nullptr && instead.size / field.bytes < rows))
      throw range("rows addon: a field is shorter than the rows to add");
    field.from = from.data;
    field.instead = instead.data;
    field.stride = field.bytes;
  }
}

// (buffer, number of rows, ...sources of line_up()) → −1 if add() would reject a value, else 0.
// Adds nothing.
double look_at_rows(Info info) {
  Buffer& buffer = held<Buffer>(info, 0);
  const uint64_t rows = whole(info, 1);
  line_up(info, buffer, rows, 2, {}, nullptr);
  RefusedValue value;
  if (!buffer.check.look(buffer.fields, nullptr, rows, value)) return refused(buffer, value);
  return 0;
}

// (buffer, number of rows, mask?, terminals?, limiter?, ...sources): adds the rows (see line_up()).
// Returns how many it committed, which is 0 if the limiter has no room yet. Returns −1 if a value
// is rejected.
double add_rows(Info info) {
  const napi_env env = info.Env();
  Buffer& buffer = held<Buffer>(info, 0);
  const uint64_t rows = whole(info, 1);
  const Bytes mask = info[2].IsUndefined() ? Bytes{} : bytes_if_any(env, info[2]);
  if (mask.data != nullptr && mask.size < rows) throw range("rows addon: mask too short");
  line_up(info, buffer, rows, 5, mask, info[3]);
  RefusedValue value;
  if (!buffer.check.look(buffer.fields, mask.data, rows, value)) return refused(buffer, value);
  // Admits and commits in one native call, because a thread that is ended still completes this
  // call. So it never leaves rows that the limiter has counted and that are not in the buffer.
  Limiter* limiter = info[4].IsExternal() ? held<Limiter*>(info, 4) : nullptr;
  if (limiter != nullptr && !take_inserts(*limiter, rows)) return 0;
  add(buffer.source, buffer.fields.data(), buffer.fields.size(), mask.data, rows);
  if (limiter != nullptr) limiter->inserts.fetch_add(rows, std::memory_order_seq_cst);
  return double(rows);
}

// (buffer, bytes, number of rows, limiter?, words?, index, value): adds rows that are packed as
// gather() packs them. Returns how many it committed, which is 0 if the limiter has no room yet.
// Returns −1 if a value is rejected.
//
// After the commit, sets `words[index]` to `value` (mark.hpp). It also does this for 0 rows.
double add_packed_rows(Info info) {
  Buffer& buffer = held<Buffer>(info, 0);
  const uint64_t rows = whole(info, 2);
  const uint64_t row_bytes = buffer.source.row_bytes;
  const Bytes bytes = require_bytes(info, 1, rows * row_bytes);
  const Field whole_row{bytes.data, nullptr, 0, buffer.source.row_bytes, row_bytes, nullptr};
  const Field* fields = &whole_row;
  size_t field_count = 1;
  if (!buffer.all_floats || !all_finite(bytes.data, rows * row_bytes, FloatKind::float32)) {
    for (Field& field : buffer.fields) {
      field.from = bytes.data + field.offset;
      field.instead = nullptr;
      field.stride = row_bytes;
    }
    RefusedValue value;
    if (!buffer.check.look(buffer.fields, nullptr, rows, value)) return refused(buffer, value);
    if (some_zero(buffer.fields.data(), buffer.fields.size())) {
      fields = buffer.fields.data();
      field_count = buffer.fields.size();
    }
  }
  const Mark mark = mark_of(info, 4);
  Limiter* limiter = rows > 0 && info[3].IsExternal() ? held<Limiter*>(info, 3) : nullptr;
  if (limiter != nullptr && !take_inserts(*limiter, rows)) return 0;
  add(buffer.source, fields, field_count, nullptr, rows);
  if (limiter != nullptr) limiter->inserts.fetch_add(rows, std::memory_order_seq_cst);
  mark.move();
  return double(rows);
}

void gather_all(const Buffer& buffer, const uint32_t* indices, uint64_t count, uint8_t* out,
                Hands hands = Hands::all) {
  GatherJob job;
  const bool stream = should_stream(count * buffer.source.row_bytes);
  while (gather(buffer.source, job, indices, count, out, 0, stream, hands) != GatherResult::Done) {}
}

// Returns the position of the first index that is `size` or more, or −1 if all are below `size`. If
// `narrow` is not null, writes the indices before this position to `narrow` as 32-bit values.
template <typename Index>
int64_t first_beyond(const Index* indices, uint64_t count, uint64_t size, uint32_t* narrow) {
  for (uint64_t i = 0; i < count; ++i) {
    if (static_cast<uint64_t>(indices[i]) >= size) return static_cast<int64_t>(i);
    if (narrow != nullptr) narrow[i] = static_cast<uint32_t>(indices[i]);
  }
  return -1;
}

// (buffer, indices, count, wide, out, alone?): copies the rows to `out`, and returns −1. If an
// index has no row, copies nothing and returns the position of the first such index.
//
// `wide`: whether indices have 64 bits. `alone`: whether only this thread copies, without idle
// cores.
double gather_rows(Info info) {
  Buffer& buffer = held<Buffer>(info, 0);
  const uint64_t count = whole(info, 2);
  const bool wide = info[3].ToBoolean();
  const Bytes indices = require_bytes(info, 1, count * (wide ? 8 : 4));
  const Bytes out = require_bytes(info, 4, count * buffer.source.row_bytes);
  const uint64_t size = snapshot(buffer.source).size;
  const auto* narrow = reinterpret_cast<const uint32_t*>(indices.data);
  int64_t beyond;
  if (wide) {
    if (buffer.indices.size() < count) buffer.indices.resize(count);
    beyond = first_beyond(reinterpret_cast<const int64_t*>(indices.data), count, size,
                          buffer.indices.data());
    narrow = buffer.indices.data();
  } else {
    beyond = first_beyond(narrow, count, size, nullptr);
  }
  if (beyond < 0)
    gather_all(buffer, narrow, count, out.data, info[5].ToBoolean() ? Hands::one : Hands::all);
  return double(beyond);
}

// (buffer, seed, count, out, indices?): draws `count` of the rows that are committed now, and
// copies them to `out`. Writes their indices to `indices` if it is given. Sets result = [ptr,
// size]. If size is 0, draws nothing.
void sample_rows(Info info) {
  Buffer& buffer = held<Buffer>(info, 0);
  const uint64_t count = whole(info, 2);
  const Bytes out = require_bytes(info, 3, count * buffer.source.row_bytes);
  const Snapshot now = snapshot(buffer.source);
  buffer.result[0] = double(now.ptr);
  buffer.result[1] = double(now.size);
  if (now.size == 0) return;
  const Bytes wanted = bytes_if_any(info.Env(), info[4]);
  auto* indices = reinterpret_cast<uint32_t*>(wanted.data);
  if (wanted.size < count * 4) {
    if (buffer.indices.size() < count) buffer.indices.resize(count);
    indices = buffer.indices.data();
  }
  draw(u32(info, 1), static_cast<uint32_t>(now.size), indices, count);
  gather_all(buffer, indices, count, out.data);
}

// (seed, size, out): fills `out`, a Uint32Array, with random indices below `size`
void draw_indices(Info info) {
  const Bytes out = bytes_if_any(info.Env(), info[2]);
  if (u32(info, 1) > 0)
    draw(u32(info, 0), u32(info, 1), reinterpret_cast<uint32_t*>(out.data), out.size / 4);
}

// (view, byte offset, count of float32) → the index of the first value that is NaN or infinite, or
// −1
double find_not_finite(Info info) {
  const uint64_t at = whole(info, 1), count = whole(info, 2);
  const Bytes view = require_bytes(info, 0, 0);
  if (at > view.size || count > (view.size - at) / 4)
    throw range("rows addon: there are no such floats");
  return double(first_not_finite(view.data + at, count));
}

void init(Napi::Env env, Napi::Object exports) {
  static constexpr Exported all[] = {
      {"mean", mean_of},
      {"formatBuffer", format_buffer},
      {"openBuffer", open_buffer},
      {"ptr", ptr},
      {"addRows", add_rows},
      {"lookAtRows", look_at_rows},
      {"addPackedRows", add_packed_rows},
      {"gatherRows", gather_rows},
      {"sampleRows", sample_rows},
      {"drawIndices", draw_indices},
      {"firstNotFinite", find_not_finite},
  };
  make_linkable(env, exports);
  add_functions(env, exports, all);
  export_words(env, exports);
  export_lanes(env, exports);
  export_views(env, exports);
  export_kept(env, exports);
  export_layouts(env, exports);
}

}  // namespace

HOTSLOT_ADDON(init)

}  // namespace hotslot::rows
