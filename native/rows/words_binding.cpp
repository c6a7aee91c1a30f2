// The functions of rows.node that limiters and mailboxes call. JavaScript has checked the
// arguments, and these functions check only what memory safety needs.
#include <napi.h>

#include "rows/arguments.hpp"
#include "rows/limiter.hpp"
#include "rows/mailbox.hpp"

namespace hotslot::rows {
namespace {

// (new memory of a limiter, samples per insert, min_size, error buffer, whether adds are gated)
void format_limiter(Info info) {
  auto& limiter = *reinterpret_cast<Limiter*>(require_bytes(info, 0, sizeof(Limiter)).data);
  limiter.samples_per_insert = number(info, 1);
  limiter.min_size = number(info, 2);
  limiter.error_buffer = number(info, 3);
  limiter.gates_add = info[4].ToBoolean().Value() ? 1 : 0;
}

Napi::Value open_limiter(Info info) {
  return hold(info, 0, reinterpret_cast<Limiter*>(require_bytes(info, 0, sizeof(Limiter)).data));
}

bool may_sample_rows(Info info) {
  const Limiter& limiter = *held<Limiter*>(info, 0);
  return may_sample(limiter, limiter.inserts.load(), limiter.samples.load(), whole(info, 1));
}

// Stores in a word of a pipeline's ring how far the pipeline has counted (Limiter-6). If its thread
// is terminated meanwhile, the native call still completes. So the call counts rows and stores this
// word, or does neither.
void say_counted(Info info, size_t at) {
  if (!info[at].IsTypedArray()) return;
  const Bytes word = require_bytes(info, at, sizeof(int32_t));
  reinterpret_cast<std::atomic<int32_t>*>(word.data)->store(int32_t(whole(info, at + 1)),
                                                            std::memory_order_seq_cst);
}

// (limiter, rows, word?, value) → whether the rows were counted. If they were, `word[0]` becomes
// `value`.
bool take_sample_rows(Info info) {
  const bool taken = take_samples(*held<Limiter*>(info, 0), whole(info, 1));
  if (taken) say_counted(info, 2);
  return taken;
}

// (limiter, number of rows, word?, value): counts sampled rows, or gives them back if the number is
// negative. Then stores `value` in `word[0]`.
void count_samples(Info info) {
  held<Limiter*>(info, 0)->samples.fetch_add(whole(info, 1));
  say_counted(info, 2);
}

bool may_insert_rows(Info info) {
  const Limiter& limiter = *held<Limiter*>(info, 0);
  return may_insert(limiter, limiter.admitted.load(), limiter.samples.load(), whole(info, 1));
}

// (limiter, out: three float64): writes the counts `admitted`, `inserts` and `samples`
void limiter_counts(Info info) {
  const Limiter& limiter = *held<Limiter*>(info, 0);
  give(info, 1,
       {double(limiter.admitted.load()), double(limiter.inserts.load()),
        double(limiter.samples.load())});
}

Mailbox& mailbox(Info info) {
  return *reinterpret_cast<Mailbox*>(require_bytes(info, 0, sizeof(Mailbox)).data);
}

double mailbox_begin(Info info) { return begin_version(mailbox(info)); }

bool mailbox_publish(Info info) {
  return publish_version(mailbox(info), static_cast<int32_t>(u32(info, 1)));
}

// (control words, buffers, stride, from): begins, copies and publishes in one call → version, or 0
// while two versions are unpublished
double mailbox_write(Info info) {
  Mailbox& box = mailbox(info);
  const Bytes from = require_bytes(info, 3, 1);
  const uint64_t stride = whole(info, 2);
  const Bytes buffers = require_bytes(info, 1, 2 * stride + from.size);
  const int32_t version = take_version(box);
  if (version == 0) return 0;
  to_shared(buffers.data + static_cast<uint64_t>(version % 3) * stride, from.data, from.size);
  return publish_version(box, version) ? version : 0;
}

// (control words, buffers, stride, into, newer than) → version, or 0 if none is newer
double mailbox_read(Info info) {
  const Bytes into = require_bytes(info, 3, 1);
  const uint64_t stride = whole(info, 2);
  const Bytes buffers = require_bytes(info, 1, 2 * stride + into.size);
  const int32_t newer_than = info[4].As<Napi::Number>().Int32Value();
  return read_version(mailbox(info), buffers.data, stride, into.size, into.data, newer_than);
}

}  // namespace

void export_words(Napi::Env env, Napi::Object exports) {
  static constexpr Exported all[] = {
      {"formatLimiter", format_limiter},   {"openLimiter", open_limiter},
      {"maySample", may_sample_rows},      {"takeSamples", take_sample_rows},
      {"countSamples", count_samples},     {"mayInsert", may_insert_rows},
      {"limiterCounts", limiter_counts},   {"mailboxBegin", mailbox_begin},
      {"mailboxPublish", mailbox_publish}, {"mailboxWrite", mailbox_write},
      {"mailboxRead", mailbox_read},
  };
  add_functions(env, exports, all);
}

}  // namespace hotslot::rows
