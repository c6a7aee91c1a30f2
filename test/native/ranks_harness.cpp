// Stresses halos between processes and the thread that serves them, without JavaScript and MPI, for
// the sanitizers. A process is a thread that serves its exchanges, and a rank is a thread that
// follows Exchange-1 to Exchange-6. The fake MPI of this program delivers messages late, and
// completes a send even later. Prints each error and returns 1. The argument is the number of
// exchanges. Build it in the project's root:
//   g++ -std=c++17 -O1 -g -fsanitize=thread -Inative test/native/ranks_*.cpp
//   native/ranks/{halo,thread}.cpp
#include <unistd.h>

#include <cstdlib>
#include <deque>
#include <map>
#include <random>
#include <thread>
#include <tuple>

#include "check.hpp"
#include "ranks/halo.hpp"
#include "ranks_helpers.hpp"

using namespace hotslot;
using namespace hotslot::ranks;

namespace {

constexpr int32_t open_state = 1, closed_state = 2;
constexpr size_t half_bytes = 192, stride = 256;

// Messages between processes. The receive that was started for a message takes it. The sender's
// request completes some checks later, as in a rendezvous.
class Wire {
 public:
  struct Message {
    std::vector<uint8_t> bytes;
    std::shared_ptr<std::atomic<int>> taken;
    // number of checks that do not find the message yet
    int late;
  };
  using Key = std::tuple<int, int, int>;  // from, to, tag
  std::shared_ptr<std::atomic<int>> put(const Key& key, const void* bytes, size_t count, int late) {
    const auto* at = static_cast<const uint8_t*>(bytes);
    Message message{{at, at + count}, std::make_shared<std::atomic<int>>(0), late};
    const std::lock_guard<std::mutex> lock(mutex_);
    messages_[key].push_back(message);
    return message.taken;
  }
  bool take(const Key& key, void* to, size_t room) {
    const std::lock_guard<std::mutex> lock(mutex_);
    auto& waiting = messages_[key];
    if (waiting.empty() || waiting.front().late-- > 0) return false;
    if (waiting.front().bytes.size() > room) wrong("a message is longer than its receive");
    std::memcpy(to, waiting.front().bytes.data(), waiting.front().bytes.size());
    waiting.front().taken->store(1);
    waiting.pop_front();
    return true;
  }

 private:
  std::mutex mutex_;
  std::map<Key, std::deque<Message>> messages_;
};

class FakeMpi final : public Mpi {
 public:
  FakeMpi(Wire& wire, int rank, int size)
      : wire_(wire), rank_(rank), size_(size), random_(unsigned(rank) + 1) {}
  void init() override {}
  void finalize() override {}
  bool serialized() const override { return true; }
  std::string version() override { return "late"; }
  int rank() override { return rank_; }
  int size() override { return size_; }
  int max_tag() override { return 32767; }
  Comm duplicate(const Comm*) override { return {1}; }
  void free(Comm&) override {}
  Request send_init(const void* bytes, size_t count, int to, int tag, const Comm&) override {
    return made({const_cast<void*>(bytes), count, to, tag, true, true, false, nullptr, 0});
  }
  Request recv_init(void* bytes, size_t count, int from, int tag, const Comm&) override {
    return made({bytes, count, from, tag, false, true, false, nullptr, 0});
  }
  void start(Request& request) override {
    Asked& asked = all_[request.is - 1];
    if (asked.going) wrong("a request was started twice");
    asked.going = true;
    asked.late = int(random_() % 5);
    if (asked.sends)
      asked.taken =
          wire_.put({rank_, asked.other, asked.tag}, asked.bytes, asked.count, int(random_() % 20));
  }
  Request send(const void* bytes, size_t count, int to, int tag, const Comm& comm) override {
    Request request = send_init(bytes, count, to, tag, comm);
    all_[request.is - 1].persistent = false;
    start(request);
    return request;
  }
  Request all_gather(const void*, size_t, void*, const Comm&) override { std::abort(); }
  bool test(Request& request) override {
    Asked& asked = all_[request.is - 1];
    if (!asked.going) return true;
    const bool over = asked.sends ? asked.taken->load() != 0 && asked.late-- <= 0
                                  : asked.late-- <= 0 && wire_.take({asked.other, rank_, asked.tag},
                                                                    asked.bytes, asked.count);
    if (over) asked.going = false;
    return over;
  }
  void test_some(const std::vector<Request*>& requests, std::vector<int>& over) override {
    over.clear();
    for (size_t i = 0; i < requests.size(); ++i)
      if (test(*requests[i])) over.push_back(int(i));
  }
  void cancel(Request& request) override { all_[request.is - 1].going = false; }
  void free(Request&) override {}

 private:
  struct Asked {
    void* bytes;
    size_t count;
    int other, tag;
    bool sends, persistent, going;
    std::shared_ptr<std::atomic<int>> taken;
    int late;
  };
  Request made(Asked asked) {
    all_.push_back(std::move(asked));
    return {all_.size()};
  }
  Wire& wire_;
  const int rank_, size_;
  std::minstd_rand random_;
  std::deque<Asked> all_;
};

// A ring of ranks, each with a neighbor on both sides. Buffer 2r receives at rank r from r − 1, and
// buffer 2r + 1 from r + 1.
struct World {
  const int ranks, each;
  Wire wire;
  explicit World(int ranks, int each) : ranks(ranks), each(each) {}
  int left(int rank) const { return (rank + ranks - 1) % ranks; }
  int right(int rank) const { return (rank + 1) % ranks; }
};

// The memory of a process: all words and halves of the exchange.
struct Process {
  World& world;
  const int here;
  alignas(64) int32_t note[line] = {};
  std::vector<int32_t> states, bells, halves;
  std::vector<uint8_t> data;
  std::vector<Notice> told;
  FakeMpi mpi;
  std::unique_ptr<Halo> halo;

  Process(World& world, int here)
      : world(world),
        here(here),
        states(size_t(world.ranks) * line),
        bells(size_t(world.ranks) * line),
        halves(size_t(world.ranks) * 2 * line),
        data(size_t(world.ranks) * 2 * 2 * stride),
        mpi(world.wire, here, world.ranks / world.each) {
    HaloSetup setup{note, states.data(), bells.data(), halves.data(), data.data(), {}, {}, here};
    for (int rank = 0; rank < world.ranks; ++rank) {
      setup.process.push_back(rank / world.each);
      word_at(&states[size_t(rank) * line]).store(open_state);
      for (const int sender : {world.left(rank), world.right(rank)})
        setup.buffers.push_back(
            {rank, sender, setup.buffers.size() * 2 * stride, stride, half_bytes});
    }
    halo = std::make_unique<Halo>(mpi, Comm{1}, 0, setup,
                                  [this](Notice&& notice) { told.push_back(std::move(notice)); });
  }
  int32_t* word(int buffer, int64_t exchange) {
    return &halves[size_t(buffer) * line + size_t(exchange % 2)];
  }
  uint8_t* half(int buffer, int64_t exchange) {
    return &data[(size_t(buffer) * 2 + size_t(exchange % 2)) * stride];
  }
  Bell& bell(int rank) { return *reinterpret_cast<Bell*>(&bells[size_t(rank) * line]); }

  // Runs the process's MPI thread. It sends a letter with a rank's state and exchanges, as
  // JavaScript would.
  void serve() {
    int said = 0;
    for (bool over = false; !over;) {
      Look look;
      halo->look(mpi, look);
      std::vector<Notice> notices;
      notices.swap(told);
      for (const Notice& notice : notices) {
        if (notice.kind == Notice::left) {
          std::vector<uint8_t> letter(sizeof notice.numbers);
          std::memcpy(letter.data(), notice.numbers, letter.size());
          halo->send(mpi, letter);
          ++said;
        } else if (notice.kind == Notice::mail) {
          double numbers[3];
          std::memcpy(numbers, notice.bytes.data(), sizeof numbers);
          halo->left(int(numbers[0]), int(numbers[1]), int64_t(numbers[2]));
        }
      }
      if (!look.worked) std::this_thread::yield();
      // Ends when each rank of this process has announced that it has left, the others are known to
      // have left, and nothing is left to send.
      over = said == world.each && halo->drained();
      for (int rank = 0; rank < world.ranks && over; ++rank)
        over = word_at(&states[size_t(rank) * line]).load() != open_state;
    }
    halo->end(mpi);
  }

  // Runs one rank: it makes the exchanges, checks every byte, then leaves.
  void exchange(int rank, int64_t exchanges) {
    const int out[2] = {2 * world.left(rank) + 1, 2 * world.right(rank)},
              in[2] = {2 * rank, 2 * rank + 1};
    const int senders[2] = {world.left(rank), world.right(rank)};
    std::minstd_rand random(unsigned(rank) + 77);
    for (int64_t n = 1; n <= exchanges; ++n) {
      for (const int buffer : out) {
        if (word_at(word(buffer, n)).load() != 0)
          wrong("Exchange-2: a half that is packed into is not empty", rank, n);
        std::memset(half(buffer, n), int((rank * 31 + n) & 255), half_bytes);
      }
      if (n > 1)
        for (const int buffer : in) word_at(word(buffer, n - 1)).store(0);
      for (const int buffer : out) word_at(word(buffer, n)).store(int32_t(n));
      for (const int sender : senders) bell(sender).ring();
      for (int k = 0; k < 2; ++k) {
        for (;;) {
          const int32_t seen = bell(rank).read();
          // Exchange-5: loads the state before the half's word.
          const bool gone = word_at(&states[size_t(senders[k]) * line]).load() != open_state;
          if (word_at(word(in[k], n)).load() == int32_t(n)) break;
          if (gone) {
            wrong("Exchange-5: a rank has left, and what it sent is not there", rank, n);
            return;
          }
          bell(rank).sleep(seen, 1'000'000);
        }
        const uint8_t want = uint8_t((senders[k] * 31 + n) & 255);
        for (size_t i = 0; i < half_bytes; ++i)
          if (half(in[k], n)[i] != want) {
            wrong("a byte is not its sender's", rank, n);
            break;
          }
      }
      if (random() % 64 == 0) std::this_thread::yield();
    }
    int32_t expected = open_state;
    word_at(&states[size_t(rank) * line]).compare_exchange_strong(expected, closed_state);
    for (int other = 0; other < world.ranks; ++other) bell(other).ring();
  }
};

void play(int ranks, int each, int64_t exchanges) {
  World world(ranks, each);
  std::vector<std::unique_ptr<Process>> processes;
  for (int here = 0; here < ranks / each; ++here)
    processes.push_back(std::make_unique<Process>(world, here));
  std::vector<std::thread> threads;
  for (auto& process : processes) {
    threads.emplace_back([&process] { process->serve(); });
    for (int rank = process->here * each; rank < (process->here + 1) * each; ++rank)
      threads.emplace_back([&process, rank, exchanges] { process->exchange(rank, exchanges); });
  }
  for (auto& thread : threads) thread.join();
}

}  // namespace

int main(int count, char** given) {
  // A faulty program may wait forever. The alarm ends it.
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  alarm(100);
  const int64_t exchanges = count > 1 ? std::atoll(given[1]) : 300;
  play(2, 1, exchanges);
  play(4, 1, exchanges);
  play(4, 2, exchanges);
  play(6, 2, exchanges);
  help();
  return failures == 0 ? 0 : 1;
}
