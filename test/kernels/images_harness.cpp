// Executes a committed image: its kernels are translated, compiled for this CPU, and compared with
// the host forms bit for bit. It also reports races. Blocks run one after another. Each thread of a
// block is a fiber, which runs until it ends or reaches a barrier, where the next fiber continues.
// Fibers and blocks run in order, and in random orders.
//   g++ … -rdynamic images_harness.cpp native/kernels/*.cpp kernels.o -ldl
//   images_harness short|all [kernel]
//   images_harness count         instructions of a module that counts them
#include <dlfcn.h>
#include <setjmp.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <vector>

#include "../native/check.hpp"
#include "compared_forms.hpp"
#include "races.hpp"
#include "races_check.hpp"

namespace {

// Position of the running thread and size of the grid.
size_t thread, threads = 1, block, blocks = 1;
Races races;

struct Fiber {
  jmp_buf where;
  size_t barriers;  // number of barriers that it has reached
  bool ended;
};
std::vector<Fiber> fibers(256);
constexpr size_t stack_bytes = 64 << 10;
std::vector<char> stacks(fibers.size() * stack_bytes);
// Number of instructions of each thread.
unsigned long long counts[256];
jmp_buf between;
std::function<void()> body;

// Pauses the running fiber. A context starts each fiber once. Later switches use jumps, because
// switching contexts makes system calls.
void let_go() {
  if (_setjmp(fibers[thread].where) == 0) _longjmp(between, 1);
}
void live() {
  for (;;) {
    let_go();
    body();
    fibers[thread].ended = true;
  }
}
void go_on() {
  if (_setjmp(between) == 0) _longjmp(fibers[thread].where, 1);
}
void begin_fibers() {
  for (thread = 0; thread < fibers.size(); thread++) {
    ucontext_t context;
    getcontext(&context);
    context.uc_stack.ss_sp = &stacks[thread * stack_bytes];
    context.uc_stack.ss_size = stack_bytes;
    context.uc_link = nullptr;
    makecontext(&context, live, 0);
    if (_setjmp(between) == 0) setcontext(&context);
  }
}

}  // namespace

// Points to the count of the running thread.
extern "C" {
unsigned long long* executed = counts;
}

// Functions that the kernels call.
extern "C" size_t get_global_id(unsigned) __asm__("_Z13get_global_idj");
extern "C" size_t get_global_size(unsigned) __asm__("_Z15get_global_sizej");
extern "C" size_t get_local_id(unsigned) __asm__("_Z12get_local_idj");
extern "C" size_t get_local_size(unsigned) __asm__("_Z14get_local_sizej");
extern "C" size_t get_group_id(unsigned) __asm__("_Z12get_group_idj");
extern "C" size_t get_num_groups(unsigned) __asm__("_Z14get_num_groupsj");
extern "C" float opencl_sqrt(float) __asm__("_Z4sqrtf");
extern "C" float opencl_fma(float, float, float) __asm__("_Z3fmafff");
extern "C" uint64_t opencl_abs(int64_t) __asm__("_Z3absl");
extern "C" void barrier(unsigned) __asm__("_Z7barrierj");
size_t get_global_id(unsigned) { return block * threads + thread; }
size_t get_global_size(unsigned) { return blocks * threads; }
size_t get_local_id(unsigned) { return thread; }
size_t get_local_size(unsigned) { return threads; }
size_t get_group_id(unsigned) { return block; }
size_t get_num_groups(unsigned) { return blocks; }
float opencl_sqrt(float x) { return std::sqrt(x); }
float opencl_fma(float a, float b, float c) { return fmaf(a, b, c); }
uint64_t opencl_abs(int64_t x) { return x < 0 ? 0 - uint64_t(x) : uint64_t(x); }
void barrier(unsigned orders) {
  races.barrier(orders);
  ++fibers[thread].barriers;
  let_go();
}
// Functions that the sanitizer's pass calls before each access.
#define HOTSLOT_ACCESS(BYTES)                                             \
  extern "C" void __tsan_read##BYTES(void* at) { races.read(at, BYTES); } \
  extern "C" void __tsan_write##BYTES(void* at) { races.write(at, BYTES); }
HOTSLOT_ACCESS(1)
HOTSLOT_ACCESS(2)
HOTSLOT_ACCESS(4)
HOTSLOT_ACCESS(8)
HOTSLOT_ACCESS(16)

namespace {

// Calls a kernel. Whole numbers and floats are passed in different registers, and a callee ignores
// extra arguments. One signature therefore fits all kernels.
void call(const char* name, const Words& whole, const std::vector<double>& real) {
  using Any = void (*)(int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                       int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                       int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                       float, float, float, float, float, float, float, float);
  const auto kernel = reinterpret_cast<Any>(dlsym(RTLD_DEFAULT, name));
  if (!kernel) return check(false, std::string("the image has ") + name);
  Words w(whole);
  w.resize(24);
  float r[8] = {};
  std::copy(real.begin(), real.end(), r);
  kernel(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11], w[12], w[13],
         w[14], w[15], w[16], w[17], w[18], w[19], w[20], w[21], w[22], w[23], r[0], r[1], r[2],
         r[3], r[4], r[5], r[6], r[7]);
}

// Returns 0 to count - 1, in order or in a random order.
std::vector<size_t> order_of(size_t count, bool drawn) {
  std::vector<size_t> all(count);
  for (size_t i = 0; i < count; i++) all[i] = i;
  if (drawn) std::shuffle(all.begin(), all.end(), generator);
  return all;
}

// Runs all threads of one block. A barrier that only some threads reach would hang a device, so it
// is an error.
void run_block(const char* name, bool drawn) {
  for (size_t t = 0; t < threads; t++) fibers[t].barriers = 0, fibers[t].ended = false;
  races.begin_block(block, threads);
  for (bool going = true; going;) {
    going = false;
    for (size_t t : order_of(threads, drawn)) {
      thread = t;
      if (fibers[thread].ended) continue;
      races.resume(thread);
      executed = &counts[thread];
      go_on();
      going |= !fibers[thread].ended;
    }
    for (size_t t = 1; t < threads; t++)
      if (fibers[t].ended != fibers[0].ended || fibers[t].barriers != fibers[0].barriers) {
        check(false, std::string(name) + ": all threads of a block come to the same barriers");
        std::exit(1);  // paused fibers cannot start again
      }
  }
}

// Runs all blocks of a launch. Returns the first race, or an empty string.
std::string run_grid(const char* name, const Buffers& buffers, const std::function<void()>& kernel,
                     bool drawn) {
  body = kernel;
  std::vector<Races::Range> shared;
  for (const auto& each : buffers)
    shared.push_back({reinterpret_cast<const char*>(each.data()), 4 * each.size()});
  races.launch(shared, {stacks.data(), stacks.size()});
  for (size_t b : order_of(blocks, drawn)) {
    block = b;
    run_block(name, drawn);
  }
  return races.end();
}

Words words_of(Buffers& buffers, const Words& wholes) {
  Words all;
  for (auto& buffer : buffers) all.push_back(reinterpret_cast<int64_t>(buffer.data()));
  all.insert(all.end(), wholes.begin(), wholes.end());
  return all;
}

}  // namespace

std::vector<Grid> grids() {
  if (brief) return {{5, 3, true}, {3, 256, true}};
  std::vector<Grid> all;
  constexpr size_t sizes[][2] = {{1, 1},  {7, 1},  {1, 3},   {5, 3},
                                 {1, 64}, {2, 64}, {1, 256}, {3, 256}};
  for (const auto& size : sizes)
    for (bool drawn : {false, true}) all.push_back({size[0], size[1], drawn});
  return all;
}

std::string execute(const Kernel& kernel, Buffers& buffers, const Words& wholes,
                    const std::vector<double>& reals, size_t same, const Grid& grid) {
  Words all = words_of(buffers, wholes);
  all[0] = all[same];
  blocks = grid.blocks, threads = grid.threads;
  return run_grid(
      kernel.name, buffers, [&] { call(kernel.name, all, reals); }, grid.drawn);
}

namespace {

// Two moves of one launch that write one element of the same array race, as on a GPU. In separate
// launches they do not.
void test_moves_that_meet() {
  const std::vector<HaloMove> moves = {{0, 1, 0, 12, 0, 1, {{12, 1}}},
                                       {1, 1, 12, 12, 6, 1, {{12, 1}}}};
  const auto race = [&](size_t from, size_t to) {
    Buffers buffers(12);
    for (size_t b = 0; b < 12; b++) buffers[b].resize(24);
    for (uint32_t i = 0; i < 24; i++) buffers[0][i] = 1 + i;
    buffers[1].resize((to - from) * sizeof(HaloMove) / 4);
    std::memcpy(buffers[1].data(), &moves[from], (to - from) * sizeof(HaloMove));
    Words all =
        words_of(buffers, {int64_t(to - from), int64_t(12 * to), 24, 24, 0, 0, 0, 0, 0, 0, 0, 0});
    all[3] = all[2];
    blocks = 3, threads = 5;
    return run_grid(
        "halo32", buffers, [&] { call("halo32", all, {}); }, true);
  };
  check(!race(0, 2).empty(), "two moves that write one element race");
  check(race(0, 1).empty() && race(1, 2).empty(), "one of them at a time does not");
}

// Returns whether the call ends its process, like a device fault ends a kernel.
bool faults(size_t of_thread, const char* name, const Words& whole) {
  const pid_t child = fork();
  if (child == 0) {
    blocks = 1, threads = 4, block = 0, thread = of_thread;
    call(name, whole, {});
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status);
}

void test_the_test_kernels() {
  int32_t word = 0;
  const auto at = reinterpret_cast<int64_t>(&word);
  check(faults(0, "fail", {}), "fail faults");
  check(!faults(3, "fail", {}), "only one thread faults");
  check(faults(0, "latch", {at, 1}), "a latch nobody opens faults");
  check(!faults(3, "latch", {at, 1}), "only one thread holds the latch");
  word = 1;
  check(!faults(0, "latch", {at, 1}), "an open latch holds nobody");
  blocks = 1, threads = 4, block = 0, thread = 0;
  const auto start = std::chrono::steady_clock::now();
  call("spin", {2000}, {});
  check(std::chrono::steady_clock::now() - start >= std::chrono::milliseconds(2),
        "spin is busy at least as long as asked");
}

// Prints a line for each kernel of rows or columns: the instructions of the slowest of 256 threads,
// per element of its block's 8 × 512.
constexpr int64_t rows = 8, s = 512;
void count_instructions() {
  const auto count = [&](const char* name, const Words& wholes, const std::vector<double>& reals,
                         int64_t elements = rows * s) {
    const Kernel* kernel = find_kernel(name);
    KernelArgs args{};
    std::copy(wholes.begin(), wholes.end(), args.whole);
    std::copy(reals.begin(), reals.end(), args.real);
    Reach reach[max_pointers];
    check(kernel->need(args, reach) == nullptr, std::string(name) + " takes these arguments");
    Buffers buffers;
    for (int i = 0; i < kernel->pointers; i++) {
      buffers.emplace_back((reach[i].bytes + 3) / 4);
      for (uint32_t& word : buffers.back()) word = as_word(float(generator() % 2000) / 1000);
    }
    if (std::strcmp(name, "count_non_finite") == 0)
      buffers[2] = {uint32_t(elements)}, buffers[3] = {0};
    std::fill(std::begin(counts), std::end(counts), 0);
    check(execute(*kernel, buffers, wholes, reals, 0, {1, 256, false}).empty(),
          std::string(name) + " does not race");
    const auto most = *std::max_element(std::begin(counts), std::end(counts));
    std::printf("%s %.4f\n", name, double(most) / double(elements));
  };
  // The number of relu in unary.gk.
  constexpr int64_t relu = 12;
  count("norm_act", {rows, s, s, s, relu}, {1e-5});
  count("norm_act_backward", {rows, s, s, s, s, s, relu}, {});
  count("layer_norm", {rows, s, s, s}, {1e-5});
  count("layer_norm_backward", {rows, s, s, s, s, s}, {});
  count("softmax_rows", {rows, s, s, s, 0}, {});
  count("reduce_rows", {rows, s, 1, s, 0}, {1});
  count("categorical_loss", {rows, s, s, 1, s, 1, rows, rows}, {-30, 1, -10, 10});
  count("categorical_mean", {rows, s, 1, s}, {-10, 10});
  count("categorical_mean_backward", {rows, s, s, 1, s, 1}, {-10, 10});
  count("categorical_project", {rows, s, 1, 1, 1, rows, rows, rows}, {-10, 10});
  count("argmax_rows", {rows, s, s}, {});
  count("count_non_finite", {rows * s, 1, 1}, {});
  count("column_sums", {2048, s, s}, {1, 0}, 2048 * s);
}

}  // namespace

int main(int argc, char** argv) {
  brief = argc > 1 && std::strcmp(argv[1], "short") == 0;
  only = argc > 2 ? argv[2] : "";
  begin_fibers();
  guard_words = 64;
  if (argc > 1 && std::strcmp(argv[1], "count") == 0) return count_instructions(), failures > 0;
  check_races(), compare_all();
  if (only.empty()) check_covered(), test_moves_that_meet(), test_the_test_kernels();
  std::printf("%zu kernels and outputs over inputs compared: %d failures\n", covered.size(),
              failures.load());
  return failures > 0;
}
