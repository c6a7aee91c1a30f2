// Opens Level Zero's loader, and finds its drivers and devices.
#include <cstring>

#include "device/level_zero/queue.hpp"

namespace hotslot::level_zero {
namespace {

constexpr char software_name[] = "Hotslot software driver";

// Never destroyed, like the loader below, because threads may still use both while statics are
// destroyed.
Table& table = *new Table;

struct Loader {
  Family::Found found;
  std::vector<std::unique_ptr<Driver>> drivers;
  std::vector<std::pair<Driver*, DeviceHandle>> devices;

  Loader() {
    try {
      found.reason = look();
    } catch (const Error& error) {
      found.reason = error.what();
    }
    if (!found.devices.empty()) found.reason.clear();
  }

 private:
  // Searches for drivers and devices. Returns the reason that is reported if Level Zero has no
  // device.
  std::string look();
  void add(Driver& driver);
};

Loader& loader() {
  static Loader& loader = *new Loader;
  return loader;
}

constexpr const char* how_to_install =
    "install libze1 and Intel's level-zero GPU driver (intel-level-zero-gpu)";

std::string Loader::look() {
  const Library library = Library::open({"libze_loader.so.1"}, "HOTSLOT_LEVEL_ZERO");
  if (!library) return "no Level Zero loader: " + library.reason + "; " + how_to_install;
  std::string missing;
#define HOTSLOT_ENTRY(name, parameters)                     \
  table.name = library.symbol<decltype(table.name)>(#name); \
  if (!table.name) missing += std::string(missing.empty() ? "" : ", ") + #name;
  HOTSLOT_ZE_ENTRIES(HOTSLOT_ENTRY)
#undef HOTSLOT_ENTRY
  if (!table.zeInit) return library.name + " opened, but is not Level Zero: it has no zeInit";
  if (!missing.empty())
    return library.name + " lacks " + missing + "; update it to Level Zero 1.4 or newer";
  const Status begun = table.zeInit(init_gpu_only);
  if (begun == status::uninitialized)
    return library.name +
           " finds no driver for a GPU: install Intel's level-zero GPU driver "
           "(intel-level-zero-gpu); "
           "/dev/dri has to be open to this user (the group render), and ZE_AFFINITY_MASK may hide "
           "it";
  if (begun == status::insufficient_permissions)
    return library.name +
           " may not open the GPU: /dev/dri/renderD* has to be open to this user (the group "
           "render)";
  must("zeInit", begun);
  uint32_t count = 0;
  must("zeDriverGet", table.zeDriverGet(&count, nullptr));
  std::vector<DriverHandle> handles(count);
  if (count > 0) must("zeDriverGet", table.zeDriverGet(&count, handles.data()));
  for (DriverHandle handle : handles) {
    drivers.push_back(std::make_unique<Driver>());
    drivers.back()->handle = handle;
    drivers.back()->resolve(library, handles.size() == 1);
    add(*drivers.back());
  }
  return std::string("Level Zero has ") + (count == 0 ? "no driver" : "no GPU") + "; " +
         how_to_install;
}

void Loader::add(Driver& driver) {
  uint32_t count = 0;
  must("zeDeviceGet", table.zeDeviceGet(driver.handle, &count, nullptr));
  std::vector<DeviceHandle> handles(count);
  if (count > 0) must("zeDeviceGet", table.zeDeviceGet(driver.handle, &count, handles.data()));
  for (DeviceHandle handle : handles) {
    DeviceProperties properties{};
    properties.type = Type::device_properties_1_2;
    must("zeDeviceGetProperties", table.zeDeviceGetProperties(handle, &properties));
    if (properties.kind != DeviceType::gpu) continue;
    devices.emplace_back(&driver, handle);
    found.devices.push_back(properties.name);
    found.software = found.software ||
                     std::strncmp(properties.name, software_name, sizeof software_name - 1) == 0;
  }
}

}  // namespace

const Table& ze() { return table; }
const Family::Found& found() { return loader().found; }

std::pair<Driver*, DeviceHandle> device_at(int index) { return loader().devices.at(size_t(index)); }

Ref<Device> open(int index) {
  const auto [driver, handle] = device_at(index);
  return std::make_shared<XpuDevice>(*driver, handle, index);
}

}  // namespace hotslot::level_zero

namespace hotslot {

const Family& level_zero_family() {
  static const Family family{"xpu", level_zero::found, level_zero::open};
  return family;
}

}  // namespace hotslot
