// Compares Overlap::meet() and meets_itself() with a comparison of every element, and checks parts
// that are too large for one.
#include <set>

#include "kernels/overlap.hpp"
#include "kernels_rig.hpp"

namespace {

using Part = Overlap::Part;

int64_t below(int64_t n) { return int64_t(generator() % uint64_t(n)); }

Part random_part() {
  Part part;
  part.base = below(40);
  const int64_t rank = below(4);
  for (int64_t d = 0; d < rank; d++) part.add(1 + below(5), below(13) - 6);
  return part;
}

std::vector<int64_t> elements(const Part& part) {
  std::vector<int64_t> all{part.base};
  for (int d = 0; d < part.rank; d++) {
    const std::vector<int64_t> before(all);
    all.clear();
    for (const int64_t at : before)
      for (int64_t i = 0; i < part.extent[size_t(d)]; i++)
        all.push_back(at + i * part.step[size_t(d)]);
  }
  return all;
}

std::string in_words(const Part& part) {
  std::string text = std::to_string(part.base);
  for (int d = 0; d < part.rank; d++)
    text += " + " + std::to_string(part.extent[size_t(d)]) + " times " +
            std::to_string(part.step[size_t(d)]);
  return text;
}

Part part_of(int64_t base, std::initializer_list<std::array<int64_t, 2>> dims) {
  Part part;
  part.base = base;
  for (const auto& [extent, step] : dims) part.add(extent, step);
  return part;
}

}  // namespace

void test_overlap() {
  int met = 0, twice = 0;
  constexpr int rounds = 20000;
  for (int round = 0; round < rounds; round++) {
    const Part a = random_part(), b = random_part();
    const auto of_a = elements(a), of_b = elements(b);
    const std::set<int64_t> in_a(of_a.begin(), of_a.end());
    bool meet = false;
    for (const int64_t at : of_b) meet |= in_a.count(at) > 0;
    check(Overlap::meet(a, b) == meet && Overlap::meet(b, a) == meet,
          in_words(a) + (meet ? " meets " : " does not meet ") + in_words(b));
    const bool itself = in_a.size() < of_a.size();
    check(Overlap::meets_itself(a) == itself,
          in_words(a) + (itself ? " meets itself" : " does not meet itself"));
    met += meet, twice += itself;
  }
  check(met > rounds / 10 && met < rounds * 9 / 10 && twice > rounds / 10,
        "both answers are drawn often");

  // Parts of a table: adjacent columns, every second row, and rows of another table in the same
  // memory.
  const int64_t rows = int64_t(1) << 40;
  const Part left = part_of(0, {{64, 1}, {rows, 4096}}),
             right = part_of(64, {{64, 1}, {rows, 4096}});
  check(!Overlap::meet(left, right), "adjacent columns have no element in common");
  check(Overlap::meet(left, part_of(63, {{64, 1}, {rows, 4096}})),
        "columns that overlap by one have");
  check(!Overlap::meet(part_of(0, {{16, 1}, {rows, 4096}}),
                       part_of(2048, {{16, 1}, {rows, 2 * 4096}})),
        "rows between the others do not meet them");
  check(!Overlap::meet(part_of(0, {{16, 1}, {rows, 4096}}), part_of(1024, {{16, 1}, {rows, 2048}})),
        "rows at half the distance with another offset do not meet");
  check(Overlap::meet(part_of(0, {{16, 1}, {rows, 4096}}), part_of(1024, {{16, 1}, {rows, 4095}})),
        "rows of two widths meet somewhere");
  // Steps of a halo in eight dimensions: two elements of the same array.
  Part far, near;
  int64_t step = 1;
  for (int d = 0; d < 8; d++, step *= 31) far.add(30, step), near.add(30, step);
  near.base = 29;
  check(Overlap::meet(far, near) && !Overlap::meets_itself(far), "parts of eight dimensions");
  near.base = step;
  check(!Overlap::meet(far, near), "parts of eight dimensions, one after the other");
}
