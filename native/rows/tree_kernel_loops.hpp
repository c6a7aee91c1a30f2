// The loops of tree_kernels.hpp, included by tree_kernels.cpp once per instruction set, inside a namespace that says
// how many draws fit a vector (`width`), under KERNEL, that set's target attribute. No branches: nobody can foresee
// them. No #pragma once: that is the point.

typedef double Numbers __attribute__((vector_size(width * 8)));
typedef int64_t Words __attribute__((vector_size(width * 8)));

// In which half each mass lies, all bits set for the right one. Never in one without any: rounding may leave more mass
// than there is on the left.
KERNEL INLINE void go(const Numbers& left, const Numbers& right, Numbers& mass, Words& to_right) {
  to_right = (right > 0) & ((mass > left) | (left == 0));
  mass -= reinterpret_cast<Numbers>(to_right & reinterpret_cast<Words>(left));
}

KERNEL void descend(const double* sums, uint64_t* nodes, double* masses, uint64_t count) {
  for (uint64_t from = 0; from < count; from += width) {
    Words at, to_right;
    Numbers mass, c[fan];
    std::memcpy(&at, nodes + from, sizeof(at));
    std::memcpy(&mass, masses + from, sizeof(mass));
    at *= static_cast<int64_t>(fan);
    for (uint64_t i = 0; i < fan; ++i)
      for (uint64_t draw = 0; draw < width; ++draw) c[i][draw] = sums[static_cast<uint64_t>(at[draw]) + i];
    // In pairs, as make() adds them up.
    Numbers pair[4] = {c[0] + c[1], c[2] + c[3], c[4] + c[5], c[6] + c[7]};
    go(pair[0] + pair[1], pair[2] + pair[3], mass, to_right);
    at -= 4 * to_right;
    for (uint64_t i = 0; i < 4; ++i) c[i] = to_right ? c[i + 4] : c[i];
    for (uint64_t i = 0; i < 2; ++i) pair[i] = to_right ? pair[i + 2] : pair[i];
    go(pair[0], pair[1], mass, to_right);
    at -= 2 * to_right;
    for (uint64_t i = 0; i < 2; ++i) c[i] = to_right ? c[i + 2] : c[i];
    go(c[0], c[1], mass, to_right);
    at -= to_right;
    std::memcpy(nodes + from, &at, sizeof(at));
    std::memcpy(masses + from, &mass, sizeof(mass));
  }
}

KERNEL INLINE void keep_less(Line& least, const Line& other) { least = other < least ? other : least; }

KERNEL void make(const double* sums, const double* leasts, const uint64_t* nodes, uint64_t count, double* sum,
                 double* least) {
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t node = nodes == nullptr ? i : nodes[i];
    Line s, l;
    std::memcpy(&s, sums + node * fan, sizeof(s));
    if (leasts == nullptr) {
      l = s > 0 ? s : s * 0 + infinite;
    } else {
      std::memcpy(&l, leasts + node * fan, sizeof(l));
    }
    // Neighbours, then pairs, then halves; what counts is in the first place.
    s += __builtin_shufflevector(s, s, 1, 0, 3, 2, 5, 4, 7, 6);
    keep_less(l, __builtin_shufflevector(l, l, 1, 0, 3, 2, 5, 4, 7, 6));
    s += __builtin_shufflevector(s, s, 2, 3, 0, 1, 6, 7, 4, 5);
    keep_less(l, __builtin_shufflevector(l, l, 2, 3, 0, 1, 6, 7, 4, 5));
    sum[node] = s[0] + s[4];
    least[node] = l[0] < l[4] ? l[0] : l[4];
  }
}
