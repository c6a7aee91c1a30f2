// Copies rows at random indices. A core can wait for only a few cache misses at a time, and this
// limits the speed. So the loops prefetch later rows during each copy, and load only cache lines of
// the requested rows.
//
// The streaming loop bypasses the cache for each whole 64-byte line of the output.
#include "rows/copy.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace hotslot::rows {
namespace {

// Returns how many rows before its copy a row is prefetched. This distance is large enough that the
// row arrives in time, even if the address misses the TLB. It is small enough that all prefetched
// rows fit into the L2 cache.
inline uint64_t rows_ahead(uint64_t row_bytes) {
  const uint64_t rows = 16384 / row_bytes;
  return rows < 4 ? 4 : rows > 24 ? 24 : rows;
}

inline const uint8_t* row_of(const CopyTask& task, uint64_t at) {
  return task.rows + task.stride * task.indices[at];
}
// Returns the row to prefetch for position `at`, or the last row if `at` is after the end.
inline const uint8_t* later_row(const CopyTask& task, uint64_t at) {
  return row_of(task, at < task.count ? at : task.count - 1);
}

// Prefetches the cache line of a row that contains byte `at`, within the row's first 4 KiB. The
// hardware prefetches the row's later bytes.
//
// The line goes to the L2 cache. A prefetch into L1 was measured to be half as fast, because L1 can
// wait for fewer lines at a time.
//
// Callers prefetch one line at a time, between the copies of another row's lines. Prefetching a
// whole row at once would fill the queue of misses. The copy would then wait, and take up to a
// quarter longer.
//
// The function is inlined by force, because GCC treats a function that only prefetches as one
// without effect. GCC would drop the call.
__attribute__((always_inline)) inline void fetch_line(const uint8_t* row, uint64_t at) {
  if (at < 4096) __builtin_prefetch(row + at, 0, 2);
}
__attribute__((always_inline)) inline void fetch_ends(const uint8_t* row, uint64_t bytes) {
  __builtin_prefetch(row, 0, 2);
  __builtin_prefetch(row + bytes - 1, 0, 2);
}

#if defined(__SANITIZE_THREAD__)

void copy_exact(const CopyTask& task) {
  uint8_t* out = task.out;
  for (uint64_t at = task.begin; at < task.end; ++at, out += task.row_bytes) {
    from_shared(out, row_of(task, at), task.row_bytes);
  }
}

#else

#define INLINE __attribute__((always_inline)) inline

template <typename T>
INLINE void copy_ends(uint8_t* to, const uint8_t* from, uint64_t bytes) {
  T first, last;
  std::memcpy(&first, from, sizeof(T));
  std::memcpy(&last, from + bytes - sizeof(T), sizeof(T));
  std::memcpy(to, &first, sizeof(T));
  std::memcpy(to + bytes - sizeof(T), &last, sizeof(T));
}

// Copies 1 … 63 bytes. From 4 bytes on, it makes two copies of constant size, which may overlap.
// One contains the first byte, and the other contains the last byte.
INLINE void copy_short(uint8_t* to, const uint8_t* from, uint64_t bytes) {
  struct Half {
    uint64_t words[4];
  };
  struct Quarter {
    uint64_t words[2];
  };
  if (bytes >= 32) return copy_ends<Half>(to, from, bytes);
  if (bytes >= 16) return copy_ends<Quarter>(to, from, bytes);
  if (bytes >= 8) return copy_ends<uint64_t>(to, from, bytes);
  if (bytes >= 4) return copy_ends<uint32_t>(to, from, bytes);
  for (uint64_t i = 0; i < bytes; ++i) to[i] = from[i];
}

#if defined(__x86_64__)

#define KERNEL
namespace sse2 {
struct Vector {
  using T = __m128i;
  KERNEL static INLINE T load(const uint8_t* from) {
    return _mm_loadu_si128(reinterpret_cast<const T*>(from));
  }
  KERNEL static INLINE void store(uint8_t* to, T value) {
    _mm_storeu_si128(reinterpret_cast<T*>(to), value);
  }
  KERNEL static INLINE void stream(uint8_t* to, T value) {
    _mm_stream_si128(reinterpret_cast<T*>(to), value);
  }
};
#include "rows/copy_kernels.hpp"
}  // namespace sse2
#undef KERNEL

#define KERNEL __attribute__((target("avx2")))
namespace avx2 {
struct Vector {
  using T = __m256i;
  KERNEL static INLINE T load(const uint8_t* from) {
    return _mm256_loadu_si256(reinterpret_cast<const T*>(from));
  }
  KERNEL static INLINE void store(uint8_t* to, T value) {
    _mm256_storeu_si256(reinterpret_cast<T*>(to), value);
  }
  KERNEL static INLINE void stream(uint8_t* to, T value) {
    _mm256_stream_si256(reinterpret_cast<T*>(to), value);
  }
};
#include "rows/copy_kernels.hpp"
}  // namespace avx2
#undef KERNEL

#define KERNEL __attribute__((target("avx512f")))
namespace avx512 {
struct Vector {
  using T = __m512i;
  KERNEL static INLINE T load(const uint8_t* from) { return _mm512_loadu_si512(from); }
  KERNEL static INLINE void store(uint8_t* to, T value) { _mm512_storeu_si512(to, value); }
  KERNEL static INLINE void stream(uint8_t* to, T value) {
    _mm512_stream_si512(reinterpret_cast<T*>(to), value);
  }
};
#include "rows/copy_kernels.hpp"
}  // namespace avx512
#undef KERNEL

#else

// This build has no streaming stores. So its streaming loop also writes through the cache.
#define KERNEL
namespace portable {
struct Vector {
  using T = uint64_t;
  KERNEL static INLINE T load(const uint8_t* from) {
    T value;
    std::memcpy(&value, from, sizeof(T));
    return value;
  }
  KERNEL static INLINE void store(uint8_t* to, T value) { std::memcpy(to, &value, sizeof(T)); }
  KERNEL static INLINE void stream(uint8_t* to, T value) { store(to, value); }
};
#include "rows/copy_kernels.hpp"
}  // namespace portable
#undef KERNEL

#endif
#endif

}  // namespace

#if defined(__SANITIZE_THREAD__)
CopyRows copy_rows_plain() { return copy_exact; }
CopyRows copy_rows_streaming() { return copy_exact; }
void finish_streaming() {}
#elif defined(__x86_64__)
namespace {
CopyRows best(CopyRows with_avx512, CopyRows with_avx2, CopyRows otherwise) {
  if (__builtin_cpu_supports("avx512f")) return with_avx512;
  return __builtin_cpu_supports("avx2") ? with_avx2 : otherwise;
}
}  // namespace

CopyRows copy_rows_plain() {
  static const CopyRows chosen = best(avx512::plain, avx2::plain, sse2::plain);
  return chosen;
}
CopyRows copy_rows_streaming() {
  static const CopyRows chosen = best(avx512::streaming, avx2::streaming, sse2::streaming);
  return chosen;
}
void finish_streaming() { _mm_sfence(); }
#else
CopyRows copy_rows_plain() { return portable::plain; }
CopyRows copy_rows_streaming() { return portable::streaming; }
void finish_streaming() {}
#endif

}  // namespace hotslot::rows
