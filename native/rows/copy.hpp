// Row copies: the inner loop of gather, chosen once for this CPU, and the byte copies of rows that
// other threads may read or write at the same time. Used by native/rows only.
#pragma once
#include <cstdint>
#include <cstring>

namespace hotslot::rows {

// Copies rows indices[begin … end), row_bytes of each, to `out` (which is row `begin`'s place),
// packed. Row i lies at rows + i × stride. There are `count` indices, to prefetch beyond end.
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
// Orders streaming stores before everything stored afterwards.
void finish_streaming();

#if defined(__SANITIZE_THREAD__)
// ThreadSanitizer knows no fences, so in its builds shared bytes are atomic and carry the order
// themselves. The seqlock is the same: a byte that a reader acquires brings the writer's earlier
// `reserved` (or `begun`) with it.
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
// Copies the first and the last `size` bytes of a piece of `size` to 2 × `size` bytes.
template <uint64_t size>
inline void copy_ends_of(uint8_t* to, const uint8_t* from, uint64_t bytes) {
  std::memcpy(to, from, size);
  std::memcpy(to + bytes - size, from + bytes - size, size);
}
// Most fields of a row are short. A copy of a constant size compiles to a move or two, any other to
// a call.
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
// The announcing store (reserved, begun) before it becomes visible before any byte written after
// it.
inline void before_shared_writes() { __atomic_thread_fence(__ATOMIC_RELEASE); }
// Every byte read before it is read before the checking load (reserved, begun) after it.
inline void after_shared_reads() { __atomic_thread_fence(__ATOMIC_ACQUIRE); }
#endif

}  // namespace hotslot::rows
