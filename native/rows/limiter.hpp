// The rate limiter's counters, which every writer and sampler shares. The rule is Reverb's
// SampleToInsertRatio. The counters are at the start of the limiter's own shared memory
// (src/store/rate-limiter.ts). Compiled into rows.node.
//
//   Limiter-1  The counts of admitted and of sampled rows decide whether an add is admitted. The
//       compare-exchange that admits an add also counts it. So two threads never both use the last
//       room, and no count is lost.
//   Limiter-2  The count of committed rows (`inserts`) decides whether a batch is admitted. No
//       batch is admitted before this count is min_size.
//   Limiter-3  A waiter reads its bell, then looks for room, then sleeps while the bell has the
//       value that it read. If a thread makes room after the look, its ring changes the bell, so
//       the waiter does not sleep.
//   Limiter-4  A thread that makes room first counts and then rings. After it raises `inserts`, it
//       rings the buffer's bells, on which samplers wait. After it raises `samples`, it rings the
//       limiter's bells, on which writers wait.
//   Limiter-5  A thread that gives rows back lowers `samples`, which makes room to sample. It then
//       rings the buffer's bells. Otherwise a waiting sampler would sleep until the next add rings
//       them. But writers have less room now, and may never add again.
//   Limiter-6  A pipeline counts each sequence once. A word of its ring stores how far it has
//       counted. The native call that counts or gives back also sets this word. So a thread that is
//       ended does both or neither, and its successor never counts a sequence again. A paused
//       pipeline gives back the rows of sequences that it has counted and does not apply.
//
// The error buffer has room for a batch and an add (checkBand()). So writers or samplers have room
// at any counts, and they never all wait for each other.
#pragma once
#include <atomic>
#include <cstdint>

namespace hotslot::rows {

// All accesses to the three counts are sequentially consistent. A thread that waits for room first
// stores in its bell that it waits, then reads a count. A thread that makes room first adds to the
// count, then searches for waiters. So either the waiter sees the new count, or the other thread
// sees the waiter and wakes it.
struct alignas(64) Limiter {
  // The first four members are set once, before the limiter is shared. `gates_add` is 1 if the
  // limiter also limits adds, and 0 if it limits only batches.
  double samples_per_insert;
  double min_size;
  double error_buffer;
  double gates_add;
  // Number of rows whose add was admitted, which limits further adds. It grows before the rows are
  // written.
  alignas(64) std::atomic<uint64_t> admitted;
  // Number of committed rows, which limits batches. Readers of rows use the buffer's own counter,
  // so this counter publishes no rows.
  alignas(64) std::atomic<uint64_t> inserts;
  // Number of sampled rows. Its growth makes room for writers, and JavaScript rings their bells
  // afterwards.
  alignas(64) std::atomic<uint64_t> samples;
};

// Returns whether an add of `rows` rows has room. An add always has room up to min_size. After
// that, samples_per_insert × (admitted rows with this add − min_size) may exceed `samples` by at
// most the error buffer.
inline bool may_insert(const Limiter& limiter, uint64_t admitted, uint64_t samples, uint64_t rows) {
  if (limiter.gates_add == 0) return true;
  const double after = static_cast<double>(admitted + rows) - limiter.min_size;
  return after <= 0 ||
         limiter.samples_per_insert * after - static_cast<double>(samples) <= limiter.error_buffer;
}

// Returns whether a batch of `rows` rows has room. No batch has room before min_size. After that,
// `samples` with this batch may exceed samples_per_insert × (inserts − min_size) by at most the
// error buffer.
inline bool may_sample(const Limiter& limiter, uint64_t inserts, uint64_t samples, uint64_t rows) {
  const double since = static_cast<double>(inserts) - limiter.min_size;
  return since >= 0 && static_cast<double>(samples + rows) - limiter.samples_per_insert * since <=
                           limiter.error_buffer;
}

// Admits and counts an add in one atomic operation, so that two threads never both use the last
// room. If there is too little room, counts nothing and returns false.
//
// `samples` may change between its load and the exchange. If it grew, this is harmless, because
// there is only more room. It falls only when a paused pipeline gives rows back.
//
// Adds may have been admitted because of these rows. Inserts then lead by up to one more batch per
// slot, so the next adds wait.
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
