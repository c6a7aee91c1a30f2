// Kernels that a program brings to CUDA's and ROCm's devices.
#include "device/cuda/kernels.hpp"

#include <cctype>
#include <cstring>

namespace hotslot::cuda {
namespace {

// Returns the size of each parameter of a kernel in a PTX text, in bytes. The size is 0 for a
// parameter of a type that kernels do not use. Returns nullopt if the text lacks the kernel.
std::optional<std::vector<int>> entry_parameters(const std::string& text, const std::string& name) {
  const std::string wanted = ".entry " + name;
  for (size_t at = 0; (at = text.find(wanted, at)) != std::string::npos;) {
    at += wanted.size();
    while (at < text.size() && std::isspace(static_cast<unsigned char>(text[at]))) ++at;
    if (at >= text.size() || (text[at] != '(' && text[at] != '{')) continue;  // the name continues
    std::vector<int> bytes;
    const std::string list = text[at] == '(' ? text.substr(at, text.find(')', at) - at) : "";
    for (size_t param = 0; (param = list.find(".param", param)) != std::string::npos;) {
      param += std::strlen(".param");
      const std::string one = list.substr(param, list.find(',', param) - param);
      const auto has = [&](const char* type) { return one.find(type) != std::string::npos; };
      bytes.push_back(has("[")                                    ? 0
                      : has(".u64") || has(".s64") || has(".b64") ? 8
                      : has(".f32") || has(".b32")                ? 4
                                                                  : 0);
    }
    return bytes;
  }
  return std::nullopt;
}

}  // namespace

void check_ptx(const ModuleRequest& request, const ModuleImage& image) {
  if (image.bytes.find(".version") == std::string::npos ||
      image.bytes.find('\0') < image.bytes.size())
    return;
  for (auto& declared : request.kernels) {
    const auto bytes = entry_parameters(image.bytes, declared.name);
    if (!bytes)
      throw argument("kernels '", request.name, "': ", image.name, " has no kernel '",
                     declared.name, "'");
    const size_t words = declared.types.size() + size_t(declared.wholes);
    std::vector<int> wanted(words, 8);
    wanted.insert(wanted.end(), size_t(declared.reals), 4);
    if (*bytes == wanted) continue;
    size_t eights = 0, fours = 0;
    for (const int each : *bytes) eights += each == 8, fours += each == 4;
    refuse_declaration(
        request, declared, image.name,
        eights + fours < bytes->size()
            ? std::string("parameters that are no tensors, whole numbers of 8 bytes and floats")
            : sentence(eights, " tensors and whole numbers, and ", fours, " reals"));
  }
}

CudaKernels::CudaKernels(CudaDevice& device, const ModuleRequest& request)
    : KernelModule(device, request), device_(device) {
  const auto& call = device.driver.call;
  const Enter enter(device.driver, device.context);
  const RelaxedCaptureMode relaxed(device.driver);
  std::string reason;
  for (auto& image : request.images) {
    check_ptx(request, image);
    // The driver reads a text up to a zero byte, which c_str() appends.
    const Status got = call.module_load_data(&module_, image.bytes.c_str());
    if (got == status::success) break;
    module_ = nullptr;
    try {
      device.driver.refuse(call.module_load_data.name, got);
    } catch (const Error& error) {
      if (loses_context(got)) throw;
      reason += (reason.empty() ? "" : "; ") + image.name + ": " + error.what();
    }
  }
  if (!module_)
    throw unavailable("kernels '", request.name, "' do not load on ", family, ":", device.index,
                      ": ", reason, "; ",
                      std::strcmp(family, "cuda") == 0
                          ? "images for it are PTX that this driver knows, or a cubin for this GPU"
                          : "images for it are code objects for this GPU");
  try {
    for (auto& declared : request.kernels) {
      Function function = nullptr;
      if (const Status got = call.module_get_function(&function, module_, declared.name.c_str());
          got != status::success) {
        if (got != status::not_found) device.driver.refuse(call.module_get_function.name, got);
        throw argument("kernels '", request.name, "': the image has no kernel '", declared.name,
                       "'");
      }
      // Loads the function now. Otherwise the driver would load it at its first launch, which may
      // be inside a capture.
      if (call.func_load) call.func_load(function);
      functions_.push_back(function);
    }
  } catch (...) {
    if (call.module_unload) device.give_back(call.module_unload, module_);
    throw;
  }
}

CudaKernels::~CudaKernels() {
  if (!device_.driver.call.module_unload) return;
  Retired& retired = device_.driver.retired;
  retired.add(std::move(place_),
              [&retired, &device = device_, module = module_](Retired::Reservation next) {
                retired.when_idle(std::move(next), 0, [&device, module] {
                  device.give_back(device.driver.call.module_unload, module);
                });
              });
}

Ref<KernelModule> CudaDevice::do_load_kernels(const ModuleRequest& request) {
  return std::make_shared<CudaKernels>(*this, request);
}

std::string CudaDevice::do_compile(const ModuleRequest& request) {
  const Enter enter(driver, context);
  return compile(std::strcmp(family, "cuda") == 0 ? nvrtc : hiprtc, request, capability_);
}

}  // namespace hotslot::cuda
