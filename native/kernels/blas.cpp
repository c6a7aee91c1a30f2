// A BLAS opened at run time and held to one thread. The names of libraries and of their thread switches are here and
// nowhere else.
#include <strings.h>

#include <climits>
#include <string>

#include "device/core/library.hpp"
#include "kernels/gemm.hpp"

namespace hotslot {
namespace {

// Fortran's row of pointers; the two lengths at the end are those of the texts.
using Sgemm = void (*)(const char*, const char*, const int*, const int*, const int*, const float*, const float*,
                       const int*, const float*, const int*, const float*, float*, const int*, size_t, size_t);

struct Blas {
  Sgemm sgemm = nullptr;
  std::string name;
};

// The version as the library tells it: 'OpenBLAS 0.3.21 NO_AFFINITY …' gives '0.3.21 '.
std::string openblas_version(const Library& library) {
  const auto config = library.symbol<char* (*)()>("openblas_get_config");
  std::string text = config ? config() : "";
  const size_t start = text.find_first_of("0123456789");
  if (start == std::string::npos) return "";
  return text.substr(start, text.find(' ', start) - start) + " ";
}

// An OpenBLAS that does not know this processor takes it for one of the oldest, and its products are several times
// slower than the built-in ones: that core's name. Empty where it does know it, or where the processor has no AVX2
// either.
std::string mistaken_core(const Library& library) {
#if defined(__x86_64__)
  const auto core = library.symbol<char* (*)()>("openblas_get_corename");
  if (!core || !__builtin_cpu_supports("avx2")) return "";
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  static const char* const before_avx[] = {"prescott", "core2",        "penryn", "dunnington", "nehalem",   "atom",
                                           "nano",     "opteron_sse3", "athlon", "katmai",     "barcelona", "opteron",
                                           "bobcat",   "coppermine",   "banias", "core",       "northwood", "unknown"};
  for (const char* old : before_avx)
    if (strcasecmp(core(), old) == 0)
      return std::string(core()) + "; set OPENBLAS_CORETYPE=" + (avx512 ? "SkylakeX" : "Haswell") + " to tell it";
#else
  (void)library;
#endif
  return "";
}

// The library's name once it is held to one thread; empty for one that is not to be used, and `why` may say why.
std::string hold_to_one_thread(const Library& library, std::string& why) {
  const std::string place = "(" + library.name + ")";
  if (const auto threads = library.symbol<void (*)(int)>("openblas_set_num_threads")) {
    threads(1);
    // Its workers started as it loaded and would spin for a tenth of a second; another user of the library may need
    // them.
    const auto end_workers = library.symbol<int (*)()>("blas_thread_shutdown_");
    if (end_workers && !library.shared) end_workers();
    const std::string core = mistaken_core(library), name = "openblas " + openblas_version(library);
    if (core.empty() || library.named) return name + place;
    why = name + "takes this processor for " + core;
    return "";
  }
  if (const auto threads = library.symbol<void (*)(int)>("MKL_Set_Num_Threads")) {
    threads(1);
    return "mkl " + place;
  }
  if (const auto threads = library.symbol<void (*)(int64_t)>("bli_thread_set_num_threads")) {
    threads(1);
    return "blis " + place;
  }
  // The reference BLAS is many times slower than the built-in product: only when it was asked for.
  return library.named ? "blas " + place : "";
}

Blas open_blas() {
  Blas blas;
  const Library library = Library::open({"libopenblas.so.0", "libopenblas.so", "libmkl_rt.so.2", "libmkl_rt.so.1",
                                         "libblis.so.4", "libblas.so.3", "libcblas.so.3"},
                                        "HOTSLOT_BLAS");
  blas.sgemm = library.symbol<Sgemm>("sgemm_");
  std::string why;
  if (blas.sgemm) blas.name = hold_to_one_thread(library, why);
  if (blas.name.empty()) {
    blas.sgemm = nullptr;
    blas.name = "built-in";
    if (!why.empty()) blas.name += " (" + why + ")";
    if (library.named) blas.name += library ? " (" + library.name + " has no sgemm_)" : " (" + library.reason + ")";
  }
  return blas;
}

const Blas& blas() {
  static const Blas opened = open_blas();
  return opened;
}

}  // namespace

const char* gemm_provider() { return blas().name.c_str(); }

bool gemm_blas(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, float alpha, const float* a, int64_t lda,
               const float* b, int64_t ldb, float beta, float* c, int64_t ldc) {
  const Sgemm sgemm = blas().sgemm;
  if (!sgemm) return false;
  // Fortran reads row-major as transposed: Cᵀ = op(B)ᵀ·op(A)ᵀ.
  const int rows = int(n), columns = int(m), inner = int(k), left = int(ldb), right = int(lda), out = int(ldc);
  sgemm(trans_b ? "T" : "N", trans_a ? "T" : "N", &rows, &columns, &inner, &alpha, b, &left, a, &right, &beta, c, &out,
        1, 1);
  return true;
}

}  // namespace hotslot
