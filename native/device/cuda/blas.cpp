// cuBLAS, from version 11 on. HOTSLOT_CUBLAS=path names another library, or several separated by
// colons. HOTSLOT_CUBLAS=none opens none.
#include "device/cuda/blas.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <thread>
#include <vector>

#include "device/cuda/device.hpp"

namespace hotslot::cuda {
namespace {

constexpr const char* variable = "HOTSLOT_CUBLAS";

// A major version is a multiple of 1,000 up to 11, and of 10,000 later.
std::string blas_version_text(int version) {
  const int unit = version < 100'000 ? 1000 : 10'000;
  return std::to_string(version / unit) + "." + std::to_string(version % unit / 100);
}

std::vector<std::string> paths_of(const std::string& list) {
  std::vector<std::string> paths;
  for (size_t from = 0; from <= list.size();) {
    const size_t to = std::min(list.find(':', from), list.size());
    if (to > from) paths.push_back(list.substr(from, to - from));
    from = to + 1;
  }
  return paths;
}

std::array<int64_t, 9> kind_of(const KernelArgs& args) {
  std::array<int64_t, 9> kind;
  std::copy_n(args.whole, 8, kind.begin());
  kind[8] = args.real[1] != 0;
  return kind;
}

}  // namespace

// Tries the newest library first, and an older one if it does not work with this driver.
std::unique_ptr<Blas> Blas::open(CudaDevice& device, std::string& why) {
  if (std::string(device.family) != "cuda") return nullptr;
  const char* const asked = std::getenv(variable);
  const bool named = asked && *asked;
  std::vector<std::string> names{"libcublas.so.13", "libcublas.so.12", "libcublas.so.11"};
  // A library of the system would not find a test's driver, so with such a driver only named
  // libraries are tried.
  if (named)
    names = paths_of(asked);
  else if (device.driver.library.named)
    return nullptr;
  if (named && std::strcmp(asked, "none") == 0) {
    why = std::string(variable) + "=none";
    names.clear();
  }
  for (const std::string& name : names) {
    const Library library = Library::open({name.c_str()}, nullptr);
    if (!library) {
      // `why` lists libraries that do not load and named ones, but no library that is just not
      // installed.
      if (named || library.reason.find("No such file") == std::string::npos ||
          library.reason.find(name + ":") != 0)
        why += (why.empty() ? "" : "; ") + library.reason +
               (named ? std::string(" (named by ") + variable + ")" : "");
      continue;
    }
    const Calls calls{library.symbol<decltype(Calls::create)>("cublasCreate_v2"),
                      library.symbol<decltype(Calls::get_version)>("cublasGetVersion_v2"),
                      library.symbol<decltype(Calls::set_stream)>("cublasSetStream_v2"),
                      library.symbol<decltype(Calls::set_workspace)>("cublasSetWorkspace_v2"),
                      library.symbol<decltype(Calls::sgemm)>("cublasSgemm_v2")};
    const bool complete =
        calls.create && calls.get_version && calls.set_stream && calls.set_workspace && calls.sgemm;
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
      std::unique_ptr<Blas> made(
          new Blas(device, calls, handle,
                   "cuBLAS " + blas_version_text(version) + " (" + library.name + ")"));
      const std::string wrong = made->wrong_product();
      if (wrong.empty()) return made;
      why += (why.empty() ? "" : "; ") + library.name + " does not multiply here: " + wrong;
    } else {
      why += (why.empty() ? "" : "; ") + library.name +
             (complete ? " does not start: cuBLAS status " + std::to_string(got) : " is no cuBLAS");
    }
  }
  return nullptr;
}

std::string Blas::wrong_product() {
  // The matrices have small whole numbers, so the sums are exact in every precision.
  constexpr int n = 32;
  constexpr size_t bytes = n * n * sizeof(float), room = 4u << 20;
  std::vector<float> a(n * n), b(n * n), c(n * n);
  for (int i = 0; i < n * n; ++i) a[size_t(i)] = float(i % 7 - 3), b[size_t(i)] = float(i % 5 - 2);
  const Driver& driver = device_.driver;
  const Enter enter(driver, device_.context);
  const RelaxedCaptureMode relaxed(driver);
  DevicePtr at = 0;
  StreamHandle stream = nullptr;
  std::string wrong;
  try {
    driver.check(driver.call.mem_alloc, &at, room + 3 * bytes);
    driver.check(driver.call.stream_create, &stream, unsigned(stream_non_blocking), 0);
    const DevicePtr on_c = at + room, on_a = on_c + bytes, on_b = on_a + bytes;
    driver.check(driver.call.memcpy_htod_async, on_a, static_cast<const void*>(a.data()), bytes,
                 stream);
    driver.check(driver.call.memcpy_htod_async, on_b, static_cast<const void*>(b.data()), bytes,
                 stream);
    KernelArgs args{};
    for (int i = 2; i < 8; ++i) args.whole[i] = n;
    args.real[0] = 1;
    gemm(stream, at, args, on_c, on_a, on_b, room);
    driver.check(driver.call.memcpy_dtoh_async, static_cast<void*>(c.data()), on_c, bytes, stream);
    driver.check(driver.call.stream_synchronize, stream);
    for (int row = 0; row < n && wrong.empty(); ++row)
      for (int column = 0; column < n; ++column) {
        float sum = 0;
        for (int i = 0; i < n; ++i) sum += a[size_t(row * n + i)] * b[size_t(i * n + column)];
        if (c[size_t(row * n + column)] != sum) wrong = "its products are wrong";
      }
  } catch (const Error& error) {
    wrong = error.what();
  }
  if (stream) {
    driver.call.stream_synchronize(stream);
    driver.call.stream_destroy(stream);
  }
  if (at) driver.call.mem_free(at);
  return wrong;
}

size_t Blas::workspace_bytes() const {
  constexpr size_t mib = 1 << 20;
  return device_.capability() >= 120 ? 12 * mib : device_.capability() >= 90 ? 32 * mib : 4 * mib;
}

void Blas::rehearse(const KernelArgs& args) {
  {
    std::lock_guard guard(lock_);
    if (made_.count(kind_of(args))) return;
  }
  try {
    std::thread elsewhere([&] {
      try {
        Launch launch;
        launch.kernel = find_kernel("gemm");
        launch.args = args;
        Reach reach[max_pointers];
        launch.kernel->need(args, reach);
        size_t bytes = 0;
        for (int i = 0; i < launch.kernel->pointers; ++i)
          bytes = std::max<size_t>(bytes, reach[i].bytes);
        // One memory for all three matrices, because the product is not read.
        const Ref<Memory> memory = device_.scratch(bytes);
        for (int i = 0; i < launch.kernel->pointers; ++i)
          launch.spans.push_back({memory, 0, reach[i].bytes});
        device_.launch_on_own(std::move(launch));
      } catch (const std::exception&) {
        // The capture will throw the error.
      }
    });
    elsewhere.join();
  } catch (const std::system_error&) {
    // No thread could be started, so the capture will be the first to load it.
  }
}

void Blas::check(int status, const char* call) const {
  if (status == 0) return;
  // CUBLAS_STATUS_…: 1 not initialized, 3 no memory, 7 invalid value, 13 execution failed, 14
  // internal error.
  throw Error(device_.family, call, status, "CUBLAS_STATUS",
              sentence(device_.family, ": ", call, " failed with cuBLAS status ", status),
              "HOTSLOT_CUBLAS=none runs matrix products on Hotslot's own kernel");
}

void Blas::gemm(StreamHandle stream, DevicePtr workspace, const KernelArgs& args, DevicePtr c,
                DevicePtr a, DevicePtr b, size_t workspace_room) {
  const auto whole = [&](int i) { return int(args.whole[i]); };
  const float alpha = float(args.real[0]), beta = float(args.real[1]);
  // It may load a kernel now, which a capture allows only in this mode.
  const RelaxedCaptureMode relaxed(device_.driver);
  std::lock_guard guard(lock_);
  check(calls_.set_stream(handle_, stream), "cublasSetStream");
  check(calls_.set_workspace(handle_, reinterpret_cast<void*>(workspace), workspace_room),
        "cublasSetWorkspace");
  // Row-major C = A·B is column-major Cᵀ = Bᵀ·Aᵀ.
  check(calls_.sgemm(handle_, whole(1), whole(0), whole(3), whole(2), whole(4), &alpha,
                     reinterpret_cast<const float*>(b), whole(6), reinterpret_cast<const float*>(a),
                     whole(5), &beta, reinterpret_cast<float*>(c), whole(7)),
        "cublasSgemm");
  made_.insert(kind_of(args));
}

}  // namespace hotslot::cuda
