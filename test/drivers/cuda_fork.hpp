// Imitates what a fork does to registered memory on some systems (gVisor, Linux before 5.9). Both
// processes share the pages until one of them writes. When the parent writes, it gets a copy of the
// page, and the device continues to use the old page. Pages with MADV_DONTFORK are not shared and
// stay the same.
#pragma once
#include <pthread.h>

#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "cuda_state.hpp"

namespace hotslot::software {

// A mapping of this process, and whether a fork leaves it out (MADV_DONTFORK).
struct Mapping {
  uintptr_t begin, end;
  bool left_out;
};
inline std::vector<Mapping> mappings() {
  std::vector<Mapping> all;
  FILE* const file = std::fopen("/proc/self/smaps", "re");
  if (!file) return all;
  char line[512];
  while (std::fgets(line, sizeof line, file)) {
    Mapping next{0, 0, false};
    if (std::sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &next.begin, &next.end) == 2)
      all.push_back(next);
    else if (std::strncmp(line, "VmFlags:", 8) == 0 && !all.empty())
      all.back().left_out = std::strstr(line, " dc") != nullptr;
  }
  std::fclose(file);
  return all;
}

// Runs in the parent before a fork. If a fork shares a page of a registered range, the whole range
// is parted: the device continues to use a copy of its bytes (Range::seen).
inline void part_from_child() {
  Driver& all = driver();
  all.lock.lock();
  std::vector<Mapping> known;
  for (auto& [begin, range] : all.ranges) {
    if (range->kind != Range::registered || range->parted) continue;
    if (known.empty()) known = mappings();
    for (auto& each : known)
      if (!each.left_out && each.begin < range->end() && range->begin < each.end)
        range->parted = true;
    if (!range->parted) continue;
    range->pages.assign(reinterpret_cast<const uint8_t*>(range->begin),
                        reinterpret_cast<const uint8_t*>(range->end()));
  }
}
inline void forked() { driver().lock.unlock(); }

inline void watch_forks() {
  static const int watching = pthread_atfork(part_from_child, forked, forked);
  (void)watching;
}

}  // namespace hotslot::software
