// Stands in for every rank of a halo exchange that is in another process. It sends filled outgoing
// halves, and fills incoming halves with arriving data. It also reports how ranks of this process
// leave. src/shm/exchange-control.ts has the rules Exchange-1 to Exchange-6 and the layout of the
// words.
#pragma once
#include "ranks/thread.hpp"

namespace hotslot::ranks {

// These values equal those in src/shm/exchange-control.ts, which compares them when it loads this
// addon.
enum RankState : int32_t { absent = 0, open = 1 };
constexpr int32_t note_written = 2, line = 16;
constexpr int64_t numbers = int64_t(1) << 30;

// The buffer of one receiving rank and edge. Its two halves have `bytes` bytes each. The first is
// at `offset` in HaloSetup's `data`, and the second is `stride` bytes later.
struct HaloBuffer {
  int reader, sender;
  size_t offset, stride, bytes;
};

struct HaloSetup {
  // Control words: the first failure's note, the states and bells (a line per rank), and the words
  // of the halves (a line per buffer). `data` stores the halves.
  int32_t *note, *states, *bells, *halves;
  uint8_t* data;
  std::vector<HaloBuffer> buffers;
  // The process of each rank, and the number of this process (`here`).
  std::vector<int> process;
  int here;
};

// Size in bytes of a message from JavaScript to the other processes of an exchange. Such messages
// do not contain data of halves.
constexpr size_t mail_bytes = 4096;

class Halo final : public Job {
 public:
  Halo(Mpi& mpi, const Comm& world, double job, HaloSetup setup, Thread::Tell tell);
  void look(Mpi& mpi, Look& look) override;
  bool drained() const override;
  void end(Mpi& mpi) override;

  // Sends at most mail_bytes bytes to every other process. Runs on the MPI thread.
  void send(Mpi& mpi, const std::vector<uint8_t>& bytes);
  // Records that a rank in another process has left as `state`, after it sent the data of
  // `exchange` exchanges. look() publishes all this data before it stores the state (Exchange-5).
  void left(int rank, int state, int64_t exchange);

 private:
  // A request. `going` is true from its start until MPI reports its end. `over` is true from then
  // until the job has handled the end, later in the same look.
  struct Asked {
    Request request;
    bool going = false, over = false;
  };
  // `full` is true if the half's data has arrived and is not published yet. `next` is the next
  // exchange whose data the half sends or receives.
  struct Half : Asked {
    bool full = false;
    int64_t next = 0;
  };
  struct Route {
    size_t buffer;
    int reader, sender;
    // The last exchange whose data was published in this process.
    int64_t published = 0;
    Half halves[2];
    // Returns whether the data of an exchange was sent. Only for outgoing routes. Sends of one
    // route may end out of order.
    bool has_left(int64_t exchange) const { return halves[exchange % 2].next > exchange; }
  };
  struct Gone {
    int rank, state;
    int64_t exchange;
  };
  struct Letter : Asked {
    std::vector<uint8_t> bytes;
  };

  void start(Mpi& mpi, Asked& asked);
  void ask(Mpi& mpi, Look& look);
  void ship(Mpi& mpi, Route& route, Look& look);
  void shipped(Route& route, Look& look);
  void invite(Mpi& mpi, Route& route);
  void receive(Route& route, Look& look);
  void follow(Look& look);
  void read_mail(Mpi& mpi);
  bool is_here(int rank) const { return setup_.process[size_t(rank)] == setup_.here; }
  int32_t& state_of(int rank) { return setup_.states[rank * line]; }
  int32_t* word(const Route& route, int half) {
    return &setup_.halves[route.buffer * line + size_t(half)];
  }
  void ring(int rank);
  void ring_all();

  const double job_;
  const HaloSetup setup_;
  const Thread::Tell tell_;
  Comm comm_;
  std::vector<Route> outgoing_, incoming_;
  // For each rank of this process: the last exchange for which it has filled a half, its state in
  // this look, and whether that state was reported.
  std::vector<int64_t> started_;
  std::vector<int32_t> found_;
  std::vector<bool> reported_;
  bool note_reported_ = false;
  std::vector<Gone> gone_;
  std::vector<Letter> letters_;
  // The other processes, and a receive for the messages of each of them.
  std::vector<int> others_;
  std::vector<Letter> inbox_;
  // Lists that one look uses. They are members so that they keep their memory.
  std::vector<Asked*> asked_;
  std::vector<Request*> requests_;
  std::vector<int> over_;
};

}  // namespace hotslot::ranks
