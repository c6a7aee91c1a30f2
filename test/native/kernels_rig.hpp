// What the files of the kernels' harness share: buffers of exact size, launches like the core's,
// and comparisons.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "check.hpp"
#include "kernels/kernel.hpp"

using namespace hotslot;

inline std::mt19937 generator(7);

// A heap block of exactly n floats, so that a sanitizer finds an access outside.
struct Floats {
  explicit Floats(int64_t n) : n(n), at(new float[n]) {
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (int64_t i = 0; i < n; i++) at[i] = uniform(generator);
  }
  Floats(const Floats& other) : n(other.n), at(new float[other.n]) {
    std::copy_n(other.at.get(), n, at.get());
  }
  float& operator[](int64_t i) const { return at[i]; }
  int64_t n;
  std::unique_ptr<float[]> at;
};

inline KernelArgs arguments(std::vector<void*> pointers, std::vector<int64_t> wholes,
                            std::vector<double> reals) {
  KernelArgs args{};
  std::copy(pointers.begin(), pointers.end(), args.pointer);
  std::copy(wholes.begin(), wholes.end(), args.whole);
  std::copy(reals.begin(), reals.end(), args.real);
  return args;
}

struct Buffer {
  void* at;
  uint64_t bytes;
  Buffer(const Floats& f) : at(f.at.get()), bytes(uint64_t(f.n) * 4) {}
  template <class T>
  Buffer(std::vector<T>& v) : at(v.data()), bytes(v.size() * sizeof(T)) {}
};

// Launches like the core: checks the counts, the `need` and the sizes, then runs.
inline void launch(const char* name, std::vector<Buffer> buffers, std::vector<int64_t> wholes,
                   std::vector<double> reals) {
  const Kernel* kernel = find_kernel(name);
  if (!kernel) return check(false, std::string(name) + " exists");
  check(int(buffers.size()) == kernel->pointers && int(wholes.size()) == kernel->wholes &&
            int(reals.size()) == kernel->reals,
        std::string(name) + " takes these counts");
  std::vector<void*> pointers;
  for (const Buffer& b : buffers) pointers.push_back(b.at);
  const KernelArgs args = arguments(pointers, wholes, reals);
  Reach reach[max_pointers];
  const char* wrong = kernel->need(args, reach);
  check(!wrong, std::string(name) + ": " + (wrong ? wrong : ""));
  for (size_t i = 0; i < buffers.size(); i++)
    check(reach[i].bytes == buffers[i].bytes,
          std::string(name) + ": pointer " + std::to_string(i) + " needs " +
              std::to_string(reach[i].bytes) + " bytes, has " + std::to_string(buffers[i].bytes));
  const char* failed = kernel->run(&args);
  check(!failed, std::string(name) + " runs");
}

// Checks that each value is within `tolerance` of the reference, relative to the larger of its size
// and 1.
inline void close(const std::string& what, const Floats& got, const std::vector<double>& want,
                  double tolerance) {
  for (size_t i = 0; i < want.size(); i++)
    if (!(std::fabs(got[i] - want[i]) <= tolerance * std::max(1.0, std::fabs(want[i])))) {
      char text[160];
      std::snprintf(text, sizeof text, "%s [%zu]: got %.9g, want %.9g", what.c_str(), i, got[i],
                    want[i]);
      return check(false, text);
    }
}

inline std::vector<double> as_double(const Floats& f) {
  return std::vector<double>(f.at.get(), f.at.get() + f.n);
}

inline const int64_t odd_sizes[][2] = {{1, 1},   {1, 7},   {7, 1},   {3, 5},
                                       {13, 17}, {31, 33}, {64, 84}, {67, 129}};
inline int64_t matrix(int64_t rows, int64_t columns, int64_t stride) {
  return (rows - 1) * stride + columns;
}

inline bool same_bits(float a, float b) { return std::memcmp(&a, &b, 4) == 0; }

// Tests in the other files of the harness.
void test_ops();
void test_traced();
void test_overlap();
void test_learners();
void test_batched();
void test_products_and_layers();
