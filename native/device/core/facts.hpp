// Facts about devices and managed pages: plain data, as in src/device/facts.ts.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace hotslot {

// The location of managed pages is the index of a device of their family, or one of these.
constexpr int on_cpu = -1, nowhere = -2;

struct MemoryInfo {
  uint64_t total, free;
};

// The features of a device beyond the contract.
struct DeviceTraits {
  std::string description;    // its own name, with its driver's version
  bool timing_events = true;  // events can measure time
  bool watchdog = false;      // kernels that run for seconds are ended, and the context with them
  bool graph_events = true;   // graphs can record events for outsiders
  bool rings = false;         // completions ring the bell that attends
  std::string no_managed;     // why there is no managed memory; empty: there is
  bool moves_pages =
      true;  // managed pages go to the CPU and to other devices too, and it is known where they are
  const char* submitter =
      "";  // who moves host rows: 'host_stream', 'cuda_driver', 'hip_runtime', 'level_zero'
  const char* matrix_products = "";  // what gemm runs on
};

// The locations of managed pages. A value that is not the same for the whole range is `nowhere`.
struct Residency {
  int location = nowhere;   // where they were prefetched last; `nowhere` before that, and if the
                            // driver does not report it
  int preferred = nowhere;  // where they belong
  std::vector<int> accessed_by;  // devices that reach them without moving them
};

enum class Advice : uint8_t { preferred_location, accessed_by };

}  // namespace hotslot
