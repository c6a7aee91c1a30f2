// The host device as a family among the others.
#include "device/family.hpp"
#include "device/host.hpp"

namespace hotslot {

const Family& host_family() {
  static const Family family{host::family_name,
                             []() -> const Family::Found& {
                               static const Family::Found found{std::vector<std::string>(host::devices, host::describe()), "", false};
                               return found;
                             },
                             host::open};
  return family;
}

}  // namespace hotslot
