// CUDA's and ROCm's devices, and the kernels and libraries loaded on them.
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "device/cuda/blas.hpp"
#include "device/cuda/device.hpp"
#include "device/cuda/kernels.hpp"

namespace hotslot::cuda {

// ---- the device ---------------------------------------------------------------------------------

CudaDevice::CudaDevice(Driver& driver, int index)
    : GpuDevice(driver.family, index, driver.retired),
      driver(driver),
      staging_(
          driver.retired, [this](size_t room) { return allocate_staging(room); },
          [this](uint8_t* at) {
            give_back(this->driver.call.mem_free_host, static_cast<void*>(at));
          }) {
  driver.check(driver.call.device_get, &id, index);
  // Makes threads that wait in the driver sleep instead of spin. If the context is already active,
  // leaves this setting unchanged. Another library uses the context in this case, and has chosen
  // how threads wait.
  unsigned flags = 0;
  int active = 0;
  if (driver.call.primary_context_get_state(id, &flags, &active) == status::success && !active)
    driver.call.primary_context_set_flags(id, sched_blocking_sync);
  // The context is never released. The last release would reset the context, which other libraries
  // share.
  driver.check(driver.call.primary_context_retain, &context, id);
  int processors = 1;
  if (driver.call.device_get_attribute(&processors, attribute_multiprocessor_count, id) ==
          status::success &&
      processors > 0)
    max_blocks_ = unsigned(processors) * 8;
  const auto attribute = [&](Attribute which) {
    int value = 0;
    return driver.call.device_get_attribute(&value, which, id) == status::success ? value : 0;
  };
  capability_ = 10 * attribute(attribute_cc_major) + attribute(attribute_cc_minor);
  // Under WSL, Windows has a watchdog although the attribute may be 0.
  watchdog_ = attribute(attribute_kernel_exec_timeout) != 0 || access("/dev/dxg", F_OK) == 0;
  description_ = describe(driver, id);
  no_managed_ = why_not_managed();
  own_ = create_stream(0);
}

DeviceTraits CudaDevice::traits() {
  DeviceTraits traits;
  traits.description = description_;
  traits.submitter = driver.submitter;
  traits.graph_events = bool(driver.call.event_record_with_flags);
  traits.no_managed = no_managed_;
  traits.watchdog = watchdog_;
  std::lock_guard guard(load_lock_);
  traits.products = products;
  traits.matrix_products = products_ + (traits.products == Products::tf32 ? ", TF32" : "");
  return traits;
}

MemoryInfo CudaDevice::memory_info() {
  driver.tidy();
  const Enter enter(driver, context);
  const RelaxedCaptureMode relaxed(driver);
  size_t free = 0, total = 0;
  driver.check(driver.call.mem_get_info, &free, &total);
  // Cached memory and memory that waits to be freed count as free.
  return {total, std::min<uint64_t>(total, free + blocks_.counts().bytes + waiting_bytes_.load())};
}

// ---- what is loaded -----------------------------------------------------------------------------

// Loads the first image that the driver accepts, and all functions in it. The caller holds
// load_lock_.
void CudaDevice::load() {
  if (loaded_) return;
  loaded_ = true;
  const Enter enter(driver, context);
  const RelaxedCaptureMode relaxed(driver);
  Module module = nullptr;
  for (auto& image : driver.images) {
    const Status got = driver.call.module_load_data(&module, image.data);
    if (got == status::success) break;
    module = nullptr;
    try {
      driver.refuse(driver.call.module_load_data.name, got);
    } catch (const Error& error) {
      not_loaded_ = error.what() + std::string("; ") + error.advice;
    }
  }
  if (!module) {
    if (not_loaded_.empty())
      not_loaded_ = std::string("this build carries no kernels for ") + driver.family +
                    "; build them where the compiler is: npm run build:kernels";
    return;
  }
  not_loaded_.clear();
  for (auto& kernel : all_kernels()) {
    Function function = nullptr;
    if (driver.call.module_get_function(&function, module, kernel.name) != status::success)
      continue;
    // Loads the function now. Otherwise the driver would load it at its first launch, which may be
    // inside a capture.
    if (driver.call.func_load) driver.call.func_load(function);
    functions_[kernel.name] = function;
  }
}

Function CudaDevice::function(const Kernel& kernel) {
  if (kernel.module) return static_cast<const CudaKernels*>(kernel.module)->function(kernel);
  std::lock_guard guard(load_lock_);
  load();
  if (!not_loaded_.empty())
    throw unavailable(family, ": kernel '", kernel.name, "' cannot run: ", not_loaded_);
  const auto found = functions_.find(kernel.name);
  if (found == functions_.end())
    throw unavailable(family, ": the loaded kernels have no '", kernel.name, "'");
  return found->second;
}

Blas* CudaDevice::blas() {
  std::lock_guard guard(load_lock_);
  if (!blas_tried_) {
    blas_tried_ = true;
    std::string why;
    blas_ = Blas::open(*this, why);
    products_ =
        blas_ ? blas_->provider() : "Hotslot's own kernel" + (why.empty() ? "" : " (" + why + ")");
  }
  return blas_.get();
}

std::string CudaDevice::why_not_tf32() {
  if (std::strcmp(family, "cuda") != 0) return GpuDevice::why_not_tf32();
  constexpr int least = 80;
  if (capability_ < least)
    return "its compute capability is " + std::to_string(capability_ / 10) + "." +
           std::to_string(capability_ % 10) + ", and TF32 needs 8.0 or newer";
  if (Blas* const blas = this->blas()) return blas->why_not_tf32();
  std::lock_guard guard(load_lock_);
  return "only cuBLAS has TF32 products, and its products run on " + products_;
}

void CudaDevice::launch_on_own(Launch&& launch, Products as) {
  std::lock_guard guard(own_lock_);
  own_->products = as;
  own_->launch(std::move(launch));
}

void CudaDevice::prepare() {
  blas();
  {
    std::lock_guard guard(load_lock_);
    load();
  }
  std::call_once(filled_, [this] { fill_once(); });
  std::lock_guard guard(own_lock_);
  if (driver.call.graph_upload && !uploads_) uploads_ = create_stream(0);
}

// Fills and copies some memory once. Drivers run these operations with kernels of their own, and
// may load a kernel at its first use. After this function, no capture is the first to need such a
// kernel.
void CudaDevice::fill_once() {
  try {
    const Ref<Memory> memory = scratch(64);
    const auto* const at = static_cast<CudaMemory*>(memory.get());
    const Enter enter(driver, context);
    const RelaxedCaptureMode relaxed(driver);
    std::lock_guard guard(own_lock_);
    const StreamHandle own = static_cast<CudaStream&>(*own_).handle();
    driver.check(driver.call.memset_d8_async, at->on_device, static_cast<unsigned char>(0),
                 size_t(64), own);
    driver.check(driver.call.memset_d16_async, at->on_device, static_cast<unsigned short>(0),
                 size_t(32), own);
    driver.check(driver.call.memset_d32_async, at->on_device, 0u, size_t(16), own);
    driver.check(driver.call.memcpy_dtod_async, at->on_device, at->on_device + 32, size_t(32), own);
    driver.check(driver.call.stream_synchronize, own);
  } catch (const Error&) {
    // The error is dropped. The first call that needs these operations will throw it.
  }
}

// ---- the family ---------------------------------------------------------------------------------

std::string describe(const Driver& driver, DeviceId id) {
  char name[256] = "";
  driver.call.device_get_name(name, sizeof name - 1, id);
  return std::string(name) + ", " + driver.version_text;
}

Family::Found found_devices(Driver& driver) {
  Family::Found found;
  int count = 0;
  const Status got = driver.call.device_get_count(&count);
  if (got != status::success || count == 0) {
    found.reason = driver.library.name + " opened, but it reports no device" +
                   (got == status::success ? "" : " (status " + std::to_string(got) + ")");
    return found;
  }
  for (int i = 0; i < count; ++i) {
    DeviceId id = 0;
    if (const Status refused = driver.call.device_get(&id, i); refused != status::success) {
      found.reason = driver.library.name + " opened, but does not give its device " +
                     std::to_string(i) + " (status " + std::to_string(refused) + ")";
      break;
    }
    found.devices.push_back(describe(driver, id));
    found.software |= found.devices.back().rfind("Hotslot software driver", 0) == 0;
  }
  return found;
}

Ref<Device> open_device(Driver& driver, int index) {
  auto device = std::make_shared<CudaDevice>(driver, index);
  std::lock_guard guard(driver.lock);
  driver.devices.push_back(device);
  return device;
}

}  // namespace hotslot::cuda
