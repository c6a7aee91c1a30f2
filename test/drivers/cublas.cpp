// The libcublas of the tests: cuBLAS's interface on top of the software libcuda that HOTSLOT_CUDA
// names, whose kernel multiplies. It is as strict as cuBLAS where it can be. Setting the stream
// resets the workspace, and only one thread at a time may use a handle. Nothing may be created
// while the thread captures.
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

constexpr char image[] =
    ".version 6.3\n.target sm_60\n.address_size 64\n.visible .entry gemm(\n"
    ".param .u64 c, .param .u64 a, .param .u64 b, .param .u64 ta, .param .u64 tb, .param .u64 m, "
    ".param .u64 n, .param "
    ".u64 k,\n"
    ".param .u64 lda, .param .u64 ldb, .param .u64 ldc, .param .f32 alpha, .param .f32 "
    "beta)\n{\nret;\n}\n";

struct Driver {
  Table call;
  Function gemm = nullptr;
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
    ready = call.module_load_data(&module, image) == 0 &&
            call.module_get_function(&gemm, module, "gemm") == 0;
  }
};

struct Handle {
  Driver driver;
  StreamHandle stream = nullptr;
  bool workspace = false;
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

// C = alpha·op(A)·op(B) + beta·C with columns one after another. Read as rows one after another,
// the same bytes are Cᵀ, Aᵀ and Bᵀ, so the kernel for rows computes Cᵀ = op(B)ᵀ·op(A)ᵀ.
EXPORT int cublasSgemm_v2(void* handle, int trans_a, int trans_b, int m, int n, int k,
                          const float* alpha, const float* a, int lda, const float* b, int ldb,
                          const float* beta, float* c, int ldc) {
  const Using use(*static_cast<Handle*>(handle));
  // HOTSLOT_SOFTWARE_BLAS=refuse: the library starts, but has no kernels for this GPU. =arch: it
  // has none for larger matrices. =wrong: its products are wrong.
  const char* asked = std::getenv("HOTSLOT_SOFTWARE_BLAS");
  const std::string how = asked ? asked : "";
  if (how == "refuse") return execution_failed;
  if (how == "arch" && (m > 16 || n > 16)) return not_initialized;
  if (!use.handle.workspace || !use.handle.stream) return invalid_value;
  if (lda < (trans_a ? k : m) || ldb < (trans_b ? n : k) || ldc < m) return invalid_value;
  DevicePtr pointers[] = {DevicePtr(c), DevicePtr(b), DevicePtr(a)};
  int64_t wholes[] = {trans_b, trans_a, n, m, k, ldb, lda, ldc};
  float reals[] = {how == "wrong" ? *alpha * 1.5f : *alpha, *beta};
  void* values[13];
  int at = 0;
  for (auto& each : pointers) values[at++] = &each;
  for (auto& each : wholes) values[at++] = &each;
  for (auto& each : reals) values[at++] = &each;
  const auto& driver = use.handle.driver;
  // Each kind of product has its own kernel, which is loaded at its first use.
  const auto size = [](int n) { return n <= 32 ? 's' : n <= 256 ? 'm' : 'l'; };
  const std::string shape{trans_a ? 't' : 'n', trans_b ? 't' : 'n', size(m), size(n), size(k)};
  if (use.handle.shapes.insert(shape).second) driver.load(("cuBLAS's kernel for " + shape).c_str());
  return driver.call.launch_kernel(driver.gemm, 1, 1, 1, 1, 1, 1, 0, use.handle.stream, values,
                                   nullptr) == 0
             ? done
             : execution_failed;
}
