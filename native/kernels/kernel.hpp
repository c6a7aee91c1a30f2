// The core's description of a kernel: its name, its host form, and how many pointers, whole numbers
// and floats it takes. Kernel::need gives the bytes that each pointer must cover. Each kernel has
// its own source in this folder.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/library.h"

namespace hotslot {

using KernelArgs = hotslot_kernel_args;
constexpr int max_pointers = int(std::extent_v<decltype(KernelArgs::pointer)>),
              max_wholes = int(std::extent_v<decltype(KernelArgs::whole)>),
              max_floats = int(std::extent_v<decltype(KernelArgs::real)>);

class KernelModule;

// An element type. Its letter is its name in Kernel::types.
struct ElementType {
  char letter;
  uint8_t bytes;
  const char* name;
};
// All types, in the order of their numbers in gk.hpp.
inline constexpr ElementType element_types[] = {
    {'f', 4, "float32"},  {'d', 8, "float64"}, {'b', 1, "int8"},  {'B', 1, "uint8"},
    {'h', 2, "int16"},    {'H', 2, "uint16"},  {'i', 4, "int32"}, {'I', 4, "uint32"},
    {'l', 8, "int64"},    {'L', 8, "uint64"},  {'?', 1, "bool"},  {'e', 2, "float16"},
    {'E', 2, "bfloat16"},
};
// Returns the type that has this number, or null if no type has it.
inline const ElementType* element_type(double number) {
  return number >= 0 && number < double(std::size(element_types)) ? &element_types[size_t(number)]
                                                                  : nullptr;
}

// The memory that a launch touches through one pointer.
struct Reach {
  uint64_t bytes = 0;
  // Bytes from one row to the next, or 0 if all bytes are one run. `step_name` is the name of the
  // argument that gave this distance.
  uint64_t step = 0;
  const char* step_name = nullptr;
  // The element type, if it is a type other than float and int32, or if a whole number of the
  // launch gives it. Else null.
  const ElementType* type = nullptr;
  // Bytes from one member of a batch to the next, and from one row of a member to the next. Both
  // are 0 if the rows of all members are the rows of one matrix.
  uint64_t apart = 0, apart_rows = 0;
  // Bytes that a device loads or stores at once. The tensor's address must be a multiple of this
  // number.
  uint8_t unit = 1;
  // Returns `step` if the rows have a gap between them, or 0 if they are one run.
  uint64_t gap_step() const { return step && (bytes - 1) % step + 1 < step ? step : 0; }
  // Returns whether both cover the same bytes if they begin at the same address.
  bool same_rows(const Reach& other) const {
    return bytes == other.bytes && gap_step() == other.gap_step() && apart == other.apart &&
           apart_rows == other.apart_rows;
  }
};

// Number of a block's threads that work on one row, and maximum number of rows that a block works
// on at once, as in rows.gk.
constexpr uint64_t row_threads = 32, max_rows_of_block = 8;

struct Kernel {
  const char* name;
  int pointers, wholes, reals;
  // Sets `reach[i]` to the memory that a launch with these arguments touches through pointer i.
  // Returns null, or a sentence if an argument is wrong.
  const char* (*need)(const KernelArgs& args, Reach* reach);
  // Runs the host form. Returns null, or a sentence if the work failed. The stream stores the
  // sentence as its error.
  const char* (*run)(const KernelArgs* args);
  // Element type of each pointer: 'f' float32, 'i' int32, 0 any type or the one in `reach`. A
  // launch with tensors of another dtype is rejected.
  std::array<char, max_pointers> types{};
  // Bytes of an element of each pointer. The pointer's address must be a multiple of this number.
  // 0: any.
  std::array<uint8_t, max_pointers> widths{};
  // True if the kernel waits for something outside the device, or if an argument sets its run time.
  // Its last run then does not predict the next run.
  bool may_hold = false;
  // Bit i: whether the kernel writes through pointer i. Written pointers come first.
  uint16_t writes = 0;
  // Bit i: whether pointers i and 0 may be the same tensor. For each element, only one thread reads
  // the element through pointer i, and the same thread then writes the element through pointer 0.
  // Two pointers with this bit may also be the same tensor, in the same way, if one is written.
  uint16_t in_place = 0;
  // Bit i: whether pointer i may share bytes with the other pointers that have this bit. The code
  // that launches the kernel orders writes of the same element.
  uint16_t shares = 0;
  // Number of elements of pointer 0 that a whole block of a device computes, or 0 if each of its
  // threads computes one.
  uint16_t block_makes = 0;
  // Whether a block computes whole rows of pointer 0, with 32 threads per row, as in rows.gk. The
  // first whole number is then the number of rows.
  bool by_rows = false;
  // Returns the number of tiles of a launch with these whole numbers, if a block computes one tile
  // at a time, as in product.gk. Else null.
  uint64_t (*tiles)(const int64_t* wholes) = nullptr;
  // For kernels that a program loaded: the module, and the kernel's index in it. Null for kernels
  // of the core.
  const KernelModule* module = nullptr;
  uint16_t index = 0;
  // Returns the number of blocks of a grid, at most `most`. The kernel strides over the elements
  // for which there are no blocks.
  uint64_t blocks(const Reach& output, const int64_t* wholes, uint64_t threads,
                  uint64_t most) const {
    if (tiles) return std::clamp<uint64_t>(tiles(wholes), 1, most);
    const uint64_t rows_at_once = std::clamp<uint64_t>(threads / row_threads, 1, max_rows_of_block);
    const uint64_t each = by_rows ? rows_at_once : block_makes ? block_makes : threads;
    const uint64_t all = by_rows ? uint64_t(wholes[0]) : output.bytes / 4;
    return std::clamp<uint64_t>(all / each + (all % each > 0), 1, most);
  }
  // Returns the number of which the address of pointer i must be a multiple.
  uint64_t alignment(size_t i, const Reach& reach) const {
    return std::max({uint64_t(1), uint64_t(widths[i]), uint64_t(reach.type ? reach.type->bytes : 1),
                     uint64_t(reach.unit)});
  }
};

// Two pointers of a launch that share a byte, or {-1, -1} if there are none. The kernel writes the
// byte through one of the pointers and does not allow this overlap.
//
// clash() finds them. Its argument `at` has the address of each pointer. clash() does not check
// kernels that a program loaded.
struct Clash {
  int written = -1, other = -1;
};
Clash clash(const Kernel& kernel, const uintptr_t* at, const Reach* reach);

// Returns the kernel of all_kernels() that has this name, or null.
const Kernel* find_kernel(const char* name);
const std::vector<Kernel>& all_kernels();
// Returns the kernels that only tests launch: fail, spin and latch.
const std::vector<Kernel>& test_kernels();
// Returns the provider of matrix products: 'built-in, AVX2', 'built-in' or 'openblas 0.3.21
// (libopenblas.so.0)'. The first call opens the BLAS, if one is used. HOTSLOT_BLAS=path names the
// BLAS, and HOTSLOT_BLAS=none opens none.
const char* gemm_provider();

// Calls `F` with the values of a KernelArgs. F is a plain function whose parameters are pointers,
// then whole numbers, then floats.
template <class>
struct Trampoline;
template <class... P>
struct Trampoline<void(P...)> {
  template <void (*F)(P...)>
  static const char* call(const KernelArgs* given) {
    const KernelArgs& args = *given;
    int p = 0, w = 0, r = 0;
    // Braces evaluate the calls of take() in the order of the parameters.
    struct Ordered {
      std::tuple<P...> values;
    } o{{take<P>(args, p, w, r)...}};
    std::apply(F, o.values);
    return nullptr;
  }
  template <class T>
  static T take(const KernelArgs& args, int& p, int& w, int& r) {
    if constexpr (std::is_pointer_v<T>)
      return static_cast<T>(args.pointer[p++]);
    else if constexpr (std::is_integral_v<T>)
      return static_cast<T>(args.whole[w++]);
    else
      return static_cast<T>(args.real[r++]);
  }
  template <class T>
  static constexpr char type_of() {
    using Element = std::remove_cv_t<std::remove_pointer_t<T>>;
    return std::is_same_v<Element, float> ? 'f' : std::is_same_v<Element, int32_t> ? 'i' : 0;
  }
  static constexpr std::array<char, max_pointers> types() {
    std::array<char, max_pointers> out{};
    size_t at = 0;
    ((std::is_pointer_v<P> ? void(out[at++] = type_of<P>()) : void()), ...);
    return out;
  }
  static constexpr std::array<uint8_t, max_pointers> widths() {
    std::array<uint8_t, max_pointers> out{};
    size_t at = 0;
    ((std::is_pointer_v<P>
          ? void(out[at++] = sizeof(
                     std::remove_pointer_t<std::conditional_t<std::is_pointer_v<P>, P, char*>>))
          : void()),
     ...);
    return out;
  }
  static constexpr uint16_t writes() {
    uint16_t out = 0;
    int at = 0;
    ((std::is_pointer_v<P>
          ? void(out |= uint16_t(!std::is_const_v<std::remove_pointer_t<P>> << at++))
          : void()),
     ...);
    return out;
  }
  static constexpr int pointers = (0 + ... + int(std::is_pointer_v<P>));
  static constexpr int wholes = (0 + ... + int(std::is_integral_v<P>));
  static constexpr int reals = (0 + ... + int(std::is_floating_point_v<P>));
};

using Need = const char* (*)(const KernelArgs&, Reach*);

// host_kernel<decltype(f), f>("name", need) returns a registry entry. Its counts and types follow
// from the parameters of f.
template <class Signature, Signature* F>
Kernel host_kernel(const char* name, Need need) {
  using T = Trampoline<Signature>;
  return Kernel{name,       T::pointers, T::wholes, T::reals,   need, &T::template call<F>,
                T::types(), T::widths(), false,     T::writes()};
}

}  // namespace hotslot
