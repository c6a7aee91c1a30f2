// Helpers to write a kernel's `need`. They check sizes and strides by name and count bytes without
// overflow. The first wrong value becomes a sentence. Only the registry and the kernels in this
// folder use this.
#pragma once
#include <cfloat>
#include <cmath>
#include <cstdio>

#include "kernels/kernel.hpp"

namespace hotslot {

class Check {
 public:
  Check(const KernelArgs& args, Reach* reach) : args(args), reach(reach) {}

  // Returns whole number i, which must be at least 1.
  int64_t size(int i, const char* name) { return at_least(i, name, 1); }
  int64_t at_least(int i, const char* name, int64_t least) {
    asked = name;
    if (args.whole[i] < least)
      say("%s must be at least %lld, got %lld", name, (long long)least, (long long)args.whole[i]);
    return args.whole[i];
  }
  int64_t at_most(int i, const char* name, int64_t most) {
    if (args.whole[i] > most)
      say("%s must be at most %lld, got %lld", name, (long long)most, (long long)args.whole[i]);
    return args.whole[i];
  }
  // Returns whole number i, the elements between the starts of rows of `width` elements.
  int64_t stride(int i, const char* name, int64_t width) {
    asked = name;
    if (args.whole[i] < width)
      say("%s must be at least the row's %lld elements, got %lld", name, (long long)width,
          (long long)args.whole[i]);
    return args.whole[i];
  }
  int64_t whole(int i) const { return args.whole[i]; }
  double finite(int i, const char* name) {
    if (!(std::fabs(args.real[i]) <= FLT_MAX))
      say("%s must be finite as a float, got %g", name, args.real[i]);
    return args.real[i];
  }
  // Returns real i, which must be within [low, high].
  double within(int i, const char* name, double low, double high) {
    if (!(args.real[i] >= low && args.real[i] <= high))
      say("%s must be within [%g, %g], got %g", name, low, high, args.real[i]);
    return args.real[i];
  }

  // Pointer i covers `count` elements of 4 bytes, or `rows` rows of `columns` with `stride`
  // elements between row starts.
  void vector(int i, int64_t count) { reach[i].bytes = elements(1, count, 0); }
  // `stride` is the argument checked last.
  void matrix(int i, int64_t rows, int64_t columns, int64_t stride) {
    reach[i] = {elements(rows, columns, stride), rows > 1 ? uint64_t(stride) * 4 : 0, asked};
  }
  // The same for elements of `type`, which the launch's tensor must have.
  void matrix(int i, int64_t rows, int64_t columns, int64_t stride, const ElementType* type) {
    if (!type) return;
    const uint64_t step = rows > 1 ? uint64_t(stride) * type->bytes : 0;
    reach[i] = {elements(rows, columns, stride, type->bytes), step, asked, type};
  }
  // Returns the element type that whole number i gives by gk.hpp's number, or null if it is
  // invalid.
  const ElementType* type(int i, const char* name) {
    at_least(i, name, 0), at_most(i, name, int64_t(std::size(element_types)) - 1);
    return element_type(double(args.whole[i]));
  }
  void column(int i, int64_t rows, int64_t stride) { matrix(i, rows, 1, stride); }

  // Pointer i covers `count` elements of `size` bytes.
  void items(int i, int64_t count, uint64_t size) {
    const unsigned __int128 all = (unsigned __int128)(count < 0 ? 0 : count) * size;
    reach[i].bytes = all > UINT64_MAX ? UINT64_MAX : uint64_t(all);
  }

  // A device loads and stores `bytes` at once in the first `count` pointers. Every family checks
  // their alignment, including the host.
  void moved_by(int64_t bytes, int count) {
    for (int i = 0; i < count; i++) reach[i].unit = uint8_t(bytes);
  }

  // Returns null or the first error, which is valid until the next check on this thread.
  const char* verdict() const { return wrong ? text() : nullptr; }

  template <class... V>
  void say(const char* format, V... values) {
    if (!wrong) std::snprintf(text(), 160, format, values...);
    wrong = true;
  }

 private:
  static uint64_t elements(int64_t rows, int64_t columns, int64_t stride, uint64_t bytes = 4) {
    if (rows < 1 || columns < 1 || stride < 0) return 0;
    unsigned __int128 count = (unsigned __int128)(rows - 1) * (uint64_t)stride + (uint64_t)columns;
    return count > UINT64_MAX / bytes ? UINT64_MAX : (uint64_t)count * bytes;
  }
  static char* text() {
    static thread_local char buffer[160];
    return buffer;
  }
  const KernelArgs& args;
  Reach* reach;
  const char* asked = nullptr;
  bool wrong = false;
};

}  // namespace hotslot
