// Kernels that a program brought: their declarations, and the module that a device loaded from
// their image. Enqueued work keeps its module alive. The device also keeps it alive until no thread
// has the device open.
#pragma once
#include <deque>
#include <string>
#include <vector>

#include "device/core/device.hpp"

namespace hotslot {

struct DeclaredKernel {
  std::string name;
  std::string types;  // one letter of element_types for each tensor
  int wholes = 0, reals = 0;
  uint16_t block_makes = 0;  // see Kernel
};

// An image in a format that the family's driver accepts. For CPU devices, `bytes` is the path of a
// shared library.
struct ModuleImage {
  std::string name;  // the image's name in errors
  std::string bytes;
};

// A request to load the first image that the driver accepts. If `images` is empty, the device
// compiles the source.
struct ModuleRequest {
  std::string name;  // the program's name for its kernels
  std::vector<DeclaredKernel> kernels;
  std::vector<ModuleImage> images;
  // A .gk source and the headers that it may include, gk.hpp first. They are for families whose
  // driver has a compiler.
  std::string file, source;
  struct Header {
    std::string name, text;
  };
  std::vector<Header> headers;
};

class KernelModule : public Object {
 public:
  KernelModule(Device& device, const ModuleRequest& request);
  Device& device;
  const std::string name;
  // Returns the kernel with this index, or null if `i` is out of range.
  const Kernel* kernel(size_t i) const { return i < kernels.size() ? &kernels[i] : nullptr; }

 protected:
  std::deque<Kernel> kernels;

 private:
  std::deque<std::string> names_;
};

// Throws the error for a kernel whose parameters in `image` differ from its declaration. `takes`
// describes the parameters in the image.
[[noreturn]] void refuse_declaration(const ModuleRequest& request, const DeclaredKernel& kernel,
                                     const std::string& image, const std::string& takes);
// Returns a text such as '2 tensors, 1 whole number and 1 real'.
std::string parameters_text(size_t tensors, size_t wholes, size_t reals);

// Returns the error for a source that does not compile. `text` contains the compiler's messages.
inline Error not_compiled(const std::string& text) { return {"ERR_HOTSLOT_COMPILE", text}; }

}  // namespace hotslot
