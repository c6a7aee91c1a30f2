// Matrix products by the vendor's library, opened at run time if it is installed. One handle per
// device, used under a lock. Each stream has its own workspace, so that nothing is allocated inside
// a capture and streams do not share it.
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
  // Returns null if no library is installed or none works with this device. Then `why` has the
  // reason.
  static std::unique_ptr<Blas> open(CudaDevice& device, std::string& why);
  // Returns the size that NVIDIA recommends for the device's architecture.
  size_t workspace_bytes() const;

  const std::string& provider() const { return provider_; }
  // Runs the kernel `gemm` with these arguments. `c`, `a` and `b` are on the device. The device's
  // context must be current.
  void gemm(StreamHandle stream, DevicePtr workspace, const KernelArgs& args, DevicePtr c,
            DevicePtr a, DevicePtr b, size_t workspace_room);
  // Runs a kind of product once outside of captures, because at its first use the library loads a
  // kernel, waits for all work, and may fail inside a capture. It runs in a thread without a
  // capture, on the device's own stream and on scratch memory.
  void rehearse(const KernelArgs& args);

  // cuBLAS's functions. Its matrices are column-major.
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
  // Returns "", or what is wrong with a first product. A library may start on a GPU that it has no
  // kernels for.
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
