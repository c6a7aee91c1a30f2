// Opens a BLAS at run time and limits it to one thread. Only this file has the names of libraries
// and of their functions for threads.
#include <climits>
#include <cstdlib>
#include <string>

#include "device/core/library.hpp"
#include "kernels/gemm.hpp"

namespace hotslot {
namespace {

// Fortran passes every argument as a pointer. The two sizes at the end are the lengths of the
// texts.
using Sgemm = void (*)(const char*, const char*, const int*, const int*, const int*, const float*,
                       const float*, const int*, const float*, const int*, const float*, float*,
                       const int*, size_t, size_t);

struct Blas {
  Sgemm sgemm = nullptr;
  std::string name;
};

// Returns the version that the library reports, and a space: 'OpenBLAS 0.3.21 NO_AFFINITY …' gives
// '0.3.21 '.
std::string openblas_version(const Library& library) {
  const auto config = library.symbol<char* (*)()>("openblas_get_config");
  std::string text = config ? config() : "";
  const size_t start = text.find_first_of("0123456789");
  if (start == std::string::npos) return "";
  return text.substr(start, text.find(' ', start) - start) + " ";
}

// Limits the library to one thread and returns its name. Returns "" if the library must not be
// used.
std::string hold_to_one_thread(const Library& library) {
  const std::string place = "(" + library.name + ")";
  if (const auto threads = library.symbol<void (*)(int)>("openblas_set_num_threads")) {
    threads(1);
    // OpenBLAS started its workers when it was loaded, and they would spin for a tenth of a second.
    // This ends them, unless another user of the library may need them.
    const auto end_workers = library.symbol<int (*)()>("blas_thread_shutdown_");
    if (end_workers && !library.shared) end_workers();
    return "openblas " + openblas_version(library) + place;
  }
  if (const auto threads = library.symbol<void (*)(int)>("MKL_Set_Num_Threads")) {
    threads(1);
    return "mkl " + place;
  }
  if (const auto threads = library.symbol<void (*)(int64_t)>("bli_thread_set_num_threads")) {
    threads(1);
    return "blis " + place;
  }
  // The reference BLAS is many times slower than the built-in product, so it is used only if
  // HOTSLOT_BLAS names it.
  return library.named ? "blas " + place : "";
}

// Chooses the provider. The built-in product is used if it has tiles for the CPU's vectors and
// HOTSLOT_BLAS names no library. Otherwise the first BLAS that can be opened is used.
Blas open_blas() {
  Blas blas;
  const std::string set = gemm_builtin_set(), own = set.empty() ? "built-in" : "built-in, " + set;
  const char* const asked = std::getenv("HOTSLOT_BLAS");
  if (!set.empty() && !(asked && *asked)) return {nullptr, own};
  const Library library =
      Library::open({"libopenblas.so.0", "libopenblas.so", "libmkl_rt.so.2", "libmkl_rt.so.1",
                     "libblis.so.4", "libblas.so.3", "libcblas.so.3"},
                    "HOTSLOT_BLAS");
  blas.sgemm = library.symbol<Sgemm>("sgemm_");
  if (blas.sgemm) blas.name = hold_to_one_thread(library);
  if (!blas.name.empty()) return blas;
  std::string why;
  if (library.named)
    why = library ? " (" + library.name + " has no sgemm_)" : " (" + library.reason + ")";
  return {nullptr, own + why};
}

const Blas& blas() {
  static const Blas opened = open_blas();
  return opened;
}

}  // namespace

const char* gemm_provider() { return blas().name.c_str(); }

bool gemm_blas(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, float alpha,
               const float* a, int64_t lda, const float* b, int64_t ldb, float beta, float* c,
               int64_t ldc) {
  const Sgemm sgemm = blas().sgemm;
  if (!sgemm) return false;
  // Fortran reads row-major matrices as transposed, so this computes Cᵀ = op(B)ᵀ·op(A)ᵀ.
  const int rows = int(n), columns = int(m), inner = int(k), left = int(ldb), right = int(lda),
            out = int(ldc);
  sgemm(trans_b ? "T" : "N", trans_a ? "T" : "N", &rows, &columns, &inner, &alpha, b, &left, a,
        &right, &beta, c, &out, 1, 1);
  return true;
}

}  // namespace hotslot
