// Computes whether two parts of memory have an element in common. A part is a base and up to
// `max_steps` dimensions, each with an extent and a signed step. The rows of a matrix are a part,
// and so is the move of a halo. The result is exact for every part that array libraries make. If a
// search takes more than `max_tries` steps, the result is true even if no element is in common. All
// elements of two parts must be less than 2^60 apart, as in any memory.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>

namespace hotslot {

class Overlap {
 public:
  static constexpr int max_steps = 9, max_tries = 100000;

  // The elements base + Σ i_d · step_d for 0 ≤ i_d < extent_d. All extents are at least 1.
  struct Part {
    int64_t base = 0;
    int rank = 0;
    std::array<int64_t, max_steps> extent{}, step{};
    void add(int64_t count, int64_t distance) {
      if (count > 1) extent[size_t(rank)] = count, step[size_t(rank)] = distance, ++rank;
    }
  };

  // Returns whether an element of `a` is an element of `b`.
  static bool meet(const Part& a, const Part& b) {
    Overlap sum;
    for (int d = 0; d < a.rank; ++d) sum.add(a.step[size_t(d)], a.extent[size_t(d)] - 1);
    for (int d = 0; d < b.rank; ++d) sum.add(-b.step[size_t(d)], b.extent[size_t(d)] - 1);
    return sum.reaches(b.base - a.base);
  }

  // Returns whether two different indices of a part are the same element. They are if their
  // differences, each times the dimension's step, add up to 0. The function tries each dimension as
  // the first one in which the two indices differ. The difference there is positive, because the
  // two indices can be swapped.
  static bool meets_itself(const Part& part) {
    for (int first = 0; first < part.rank; ++first) {
      Overlap sum;
      const int64_t step = part.step[size_t(first)];
      sum.add(step, part.extent[size_t(first)] - 2);
      for (int d = first + 1; d < part.rank; ++d) {
        sum.add(part.step[size_t(d)], part.extent[size_t(d)] - 1);
        sum.add(-part.step[size_t(d)], part.extent[size_t(d)] - 1);
      }
      if (sum.reaches(-step)) return true;
    }
    return false;
  }

 private:
  // The values step · k for every whole number k from low to high.
  struct Term {
    int64_t step, low, high;
  };

  // Adds the term step · k for 0 ≤ k ≤ most. Terms of the same step become one term.
  void add(int64_t step, int64_t most) {
    if (step == 0 || most == 0) return;
    const Term term = step > 0 ? Term{step, 0, most} : Term{-step, -most, 0};
    for (int i = 0; i < count_; ++i)
      if (terms_[i].step == term.step) {
        terms_[i].low += term.low, terms_[i].high += term.high;
        return;
      }
    terms_[count_++] = term;
  }

  // Returns whether the terms can add up to `sum`.
  bool reaches(int64_t sum) {
    std::sort(terms_, terms_ + count_,
              [](const Term& a, const Term& b) { return a.step > b.step; });
    // If a term's multiples leave no gap up to the next larger step, the two terms become one term.
    for (int i = count_ - 1; i > 0; --i) {
      Term &wide = terms_[i - 1], &fine = terms_[i];
      const int64_t times = wide.step / fine.step;
      if (wide.step % fine.step != 0 || fine.high - fine.low + 1 < times) continue;
      wide = {fine.step, wide.low * times + fine.low, wide.high * times + fine.high};
      std::copy(terms_ + i + 1, terms_ + count_, terms_ + i);
      --count_;
    }
    int64_t low = 0, high = 0, divisor = 0;
    for (int i = count_ - 1; i >= 0; --i) {
      rest_[i] = {divisor, low, high};
      low += terms_[i].step * terms_[i].low, high += terms_[i].step * terms_[i].high;
      divisor = std::gcd(uint64_t(divisor), uint64_t(terms_[i].step));
    }
    return sum >= low && sum <= high && from(0, sum);
  }

  bool from(int i, int64_t sum) {
    if (i == count_) return sum == 0;
    const auto [step, least, most] = terms_[i];
    const auto [divisor, low, high] = rest_[i];
    const int64_t first = std::max(least, up(sum - high, step)),
                  last = std::min(most, down(sum - low, step));
    for (int64_t k = first; k <= last; ++k) {
      const int64_t left = sum - step * k;
      if (++tries_ > max_tries) return true;
      if (divisor == 0 ? left == 0 : left % divisor == 0 && from(i + 1, left)) return true;
    }
    return false;
  }
  static int64_t down(int64_t a, int64_t b) { return a / b - (a % b < 0); }
  static int64_t up(int64_t a, int64_t b) { return -down(-a, b); }

  // For each term: the common divisor, the minimum and the maximum of all sums that the terms after
  // it can have.
  struct Rest {
    int64_t divisor, low, high;
  };
  Term terms_[2 * max_steps];
  Rest rest_[2 * max_steps];
  int count_ = 0, tries_ = 0;
};

}  // namespace hotslot
