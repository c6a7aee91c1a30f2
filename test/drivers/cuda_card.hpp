// How a GPU behaves where NVIDIA's documents do not say. Versions from 13.0 behave like an H100 on
// 27 November 2026. Older versions and HIP behave in the way that is hardest for the caller. Each
// line names its fact in bench/results/h100/facts.jsonl, which bench/native/cuda_facts.hpp
// explains. test/drivers/card-facts.long.test.ts compares all facts with the driver.
#pragma once
#include <cstddef>
#include <cstdint>

namespace hotslot::software {

struct Card {
  // lost_…: a kernel that fails makes its context unusable, and each later call returns 719. If
  // false, only the kernel's stream fails.
  bool kernels_lose_contexts = false;
  // msWhileAnotherFrees_eventQuery, …streamQuery: these queries return while a call of another
  // thread waits for all work.
  bool queries_pass = false;
  // msBeside_copyFromPageableSameStream, measured with 1 MiB: copies of up to this size read
  // pageable memory before the call returns. A larger copy waits for the stream, which no GPU was
  // measured for. NVIDIA's documents promise 64 KiB.
  size_t snapshot_bytes = 64 << 10;
  // cuStreamEndCapture in another thread returns 908 and ends the capture, and a second call
  // returns 401. The contract's test of threads found this on the same day, so facts.jsonl has no
  // line. A thread that is ending counts as another thread.
  bool captures_end_elsewhere = false;
  // smallAddressesApart: the distance in bytes between two small allocations of managed memory.
  size_t managed_grain = 256;
  // msBeside_hostAlloc: 32 ms for 64 MiB. Registering 1 MiB took 0.6 to 1.0 ms. The time is
  // therefore assumed to be proportional to the bytes, with and without other work. The GPU was
  // measured neither with smaller sizes nor without work. The facts msBeside_hostAllocSmall and
  // msAlone_hostAlloc measure both now.
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
