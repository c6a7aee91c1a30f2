// Kernels that a program brought along: their declarations, and the module that a device loaded
// from their image. Enqueued work holds the module it launches from. The open device holds it until
// no thread has the device open.
#pragma once
#include <deque>
#include <string>
#include <vector>

#include "device/core/device.hpp"

namespace hotslot {

struct DeclaredKernel {
  std::string name;
  std::string types;  // a letter per tensor, as element_types has them
  int wholes = 0, reals = 0;
  uint16_t block_makes = 0;  // see Kernel
};

// An image in a format that the family's driver accepts. For host devices `bytes` is the path of a
// shared library.
struct ModuleImage {
  std::string name;  // its name in errors
  std::string bytes;
};

// A request to load the first image that the driver accepts, or the source if `images` is empty.
struct ModuleRequest {
  std::string name;  // the program's name for its kernels
  std::vector<DeclaredKernel> kernels;
  std::vector<ModuleImage> images;
  // A .gk source and the headers it may include, gk.hpp first, for families whose driver has a
  // compiler.
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
  // Returns null if `i` is out of range.
  const Kernel* kernel(size_t i) const { return i < kernels.size() ? &kernels[i] : nullptr; }

 protected:
  std::deque<Kernel> kernels;

 private:
  std::deque<std::string> names_;
};

// Throws because the kernel of an image does not take the declared arguments. `takes` describes
// those it takes.
[[noreturn]] void refuse_declaration(const ModuleRequest& request, const DeclaredKernel& kernel,
                                     const std::string& image, const std::string& takes);
// Returns a text such as '2 tensors, 1 whole number and 1 real'.
std::string parameters_text(size_t tensors, size_t wholes, size_t reals);

// The error for a source that does not compile, with the compiler's messages.
inline Error not_compiled(const std::string& text) { return {"ERR_HOTSLOT_COMPILE", text}; }

}  // namespace hotslot
