// Compares two declarations of one binary interface: values by size, alignment and class, functions
// by their parameters, and structures by their fields. All comparisons happen at compile time, and
// the message names the difference.
#pragma once
#include <cstddef>
#include <type_traits>

namespace hotslot::abi {

enum Class { nothing, pointer, whole, real, structure };

template <class T>
constexpr Class class_of() {
  if (std::is_void_v<T>) return nothing;
  if (std::is_pointer_v<T> || std::is_array_v<T>) return pointer;
  if (std::is_integral_v<T> || std::is_enum_v<T>) return whole;
  if (std::is_floating_point_v<T>) return real;
  return structure;
}

template <class T>
struct Shape {
  static constexpr size_t size = sizeof(T), alignment = alignof(T);
};
template <>
struct Shape<void> {
  static constexpr size_t size = 0, alignment = 0;
};

// With `addresses`, a pointer and a whole number of the same size count as equal. Both are passed
// in the same registers, and HIP declares pointers where CUDA declares numbers.
template <class Ours, class Theirs, bool addresses = false>
constexpr bool same_value() {
  constexpr Class a = class_of<Ours>(), b = class_of<Theirs>();
  constexpr bool address =
      addresses && (a == pointer || a == whole) && (b == pointer || b == whole);
  return (a == b || address) && Shape<Ours>::size == Shape<Theirs>::size &&
         Shape<Ours>::alignment == Shape<Theirs>::alignment;
}

template <class Ours, class Theirs, bool addresses = false>
struct SameFunction : std::false_type {};
template <class R, class S, class... P, class... Q, bool addresses>
struct SameFunction<R (*)(P...), S (*)(Q...), addresses> {
  template <bool equally_many>
  static constexpr bool decide() {
    if constexpr (equally_many)
      return same_value<R, S, addresses>() && (true && ... && same_value<P, Q, addresses>());
    else
      return false;
  }
  static constexpr bool value = decide<sizeof...(P) == sizeof...(Q)>();
};
template <class Ours, class Theirs, bool addresses = false>
constexpr bool same_function = SameFunction<Ours, Theirs, addresses>::value;

}  // namespace hotslot::abi

// Compares a number of ours with the vendor's constant.
#define SAME_NUMBER(ours, theirs)                                           \
  static_assert((unsigned long long)(ours) == (unsigned long long)(theirs), \
                #ours " is not " #theirs)
// Compares the size of a structure of ours with the vendor's. SAME_FIELD compares its fields.
#define SAME_STRUCT(ours, theirs)                                                   \
  static_assert(sizeof(ours) == sizeof(theirs) && alignof(ours) == alignof(theirs), \
                #ours " has not the size of " #theirs)
#define SAME_FIELD(ours, field, theirs, their_field)                                        \
  static_assert(                                                                            \
      offsetof(ours, field) == offsetof(theirs, their_field) &&                             \
          hotslot::abi::same_value<decltype(ours::field), decltype(theirs::their_field)>(), \
      #ours "::" #field " is not where " #theirs "::" #their_field " is")
