// An open device with all that belongs to it. Only Core touches it, under its mutex.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "device/core/device.hpp"

namespace hotslot {

struct OpenDevice {
  Ref<Device> device;
  double handle = 0;
  // The default compute stream: every thread's current stream at first.
  double stream = 0;
  // How often it is open now, over all threads. With the last one its belongings go.
  int users = 0;
  // What exists once per device and process, made when first asked for: handles by name.
  std::map<std::string, double> belongings;
  // Streams that were lent and came back, and tables by their bytes.
  std::vector<double> idle_streams;
  struct Table {
    Ref<Memory> memory;
    uint64_t used = 0;  // when, in uses of any table
  };
  std::map<std::string, Table> tables;
  CacheCounts stream_counts, table_counts;
  // The thread that has the shared capture stream now, by its EnvironmentHandles, and the pool it
  // has with it. Null: none.
  const void* captures = nullptr;
  Ref<Object> pool;
};

}  // namespace hotslot
