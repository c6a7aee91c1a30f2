// Compares the loops of the priority tree: every vector width with the narrowest, and with plain
// code. Prints each error and returns 1. Build it in the project's root:
//   g++ -std=c++17 -O2 -ffp-contract=off -Inative -Itest/native test/native/tree_harness.cpp
#include <cstdio>
#include <random>
#include <vector>

#include "rows/tree_kernels.cpp"

using namespace hotslot::rows;

namespace {

int wrongs = 0;
void wrong(const char* what, double got, double wanted) {
  if (++wrongs <= 10) std::printf("%s: %.17g, not %.17g\n", what, got, wanted);
}

std::vector<TreeKernels> widths() {
  std::vector<TreeKernels> all{{loops::by_2::descend, loops::by_2::make, loops::by_2::power}};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2"))
    all.push_back({loops::by_4::descend, loops::by_4::make, loops::by_4::power});
  if (__builtin_cpu_supports("avx512f"))
    all.push_back({loops::by_8::descend, loops::by_8::make, loops::by_8::power});
#endif
  return all;
}

bool same(double a, double b) { return std::memcmp(&a, &b, 8) == 0; }

using Dice = std::mt19937_64;
double between(Dice& dice, double low, double high) {
  return std::uniform_real_distribution<double>(low, high)(dice);
}

// Compares powers with those of long double, over the whole range of doubles.
void powers(const std::vector<TreeKernels>& all, Dice& dice) {
  const double ends[] = {0, 5e-324,    2.2e-308,  2.3e-308, 1e-300,
                         1, 1 - 1e-16, 1 + 1e-15, 1e300,    1.7e308};
  for (const double y :
       {0.0, 1.0, 0.6, 0.4, -0.4, -1.0, 0.5, 2.0, -0.7312, 7.3, 1e-3, 50.0, 1e300}) {
    for (int round = 0; round < 400; ++round) {
      const uint64_t count = 1 + dice() % draws_at_once;
      const double span = round % 2 ? 16 : 1000;
      double x[draws_at_once] = {}, first[draws_at_once];
      for (uint64_t i = 0; i < count; ++i)
        x[i] = dice() % 8 == 0 ? ends[dice() % 10] : std::exp2(between(dice, -span, span));
      for (size_t w = 0; w < all.size(); ++w) {
        double power[draws_at_once];
        std::memcpy(power, x, sizeof(x));
        all[w].power(power, count, y);
        for (uint64_t i = 0; i < count; ++i) {
          if (w > 0 && !same(power[i], first[i]))
            wrong("the power of another width", power[i], first[i]);
          const long double wanted =
              std::pow(static_cast<long double>(x[i]), static_cast<long double>(y));
          const auto rounded = static_cast<double>(wanted);
          if (y == 0 || y == 1 || x[i] == 1) {
            if (!same(power[i], rounded)) wrong("a power that is exact", power[i], rounded);
          } else if (!std::isnormal(rounded)) {
            if (!(std::fabs(power[i] - rounded) <= 1e-320) && power[i] != rounded)
              wrong("an end", power[i], rounded);
          } else {
            const bool usual =
                std::fabs(y) <= 1 && rounded > std::exp2(-16) && rounded < std::exp2(16);
            if (!(std::fabs(power[i] - rounded) <= (usual ? 2e-15 : 1e-13) * rounded))
              wrong("a power", power[i], rounded);
          }
        }
        if (w == 0) std::memcpy(first, power, sizeof(power));
      }
    }
  }
}

// Computes nodes from their children: the sum in pairs, and the minimum without zeros. Then checks
// draws from the nodes down to the children.
void nodes(const std::vector<TreeKernels>& all, Dice& dice) {
  constexpr uint64_t count = 40;
  for (int round = 0; round < 2000; ++round) {
    std::vector<double> child(count * fan), least(count * fan);
    for (uint64_t i = 0; i < count * fan; ++i) {
      child[i] = dice() % 3 == 0 ? (dice() % 2 ? 0.0 : -0.0) : std::exp2(between(dice, -40, 40));
      least[i] = child[i] > 0 ? child[i] / 4 : loops::infinite;
    }
    std::vector<uint64_t> some;
    for (uint64_t n = 0; n < count; ++n)
      if (dice() % 2) some.push_back(n);
    const bool leaves = round % 2, listed = round % 4 < 2;
    for (const TreeKernels& kernels : all) {
      std::vector<double> sum(count, -1), low(count, -1);
      kernels.make(child.data(), leaves ? nullptr : least.data(), listed ? some.data() : nullptr,
                   listed ? some.size() : count, sum.data(), low.data());
      std::vector<bool> made(count, !listed);
      for (const uint64_t n : some) made[n] = true;
      for (uint64_t n = 0; n < count; ++n) {
        const double* c = child.data() + n * fan;
        const double total = ((c[0] + c[1]) + (c[2] + c[3])) + ((c[4] + c[5]) + (c[6] + c[7]));
        double lowest = loops::infinite;
        for (uint64_t i = 0; i < fan; ++i)
          if (c[i] > 0) lowest = std::min(lowest, leaves ? c[i] : c[i] / 4);
        if (!same(sum[n] + 0.0, made[n] ? total + 0.0 : -1)) wrong("a sum", sum[n], total);
        if (!same(low[n], made[n] ? lowest : -1)) wrong("a least", low[n], lowest);
      }
    }
    uint64_t first[draws_at_once];
    double from[draws_at_once] = {};
    for (size_t w = 0; w < all.size(); ++w) {
      uint64_t at[draws_at_once] = {};
      double mass[draws_at_once] = {};
      for (uint64_t i = 0; i < count; ++i) {
        at[i] = i;
        double total = 0;
        for (uint64_t k = 0; k < fan; ++k) total += child[i * fan + k];
        if (w == 0) from[i] = total * between(dice, 0, 1);
        mass[i] = from[i];
      }
      all[w].descend(child.data(), at, mass, count);
      for (uint64_t i = 0; i < count; ++i) {
        if (at[i] / fan != i)
          wrong("a child of another node", static_cast<double>(at[i] / fan),
                static_cast<double>(i));
        if (w > 0 && at[i] != first[i])
          wrong("the draw of another width", static_cast<double>(at[i]),
                static_cast<double>(first[i]));
        if (!(child[at[i]] > 0) && from[i] > 0) wrong("a draw of nothing", child[at[i]], from[i]);
        first[i] = at[i];
      }
    }
  }
}

}  // namespace

int main() {
  Dice dice(1);
  const std::vector<TreeKernels> all = widths();
  powers(all, dice);
  nodes(all, dice);
  std::printf("%zu widths, %d wrong\n", all.size(), wrongs);
  return wrongs > 0;
}
