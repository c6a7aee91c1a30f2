// Stress of idle cores and the spin lock without JavaScript, for the sanitizers: callers whose jobs are short, so that
// helpers come while they end. Says what is wrong and returns 1. From the project root:
//   g++ -std=c++17 -O1 -g -fsanitize=thread -pthread -Inative test/native/cores_harness.cpp
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "wait/bell.hpp"
#include "wait/idle_cores.hpp"
#include "wait/spin_lock.hpp"

using hotslot::IdleCores;
using hotslot::now_ns;
using hotslot::SpinLock;

namespace {

std::atomic<int> failures{0};

void wrong(const char* what, int at, int got) {
  if (failures++ < 10) std::printf("%s: %d, %d\n", what, at, got);
}

// What a piece works on is plain memory of the caller's, written before and read behind each job: a piece that is done
// twice or after its job, and a result that comes late, are races or wrong numbers (C1 to C3).
void jobs(int caller, uint64_t end, std::atomic<uint64_t>* helped) {
  constexpr int most = 9;
  const auto self = std::this_thread::get_id();
  for (int round = 1; now_ns() < end && failures == 0; ++round) {
    const int pieces = 1 + (round + caller) % most;
    int input = round, times[most] = {}, results[most] = {};
    bool others[most] = {};
    IdleCores::run(pieces, [&](int piece) {
      ++times[piece];
      others[piece] = std::this_thread::get_id() != self;
      // A helper's piece lasts now and then, so that its caller waits for it alone.
      if (others[piece] && input % 4 == 0)
        for (const uint64_t until = now_ns() + 30'000; now_ns() < until;) sched_yield();
      results[piece] = input + piece;
    });
    for (int piece = 0; piece < pieces; ++piece) {
      if (times[piece] != 1) wrong("a piece was done so often", piece, times[piece]);
      if (results[piece] != round + piece) wrong("a result is not there", piece, results[piece]);
      *helped += others[piece];
    }
    // Who came too late would find this.
    input = 0;
    for (int& each : times) each = 7;
  }
}

void idle_cores(int milliseconds) {
  const uint64_t end = now_ns() + uint64_t(milliseconds) * 1'000'000;
  std::atomic<uint64_t> helped{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 3; ++caller) callers.emplace_back([&, caller] { jobs(caller, end, &helped); });
  for (auto& caller : callers) caller.join();
  if (IdleCores::count() > 1 && helped == 0) wrong("nobody ever helped", IdleCores::count(), 0);
  std::printf("idle cores: %d, %llu pieces were helped with\n", IdleCores::count(), (unsigned long long)helped);
}

void spin_lock() {
  SpinLock lock;
  uint64_t guarded = 0;
  constexpr int threads = 3, times = 20'000;
  std::vector<std::thread> all;
  for (int i = 0; i < threads; ++i)
    all.emplace_back([&] {
      for (int n = 0; n < times; ++n) {
        std::lock_guard guard(lock);
        ++guarded;
      }
    });
  for (auto& each : all) each.join();
  if (guarded != uint64_t(threads) * times) wrong("additions under the lock were lost", threads * times, int(guarded));
}

}  // namespace

int main() {
  idle_cores(500);
  spin_lock();
  return failures > 0;
}
