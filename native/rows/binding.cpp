// rows.node: what collectors and in-process samplers call. Thin: arguments were checked in JavaScript, here only what
// memory safety needs. Every view is a typed array over the shared memory; a handle keeps its view alive.
#include <napi.h>

#include <vector>

#include "device/addon/napi.hpp"
#include "rows/held.hpp"
#include "rows/limiter.hpp"
#include "rows/mailbox.hpp"
#include "rows/mark.hpp"
#include "rows/mean.hpp"
#include "rows/rows.hpp"
#include "rows/sampler.hpp"

namespace hotslot::rows {
namespace {

struct Buffer {
  Source source;
  std::vector<Field> fields;      // offset and bytes set once; from and instead per add, by the one thread of this env
  std::vector<uint32_t> indices;  // scratch for 64-bit indices and for draws that are not returned
  double* result;                 // [ptr, size] of the last sample, read by JavaScript
};

Napi::Value misalignment(Info info) {
  const Bytes view = require_bytes(info, 0, 1);
  return Napi::Number::New(info.Env(), static_cast<double>(reinterpret_cast<uintptr_t>(view.data) % u32(info, 1)));
}

// mean(to, vectors): each as long as `to`.
void mean_of(Info info) {
  const Bytes to = require_bytes(info, 0, 0);
  const auto list = info[1].As<Napi::Array>();
  std::vector<const float*> vectors;
  for (uint32_t i = 0; i < list.Length(); ++i) {
    const Bytes each = bytes_of(list.Get(i), "a vector");
    if (each.size != to.size) throw_js(info.Env(), argument("vectors of a mean are equally long"));
    vectors.push_back(reinterpret_cast<const float*>(each.data));
  }
  mean(reinterpret_cast<float*>(to.data), vectors, to.size / sizeof(float));
}

void format_buffer(Info info) {
  const uint32_t capacity = u32(info, 1), row_bytes = u32(info, 2);
  format(require_bytes(info, 0, bytes_needed(capacity, row_bytes)).data, capacity, row_bytes);
}

// (memory, pairs of [offset, bytes] per field, result) → handle
Napi::Value open_buffer(Info info) {
  const Bytes memory = require_bytes(info, 0, sizeof(Header));
  const Bytes pairs = require_bytes(info, 1, 8);
  const Bytes result = require_bytes(info, 2, 16);
  Buffer buffer{open(memory.data, memory.size), {}, {}, reinterpret_cast<double*>(result.data)};
  if (buffer.source.header == nullptr)
    throw_js(info.Env(), argument("this memory is not a Hotslot replay buffer of version ", format_version));
  const auto* pair = reinterpret_cast<const uint32_t*>(pairs.data);
  for (uint64_t i = 0; i + 1 < pairs.size / 4; i += 2) {
    if (pair[i + 1] == 0 || uint64_t{pair[i]} + pair[i + 1] > buffer.source.row_bytes)
      throw_js(info.Env(), range("rows addon: a field is empty, or ends behind its row"));
    buffer.fields.push_back({nullptr, nullptr, pair[i], pair[i + 1]});
  }
  return hold(info, 0, std::move(buffer));
}

Napi::Value ptr(Info info) {
  return Napi::Number::New(info.Env(), static_cast<double>(snapshot(held<Buffer>(info, 0).source).ptr));
}

// (buffer, rows, sources, mask?, terminals?, limiter?) → rows committed, 0 when the limiter says not yet. `sources`
// holds a view per field; `terminals`, given with a mask, its terminal rows or undefined.
Napi::Value add_rows(Info info) {
  const napi_env env = info.Env();
  Buffer& buffer = held<Buffer>(info, 0);
  const uint64_t rows = whole(info, 1);
  const Bytes mask = bytes_if_any(env, info[3]);
  if (mask.data != nullptr && mask.size < rows) throw_js(env, range("rows addon: mask too short"));
  for (size_t i = 0; i < buffer.fields.size(); ++i) {
    Field& field = buffer.fields[i];
    const Bytes from = element(env, info[2], i);
    const Bytes instead = mask.data == nullptr ? Bytes{} : element(env, info[4], i);
    if (from.size / field.bytes < rows || (instead.data != nullptr && instead.size / field.bytes < rows))
      throw_js(env, range("rows addon: a field is shorter than the rows to add"));
    field.from = from.data;
    field.instead = instead.data;
  }
  // One call from admission to commit: a terminated thread cannot leave a counted insert without its rows.
  Limiter* limiter = info[5].IsExternal() ? held<Limiter*>(info, 5) : nullptr;
  if (limiter != nullptr && !take_inserts(*limiter, rows)) return Napi::Number::New(env, 0);
  add(buffer.source, buffer.fields.data(), buffer.fields.size(), mask.data, rows);
  if (limiter != nullptr) limiter->inserts.fetch_add(rows, std::memory_order_seq_cst);
  return Napi::Number::New(env, static_cast<double>(rows));
}

// (buffer, bytes, rows, limiter?, words?, index, value) → rows committed, 0 when the limiter says not yet. The rows lie
// one after the other as gather() packs them; `words[index]` becomes `value` behind their commit, also of no rows.
Napi::Value add_packed_rows(Info info) {
  const napi_env env = info.Env();
  Buffer& buffer = held<Buffer>(info, 0);
  const uint64_t rows = whole(info, 2);
  const Field field{require_bytes(info, 1, rows * buffer.source.row_bytes).data, nullptr, 0, buffer.source.row_bytes};
  const Mark mark = mark_of(info, 4);
  Limiter* limiter = rows > 0 && info[3].IsExternal() ? held<Limiter*>(info, 3) : nullptr;
  if (limiter != nullptr && !take_inserts(*limiter, rows)) return Napi::Number::New(env, 0);
  add(buffer.source, &field, 1, nullptr, rows);
  if (limiter != nullptr) limiter->inserts.fetch_add(rows, std::memory_order_seq_cst);
  mark.move();
  return Napi::Number::New(env, static_cast<double>(rows));
}

void gather_all(const Buffer& buffer, const uint32_t* indices, uint64_t count, uint8_t* out, Hands hands = Hands::all) {
  GatherJob job;
  const bool stream = should_stream(count * buffer.source.row_bytes);
  while (gather(buffer.source, job, indices, count, out, 0, stream, hands) != GatherResult::Done) {}
}

// Position of the first index not below `size`, or −1. 64-bit indices are narrowed into `narrow`.
template <typename Index>
int64_t first_beyond(const Index* indices, uint64_t count, uint64_t size, uint32_t* narrow) {
  for (uint64_t i = 0; i < count; ++i) {
    if (static_cast<uint64_t>(indices[i]) >= size) return static_cast<int64_t>(i);
    if (narrow != nullptr) narrow[i] = static_cast<uint32_t>(indices[i]);
  }
  return -1;
}

// (buffer, indices, count, wide, out, alone?) → −1, or the position of the first index that is no row. Alone: without
// idle cores, whatever the size.
Napi::Value gather_rows(Info info) {
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
    beyond = first_beyond(reinterpret_cast<const int64_t*>(indices.data), count, size, buffer.indices.data());
    narrow = buffer.indices.data();
  } else {
    beyond = first_beyond(narrow, count, size, nullptr);
  }
  if (beyond < 0) gather_all(buffer, narrow, count, out.data, info[5].ToBoolean() ? Hands::one : Hands::all);
  return Napi::Number::New(info.Env(), static_cast<double>(beyond));
}

// (buffer, seed, count, out, indices?): draws from the rows that are whole now and gathers them; result = [ptr, size]
void sample_rows(Info info) {
  Buffer& buffer = held<Buffer>(info, 0);
  const uint64_t count = whole(info, 2);
  const Bytes out = require_bytes(info, 3, count * buffer.source.row_bytes);
  const Snapshot now = snapshot(buffer.source);
  buffer.result[0] = static_cast<double>(now.ptr);
  buffer.result[1] = static_cast<double>(now.size);
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

// (seed, size, out)
void draw_indices(Info info) {
  const Bytes out = bytes_if_any(info.Env(), info[2]);
  if (u32(info, 1) > 0) draw(u32(info, 0), u32(info, 1), reinterpret_cast<uint32_t*>(out.data), out.size / 4);
}

// (limiter memory) → handle; its four parameters are already written
Napi::Value open_limiter(Info info) {
  return hold(info, 0, reinterpret_cast<Limiter*>(require_bytes(info, 0, sizeof(Limiter)).data));
}

Napi::Value may_sample_rows(Info info) {
  const Limiter& limiter = *held<Limiter*>(info, 0);
  const bool yes = may_sample(limiter, limiter.inserts.load(), limiter.samples.load(), whole(info, 1));
  return Napi::Boolean::New(info.Env(), yes);
}

// What was counted, by whoever counts for itself: a thread that is ended lets a native call come to its end, so it
// leaves both the count and this word, or neither.
void say_counted(Info info, size_t at) {
  if (!info[at].IsTypedArray()) return;
  const Bytes word = require_bytes(info, at, sizeof(int32_t));
  reinterpret_cast<std::atomic<int32_t>*>(word.data)->store(int32_t(whole(info, at + 1)), std::memory_order_seq_cst);
}

// (limiter, rows, word?, value) → whether they were taken; then `word[0]` is `value`
Napi::Value take_sample_rows(Info info) {
  const bool taken = take_samples(*held<Limiter*>(info, 0), whole(info, 1));
  if (taken) say_counted(info, 2);
  return Napi::Boolean::New(info.Env(), taken);
}

// (limiter, rows, which may be less than none, word?, value)
void count_samples(Info info) {
  held<Limiter*>(info, 0)->samples.fetch_add(whole(info, 1));
  say_counted(info, 2);
}

Napi::Value may_insert_rows(Info info) {
  const Limiter& limiter = *held<Limiter*>(info, 0);
  const bool yes = may_insert(limiter, limiter.admitted.load(), limiter.samples.load(), whole(info, 1));
  return Napi::Boolean::New(info.Env(), yes);
}

// (limiter, out of three float64) → admitted, inserts, samples
void limiter_counts(Info info) {
  const Limiter& limiter = *held<Limiter*>(info, 0);
  auto* out = reinterpret_cast<double*>(require_bytes(info, 1, 24).data);
  out[0] = static_cast<double>(limiter.admitted.load());
  out[1] = static_cast<double>(limiter.inserts.load());
  out[2] = static_cast<double>(limiter.samples.load());
}

Mailbox& mailbox(Info info) { return *reinterpret_cast<Mailbox*>(require_bytes(info, 0, sizeof(Mailbox)).data); }

Napi::Value mailbox_begin(Info info) { return Napi::Number::New(info.Env(), begin_version(mailbox(info))); }

Napi::Value mailbox_publish(Info info) {
  return Napi::Boolean::New(info.Env(), publish_version(mailbox(info), static_cast<int32_t>(u32(info, 1))));
}

// (control words, buffers, stride, from): begin, copy and publish in one call → version, 0 when two are unpublished
Napi::Value mailbox_write(Info info) {
  Mailbox& box = mailbox(info);
  const Bytes from = require_bytes(info, 3, 1);
  const uint64_t stride = whole(info, 2);
  const Bytes buffers = require_bytes(info, 1, 2 * stride + from.size);
  const int32_t version = take_version(box);
  if (version == 0) return Napi::Number::New(info.Env(), 0);
  to_shared(buffers.data + static_cast<uint64_t>(version % 3) * stride, from.data, from.size);
  return Napi::Number::New(info.Env(), publish_version(box, version) ? version : 0);
}

// (control words, buffers, stride, into, newer than) → version, 0 when none is newer
Napi::Value mailbox_read(Info info) {
  const Bytes into = require_bytes(info, 3, 1);
  const uint64_t stride = whole(info, 2);
  const Bytes buffers = require_bytes(info, 1, 2 * stride + into.size);
  const int32_t newer_than = info[4].As<Napi::Number>().Int32Value();
  return Napi::Number::New(info.Env(),
                           read_version(mailbox(info), buffers.data, stride, into.size, into.data, newer_than));
}

// (view, byte offset, count of float32) → the place of the first that is NaN or infinite, −1 where none is
Napi::Value find_not_finite(Info info) {
  const uint64_t at = whole(info, 1), count = whole(info, 2);
  const Bytes view = require_bytes(info, 0, 0);
  if (at > view.size || count > (view.size - at) / 4)
    throw_js(info.Env(), range("rows addon: there are no such floats"));
  return Napi::Number::New(info.Env(), double(first_not_finite(view.data + at, count)));
}

void init(Napi::Env env, Napi::Object exports) {
  make_linkable(env, exports);
  static constexpr Exported all[] = {
      {"misalignment", misalignment},
      {"mean", mean_of},
      {"formatBuffer", format_buffer},
      {"openBuffer", open_buffer},
      {"ptr", ptr},
      {"addRows", add_rows},
      {"addPackedRows", add_packed_rows},
      {"gatherRows", gather_rows},
      {"sampleRows", sample_rows},
      {"drawIndices", draw_indices},
      {"openLimiter", open_limiter},
      {"maySample", may_sample_rows},
      {"takeSamples", take_sample_rows},
      {"countSamples", count_samples},
      {"mayInsert", may_insert_rows},
      {"limiterCounts", limiter_counts},
      {"mailboxBegin", mailbox_begin},
      {"mailboxPublish", mailbox_publish},
      {"mailboxWrite", mailbox_write},
      {"firstNotFinite", find_not_finite},
      {"mailboxRead", mailbox_read},
  };
  add_functions(env, exports, all);
  export_child(env, exports);
  export_lanes(env, exports);
  export_views(env, exports);
  export_kept(env, exports);
}

}  // namespace

HOTSLOT_ADDON(init)

}  // namespace hotslot::rows
