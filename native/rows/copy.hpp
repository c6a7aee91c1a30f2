// Row copies. The inner loop of gather() is chosen once for this CPU. The byte copies are for rows
// that other threads may read or write at the same time. Only native/rows uses this file.
#pragma once
#include <cstdint>
#include <cstring>

namespace hotslot::rows {

// Describes one copy of the rows indices[begin … end) to `out`, packed, `row_bytes` of each. Row i
// of the source begins at rows + i × stride. `count` is the number of all indices, because the
// loops prefetch rows after `end`.
struct CopyTask {
  const uint8_t* rows;
  uint64_t stride;
  uint64_t row_bytes;
  const uint32_t* indices;
  uint64_t begin;
  uint64_t end;
  uint64_t count;
  uint8_t* out;
};
using CopyRows = void (*)(const CopyTask&);

CopyRows copy_rows_plain();
CopyRows copy_rows_streaming();
// Orders this thread's streaming stores before all of its later stores.
void finish_streaming();

#if defined(__SANITIZE_THREAD__)
// ThreadSanitizer does not model fences. So in its builds each access to a shared byte is an atomic
// release or acquire, which takes the place of the fences. The seqlock stays the same: a reader
// that acquires a byte also sees the writer's earlier store to `reserved` (or `begun`).
inline void to_shared(uint8_t* to, const uint8_t* from, uint64_t bytes) {
  for (uint64_t i = 0; i < bytes; ++i) __atomic_store_n(to + i, from[i], __ATOMIC_RELEASE);
}
inline void from_shared(uint8_t* to, const uint8_t* from, uint64_t bytes) {
  for (uint64_t i = 0; i < bytes; ++i) to[i] = __atomic_load_n(from + i, __ATOMIC_ACQUIRE);
}
inline void zero_shared(uint8_t* to, uint64_t bytes) {
  for (uint64_t i = 0; i < bytes; ++i) __atomic_store_n(to + i, uint8_t{0}, __ATOMIC_RELEASE);
}
inline void before_shared_writes() {}
inline void after_shared_reads() {}
#else
// Copies `bytes` bytes (from `size` to 2 × `size`): the first `size` bytes, then the last `size`
// bytes.
template <uint64_t size>
inline void copy_ends_of(uint8_t* to, const uint8_t* from, uint64_t bytes) {
  std::memcpy(to, from, size);
  std::memcpy(to + bytes - size, from + bytes - size, size);
}
// Copies to shared memory. A copy of constant size compiles to one or two moves, and any other copy
// to a function call. Most fields of a row are short, so short copies consist of copies of constant
// size.
inline void to_shared(uint8_t* to, const uint8_t* from, uint64_t bytes) {
  if (bytes == 4) {
    std::memcpy(to, from, 4);
  } else if (bytes > 128 || bytes < 8) {
    std::memcpy(to, from, bytes);
  } else if (bytes > 64) {
    copy_ends_of<64>(to, from, bytes);
  } else if (bytes > 32) {
    copy_ends_of<32>(to, from, bytes);
  } else if (bytes > 16) {
    copy_ends_of<16>(to, from, bytes);
  } else {
    copy_ends_of<8>(to, from, bytes);
  }
}
inline void from_shared(uint8_t* to, const uint8_t* from, uint64_t bytes) {
  std::memcpy(to, from, bytes);
}
inline void zero_shared(uint8_t* to, uint64_t bytes) { std::memset(to, 0, bytes); }
// Makes the announcing store before this call (to `reserved` or `begun`) visible before any byte
// written after this call.
inline void before_shared_writes() { __atomic_thread_fence(__ATOMIC_RELEASE); }
// Makes the checking load after this call (of `reserved` or `begun`) happen after every read before
// this call.
inline void after_shared_reads() { __atomic_thread_fence(__ATOMIC_ACQUIRE); }
#endif

}  // namespace hotslot::rows
