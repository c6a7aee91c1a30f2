// Kernels that a program brought.
#include "device/core/kernel_module.hpp"

namespace hotslot {
namespace {

// Sets no Reach, because only the author of such a kernel knows how much of its tensors it touches.
const char* need_unknown(const KernelArgs&, Reach*) { return nullptr; }

std::string counted(size_t n, const char* what) {
  return sentence(n, " ", what, n == 1 ? "" : "s");
}

}  // namespace

std::string parameters_text(size_t tensors, size_t wholes, size_t reals) {
  return counted(tensors, "tensor") + ", " + counted(wholes, "whole number") + " and " +
         counted(reals, "real");
}

void refuse_declaration(const ModuleRequest& request, const DeclaredKernel& kernel,
                        const std::string& image, const std::string& takes) {
  throw argument("kernels '", request.name, "': '", kernel.name, "' is declared with ",
                 parameters_text(kernel.types.size(), size_t(kernel.wholes), size_t(kernel.reals)),
                 "; in ", image, " it takes ", takes);
}

KernelModule::KernelModule(Device& device, const ModuleRequest& request)
    : Object(Kind::kernels, device.family), device(device), name(request.name) {
  for (auto& declared : request.kernels) {
    names_.push_back(declared.name);
    Kernel kernel{names_.back().c_str(), int(declared.types.size()),
                  declared.wholes,       declared.reals,
                  need_unknown,          nullptr};
    for (size_t i = 0; i < declared.types.size(); ++i) {
      kernel.types[i] = declared.types[i];
      for (auto& type : element_types)
        if (type.letter == declared.types[i]) kernel.widths[i] = type.bytes;
    }
    kernel.block_makes = declared.block_makes;
    kernel.module = this;
    kernel.index = uint16_t(kernels.size());
    kernels.push_back(kernel);
  }
}

Ref<KernelModule> Device::load_kernels(const ModuleRequest& request) {
  if (!request.images.empty()) return do_load_kernels(request);
  ModuleRequest compiled = request;
  compiled.images = {{request.file, do_compile(request)}};
  return do_load_kernels(compiled);
}

std::string Device::do_compile(const ModuleRequest& request) {
  throw unavailable("kernels '", request.name, "': the driver of ", family,
                    " devices has no compiler");
}

}  // namespace hotslot
