// Checks that values are finite. Compares the bits of the values, without their signs, as integers.
// The bits of NaN and infinities are larger than those of every finite value. So all values are
// finite if the largest bits are below those of infinity.
#include "rows/finite.hpp"

namespace hotslot::rows {
namespace {

template <typename Word, Word magnitude, Word infinity>
__attribute__((always_inline)) inline bool below(const uint8_t* values, uint64_t bytes) {
  Word most = 0;
  // The loop has no early exit, so that the compiler vectorizes it.
  for (uint64_t i = 0; i < bytes / sizeof(Word); ++i) {
    Word bits;
    std::memcpy(&bits, values + i * sizeof bits, sizeof bits);
    bits &= magnitude;
    most = bits > most ? bits : most;
  }
  return most < infinity;
}

bool finite16(const uint8_t* v, uint64_t n) { return below<uint16_t, 0x7fff, 0x7c00>(v, n); }
bool finite_brain(const uint8_t* v, uint64_t n) { return below<uint16_t, 0x7fff, 0x7f80>(v, n); }
bool finite64(const uint8_t* v, uint64_t n) {
  return below<uint64_t, 0x7fffffffffffffff, 0x7ff0000000000000>(v, n);
}
bool finite32(const uint8_t* v, uint64_t n) {
  return below<uint32_t, 0x7fffffff, 0x7f800000>(v, n);
}
#if defined(__x86_64__)
__attribute__((target("avx2"))) bool finite32_avx2(const uint8_t* v, uint64_t n) {
  return below<uint32_t, 0x7fffffff, 0x7f800000>(v, n);
}
#endif

bool finite_floats(const uint8_t* values, uint64_t bytes) {
#if defined(__x86_64__)
  static const bool wide = __builtin_cpu_supports("avx2");
  if (wide && bytes >= 64) return finite32_avx2(values, bytes);
#endif
  return finite32(values, bytes);
}

}  // namespace

bool all_finite(const uint8_t* values, uint64_t bytes, FloatKind kind) {
  switch (kind) {
    case FloatKind::none:
      return true;
    case FloatKind::float16:
      return finite16(values, bytes);
    case FloatKind::bfloat16:
      return finite_brain(values, bytes);
    case FloatKind::float32:
      return finite_floats(values, bytes);
    case FloatKind::float64:
      return finite64(values, bytes);
  }
  return true;
}

uint64_t first_non_finite(const uint8_t* values, uint64_t bytes, const FieldKind& kind) {
  uint64_t element = 0;
  while ((element + 1) * kind.item < bytes &&
         all_finite(values + element * kind.item, kind.item, kind.floats))
    ++element;
  return element;
}

}  // namespace hotslot::rows
