// Lists the devices, and resolves a device's name.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "device/core/core.hpp"
#include "device/core/family.hpp"

namespace hotslot {
namespace {

const Family* const families[] = {&cuda_family(), &hip_family(), &level_zero_family(),
                                  &host_family()};

[[noreturn]] void unknown(const std::string& name) {
  throw unknown_device(
      "unknown device '", name,
      "': say 'auto', 'cpu', 'host:0' to 'host:7', or 'cuda:0', 'rocm:0', 'xpu:0' and so on");
}

}  // namespace

// Resolves 'cuda:1', 'cuda' (the first), 'cpu' (host:0) and 'auto'. For 'auto' it returns the first
// device of the first family that has one.
std::pair<const Family*, int> Core::resolve(const std::string& name) {
  if (name == "auto") {
    for (const Family* family : families)
      if (auto& found = family->find(); !found.devices.empty() && !found.software)
        return {family, 0};
  }
  const std::string wanted = name == "cpu" ? "host:0" : name;
  const size_t colon = wanted.find(':');
  const std::string digits = colon == std::string::npos ? "0" : wanted.substr(colon + 1);
  const bool number = !digits.empty() && digits.size() < 4 &&
                      digits.find_first_not_of("0123456789") == std::string::npos &&
                      (digits == "0" || digits[0] != '0');
  for (const Family* family : families) {
    if (wanted.substr(0, colon) != family->name || !number) continue;
    const auto& found = family->find();
    const size_t count = found.devices.size();
    if (count == 0)
      throw unavailable("device '", name, "' is not available: ", found.reason,
                        "; or use 'host:0'");
    const int index = std::atoi(digits.c_str());
    if (size_t(index) < count) return {family, index};
    throw unknown_device("unknown device '", name, "': there ", count == 1 ? "is " : "are ", count,
                         count == 1 ? " device" : " devices", " of ", family->name,
                         ", the last is '", family->name, ":", count - 1, "'");
  }
  unknown(name);
}

std::vector<DeviceFacts> Core::list() {
  std::vector<DeviceFacts> facts;
  for (const Family* family : families) {
    const auto& found = family->find();
    const size_t shown = std::min(found.devices.size(), found.listed);
    for (size_t i = 0; i < shown; ++i)
      facts.push_back(
          {family->name + (":" + std::to_string(i)), family->name, "", found.devices[i], true});
    if (found.devices.empty())
      facts.push_back({family->name, family->name, found.reason, "", false});
  }
  return facts;
}

int Core::count(const char* family) {
  for (const Family* each : families)
    if (std::strcmp(each->name, family) == 0) return int(each->find().devices.size());
  return 0;
}

}  // namespace hotslot
