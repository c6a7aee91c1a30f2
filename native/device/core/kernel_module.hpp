// Kernels that a program brought along: how it declared them, and what a device made of their
// image. Work that was enqueued holds the module it launches from; the open device holds it until
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

// In a format that the family's driver takes; for host devices the path of a shared library instead
// of its bytes.
struct ModuleImage {
  std::string name;  // what it is called in errors
  std::string bytes;
};

// What is to be loaded: the first image that the driver takes, or where there is none, the source.
struct ModuleRequest {
  std::string name;  // what the program calls its kernels
  std::vector<DeclaredKernel> kernels;
  std::vector<ModuleImage> images;
  // A .gk source, and what it may include, gk.hpp first: for families whose driver comes with a
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
  // Null where there is no such one.
  const Kernel* kernel(size_t i) const { return i < kernels.size() ? &kernels[i] : nullptr; }

 protected:
  std::deque<Kernel> kernels;

 private:
  std::deque<std::string> names_;
};

// Where an image's kernel does not take what was declared: `takes` is what it takes, in words.
[[noreturn]] void refuse_declaration(const ModuleRequest& request, const DeclaredKernel& kernel,
                                     const std::string& image, const std::string& takes);
// '2 tensors, 1 whole number and 1 real'.
std::string parameters_text(size_t tensors, size_t wholes, size_t reals);

// What kept a source from being compiled, with the compiler's words.
inline Error not_compiled(const std::string& text) { return {"ERR_HOTSLOT_COMPILE", text}; }

}  // namespace hotslot
