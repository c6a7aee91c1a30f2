// Opens cuBLAS, version 11 or newer, and runs matrix products with it. HOTSLOT_CUBLAS=path names
// another library, or several separated by colons. With HOTSLOT_CUBLAS=none, no library is opened.
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

// Versions up to 11 are encoded as major × 1,000. Later versions are encoded as major × 10,000.
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

// Tries the newest library first. If a library does not work with this driver, tries the next older
// one.
std::unique_ptr<Blas> Blas::open(CudaDevice& device, std::string& why) {
  if (std::string(device.family) != "cuda") return nullptr;
  const char* const asked = std::getenv(variable);
  const bool named = asked && *asked;
  std::vector<std::string> names{"libcublas.so.13", "libcublas.so.12", "libcublas.so.11"};
  // If an environment variable names the driver, it is a test's driver. The system's cuBLAS would
  // open the real driver instead. So cuBLAS is then opened only if HOTSLOT_CUBLAS names it.
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
      // `why` omits libraries that are just not installed, unless they were named.
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
  // The matrices contain small whole numbers, so the sums are exact in every precision.
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
        // All three matrices use the same memory, because nothing reads the product.
        const Ref<Memory> memory = device_.scratch(bytes);
        for (int i = 0; i < launch.kernel->pointers; ++i)
          launch.spans.push_back({memory, 0, reach[i].bytes});
        device_.launch_on_own(std::move(launch));
      } catch (const std::exception&) {
        // The error is dropped. The product in the capture will fail too, and will throw its error.
      }
    });
    elsewhere.join();
  } catch (const std::system_error&) {
    // The system could not start a thread, so the product in the capture loads the library's
    // kernel.
  }
}

void Blas::check(int status, const char* call) const {
  if (status == 0) return;
  // Values of `status`: 1 not initialized, 3 no memory, 7 invalid value, 13 execution failed, 14
  // internal error.
  throw Error(device_.family, call, status, "CUBLAS_STATUS",
              sentence(device_.family, ": ", call, " failed with cuBLAS status ", status),
              "HOTSLOT_CUBLAS=none runs matrix products on Hotslot's own kernel");
}

void Blas::gemm(StreamHandle stream, DevicePtr workspace, const KernelArgs& args, DevicePtr c,
                DevicePtr a, DevicePtr b, size_t workspace_room) {
  const auto whole = [&](int i) { return int(args.whole[i]); };
  const float alpha = float(args.real[0]), beta = float(args.real[1]);
  // cuBLAS may load a kernel at this call. Inside a capture the driver allows that only in relaxed
  // mode.
  const RelaxedCaptureMode relaxed(device_.driver);
  std::lock_guard guard(lock_);
  check(calls_.set_stream(handle_, stream), "cublasSetStream");
  check(calls_.set_workspace(handle_, reinterpret_cast<void*>(workspace), workspace_room),
        "cublasSetWorkspace");
  // cuBLAS is column-major, so this computes Cᵀ = Bᵀ·Aᵀ to get the row-major C = A·B.
  check(calls_.sgemm(handle_, whole(1), whole(0), whole(3), whole(2), whole(4), &alpha,
                     reinterpret_cast<const float*>(b), whole(6), reinterpret_cast<const float*>(a),
                     whole(5), &beta, reinterpret_cast<float*>(c), whole(7)),
        "cublasSgemm");
  made_.insert(kind_of(args));
}

}  // namespace hotslot::cuda
