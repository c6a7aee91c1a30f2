// Helpers to write a kernel's `need`, which checks a launch's arguments. They check sizes and
// strides by name, count bytes without overflow, and describe the first wrong value in a sentence.
// Only the registry and the kernels in this folder use this file.
#pragma once
#include <cfloat>
#include <cmath>
#include <cstdio>

#include "kernels/kernel.hpp"

namespace hotslot {

class Check {
 public:
  Check(const KernelArgs& args, Reach* reach) : args(args), reach(reach) {}

  // Returns whole number i. It is an error if the number is less than 1.
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
  // Returns whole number i, the distance in elements from one row to the next. It is an error if
  // the distance is less than `width`, the elements of a row.
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
  // Returns real i. It is an error if the real is outside [low, high].
  double within(int i, const char* name, double low, double high) {
    if (!(args.real[i] >= low && args.real[i] <= high))
      say("%s must be within [%g, %g], got %g", name, low, high, args.real[i]);
    return args.real[i];
  }

  // Set which memory pointer i covers: `count` elements of 4 bytes, or `rows` rows of `columns`
  // elements. A row begins `stride` elements after the row before.
  void vector(int i, int64_t count) { reach[i].bytes = elements(1, count, 0); }
  // Check the argument of `stride` immediately before this call, because the reach stores the name
  // of the argument that was checked last.
  void matrix(int i, int64_t rows, int64_t columns, int64_t stride) {
    reach[i] = {elements(rows, columns, stride), rows > 1 ? uint64_t(stride) * 4 : 0, asked};
  }
  // Does the same for elements of `type`. It is an error if the launch's tensor has another type.
  void matrix(int i, int64_t rows, int64_t columns, int64_t stride, const ElementType* type) {
    if (!type) return;
    const uint64_t step = rows > 1 ? uint64_t(stride) * type->bytes : 0;
    reach[i] = {elements(rows, columns, stride, type->bytes), step, asked, type};
  }
  // Returns the element type that has whole number i as its number in gk.hpp, or null if no type
  // has it.
  const ElementType* type(int i, const char* name) {
    at_least(i, name, 0), at_most(i, name, int64_t(std::size(element_types)) - 1);
    return element_type(double(args.whole[i]));
  }
  void column(int i, int64_t rows, int64_t stride) { matrix(i, rows, 1, stride); }

  // Sets that pointer i covers one run of elements, from the lowest to the highest index of this
  // many dimensions. Strides may be negative. Then the pointer is the lowest address.
  void dimensions(int i, int count, const int64_t* sizes, const int64_t* strides) {
    unsigned __int128 all = 1;
    for (int d = 0; d < count; d++) {
      const uint64_t apart = strides[d] < 0 ? 0 - uint64_t(strides[d]) : uint64_t(strides[d]);
      if (sizes[d] > 1) all += (unsigned __int128)(sizes[d] - 1) * apart;
    }
    reach[i] = {all > UINT64_MAX / 4 ? UINT64_MAX : uint64_t(all) * 4};
  }

  // Sets that pointer i covers `batch` matrices that begin `apart` elements apart. Check the
  // argument of `stride` immediately before this call.
  void members(int i, int64_t batch, int64_t apart, int64_t rows, int64_t columns, int64_t stride) {
    const int64_t sizes[] = {batch, rows, columns}, steps[] = {apart, stride, 1};
    dimensions(i, 3, sizes, steps);
    reach[i].apart = uint64_t(apart) * 4, reach[i].apart_rows = uint64_t(stride) * 4;
  }

  // Sets that pointer i covers `count` elements of `size` bytes.
  void items(int i, int64_t count, uint64_t size) {
    const unsigned __int128 all = (unsigned __int128)(count < 0 ? 0 : count) * size;
    reach[i].bytes = all > UINT64_MAX ? UINT64_MAX : uint64_t(all);
  }

  // Sets that devices load and store `bytes` bytes at once through the first `count` pointers.
  // Every family, including the host, checks the alignment of these pointers.
  void moved_by(int64_t bytes, int count) {
    for (int i = 0; i < count; i++) reach[i].unit = uint8_t(bytes);
  }

  // Returns the first error, or null if there is none. The text is valid until the next check on
  // this thread.
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
