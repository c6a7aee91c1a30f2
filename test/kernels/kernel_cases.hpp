// Launches every kernel with each of its branches, for the harnesses that execute images:
// images_harness.cpp and opencl_harness.cpp.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include "kernels/gk.hpp"
#include "kernels/halo.hpp"
#include "kernels/kernel.hpp"

using namespace hotslot;

using Words = std::vector<int64_t>;
using Buffers = std::vector<std::vector<uint32_t>>;

inline std::mt19937 generator(11);

inline float as_float(uint32_t word) {
  float f;
  std::memcpy(&f, &word, 4);
  return f;
}
inline uint32_t as_word(float f) {
  uint32_t word;
  std::memcpy(&word, &f, 4);
  return word;
}

// Runs the image's kernel and the host form on the same random numbers, which `prepare` may change
// first, and compares the results. If the kernel may write its output over an input of the launch,
// that is also compared.
void compare_forms(const char* name, const Words& wholes, const std::vector<double>& reals,
                   const std::function<void(Buffers&)>& prepare = {});

inline void any_doubles(std::vector<uint32_t>& words) {
  for (size_t i = 0; i + 1 < words.size(); i += 2) {
    const double size =
        std::ldexp(1 + double(generator() >> 8) * 0x1p-24, int(generator() % 290) - 155);
    const double value = generator() % 2 ? size : -size;
    std::memcpy(&words[i], &value, 8);
    // Bits that a float has no room for: none, half of the last place, and the values next to half.
    constexpr uint32_t rests[] = {0, 0x10000000, 0x0fffffff, 0x10000001};
    if (i % 4 == 0) words[i] = (words[i] & 0xe0000000) | rests[generator() % 4];
  }
}

// Moves five parts of three arrays, in both directions, some reversed and one with its sign
// changed. Buffers have whole words.
inline void compare_halo(const char* name) {
  const std::vector<HaloMove> moves = {
      {0, 0, 0, 24, 100, 3, {{2, 25}, {3, -5}, {4, 1}}},
      {1, 2, 24, 20, 3, 2, {{4, 7}, {5, 30}}},
      {2, 1, 44, 12, 40, 2, {{3, -10}, {4, -1}}},
      {1, 0, 56, 1, 159, 0, {}},
      {9, 2, 57, 7, 6, 1, {{7, -1}}},
  };
  const Words wholes = {int64_t(moves.size()), 64, 160, 160, 80, 4, 4, 4, 4, 4, 4, 16};
  compare_forms(name, wholes, {}, [&](Buffers& b) {
    std::memcpy(b[1].data(), moves.data(), moves.size() * sizeof(HaloMove));
  });
}

// With `brief`, fewer grids and shapes run, and no case with many elements.
inline bool brief = false;

// True while a case has a million steps, which a simulator runs in only one grid.
inline bool many_steps = false;

// Converts random bits of every element type. Doubles are mostly of a size that floats also have,
// with ties.
inline void compare_convert() {
  const auto any = [](Buffers& b) {
    for (uint32_t& word : b[1]) word = uint32_t(generator());
  };
  const auto doubles = [](Buffers& b) { any_doubles(b[1]); };
  for (int64_t type = 0; type < int64_t(std::size(element_types)); type++)
    for (const std::vector<double>& factors : {std::vector<double>{1, 0}, {1.0 / 255, -0.5}}) {
      compare_forms("convert", {13, 17, 20, 18, type}, factors, any);
      compare_forms("convert", {1, 1031, 1031, 1031, type}, factors, any);
      if (element_types[type].bytes == 4)
        compare_forms("convert", {13, 17, 20, 20, type}, factors, any);
      if (type == GK_FLOAT64) compare_forms("convert", {13, 17, 20, 18, type}, factors, doubles);
    }
}

inline void compare_ops() {
  // Numbers up to where exponentials overflow, and some NaN.
  const auto wide = [](Buffers& b) {
    for (size_t k = 1; k < b.size(); k++)
      for (size_t i = 0; i < b[k].size(); i++)
        b[k][i] = i % 23 == 5   ? as_word(NAN)
                  : i % 29 == 3 ? as_word(-0.0f)
                                : as_word(100 * as_float(b[k][i]));
  };
  // Every exponent, and so every word of 2/π.
  const auto any = [](Buffers& b) {
    for (size_t i = 0; i < b[1].size(); i++) b[1][i] = uint32_t(generator());
    b[1][0] = as_word(INFINITY), b[1][1] = as_word(-0.0f);
  };
  for (int64_t op = 0; op <= 20; op++) {
    compare_forms("unary", {13, 17, 20, 18, op}, {});
    compare_forms("unary", {13, 17, 20, 18, op}, {}, wide);
    compare_forms("unary_backward", {13, 17, 20, 18, 17, op}, {}, wide);
    compare_forms("unary", {13, 17, 20, 20, op}, {}, wide);
    compare_forms("unary_backward", {13, 17, 20, 20, 20, op}, {}, wide);
    if (op > 16) compare_forms("unary", {13, 37, 40, 38, op}, {}, any);
  }
  // Powers of every kind: whole numbers, halves, fractions, and large ones.
  constexpr int64_t pow = 12;
  compare_forms("binary", {13, 37, 40, 38, 1, 39, 1, pow}, {}, [](Buffers& b) {
    const float degrees[] = {0, 1, 2, -3, 0.5f, -1.5f, 2.7f, -0.1f, 1e5f, 3e9f, INFINITY, NAN};
    const float bases[] = {0, -0.0f, 1, -1, INFINITY, -INFINITY, NAN, -2};
    for (size_t i = 0; i < b[1].size(); i++)
      b[1][i] = as_word(generator() % 3 ? 4 * as_float(b[1][i]) : bases[generator() % 8]);
    for (uint32_t& word : b[2]) word = as_word(degrees[generator() % 12]);
  });
  for (int64_t op = 0; op <= 13; op++)
    for (const Words& steps : {Words{18, 1, 19, 1},
                               {0, 1, 3, 0},
                               {2, 0, 0, 1},
                               {0, 0, 18, 1},
                               {17, 1, 0, 0},
                               {20, 1, 20, 1}})
      compare_forms("binary", {13, 17, 20, steps[0], steps[1], steps[2], steps[3], op}, {}, wide);
  for (const Words& wholes :
       {Words{13, 17, 20, 0, 1, 18, 1, 3, 0}, {13, 17, 20, 20, 1, 20, 1, 20, 1}})
    compare_forms("where", wholes, {}, [](Buffers& b) {
      for (size_t i = 0; i < b[1].size(); i += 2) b[1][i] = 0;
    });
  for (int64_t stride : {18, 20}) compare_forms("clip", {13, 17, 20, stride}, {-30, 40}, wide);
  // Rows shorter than, as long as, and longer than the lanes. compare_rows has more.
  const Words widths = brief ? Words{1, 5, 32, 77} : Words{1, 5, 32, 77, 130};
  for (int64_t columns : widths) {
    for (int64_t op = 0; op <= 5; op++)
      compare_forms("reduce_rows", {9, columns, 2, columns + 3, op}, {0.5});
    for (int64_t pieces : {1, 7, 65})
      compare_forms("sum_long", {3, pieces, columns, 2, pieces * columns + 3}, {0.5});
    for (int64_t logarithm : {0, 1}) {
      compare_forms("softmax_rows", {9, columns, columns, columns + 3, logarithm}, {}, wide);
      compare_forms("softmax_rows", {9, columns, columns + 3, columns + 3, logarithm}, {}, wide);
    }
  }
  for (int64_t columns : widths) {
    compare_forms("layer_norm", {9, columns, columns + 2, columns + 3}, {1e-5});
    compare_forms("layer_norm", {9, columns, columns + 3, columns + 3}, {1e-5});
    compare_forms("layer_norm_backward",
                  {9, columns, columns + 2, columns, columns + 1, columns + 3}, {});
    compare_forms("layer_norm_backward",
                  {9, columns, columns + 1, columns, columns + 1, columns + 3}, {});
  }
  if (!brief) compare_forms("sum_long", {2, 1024, 16, 1, 1024 * 16}, {0.5});
  compare_forms("sum_long", {4, 4, 512, 1, 2048}, {1});
  const auto some = [](Buffers& b) {
    for (uint32_t& word : b[0]) word = as_word(3 * as_float(word));
  };
  const int64_t width = brief ? 33 : 77;
  for (int64_t op : {-1, 9, 10, 12, 13, 14, 15, 16, 18, 20}) {
    compare_forms("norm_act", {9, width, width + 2, width + 3, op}, {1e-5}, some);
    compare_forms("norm_act_backward", {9, width, width + 1, width, width + 2, width + 3, op}, {},
                  some);
    compare_forms("norm_act_backward", {9, width, width + 3, width, width + 2, width + 3, op}, {},
                  some);
  }
  compare_forms("scatter_columns", {33, 6, 7, 2, 3}, {}, [](Buffers& b) {
    for (size_t i = 0; i < b[2].size(); i++) b[2][i] = as_word(float(i / 3 % 8) - 1);
  });
}

inline void compare_learners() {
  const auto wide = [](Buffers& b) {
    for (size_t k = 1; k < b.size(); k++)
      for (uint32_t& word : b[k]) word = as_word(4 * as_float(word));
  };
  for (int64_t correction : {0, 1, 2, 3}) {
    const int64_t form = correction % 2, apart = correction / 2 * 2;
    // Half widths and arguments of logarithms are above 0.
    const auto boxed = [&](size_t box) {
      return [=](Buffers& b) {
        wide(b);
        for (uint32_t& word : b[box]) word = as_word(std::fabs(as_float(word)) + 0.1f);
      };
    };
    compare_forms("squashed_gaussian", {13, 3, 5, 7, form, correction}, {-5, 2, 1e30}, boxed(4));
    for (int64_t n : {3, 32, 37})
      compare_forms("squashed_gaussian_rows", {13, n, n + 2, 2 * n + 1, form, correction},
                    {-5, 2, 1e30}, boxed(4));
    compare_forms("squashed_gaussian_backward", {13, 3, 6, 7, 4, apart, form, correction},
                  {-1, 0.5, 2, 0.25}, boxed(3));
  }
  for (int64_t atoms : {2, 37}) {
    compare_forms("categorical_project", {9, atoms, 1, 2, 0, 9, 9, 1}, {-1, 2}, wide);
    compare_forms("categorical_project", {9, atoms, 2, 1, 1, 3, 4, 9}, {-1, 2}, wide);
    compare_forms("categorical_project", {9, atoms, 3, 1, 1, 9, 9, 9}, {-10, 10}, [&](Buffers& b) {
      wide(b);
      b[3][6] = as_word(NAN);
    });
    compare_forms("categorical_target", {9, atoms, atoms + 2, 1, 2, 0, 9, 9, 1}, {-1, 2}, wide);
    compare_forms("categorical_target", {9, atoms, atoms, 2, 1, 3, 3, 4, 9}, {-1, 2}, wide);
    for (double least : {-1e30, -2.0})
      compare_forms("categorical_loss", {9, atoms, atoms + 1, 2, atoms + 3, 0, 9, 9},
                    {least, 0.1, -1, 2}, wide);
    for (int64_t targets : {3, 9})
      compare_forms("categorical_loss", {9, atoms, atoms, 1, atoms, 2, targets, 3},
                    {-30, 0.1, -10, 10}, wide);
    compare_forms("categorical_mean", {9, atoms, 2, atoms + 1}, {-1, 2}, wide);
    for (int64_t apart : {0, 2})
      compare_forms("categorical_mean_backward", {9, atoms, atoms + 2, apart, atoms + 1, 3},
                    {-1, 2}, wide);
  }
  for (uint32_t counter : {0u, 9u})
    compare_forms("count_non_finite", {300, 4, 3}, {}, [=](Buffers& b) {
      for (uint32_t& word : b[0]) word = 0;
      b[1][3] = as_word(NAN), b[1][70] = as_word(-INFINITY), b[1][299] = as_word(INFINITY);
      b[2] = {4, 4, 200, 400}, b[3][0] = counter;
    });
  const auto statistics = [](Buffers& b) {
    for (size_t k : {1u, 4u})
      for (uint32_t& word : b[k]) word = as_word(std::fabs(as_float(word)));
    b[5][0] = 77, b[5][1] = 0;
  };
  for (int64_t form : {0, 1})
    compare_forms("moments", {67, 32, form, form}, {form ? 0 : 1e-4, 1e-2}, statistics);
  compare_forms("moments_advance", {32}, {},
                [](Buffers& b) { b[0][0] = UINT32_MAX - 5, b[0][1] = 3; });
}

// Kernels of a batch or an ensemble, with every function, with and without gaps.
inline void compare_batched() {
  const auto wide = [](Buffers& b) {
    for (uint32_t& word : b[2]) word = as_word(12 * as_float(word));
  };
  for (int64_t op = -1; op <= 20; op++) {
    compare_forms("bias_act_batched", {3, 5, 7, 8, 9, 45, 60, 10, op}, {}, wide);
    compare_forms("bias_act_batched", {3, 5, 7, 8, 8, 45, 45, 0, op}, {}, wide);
    compare_forms("norm_act_batched", {9, 33, 35, 36, op, 4, 34}, {1e-5});
    compare_forms("norm_act_backward_batched", {9, 33, 100, 35, 36, op, 4, 34}, {});
  }
  compare_forms("bias_act_batched", {10, 1, 1, 1, 1, 1, 0, 1, 12}, {}, wide);
  for (const auto& s : {Words{1, 1, 1}, {10, 1, 1}, {3, 9, 5}, {2, 65, 17}, {4, 513, 9}}) {
    const int64_t stride = s[2] + s[1] % 2 * 3;
    for (double beta : {0.0, 0.5})
      compare_forms("column_sums_batched",
                    {s[0], s[1], s[2], stride, s[0] == 10 ? 0 : s[1] * stride + 2, s[2] + 1},
                    {0.25, beta});
  }
  // Rows that do not fill a block, of members of one row, of members that do not fill a block, and
  // of one member. A row that registers cannot keep.
  std::vector<Words> shapes = {{9, 33, 1}, {17, 5, 3}, {9, 32, 20}, {1, 1, 1}, {3, 513, 2}};
  for (int i = 0; !brief && i < 5; i++)
    shapes.push_back({1 + generator() % 20, 1 + generator() % 600, 1 + generator() % 7});
  for (const Words& s : shapes) {
    const int64_t rows = s[0], n = s[1], op = int64_t(generator() % 22) - 1;
    for (int64_t p_batch : {int64_t(0), n, 3 * n + 1}) {
      compare_forms("norm_act_batched", {rows, n, n + 2, n + 3, op, s[2], p_batch}, {1e-5});
      compare_forms("norm_act_backward_batched",
                    {rows, n, 3 * n + 1, n + 2, n + 3, op, s[2], p_batch}, {});
    }
  }
}

// Rows that do not fill a block. Row lengths around the number of lanes, as wide as a thread's
// registers hold, and wider.
inline void compare_rows() {
  const auto odd = [](Buffers& b) {
    for (size_t k = 1; k < b.size(); k++)
      for (size_t i = 0; i < b[k].size(); i++)
        if (generator() % 97 == 0)
          b[k][i] = as_word(generator() % 3 == 0   ? NAN
                            : generator() % 2 == 0 ? INFINITY
                                                   : -INFINITY);
        else
          b[k][i] = as_word(3 * as_float(b[k][i]));
  };
  const auto finite = [](Buffers& b) {
    for (size_t k = 1; k < b.size(); k++)
      for (uint32_t& word : b[k]) word = as_word(3 * as_float(word));
  };
  const auto ties = [](Buffers& b) {
    for (size_t i = 0; i < b[2].size(); i++)
      b[2][i] = as_word(generator() % 5 == 0 ? NAN : float(int(generator() % 4)) - 2.0f);
  };
  std::vector<std::pair<int64_t, int64_t>> shapes = {{9, 33}, {1, 513}};
  if (!brief) shapes.insert(shapes.end(), {{1, 1}, {9, 31}, {17, 32}, {3, 512}, {2, 1025}});
  for (int i = 0; !brief && i < 5; i++)
    shapes.push_back({1 + generator() % 20, 1 + generator() % 1200});
  std::vector<std::function<void(Buffers&)>> inputs = {odd};
  if (!brief) inputs.push_back(finite);
  for (const auto& [rows, columns] : shapes)
    for (const auto& values : inputs) {
      for (int64_t op = 0; op <= 5; op++)
        compare_forms("reduce_rows", {rows, columns, 2, columns + 3, op}, {0.5}, values);
      for (int64_t logarithm : {0, 1})
        compare_forms("softmax_rows", {rows, columns, columns + 1, columns + 3, logarithm}, {},
                      values);
      // Rows that are −∞ throughout, or at single elements, and the probabilities of such rows.
      const auto masked = [&, width = size_t(columns)](Buffers& b) {
        values(b);
        for (size_t i = 0; i < b.back().size(); i++)
          if (i / (width + 3) % 2 == 1 || i % 5 == 2) b.back()[i] = as_word(-INFINITY);
      };
      const auto zeros = [&](Buffers& b) {
        values(b);
        for (size_t i = 2; i < b.back().size(); i += 5) b.back()[i] = 0;
      };
      for (int64_t logarithm : {0, 1}) {
        compare_forms("softmax_rows", {rows, columns, columns + 1, columns + 3, logarithm}, {},
                      masked);
        for (int64_t stride : {columns + 3, columns + 1})
          compare_forms("softmax_rows_backward",
                        {rows, columns, columns + 1, stride, columns + 3, logarithm}, {},
                        logarithm ? std::function<void(Buffers&)>(masked) : zeros);
      }
      compare_forms("layer_norm", {rows, columns, columns + 2, columns + 3}, {1e-5}, values);
      compare_forms("layer_norm_backward",
                    {rows, columns, columns + 2, columns, columns + 1, columns + 3}, {}, values);
      const auto op = int64_t(generator() % 22) - 1;
      compare_forms("norm_act", {rows, columns, columns + 2, columns + 3, op}, {1e-5}, values);
      compare_forms("norm_act_backward",
                    {rows, columns, columns + 1, columns, columns + 2, columns + 3, op}, {},
                    values);
      if (columns > 1) {
        compare_forms("categorical_loss",
                      {rows, columns, columns + 1, 2, columns + 3, 1, rows, rows},
                      {-30, 0.1, -10, 10}, values);
        compare_forms("categorical_mean", {rows, columns, 2, columns + 1}, {-1, 2}, values);
        compare_forms("categorical_mean_backward", {rows, columns, columns + 2, 2, columns + 1, 3},
                      {-1, 2}, values);
      }
      compare_forms("argmax_rows", {rows, columns, columns + 1}, {}, values);
      compare_forms("argmax_rows", {rows, columns, columns + 1}, {}, ties);
    }
  // Discounts and rewards of every kind. A block has room for eight rows of 128 atoms, but not for
  // one row of more than 1,024. Such a row needs a loop over all atoms for each atom, so one row in
  // a few grids is enough.
  for (int64_t atoms : brief ? Words{5, 51, 129, 1025} : Words{2, 5, 51, 101, 128, 129, 513}) {
    const auto rows = size_t(atoms > 1024 ? 1 : atoms > 512 ? 2 : 20);
    many_steps = atoms > 1024;
    const auto all = int64_t(rows);
    const auto awkward = [&](Buffers& b) {
      const float discounts[] = {0.97f, 0, NAN, INFINITY, -0.9f, 1e-3f, 2.5f, 1, -0.0f, -INFINITY};
      const float rewards[] = {NAN, INFINITY, -INFINITY, 1e30f};
      for (size_t i = 0; i < rows; i++) {
        b[4][i] = as_word(discounts[i % 10]);
        b[3][i] = as_word(i < 10       ? 5 * as_float(b[3][i])
                          : i % 5 == 4 ? rewards[i / 5]
                                       : 0.25f * float(i));
        if (i % 7 == 6) b[5][i] = as_word(i == 6 ? NAN : -INFINITY);
      }
      for (size_t at : {size_t(atoms) + 1, size_t(5 * atoms)})
        if (at < b[2].size()) b[2][at] = as_word(NAN);
    };
    compare_forms("categorical_project", {all, atoms, 1, 1, 1, all, all, all}, {-10, 10}, awkward);
    if (atoms <= 1024)
      compare_forms("categorical_target", {all, atoms, atoms, 1, 1, 1, all, all, all}, {-10, 10},
                    [&](Buffers& b) {
                      awkward(b);
                      // A row that is −∞ throughout, and others with single elements of −∞.
                      for (size_t k = 0; k < size_t(atoms); k++)
                        b[2][(rows - 1) * size_t(atoms) + k] = as_word(-INFINITY);
                      for (size_t k = 3; k < size_t(2 * atoms); k += 4)
                        b[2][k] = as_word(-INFINITY);
                    });
    many_steps = false;
  }
}

// Kernels of traced functions: copies, selections, sorts, draws and gradients.
inline void compare_traced() {
  // The old output is NaN, which beta 0 does not read.
  const auto stale = [](Buffers& b) {
    for (uint32_t& word : b[0]) word = as_word(NAN);
  };
  // With beta, the output has numbers.
  const auto kept = [&](double beta) {
    return beta == 0 ? std::function<void(Buffers&)>(stale) : [](Buffers&) {};
  };
  // The last two have many elements.
  std::vector<Words> layouts = {
      {2, 3, 4, 5, 60, 20, 5, 1, 60, 20, 5, 1},    {1, 3, 4, 5, 60, 1, 3, 12, 60, 20, 5, 1},
      {2, 3, 4, 5, 60, 20, 5, 1, 0, 1, 0, 3},      {2, 3, 4, 5, 70, 21, 5, 1, 12, 4, 1, 0},
      {2, 3, 4, 5, 61, 20, 5, 1, -60, 20, -5, -1}, {2, 3, 4, 5, 200, 60, 12, 2, 90, 30, 7, 1},
      {1, 1, 1, 1, 0, 0, 0, 0, -7, 0, 3, 1},       {3, 1, 2, 1, 2, 0, 1, 0, 1, 9, 3, -4},
      {1, 1, 1, 1031, 9, 9, 9, 1, 0, 0, 0, -1},    {7, 13, 1, 33, 429, 33, 0, 1, 1, 7, 5, 91}};
  if (brief) layouts.resize(layouts.size() - 2);
  for (const Words& layout : layouts)
    for (double beta : {0.0, 0.5}) compare_forms("copy4d", layout, {beta}, kept(beta));
  // Indices from −1 to n, fractions, NaN and infinities.
  const auto selecting = [&](int64_t n, double beta) {
    return [=](Buffers& b) {
      kept(beta)(b);
      const float others[] = {NAN, INFINITY, -INFINITY, -0.0f, 0.5f, -0.5f};
      for (size_t i = 0; i < b[2].size(); i++)
        b[2][i] = as_word(i % 11 == 7 ? others[i / 11 % 6]
                                      : float(int64_t(generator() % uint32_t(n + 2)) - 1));
    };
  };
  for (const auto& s : {Words{33, 5, 6, 0}, {17, 1, 3, 3}, {9, 33, 4, 5}, {1, 1, 1, 0}})
    compare_forms("take_rows", {s[0], s[1], s[2], s[1] + 2, s[1] + 1, 2, s[3]}, {},
                  selecting(s[2], 1));
  for (double beta : {0.0, 0.5}) {
    for (const auto& s : {Words{33, 5, 6}, {130, 1, 3}, {9, 33, 4}, {1, 1, 1}, {5, 300, 60}})
      if (!brief || s[1] < 300)
        compare_forms("take_rows_backward", {s[0], s[1], s[2], s[1] + 1, s[1] + 2, 2}, {beta},
                      selecting(s[2], beta));
    for (const auto& s : {Words{33, 6, 1, 1}, {33, 4, 5, 7}, {9, 3, 2, 0}, {1, 1, 1, 0}})
      compare_forms("pick_backward", {s[0], s[1], s[2], s[1] * s[2] + 1, s[3], 3}, {beta},
                    selecting(s[1], beta));
  }
  // Small whole numbers, of which many are equal, with NaN, infinities and −0.
  const auto equal = [](Buffers& b) {
    const float others[] = {NAN, INFINITY, -INFINITY, -0.0f};
    for (size_t k = 1; k < b.size(); k++)
      for (size_t i = 0; i < b[k].size(); i++)
        b[k][i] = as_word(generator() % 9 == 0 ? others[generator() % 4]
                                               : float(int(generator() % 7)) - 3);
  };
  for (int64_t op = 0; op <= 3; op++)
    for (const Words& steps : {Words{21, 1, 18, 1, 19, 1},
                               {0, 1, 18, 1, 3, 0},
                               {18, 1, 0, 0, 18, 1},
                               {0, 0, 2, 0, 0, 1},
                               {20, 1, 20, 1, 20, 1}})
      compare_forms("binary_backward",
                    {13, 17, 20, steps[0], steps[1], steps[2], steps[3], steps[4], steps[5], op},
                    {}, equal);
  compare_forms("clip_backward", {13, 17, 20, 18, 19}, {-1, 2}, equal);
  compare_forms("clip_backward", {13, 17, 20, 20, 20}, {-INFINITY, 1}, equal);
  for (int64_t reverse : {0, 1})
    for (const auto& s : {Words{3, 7, 5}, {4, 33, 1}, {1, 1, 130}, {2, 2, 1}})
      compare_forms("cumsum", {s[0], s[1], s[2], reverse}, {}, [](Buffers& b) {
        for (size_t i = 0; i < b[1].size(); i += 7) b[1][i] = as_word(i % 2 ? -0.0f : INFINITY);
      });
  const auto permuted = [](int64_t rows, int64_t columns, int64_t stride) {
    return [=](Buffers& b) {
      for (int64_t i = 0; i < rows; i++) {
        std::vector<int64_t> order;
        for (int64_t j = 0; j < columns; j++) order.push_back(j);
        std::shuffle(order.begin(), order.end(), generator);
        for (int64_t j = 0; j < columns; j++)
          b[2][size_t(i * stride + j)] = as_word(float(order[size_t(j)]));
      }
      // One index is outside, so one element keeps its old value.
      if (rows * columns > 1) b[2][0] = as_word(columns % 2 ? NAN : float(columns));
    };
  };
  for (int64_t columns : brief ? Words{1, 5, 64, 70} : Words{1, 2, 33, 64, 65, 300, 1024}) {
    const int64_t rows = columns > 64 ? 2 : 9;
    compare_forms("rank_rows", {rows, columns, columns + 1, columns + 2}, {}, equal);
    compare_forms("scatter_along_rows", {rows, columns, columns + 2, columns, columns + 1}, {},
                  permuted(rows, columns, columns + 1));
    for (int64_t stride : {columns + 1, columns + 2})
      compare_forms("gather_along_rows", {rows, columns, 6, columns + 2, 7, stride}, {},
                    selecting(6, 1));
  }
  for (int64_t trans = 0; trans < 4; trans++)
    for (const auto& s : {Words{1, 1, 1, 1}, {3, 5, 7, 6}, {2, 17, 18, 65}, {5, 4, 9, 3}}) {
      if (brief && (s[0] == 5 || (s[1] == 17 && trans != 2))) continue;
      const int64_t batch = s[0], m = s[1], n = s[2], k = s[3];
      const int64_t lda = std::max(m, k) + 1, ldb = std::max(n, k) + 2, ldc = n + 1;
      for (double beta : {0.0, 0.5})
        compare_forms("gemm_batched",
                      {trans & 1, trans >> 1, batch, m, n, k, lda, ldb, ldc,
                       beta == 0 ? 0 : lda * std::max(m, k), trans ? 3 : 0, ldc * m + 2},
                      {-0.75, beta}, kept(beta));
    }
  for (int64_t columns : brief ? Words{1, 32, 33, 65} : Words{1, 31, 32, 33, 64, 65, 4096})
    for (int64_t apart : {0, 3}) {
      const int64_t words = (columns - 1) / 32 + 1;
      compare_forms("unpack_bits", {5, columns, columns + apart, words + apart}, {},
                    [](Buffers& b) {
                      for (uint32_t& word : b[1]) word = uint32_t(generator());
                    });
    }
  for (const auto& s : {Words{33, 6}, {130, 1}, {2, brief ? 40 : 300}})
    compare_forms("categorical_draw", {s[0], s[1], s[1] + 2}, {}, [](Buffers& b) {
      for (size_t i = 0; i < b[1].size(); i++)
        b[1][i] = as_word(i % 7 == 3 ? -INFINITY : i % 9 == 5 ? NAN : 20 * as_float(b[1][i]));
      for (size_t i = 0; i < b[2].size(); i++)
        b[2][i] = as_word(i % 13 == 6 ? 1.0f : i % 13 == 2 ? 0.0f : std::fabs(as_float(b[2][i])));
    });
}

// Makes the words of a chain's program. A step is its op, its output and its operands.
inline std::vector<float> program_of(const std::vector<Words>& steps,
                                     const std::vector<float>& constants) {
  std::vector<float> words(65);
  words[64] = float(steps.size());
  for (size_t s = 0; s < steps.size(); s++) {
    Words w = steps[s];
    w.resize(6, 32);
    words[3 * s] = float(w[0]);
    words[3 * s + 1] = float(w[2] + 64 * w[3] + 4096 * w[4]);
    words[3 * s + 2] = float(w[1] + 8 * w[5]);
  }
  std::copy(constants.begin(), constants.end(), words.begin() + 48);
  return words;
}

// Chains of every op, with each kind of stride, with one to four outputs and in place.
inline void compare_chains() {
  const std::vector<float> constants = {0.5f, -1.25f, 3, -0.0f, INFINITY, -INFINITY, NAN, 0.25f};
  const auto run = [&](const Words& wholes, const std::vector<float>& program) {
    compare_forms("chain", wholes, {}, [&](Buffers& b) {
      const float others[] = {NAN, INFINITY, -INFINITY, -0.0f, 1, -1};
      for (size_t k = 4; k + 1 < b.size(); k++)
        for (size_t i = 0; i < b[k].size(); i++)
          b[k][i] = as_word(i % 9 == 4 ? others[generator() % 6] : 4 * as_float(b[k][i]));
      for (size_t i = 0; i < program.size(); i++) b.back()[i] = as_word(program[i]);
    });
  };
  // Numbers of ops in chain.gk.
  constexpr int64_t add = 64, sub = 65, mul = 66, max = 69, copy = 99;
  constexpr int64_t rows = 13, columns = 17;
  // Every op of each kernel once, as a step between two others.
  std::vector<int64_t> ops;
  for (int64_t op = 0; op <= 20; op++) ops.push_back(op), ops.push_back(op + 32);
  for (int64_t op = 0; op <= 13; op++) ops.push_back(op + add);
  for (int64_t op = 80; op <= 83; op++) ops.push_back(op);
  for (int64_t op = 96; op <= copy; op++) ops.push_back(op);
  for (int64_t op : ops) {
    const std::vector<Words> steps = {{mul, 0, 16, 32}, {op, 1, 0, 17, 18, 37}, {copy, 2, 1}};
    run({rows, columns, 20, 18, 0, 0, 18, 17, 19, 18, 18, 17}, program_of(steps, constants));
    // Two operands are constants.
    const std::vector<Words> fixed = {
        {op, 1, 16, 33, 34, 36}, {op, 2, 32, 16, 17, 36}, {op, 3, 16, 17, 39, 38}};
    run({rows, columns, 17, 17, 17, 0, 17, -2, 17, 17, 17, -1}, program_of(fixed, constants));
  }
  // Each kind of input: rows with gaps, one row, one column, one element, and a dense tensor. The
  // first output is an input in the last two cases.
  const std::vector<Words> sums = {{add, 0, 16, 17}, {mul, 2, 0, 18}, {sub, 1, 1, 19},
                                   {max, 3, 2, 20},  {7, 4, 3, 32},   {add, 0, 16, 21}};
  std::vector<Words> sizes = {{13, 17}, {1, 1}, {1, 37}, {37, 1}, {5, 300}, {3, 1031}};
  if (brief) sizes.resize(5);
  for (const Words& size : sizes) {
    const int64_t m = size[0], n = size[1];
    const std::vector<Words> four(sums.begin(), sums.begin() + 4);
    run({m, n, n + 3, n, n + 1, n, n + 2, 0, -3, -1, n, n + 1}, program_of(sums, constants));
    run({m, n, n, n, n, n, n, n, n, n, n, n}, program_of(sums, constants));
    run({m, n, n + 1, n, 0, 0, n + 1, n + 1, n + 1, n + 1, n + 1, -1}, program_of(four, constants));
  }
  // Sixteen steps, each with the results of earlier ones.
  std::vector<Words> many;
  for (int64_t s = 0; s < 16; s++)
    many.push_back({s % 3 ? add + s % 3 : 9, s > 12 ? s - 12 : 0, s == 0 ? 16 : s - 1,
                    s < 2 ? 17 + s : s - 2});
  run({rows, columns, 17, 17, 17, 0, 17, 17, 17, 17, 17, 17}, program_of(many, constants));
  // Any program stays within its tensors, and both forms agree on it.
  for (int tries = 0; tries < (brief ? 20 : 200); tries++) {
    std::vector<float> words(65);
    const float others[] = {NAN, INFINITY, -5, 1e30f, 0.5f, -0.0f};
    for (float& word : words)
      word = generator() % 5 == 0 ? others[generator() % 6]
             : generator() % 2    ? float(generator() % 128)
                                  : float(generator() % (1 << 24));
    // Step 0 writes y0. Every fourth program claims more steps than there are.
    words[2] = 1;
    words[64] = float(tries % 4 ? 1 + tries % 16 : 17 + 1000 * tries);
    Words wholes = {5, 7, 8, tries % 3 ? 7 : 0, 9, tries % 5 ? 8 : 0, 7, 7, 9, 0, 7, 8};
    for (int k = 0; k < 6; k++)
      if (tries >> k & 1) wholes[6 + k] = -1 - wholes[6 + k];
    run(wholes, words);
  }
}

// The kernels of a linear layer for `batch` members, with x [rows, inputs] in the two places of
// `split`, and all three kernels with the same matrices. Rows and members are `gap` elements apart.
// If `one` is true, all members read the same x, and the gradients at x are added.
inline void compare_linear(int64_t batch, int64_t rows, int64_t outputs, int64_t inputs,
                           int64_t split, int64_t gap, bool one, int64_t op) {
  const int64_t x_rows = split < 0 ? -split : rows, x2_rows = split < 0 ? rows + split : rows,
                x_columns = split < 0 ? inputs : split,
                x2_columns = split < 0 ? inputs : inputs - split;
  const int64_t y_stride = outputs + gap, x_stride = x_columns + gap,
                x2_stride = x2_columns + 2 * gap;
  const int64_t x_batch = one ? 0 : std::max(x_rows * x_stride, x2_rows * x2_stride) + gap;
  const int64_t p_batch = outputs * inputs + outputs + gap, y_batch = rows * y_stride + gap;
  compare_forms("linear_act",
                {batch, rows, outputs, inputs, split, y_stride, x_stride, x2_stride, y_batch,
                 x_batch, p_batch, op},
                {});
  const auto old = [](Buffers& b) {
    for (uint32_t& word : b[0]) word = as_word(NAN);
  };
  compare_forms("linear_gradients",
                {batch, outputs, inputs, rows, split, y_stride, x_stride, x2_stride, y_batch,
                 x_batch, p_batch},
                {}, old);
  const bool added = one && batch > 1;
  const int64_t w_stride = inputs + gap, dx_batch = added ? 0 : rows * inputs + gap;
  compare_forms("linear_backward",
                {batch, rows, inputs, outputs, w_stride, y_stride, inputs + 2 * gap, dx_batch,
                 y_batch, outputs * w_stride + gap, rows * (inputs + 2 * gap), added ? -1 : op},
                {}, old);
}

inline void compare_products() {
  // Every function, in one tile.
  for (int64_t op = -1; op <= 20; op += brief ? 4 : 1)
    compare_linear(1, 3, 5, 7, 7, op % 2 + 1, false, op);
  // Sizes around those of tiles and pieces, both splits with their first and last places, and
  // members that read the same x.
  compare_linear(2, 17, 17, 65, 65, 1, false, 12);
  compare_linear(3, 16, 15, 66, 1, 1, true, -1);
  compare_linear(2, 65, 16, 17, -64, 0, true, 9);
  compare_linear(1, 66, 1, 3, -1, 2, false, 13);
  compare_linear(1, 1, 31, 64, 63, 0, false, -1);
  compare_linear(10, 2, 1, 1, 1, 1, true, -1);
  if (brief) return;
  constexpr int64_t sides[] = {1, 15, 16, 17, 31, 33}, depths[] = {1, 63, 64, 65, 128};
  constexpr int64_t ops[] = {-1, 9, 12, 13};
  for (int n = 0; n < 30; n++) {
    const int64_t a = sides[n % 6], b = sides[n / 6], k = depths[(n + n / 6) % 5];
    const bool one = n % 3 == 1;
    const int64_t batch = 1 + n % 5 * (n % 2), op = ops[n % 4], gap = n % 4;
    // The sum is over inputs, rows or outputs.
    const int64_t sizes[][3] = {{a, b, k}, {k, a, b}, {a, k, b}};
    for (const auto& s : sizes) {
      const int64_t rows = s[0], outputs = s[1], inputs = s[2];
      const int64_t splits[] = {inputs, 1, inputs - 1, -1, 1 - rows};
      int64_t split = splits[n % 5];
      if (split == 0 || split <= -rows) split = inputs;
      compare_linear(batch, rows, outputs, inputs, split, gap, one, op);
    }
  }
  // Drawn sizes and splits.
  const auto drawn = [](int64_t low, int64_t high) {
    return low + int64_t(generator() % uint64_t(high - low + 1));
  };
  for (int n = 0; n < 12; n++) {
    const int64_t rows = drawn(1, 40), outputs = drawn(1, 40), inputs = drawn(1, 140);
    int64_t split = drawn(1 - rows, inputs);
    if (split == 0) split = inputs;
    compare_linear(drawn(1, 10), rows, outputs, inputs, split, drawn(0, 3), n % 2 == 0, ops[n % 4]);
  }
  // Long sums.
  compare_linear(1, 1, 2, 10000, 9999, 0, false, -1);
  compare_linear(1, 10000, 2, 1, -1, 1, false, 12);
  compare_linear(1, 2, 10000, 1, 1, 0, false, -1);
}

// Steps of optimizers, some of which clip and move a target.
inline void compare_steps() {
  // The kernel must not read the numbers of the buffers `unread`, which are NaN.
  const auto prepare = [](size_t v, size_t partial, size_t steps, uint32_t count,
                          const std::vector<size_t>& unread = {}) {
    return [=](Buffers& b) {
      for (size_t i : {v, partial})
        for (uint32_t& word : b[i]) word = as_word(std::fabs(as_float(word)));
      if (steps) b[steps][0] = count;
      for (size_t i : unread) std::fill(b[i].begin(), b[i].end(), as_word(NAN));
    };
  };
  using Unread = std::vector<size_t>;
  // Some parameters never had a gradient. Buffer `g` has the gradients.
  const auto idle = [](size_t g, const std::function<void(Buffers&)>& first) {
    return [=](Buffers& b) {
      first(b);
      for (size_t k : {size_t(1), size_t(2), g})
        for (size_t i = 8; i < 1031; i += 9) b[k][i] = 0;
    };
  };
  const std::vector<double> decays[] = {{0, 0, 0}, {0.1, 0, 2}, {0, 0.1, 50}};
  for (const auto& decay : decays)
    for (uint32_t steps : {0u, 999u, 123456u}) {
      const double eps = steps == 999 ? 0 : 1e-8;
      std::vector<double> reals{0.1, 0.001, eps, decay[0], decay[1], decay[2]};
      compare_forms("adam", {1031, 3}, reals, idle(4, prepare(2, 5, 6, steps)));
      for (double tau : {1.0, 0.005})
        for (const Words& follow : {Words{0, 1031, 1}, {300, 401, 2}, {1000, 31, 4}}) {
          std::vector<double> all(reals);
          all.insert(all.end(), {tau, 1 - tau});
          compare_forms("adam_follow", {1031, 1, follow[0], follow[1], follow[2]}, all,
                        idle(5, prepare(2, 6, 7, steps, tau == 1 ? Unread{3} : Unread{})));
        }
    }
  for (const auto& decay : decays)
    for (int64_t nesterov : {0, 1}) {
      const double momentum = decay[1] > 0 || nesterov ? 0.9 : 0;
      Unread unread = momentum == 0 ? Unread{1} : Unread{};
      compare_forms("sgd", {1031, nesterov}, {momentum, decay[0], decay[2]},
                    prepare(4, 4, 0, 0, unread));
      for (double tau : {0.005, 1.0}) {
        if (tau == 1) unread.push_back(2);
        for (const Words& follow : {Words{0, 1031, 1}, {300, 401, 2}, {1000, 31, 4}})
          compare_forms("sgd_follow", {1031, 3, follow[0], follow[1], follow[2], nesterov},
                        {momentum, decay[0], decay[2], tau, 1 - tau},
                        prepare(5, 5, 6, 999, unread));
      }
    }
}

inline void compare_all() {
  compare_convert();
  for (const char* name : {"halo8", "halo16", "halo32", "halo64"}) compare_halo(name);
  for (int64_t act : {0, 1, 2}) {
    const auto wide = [](Buffers& b) {
      for (uint32_t& word : b[1]) word = as_word(12 * as_float(word));
    };
    compare_forms("bias_act", {13, 17, 20, 18, act}, {}, wide);
    compare_forms("bias_act", {13, 17, 20, 20, act}, {}, wide);
    compare_forms("act_backward", {13, 17, 20, 18, 17, act}, {});
    compare_forms("act_backward", {13, 17, 20, 20, 20, act}, {});
    compare_forms("planes", {5, 3, 17, 53, act}, {}, wide);
    compare_forms("planes_backward", {5, 3, 17, 53, 52, act}, {});
  }
  for (const Words& form :
       {Words{7, 6, 3, 2, 2, 1}, {5, 9, 1, 4, 1, 0}, {4, 4, 4, 4, 3, 3}, {9, 8, 2, 3, 3, 0}}) {
    const Words wholes = {
        3, 2, form[0], form[1], form[2], form[3], form[4], form[5], 2 * form[0] * form[1] + 3};
    compare_forms("patches", wholes, {});
    compare_forms("patches_backward", wholes, {});
  }
  for (const auto& s : {Words{1, 1},
                        {1, 130},
                        {7, 3},
                        {8, 4},
                        {9, 5},
                        {64, 9},
                        {65, 1},
                        {512, 2},
                        {513, 5},
                        {1000, 130}}) {
    const Words wholes = {s[0], s[1], s[1] + s[0] % 2 * 3};
    compare_forms("column_sums", wholes, {0.25, 0.5});
    // With beta 0 the NaN of the output is not read. A sum of only -0 is +0.
    compare_forms("column_sums", wholes, {0.25, 0}, [&](Buffers& b) {
      for (uint32_t& word : b[0]) word = as_word(NAN);
      for (size_t i = 0; i < b[1].size(); i += size_t(wholes[2])) b[1][i] = as_word(-0.0f);
    });
  }
  compare_ops();
  compare_learners();
  compare_batched();
  compare_rows();
  compare_traced();
  compare_chains();
  compare_products();
  compare_forms("argmax_rows", {33, 6, 7}, {},
                [](Buffers& b) { b[2][0] = b[2][8] = as_word(NAN), b[2][15] = b[2][16]; });
  for (int64_t apart : {1, 2})
    compare_forms("gather_columns", {33, 6, 7, apart}, {}, [](Buffers& b) {
      for (size_t i = 0; i < b[2].size(); i++) b[2][i] = as_word(float(i % 9) - 1);
    });
  compare_forms("gather", {33, 6, 5, 7, 8}, {}, [](Buffers& b) {
    for (size_t i = 0; i < b[2].size(); i++) b[2][i] = uint32_t(i % 7) - 1;
  });
  for (int64_t stride : {18, 20}) compare_forms("copy2d", {13, 17, 20, stride}, {});
  compare_forms("fill", {1031, INT64_MIN + 5}, {});
  compare_forms("axpby", {1031}, {0.005, 0.995});
  compare_forms("axpby", {1031}, {0.005, 0});
  for (double tau : {1.0, 0.9, 0.005})
    compare_forms("follow_every", {1031, 4}, {tau, 1 - tau}, [](Buffers& b) {
      b[1][0] = as_word(NAN), b[1][1] = as_word(-INFINITY), b[2][0] = 8;
    });
  for (uint32_t word : {6u, uint32_t(INT32_MAX)})
    compare_forms("count_up", {}, {}, [=](Buffers& b) { b[0][0] = word; });
  for (const auto& s : {Words{1, 3}, {4, 2}, {7, 1}})
    for (double threshold : {0.0, 0.7}) {
      const int64_t n = s[0], d = s[1], apart = n * d + 2;
      compare_forms("goal_reward", {33, n, d, 2, apart, d + 1, 3}, {0.97, threshold},
                    [=](Buffers& b) {
                      for (size_t i = 0; i < b[3].size(); i++)
                        b[3][i] = uint32_t(i % size_t(n + 3)) - 1;
                      for (size_t i = 0; i < b[1].size(); i += 3)
                        b[1][i] = b[2][i / size_t(apart) * size_t(d + 1)];
                      b[1][4] = as_word(NAN);
                    });
    }
  for (const Words& apart : {Words{3, 2, 1}, {1, 1, 1}})
    compare_forms("td_target", {33, 5, 6, 5, apart[0], apart[1], apart[2]}, {0.99});
  for (const Words& apart : {Words{3, 2}, {1, 1}})
    compare_forms("td_target_discounts", {33, 5, 6, 5, apart[0], apart[1]}, {});
  for (double delta : {0.0, 0.3})
    for (const Words& own : {Words{0, 33, 33, 33}, {1, 33, 33, 33}, {4, 33, 11, 3}, {1, 8, 1, 33}})
      compare_forms("td_loss_weighted", {33, 5, 6, 2, 7, 2, own[0], own[1], own[2], own[3]},
                    {delta, 1.0 / 33}, [](Buffers& b) {
                      for (size_t i = 0; i < b[5].size(); i++)
                        b[5][i] = as_word(float(i % 14) / 2 - 1);
                    });
  for (double delta : {0.0, 0.3})
    for (const Words& own :
         {Words{0, 33, 33, 33}, {1, 33, 33, 33}, {4, 11, 33, 3}, {1, 8, 1, 33}, {0, 1, 9, 9}})
      compare_forms("td_loss_target", {33, 5, 7, 6, 5, 2, 3, 4, own[0], own[1], own[2], own[3]},
                    {delta, 1.0 / 33}, [&](Buffers& b) {
                      for (size_t i = 0; i < b[8].size(); i++)
                        b[8][i] = as_word(float(i / 4 % 14) / 2 - 1);
                      for (size_t i = 0; i < b[7].size(); i += 4) b[7][i] = 0;
                      // The value of the first row is NaN, and its discount is 0. The values of the
                      // third row are NaN, and its weight is 0.
                      b[4][1] = as_word(NAN), b[5][1] = as_word(INFINITY);
                      if (own[0] == 0) return;
                      std::fill_n(b[4].begin() + 2 * 6, 5, as_word(NAN));
                      b[9][size_t(2 * own[0])] = 0;
                    });
  for (int64_t n : {1, 256, 1031, 2048, 2049, 530001}) compare_forms("grad_norm", {n}, {});
  for (double most : {0.5, 50.0})
    compare_forms("clip_scale", {}, {most}, [](Buffers& b) {
      for (uint32_t& word : b[1]) word = as_word(std::fabs(as_float(word)));
    });
  compare_steps();
  for (int64_t n : {1, 1031}) {
    const auto place = [](Buffers& b) { b[1][2] = UINT32_MAX - 2; };
    compare_forms("random_uniform", {n}, {-0.5, 1.5}, place);
    compare_forms("random_normal", {n}, {2, 3}, place);
    compare_forms("random_advance", {n}, {}, [](Buffers& b) { b[0][2] = UINT32_MAX; });
    compare_forms("draw_places", {n}, {},
                  [](Buffers& b) { b[1][4] = 90, b[1][5] = 60, b[1][6] = 100, b[1][7] = 0; });
  }
  // Programs on sums of both kinds, with one output and with four.
  for (int64_t kind : {1, 2})
    for (const auto& s : {Words{1, 1}, Words{1, 1031}, Words{37, 100}, Words{601, 2}})
      for (int64_t outputs : {1, 4})
        compare_forms("sum_chain", {kind, s[0], s[1], outputs}, {0.25}, [](Buffers& b) {
          const std::vector<float> program = program_of(
              {{65, 1, 21, 20}, {7, 2, 0}, {96, 3, 16, 1, 33}, {66, 4, 2, 21}, {83, 0, 3, 17, 18}},
              {0.5f, -1.25f});
          for (size_t i = 0; i < program.size(); i++) b[10][i] = as_word(program[i]);
        });
  // Sums of every kind and with both ends of x, sums outside of x, and sums without elements. Only
  // some groups are due, and the first counter wraps around. With beta 0 the NaN of the output is
  // not read.
  for (int64_t due : {int64_t(3), int64_t(1) << 30 | 1})
    for (double beta : {0.0, 0.5})
      compare_forms("step_end", {14, 3, 31, due, 5, 4000}, {0.25, beta}, [=](Buffers& b) {
        const uint32_t half = as_word(0.5f), minus = uint32_t(-1);
        if (beta == 0)
          for (uint32_t& word : b[0]) word = as_word(NAN);
        b[2][0] = INT32_MAX, b[3][2] = UINT32_MAX - 2;
        const std::vector<uint32_t> sums = {
            0, 0,  0,     0,    0,    0,     // no sum
            1, 0,  3,     1031, 2,    half,  // a column
            1, 1,  0,     9,    1,    half,  // of the second group
            1, 30, 0,     9,    1,    half,  // of the last group
            1, 31, 0,     9,    1,    half,  // of a group that no step has
            2, 0,  5,     1,    1031, half,  // a row
            2, 0,  0,     37,   100,  half,  // rows
            1, 0,  1,     2000, 2,    half,  // up to the last element
            1, 0,  2,     2000, 2,    half,  // one element too far
            2, 0,  100,   39,   100,  half,  // up to the last element
            2, 0,  101,   39,   100,  half,  // one element too far
            2, 0,  minus, 1,    4,    half,  // before x
            2, 0,  0,     0,    4,    half,  // no rows
            1, 0,  0,     4,    0,    half,  // no columns
        };
        std::copy(sums.begin(), sums.end(), b[5].begin());
        // What the counters add.
        for (size_t i = sums.size(); i < b[5].size(); i++) b[5][i] = uint32_t(i) * 2654435761u;
        b[5][sums.size()] = 1;
      });
  for (int64_t words : {4, 16, 36})
    for (int64_t shift : {0, 3, 5})
      compare_forms("gather_places", {33, words, 9, shift}, {}, [](Buffers& b) {
        for (size_t i = 0; i < b[2].size(); i++) b[2][i] = uint32_t(i * 7 % 11);
      });
  // Rows of 48 bytes, 9 in the ring and 4 new ones. Some places are in either, some in neither, and
  // one is skipped.
  for (const auto& s : {Words{16, 16, 16}, Words{48, 0, 16}, Words{12, 8, 4}, Words{10, 3, 1}})
    for (int64_t shift : {0, 3, 5})
      compare_forms("gather_fields", {33, s[0], s[1], 48, 9, 4, s[2], shift}, {}, [](Buffers& b) {
        for (size_t i = 0; i < b[3].size(); i++) b[3][i] = uint32_t(i * 7 % 15);
        b[3][5] = UINT32_MAX - 1, b[3][6] = UINT32_MAX;
      });
  for (int64_t told : {1, 5, 7, 9})
    for (int64_t shift : {0, 2})
      compare_forms("put_places", {7, 12, 40, shift}, {}, [=](Buffers& b) {
        b[2][0] = uint32_t(told);
        const int64_t rows = std::clamp<int64_t>(told, 0, 7);
        for (int64_t i = 0; i < rows; i++)
          b[1][size_t(rows * 12 + i)] = i == 3 ? UINT32_MAX : uint32_t(i * 5);
      });
  for (int64_t trans = 0; trans < 4; trans++)
    for (const auto& s : {Words{1, 1, 1}, Words{13, 17, 19}, Words{16, 8, 33}, Words{6, 2, 5},
                          Words{17, 33, 130}}) {
      const int64_t m = s[0], n = s[1], k = s[2];
      if (brief && k == 130 && trans != 1) continue;
      for (double beta : {0.0, 0.5})
        compare_forms(
            "gemm", {trans & 1, trans >> 1, m, n, k, std::max(m, k) + 1, std::max(n, k) + 2, n + 3},
            {-0.75, beta});
    }
}
