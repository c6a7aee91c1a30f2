// Stands in for every rank of a halo exchange that is in another process: sends what its outgoing
// halves are filled with, fills incoming halves with what arrives, and says of a rank here how it
// left. The rules Exchange-1 to Exchange-6 are those of src/shm/exchange-control.ts, where the
// words are drawn.
#pragma once
#include "ranks/thread.hpp"

namespace hotslot::ranks {

// As src/shm/exchange-control.ts draws them, which compares these when it is given this addon.
enum RankState : int32_t { absent = 0, open = 1 };
constexpr int32_t note_written = 2, line = 16;
constexpr int64_t numbers = int64_t(1) << 30;

// One receiving rank and edge; two halves, `stride` bytes apart.
struct HaloBuffer {
  int reader, sender;
  size_t offset, stride, bytes;
};

struct HaloSetup {
  // The first failure's note; states and bells, a line per rank; words of the halves, a line per
  // buffer; the halves.
  int32_t *note, *states, *bells, *halves;
  uint8_t* data;
  std::vector<HaloBuffer> buffers;
  // Of each rank, its process; ours.
  std::vector<int> process;
  int here;
};

// What processes of an exchange write each other besides, a message at a time.
constexpr size_t mail_bytes = 4096;

class Halo final : public Job {
 public:
  Halo(Mpi& mpi, const Comm& world, double job, HaloSetup setup, Thread::Tell tell);
  void look(Mpi& mpi, Look& look) override;
  bool drained() const override;
  void end(Mpi& mpi) override;

  // On the thread. To every other process; at most mail_bytes.
  void send(Mpi& mpi, const std::vector<uint8_t>& bytes);
  // A rank elsewhere has left as `state`; it had sent so many exchanges, which arrive first
  // (Exchange-5).
  void left(int rank, int state, int64_t exchange);

 private:
  // Under way from its start until MPI says that it is over, which this look has found (`over`).
  struct Asked {
    Request request;
    bool going = false, over = false;
  };
  // `full`: it has arrived, and is not told yet.
  struct Half : Asked {
    bool full = false;
    int64_t next = 0;
  };
  struct Route {
    size_t buffer;
    int reader, sender;
    // The last exchange that was told here.
    int64_t told = 0;
    Half halves[2];
    // Of what leaves: sends of one route need not be over in order.
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
  // Of each rank here: the last exchange that it has filled a half with; its state as this look
  // found it; whether that was told.
  std::vector<int64_t> started_;
  std::vector<int32_t> found_;
  std::vector<bool> told_;
  bool note_told_ = false;
  std::vector<Gone> gone_;
  std::vector<Letter> letters_;
  // From every other process.
  std::vector<int> others_;
  std::vector<Letter> inbox_;
  // Of one look.
  std::vector<Asked*> asked_;
  std::vector<Request*> requests_;
  std::vector<int> over_;
};

}  // namespace hotslot::ranks
