// Facts about devices and managed pages: plain data, as in src/device/facts.ts.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace hotslot {

// The location of managed pages is the index of a device, or one of these values.
constexpr int on_cpu = -1, nowhere = -2;

struct MemoryInfo {
  uint64_t total, free;
};

// How a device multiplies matrices: in float32, or with operands that are rounded to TF32.
enum class Products : uint8_t { float32, tf32 };
inline const char* name_of(Products products) {
  return products == Products::tf32 ? "tf32" : "float32";
}

// Properties of a device that the device contract does not determine.
struct DeviceTraits {
  std::string description;    // the device's name, with its driver's version
  bool timing_events = true;  // whether events can measure time
  bool watchdog = false;      // whether the system ends long kernels and destroys their context
  bool graph_events = true;   // whether graphs can record events for streams outside the graph
  bool rings = false;         // whether completed work rings the bell that was passed to attend()
  std::string no_managed;     // the reason why managed memory is unavailable, or empty
  bool moves_pages =
      true;  // whether managed pages can move to the CPU and other devices, and can be located
  const char* submitter =
      "";  // what moves host rows: 'host_stream', 'cuda_driver', 'hip_runtime', 'level_zero'
  std::string matrix_products;  // the library or kernel of large products
  Products products = Products::float32;
};

// The locations of a range of managed pages. A location is `nowhere` if it differs between pages of
// the range.
struct Residency {
  int location = nowhere;        // where the pages were prefetched last; `nowhere` before the first
                                 // prefetch, and if the driver does not report it
  int preferred = nowhere;       // the location that was advised as preferred
  std::vector<int> accessed_by;  // devices that access the pages without moving them
};

enum class Advice : uint8_t { preferred_location, accessed_by };

}  // namespace hotslot
