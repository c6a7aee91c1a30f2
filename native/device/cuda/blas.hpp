// Matrix products by the vendor's library, which is opened at run time if it is installed. Each
// device has one handle of the library, and a lock guards the handle. Each stream has its own
// workspace. So the library allocates nothing inside a capture, and streams share no workspace.
#pragma once
#include <array>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "device/core/facts.hpp"
#include "device/cuda/abi.hpp"
#include "kernels/kernel.hpp"

namespace hotslot::cuda {

class CudaDevice;

class Blas {
 public:
  // Returns null if no library works with this device, and adds the reasons to `why`. A library
  // that is just not installed adds no reason, unless HOTSLOT_CUBLAS names it.
  static std::unique_ptr<Blas> open(CudaDevice& device, std::string& why);
  // Returns the workspace size that NVIDIA recommends for the device's architecture.
  size_t workspace_bytes() const;

  const std::string& provider() const { return provider_; }
  // Returns whether the library runs the kernel: `gemm`, and `gemm_batched` if the library can
  // multiply batches.
  bool runs(const Kernel& kernel) const;
  // Runs such a kernel with these arguments. `at` has the addresses of C, A and B on the device.
  // The caller has made the device's context current.
  void multiply(StreamHandle stream, DevicePtr workspace, size_t workspace_room,
                const Kernel& kernel, const KernelArgs& args, const DevicePtr* at,
                Products products);
  // Runs a product of the same kind (see `made_`) before a capture contains one, unless the library
  // has run such a product. At the first product of a kind, the library loads a kernel and waits
  // for all work. Inside a capture, this wait may fail.
  //
  // The product runs in another thread, which has no capture. It uses the device's own stream and
  // scratch memory.
  void rehearse(const Kernel& kernel, const KernelArgs& args, Products products);
  // Returns why the library cannot multiply in TF32, or "" if it can. Multiplies to find out.
  std::string why_not_tf32();

  // cuBLAS's functions. Its matrices are column-major.
  struct Calls {
    int (*create)(void**);
    int (*get_version)(void*, int*);
    int (*set_stream)(void*, StreamHandle);
    int (*set_workspace)(void*, void*, size_t);
    int (*sgemm)(void*, int, int, int, int, int, const float*, const float*, int, const float*, int,
                 const float*, float*, int);
    // Null in libraries that have no math modes.
    int (*set_math_mode)(void*, int);
    // Null in libraries that cannot multiply batches.
    int (*sgemm_batched)(void*, int, int, int, int, int, const float*, const float*, int, long long,
                         const float*, int, long long, const float*, float*, int, long long, int);
  };

 private:
  Blas(CudaDevice& device, const Calls& calls, void* handle, std::string provider)
      : device_(device), calls_(calls), handle_(handle), provider_(std::move(provider)) {}
  // Multiplies two matrices by `gemm` or by `gemm_batched`. Returns a description of the fault, or
  // "" if the result is right. A library may start even if it has no kernels for the GPU.
  std::string wrong_product(bool batched, Products products);
  void check(int status, const char* call) const;
  CudaDevice& device_;
  const Calls calls_;
  void* const handle_;
  const std::string provider_;
  bool batches_ = false;  // whether the library multiplies batches
  std::mutex lock_;
  // The precision for which the handle's math mode is set. A new handle computes in float32.
  Products mode_ = Products::float32;
  // Kinds of products that have run: their precision, whether they are batches, whether they add to
  // C, and their whole arguments.
  using Product = std::array<int64_t, 3 + max_wholes>;
  static Product kind_of(const Kernel& kernel, const KernelArgs& args, Products products);
  std::set<Product> made_;
};

}  // namespace hotslot::cuda
