// The committed SPIR-V, executed: its kernels, translated back and compiled for this processor, against the host's
// forms, bit for bit, and looked at for races. Blocks run one after the other; each thread of a block is a fiber, which
// runs until it ends or comes to a barrier, where the next one goes on. In their order, and in drawn ones.
//   g++ … -rdynamic images_harness.cpp native/kernels/*.cpp kernels.o -ldl
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
#include <map>
#include <random>
#include <set>
#include <vector>

#include "../native/check.hpp"
#include "kernels/gk.hpp"
#include "kernels/halo.hpp"
#include "kernels/kernel.hpp"
#include "races.hpp"
#include "races_check.hpp"

using namespace hotslot;

namespace host {
#include "kernels/gemm.gk"
}

namespace {

using Words = std::vector<int64_t>;
using Buffers = std::vector<std::vector<uint32_t>>;

// Where a kernel is, and in what.
size_t thread, threads = 1, block, blocks = 1;
std::set<std::string> covered;
std::mt19937 generator(11);
Races races;

struct Fiber {
  jmp_buf where;
  std::vector<char> stack = std::vector<char>(64 << 10);
  size_t barriers;  // that it came to
  bool ended;
};
std::vector<Fiber> fibers(256);
jmp_buf between;
std::function<void()> body;

// Each fiber is begun once, by a context; jumps from one to the other ask nothing of the kernel, as contexts do.
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
    context.uc_stack.ss_sp = fibers[thread].stack.data();
    context.uc_stack.ss_size = fibers[thread].stack.size();
    context.uc_link = nullptr;
    makecontext(&context, live, 0);
    if (_setjmp(between) == 0) setcontext(&context);
  }
}

}  // namespace

// What the kernels call.
extern "C" size_t get_global_id(unsigned) __asm__("_Z13get_global_idj");
extern "C" size_t get_global_size(unsigned) __asm__("_Z15get_global_sizej");
extern "C" size_t get_local_id(unsigned) __asm__("_Z12get_local_idj");
extern "C" size_t get_local_size(unsigned) __asm__("_Z14get_local_sizej");
extern "C" size_t get_group_id(unsigned) __asm__("_Z12get_group_idj");
extern "C" size_t get_num_groups(unsigned) __asm__("_Z14get_num_groupsj");
extern "C" float opencl_sqrt(float) __asm__("_Z4sqrtf");
extern "C" void barrier(unsigned) __asm__("_Z7barrierj");
size_t get_global_id(unsigned) { return block * threads + thread; }
size_t get_global_size(unsigned) { return blocks * threads; }
size_t get_local_id(unsigned) { return thread; }
size_t get_local_size(unsigned) { return threads; }
size_t get_group_id(unsigned) { return block; }
size_t get_num_groups(unsigned) { return blocks; }
float opencl_sqrt(float x) { return std::sqrt(x); }
void barrier(unsigned orders) {
  races.barrier(orders);
  ++fibers[thread].barriers;
  let_go();
}
// What the sanitizer's pass puts before each access.
#define HOTSLOT_ACCESS(BYTES)                                             \
  extern "C" void __tsan_read##BYTES(void* at) { races.read(at, BYTES); } \
  extern "C" void __tsan_write##BYTES(void* at) { races.write(at, BYTES); }
HOTSLOT_ACCESS(1)
HOTSLOT_ACCESS(2)
HOTSLOT_ACCESS(4)
HOTSLOT_ACCESS(8)
HOTSLOT_ACCESS(16)

namespace {

// Whole arguments and floats go through registers of their own, and what is left over is ignored: one signature calls
// them all.
void call(const char* name, const Words& whole, const std::vector<double>& real) {
  using Any = void (*)(int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                       int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                       int64_t, int64_t, int64_t, int64_t, float, float, float, float, float, float);
  const auto kernel = reinterpret_cast<Any>(dlsym(RTLD_DEFAULT, name));
  if (!kernel) return check(false, std::string("the image has ") + name);
  Words w(whole);
  w.resize(24);
  float r[6] = {};
  std::copy(real.begin(), real.end(), r);
  kernel(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11], w[12], w[13], w[14], w[15], w[16],
         w[17], w[18], w[19], w[20], w[21], w[22], w[23], r[0], r[1], r[2], r[3], r[4], r[5]);
}

// 0 to count - 1, in their order or in a drawn one.
std::vector<size_t> order_of(size_t count, bool drawn) {
  std::vector<size_t> all(count);
  for (size_t i = 0; i < count; i++) all[i] = i;
  if (drawn) std::shuffle(all.begin(), all.end(), generator);
  return all;
}

// All threads of one block. A barrier that only some of them come to would hang a device.
void run_block(const char* name, bool drawn) {
  for (size_t t = 0; t < threads; t++) fibers[t].barriers = 0, fibers[t].ended = false;
  races.begin_block(block, threads);
  for (bool going = true; going;) {
    going = false;
    for (size_t t : order_of(threads, drawn)) {
      thread = t;
      if (fibers[thread].ended) continue;
      races.resume(thread);
      go_on();
      going |= !fibers[thread].ended;
    }
    for (size_t t = 1; t < threads; t++)
      if (fibers[t].ended != fibers[0].ended || fibers[t].barriers != fibers[0].barriers) {
        check(false, std::string(name) + ": all threads of a block come to the same barriers");
        std::exit(1);  // fibers that stand in the midst of it cannot begin anew
      }
  }
}

// What was found of races, empty where nothing was.
std::string run_grid(const char* name, const Buffers& buffers, const std::function<void()>& kernel, bool drawn) {
  body = kernel;
  std::vector<Races::Range> shared, stacks;
  for (const auto& each : buffers) shared.push_back({reinterpret_cast<const char*>(each.data()), 4 * each.size()});
  for (const Fiber& fiber : fibers) stacks.push_back({fiber.stack.data(), fiber.stack.size()});
  races.launch(shared, stacks);
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

float as_float(uint32_t word) {
  float f;
  std::memcpy(&f, &word, 4);
  return f;
}
uint32_t as_word(float f) {
  uint32_t word;
  std::memcpy(&word, &f, 4);
  return word;
}

// Both forms on the same random numbers, which `prepare` may change first. `same`: a pointer that is another one.
void compare(const char* name, const Words& wholes, const std::vector<double>& reals,
             const std::function<void(Buffers&)>& prepare = {}, const std::map<size_t, size_t>& same = {}) {
  const Kernel* kernel = find_kernel(name);
  if (!kernel) return check(false, std::string("the registry has ") + name);
  covered.insert(name);
  KernelArgs args{};
  std::copy(wholes.begin(), wholes.end(), args.whole);
  std::copy(reals.begin(), reals.end(), args.real);
  Reach reach[max_pointers];
  const char* wrong = kernel->need(args, reach);
  if (wrong || int(wholes.size()) != kernel->wholes || int(reals.size()) != kernel->reals)
    return check(false, std::string(name) + " takes these arguments: " + (wrong ? wrong : "another number of them"));
  Buffers start;
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (int i = 0; i < kernel->pointers; i++) {
    start.emplace_back((reach[i].bytes + 3) / 4);
    for (uint32_t& word : start.back()) word = as_word(uniform(generator));
  }
  if (prepare) prepare(start);
  Buffers want(start);
  for (size_t i = 0; i < want.size(); i++) args.pointer[i] = want[same.count(i) ? same.at(i) : i].data();
  if (std::strcmp(name, "gemm") == 0)
    host_kernel<decltype(host::gemm), host::gemm>("gemm", kernel->need).run(&args);
  else
    kernel->run(&args);
  check(want != start, std::string(name) + " does something");
  constexpr size_t grids[][2] = {{1, 1}, {7, 1}, {1, 3}, {5, 3}, {1, 64}, {2, 64}, {1, 256}, {3, 256}};
  for (const auto& grid : grids)
    for (bool drawn : {false, true}) {
      Buffers got(start);
      Words all = words_of(got, wholes);
      for (const auto& [i, other] : same) all[i] = all[other];
      blocks = grid[0], threads = grid[1];
      const auto in_words = [&, drawn = drawn] {
        return std::string(name) + " in " + std::to_string(blocks) + " blocks of " + std::to_string(threads) +
               (drawn ? ", drawn" : "") + (same.empty() ? "" : ", in place");
      };
      const std::string race = run_grid(
          name, got, [&] { call(name, all, reals); }, drawn);
      if (!race.empty()) return check(false, in_words() + ": " + race);
      for (size_t b = 0; b < got.size(); b++)
        for (size_t i = 0; i < got[b].size(); i++)
          if (got[b][i] != want[b][i] &&
              // Arithmetic promises nothing of a NaN's sign and payload.
              !(std::isnan(as_float(got[b][i])) && std::isnan(as_float(want[b][i])))) {
            char text[100];
            std::snprintf(text, sizeof text, ": pointer %zu[%zu] is %.9g, on the host %.9g", b, i, as_float(got[b][i]),
                          as_float(want[b][i]));
            return check(false, in_words() + text);
          }
    }
}

void any_doubles(std::vector<uint32_t>& words) {
  for (size_t i = 0; i + 1 < words.size(); i += 2) {
    const double size = std::ldexp(1 + double(generator() >> 8) * 0x1p-24, int(generator() % 290) - 155);
    const double value = generator() % 2 ? size : -size;
    std::memcpy(&words[i], &value, 8);
    // Bits that a float has no room for: none, half of the last one, and beside it.
    constexpr uint32_t rests[] = {0, 0x10000000, 0x0fffffff, 0x10000001};
    if (i % 4 == 0) words[i] = (words[i] & 0xe0000000) | rests[generator() % 4];
  }
}

// Five parts of three arrays, turned and not, in and out, one with a sign; buffers are of whole words.
void compare_halo(const char* name) {
  const std::vector<HaloMove> moves = {
      {0, 0, 0, 24, 100, 3, {{2, 25}, {3, -5}, {4, 1}}},
      {1, 2, 24, 20, 3, 2, {{4, 7}, {5, 30}}},
      {2, 1, 44, 12, 40, 2, {{3, -10}, {4, -1}}},
      {1, 0, 56, 1, 159, 0, {}},
      {9, 2, 57, 7, 6, 1, {{7, -1}}},
  };
  const Words wholes = {int64_t(moves.size()), 64, 160, 160, 80, 4, 4, 4, 4, 4, 4, 16};
  compare(name, wholes, {},
          [&](Buffers& b) { std::memcpy(b[1].data(), moves.data(), moves.size() * sizeof(HaloMove)); });
}

// Any bits of every element type; of doubles mostly those that a float has room for, and ties.
void compare_convert() {
  const auto any = [](Buffers& b) {
    for (uint32_t& word : b[1]) word = uint32_t(generator());
  };
  const auto doubles = [](Buffers& b) { any_doubles(b[1]); };
  for (int64_t type = 0; type < int64_t(std::size(element_types)); type++)
    for (const std::vector<double>& factors : {std::vector<double>{1, 0}, {1.0 / 255, -0.5}}) {
      compare("convert", {13, 17, 20, 18, type}, factors, any);
      compare("convert", {1, 1031, 1031, 1031, type}, factors, any);
      if (type == GK_FLOAT64) compare("convert", {13, 17, 20, 18, type}, factors, doubles);
    }
}

void compare_ops() {
  // Up to where exponentials overflow, and now and then what is no number.
  const auto wide = [](Buffers& b) {
    for (size_t k = 1; k < b.size(); k++)
      for (size_t i = 0; i < b[k].size(); i++)
        b[k][i] = i % 23 == 5 ? as_word(NAN) : i % 29 == 3 ? as_word(-0.0f) : as_word(100 * as_float(b[k][i]));
  };
  for (int64_t op = 0; op <= 16; op++) {
    compare("unary", {13, 17, 20, 18, op}, {});
    compare("unary", {13, 17, 20, 18, op}, {}, wide);
    compare("unary_backward", {13, 17, 20, 18, 17, op}, {}, wide);
  }
  for (int64_t op = 0; op <= 11; op++)
    for (const Words& steps : {Words{18, 1, 19, 1}, {0, 1, 3, 0}, {2, 0, 0, 1}, {0, 0, 18, 1}, {17, 1, 0, 0}})
      compare("binary", {13, 17, 20, steps[0], steps[1], steps[2], steps[3], op}, {}, wide);
  compare("where", {13, 17, 20, 0, 1, 18, 1, 3, 0}, {}, [](Buffers& b) {
    for (size_t i = 0; i < b[1].size(); i += 2) b[1][i] = 0;
  });
  compare("clip", {13, 17, 20, 18}, {-30, 40}, wide);
  for (int64_t columns : {1, 5, 32, 77, 130}) {
    for (int64_t op = 0; op <= 4; op++) compare("reduce_rows", {9, columns, 2, columns + 3, op}, {0.5});
    for (int64_t logarithm : {0, 1}) {
      compare("softmax_rows", {9, columns, columns, columns + 3, logarithm}, {}, wide);
      compare("softmax_rows", {9, columns, columns + 3, columns + 3, logarithm}, {}, wide, {{0, 1}});
    }
  }
  for (int64_t columns : {1, 5, 32, 77, 130}) {
    compare("layer_norm", {9, columns, columns + 2, columns + 3}, {1e-5});
    compare("layer_norm", {9, columns, columns + 3, columns + 3}, {1e-5}, {}, {{0, 2}});
    compare("layer_norm_backward", {9, columns, columns + 2, columns, columns + 1, columns + 3}, {});
    compare("layer_norm_backward", {9, columns, columns + 1, columns, columns + 1, columns + 3}, {}, {}, {{0, 2}});
  }
  const auto some = [](Buffers& b) {
    for (uint32_t& word : b[0]) word = as_word(3 * as_float(word));
  };
  for (int64_t op : {-1, 9, 10, 12, 13, 14, 15, 16}) {
    compare("norm_act", {9, 77, 79, 80, op}, {1e-5}, some);
    compare("norm_act_backward", {9, 77, 78, 77, 79, 80, op}, {}, some);
    compare("norm_act_backward", {9, 77, 80, 77, 79, 80, op}, {}, some, {{0, 3}});
  }
  compare("scatter_columns", {33, 6, 7, 2, 3}, {}, [](Buffers& b) {
    for (size_t i = 0; i < b[2].size(); i++) b[2][i] = as_word(float(i / 3 % 8) - 1);
  });
}

void compare_learners() {
  const auto wide = [](Buffers& b) {
    for (size_t k = 1; k < b.size(); k++)
      for (uint32_t& word : b[k]) word = as_word(4 * as_float(word));
  };
  for (int64_t correction : {0, 1, 2, 3}) {
    const int64_t form = correction % 2, apart = correction / 2 * 2;
    // Half widths are above 0, and so are what logarithms are taken of.
    const auto boxed = [&](size_t box) {
      return [=](Buffers& b) {
        wide(b);
        for (uint32_t& word : b[box]) word = as_word(std::fabs(as_float(word)) + 0.1f);
      };
    };
    compare("squashed_gaussian", {13, 3, 5, 7, form, correction}, {-5, 2, 1e30}, boxed(4));
    compare("squashed_gaussian_backward", {13, 3, 6, 7, 4, apart, form, correction}, {-1, 0.5, 2, 0.25}, boxed(3));
  }
  for (int64_t atoms : {2, 37}) {
    compare("categorical_project", {9, atoms, 1, 2, 0}, {-1, 2}, wide);
    compare("categorical_project", {9, atoms, 3, 1, 1}, {-10, 10}, [&](Buffers& b) {
      wide(b);
      b[3][6] = as_word(NAN);
    });
    for (double least : {-1e30, -2.0})
      compare("categorical_loss", {9, atoms, atoms + 1, 2, atoms + 3, 0}, {least, 0.1, -1, 2}, wide);
    compare("categorical_loss", {9, atoms, atoms, 1, atoms, 2}, {-30, 0.1, -10, 10}, wide);
    compare("categorical_mean", {9, atoms, 2, atoms + 1}, {-1, 2}, wide);
    for (int64_t apart : {0, 2})
      compare("categorical_mean_backward", {9, atoms, atoms + 2, apart, atoms + 1, 3}, {-1, 2}, wide);
  }
  for (uint32_t counter : {0u, 9u})
    compare("count_odd", {300, 4, 3}, {}, [=](Buffers& b) {
      for (uint32_t& word : b[0]) word = 0;
      b[1][3] = as_word(NAN), b[1][70] = as_word(-INFINITY), b[1][299] = as_word(INFINITY);
      b[2] = {4, 4, 200, 400}, b[3][0] = counter;
    });
  const auto statistics = [](Buffers& b) {
    for (size_t k : {1u, 4u})
      for (uint32_t& word : b[k]) word = as_word(std::fabs(as_float(word)));
    b[5][0] = 77, b[5][1] = 0;
  };
  for (int64_t form : {0, 1}) compare("moments", {67, 32, form, form}, {form ? 0 : 1e-4, 1e-2}, statistics);
  compare("moments_advance", {32}, {}, [](Buffers& b) { b[0][0] = UINT32_MAX - 5, b[0][1] = 3; });
}

void compare_all() {
  compare_convert();
  for (const char* name : {"halo8", "halo16", "halo32", "halo64"}) compare_halo(name);
  for (int64_t act : {0, 1, 2}) {
    const auto wide = [](Buffers& b) {
      for (uint32_t& word : b[1]) word = as_word(12 * as_float(word));
    };
    compare("bias_act", {13, 17, 20, 18, act}, {}, wide);
    compare("act_backward", {13, 17, 20, 18, 17, act}, {});
    compare("planes", {5, 3, 17, 53, act}, {}, wide);
    compare("planes_backward", {5, 3, 17, 53, 52, act}, {});
  }
  for (const Words& form : {Words{7, 6, 3, 2, 2, 1}, {5, 9, 1, 4, 1, 0}, {4, 4, 4, 4, 3, 3}, {9, 8, 2, 3, 3, 0}}) {
    const Words wholes = {3, 2, form[0], form[1], form[2], form[3], form[4], form[5], 2 * form[0] * form[1] + 3};
    compare("patches", wholes, {});
    compare("patches_backward", wholes, {});
  }
  for (const auto& s :
       {Words{1, 1}, {1, 130}, {7, 3}, {8, 4}, {9, 5}, {64, 9}, {65, 1}, {512, 2}, {513, 5}, {1000, 130}}) {
    const Words wholes = {s[0], s[1], s[1] + s[0] % 2 * 3};
    compare("column_sums", wholes, {0.25, 0.5});
    // Nothing is read of what is NaN; a sum of nothing but -0 is +0.
    compare("column_sums", wholes, {0.25, 0}, [&](Buffers& b) {
      for (uint32_t& word : b[0]) word = as_word(NAN);
      for (size_t i = 0; i < b[1].size(); i += size_t(wholes[2])) b[1][i] = as_word(-0.0f);
    });
  }
  compare_ops();
  compare_learners();
  compare("argmax_rows", {33, 6, 7}, {}, [](Buffers& b) { b[2][0] = b[2][8] = as_word(NAN), b[2][15] = b[2][16]; });
  compare("gather_columns", {33, 6, 7, 2}, {}, [](Buffers& b) {
    for (size_t i = 0; i < b[2].size(); i++) b[2][i] = as_word(float(i % 9) - 1);
  });
  compare("gather", {33, 6, 5, 7, 8}, {}, [](Buffers& b) {
    for (size_t i = 0; i < b[2].size(); i++) b[2][i] = uint32_t(i % 7) - 1;
  });
  compare("copy2d", {13, 17, 20, 18}, {});
  compare("fill", {1031, INT64_MIN + 5}, {});
  compare("axpby", {1031}, {0.005, 0.995});
  compare("axpby", {1031}, {0.005, 0});
  compare("copy_every", {1031, 4}, {}, [](Buffers& b) { b[2][0] = 8; });
  for (const auto& s : {Words{1, 3}, {4, 2}, {7, 1}})
    for (double threshold : {0.0, 0.7}) {
      const int64_t n = s[0], d = s[1], apart = n * d + 2;
      compare("goal_reward", {33, n, d, 2, apart, d + 1, 3}, {0.97, threshold}, [=](Buffers& b) {
        for (size_t i = 0; i < b[3].size(); i++) b[3][i] = uint32_t(i % size_t(n + 3)) - 1;
        for (size_t i = 0; i < b[1].size(); i += 3) b[1][i] = b[2][i / size_t(apart) * size_t(d + 1)];
        b[1][4] = as_word(NAN);
      });
    }
  compare("td_target", {33, 5, 6, 5, 3, 2, 1}, {0.99});
  for (double delta : {0.0, 0.3})
    compare("td_loss", {33, 5, 6, 7, 2}, {delta, 1.0 / 33}, [](Buffers& b) {
      for (size_t i = 0; i < b[4].size(); i++) b[4][i] = as_word(float(i % 14) / 2 - 1);
    });
  compare("td_target_discounts", {33, 5, 6, 5, 3, 2}, {});
  for (double delta : {0.0, 0.3})
    for (int64_t apart : {0, 1, 4})
      compare("td_loss_weighted", {33, 5, 6, 2, 7, 2, apart}, {delta, 1.0 / 33}, [](Buffers& b) {
        for (size_t i = 0; i < b[5].size(); i++) b[5][i] = as_word(float(i % 14) / 2 - 1);
      });
  for (int64_t n : {1, 256, 1031, 2048, 2049, 530001}) compare("grad_norm", {n}, {});
  for (double most : {0.5, 50.0})
    compare("clip_scale", {}, {most}, [](Buffers& b) {
      for (uint32_t& word : b[1]) word = as_word(std::fabs(as_float(word)));
    });
  for (uint32_t steps : {0u, 1u, 999u, 123456u})
    compare("adam_advance", {}, {0.1, 0.001}, [=](Buffers& b) { b[0][0] = steps; });
  for (const auto& decays : {std::vector<double>{0, 0}, {0.1, 0}, {0, 0.1}})
    compare("adam", {1031}, {0.1, 0.001, 1e-8, decays[0], decays[1]}, [](Buffers& b) {
      for (uint32_t& word : b[2]) word = as_word(std::fabs(as_float(word)));
      b[4] = {as_word(0.01f), as_word(1.5f), as_word(0.5f), 0};
    });
  for (int64_t n : {1, 1031}) {
    const auto place = [](Buffers& b) { b[1][2] = UINT32_MAX - 2; };
    compare("random_uniform", {n}, {-0.5, 1.5}, place);
    compare("random_normal", {n}, {2, 3}, place);
    compare("random_advance", {n}, {}, [](Buffers& b) { b[0][2] = UINT32_MAX; });
    compare("draw_places", {n}, {}, [](Buffers& b) { b[1][4] = 90, b[1][5] = 60, b[1][6] = 100, b[1][7] = 0; });
  }
  for (int64_t words : {4, 16, 36})
    for (int64_t shift : {0, 3, 5})
      compare("gather_places", {33, words, 9, shift}, {}, [](Buffers& b) {
        for (size_t i = 0; i < b[2].size(); i++) b[2][i] = uint32_t(i * 7 % 11);
      });
  // Rows of 48 bytes, 9 in the ring and 4 fresh ones: some places lie in either, some in neither, one is to be left.
  for (const auto& s : {Words{16, 16, 16}, Words{48, 0, 16}, Words{12, 8, 4}, Words{10, 3, 1}})
    for (int64_t shift : {0, 3, 5})
      compare("gather_fields", {33, s[0], s[1], 48, 9, 4, s[2], shift}, {}, [](Buffers& b) {
        for (size_t i = 0; i < b[3].size(); i++) b[3][i] = uint32_t(i * 7 % 15);
        b[3][5] = UINT32_MAX - 1, b[3][6] = UINT32_MAX;
      });
  for (int64_t told : {1, 5, 7, 9})
    for (int64_t shift : {0, 2})
      compare("put_places", {7, 12, 40, shift}, {}, [=](Buffers& b) {
        b[2][0] = uint32_t(told);
        const int64_t rows = std::clamp<int64_t>(told, 0, 7);
        for (int64_t i = 0; i < rows; i++) b[1][size_t(rows * 12 + i)] = i == 3 ? UINT32_MAX : uint32_t(i * 5);
      });
  for (int64_t trans = 0; trans < 4; trans++)
    for (const auto& s : {Words{1, 1, 1}, Words{13, 17, 19}, Words{16, 8, 33}, Words{6, 2, 5}}) {
      const int64_t m = s[0], n = s[1], k = s[2];
      for (double beta : {0.0, 0.5})
        compare("gemm", {trans & 1, trans >> 1, m, n, k, std::max(m, k) + 1, std::max(n, k) + 2, n + 3}, {-0.75, beta});
    }
  for (const Kernel& kernel : all_kernels()) {
    bool test = false;
    for (const Kernel& other : test_kernels()) test |= std::strcmp(other.name, kernel.name) == 0;
    check(test || covered.count(kernel.name), std::string(kernel.name) + " is compared");
  }
}

// Whether the call ends its process, as a device's fault ends a kernel.
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

}  // namespace

int main() {
  begin_fibers();
  check_races(), compare_all(), test_the_test_kernels();
  std::printf("%zu kernels compared: %d failures\n", covered.size(), failures.load());
  return failures > 0;
}
