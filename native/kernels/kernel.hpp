// The core's description of a kernel: its name, how many pointers, whole numbers and floats it
// takes, how many bytes each pointer must cover, and its host form. Each kernel has its own source
// in this folder.
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
// In the order of gk.hpp's numbers.
inline constexpr ElementType element_types[] = {
    {'f', 4, "float32"},  {'d', 8, "float64"}, {'b', 1, "int8"},  {'B', 1, "uint8"},
    {'h', 2, "int16"},    {'H', 2, "uint16"},  {'i', 4, "int32"}, {'I', 4, "uint32"},
    {'l', 8, "int64"},    {'L', 8, "uint64"},  {'?', 1, "bool"},  {'e', 2, "float16"},
    {'E', 2, "bfloat16"},
};
// Returns null if no type has that number.
inline const ElementType* element_type(double number) {
  return number >= 0 && number < double(std::size(element_types)) ? &element_types[size_t(number)]
                                                                  : nullptr;
}

// The memory that a launch touches from one pointer on.
struct Reach {
  uint64_t bytes = 0;
  // Bytes from one row to the next, 0 for one run of bytes, and the name of the argument that gave
  // them.
  uint64_t step = 0;
  const char* step_name = nullptr;
  // The element type, if a whole number of the launch gives it.
  const ElementType* type = nullptr;
  // Bytes of one load or store of a device. The tensor's address is a multiple of this number.
  uint8_t unit = 1;
  // Returns the distance of rows that have a gap between them, or 0 for one run.
  uint64_t gap_step() const { return step && (bytes - 1) % step + 1 < step ? step : 0; }
  // Returns whether both are the same bytes if they begin at one address.
  bool same_rows(const Reach& other) const {
    return bytes == other.bytes && gap_step() == other.gap_step();
  }
};

// Threads of a block that work on one row, and rows of a block, as rows.gk has them.
constexpr uint64_t row_threads = 32, max_rows_of_block = 8;

struct Kernel {
  const char* name;
  int pointers, wholes, reals;
  // Fills `reach[i]` with the memory touched from pointer i on for these arguments. Returns a
  // sentence if an argument is wrong, else null.
  const char* (*need)(const KernelArgs& args, Reach* reach);
  // Returns null, or a sentence if the work failed (the stream's error becomes sticky).
  const char* (*run)(const KernelArgs* args);
  // Element type per pointer: 'f' float32, 'i' int32, 0 any, or the one in `reach`. A launch with
  // tensors of another dtype is rejected.
  std::array<char, max_pointers> types{};
  // Bytes of an element per pointer. The pointer's address is a multiple of this number. 0: any.
  std::array<uint8_t, max_pointers> widths{};
  // The kernel waits for something outside the device, or an argument sets its run time. Its last
  // run does not predict the next.
  bool may_hold = false;
  // Bit i: pointer i is written. Written pointers come first.
  uint16_t writes = 0;
  // Bit i: pointer i may be the tensor of pointer 0. A thread that writes an element of pointer 0
  // has read this element of pointer i, and no other thread reads it.
  uint16_t in_place = 0;
  // Bit i: pointer i may share bytes with other such pointers. The launching code orders writes of
  // the same element.
  uint16_t shares = 0;
  // The number of elements of pointer 0 that a whole block of a device makes. 0: each of its
  // threads makes one.
  uint16_t block_makes = 0;
  // Whether a block makes whole rows of pointer 0 with 32 threads each, as in rows.gk. The first
  // whole number is the number of rows.
  bool by_rows = false;
  // For kernels that a program brought: the module, and the index in it. Null: a kernel of the
  // core.
  const KernelModule* module = nullptr;
  uint16_t index = 0;
  // Returns the blocks of a grid, at most `most`. The kernel strides over the rest.
  uint64_t blocks(const Reach& output, const int64_t* wholes, uint64_t threads,
                  uint64_t most) const {
    const uint64_t rows_at_once = std::clamp<uint64_t>(threads / row_threads, 1, max_rows_of_block);
    const uint64_t each = by_rows ? rows_at_once : block_makes ? block_makes : threads;
    const uint64_t all = by_rows ? uint64_t(wholes[0]) : output.bytes / 4;
    return std::clamp<uint64_t>(all / each + (all % each > 0), 1, most);
  }
  // The address of pointer i must be a multiple of this number.
  uint64_t alignment(size_t i, const Reach& reach) const {
    return std::max({uint64_t(1), uint64_t(widths[i]), uint64_t(reach.type ? reach.type->bytes : 1),
                     uint64_t(reach.unit)});
  }
};

// A pair of pointers of a launch that share a byte, or {-1, -1}. The kernel writes the byte through
// one of the pointers and does not allow this overlap. `at`: the address of each pointer. Kernels
// that a program brought are not checked.
struct Clash {
  int written = -1, other = -1;
};
Clash clash(const Kernel& kernel, const uintptr_t* at, const Reach* reach);

// Finds a kernel of the learner or the transfer path by name, or returns null.
const Kernel* find_kernel(const char* name);
const std::vector<Kernel>& all_kernels();
// Returns the kernels that only tests launch: fail, spin, latch.
const std::vector<Kernel>& test_kernels();
// Returns the provider of matrix products: 'built-in, AVX2', 'built-in' or 'openblas 0.3.21
// (libopenblas.so.0)'. The first call opens the library, if one is used. HOTSLOT_BLAS=path names
// it, and HOTSLOT_BLAS=none opens none.
const char* gemm_provider();

// Calls `F(pointers…, whole numbers…, floats…)`, a plain function in that parameter order, from a
// KernelArgs.
template <class>
struct Trampoline;
template <class... P>
struct Trampoline<void(P...)> {
  template <void (*F)(P...)>
  static const char* call(const KernelArgs* given) {
    const KernelArgs& args = *given;
    int p = 0, w = 0, r = 0;
    // Braces fix the order of evaluation to the order of the parameters.
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

// host_kernel<decltype(f), f>("name", need): returns a registry entry whose counts follow from f's
// parameters.
template <class Signature, Signature* F>
Kernel host_kernel(const char* name, Need need) {
  using T = Trampoline<Signature>;
  return Kernel{name,       T::pointers, T::wholes, T::reals,   need, &T::template call<F>,
                T::types(), T::widths(), false,     T::writes()};
}

}  // namespace hotslot
