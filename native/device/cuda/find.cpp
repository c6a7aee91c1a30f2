// Opens NVIDIA's driver at run time. Requests each function in the version for which its signature
// was written, even if the driver has a newer version.
#include <cstdlib>

#include "device/cuda/device.hpp"

namespace hotslot::cuda {
namespace {

constexpr int oldest_version = 12000;

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// Returns the reason why the library is unusable, or "" if it is usable.
std::string resolve(Driver& driver) {
  const std::string& name = driver.library.name;
  const auto init = driver.library.symbol<Init>("cuInit");
  const auto get_version = driver.library.symbol<DriverGetVersion>("cuDriverGetVersion");
  const auto lookup = driver.library.symbol<GetProcAddress>("cuGetProcAddress_v2");
  if (!init || !get_version)
    return name + " opened, but is not a CUDA driver: it lacks " +
           (init ? "cuDriverGetVersion" : "cuInit");
  if (const Status got = init(0); got != status::success) {
    const char* advice = setup_advice(got);
    if (got == status::no_device)
      return "the NVIDIA driver " + name + " finds no GPU (cuInit: 100): " + advice;
    if (got == status::stub_library)
      return name + " is a stub for linking; install the NVIDIA driver";
    return "the NVIDIA driver " + name + " does not start (cuInit: " + std::to_string(got) +
           "): " + (advice ? advice : "nvidia-smi may tell more");
  }
  if (get_version(&driver.version) != status::success) return name + " does not tell its version";
  if (driver.version < oldest_version || !lookup)
    return "the NVIDIA driver supports CUDA " + version_text(driver.version) +
           ", needed is 12.0 or newer (driver 525); update the driver";
  std::string missing;
  const auto find = [&](auto& entry, int version, bool required) {
    void* found = nullptr;
    int how = 0;
    // The lookup fails if the requested version is newer than the driver. Such a function counts as
    // missing.
    if (lookup(entry.name, &found, version, lookup_legacy_stream, &how) != status::success)
      found = nullptr;
    entry.function = reinterpret_cast<decltype(entry.function)>(found);
    if (!found && required) missing += std::string(missing.empty() ? "" : ", ") + entry.name;
  };
#define HOTSLOT_REQUIRED(name, symbol, version, parameters) find(driver.call.name, version, true);
#define HOTSLOT_OPTIONAL(name, symbol, version, parameters) find(driver.call.name, version, false);
  HOTSLOT_CUDA_ENTRIES(HOTSLOT_REQUIRED, HOTSLOT_OPTIONAL)
#undef HOTSLOT_REQUIRED
#undef HOTSLOT_OPTIONAL
  return missing.empty() ? "" : name + " lacks " + missing + "; update the NVIDIA driver";
}

Driver& driver() {
  static Driver& driver =
      *new Driver;  // never destroyed: threads may still use it during the process's exit
  return driver;
}

Family::Found find() {
  Driver& found = driver();
  found.family = "cuda";
  found.submitter = "cuda_driver";
  found.context_lost =
      "this process cannot use this GPU any more; close everything and restart the process; "
      "compute-sanitizer names the kernel at fault";
  for (const KernelImage* image = ptx_images; image->format; ++image)
    found.images.push_back(*image);
  found.library = Library::open({"libcuda.so.1"}, "HOTSLOT_CUDA");
  if (!found.library)
    return {
        {},
        "no NVIDIA driver: " + found.library.reason + "; install the NVIDIA driver, 525 or newer",
        false};
  // Streams share the hardware queues that the driver opens, by default eight. Work that has to
  // wait in a queue delays later work of all streams in this queue. So the variable asks for
  // 32 queues. The driver reads this variable once, when it starts.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  const std::string reason = resolve(found);
  if (!reason.empty()) return {{}, reason, false};
  found.version_text = "CUDA " + version_text(found.version);
  return found_devices(found);
}

}  // namespace
}  // namespace hotslot::cuda

namespace hotslot {

const Family& cuda_family() {
  static const Family family{"cuda",
                             []() -> const Family::Found& {
                               static const Family::Found found = cuda::find();
                               return found;
                             },
                             [](int index) { return cuda::open_device(cuda::driver(), index); }};
  return family;
}

}  // namespace hotslot
