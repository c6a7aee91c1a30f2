// Kernels that a program brings to CUDA's and ROCm's devices, and the vendors' compilers at run
// time, NVRTC and hiprtc.
#pragma once
#include "device/core/kernel_module.hpp"
#include "device/cuda/device.hpp"

namespace hotslot::cuda {

// Unloaded once the device is idle, because enqueued work may still run.
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

// The names of a library that compiles at run time, and of its functions. Both have NVRTC's
// interface.
struct RuntimeCompiler {
  const char* name;
  std::vector<const char*> libraries;
  const char* variable;  // of the environment: another library
  const char* prefix;    // of its functions
  const char* code;      // its name for an image: 'PTX', 'Code'
  const char* missing;   // advice if the library is missing
};
extern const RuntimeCompiler nvrtc, hiprtc;

// Returns the source as an image for a device of this compute capability (0: for the thread's
// current device). Throws UNAVAILABLE if the library is missing, and COMPILE with its log if it
// reports errors.
std::string compile(const RuntimeCompiler& compiler, const ModuleRequest& request, int capability);

// Throws if a PTX text lacks a kernel as declared: pointers and whole numbers of 8 bytes, then
// reals of 4. The driver checks other images.
void check_ptx(const ModuleRequest& request, const ModuleImage& image);

}  // namespace hotslot::cuda
