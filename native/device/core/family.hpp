// A family of devices: how they are found and opened. A device is opened only when a caller
// requests it.
#pragma once
#include <string>
#include <vector>

#include "device/core/device.hpp"

namespace hotslot {

struct Family {
  const char* name;
  // The devices found, once per process: a description of each, or the reason why the family has
  // none, with advice.
  struct Found {
    std::vector<std::string> devices;
    std::string reason;
    bool software = false;  // a test's driver: never chosen by 'auto'
    size_t listed =
        SIZE_MAX;  // maximum number that lists show; the others are for tests of several devices
  };
  const Found& (*find)();
  // `index` is one of those found.
  Ref<Device> (*open)(int index);
};

// The families in the order in which 'auto' prefers them.
const Family& cuda_family();
const Family& hip_family();
const Family& level_zero_family();
const Family& host_family();

}  // namespace hotslot
