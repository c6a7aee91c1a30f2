// A family of devices, with functions that find its devices and open one. A device is opened only
// when a caller requests it.
#pragma once
#include <string>
#include <vector>

#include "device/core/device.hpp"

namespace hotslot {

struct Family {
  const char* name;
  // The devices of the family, with a description of each. They are searched for once per process.
  // If the family has no device, `reason` says why, with advice.
  struct Found {
    std::vector<std::string> devices;
    std::string reason;
    bool software = false;  // whether it is a test's driver, which 'auto' never chooses
    size_t listed =
        SIZE_MAX;  // how many of the devices list() shows at most, as only tests use the others
  };
  const Found& (*find)();
  // `index` is an index of Found::devices.
  Ref<Device> (*open)(int index);
};

// The families in the order in which 'auto' prefers them.
const Family& cuda_family();
const Family& hip_family();
const Family& level_zero_family();
const Family& host_family();

}  // namespace hotslot
