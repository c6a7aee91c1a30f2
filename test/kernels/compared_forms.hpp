// What harnesses that execute an image share: they run each case of kernel_cases.hpp on the image
// and in the host form, and compare the bits. Each harness defines how it executes a launch.
#pragma once
#include <set>
#include <string>

#include "../native/check.hpp"
#include "kernel_cases.hpp"

struct Grid {
  size_t blocks, threads;
  // whether blocks, and threads between two barriers, run in a random order
  bool drawn;
};

// The harness defines these: the grids of each case, and one launch. In the launch, pointer 0 is
// pointer `same`. execute() returns an error other than wrong bytes, or an empty string.
std::vector<Grid> grids();
std::string execute(const Kernel& kernel, Buffers& buffers, const Words& wholes,
                    const std::vector<double>& reals, size_t same, const Grid& grid);

// Words after each tensor, which no kernel may change. Only for harnesses that do not check
// addresses themselves.
inline size_t guard_words = 0;

// Name of the only kernel to run, until its first failure. If empty, all kernels run.
inline std::string only;
inline std::set<std::string> covered;

// The host's products add in another order than those of devices, so products are compared with
// product.gk, compiled for the host.
namespace host {
#include "kernels/functions.gk"
#include "kernels/unary.gk"

#include "kernels/product.gk"

inline const Kernel* product(const Kernel& kernel) {
#define HOTSLOT_PRODUCT(name) host_kernel<decltype(name), name>(#name, kernel.need)
  static const Kernel all[] = {HOTSLOT_PRODUCT(gemm), HOTSLOT_PRODUCT(gemm_batched),
                               HOTSLOT_PRODUCT(linear_act), HOTSLOT_PRODUCT(linear_backward),
                               HOTSLOT_PRODUCT(linear_gradients)};
#undef HOTSLOT_PRODUCT
  for (const Kernel& each : all)
    if (std::strcmp(each.name, kernel.name) == 0) return &each;
  return nullptr;
}
}  // namespace host

// Runs both forms on the same random numbers and compares the results. If `same` is above 0,
// pointer 0 is that pointer too.
inline void compare_forms(const Kernel* kernel, KernelArgs args, const Reach* reach,
                          const Words& wholes, const std::vector<double>& reals,
                          const std::function<void(Buffers&)>& prepare, size_t same) {
  const char* const name = kernel->name;
  Buffers start;
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (int i = 0; i < kernel->pointers; i++) {
    start.emplace_back((reach[i].bytes + 3) / 4 + guard_words);
    for (uint32_t& word : start.back()) word = as_word(uniform(generator));
  }
  if (prepare) prepare(start);
  Buffers want(start);
  for (size_t i = 0; i < want.size(); i++) args.pointer[i] = want[i == 0 ? same : i].data();
  const Kernel* const product = host::product(*kernel);
  (product ? product : kernel)->run(&args);
  check(same || want != start, std::string(name) + " does something");
  for (const Grid& grid : grids()) {
    Buffers got(start);
    const auto in_words = [&] {
      return std::string(name) + " in " + std::to_string(grid.blocks) + " blocks of " +
             std::to_string(grid.threads) + (grid.drawn ? ", drawn" : "") +
             (same ? ", pointer 0 is pointer " + std::to_string(same) : "");
    };
    const std::string wrong = execute(*kernel, got, wholes, reals, same, grid);
    if (!wrong.empty()) return check(false, in_words() + ": " + wrong);
    for (size_t b = 0; b < got.size(); b++)
      for (size_t i = 0; i < got[b].size(); i++)
        if (got[b][i] != want[b][i] &&
            // Arithmetic does not define the sign and the payload of a NaN.
            !(std::isnan(as_float(got[b][i])) && std::isnan(as_float(want[b][i])))) {
          char text[100];
          std::snprintf(text, sizeof text, ": pointer %zu[%zu] is %.9g, on the host %.9g", b, i,
                        as_float(got[b][i]), as_float(want[b][i]));
          return check(false, in_words() + text);
        }
  }
}

inline void compare_forms(const char* name, const Words& wholes, const std::vector<double>& reals,
                          const std::function<void(Buffers&)>& prepare) {
  const Kernel* kernel = find_kernel(name);
  if (!kernel) return check(false, std::string("the registry has ") + name);
  if (!only.empty() && (only != name || failures > 0)) return;
  KernelArgs args{};
  std::copy(wholes.begin(), wholes.end(), args.whole);
  std::copy(reals.begin(), reals.end(), args.real);
  Reach reach[max_pointers];
  const char* wrong = kernel->need(args, reach);
  if (wrong || int(wholes.size()) != kernel->wholes || int(reals.size()) != kernel->reals)
    return check(false, std::string(name) + " takes these arguments: " +
                            (wrong ? wrong : "another number of them"));
  uint64_t bytes = 0;
  for (int i = 0; i < kernel->pointers; i++) bytes += reach[i].bytes;
  if (brief && bytes > 1 << 18) return;
  covered.insert(name);
  compare_forms(kernel, args, reach, wholes, reals, prepare, 0);
  for (int i = 1; i < kernel->pointers; i++) {
    if (!(kernel->in_place >> i & 1) || !reach[0].same_rows(reach[i])) continue;
    covered.insert(std::string(name) + " over pointer " + std::to_string(i));
    compare_forms(kernel, args, reach, wholes, reals, prepare, size_t(i));
  }
}

// Checks that every kernel was run, also with its output over each input that allows it.
inline void check_covered() {
  for (const Kernel& kernel : all_kernels()) {
    bool test = false;
    for (const Kernel& other : test_kernels()) test |= std::strcmp(other.name, kernel.name) == 0;
    check(test || covered.count(kernel.name), std::string(kernel.name) + " is compared");
    for (int i = 1; i < kernel.pointers; i++) {
      const std::string over = std::string(kernel.name) + " over pointer " + std::to_string(i);
      check(!(kernel.in_place >> i & 1) || covered.count(over), over + " is compared");
    }
  }
}
