// Turns the driver's errors into errors with text and advice.
#include "device/cuda/driver.hpp"

#include <cstring>

#include "device/cuda/device.hpp"

namespace hotslot::cuda {
namespace {

struct Known {
  Status status;
  const char* name;
};
// Names that are the same on both families. Other statuses have the name that the driver returns.
constexpr Known known[] = {{1, "INVALID_VALUE"},
                           {2, "OUT_OF_MEMORY"},
                           {3, "NOT_INITIALIZED"},
                           {4, "DEINITIALIZED"},
                           {100, "NO_DEVICE"},
                           {101, "INVALID_DEVICE"},
                           {200, "INVALID_IMAGE"},
                           {201, "INVALID_CONTEXT"},
                           {209, "NO_BINARY_FOR_GPU"},
                           {222, "UNSUPPORTED_PTX_VERSION"},
                           {400, "INVALID_HANDLE"},
                           {500, "NOT_FOUND"},
                           {600, "NOT_READY"},
                           {700, "ILLEGAL_ADDRESS"},
                           {702, "LAUNCH_TIMEOUT"},
                           {712, "HOST_MEMORY_ALREADY_REGISTERED"},
                           {713, "HOST_MEMORY_NOT_REGISTERED"},
                           {719, "LAUNCH_FAILED"},
                           {800, "NOT_PERMITTED"},
                           {801, "NOT_SUPPORTED"},
                           {900, "STREAM_CAPTURE_UNSUPPORTED"},
                           {901, "STREAM_CAPTURE_INVALIDATED"},
                           {902, "STREAM_CAPTURE_MERGE"},
                           {903, "STREAM_CAPTURE_UNMATCHED"},
                           {904, "STREAM_CAPTURE_UNJOINED"},
                           {905, "STREAM_CAPTURE_ISOLATION"},
                           {906, "STREAM_CAPTURE_IMPLICIT"},
                           {907, "CAPTURED_EVENT"},
                           {908, "STREAM_CAPTURE_WRONG_THREAD"},
                           {910, "GRAPH_EXEC_UPDATE_FAILURE"},
                           {999, "UNKNOWN"}};

const char* advice_for(const Driver& driver, Status status) {
  if (loses_context(status)) return driver.context_lost;
  if (std::strcmp(driver.family, "cuda") == 0)
    if (const char* known = setup_advice(status)) return known;
  switch (status) {
    case status::out_of_memory:
      return "free what is not needed, or use smaller tensors and fewer slots";
    case status::unsupported_ptx_version:
      return "install a newer driver";
    case status::no_binary_for_gpu:
      return "build the kernels for this GPU where its compiler is: npm run build:kernels";
    case status::already_registered:
      return "register a range once, and close that registration before the next";
    case status::deinitialized:
      return "the process is ending: close devices before it does";
    default:
      return "look up the status in the driver's documentation; if Hotslot asked for something "
             "impossible, report it";
  }
}

}  // namespace

// Returns advice for a machine that is not set up. Sources: NVIDIA's documentation and users'
// reports.
const char* setup_advice(Status status) {
  switch (status) {
    case 46:
      return "the GPU is in exclusive mode and another process has it: end that one, or nvidia-smi "
             "-c 0";
    case 100:
      return "nvidia-smi lists what there is; CUDA_VISIBLE_DEVICES may hide it, and a container "
             "needs --gpus";
    case 101:
      return "CUDA_VISIBLE_DEVICES names a GPU that is not there";
    case 221:
      return "libnvidia-ptxjitcompiler.so.1 is missing: install the whole driver; in a container "
             "NVIDIA_DRIVER_CAPABILITIES has to hold compute";
    case 223:
      return "unset CUDA_DISABLE_PTX_JIT: Hotslot's kernels are PTX";
    case 802:
      return "GPUs with NVSwitch need the fabric manager of the driver's version: systemctl "
             "start "
             "nvidia-fabricmanager";
    case 803:
      return "libcuda.so and the kernel's driver are of two versions: restart after an update; in "
             "a container take "
             "/usr/local/cuda/compat off LD_LIBRARY_PATH";
    case 804:
      return "this libcuda.so is the forward-compatible one, for data-centre GPUs alone: take "
             "/usr/local/cuda/compat off LD_LIBRARY_PATH";
    case 999:
      return "/dev/nvidia-uvm may be missing (nvidia-modprobe -u -c 0), or the GPU has failed: "
             "dmesg names an Xid then";
    default:
      return nullptr;
  }
}

void Driver::refuse(const char* call_name, Status status, const std::string& detail) const {
  const char* name = nullptr;
  for (auto& each : known)
    if (each.status == status) name = each.name;
  if (!name) {
    constexpr char prefix[] = "CUDA_ERROR_";
    if (call.get_error_name(status, &name) != status::success || !name) name = "UNKNOWN";
    if (std::strncmp(name, prefix, sizeof prefix - 1) == 0) name += sizeof prefix - 1;
  }
  const char* text = nullptr;
  if (call.get_error_string(status, &text) != status::success || !text) text = "no description";
  throw Error(family, call_name, status, name,
              sentence(family, ": ", call_name, " failed with ", name, " (", status,
                       "): ", detail.empty() ? text : detail),
              advice_for(*this, status));
}

bool Driver::has_closed_streams() {
  std::lock_guard guard(lock);
  for (auto& device : devices) {
    std::lock_guard streams(device->streams_lock_);
    for (auto& each : device->streams_)
      if (each.membership.expired()) return true;
  }
  return false;
}

}  // namespace hotslot::cuda
