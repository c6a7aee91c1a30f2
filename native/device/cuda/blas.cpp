// cuBLAS, from version 11 on. HOTSLOT_CUBLAS=path names another library, HOTSLOT_CUBLAS=none none.
#include "device/cuda/blas.hpp"

#include "device/cuda/device.hpp"

namespace hotslot::cuda {
namespace {

constexpr const char* variable = "HOTSLOT_CUBLAS";

// Versions up to 11 count in thousands, later ones in tens of thousands.
std::string blas_version_text(int version) {
  const int unit = version < 100'000 ? 1000 : 10'000;
  return std::to_string(version / unit) + "." + std::to_string(version % unit / 100);
}

}  // namespace

// The newest first; a library that does not work with this driver gives way to an older one.
std::unique_ptr<Blas> Blas::open(CudaDevice& device, std::string& why) {
  if (std::string(device.family) != "cuda") return nullptr;
  // A test's driver is not what a library of the system would find: only one that was named is tried there.
  const bool named = std::getenv(variable) != nullptr;
  if (device.driver.library.named && !named) return nullptr;
  for (const char* name : {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11"}) {
    const Library library = Library::open({name}, variable);
    if (!library) {
      // What is not installed is no news; what does not load is, and a library that was named.
      if (named || library.reason.find("No such file") == std::string::npos ||
          library.reason.find(std::string(name) + ":") != 0)
        why += (why.empty() ? "" : "; ") + library.reason;
      if (named) break;
      continue;
    }
    const Calls calls{library.symbol<decltype(Calls::create)>("cublasCreate_v2"),
                      library.symbol<decltype(Calls::get_version)>("cublasGetVersion_v2"),
                      library.symbol<decltype(Calls::set_stream)>("cublasSetStream_v2"),
                      library.symbol<decltype(Calls::set_workspace)>("cublasSetWorkspace_v2"),
                      library.symbol<decltype(Calls::sgemm)>("cublasSgemm_v2")};
    const bool complete = calls.create && calls.get_version && calls.set_stream && calls.set_workspace && calls.sgemm;
    void* handle = nullptr;
    int got = -1;
    if (complete) {
      const Enter enter(device.driver, device.context);
      const RelaxedCaptureMode relaxed(device.driver);
      got = calls.create(&handle);
    }
    int version = 0;
    if (got == 0) {
      calls.get_version(handle, &version);
      return std::unique_ptr<Blas>(
          new Blas(device, calls, handle, "cuBLAS " + blas_version_text(version) + " (" + library.name + ")"));
    }
    why += (why.empty() ? "" : "; ") + library.name +
           (complete ? " does not start: cuBLAS status " + std::to_string(got) : " is no cuBLAS");
    if (named) break;
  }
  return nullptr;
}

void Blas::check(int status, const char* call) const {
  if (status == 0) return;
  // CUBLAS_STATUS_…: 1 not initialised, 3 no memory, 7 invalid value, 13 execution failed, 14 internal error.
  throw Error(device_.family, call, status, "CUBLAS_STATUS",
              sentence(device_.family, ": ", call, " failed with cuBLAS status ", status),
              "HOTSLOT_CUBLAS=none runs matrix products on Hotslot's own kernel");
}

void Blas::gemm(StreamHandle stream, DevicePtr workspace, const KernelArgs& args, DevicePtr c, DevicePtr a,
                DevicePtr b) {
  const auto whole = [&](int i) { return int(args.whole[i]); };
  const float alpha = float(args.real[0]), beta = float(args.real[1]);
  // It may load a kernel now, which a capture allows in this mode only.
  const RelaxedCaptureMode relaxed(device_.driver);
  std::lock_guard guard(lock_);
  check(calls_.set_stream(handle_, stream), "cublasSetStream");
  check(calls_.set_workspace(handle_, reinterpret_cast<void*>(workspace), workspace_bytes), "cublasSetWorkspace");
  // Row-major C = A·B is column-major Cᵀ = Bᵀ·Aᵀ.
  check(
      calls_.sgemm(handle_, whole(1), whole(0), whole(3), whole(2), whole(4), &alpha, reinterpret_cast<const float*>(b),
                   whole(6), reinterpret_cast<const float*>(a), whole(5), &beta, reinterpret_cast<float*>(c), whole(7)),
      "cublasSgemm");
}

}  // namespace hotslot::cuda
