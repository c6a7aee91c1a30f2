// Loads kernels that a program brings to the CPU device. They are in a shared library, which
// kernels/library.h describes.
#include <dlfcn.h>

#include <cstring>

#include "device/core/kernel_module.hpp"
#include "device/host/device.hpp"

namespace hotslot::host {
namespace {

constexpr const char* list_symbol = "hotslot_kernels_1";

// Returns whether a declared element type is stored as the library's type `given`. A bool counts as
// uint8 and a float16 or bfloat16 as uint16, because the library need not know those types.
bool same_element(char declared, char given) {
  const auto stored = [](char letter) {
    return letter == '?' ? 'B' : letter == 'e' || letter == 'E' ? 'H' : letter;
  };
  return stored(declared) == given;
}

std::string names_in(const hotslot_kernel* list) {
  std::string names;
  for (; list->name; ++list) names += std::string(names.empty() ? "" : ", ") + list->name;
  return names.empty() ? "none" : names;
}

std::string tensors_text(const char* letters) {
  std::string text;
  for (; *letters; ++letters)
    for (auto& type : element_types)
      if (type.letter == *letters) text += std::string(text.empty() ? "" : ", ") + type.name;
  return text;
}

class HostKernels final : public KernelModule {
 public:
  HostKernels(Device& device, const ModuleRequest& request) : KernelModule(device, request) {
    std::string reason;
    for (auto& image : request.images) {
      // The library stays loaded until the process ends. A failed kernel returns a pointer to a
      // text in the library's memory, and the stream keeps this pointer as its error.
      if (void* library = dlopen(image.bytes.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)) {
        dlclose(library);
        resolve(library, request, image);
        return;
      }
      const char* why = dlerror();
      reason += (reason.empty() ? "" : "; ") + std::string(why ? why : "it cannot be opened");
    }
    throw unavailable("kernels '", request.name, "' do not load on ", family, ":", device.index,
                      ": ", reason,
                      "; for this device they are a shared library for this machine, which npx "
                      "hotslot kernels makes");
  }

 private:
  void resolve(void* library, const ModuleRequest& request, const ModuleImage& image) {
    const auto* const list = static_cast<const hotslot_kernel*>(dlsym(library, list_symbol));
    if (!list)
      throw unavailable("kernels '", request.name, "': ", image.name, " exports no ", list_symbol,
                        ": native/kernels/library.h of this package describes such a library");
    for (size_t i = 0; i < request.kernels.size(); ++i)
      take(request, request.kernels[i], image, list, kernels[i]);
  }
  static void take(const ModuleRequest& request, const DeclaredKernel& declared,
                   const ModuleImage& image, const hotslot_kernel* list, Kernel& kernel) {
    const hotslot_kernel* found = list;
    while (found->name && declared.name != found->name) ++found;
    if (!found->name)
      throw argument("kernels '", request.name, "': ", image.name, " has no kernel '",
                     declared.name, "'; there is: ", names_in(list));
    const size_t tensors = std::strlen(found->tensors);
    bool same = tensors == declared.types.size();
    for (size_t i = 0; same && i < tensors; ++i)
      same = same_element(declared.types[i], found->tensors[i]);
    if (!same || declared.wholes != found->wholes || declared.reals != found->reals)
      refuse_declaration(request, declared, image.name,
                         parameters_text(tensors, size_t(found->wholes), size_t(found->reals)) +
                             (tensors ? ": " + tensors_text(found->tensors) : ""));
    kernel.run = found->run;
  }
};

}  // namespace

Ref<KernelModule> load_kernels(Device& device, const ModuleRequest& request) {
  return std::make_shared<HostKernels>(device, request);
}

}  // namespace hotslot::host
