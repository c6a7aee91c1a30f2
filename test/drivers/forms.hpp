// Finds the host form of the kernels that a software driver launches. The core has the host forms
// of its own kernels. The host forms of a program's own kernels are in shared libraries
// (kernels/library.h). HOTSLOT_SOFTWARE_KERNELS names the libraries, with colons between them.
#pragma once
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "kernels/halo.hpp"

namespace hotslot::software {

inline const char* need_unknown(const KernelArgs&, Reach*) { return nullptr; }

// Returns whether a program brought the kernel. The driver does not know how many bytes such a
// kernel touches.
inline bool brought(const Kernel& kernel) { return kernel.need == need_unknown; }

// Returns whether the detector (order.hpp) ignores the kernel. The bytes of a program's kernel are
// unknown. A kernel that holds its stream reads a word that another writer stores meanwhile.
inline bool unseen(const Kernel& kernel) { return brought(kernel) || kernel.may_hold; }

inline const Kernel* brought_form(const std::string& name) {
  static std::mutex lock;
  static auto& kernels =
      *new std::deque<Kernel>;  // never destroyed: threads read it while the process ends
  static std::map<std::string, const Kernel*> known;
  std::lock_guard guard(lock);
  if (const auto found = known.find(name); found != known.end()) return found->second;
  const char* paths = std::getenv("HOTSLOT_SOFTWARE_KERNELS");
  const std::string all = paths ? paths : "";
  for (size_t from = 0; from < all.size();) {
    const size_t to = std::min(all.find(':', from), all.size());
    void* library = dlopen(all.substr(from, to - from).c_str(), RTLD_NOW | RTLD_LOCAL);
    const auto* list =
        library ? static_cast<const hotslot_kernel*>(dlsym(library, "hotslot_kernels_1")) : nullptr;
    for (; list && list->name; ++list)
      if (name == list->name) {
        kernels.push_back({list->name, int(std::strlen(list->tensors)), list->wholes, list->reals,
                           need_unknown, list->run});
        return known[name] = &kernels.back();
      }
    from = to + 1;
  }
  return nullptr;
}

// Returns a halo kernel that runs its moves from the last to the first. On a GPU the threads of a
// launch run in any order, so moves that write the same element leave either value. The host form
// runs the moves in the table's order.
template <int bits>
const Kernel* last_move_first() {
  static const Kernel* const own = find_kernel(("halo" + std::to_string(bits)).c_str());
  static const Kernel reversed = [] {
    Kernel kernel = *own;
    kernel.run = [](const KernelArgs* given) {
      const auto* moves = static_cast<const HaloMove*>(given->pointer[1]);
      std::vector<HaloMove> last_first(moves, moves + given->whole[0]);
      std::reverse(last_first.begin(), last_first.end());
      KernelArgs args = *given;
      args.pointer[1] = last_first.data();
      return own->run(&args);
    };
    return kernel;
  }();
  return &reversed;
}

// Returns a float with the 10 explicit mantissa bits of TF32. Rounds to the nearest, and ties to
// even. Infinities and NaN stay.
inline float rounded_to_tf32(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  if ((bits & 0x7f800000u) == 0x7f800000u) return x;
  bits += 0xfffu + (bits >> 13 & 1u);
  bits &= ~0x1fffu;
  memcpy(&x, &bits, sizeof x);
  return x;
}

// Returns `gemm` or `gemm_batched` with operands that are rounded to TF32, which the tests' cuBLAS
// launches. Each product gets rounded copies of A and B.
template <bool batched>
const Kernel* in_tf32() {
  static const Kernel* const one = find_kernel("gemm");
  static const Kernel rounding = [] {
    Kernel kernel = *find_kernel(batched ? "gemm_batched" : "gemm");
    kernel.run = [](const KernelArgs* given) -> const char* {
      const int64_t* const sizes = given->whole + (batched ? 3 : 2);
      const int64_t m = sizes[0], n = sizes[1], k = sizes[2], batch = batched ? given->whole[2] : 1;
      for (int64_t p = 0; p < batch; ++p) {
        KernelArgs args = *given;
        std::copy(sizes, sizes + 6, args.whole + 2);
        std::vector<float> copies[2];
        for (int i = 0; i < 2; ++i) {
          const bool transposed = given->whole[i] != 0;
          const int64_t rows = i == 0       ? (transposed ? k : m)
                               : transposed ? n
                                            : k,
                        columns = i == 0       ? (transposed ? m : k)
                                  : transposed ? k
                                               : n;
          const auto* from = static_cast<const float*>(given->pointer[1 + i]) +
                             (batched ? p * given->whole[9 + i] : 0);
          for (int64_t row = 0; row < rows; ++row)
            for (int64_t column = 0; column < columns; ++column)
              copies[i].push_back(rounded_to_tf32(from[row * sizes[3 + i] + column]));
          args.pointer[1 + i] = copies[i].data();
          args.whole[5 + i] = columns;
        }
        args.pointer[0] =
            static_cast<float*>(given->pointer[0]) + (batched ? p * given->whole[11] : 0);
        if (const char* failed = one->run(&args)) return failed;
      }
      return nullptr;
    };
    return kernel;
  }();
  return &rounding;
}

inline const Kernel* form_of(const std::string& name) {
  if (name == "gemm_tf32") return in_tf32<false>();
  if (name == "gemm_batched_tf32") return in_tf32<true>();
  if (name == "halo8") return last_move_first<8>();
  if (name == "halo16") return last_move_first<16>();
  if (name == "halo32") return last_move_first<32>();
  if (name == "halo64") return last_move_first<64>();
  const Kernel* const own = find_kernel(name.c_str());
  return own ? own : brought_form(name);
}

}  // namespace hotslot::software
