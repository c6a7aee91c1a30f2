// Kernels that a program brings to CUDA's and ROCm's devices. Also the vendors' run-time compilers
// NVRTC and hiprtc.
#pragma once
#include "device/core/kernel_module.hpp"
#include "device/cuda/device.hpp"

namespace hotslot::cuda {

// Loaded kernels of a program. The destructor unloads them after the device is idle, because
// enqueued work may still run.
class CudaKernels final : public KernelModule {
 public:
  CudaKernels(CudaDevice& device, const ModuleRequest& request);
  ~CudaKernels() override;
  Function function(const Kernel& kernel) const { return functions_[kernel.index]; }

 private:
  CudaDevice& device_;
  Module module_ = nullptr;
  std::vector<Function> functions_;
  Retired::Reservation place_;
};

// A vendor's library that compiles at run time: its names and the names of its functions. Both
// libraries have NVRTC's interface.
struct RuntimeCompiler {
  const char* name;
  std::vector<const char*> libraries;
  const char* variable;  // the environment variable that names another library
  const char* prefix;    // the prefix of its functions' names
  const char* code;      // the library's word for an image: 'PTX', 'Code'
  const char* missing;   // advice if the library is missing
};
extern const RuntimeCompiler nvrtc, hiprtc;

// Compiles the source and returns an image for a device. `capability` is the device's compute
// capability, times ten. hiprtc ignores it and compiles for the thread's current device.
//
// Throws UNAVAILABLE if the library is missing. Throws COMPILE with the compiler's log if the
// source has errors.
std::string compile(const RuntimeCompiler& compiler, const ModuleRequest& request, int capability);

// Throws if a PTX text lacks a kernel or the kernel's parameters differ from the declaration.
// Pointers and whole numbers have 8 bytes, and reals after them have 4 bytes. Images of other
// formats are checked by the driver only.
void check_ptx(const ModuleRequest& request, const ModuleImage& image);

}  // namespace hotslot::cuda
