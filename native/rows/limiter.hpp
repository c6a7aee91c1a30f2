// The rate limiter's counters, which every writer and sampler shares. The rule is Reverb's
// SampleToInsertRatio. The counters are at the start of the limiter's own shared memory
// (src/store/rate-limiter.ts). Compiled into rows.node.
//
//   Limiter-1  The counts of admitted and of sampled rows decide whether an add is admitted. The
//       compare-exchange that admits an add also counts it. If two threads want the last room, one
//       of them gets it, and no count is lost.
//   Limiter-2  The count of inserted rows decides whether a batch is admitted. No batch is admitted
//       before min_size. `inserts` grows when rows are committed.
//   Limiter-3  A waiter reads its bell, then looks for room, then sleeps on the value that it read
//       from the bell.
//   Limiter-4  A thread that makes room first counts and then rings. After `inserts` it rings the
//       buffer's bells, after `samples` the limiter's bells.
//   Limiter-5  Rows that are given back lower `samples`, which makes room to sample. The thread
//       that gives them back rings the buffer's bells. Writers cannot replace that ring, because
//       they have less room now and may never add again.
//   Limiter-6  A pipeline counts each sequence once. A word of its ring stores how far it has
//       counted. The native call that counts or gives back also sets this word. So a thread that is
//       ended does both or neither, and its successor never counts a sequence again. When requests
//       are paused, the pipeline gives back rows that it has counted and not requested.
//
// The band has room for a batch and an add (checkBand()), so writers and samplers never wait for
// each other. At any counts, one of the two has room. `test/model/limiter.ts` explores every
// interleaving of Limiter-1 to Limiter-5, with each of them broken in turn.
// `test/actors/stepped.test.ts` tests Limiter-6.
#pragma once
#include <atomic>
#include <cstdint>

namespace hotslot::rows {

// All accesses to the three counts are sequentially consistent. A thread that waits for room first
// stores in its bell that it waits, then reads a count. A thread that makes room first adds to the
// count, then searches for waiters. So one of the two sees the other.
struct alignas(64) Limiter {
  // The first four members are set once, before the limiter is shared.
  double samples_per_insert;
  double min_size;
  double error_buffer;
  double gates_add;
  // Number of rows whose add was admitted, which limits further adds. It grows before the rows are
  // written.
  alignas(64) std::atomic<uint64_t> admitted;
  // Number of committed rows, which admits batches. This counter does not publish the rows. The
  // buffer's own counter does.
  alignas(64) std::atomic<uint64_t> inserts;
  // Number of sampled rows. Its growth makes room for writers, and JavaScript rings their bells
  // afterwards.
  alignas(64) std::atomic<uint64_t> samples;
};

// Returns whether an add of `rows` rows has room. From min_size on, inserts may lead samples by at
// most the error buffer.
inline bool may_insert(const Limiter& limiter, uint64_t admitted, uint64_t samples, uint64_t rows) {
  if (limiter.gates_add == 0) return true;
  const double after = static_cast<double>(admitted + rows) - limiter.min_size;
  return after <= 0 ||
         limiter.samples_per_insert * after - static_cast<double>(samples) <= limiter.error_buffer;
}

// Returns whether a batch of `rows` rows has room. Samples may lead inserts by at most the error
// buffer, and no batch has room before min_size.
inline bool may_sample(const Limiter& limiter, uint64_t inserts, uint64_t samples, uint64_t rows) {
  const double since = static_cast<double>(inserts) - limiter.min_size;
  return since >= 0 && static_cast<double>(samples + rows) - limiter.samples_per_insert * since <=
                           limiter.error_buffer;
}

// Admits and counts an add in one step, so that two threads never both take the last room. Returns
// false if it counted nothing.
//
// The loaded `samples` may be slightly stale. While `samples` grows this is harmless, because its
// growth only makes room. `samples` falls only by rows that a paused pipeline requested and no
// thread began to pack. The adds that were admitted because of these rows then lead by up to one
// more batch per slot. So the next adds wait.
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
