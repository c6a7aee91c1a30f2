// Stands in until the family is driven.
#include "device/family.hpp"

namespace hotslot {

const Family& cuda_family() {
  static const Family family{"cuda",
                             []() -> const Family::Found& {
                               static const Family::Found found{{}, "this version of Hotslot drives the host device only; use host:0", false};
                               return found;
                             },
                             nullptr};
  return family;
}

}  // namespace hotslot
