// How a card behaves where NVIDIA's documents leave it open. A driver of 13.0 or newer does as one
// H100 did on 27 November 2026; an older one, and HIP's, does what is hardest on the caller. The
// source of each line is the fact of that name in bench/results/h100/facts.jsonl, which
// bench/native/cuda_facts.hpp explains. test/drivers/card-facts.long.test.ts asks the driver for
// all of them and compares.
#pragma once
#include <cstddef>
#include <cstdint>

namespace hotslot::software {

struct Card {
  // lost_…: a kernel that fails takes its context, and each call answers 719 from then on. Else it
  // takes its stream.
  bool kernels_lose_contexts = false;
  // msWhileAnotherFrees_eventQuery, …streamQuery: they get in while another thread's call waits for
  // all work.
  bool queries_pass = false;
  // msBeside_copyFromPageableSameStream, of 1 MiB: so many bytes are copied before the call
  // returns. The call waits for the stream where there are more; no card was asked for that.
  // NVIDIA's documents promise 64 KiB.
  size_t snapshot_bytes = 64 << 10;
  // status of cuStreamEndCapture, 908: the capture is over although another thread than its own
  // asked (the contract's test of threads on that day; facts.jsonl has no line). A second time it
  // answers 401. A thread that is ending counts as another one.
  bool captures_end_elsewhere = false;
  // smallAddressesApart: what lies between two small pieces of managed memory.
  size_t managed_grain = 256;
  // msBeside_hostAlloc: 32 ms for 64 MiB. Registering 1 MiB took 0.6 to 1.0 ms, so the time is
  // taken to be that of the bytes, with and without work; the card was not asked for less, nor
  // without (msBeside_hostAllocSmall and msAlone_hostAlloc ask it now).
  uint64_t host_alloc_us_per_mib = 0;
};

inline Card card_of(int cuda_version) {
  if (cuda_version < 13000) return {};
  Card h100;
  h100.kernels_lose_contexts = h100.queries_pass = h100.captures_end_elsewhere = true;
  h100.snapshot_bytes = 1 << 20;
  h100.managed_grain = 512;
  h100.host_alloc_us_per_mib = 500;
  return h100;
}

}  // namespace hotslot::software
