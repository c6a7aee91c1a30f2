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

bool is_batch(const Kernel& kernel) { return std::strcmp(kernel.name, "gemm_batched") == 0; }

// The most products that one call of the library computes. The limit keeps the number within the
// limits of a grid, as the library may use one dimension of the grid for the batch.
constexpr int64_t max_batch = 65'535;

}  // namespace

bool Blas::runs(const Kernel& kernel) const {
  if (kernel.module) return false;
  return std::strcmp(kernel.name, "gemm") == 0 || (batches_ && is_batch(kernel));
}

Blas::Product Blas::kind_of(const Kernel& kernel, const KernelArgs& args, Products products) {
  Product kind{int64_t(products), is_batch(kernel), args.real[1] != 0};
  std::copy_n(args.whole, kernel.wholes, kind.begin() + 3);
  return kind;
}

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
                      library.symbol<decltype(Calls::sgemm)>("cublasSgemm_v2"),
                      library.symbol<decltype(Calls::set_math_mode)>("cublasSetMathMode"),
                      library.symbol<decltype(Calls::sgemm_batched)>("cublasSgemmStridedBatched")};
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
      const std::string wrong = made->wrong_product(false, Products::float32);
      if (wrong.empty()) {
        // Without batches, `gemm_batched` runs on Hotslot's own kernel.
        made->batches_ =
            calls.sgemm_batched && made->wrong_product(true, Products::float32).empty();
        return made;
      }
      why += (why.empty() ? "" : "; ") + library.name + " does not multiply here: " + wrong;
    } else {
      why += (why.empty() ? "" : "; ") + library.name +
             (complete ? " does not start: cuBLAS status " + std::to_string(got) : " is no cuBLAS");
    }
  }
  return nullptr;
}

std::string Blas::why_not_tf32() {
  const auto say = [&](const std::string& why) { return provider_ + " " + why; };
  if (!calls_.set_math_mode) return say("has no cublasSetMathMode");
  std::string wrong = wrong_product(false, Products::tf32);
  if (wrong.empty() && batches_) wrong = wrong_product(true, Products::tf32);
  return wrong.empty() ? "" : say("does not multiply in TF32 here: " + wrong);
}

std::string Blas::wrong_product(bool batched, Products products) {
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
    driver.check(driver.call.memcpy_htod_async, on_c, static_cast<const void*>(c.data()), bytes,
                 stream);
    driver.check(driver.call.memcpy_htod_async, on_a, static_cast<const void*>(a.data()), bytes,
                 stream);
    driver.check(driver.call.memcpy_htod_async, on_b, static_cast<const void*>(b.data()), bytes,
                 stream);
    KernelArgs args{};
    args.real[0] = 1;
    // The batch has two products. Each multiplies half of the rows of A by the same B.
    const int64_t one[] = {0, 0, n, n, n, n, n, n},
                  two[] = {0, 0, 2, n / 2, n, n, n, n, n, n * n / 2, 0, n * n / 2};
    if (batched)
      std::copy(std::begin(two), std::end(two), args.whole);
    else
      std::copy(std::begin(one), std::end(one), args.whole);
    const DevicePtr matrices[] = {on_c, on_a, on_b};
    multiply(stream, at, room, *find_kernel(batched ? "gemm_batched" : "gemm"), args, matrices,
             products);
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

void Blas::rehearse(const Kernel& kernel, const KernelArgs& args, Products products) {
  {
    std::lock_guard guard(lock_);
    if (made_.count(kind_of(kernel, args, products))) return;
  }
  try {
    std::thread elsewhere([&] {
      try {
        Launch launch;
        launch.kernel = &kernel;
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
        device_.launch_on_own(std::move(launch), products);
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

void Blas::multiply(StreamHandle stream, DevicePtr workspace, size_t workspace_room,
                    const Kernel& kernel, const KernelArgs& args, const DevicePtr* at,
                    Products products) {
  const bool batched = is_batch(kernel);
  // The whole arguments that both kernels have: m, n, k, lda, ldb and ldc.
  const int64_t* const sizes = args.whole + (batched ? 3 : 2);
  const auto size = [&](int i) { return int(sizes[i]); };
  const int trans_a = int(args.whole[0]), trans_b = int(args.whole[1]);
  const float alpha = float(args.real[0]), beta = float(args.real[1]);
  const auto matrix = [&](int i, int64_t offset = 0) {
    return reinterpret_cast<float*>(at[i] + uint64_t(offset) * sizeof(float));
  };
  // cuBLAS may load a kernel at this call. Inside a capture the driver allows that only in relaxed
  // mode.
  const RelaxedCaptureMode relaxed(device_.driver);
  std::lock_guard guard(lock_);
  check(calls_.set_stream(handle_, stream), "cublasSetStream");
  check(calls_.set_workspace(handle_, reinterpret_cast<void*>(workspace), workspace_room),
        "cublasSetWorkspace");
  if (mode_ != products) {
    // The modes are CUBLAS_TF32_TENSOR_OP_MATH and CUBLAS_DEFAULT_MATH.
    check(calls_.set_math_mode(handle_, products == Products::tf32 ? 3 : 0), "cublasSetMathMode");
    mode_ = products;
  }
  // cuBLAS is column-major, so this computes Cᵀ = Bᵀ·Aᵀ to get the row-major C = A·B.
  if (!batched) {
    check(calls_.sgemm(handle_, trans_b, trans_a, size(1), size(0), size(2), &alpha, matrix(2),
                       size(4), matrix(1), size(3), &beta, matrix(0), size(5)),
          "cublasSgemm");
  } else {
    const int64_t batch = args.whole[2], a_batch = args.whole[9], b_batch = args.whole[10],
                  c_batch = args.whole[11];
    for (int64_t p = 0; p < batch; p += max_batch)
      check(calls_.sgemm_batched(handle_, trans_b, trans_a, size(1), size(0), size(2), &alpha,
                                 matrix(2, p * b_batch), size(4), b_batch, matrix(1, p * a_batch),
                                 size(3), a_batch, &beta, matrix(0, p * c_batch), size(5), c_batch,
                                 int(std::min(batch - p, max_batch))),
            "cublasSgemmStridedBatched");
  }
  made_.insert(kind_of(kernel, args, products));
}

}  // namespace hotslot::cuda
