// An open device with its belongings. Only Core touches it, under its mutex.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "device/core/device.hpp"

namespace hotslot {

struct OpenDevice {
  Ref<Device> device;
  double handle = 0;
  // The default compute stream. It is every thread's first current stream.
  double stream = 0;
  // How often it is open now, over all threads. At zero its belongings are freed.
  int users = 0;
  // Objects that exist once per device and process, made on the first request: handles by name.
  std::map<std::string, double> belongings;
  // Streams that borrowers returned, and tables by their bytes.
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
