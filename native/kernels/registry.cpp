// The list of kernels. Each entry has a kernel's host form and the check of its arguments. A new
// kernel needs a source, its line in all.gk, a check of its arguments (its `need`), and a line
// here.
//
// The pragma lets the compiler assume that floating-point exceptions are never trapped. Without it,
// the compiler would compile selections to branches.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-trapping-math")
#endif
#include <cstring>

#include "kernels/gemm.hpp"
#include "kernels/gk.hpp"
#include "kernels/halo.hpp"
#include "kernels/need.hpp"

namespace hotslot {
namespace host {
#include "kernels/all.gk"
}  // namespace host
}  // namespace hotslot

#include "wait/idle_cores.hpp"

#include "kernels/linear.hpp"
#include "kernels/need_batched.hpp"
#include "kernels/need_conv.hpp"
#include "kernels/need_learners.hpp"
#include "kernels/need_linear.hpp"
#include "kernels/need_ops.hpp"
#include "kernels/need_rows.hpp"

namespace hotslot {

namespace {

using namespace needs;

// Makes a kernel's `need` from `F`, a function that only checks arguments.
template <void (*F)(const KernelArgs&, Check&)>
const char* need(const KernelArgs& args, Reach* reach) {
  Check check(args, reach);
  F(args, check);
  return check.verdict();
}

void bias_act(const KernelArgs&, Check& check) {
  const int64_t rows = check.size(0, "rows"), columns = check.size(1, "columns");
  check.matrix(0, rows, columns, check.stride(2, "y_stride", columns));
  check.matrix(1, rows, columns, check.stride(3, "x_stride", columns));
  check.vector(2, columns);
  known_activation(check, 4);
}

void act_backward(const KernelArgs&, Check& check) {
  static const char* const strides[] = {"dx_stride", "dy_stride", "y_stride"};
  const int64_t rows = check.size(0, "rows"), columns = check.size(1, "columns");
  for (int i = 0; i < 3; i++)
    check.matrix(i, rows, columns, check.stride(2 + i, strides[i], columns));
  known_activation(check, 5);
}

void column_sums(const KernelArgs&, Check& check) {
  const int64_t rows = check.size(0, "rows"), columns = check.size(1, "columns");
  check.vector(0, columns);
  check.matrix(1, rows, columns, check.stride(2, "x_stride", columns));
  check.finite(0, "scale"), check.finite(1, "beta");
}

void argmax_rows(const KernelArgs&, Check& check) {
  const int64_t rows = check.size(0, "rows"), columns = check.size(1, "columns");
  check.at_most(1, "columns", INT32_MAX);
  check.vector(0, rows), check.vector(1, rows);
  check.matrix(2, rows, columns, check.stride(2, "x_stride", columns));
}

void gather_columns(const KernelArgs&, Check& check) {
  const int64_t rows = check.size(0, "rows"), columns = check.size(1, "columns");
  check.vector(0, rows);
  check.matrix(1, rows, columns, check.stride(2, "x_stride", columns));
  check.column(2, rows, check.size(3, "index_stride"));
}

void gather(const KernelArgs&, Check& check) {
  const int64_t rows = check.size(0, "rows"), columns = check.size(1, "columns"),
                table_rows = check.size(2, "table_rows");
  check.matrix(0, rows, columns, check.stride(3, "out_stride", columns));
  check.matrix(1, table_rows, columns, check.stride(4, "table_stride", columns));
  check.vector(2, rows);
}

void fill(const KernelArgs&, Check& check) { check.vector(0, doubled(check.size(0, "n"))); }

void copy2d(const KernelArgs&, Check& check) { rows_of_two(check); }

static_assert(element_types[GK_FLOAT32].letter == 'f' && element_types[GK_INT32].letter == 'i' &&
                  element_types[GK_BFLOAT16].letter == 'E' &&
                  std::size(element_types) == GK_BFLOAT16 + 1,
              "kernel.hpp and gk.hpp number the element types alike");

void convert(const KernelArgs&, Check& check) {
  const int64_t rows = check.size(0, "rows"), columns = check.size(1, "columns");
  const ElementType* type = check.type(4, "dtype");
  check.matrix(0, rows, columns, check.stride(2, "y_stride", columns));
  check.matrix(1, rows, columns, check.stride(3, "x_stride", columns), type);
  check.finite(0, "scale"), check.finite(1, "shift");
}

void axpby(const KernelArgs&, Check& check) {
  const int64_t n = check.size(0, "n");
  check.vector(0, n), check.vector(1, n);
  check.finite(0, "alpha"), check.finite(1, "beta");
}

void follow_every(const KernelArgs& args, Check& check) {
  const int64_t n = check.size(0, "n");
  check.vector(0, n), check.vector(1, n), check.vector(2, 1);
  check.size(1, "every"), check.at_most(1, "every", INT32_MAX);
  toward(args, check, 0);
}

void count_up(const KernelArgs&, Check& check) { check.vector(0, 1); }

void goal_reward(const KernelArgs&, Check& check) {
  const int64_t rows = check.size(0, "rows"), n = check.size(1, "n"), d = check.size(2, "d");
  const int64_t width = times(n, d);
  check.column(0, rows, check.size(3, "reward_stride"));
  check.matrix(1, rows, width, check.stride(4, "achieved_stride", width));
  check.matrix(2, rows, d, check.stride(5, "goal_stride", d));
  check.column(3, rows, check.size(6, "steps_stride"));
  check.within(0, "gamma", 0, 1), check.within(1, "threshold", 0, 1e18);
}

// Checks a draw of `n` numbers from a generator's state of four words.
void draw(Check& check) { check.vector(0, check.size(0, "n")), check.vector(1, 4); }

void random_uniform(const KernelArgs& args, Check& check) {
  draw(check);
  check.finite(0, "low"), check.finite(1, "high");
  if (!(float(args.real[0]) < float(args.real[1])))
    check.say("low must be below high, got %g and %g", args.real[0], args.real[1]);
}

void random_normal(const KernelArgs&, Check& check) {
  draw(check);
  check.finite(0, "mean"), check.within(1, "deviation", 0, 1e30);
}

void random_advance(const KernelArgs&, Check& check) {
  check.vector(0, 4), check.size(0, "blocks");
}

void draw_places(const KernelArgs&, Check& check) {
  check.vector(0, check.size(0, "n")), check.at_most(0, "n", INT32_MAX);
  check.vector(1, 8);
}

void gather_places(const KernelArgs&, Check& check) {
  const int64_t rows = check.size(0, "rows"), words = check.size(1, "words"),
                ring_rows = check.size(2, "ring_rows");
  if (words % 4 != 0) check.say("words must be a multiple of 4, got %lld", (long long)words);
  check.vector(0, times(rows, words)), check.vector(1, times(ring_rows, words)),
      check.vector(2, rows);
  check.moved_by(16, 2);
  check.at_least(3, "shift", 0), check.at_most(3, "shift", 10);
}

void gather_fields(const KernelArgs&, Check& check) {
  const int64_t rows = check.size(0, "rows"), width = check.size(1, "width"),
                offset = check.at_least(2, "offset", 0), stride = check.size(3, "stride"),
                unit = check.size(6, "unit");
  if (unit != 16 && unit != 4 && unit != 1)
    check.say("unit must be 16, 4 or 1, got %lld", (long long)unit);
  if (offset > stride - width)
    check.say("offset + width must be at most the stride %lld", (long long)stride);
  if (width % unit != 0 || offset % unit != 0 || stride % unit != 0)
    check.say("width, offset and stride must be multiples of the unit %lld", (long long)unit);
  check.items(0, times(rows, width), 1),
      check.items(1, times(check.size(4, "ring_rows"), stride), 1);
  check.items(2, times(check.size(5, "fresh_rows"), stride), 1), check.vector(3, rows);
  check.moved_by(unit == 16 || unit == 4 ? unit : 1, 3);
  check.at_least(7, "shift", 0), check.at_most(7, "shift", 10);
}

void put_places(const KernelArgs&, Check& check) {
  const int64_t most = check.size(0, "most"), words = check.size(1, "words"),
                ring_rows = check.size(2, "ring_rows");
  if (words % 4 != 0) check.say("words must be a multiple of 4, got %lld", (long long)words);
  check.vector(0, times(ring_rows, words)), check.vector(1, times(most, words + 1)),
      check.vector(2, 1);
  check.moved_by(16, 2);
  check.at_most(0, "most", INT32_MAX), check.at_least(3, "shift", 0), check.at_most(3, "shift", 10);
}

// Gathers in pieces of half a MiB. Idle cores may share the pieces if there are at least two.
void shared_gather_fields(uint8_t* out, const uint8_t* ring, const uint8_t* fresh,
                          const int32_t* places, int64_t rows, int64_t width, int64_t offset,
                          int64_t stride, int64_t ring_rows, int64_t fresh_rows, int64_t unit,
                          int64_t shift) {
  const int64_t each = std::max<int64_t>(1, (int64_t{1} << 19) / width);
  IdleCores::run(int((rows + each - 1) / each), IdleCores::helpers(uint64_t(rows * width)),
                 [&](int piece) {
                   const int64_t from = piece * each;
                   host::gather_fields(out + from * width, ring, fresh, places + from,
                                       std::min(each, rows - from), width, offset, stride,
                                       ring_rows, fresh_rows, unit, shift);
                 });
}
void shared_gather_places(uint32_t* out, const uint32_t* ring, const int32_t* places, int64_t rows,
                          int64_t words, int64_t ring_rows, int64_t shift) {
  const int64_t each = std::max<int64_t>(1, (int64_t{1} << 17) / words);
  IdleCores::run(int((rows + each - 1) / each), IdleCores::helpers(uint64_t(rows * words * 4)),
                 [&](int piece) {
                   const int64_t from = piece * each;
                   host::gather_places(out + from * words, ring, places + from,
                                       std::min(each, rows - from), words, ring_rows, shift);
                 });
}

#define HOTSLOT_LINEAR(name) \
  by_tiles(name##_tiles, host_kernel<decltype(linear::name), linear::name>(#name, need<name>))
#define HOTSLOT_KERNEL(name) host_kernel<decltype(host::name), host::name>(#name, need<name>)

// Returns the kernel with a mark that each block computes `outputs` elements, with all its threads
// together.
Kernel by_block(int outputs, Kernel kernel) {
  kernel.block_makes = uint16_t(outputs);
  return kernel;
}

// Returns the kernel with a mark that each block computes whole rows.
Kernel by_rows(Kernel kernel) {
  kernel.by_rows = true;
  return kernel;
}

// Returns the kernel with the function that counts its tiles.
Kernel by_tiles(uint64_t (*tiles)(const int64_t*), Kernel kernel) {
  kernel.tiles = tiles;
  return kernel;
}

// Returns the kernel with a mark that it may write its output over these inputs.
Kernel in_place(std::initializer_list<int> inputs, Kernel kernel) {
  for (const int i : inputs) kernel.in_place |= uint16_t(1 << i);
  return kernel;
}

}  // namespace

const std::vector<Kernel>& all_kernels() {
  // The list is never freed, because a thread of the CPU device may be in a kernel while the
  // process ends.
  static const auto& list = *[] {
    std::vector<Kernel> kernels{
        gemm_kernel(),
        gemm_batched_kernel(),
        in_place({1}, HOTSLOT_LINEAR(linear_act)),
        HOTSLOT_LINEAR(linear_backward),
        HOTSLOT_LINEAR(linear_gradients),
        in_place({1}, HOTSLOT_KERNEL(unary)),
        in_place({1, 2}, HOTSLOT_KERNEL(unary_backward)),
        in_place({1, 2}, HOTSLOT_KERNEL(binary)),
        in_place({1, 2, 3}, HOTSLOT_KERNEL(binary_backward)),
        in_place({1, 2, 3}, HOTSLOT_KERNEL(where)),
        in_place({1}, HOTSLOT_KERNEL(clip)),
        in_place({1, 2}, HOTSLOT_KERNEL(clip_backward)),
        by_block(GK_CHAIN_BLOCK, in_place({4, 5, 6, 7, 8, 9}, HOTSLOT_KERNEL(chain))),
        by_block(1, HOTSLOT_KERNEL(sum_chain)),
        by_rows(HOTSLOT_KERNEL(reduce_rows)),
        by_block(1, HOTSLOT_KERNEL(sum_long)),
        by_rows(in_place({1}, HOTSLOT_KERNEL(softmax_rows))),
        by_rows(in_place({1, 2}, HOTSLOT_KERNEL(softmax_rows_backward))),
        by_rows(in_place({2}, HOTSLOT_KERNEL(layer_norm))),
        by_rows(in_place({2}, HOTSLOT_KERNEL(layer_norm_backward))),
        by_rows(HOTSLOT_KERNEL(norm_act)),
        by_rows(in_place({3}, HOTSLOT_KERNEL(norm_act_backward))),
        by_rows(HOTSLOT_KERNEL(norm_act_batched)),
        by_rows(HOTSLOT_KERNEL(norm_act_backward_batched)),
        HOTSLOT_KERNEL(scatter_columns),
        HOTSLOT_KERNEL(squashed_gaussian),
        by_rows(HOTSLOT_KERNEL(squashed_gaussian_rows)),
        HOTSLOT_KERNEL(squashed_gaussian_backward),
        by_rows(HOTSLOT_KERNEL(categorical_project)),
        by_rows(HOTSLOT_KERNEL(categorical_target)),
        by_rows(HOTSLOT_KERNEL(categorical_loss)),
        by_rows(HOTSLOT_KERNEL(categorical_mean)),
        by_rows(HOTSLOT_KERNEL(categorical_mean_backward)),
        by_block(2, HOTSLOT_KERNEL(count_non_finite)),
        HOTSLOT_KERNEL(moments),
        HOTSLOT_KERNEL(moments_advance),
        HOTSLOT_KERNEL(patches),
        HOTSLOT_KERNEL(patches_backward),
        HOTSLOT_KERNEL(planes),
        HOTSLOT_KERNEL(planes_backward),
        in_place({1}, HOTSLOT_KERNEL(bias_act)),
        in_place({1, 2}, HOTSLOT_KERNEL(bias_act_batched)),
        in_place({1, 2}, HOTSLOT_KERNEL(act_backward)),
        by_block(GK_BLOCK_COLUMNS, HOTSLOT_KERNEL(column_sums)),
        by_block(GK_BLOCK_COLUMNS, HOTSLOT_KERNEL(column_sums_batched)),
        by_rows(HOTSLOT_KERNEL(argmax_rows)),
        in_place({2}, HOTSLOT_KERNEL(gather_columns)),
        HOTSLOT_KERNEL(gather),
        HOTSLOT_KERNEL(take_rows),
        HOTSLOT_KERNEL(take_rows_backward),
        HOTSLOT_KERNEL(pick_backward),
        in_place({1}, HOTSLOT_KERNEL(cumsum)),
        HOTSLOT_KERNEL(rank_rows),
        HOTSLOT_KERNEL(scatter_along_rows),
        in_place({2}, HOTSLOT_KERNEL(gather_along_rows)),
        HOTSLOT_KERNEL(categorical_draw),
        HOTSLOT_KERNEL(unpack_bits),
        in_place({1}, HOTSLOT_KERNEL(copy2d)),
        HOTSLOT_KERNEL(copy4d),
        in_place({1}, HOTSLOT_KERNEL(convert)),
        HOTSLOT_KERNEL(fill),
        in_place({1}, HOTSLOT_KERNEL(axpby)),
        in_place({1}, HOTSLOT_KERNEL(follow_every)),
        HOTSLOT_KERNEL(count_up),
        HOTSLOT_KERNEL(goal_reward),
        in_place({3, 4, 5}, HOTSLOT_KERNEL(td_target)),
        in_place({3, 4}, HOTSLOT_KERNEL(td_target_discounts)),
        HOTSLOT_KERNEL(td_loss_weighted),
        HOTSLOT_KERNEL(td_loss_target),
        by_block(1, HOTSLOT_KERNEL(grad_norm)),
        by_block(4, HOTSLOT_KERNEL(clip_scale)),
        HOTSLOT_KERNEL(adam),
        HOTSLOT_KERNEL(adam_follow),
        HOTSLOT_KERNEL(sgd),
        HOTSLOT_KERNEL(sgd_follow),
        HOTSLOT_KERNEL(random_uniform),
        HOTSLOT_KERNEL(random_normal),
        HOTSLOT_KERNEL(random_advance),
        by_block(1, HOTSLOT_KERNEL(step_end)),
        HOTSLOT_KERNEL(draw_places),
        host_kernel<decltype(shared_gather_places), shared_gather_places>("gather_places",
                                                                          need<gather_places>),
        host_kernel<decltype(shared_gather_fields), shared_gather_fields>("gather_fields",
                                                                          need<gather_fields>),
        HOTSLOT_KERNEL(put_places),
    };
    const std::vector<Kernel> halo = halo_kernels();
    kernels.insert(kernels.end(), halo.begin(), halo.end());
    kernels.insert(kernels.end(), test_kernels().begin(), test_kernels().end());
    return new std::vector<Kernel>(std::move(kernels));
  }();
  return list;
}

const Kernel* find_kernel(const char* name) {
  for (const Kernel& kernel : all_kernels())
    if (std::strcmp(kernel.name, name) == 0) return &kernel;
  return nullptr;
}

}  // namespace hotslot
