// Versioned weights in three buffers of shared memory, with one writer and any number of readers.
// Readers take no lock and never get torn weights. The writer is this code (host weights), or a
// device that copies into a buffer. Compiled into rows.node.
//
//   Mailbox-1  Version v is in buffer v mod 3.
//   Mailbox-2  published ≤ begun ≤ published + 2. So a new reader never starts on one of the two
//       buffers that the writer may write.
//   Mailbox-3  begun is the highest version whose write has begun. The writer raises begun before
//       it writes the first byte, and never lowers begun. A reader of version v trusts its copy
//       only if begun, read after the copy, is below v + 3. Version v + 3 is the next version in
//       the same buffer.
//   Mailbox-4  refused is the highest version that will never be published. Its weights contain
//       non-finite numbers, or the pipeline that began it is closed. No thread or device writes
//       bytes of this version any more. Versions above published and up to refused have no owner.
//       The next writer writes these versions again, each in the same buffer.
//
// If a device writes a version, its copy is enqueued after the store of Mailbox-3. Enqueuing work
// on a device is a release. So a thread that sees a copied byte also sees this store. On the CPU
// device, the lock of the queue has this effect. The queue's threads acquire the stores with this
// lock before they copy.
//
// If one thread enqueues the copy and another makes it, this needs CPUs that keep causality. If a
// thread sees a store and then stores, no third thread sees the second store without the first. All
// CPUs for which this code is built have this property.
//
// `test/model/mailbox.ts` explores every order, with each of these rules broken in turn.
#pragma once
#include <atomic>
#include <cstdint>
#include <cstring>

#include "rows/backoff.hpp"
#include "rows/copy.hpp"

namespace hotslot::rows {

struct alignas(64) Mailbox {
  // There is one writer at a time, so it may load `begun` and `published` relaxed. That is correct
  // even if begin() and publish() run in two threads. The first thread hands the version to the
  // second through a slot's state (JavaScript's Atomics), which orders the two calls.
  //
  // The store to `begun` is sequentially consistent, and a release fence follows it. So the store
  // precedes every byte that the writer then writes (Mailbox-3). Readers copy, then execute an
  // acquire fence, then load `begun`.
  alignas(64) std::atomic<int32_t> begun;
  // A store to `published` publishes a whole version. It pairs with the load that a reader does
  // before its copy.
  alignas(64) std::atomic<int32_t> published;
  // Stored by the thread that would have published the version, after its last use of the version's
  // bytes. A writer that acquires this value may write these bytes again.
  alignas(64) std::atomic<int32_t> refused;
};

// Returns whether the words are consistent (Mailbox-2). They are inconsistent only if other code
// has written to them. The writer's functions below then return 0 or false. A version from such
// words could give a buffer's index out of range.
inline bool sound(int32_t begun, int32_t published) { return published >= 0 && begun >= published; }

// Begins the next version and returns it. Returns 0 while two versions are unpublished (Mailbox-2),
// if Int32 versions have run out, or if the words are inconsistent. Only the writer calls it.
inline int32_t begin_version(Mailbox& box) {
  const int32_t begun = box.begun.load(std::memory_order_relaxed);
  const int32_t published = box.published.load(std::memory_order_acquire);
  if (!sound(begun, published) || begun == INT32_MAX || begun - published >= 2) return 0;
  box.begun.store(begun + 1, std::memory_order_seq_cst);
  before_shared_writes();
  return begun + 1;
}

// Returns the version to write next. If all unpublished versions were refused, this is the lowest
// of them. Otherwise it is the result of begin_version(), which may be 0. Only the writer calls it.
inline int32_t take_version(Mailbox& box) {
  const int32_t begun = box.begun.load(std::memory_order_relaxed);
  const int32_t published = box.published.load(std::memory_order_acquire);
  if (!sound(begun, published) || begun == published ||
      box.refused.load(std::memory_order_acquire) < begun)
    return begin_version(box);
  // This version was begun before, so `begun` is already at least this version. So readers of the
  // older version in the same buffer already reject their copies (Mailbox-3).
  before_shared_writes();
  return published + 1;
}

// Publishes a version. Returns false, and publishes nothing, if it is not the next version in order
// or was never begun. Only the writer calls it.
inline bool publish_version(Mailbox& box, int32_t version) {
  const int32_t begun = box.begun.load(std::memory_order_relaxed);
  const int32_t published = box.published.load(std::memory_order_relaxed);
  if (!sound(begun, published) || version > begun || version - 1 != published) return false;
  box.published.store(version, std::memory_order_seq_cst);
  return true;
}

// Copies the published version to `into` if it is above `newer_than`, and returns the version.
// Returns 0 if the version is not newer, or if no copy succeeded in ~100 ms. A copy fails if the
// writer begins to write to its buffer meanwhile.
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
// not change meanwhile: they are a version that is written and not published, or the caller's own
// memory.
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
    // The loop has no early exit, so that the compiler vectorizes it.
    uint32_t any = 0;
    for (uint64_t i = at; i < end; ++i) any |= uint32_t(non_finite(i));
    if (!any) continue;
    for (uint64_t i = at; i < end; ++i)
      if (non_finite(i)) return int64_t(i);
  }
  return -1;
}

}  // namespace hotslot::rows
