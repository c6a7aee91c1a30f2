// Kernels for tests only. One fails, one keeps its thread busy, and one blocks its stream until a
// word in memory changes. These are the host forms, and test/test.gk has the forms of devices.
#include <time.h>

#include "kernels/need.hpp"

namespace hotslot {
namespace {

int64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t(t.tv_sec) * 1000000000 + t.tv_nsec;
}

// fail(): fails. Its stream keeps the error.
const char* run_fail(const KernelArgs*) {
  return "the test kernel 'fail' failed as it was asked to";
}
const char* need_nothing(const KernelArgs&, Reach*) { return nullptr; }

// spin(; µs): keeps its thread busy for this time, at most 10 s.
const char* run_spin(const KernelArgs* args) {
  const int64_t end = now_ns() + args->whole[0] * 1000;
  while (now_ns() < end) {}
  return nullptr;
}
const char* need_spin(const KernelArgs& args, Reach* reach) {
  Check check(args, reach);
  check.at_least(0, "microseconds", 0), check.at_most(0, "microseconds", 10000000);
  return check.verdict();
}

// latch(word int32; milliseconds): waits until the word is not zero. Fails after this time, at most
// 10 s.
const char* run_latch(const KernelArgs* args) {
  const auto* word = static_cast<const int32_t*>(args->pointer[0]);
  const int64_t end = now_ns() + args->whole[0] * 1000000;
  // Pairs with the sequentially consistent store that opens the latch.
  while (__atomic_load_n(word, __ATOMIC_SEQ_CST) == 0) {
    if (now_ns() >= end) return "the test kernel 'latch' was never opened";
    const timespec nap{0, 20000};
    nanosleep(&nap, nullptr);
  }
  return nullptr;
}
const char* need_latch(const KernelArgs& args, Reach* reach) {
  Check check(args, reach);
  check.at_least(0, "milliseconds", 1), check.at_most(0, "milliseconds", 10000);
  check.vector(0, 1);
  return check.verdict();
}

}  // namespace

const std::vector<Kernel>& test_kernels() {
  static const auto& list = *new std::vector<Kernel>{
      {"fail", 0, 0, 0, need_nothing, run_fail, {}, {}},
      {"spin", 0, 1, 0, need_spin, run_spin, {}, {}, true},
      {"latch", 1, 1, 0, need_latch, run_latch, {'i'}, {4}, true},
  };
  return list;
}

}  // namespace hotslot
