// An open device with its belongings. Only Core uses it, under Core's mutex.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "device/core/device.hpp"

namespace hotslot {

struct OpenDevice {
  Ref<Device> device;
  double handle = 0;
  // The default compute stream, which is the first current stream of every thread.
  double stream = 0;
  // How often the threads have the device open. When it becomes zero, the belongings are freed.
  int users = 0;
  // Handles by name, for objects that exist once per device and process. Each is created on the
  // first request.
  std::map<std::string, double> belongings;
  // Streams that borrowers returned. `tables` has the tables by their bytes.
  std::vector<double> idle_streams;
  struct Table {
    Ref<Memory> memory;
    uint64_t used = 0;  // time of the last use, counted in uses of all tables
  };
  std::map<std::string, Table> tables;
  CacheCounts stream_counts, table_counts;
  // The thread that uses the shared capture stream, as the address of its EnvironmentHandles, or
  // null. `pool` is the graph pool with which the thread entered.
  const void* captures = nullptr;
  Ref<Object> pool;
};

}  // namespace hotslot
