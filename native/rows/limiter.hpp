// The rate limiter's counters, shared by every writer and sampler. The rule is Reverb's
// SampleToInsertRatio. The header is the start of the limiter's own shared memory
// (src/store/rate-limiter.ts). Compiled into rows.node.
//
//   Limiter-1  An add is admitted by the admitted and the sampled rows, and counted in the same
//       compare-exchange. If two want the last room, one gets it, and room that was taken is never
//       lost.
//   Limiter-2  A batch is admitted by the inserted rows, never before min_size. inserts grows when
//       the rows are committed.
//   Limiter-3  A waiter reads its bell, then looks for room, then sleeps on the count that it read.
//   Limiter-4  A thread that makes room counts first and rings afterwards: inserts, then the
//       buffer's bells, or samples, then the limiter's.
//   Limiter-5  Rows that are given back make samples fall. That is room to sample, so the buffer's
//       bells are rung: writers have less room now, and may never come to ring them.
//   Limiter-6  A pipeline counts each sequence once. Its ring holds how far it has counted, which
//       moves in the native call that counts or gives back. So a thread that is ended leaves both
//       or neither, and its successor never counts a sequence again. When requests are paused, rows
//       that are counted and not requested are given back.
//
// The band holds a batch and an add (checkBand()), so writers and samplers never wait for each
// other: one of the two has room at any counts. `test/model/limiter.ts` explores every interleaving
// of Limiter-1 to Limiter-5, with each of them broken in turn. `test/actors/stepped.test.ts` tests
// Limiter-6.
#pragma once
#include <atomic>
#include <cstdint>

namespace hotslot::rows {

// All three counts are sequentially consistent. A thread that waits for room stores that it waits
// (a bell's word), then reads a count. A thread that makes room adds to the count, then looks for
// waiters.
struct alignas(64) Limiter {
  // The first four are set once, before the limiter is shared.
  double samples_per_insert;
  double min_size;
  double error_buffer;
  double gates_add;
  // Rows whose add was admitted, which gate further adds. Moves before the rows are written.
  alignas(64) std::atomic<uint64_t> admitted;
  // Rows committed, which admit samples. The rows' own counter publishes them, not this one.
  alignas(64) std::atomic<uint64_t> inserts;
  // Rows sampled. Its add makes room for writers, which the JavaScript side rings afterwards.
  alignas(64) std::atomic<uint64_t> samples;
};

// Whether there is room for one add: inserts may lead samples by at most the error buffer, once
// min_size is reached.
inline bool may_insert(const Limiter& limiter, uint64_t admitted, uint64_t samples, uint64_t rows) {
  if (limiter.gates_add == 0) return true;
  const double after = static_cast<double>(admitted + rows) - limiter.min_size;
  return after <= 0 ||
         limiter.samples_per_insert * after - static_cast<double>(samples) <= limiter.error_buffer;
}

// Whether there is room for one batch: samples may lead inserts by at most the error buffer, and
// never before min_size.
inline bool may_sample(const Limiter& limiter, uint64_t inserts, uint64_t samples, uint64_t rows) {
  const double since = static_cast<double>(inserts) - limiter.min_size;
  return since >= 0 && static_cast<double>(samples + rows) - limiter.samples_per_insert * since <=
                           limiter.error_buffer;
}

// Checks and counts in one step, so that two threads never both take the last room. Returns false
// if it counted nothing. Growth of `samples` only makes room, so its value may be slightly stale.
// It falls by the rows that a paused pipeline had requested and that no thread began on. Adds that
// those rows admitted lead by one batch per slot more, and the next adds wait.
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
