// Matrix products by the vendor's library where the machine has it, opened at run time. One handle
// per device, used under a lock; each stream brings a workspace of its own, so that nothing is
// allocated inside a capture and streams do not collide.
#pragma once
#include <array>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "device/cuda/abi.hpp"
#include "kernels/kernel.hpp"

namespace hotslot::cuda {

class CudaDevice;

class Blas {
 public:
  // Null where there is no such library, or none that works with this device; then `why` says so.
  static std::unique_ptr<Blas> open(CudaDevice& device, std::string& why);
  // What NVIDIA recommends for the device's architecture.
  size_t workspace_bytes() const;

  const std::string& provider() const { return provider_; }
  // The kernel `gemm` with these arguments; `c`, `a` and `b` are on the device. The device's
  // context is current.
  void gemm(StreamHandle stream, DevicePtr workspace, const KernelArgs& args, DevicePtr c,
            DevicePtr a, DevicePtr b, size_t workspace_room);
  // Before a capture comes to a product of a kind that was never made here: the library loads a
  // kernel for it then, waits for all work, and may fail inside a capture. So it is made once
  // outside, in a thread that captures nothing, on the device's own stream and on memory of nobody.
  void rehearse(const KernelArgs& args);

  // cuBLAS: handles, then row-major matrices as the columns they are.
  struct Calls {
    int (*create)(void**);
    int (*get_version)(void*, int*);
    int (*set_stream)(void*, StreamHandle);
    int (*set_workspace)(void*, void*, size_t);
    int (*sgemm)(void*, int, int, int, int, int, const float*, const float*, int, const float*, int,
                 const float*, float*, int);
  };

 private:
  Blas(CudaDevice& device, const Calls& calls, void* handle, std::string provider)
      : device_(device), calls_(calls), handle_(handle), provider_(std::move(provider)) {}
  // Empty, or how a first product goes wrong: a library may start on a GPU that it has no kernels
  // for.
  std::string wrong_product();
  void check(int status, const char* call) const;
  CudaDevice& device_;
  const Calls calls_;
  void* const handle_;
  const std::string provider_;
  std::mutex lock_;
  std::set<std::array<int64_t, 9>>
      made_;  // kinds of products: their whole arguments, and whether they add to C
};

}  // namespace hotslot::cuda
