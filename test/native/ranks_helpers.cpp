// Stresses the thread that owns MPI, and waiting threads that do its work. Two threads must never
// be in MPI at the same time. Every request is answered once, whichever thread finds the answer.
// The MPI thread may end during that. The fake MPI of this file has one process, and answers after
// some checks.
#include "ranks_helpers.hpp"

#include <unistd.h>

#include <cstdlib>
#include <deque>
#include <set>
#include <thread>

#include "check.hpp"
#include "ranks/thread.hpp"

using namespace hotslot;
using namespace hotslot::ranks;

namespace {

std::atomic<int> inside{0};
std::atomic<bool> gone{false};
// Checks that only one thread is in MPI while this object lives.
struct Inside {
  Inside() {
    if (inside.fetch_add(1) != 0) wrong("two threads are in MPI");
    if (gone) wrong("MPI is called after its thread ended");
  }
  ~Inside() { inside.fetch_sub(1); }
};

// Makes one test() call throw. Only one, because MPI need not repeat an error.
std::atomic<bool> fails{false};

// A gather of this many bytes never completes.
constexpr size_t never = 5;

class AloneMpi final : public Mpi {
 public:
  void init() override {}
  bool serialized() const override { return true; }
  void finalize() override { Inside here; }
  std::string version() override { return "alone"; }
  int rank() override { return 0; }
  int size() override { return 1; }
  int max_tag() override { return 32767; }
  Comm duplicate(const Comm*) override { return {1}; }
  void free(Comm&) override {}
  Request send_init(const void*, size_t, int, int, const Comm&) override { std::abort(); }
  Request recv_init(void*, size_t, int, int, const Comm&) override { std::abort(); }
  void start(Request&) override { std::abort(); }
  Request send(const void*, size_t, int, int, const Comm&) override { std::abort(); }
  Request all_gather(const void* in, size_t count, void* out, const Comm&) override {
    Inside here;
    std::memcpy(out, in, count);
    late_.push_back(count == never ? 1 << 30 : int(late_.size() % 7));
    return {late_.size()};
  }
  bool test(Request& request) override {
    Inside here;
    if (fails.exchange(false)) throw Failure("it fails");
    return late_[request.is - 1]-- <= 0;
  }
  void test_some(const std::vector<Request*>&, std::vector<int>&) override { std::abort(); }
  void cancel(Request&) override {}
  void free(Request&) override {}

 private:
  std::deque<int> late_;
};

// The notices of the thread so far.
struct Told {
  std::mutex mutex;
  std::multiset<double> agreed;
  std::atomic<int> closed{0}, failed{0};
  alignas(64) int32_t words[16] = {};

  void hear(const Notice& notice) {
    if (notice.kind == Notice::agreed) {
      const std::lock_guard<std::mutex> lock(mutex);
      agreed.insert(notice.job);
    }
    closed += notice.kind == Notice::closed;
    failed += notice.kind == Notice::failed;
    word_at(words).fetch_add(1);
    futex_wake(words, 100);
  }
};

enum class End { closed, left, failed };

void play(End end, int helpers, uint64_t ns) {
  fails = gone = false;
  alignas(64) static int32_t bell[16];
  Told told;
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  {
    Thread thread({"alone"}, reinterpret_cast<Bell*>(bell),
                  [&told](Notice&& notice) { told.hear(notice); });
    for (int i = 0; i < helpers; ++i)
      threads.emplace_back([&told, &over, ns] {
        while (!over) {
          const int32_t seen = word_at(told.words).load();
          if (!Thread::look_until(told.words, seen, ns)) futex_wait(told.words, seen, 1'000'000);
        }
      });
    constexpr int asked = 600;
    for (int i = 0; i < asked; ++i) {
      thread.agree(i, {1, 2, 3});
      if (i % 64 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      if (end == End::failed && i == asked / 2) fails = true;
    }
    const auto until = [&told](auto so) {
      for (const uint64_t begin = now_ns(); now_ns() - begin < 30'000'000'000;) {
        const int32_t seen = word_at(told.words).load();
        if (so()) return;
        futex_wait(told.words, seen, 100'000'000);
      }
      wrong("an expected notice did not arrive");
    };
    if (end == End::failed) {
      until([&] { return told.failed > 0; });
    } else {
      until([&] {
        const std::lock_guard<std::mutex> lock(told.mutex);
        return told.agreed.size() >= size_t(asked);
      });
      for (int i = 0; i < asked; ++i) IS(1, told.agreed.count(i));
      if (end == End::left) {
        thread.agree(asked, std::vector<uint8_t>(never));
        std::this_thread::sleep_for(std::chrono::milliseconds(4));
      }
      if (end == End::closed) {
        thread.close(7);
        until([&] { return told.closed > 0; });
      }
    }
  }
  gone = true;
  std::this_thread::sleep_for(std::chrono::milliseconds(3));
  over = true;
  for (auto& each : threads) each.join();
  IS(end == End::closed ? 1 : 0, told.closed);
  IS(end == End::failed ? 1 : 0, told.failed);
}

}  // namespace

std::unique_ptr<Mpi> Mpi::open(const std::vector<std::string>&, std::string&) {
  return std::make_unique<AloneMpi>();
}

void help() {
  for (const End end : {End::closed, End::left, End::failed})
    // With 2 ms the MPI thread leaves its work to the helpers, with 50 µs it does not. The last run
    // has no helpers.
    for (const uint64_t ns : {2'000'000, 50'000}) play(end, 3, ns);
  play(End::closed, 0, 0);
}
