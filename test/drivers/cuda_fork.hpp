// What a fork does to registered memory on some systems (gVisor, Linux before 5.9): both processes
// share its pages until one of them writes. The parent's next write makes it a copy, and the device
// goes on with the pages it knows. Pages that are kept from the child (MADV_DONTFORK) are not
// shared, and stay what they are.
#pragma once
#include <pthread.h>

#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "cuda_state.hpp"

namespace hotslot::software {

// Of every mapping of this process: where it is, and whether a fork leaves it out.
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

// Before a fork, in the parent. A range that has a page which will part is parted whole: from now
// on the device has what was in it, see Range::seen.
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
