// Stands in for every rank of a halo exchange that is in another process. It sends filled outgoing
// halves, fills incoming halves with arriving data, and reports how a rank here left. The rules
// Exchange-1 to Exchange-6 are those of src/shm/exchange-control.ts, which also shows the layout of
// the words.
#pragma once
#include "ranks/thread.hpp"

namespace hotslot::ranks {

// As in src/shm/exchange-control.ts, which compares these values when it gets this addon.
enum RankState : int32_t { absent = 0, open = 1 };
constexpr int32_t note_written = 2, line = 16;
constexpr int64_t numbers = int64_t(1) << 30;

// The buffer of one receiving rank and edge: two halves, `stride` bytes apart.
struct HaloBuffer {
  int reader, sender;
  size_t offset, stride, bytes;
};

struct HaloSetup {
  // The first failure's note, states and bells with a line per rank, words of the halves with a
  // line per buffer. `data` holds the halves.
  int32_t *note, *states, *bells, *halves;
  uint8_t* data;
  std::vector<HaloBuffer> buffers;
  // The process of each rank, and this process (`here`).
  std::vector<int> process;
  int here;
};

// Bytes of one message that the processes of an exchange send each other, in addition to the
// halves.
constexpr size_t mail_bytes = 4096;

class Halo final : public Job {
 public:
  Halo(Mpi& mpi, const Comm& world, double job, HaloSetup setup, Thread::Tell tell);
  void look(Mpi& mpi, Look& look) override;
  bool drained() const override;
  void end(Mpi& mpi) override;

  // Called on the thread. Sends at most mail_bytes to every other process.
  void send(Mpi& mpi, const std::vector<uint8_t>& bytes);
  // A rank in another process has left as `state`. It had sent `exchange` exchanges, which arrive
  // first (Exchange-5).
  void left(int rank, int state, int64_t exchange);

 private:
  // A request, under way (`going`) from its start until MPI reports its end, which this look has
  // found (`over`).
  struct Asked {
    Request request;
    bool going = false, over = false;
  };
  // `full`: its data has arrived and is not published yet.
  struct Half : Asked {
    bool full = false;
    int64_t next = 0;
  };
  struct Route {
    size_t buffer;
    int reader, sender;
    // The last exchange whose arrival was published here.
    int64_t published = 0;
    Half halves[2];
    // For outgoing routes: sends of one route may end out of order.
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
  // For each rank here: the last exchange for which it has filled a half, its state as this look
  // found it, and whether that state was reported.
  std::vector<int64_t> started_;
  std::vector<int32_t> found_;
  std::vector<bool> reported_;
  bool note_reported_ = false;
  std::vector<Gone> gone_;
  std::vector<Letter> letters_;
  // The other processes, and a receive from each of them.
  std::vector<int> others_;
  std::vector<Letter> inbox_;
  // Scratch of one look.
  std::vector<Asked*> asked_;
  std::vector<Request*> requests_;
  std::vector<int> over_;
};

}  // namespace hotslot::ranks
