// cuBLAS, from version 11 on. HOTSLOT_CUBLAS=path names another library, HOTSLOT_CUBLAS=none none.
#include "device/cublas.hpp"

#include "device/cuda.hpp"

namespace hotslot::cuda {
namespace {

// A test's driver is not what a library of the system would find: only one that was named is tried there.
Library open_library(const Driver& driver) {
  if (driver.library.named && !std::getenv("HOTSLOT_CUBLAS")) return {};
  return Library::open({"libcublas.so.13", "libcublas.so.12", "libcublas.so.11"}, "HOTSLOT_CUBLAS");
}

}  // namespace

std::unique_ptr<Blas> Blas::open(CudaDevice& device) {
  const std::string family = device.family;
  if (family != "cuda") return nullptr;
  static const Library library = open_library(device.driver);
  if (!library) return nullptr;
  const Calls calls{library.symbol<decltype(Calls::create)>("cublasCreate_v2"), library.symbol<decltype(Calls::get_version)>("cublasGetVersion_v2"),
                    library.symbol<decltype(Calls::set_stream)>("cublasSetStream_v2"),
                    library.symbol<decltype(Calls::set_workspace)>("cublasSetWorkspace_v2"), library.symbol<decltype(Calls::sgemm)>("cublasSgemm_v2")};
  if (!calls.create || !calls.get_version || !calls.set_stream || !calls.set_workspace || !calls.sgemm) return nullptr;
  const Enter enter(device.driver, device.context);
  const Relaxed relaxed(device.driver);
  void* handle = nullptr;
  if (calls.create(&handle) != 0) return nullptr;
  int version = 0;
  calls.get_version(handle, &version);
  const std::string text = std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100);
  return std::unique_ptr<Blas>(new Blas(device, calls, handle, "cuBLAS " + text + " (" + library.name + ")"));
}

void Blas::check(int status, const char* call) const {
  if (status == 0) return;
  // CUBLAS_STATUS_…: 1 not initialised, 3 no memory, 7 invalid value, 13 execution failed, 14 internal error.
  throw Error(device_.family, call, status, "CUBLAS_STATUS", std::string(device_.family) + ": " + call + " failed with cuBLAS status " + std::to_string(status),
              "HOTSLOT_CUBLAS=none runs matrix products on Hotslot's own kernel");
}

void Blas::gemm(StreamHandle stream, DevicePtr workspace, const KernelArgs& args, DevicePtr c, DevicePtr a, DevicePtr b) {
  const auto whole = [&](int i) { return int(args.whole[i]); };
  const float alpha = float(args.real[0]), beta = float(args.real[1]);
  std::lock_guard guard(lock_);
  check(calls_.set_stream(handle_, stream), "cublasSetStream");
  check(calls_.set_workspace(handle_, reinterpret_cast<void*>(workspace), workspace_bytes), "cublasSetWorkspace");
  // Row-major C = A·B is column-major Cᵀ = Bᵀ·Aᵀ.
  check(calls_.sgemm(handle_, whole(1), whole(0), whole(3), whole(2), whole(4), &alpha, reinterpret_cast<const float*>(b), whole(6),
                     reinterpret_cast<const float*>(a), whole(5), &beta, reinterpret_cast<float*>(c), whole(7)),
        "cublasSgemm");
}

}  // namespace hotslot::cuda
