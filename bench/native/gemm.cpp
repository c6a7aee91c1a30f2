// Times matrix products in turn: Hotslot's on one core, Hotslot's shared with idle cores, and
// OpenBLAS's on one thread. Arguments: rounds, then m, n, k and a number for each shape (1: A is
// stored transposed, 2: B is). Prints a JSON line for each shape, with the microseconds of each
// round.
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "kernels/gemm.hpp"
#include "wait/core_pool.hpp"

using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int,
                       float, float*, int);

template <class Act>
double microseconds(int calls, const Act& act) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; i++) act();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
             .count() /
         calls;
}

void print(const char* name, const std::vector<double>& times, const char* behind) {
  std::printf("\"%s\":[", name);
  for (size_t i = 0; i < times.size(); i++) std::printf("%s%.4g", i ? "," : "", times[i]);
  std::printf("]%s", behind);
}

int main(int count, char** arguments) {
  hotslot::IdleCores::use(hotslot::CorePool::table_of_process());
  void* const library = dlopen("libopenblas.so.0", RTLD_NOW);
  const auto sgemm = library ? reinterpret_cast<Sgemm>(dlsym(library, "cblas_sgemm")) : nullptr;
  const auto threads =
      library ? reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads"))
              : nullptr;
  const auto core =
      library ? reinterpret_cast<char* (*)()>(dlsym(library, "openblas_get_corename")) : nullptr;
  if (threads) threads(1);
  std::printf("{\"own\":\"%s\",\"core\":\"%s\"}\n", hotslot::gemm_builtin_set(),
              core ? core() : "");
  const int rounds = std::atoi(arguments[1]);
  for (int at = 2; at + 3 < count; at += 4) {
    const int m = std::atoi(arguments[at]), n = std::atoi(arguments[at + 1]),
              k = std::atoi(arguments[at + 2]);
    const bool ta = std::atoi(arguments[at + 3]) & 1, tb = std::atoi(arguments[at + 3]) & 2;
    std::vector<float> a(size_t(m) * size_t(k)), b(size_t(k) * size_t(n)), c(size_t(m) * size_t(n));
    for (auto* each : {&a, &b})
      for (float& x : *each) x = float(std::rand()) / float(RAND_MAX) - 0.5f;
    const hotslot::MatrixView left =
        ta ? hotslot::MatrixView{a.data(), 1, m} : hotslot::MatrixView{a.data(), k, 1};
    const hotslot::MatrixView right =
        tb ? hotslot::MatrixView{b.data(), 1, k} : hotslot::MatrixView{b.data(), n, 1};
    // So many calls that a round takes about half a millisecond.
    const int calls = std::max(1, int(2e7 / (double(m) * n * k)));
    std::vector<double> ours, shared, theirs;
    for (int round = -1; round < rounds; round++) {
      const double own = microseconds(
          calls, [&] { hotslot::gemm_builtin(m, n, k, 1, left, right, 0, c.data(), n); });
      const double both = microseconds(
          calls, [&] { hotslot::gemm_builtin(m, n, k, 1, left, right, 0, c.data(), n, 0, 1); });
      const double other =
          sgemm ? microseconds(calls,
                               [&] {
                                 sgemm(101, ta ? 112 : 111, tb ? 112 : 111, m, n, k, 1, a.data(),
                                       ta ? m : k, b.data(), tb ? k : n, 0, c.data(), n);
                               })
                : 0;
      if (round < 0) continue;
      ours.push_back(own);
      shared.push_back(both);
      if (sgemm) theirs.push_back(other);
    }
    std::printf("{");
    print("ours", ours, ","), print("shared", shared, ","), print("theirs", theirs, "}\n");
  }
}
