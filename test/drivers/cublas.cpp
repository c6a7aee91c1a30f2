// The libcublas of the tests: cuBLAS's interface on top of the software libcuda that HOTSLOT_CUDA
// names, whose kernels multiply. It is as strict as cuBLAS where it can be. Setting the stream
// resets the workspace, and only one thread at a time may use a handle. Nothing may be created
// while the thread captures. In the math mode CUBLAS_TF32_TENSOR_OP_MATH it rounds both operands to
// TF32.
//
// With -DHOTSLOT_SOFTWARE_CUBLAS_OLD it is a library without batches and without math modes.
#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string>

#include "device/cuda/abi.hpp"

using namespace hotslot::cuda;

namespace {

enum Result : int { done = 0, not_initialized = 1, invalid_value = 7, execution_failed = 13 };

// The math modes that Hotslot sets: CUBLAS_DEFAULT_MATH and CUBLAS_TF32_TENSOR_OP_MATH.
enum Math : int { default_math = 0, tf32_math = 3 };

#define LEADING ".param .u64 c, .param .u64 a, .param .u64 b, .param .u64 ta, .param .u64 tb, "
#define SIZES                                                                             \
  ".param .u64 m, .param .u64 n, .param .u64 k, .param .u64 lda, .param .u64 ldb, .param" \
  " .u64 ldc, "
#define BATCHES ".param .u64 a_batch, .param .u64 b_batch, .param .u64 c_batch, "
#define REALS ".param .f32 alpha, .param .f32 beta)\n{\nret;\n}\n"
#define ENTRY(name) ".visible .entry " name "(\n" LEADING SIZES REALS
#define BATCHED(name) ".visible .entry " name "(\n" LEADING ".param .u64 n, " SIZES BATCHES REALS
// forms.hpp has the forms of the entries that round.
constexpr char image[] = ".version 6.3\n.target sm_60\n.address_size 64\n" ENTRY("gemm")
    BATCHED("gemm_batched") ENTRY("gemm_tf32") BATCHED("gemm_batched_tf32");

struct Driver {
  Table call;
  Function gemm[2][2] = {};  // by whether it is a batch, and by whether it rounds
  bool ready = false;
  void (*load)(const char*) = nullptr;
  Driver() {
    const char* path = std::getenv("HOTSLOT_CUDA");
    void* library = path ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : nullptr;
    const auto lookup =
        library ? reinterpret_cast<GetProcAddress>(dlsym(library, "cuGetProcAddress_v2")) : nullptr;
    if (!lookup) return;
    load = reinterpret_cast<decltype(load)>(dlsym(library, "hotslot_software_load"));
    load("cuBLAS");
    const auto find = [&](auto& entry, int version) {
      void* found = nullptr;
      int how = 0;
      lookup(entry.name, &found, version, lookup_legacy_stream, &how);
      entry.function = reinterpret_cast<decltype(entry.function)>(found);
    };
    find(call.module_load_data, 2000), find(call.module_get_function, 2000),
        find(call.launch_kernel, 4000);
    Module module = nullptr;
    const auto function = [&](Function& entry, const char* name) {
      return call.module_get_function(&entry, module, name) == 0;
    };
    ready = call.module_load_data(&module, image) == 0 && function(gemm[0][0], "gemm") &&
            function(gemm[0][1], "gemm_tf32") && function(gemm[1][0], "gemm_batched") &&
            function(gemm[1][1], "gemm_batched_tf32");
  }
};

struct Handle {
  Driver driver;
  StreamHandle stream = nullptr;
  bool workspace = false;
  int math = default_math;
  std::atomic<bool> busy{false};
  std::set<std::string> shapes;
};

// Aborts the process if a second thread uses the handle.
struct Using {
  explicit Using(Handle& handle) : handle(handle) {
    if (!handle.busy.exchange(true)) return;
    std::fprintf(stderr, "Hotslot software driver: two threads in one cuBLAS handle\n");
    std::abort();
  }
  ~Using() { handle.busy = false; }
  Handle& handle;
};

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int cublasCreate_v2(void** out) {
  auto* handle = new Handle;
  if (!handle->driver.ready) return delete handle, not_initialized;
  *out = handle;
  return done;
}

EXPORT int cublasGetVersion_v2(void*, int* version) { return *version = 130100, done; }

EXPORT int cublasSetStream_v2(void* handle, StreamHandle stream) {
  const Using use(*static_cast<Handle*>(handle));
  use.handle.stream = stream;
  use.handle.workspace = false;
  return done;
}

EXPORT int cublasSetWorkspace_v2(void* handle, void* at, size_t bytes) {
  const Using use(*static_cast<Handle*>(handle));
  if (uintptr_t(at) % 256 != 0 || bytes == 0) return invalid_value;
  use.handle.workspace = true;
  return done;
}

#ifndef HOTSLOT_SOFTWARE_CUBLAS_OLD
EXPORT int cublasSetMathMode(void* handle, int mode) {
  const Using use(*static_cast<Handle*>(handle));
  if (mode != default_math && mode != tf32_math) return invalid_value;
  use.handle.math = mode;
  return done;
}
#endif

namespace {

// A matrix of column-major products: its address, and the elements from one column and from one
// product to the next.
struct Matrix {
  const float* at;
  int step;
  long long batch;
};

// C = alpha·op(A)·op(B) + beta·C with columns one after another, once or for each of `batch`
// products. Read as rows one after another, the same bytes are Cᵀ, Aᵀ and Bᵀ, so the kernel for
// rows computes Cᵀ = op(B)ᵀ·op(A)ᵀ.
int multiply(void* handle, bool batched, int batch, int trans_a, int trans_b, int m, int n, int k,
             const float* alpha, Matrix a, Matrix b, const float* beta, Matrix c) {
  const Using use(*static_cast<Handle*>(handle));
  // HOTSLOT_SOFTWARE_BLAS=refuse: the library starts, but has no kernels for this GPU. =arch: it
  // has none for larger matrices. =wrong: its products are wrong. =unbatched: it has no kernels for
  // batches. =untf32, =untf32-batched: its products or batches in TF32 are wrong.
  const char* asked = std::getenv("HOTSLOT_SOFTWARE_BLAS");
  const std::string how = asked ? asked : "";
  const bool rounds = use.handle.math == tf32_math;
  if (how == "refuse" || (how == "unbatched" && batched)) return execution_failed;
  if (how == "arch" && (m > 16 || n > 16)) return not_initialized;
  if (!use.handle.workspace || !use.handle.stream) return invalid_value;
  if (batch < 0 || a.step < (trans_a ? k : m) || b.step < (trans_b ? n : k) || c.step < m)
    return invalid_value;
  // The products of a batch must not share elements of C. A real grid has at most 65,535 products.
  if (batched && (batch > 65'535 || (batch > 1 && c.batch < (n - 1LL) * c.step + m)))
    return invalid_value;
  DevicePtr pointers[] = {DevicePtr(c.at), DevicePtr(b.at), DevicePtr(a.at)};
  int64_t wholes[] = {trans_b, trans_a, batch,  n,       m,       k,
                      b.step,  a.step,  c.step, b.batch, a.batch, c.batch};
  float reals[] = {how == "wrong" || (rounds && how == (batched ? "untf32-batched" : "untf32"))
                       ? *alpha * 1.5f
                       : *alpha,
                   *beta};
  void* values[17];
  int at = 0;
  for (auto& each : pointers) values[at++] = &each;
  for (int i = 0; i < 12; ++i)
    if (batched || (i != 2 && i < 9)) values[at++] = &wholes[i];
  for (auto& each : reals) values[at++] = &each;
  const auto& driver = use.handle.driver;
  // Each kind of product has its own kernel, which is loaded at its first use.
  const auto size = [](int n) { return n <= 32 ? 's' : n <= 256 ? 'm' : 'l'; };
  const std::string shape{trans_a ? 't' : 'n', trans_b ? 't' : 'n', size(m), size(n), size(k),
                          batched ? 'b' : '1', rounds ? 'r' : 'f'};
  if (use.handle.shapes.insert(shape).second) driver.load(("cuBLAS's kernel for " + shape).c_str());
  return driver.call.launch_kernel(driver.gemm[batched][rounds], 1, 1, 1, 1, 1, 1, 0,
                                   use.handle.stream, values, nullptr) == 0
             ? done
             : execution_failed;
}

}  // namespace

EXPORT int cublasSgemm_v2(void* handle, int trans_a, int trans_b, int m, int n, int k,
                          const float* alpha, const float* a, int lda, const float* b, int ldb,
                          const float* beta, float* c, int ldc) {
  return multiply(handle, false, 1, trans_a, trans_b, m, n, k, alpha, {a, lda, 0}, {b, ldb, 0},
                  beta, {c, ldc, 0});
}

#ifndef HOTSLOT_SOFTWARE_CUBLAS_OLD
EXPORT int cublasSgemmStridedBatched(void* handle, int trans_a, int trans_b, int m, int n, int k,
                                     const float* alpha, const float* a, int lda,
                                     long long stride_a, const float* b, int ldb,
                                     long long stride_b, const float* beta, float* c, int ldc,
                                     long long stride_c, int batch) {
  return multiply(handle, true, batch, trans_a, trans_b, m, n, k, alpha, {a, lda, stride_a},
                  {b, ldb, stride_b}, beta, {c, ldc, stride_c});
}
#endif
