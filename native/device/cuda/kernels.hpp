// Kernels that a program brings to CUDA's and ROCm's devices, and the vendors' compilers at run
// time, NVRTC and hiprtc.
#pragma once
#include "device/core/kernel_module.hpp"
#include "device/cuda/device.hpp"

namespace hotslot::cuda {

// Unloaded once the device is idle: what was enqueued may still run.
class CudaKernels final : public KernelModule {
 public:
  CudaKernels(CudaDevice& device, const ModuleRequest& request);
  ~CudaKernels() override;
  Function function(const Kernel& kernel) const { return functions_[kernel.index]; }

 private:
  CudaDevice& device_;
  Module module_ = nullptr;
  std::vector<Function> functions_;
  Retired::Place place_;
};

// What a library that compiles at run time is called, and how it is asked: NVRTC's interface, which
// hiprtc repeats.
struct RuntimeCompiler {
  const char* name;
  std::vector<const char*> libraries;
  const char* variable;  // of the environment: another library
  const char* prefix;    // of its functions
  const char* code;      // what it calls an image: 'PTX', 'Code'
  const char* missing;   // what to do where there is none
};
extern const RuntimeCompiler nvrtc, hiprtc;

// The source as an image for a device of this compute capability (0: for the thread's current
// device). Throws UNAVAILABLE where the library is missing, COMPILE with its log where it finds
// fault.
std::string compile(const RuntimeCompiler& compiler, const ModuleRequest& request, int capability);

// Throws where a PTX text has not the kernels as declared: pointers and whole numbers of 8 bytes,
// then reals of 4. Another image is the driver's to judge.
void check_ptx(const ModuleRequest& request, const ModuleImage& image);

}  // namespace hotslot::cuda
