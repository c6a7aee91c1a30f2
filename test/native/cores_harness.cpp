// Stresses the core pool and the spin lock without JavaScript, for the sanitizers. The callers'
// jobs are short, so that helpers arrive while a job ends. Prints each error and returns 1. Build
// it in the project's root:
//   g++ -std=c++17 -O1 -g -fsanitize=thread -pthread -Inative test/native/cores_harness.cpp
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "wait/bell.hpp"
#include "wait/core_pool.hpp"
#include "wait/spin_lock.hpp"

using hotslot::CorePool;
using hotslot::now_ns;
using hotslot::SpinLock;

namespace {

std::atomic<int> failures{0};

void wrong(const char* what, int at, int got) {
  if (failures++ < 10) std::printf("%s: %d, %d\n", what, at, got);
}
void equal(const char* what, int at, int got, int expected) {
  if (got != expected) wrong(what, at, got);
}

// Creates a pool that is never destroyed, because its threads keep running.
CorePool& pool_of(int cores) {
  static std::vector<CorePool*>& made = *new std::vector<CorePool*>;
  return *made.emplace_back(new CorePool(cores));
}

template <class F>
void run(CorePool& pool, int pieces, int helpers, F&& do_piece) {
  pool.run(pieces, helpers, &do_piece,
           [](void* data, int piece) { (*static_cast<F*>(data))(piece); });
}

// ---- how many -----------------------------------------------------------------------------------

// Checks the number of helpers of a large job, for numbers of cores and of library threads.
void choices() {
  constexpr uint64_t large = uint64_t{1} << 30;
  constexpr int alone = 1, actors = 5, collectors = 13;
  constexpr struct {
    int cores, threads, helpers;
  } expected[] = {
      {1, alone, 0},       {1, actors, 0},     {1, collectors, 0}, {2, alone, 1},
      {2, actors, 1},      {2, collectors, 1}, {4, alone, 3},      {4, actors, 3},
      {4, collectors, 3},  {16, 0, 15},        {16, alone, 15},    {16, actors, 11},
      {16, collectors, 3}, {64, alone, 16},    {64, actors, 16},   {64, collectors, 16},
      {64, 60, 4},         {64, 200, 3},
  };
  for (const auto& [cores, threads, helpers] : expected) {
    CorePool pool(cores);
    pool.count_thread(threads);
    equal("helpers for a large job", 1000 * cores + threads, pool.helpers(large), helpers);
    equal("helpers for one byte too few", cores, pool.helpers(CorePool::bytes_each - 1), 0);
    equal("a helper for each 256 KiB", cores, pool.helpers(3 * CorePool::bytes_each),
          std::min(helpers, 3));
    pool.count_thread(-threads);
    equal("threads that ended", cores, pool.helpers(large), CorePool::spare(cores, 1));
  }
  CorePool few(16), more(16);
  few.bound(4);
  more.bound(std::numeric_limits<int>::max());
  equal("a bound of 4 cores", 16, few.helpers(large), 3);
  equal("a bound of more cores than there are", 16, more.cores(), 16);
}

void groups() {
  namespace fs = std::filesystem;
  char made[] = "/tmp/hotslot-groups-XXXXXX";
  if (mkdtemp(made) == nullptr) return wrong("a folder", 0, errno);
  const std::string root = made;
  const auto write = [&](const std::string& at, const std::string& text) {
    fs::create_directories(fs::path(root + at).parent_path());
    std::ofstream(root + at) << text;
  };
  const auto cores = [&](const char* listed) {
    write("/listed", listed);
    return hotslot::cores_by_group(root + "/listed", root + "/mounted");
  };
  equal("no file", 0, hotslot::cores_by_group(root + "/nothing", root), 0);
  equal("no limit file", 0, cores("0::/\n"), 0);
  write("/mounted/a/b/cpu.max", "max 100000\n");
  equal("version 2: no limit", 0, cores("0::/a/b\n"), 0);
  write("/mounted/a/cpu.max", "350000 100000\n");
  equal("version 2: the limit of the group above", 0, cores("0::/a/b\n"), 3);
  write("/mounted/a/b/cpu.max", "50000 100000\n");
  equal("version 2: less than one core", 0, cores("0::/a/b\n"), 1);
  write("/mounted/cpu.max", "200000 100000\n");
  equal("in a container, whose path does not exist here", 0, cores("0::/not/here\n"), 2);
  fs::remove(root + "/mounted/cpu.max");
  write("/mounted/cpu,cpuacct/d/cpu.cfs_quota_us", "-1\n");
  write("/mounted/cpu,cpuacct/d/cpu.cfs_period_us", "100000\n");
  equal("version 1: no limit", 0, cores("7:memory:/d\n4:cpu,cpuacct:/d\n"), 0);
  write("/mounted/cpu,cpuacct/d/cpu.cfs_quota_us", "400000\n");
  equal("version 1", 0, cores("7:memory:/d\n4:cpu,cpuacct:/d\n"), 4);
  fs::create_directory_symlink("cpu,cpuacct", root + "/mounted/cpu");
  equal("version 1, whose folder lists its controllers in another order", 0,
        cores("4:cpuacct,cpu:/d\n"), 4);
  equal("malformed lines", 0, cores("\n4\n4:cpu\n"), 0);
  fs::remove_all(root);
}

// Counts the helper threads of all pools by their name.
int helpers_now() {
  int count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    count += name == CorePool::thread_name;
  }
  return count;
}

// Waits until `others` threads have arrived. After 20 s it reports an error and returns.
void meet(std::atomic<int>& come, int others) {
  come.fetch_add(1);
  for (const uint64_t limit = now_ns() + 20'000'000'000; come.load() < others;) {
    if (now_ns() > limit)
      return wrong("threads that work at a job at the same time", others, come.load());
    sched_yield();
  }
}

// Must run first, because it counts the helpers of all pools.
void woken() {
  CorePool& pool = pool_of(64);
  std::atomic<int> come{0};
  run(pool, 1, 16, [](int) {});
  equal("threads for one piece", 1, helpers_now(), 0);
  run(pool, 3, 16, [&](int) { meet(come, 3); });
  equal("threads for three pieces", 3, helpers_now(), 2);
  come = 0;
  run(pool, 17, 16, [&](int) { meet(come, 17); });
  equal("threads for seventeen", 17, helpers_now(), 16);
  run(pool, 100, 16, [](int) {});
  equal("threads for a hundred", 100, helpers_now(), 16);

  // A second caller does not get additional helpers.
  CorePool& small = pool_of(4);
  std::atomic<int> first{0};
  std::atomic<bool> over{false};
  std::thread other([&] {
    run(small, 4, 3, [&](int) {
      first.fetch_add(1);
      while (!over.load()) sched_yield();
    });
  });
  while (first.load() < 4) sched_yield();
  std::set<std::thread::id> by;
  run(small, 8, 3, [&](int) { by.insert(std::this_thread::get_id()); });
  equal("helpers of a second caller", 3, int(by.size()), 1);
  over = true;
  other.join();
}

// ---- the rules ----------------------------------------------------------------------------------

// The pieces work on the caller's plain memory, written before and read after each job. If a piece
// runs twice or after its job, or if a result is late, that is a race or a wrong number (CorePool-1
// to CorePool-3).
void jobs(CorePool& pool, int caller, uint64_t end, std::atomic<uint64_t>* helped) {
  constexpr int most = 9;
  const auto self = std::this_thread::get_id();
  for (int round = 1; now_ns() < end && failures == 0; ++round) {
    const int pieces = 1 + (round + caller) % most, helpers = round % 5;
    int input = round, times[most] = {}, results[most] = {};
    std::thread::id by[most];
    run(pool, pieces, helpers, [&](int piece) {
      ++times[piece];
      by[piece] = std::this_thread::get_id();
      // Some helpers' pieces take longer, so that the caller has to wait for them.
      if (by[piece] != self && input % 4 == 0)
        for (const uint64_t until = now_ns() + 30'000; now_ns() < until;) sched_yield();
      results[piece] = input + piece;
    });
    std::set<std::thread::id> others;
    for (int piece = 0; piece < pieces; ++piece) {
      if (times[piece] != 1) wrong("number of times that a piece was done", piece, times[piece]);
      if (results[piece] != round + piece) wrong("a result is missing", piece, results[piece]);
      if (by[piece] != self) others.insert(by[piece]);
      *helped += by[piece] != self;
    }
    // CorePool-5
    if (int(others.size()) > std::min(helpers, pieces - 1))
      wrong("helpers of a job", helpers, int(others.size()));
    // A piece that runs after its job would find these values.
    input = 0;
    for (int& each : times) each = 7;
  }
}

void stress(int cores, int milliseconds) {
  CorePool& pool = pool_of(cores);
  const uint64_t end = now_ns() + uint64_t(milliseconds) * 1'000'000;
  std::atomic<uint64_t> helped{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 3; ++caller)
    callers.emplace_back([&, caller] { jobs(pool, caller, end, &helped); });
  for (auto& caller : callers) caller.join();
  if (cores == 1) equal("pieces of helpers", cores, int(helped), 0);
  std::printf("%d cores: helpers did %llu pieces\n", cores, (unsigned long long)helped);
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
  if (guarded != uint64_t(threads) * times)
    wrong("additions under the lock were lost", threads * times, int(guarded));
}

}  // namespace

int main() {
  woken();
  choices();
  groups();
  for (int cores : {1, 2, 4, 16}) stress(cores, 150);
  spin_lock();
  return failures > 0;
}
