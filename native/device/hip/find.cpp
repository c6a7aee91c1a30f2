// Opens AMD's HIP runtime. Fills the function table of the CUDA implementation with HIP's
// functions, and adapts those that differ.
#include "device/hip/abi.hpp"

#include <fstream>
#include <iterator>

#include "device/cuda/device.hpp"

namespace hotslot::hip {
namespace {

struct Own {
#define HOTSLOT_ENTRY(name, symbol, result, parameters) result(*name) parameters = nullptr;
  HOTSLOT_HIP_OWN(HOTSLOT_ENTRY)
#undef HOTSLOT_ENTRY
} own;

// Returns a stand-in for the device's context, which HIP does not expose. It is the device's number
// plus one, so it is never null.
Context context_of(int device) { return reinterpret_cast<Context>(uintptr_t(device) + 1); }
int device_of(Context context) { return int(reinterpret_cast<uintptr_t>(context) - 1); }

// Adds the functions that differ from CUDA's to the table, in CUDA's form.
void adapt(cuda::Table& call) {
  const auto set = [](auto& entry, const char* name, auto function) {
    entry.name = name;
    entry.function = function;
  };
  set(call.get_error_name, "hipGetErrorName", [](Status status, const char** name) {
    *name = own.get_error_name(status);
    return 0;
  });
  set(call.get_error_string, "hipGetErrorString", [](Status status, const char** text) {
    *text = own.get_error_string(status);
    return 0;
  });
  set(call.device_get_attribute, "hipDeviceGetAttribute",
      [](int* value, cuda::Attribute attribute, DeviceId device) {
        switch (attribute) {
          case cuda::attribute_integrated:
            return own.device_get_attribute(value, attribute_integrated, device);
          case cuda::attribute_async_engine_count:
            return own.device_get_attribute(value, attribute_async_engine_count, device);
          case cuda::attribute_multiprocessor_count:
            return own.device_get_attribute(value, attribute_multiprocessor_count, device);
          case cuda::attribute_managed_memory:
            return own.device_get_attribute(value, attribute_managed_memory, device);
          case cuda::attribute_concurrent_managed_access:
            return own.device_get_attribute(value, attribute_concurrent_managed_access, device);
          default:
            return int(cuda::status::not_supported);
        }
      });
  set(call.primary_context_retain, "hipSetDevice", [](Context* context, DeviceId device) {
    *context = context_of(device);
    return own.set_device(device);
  });
  set(call.primary_context_get_state, "hipGetDevice", [](DeviceId, unsigned* flags, int* active) {
    *flags = 0;
    *active = 1;
    return 0;
  });
  set(call.primary_context_set_flags, "hipSetDevice", [](DeviceId, unsigned) { return 0; });
  set(call.context_set_current, "hipSetDevice",
      [](Context context) { return own.set_device(device_of(context)); });
  set(call.context_get_current, "hipGetDevice", [](Context* context) {
    int device = 0;
    const Status got = own.get_device(&device);
    *context = got == 0 ? context_of(device) : nullptr;
    return got;
  });
  set(call.context_enable_peer_access, "hipDeviceEnablePeerAccess",
      [](Context peer, unsigned flags) { return own.enable_peer_access(device_of(peer), flags); });
  set(call.memcpy_async, "hipMemcpyAsync",
      [](DevicePtr to, DevicePtr from, size_t bytes, StreamHandle stream) {
        return own.memcpy_async(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from),
                                bytes, memcpy_default, stream);
      });
  set(call.memcpy_peer_async, "hipMemcpyPeerAsync",
      [](DevicePtr to, Context there, DevicePtr from, Context here, size_t bytes,
         StreamHandle stream) {
        return own.memcpy_peer_async(reinterpret_cast<void*>(to), device_of(there),
                                     reinterpret_cast<const void*>(from), device_of(here), bytes,
                                     stream);
      });
  set(call.graph_exec_update, "hipGraphExecUpdate",
      [](GraphExecHandle exec, GraphHandle graph, cuda::ExecUpdateResult* result) {
        return own.graph_exec_update(exec, graph, &result->error_node, &result->result);
      });
}

// Returns the reason why the library is unusable, or "" if it is usable.
std::string resolve(cuda::Driver& driver) {
  const Library& library = driver.library;
  std::string missing;
  const auto miss = [&](const char* name) {
    missing += std::string(missing.empty() ? "" : ", ") + name;
  };
#define HOTSLOT_ENTRY(entry, symbol_name, result, parameters)    \
  own.entry = library.symbol<decltype(own.entry)>(#symbol_name); \
  if (!own.entry) miss(#symbol_name);
  HOTSLOT_HIP_OWN(HOTSLOT_ENTRY)
#undef HOTSLOT_ENTRY
  if (!own.init) return library.name + " opened, but is not a HIP runtime: hipInit is missing";
  const auto find = [&](auto& entry, const char* name, bool required) {
    entry.name = name;
    entry.function = library.symbol<decltype(entry.function)>(name);
    if (!entry.function && required) miss(name);
  };
#define HOTSLOT_REQUIRED(entry, name) find(driver.call.entry, #name, true);
#define HOTSLOT_OPTIONAL(entry, name) find(driver.call.entry, #name, false);
  HOTSLOT_HIP_SAME(HOTSLOT_REQUIRED, HOTSLOT_OPTIONAL)
#undef HOTSLOT_REQUIRED
#undef HOTSLOT_OPTIONAL
  if (!missing.empty())
    return library.name + " lacks " + missing + "; update ROCm, to 5.2 or newer";
  adapt(driver.call);
  if (const Status got = own.init(0); got != 0) {
    if (got == cuda::status::invalid_device || got == cuda::status::no_device)
      return "the HIP runtime " + library.name +
             " finds no GPU: rocminfo lists what there is; /dev/kfd has to be open to this user "
             "(the group render), a "
             "container needs --device=/dev/kfd --device=/dev/dri, and HIP_VISIBLE_DEVICES or "
             "ROCR_VISIBLE_DEVICES may "
             "hide it";
    return "the HIP runtime " + library.name + " does not start (hipInit: " + std::to_string(got) +
           "); rocminfo may tell more";
  }
  if (own.driver_get_version(&driver.version) != 0)
    return library.name + " does not tell its version";
  return "";
}

cuda::Driver& driver() {
  static cuda::Driver& driver = *new cuda::Driver;  // never destroyed: threads may still use it
                                                    // during the process's exit
  return driver;
}

// Returns code objects, one for each GPU architecture. A device's driver accepts only the one for
// its architecture. HOTSLOT_HIP_KERNELS=path adds one that was built elsewhere.
std::vector<KernelImage> images() {
  std::vector<KernelImage> all;
  if (const char* path = std::getenv("HOTSLOT_HIP_KERNELS"); path && *path) {
    std::ifstream file(path, std::ios::binary);
    static const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    if (!bytes.empty()) all.push_back({"hsaco", "", "", bytes.data(), bytes.size()});
  }
  for (const KernelImage* image = hsaco_images; image->format; ++image) all.push_back(*image);
  return all;
}

Family::Found find() {
  cuda::Driver& found = driver();
  found.family = "rocm";
  found.submitter = "hip_runtime";
  found.context_lost =
      "this process cannot use this GPU any more; close everything and restart the process; "
      "AMD_LOG_LEVEL=3 shows the kernel at fault";
  // Before ROCm 7.2.1, querying an event can fail while another thread captures, in every capture
  // mode.
  found.polls_in_capture = false;
  found.ends_broken_captures = false;
  found.images = images();
  found.library =
      Library::open({"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"}, "HOTSLOT_HIP");
  if (!found.library)
    return {{}, "no HIP runtime: " + found.library.reason + "; install ROCm", false};
  const std::string reason = resolve(found);
  if (!reason.empty()) return {{}, reason, false};
  found.version_text = "HIP " + std::to_string(found.version / 10'000'000) + "." +
                       std::to_string(found.version / 100'000 % 100);
  return cuda::found_devices(found);
}

}  // namespace
}  // namespace hotslot::hip

namespace hotslot {

const Family& hip_family() {
  static const Family family{"rocm",
                             []() -> const Family::Found& {
                               static const Family::Found found = hip::find();
                               return found;
                             },
                             [](int index) { return cuda::open_device(hip::driver(), index); }};
  return family;
}

}  // namespace hotslot
