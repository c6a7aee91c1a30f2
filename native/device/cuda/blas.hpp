// Matrix products by the vendor's library where the machine has it, opened at run time. One handle per device, used
// under a lock; each stream brings a workspace of its own, so that nothing is allocated inside a capture and streams do
// not collide.
#pragma once
#include <memory>
#include <mutex>
#include <string>

#include "device/cuda/abi.hpp"
#include "kernels/kernel.hpp"

namespace hotslot::cuda {

class CudaDevice;

class Blas {
 public:
  // Null where there is no such library, or none that works with this device; then `why` says so.
  static std::unique_ptr<Blas> open(CudaDevice& device, std::string& why);
  static constexpr size_t workspace_bytes = 32u << 20;

  const std::string& provider() const { return provider_; }
  // The kernel `gemm` with these arguments; `c`, `a` and `b` are on the device. The device's context is current.
  void gemm(StreamHandle stream, DevicePtr workspace, const KernelArgs& args, DevicePtr c, DevicePtr a, DevicePtr b,
            size_t workspace_room = workspace_bytes);

  // cuBLAS: handles, then row-major matrices as the columns they are.
  struct Calls {
    int (*create)(void**);
    int (*get_version)(void*, int*);
    int (*set_stream)(void*, StreamHandle);
    int (*set_workspace)(void*, void*, size_t);
    int (*sgemm)(void*, int, int, int, int, int, const float*, const float*, int, const float*, int, const float*,
                 float*, int);
  };

 private:
  Blas(const CudaDevice& device, const Calls& calls, void* handle, std::string provider)
      : device_(device), calls_(calls), handle_(handle), provider_(std::move(provider)) {}
  // Empty, or how a first product goes wrong: a library may start on a GPU that it has no kernels for.
  std::string wrong_product();
  void check(int status, const char* call) const;
  const CudaDevice& device_;
  const Calls calls_;
  void* const handle_;
  const std::string provider_;
  std::mutex lock_;
};

}  // namespace hotslot::cuda
