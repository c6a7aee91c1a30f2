// A family of devices: how they are found and opened. Nothing is opened before a caller asks for
// it.
#pragma once
#include <string>
#include <vector>

#include "device/core/device.hpp"

namespace hotslot {

struct Family {
  const char* name;
  // What there is, found once per process: a description per device, or why there is none, in
  // words, with what would help.
  struct Found {
    std::vector<std::string> devices;
    std::string reason;
    bool software = false;  // a test's driver: never chosen by 'auto'
    size_t listed =
        SIZE_MAX;  // how many of them lists show at most: further ones are for tests of several
  };
  const Found& (*find)();
  // `index` is one of those found.
  Ref<Device> (*open)(int index);
};

// In the order 'auto' prefers them.
const Family& cuda_family();
const Family& hip_family();
const Family& level_zero_family();
const Family& host_family();

}  // namespace hotslot
