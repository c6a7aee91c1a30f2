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
  // The default compute stream. Every thread uses it until the thread chooses another one.
  double stream = 0;
  // How many calls of open() were not undone by close(). When the number becomes zero, the
  // belongings are freed.
  int users = 0;
  // The handles of the belongings (see Core::belonging), by name. Each belonging is created when it
  // is first requested.
  std::map<std::string, double> belongings;
  // `idle_streams` has the handles of streams that threads took with lend_stream() and returned.
  // `tables` has the memory of Core::table(), by its contents.
  std::vector<double> idle_streams;
  struct Table {
    Ref<Memory> memory;
    uint64_t used = 0;  // the last use, as the number of uses of all tables until then
  };
  std::map<std::string, Table> tables;
  CacheCounts stream_counts, table_counts;
  // The thread that uses the shared capture stream, as the address of its EnvironmentHandles, or
  // null. `pool` is the graph pool with which the thread entered.
  const void* captures = nullptr;
  Ref<Object> pool;
};

}  // namespace hotslot
