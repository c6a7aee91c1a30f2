// Argument checks (needs) of the convolution kernels, for the registry.
#pragma once
#include "kernels/gk.hpp"
#include "kernels/need.hpp"

namespace hotslot::needs {

// Returns a · b, or the largest number if a · b overflows. So a size too large for any tensor stays
// too large.
inline int64_t times(int64_t a, int64_t b) {
  if (a < 1 || b < 1) return 0;
  return a > INT64_MAX / b ? INT64_MAX : a * b;
}

// Checks the arguments of a convolution. Pointer `flat` has patches, and pointer `image` has
// images.
inline void convolution(Check& check, int flat, int image, const char* stride_name) {
  static const char* const names[] = {"rows",          "channels",     "height", "width",
                                      "kernel_height", "kernel_width", "stride"};
  // The largest allowed argument. No product of two arguments overflows.
  constexpr int64_t most = 1 << 30;
  int64_t of[7];
  for (int i = 0; i < 7; i++) of[i] = check.size(i, names[i]), check.at_most(i, names[i], most);
  const auto [rows, channels, height, width, kernel_height, kernel_width, stride] = of;
  const int64_t padding = check.at_least(7, "padding", 0);
  check.at_most(7, "padding", most);
  if (kernel_height > height + 2 * padding || kernel_width > width + 2 * padding)
    check.say("a kernel of %lld × %lld is larger than an image of %lld × %lld with padding %lld",
              (long long)kernel_height, (long long)kernel_width, (long long)height,
              (long long)width, (long long)padding);
  if (padding >= kernel_height || padding >= kernel_width)
    check.say("padding must be less than the kernel's sides, got %lld for %lld × %lld",
              (long long)padding, (long long)kernel_height, (long long)kernel_width);
  if (check.verdict()) return;
  const int64_t high = (height + 2 * padding - kernel_height) / stride + 1,
                wide = (width + 2 * padding - kernel_width) / stride + 1;
  const int64_t pixels = times(channels, height * width);
  check.vector(flat,
               times(times(channels, kernel_height * kernel_width), times(rows, high * wide)));
  check.matrix(image, rows, pixels, check.stride(8, stride_name, pixels));
}

inline void patches(const KernelArgs&, Check& check) { convolution(check, 0, 1, "x_stride"); }
inline void patches_backward(const KernelArgs&, Check& check) {
  convolution(check, 1, 0, "dx_stride");
}

inline void known_activation(Check& check, int i) {
  check.at_least(i, "activation", GK_ACT_NONE), check.at_most(i, "activation", GK_ACT_TANH);
}

inline void planes(const KernelArgs&, Check& check) {
  const int64_t rows = check.size(0, "rows"), channels = check.size(1, "channels"),
                width = check.size(2, "places");
  const int64_t all = times(channels, width);
  check.matrix(0, rows, all, check.stride(3, "y_stride", all));
  check.vector(1, times(rows, all)), check.vector(2, channels);
  known_activation(check, 4);
}

inline void planes_backward(const KernelArgs&, Check& check) {
  const int64_t rows = check.size(0, "rows"), channels = check.size(1, "channels"),
                width = check.size(2, "places");
  const int64_t all = times(channels, width);
  check.vector(0, times(rows, all));
  check.matrix(1, rows, all, check.stride(3, "dy_stride", all));
  check.matrix(2, rows, all, check.stride(4, "y_stride", all));
  known_activation(check, 5);
}

}  // namespace hotslot::needs
