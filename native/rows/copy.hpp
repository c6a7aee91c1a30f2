// Copies of rows. The first two functions return the loops of gather() for this CPU. The byte
// copies are for rows that other threads may read or write at the same time. Only native/rows uses
// this file.
#pragma once
#include <cstdint>
#include <cstring>

namespace hotslot::rows {

// One copy of the rows indices[begin … end), one directly after the other, to `out`. Row i of the
// source begins at rows + i × stride and has `row_bytes` bytes. `count` is the length of `indices`,
// because the loops prefetch rows after `end`.
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
// ThreadSanitizer does not model fences. So in its builds, each store to a shared byte is a
// release, each load is an acquire, and the fences are empty. The seqlock still works. A reader
// that acquires a byte also sees the store to `reserved` (or `begun`) that the writer made before.
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
// Copies the first `size` bytes, then the last `size` bytes. Together these are all `bytes` bytes,
// because `bytes` is at least `size` and at most 2 × `size`.
template <uint64_t size>
inline void copy_ends_of(uint8_t* to, const uint8_t* from, uint64_t bytes) {
  std::memcpy(to, from, size);
  std::memcpy(to + bytes - size, from + bytes - size, size);
}
// Copies to shared memory. A copy of constant size compiles to one or two moves, and any other copy
// to a function call. Most fields of a row are short. So a copy of 8 … 128 bytes consists of two
// copies of constant size.
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
