// The rate limiter's counters, shared by every writer and sampler; the rule is Reverb's
// SampleToInsertRatio. Its header is the start of the limiter's own shared memory
// (src/store/rate-limiter.ts); compiled into rows.node.
//
//   Limiter-1  An add is admitted by what is admitted and what is sampled, and counted in the same
//       exchange: of two that want the last room one gets it, and nothing taken is lost.
//   Limiter-2  A batch is admitted by what is inserted, never before min_size. inserts grows when
//       the rows are committed.
//   Limiter-3  Who waits reads its bell, then looks for room, then sleeps on the count that it
//       read.
//   Limiter-4  Who made room counts first and rings afterwards: inserts, then the buffer's bells;
//       samples, then the limiter's.
//   Limiter-5  What is given back makes samples fall. That is room to sample, so the buffer's bells
//       are rung: writers have less room now, and may not come to ring them.
//   Limiter-6  A pipeline counts each sequence once. How far it has counted stands in its ring, and
//       moves in the native call that counts or gives back: a thread that is ended leaves both or
//       neither, and its successor counts no sequence that is counted already. Where requests are
//       paused, what is counted and not requested is given back.
//
// The band holds a batch and an add (checkBand()), so writers and samplers never wait for each
// other: one of the two has room, whatever the counts. `test/model/limiter.ts` goes through every
// interleaving of Limiter-1 to Limiter-5, each of them broken in turn; Limiter-6 is tried by
// `test/actors/stepped.test.ts`.
#pragma once
#include <atomic>
#include <cstdint>

namespace hotslot::rows {

// All three counts are sequentially consistent: who waits for room stores that it waits (a bell's
// word), then looks at a count; who makes room adds to it, then looks for who waits.
struct alignas(64) Limiter {
  // Set once before it is shared.
  double samples_per_insert;
  double min_size;
  double error_buffer;
  double gates_add;
  // Rows whose add was admitted: what gates further adds. Moves before the rows are written.
  alignas(64) std::atomic<uint64_t> admitted;
  // Rows committed: what admits samples. Its add publishes nothing itself; the rows' own counter
  // does.
  alignas(64) std::atomic<uint64_t> inserts;
  // Rows sampled. Its add makes room for writers; the JavaScript side rings them afterwards.
  alignas(64) std::atomic<uint64_t> samples;
};

// Room for one add: inserts may lead what was sampled by no more than the error buffer, once
// min_size is reached.
inline bool may_insert(const Limiter& limiter, uint64_t admitted, uint64_t samples, uint64_t rows) {
  if (limiter.gates_add == 0) return true;
  const double after = static_cast<double>(admitted + rows) - limiter.min_size;
  return after <= 0 ||
         limiter.samples_per_insert * after - static_cast<double>(samples) <= limiter.error_buffer;
}

// Room for one batch: samples may lead what was inserted by no more than the error buffer, never
// before min_size.
inline bool may_sample(const Limiter& limiter, uint64_t inserts, uint64_t samples, uint64_t rows) {
  const double since = static_cast<double>(inserts) - limiter.min_size;
  return since >= 0 && static_cast<double>(samples + rows) - limiter.samples_per_insert * since <=
                           limiter.error_buffer;
}

// Checks and counts as one step, so that two threads never both take the last room. False: counted
// nothing. Growth of `samples` only makes room, so its value may be a moment old. It falls by what
// a pipeline that is paused had asked for and nobody began on: adds that were admitted by those
// lead by a batch a slot more, and the next ones wait.
inline bool take_inserts(Limiter& limiter, uint64_t rows) {
  uint64_t admitted = limiter.admitted.load(std::memory_order_seq_cst);
  do {
    if (!may_insert(limiter, admitted, limiter.samples.load(std::memory_order_seq_cst), rows))
      return false;
  } while (!limiter.admitted.compare_exchange_weak(admitted, admitted + rows,
                                                   std::memory_order_seq_cst));
  return true;
}

inline bool take_samples(Limiter& limiter, uint64_t rows) {
  uint64_t samples = limiter.samples.load(std::memory_order_seq_cst);
  do {
    if (!may_sample(limiter, limiter.inserts.load(std::memory_order_seq_cst), samples, rows))
      return false;
  } while (
      !limiter.samples.compare_exchange_weak(samples, samples + rows, std::memory_order_seq_cst));
  return true;
}

}  // namespace hotslot::rows
