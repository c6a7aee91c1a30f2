// Helpers for shared memory and for memory that is read in random order.
#pragma once
#include <sys/mman.h>

#include <cstdint>

namespace hotslot::rows {

// Loads a word of shared memory once, so that the checked value is also the used value. Another
// thread could change the word between two loads.
template <typename T>
inline T read_once(const T& word) {
  return __atomic_load_n(&word, __ATOMIC_RELAXED);
}

inline uint64_t line_up(uint64_t bytes) { return (bytes + 63) / 64 * 64; }

// Requests huge pages for memory that is read in random order. With small pages, such reads would
// miss the TLB as often as the cache. The kernel may reject the request, and the memory then has
// small pages.
inline void ask_huge_pages([[maybe_unused]] void* memory, [[maybe_unused]] uint64_t bytes) {
#if defined(MADV_HUGEPAGE)
  constexpr uintptr_t huge_page = uintptr_t{2} << 20;
  const uintptr_t begin = reinterpret_cast<uintptr_t>(memory);
  const uintptr_t from = (begin + huge_page - 1) / huge_page * huge_page,
                  to = (begin + bytes) / huge_page * huge_page;
  if (to > from) (void)madvise(reinterpret_cast<void*>(from), to - from, MADV_HUGEPAGE);
#endif
}

}  // namespace hotslot::rows
