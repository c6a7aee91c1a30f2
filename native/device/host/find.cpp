// Makes the CPU device one of the device families.
#include "device/core/family.hpp"
#include "device/host/device.hpp"

namespace hotslot {

const Family& host_family() {
  static const Family family{host::family_name,
                             []() -> const Family::Found& {
                               static const Family::Found found{
                                   std::vector<std::string>(host::devices, host::describe()), "",
                                   false, 1};
                               return found;
                             },
                             host::open};
  return family;
}

}  // namespace hotslot
