// Versioned weights in three buffers of shared memory: one writer, any number of readers, no lock,
// never torn. The writer may be this code (host weights) or a device copy into the buffer. Compiled
// into rows.node.
//
//   Mailbox-1  version v lives in buffer v mod 3.
//   Mailbox-2  published ≤ begun ≤ published + 2: the writer's two buffers are never the one a new
//       reader starts on.
//   Mailbox-3  begun is the highest version whose write has begun. It moves before the first byte,
//       never back. A reader of version v trusts its copy only if begun, read after the copy, is
//       below v + 3, the next version in that buffer.
//   Mailbox-4  refused is the highest version that will never be published: its weights contain
//       non-finite numbers, or the pipeline that began it is closed. No byte of it is under way any
//       more. Versions above published and up to refused have no owner: the next writer writes them
//       again in their places.
//
// A device's copy is ordered after Mailbox-3's store, and the stores that precede the copy are seen
// before its bytes. An order to a device is a release. So is the lock of the host device's queue,
// whose threads pass on the stores that they acquired. No CPU that this is built for shows a store
// to a third thread before one that its maker had seen. `test/model/mailbox.ts` explores every
// order, with each of these rules broken in turn.
#pragma once
#include <atomic>
#include <cstdint>
#include <cstring>

#include "rows/backoff.hpp"
#include "rows/copy.hpp"

namespace hotslot::rows {

struct alignas(64) Mailbox {
  // There is one writer at a time, which reads its own words relaxed. That holds even if begin()
  // and publish() run in two threads, because the handover of the version (a slot's state,
  // JavaScript's Atomics) orders them. The store is sequentially consistent and followed by a
  // release fence, so it precedes every byte (Mailbox-3). Readers acquire it after their fence.
  alignas(64) std::atomic<int32_t> begun;
  // Its store publishes a whole version, and pairs with the reader's load before its copy.
  alignas(64) std::atomic<int32_t> published;
  // Written by the thread that would have published. Its store comes after that thread's last use
  // of the bytes.
  alignas(64) std::atomic<int32_t> refused;
};

// Whether the words are consistent (Mailbox-2). If not, another thread has written values that none
// of these functions writes. The functions then read and write nothing, because versions become
// buffer indices.
inline bool sound(int32_t begun, int32_t published) { return published >= 0 && begun >= published; }

// Returns the next version, or 0 while two are unpublished (Mailbox-2) or when Int32 versions have
// run out. Writer only.
inline int32_t begin_version(Mailbox& box) {
  const int32_t begun = box.begun.load(std::memory_order_relaxed);
  const int32_t published = box.published.load(std::memory_order_acquire);
  if (!sound(begun, published) || begun == INT32_MAX || begun - published >= 2) return 0;
  box.begun.store(begun + 1, std::memory_order_seq_cst);
  before_shared_writes();
  return begun + 1;
}

// Returns the version to write next: a refused one if all unpublished versions were refused, else a
// new one. Returns 0 when begin_version() does. Writer only.
inline int32_t take_version(Mailbox& box) {
  const int32_t begun = box.begun.load(std::memory_order_relaxed);
  const int32_t published = box.published.load(std::memory_order_acquire);
  if (!sound(begun, published) || begun == published ||
      box.refused.load(std::memory_order_acquire) < begun)
    return begin_version(box);
  // It was begun before, so readers of the buffer's older version already distrust their copies
  // (Mailbox-3).
  before_shared_writes();
  return published + 1;
}

// Publishes a version. Returns false if it is not the next one in order. Writer only.
inline bool publish_version(Mailbox& box, int32_t version) {
  const int32_t begun = box.begun.load(std::memory_order_relaxed);
  const int32_t published = box.published.load(std::memory_order_relaxed);
  if (!sound(begun, published) || version > begun || version - 1 != published) return false;
  box.published.store(version, std::memory_order_seq_cst);
  return true;
}

// Copies the newest version above `newer_than` and returns it. Returns 0 if the published one is
// not newer (or no copy succeeded in ~100 ms).
inline int32_t read_version(Mailbox& box, const uint8_t* buffers, uint64_t stride, uint64_t bytes,
                            uint8_t* into, int32_t newer_than) {
  Backoff unlucky;
  while (unlucky.rounds() < 3072) {
    const int32_t version = box.published.load(std::memory_order_acquire);
    if (version <= 0 || version <= newer_than) return 0;
    from_shared(into, buffers + static_cast<uint64_t>(version % 3) * stride, bytes);
    after_shared_reads();
    if (box.begun.load(std::memory_order_acquire) - version < 3) return version;
    unlucky.pause();
  }
  return 0;
}

// Returns the index of the first of `count` float32 that is NaN or infinite, or −1. The bytes must
// not change: a version that is written and not yet published, or the caller's own.
inline int64_t first_not_finite(const uint8_t* floats, uint64_t count) {
  constexpr uint64_t block = 1024;
  constexpr uint32_t exponent = 0x7f800000;
  const auto non_finite = [floats](uint64_t i) {
    uint32_t bits;
    std::memcpy(&bits, floats + i * sizeof bits, sizeof bits);
    return (bits & exponent) == exponent;
  };
  for (uint64_t at = 0; at < count; at += block) {
    const uint64_t end = at + block < count ? at + block : count;
    // Without an early exit, so that the compiler vectorizes it.
    uint32_t any = 0;
    for (uint64_t i = at; i < end; ++i) any |= uint32_t(non_finite(i));
    if (!any) continue;
    for (uint64_t i = at; i < end; ++i)
      if (non_finite(i)) return int64_t(i);
  }
  return -1;
}

}  // namespace hotslot::rows
