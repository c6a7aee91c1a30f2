// Carries data between ranks of this process and ranks of other processes, half by half. Reports
// ranks that leave, in both directions.
#include "ranks/halo.hpp"

#include <algorithm>

namespace hotslot::ranks {
namespace {

int32_t numbered(int64_t exchange) { return int32_t((exchange - 1) % numbers) + 1; }

}  // namespace

Halo::Halo(Mpi& mpi, const Comm& world, double job, HaloSetup setup, Thread::Tell tell)
    : job_(job), setup_(std::move(setup)), tell_(std::move(tell)), comm_(mpi.duplicate(&world)) {
  const size_t ranks = setup_.process.size(), buffers = setup_.buffers.size();
  started_.assign(ranks, 0);
  found_.assign(ranks, absent);
  reported_.assign(ranks, false);
  const int letters = int(2 * buffers);
  if (letters > mpi.max_tag())
    throw Failure(std::to_string(buffers) + " halo buffers need more tags than this MPI has, " +
                  std::to_string(mpi.max_tag()));
  for (size_t b = 0; b < buffers; ++b) {
    const HaloBuffer& buffer = setup_.buffers[b];
    const bool in = is_here(buffer.reader), out = is_here(buffer.sender);
    if (in == out) continue;
    Route route{b, buffer.reader, buffer.sender, 0, {}};
    for (int half = 0; half < 2; ++half) {
      uint8_t* const at = setup_.data + buffer.offset + size_t(half) * buffer.stride;
      const int tag = int(2 * b) + half;
      Half& of = route.halves[half];
      of.next = half == 1 ? 1 : 2;
      of.request =
          in ? mpi.recv_init(at, buffer.bytes, setup_.process[size_t(buffer.sender)], tag, comm_)
             : mpi.send_init(at, buffer.bytes, setup_.process[size_t(buffer.reader)], tag, comm_);
    }
    (in ? incoming_ : outgoing_).push_back(route);
  }
  const int processes = 1 + *std::max_element(setup_.process.begin(), setup_.process.end());
  for (int process = 0; process < processes; ++process) {
    if (process == setup_.here) continue;
    others_.push_back(process);
    Letter letter;
    letter.bytes.resize(mail_bytes);
    letter.request = mpi.recv_init(letter.bytes.data(), mail_bytes, process, letters, comm_);
    start(mpi, letter);
    inbox_.push_back(std::move(letter));
  }
}

void Halo::look(Mpi& mpi, Look& look) {
  // Exchange-5: reads the states of this process's ranks before it reads the words of their halves.
  // If a state shows that its rank has left, these words show all data that the rank has sent.
  for (size_t rank = 0; rank < found_.size(); ++rank)
    if (is_here(int(rank))) found_[rank] = word_at(&state_of(int(rank))).load();
  for (Route& route : outgoing_) ship(mpi, route, look);
  for (Route& route : incoming_) invite(mpi, route);
  ask(mpi, look);
  for (Route& route : outgoing_) shipped(route, look);
  for (Route& route : incoming_) receive(route, look);
  follow(look);
  read_mail(mpi);
}

void Halo::start(Mpi& mpi, Asked& asked) {
  mpi.start(asked.request);
  asked.going = true;
}

// Tests all started requests in one call, because MPI makes progress in every call. The call also
// yields the core if ranks share one.
void Halo::ask(Mpi& mpi, Look& look) {
  asked_.clear();
  const auto add = [this](Asked& asked) {
    if (asked.going) asked_.push_back(&asked);
  };
  for (Letter& letter : letters_) add(letter);
  for (Route& route : outgoing_)
    for (Half& half : route.halves) add(half);
  // Another process waits for data that is being sent, so something is due (Look).
  if (!asked_.empty()) look.due = true;
  for (Route& route : incoming_)
    for (Half& half : route.halves) add(half);
  for (Letter& letter : inbox_) add(letter);
  requests_.clear();
  for (Asked* const asked : asked_) requests_.push_back(&asked->request);
  if (requests_.empty()) return;
  mpi.test_some(requests_, over_);
  for (const int at : over_) {
    asked_[size_t(at)]->going = false;
    asked_[size_t(at)]->over = look.worked = true;
  }
}

// Starts to send the outgoing halves that a rank has filled. Exchange-1: this job acts as their
// receiver. So shipped() stores 0 in a half's word when MPI has finished with the half.
void Halo::ship(Mpi& mpi, Route& route, Look& look) {
  for (int half = 0; half < 2; ++half) {
    Half& of = route.halves[half];
    if (of.going || word_at(word(route, half)).load() != numbered(of.next)) continue;
    start(mpi, of);
    look.worked = true;
    int64_t& started = started_[size_t(route.sender)];
    started = std::max(started, of.next);
  }
}

void Halo::shipped(Route& route, Look& look) {
  for (int half = 0; half < 2; ++half) {
    Half& of = route.halves[half];
    if (!of.over) continue;
    of.over = false;
    word_at(word(route, half)).store(0);
    of.next += 2;
    look.worked = true;
  }
}

// Starts to receive into empty incoming halves. Exchange-1: this job acts as their sender. It
// starts a receive even if the reader has left. Otherwise the send request of the other process
// would never end.
void Halo::invite(Mpi& mpi, Route& route) {
  for (int half = 0; half < 2; ++half) {
    Half& of = route.halves[half];
    if (!of.going && !of.full && word_at(word(route, half)).load() == 0) start(mpi, of);
  }
}

// Publishes the data that arrived, in the order of exchanges. Exchange-2: after data of exchange n
// is published, its reader may start n + 1. The reader then fills the halves that n − 1 used. So
// the reader's data of n − 1 to the same neighbor must have been sent before.
void Halo::receive(Route& route, Look& look) {
  for (int half = 0; half < 2; ++half) {
    Half& of = route.halves[half];
    if (of.over) {
      of.over = false;
      of.full = true;
    }
    if (!of.full || of.next != route.published + 1) continue;
    const auto before = [&](const Route& out) {
      return out.sender != route.reader || out.reader != route.sender || out.has_left(of.next - 1);
    };
    if (!std::all_of(outgoing_.begin(), outgoing_.end(), before)) continue;
    word_at(word(route, half)).store(numbered(of.next));
    route.published = of.next;
    of.next += 2;
    of.full = false;
    look.worked = true;
    // Exchange-3: the reader's bell rings after the store of the half's word.
    ring(route.reader);
  }
  const size_t reader = size_t(route.reader);
  if (found_[reader] == open && route.published < started_[reader]) look.due = true;
}

// Notifies JavaScript when the note is written, and when a rank of this process has left.
//
// If a rank of another process has left, its data may still arrive. Each call checks whether all
// data that this rank sent is published here. If so, it stores the rank's state and rings all
// bells.
void Halo::follow(Look& look) {
  if (!note_reported_ && word_at(setup_.note).load() == note_written) {
    note_reported_ = look.worked = true;
    tell_({Notice::note, job_, {}, {}});
  }
  for (size_t rank = 0; rank < found_.size(); ++rank) {
    if (found_[rank] <= open || reported_[rank]) continue;
    reported_[rank] = look.worked = true;
    tell_({Notice::left, job_, {double(rank), double(found_[rank]), double(started_[rank])}, {}});
  }
  const auto followed = [&](const Gone& gone) {
    for (const Route& route : incoming_)
      if (route.sender == gone.rank && route.published < gone.exchange) return false;
    int32_t expected = open;
    word_at(&state_of(gone.rank)).compare_exchange_strong(expected, gone.state);
    ring_all();
    look.worked = true;
    return true;
  };
  gone_.erase(std::remove_if(gone_.begin(), gone_.end(), followed), gone_.end());
}

void Halo::read_mail(Mpi& mpi) {
  letters_.erase(std::remove_if(letters_.begin(), letters_.end(),
                                [](const Letter& letter) { return letter.over; }),
                 letters_.end());
  for (Letter& letter : inbox_) {
    if (!letter.over) continue;
    letter.over = false;
    tell_({Notice::mail, job_, {}, letter.bytes});
    start(mpi, letter);
  }
}

void Halo::send(Mpi& mpi, const std::vector<uint8_t>& bytes) {
  for (const int process : others_) {
    Letter letter;
    letter.bytes = bytes;
    letter.bytes.resize(mail_bytes);
    letters_.push_back(std::move(letter));
    Letter& kept = letters_.back();
    kept.request =
        mpi.send(kept.bytes.data(), mail_bytes, process, int(2 * setup_.buffers.size()), comm_);
    kept.going = true;
  }
}

// Called when another process reports that a rank of it has left.
void Halo::left(int rank, int state, int64_t exchange) {
  if (rank < 0 || size_t(rank) >= setup_.process.size() || is_here(rank) || state <= open) return;
  gone_.push_back({rank, state, exchange});
}

bool Halo::drained() const {
  const auto idle = [this](const Route& route) {
    for (int half = 0; half < 2; ++half)
      if (route.halves[half].going ||
          word_at(&setup_.halves[route.buffer * line + size_t(half)]).load() != 0)
        return false;
    return true;
  };
  return letters_.empty() && std::all_of(outgoing_.begin(), outgoing_.end(), idle);
}

void Halo::end(Mpi& mpi) {
  for (Route& route : incoming_)
    for (Half& half : route.halves) half.going ? mpi.cancel(half.request) : mpi.free(half.request);
  for (Route& route : outgoing_)
    for (Half& half : route.halves) mpi.free(half.request);
  for (Letter& letter : inbox_) mpi.cancel(letter.request);
  mpi.free(comm_);
}

void Halo::ring(int rank) {
  Bell* const bell = reinterpret_cast<Bell*>(setup_.bells + rank * line);
  bell->ring();
  // Only JavaScript can wake a thread that sleeps in JavaScript.
  if (word_at(&bell->parked).load() == Bell::javascript)
    tell_({Notice::wake, job_, {double(rank)}, {}});
}

void Halo::ring_all() {
  for (size_t rank = 0; rank < found_.size(); ++rank)
    if (is_here(int(rank))) ring(int(rank));
}

}  // namespace hotslot::ranks
