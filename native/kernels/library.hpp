// The end of a .gk source that is compiled to a shared library for CPU devices. It defines the
// list that library.h describes, and derives each entry from the parameters of a kernel.
#pragma once
#include "kernels/kernel.hpp"

namespace hotslot {

template <class T>
constexpr char letter_of() {
  using E = std::remove_cv_t<T>;
  return std::is_same_v<E, float>      ? 'f'
         : std::is_same_v<E, double>   ? 'd'
         : std::is_same_v<E, int8_t>   ? 'b'
         : std::is_same_v<E, uint8_t>  ? 'B'
         : std::is_same_v<E, int16_t>  ? 'h'
         : std::is_same_v<E, uint16_t> ? 'H'
         : std::is_same_v<E, int32_t>  ? 'i'
         : std::is_same_v<E, uint32_t> ? 'I'
         : std::is_same_v<E, int64_t>  ? 'l'
         : std::is_same_v<E, uint64_t> ? 'L'
                                       : 0;
}

template <class Signature>
struct Listed;
template <class... P>
struct Listed<void(P...)> {
  template <class T>
  static constexpr int rank() {
    return std::is_pointer_v<T> ? 0 : std::is_integral_v<T> ? 1 : 2;
  }
  static constexpr bool ordered() {
    int last = 0;
    bool good = true;
    ((good = good && rank<P>() >= last, last = rank<P>()), ...);
    return good;
  }
  static_assert(ordered(), "a kernel's parameters are pointers first, then gk_i64, then gk_real");
  static_assert(((!std::is_integral_v<P> || std::is_same_v<P, int64_t>)&&...),
                "a kernel's whole numbers are gk_i64");
  static_assert(((!std::is_floating_point_v<P> || std::is_same_v<P, float>)&&...),
                "a kernel's reals are gk_real");
  static_assert(((!std::is_pointer_v<P> || letter_of<std::remove_pointer_t<P>>() != 0) && ...),
                "a kernel's pointers are to float, double or gk's whole numbers of 8 to 64 bits");
  using T = Trampoline<void(P...)>;
  static_assert(T::pointers <= max_pointers && T::wholes <= max_wholes && T::reals <= max_floats,
                "a kernel takes at most 12 pointers, 12 whole numbers and 8 reals");
  static constexpr std::array<char, max_pointers + 1> letters() {
    std::array<char, max_pointers + 1> out{};
    size_t at = 0;
    ((std::is_pointer_v<P> ? void(out[at++] = letter_of<std::remove_pointer_t<P>>()) : void()),
     ...);
    return out;
  }
  static constexpr std::array<char, max_pointers + 1> text = letters();
};

template <class Signature, Signature* F>
constexpr hotslot_kernel library_kernel(const char* name) {
  using L = Listed<Signature>;
  return {name, L::text.data(), L::T::wholes, L::T::reals, &L::T::template call<F>};
}

}  // namespace hotslot

#define HOTSLOT_LISTED(name) ::hotslot::library_kernel<decltype(name), name>(#name)
#define HOTSLOT_LIBRARY(...)                        \
  extern "C" __attribute__((visibility("default"))) \
  const hotslot_kernel hotslot_kernels_1[] = {__VA_ARGS__, {}}
