// The one thread of a process that owns MPI, from its start to its end. It looks at its jobs again
// and again: without a pause while something moves, then with naps while something is due, for MPI
// wakes nobody; else it sleeps on its bell. A thread that waits for what MPI brings looks in its
// stead, where the library lets more than one thread in: with two of them on one core each
// hand-over would be a switch.
#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "ranks/mpi.hpp"
#include "wait/bell.hpp"

namespace hotslot::ranks {

// What the thread tells JavaScript; the numbers mean what the kind says (src/extras/mpi/native.ts).
struct Notice {
  enum Kind : int { opened, failed, agreed, drained, closed, note, left, mail, wake };
  Kind kind;
  double job = 0;
  double numbers[3] = {0, 0, 0};
  std::vector<uint8_t> bytes = {};
};

// What a look found: something moved; something is waited for that only MPI can bring.
struct Look {
  bool worked = false, due = false;
};

class Job {
 public:
  virtual ~Job() = default;
  virtual void look(Mpi& mpi, Look& look) = 0;
  // Nothing that was given to it is still to be sent.
  virtual bool drained() const { return true; }
  virtual bool over() const { return false; }
  // Before MPI's own end: what was asked for and not answered is taken back.
  virtual void end(Mpi&) {}
};

class Thread {
 public:
  using Tell = std::function<void(Notice&&)>;
  // `tell` is called by the thread, and by those that look in its stead, one at a time; `bell`
  // outlives it.
  Thread(std::vector<std::string> names, Bell* bell, Tell tell);
  // Without a word to MPI, unless close() came first; waits a second for it to be where it can be
  // left.
  ~Thread();
  Thread(const Thread&) = delete;

  // Any thread: makes a job in the thread's own time. Jobs are made in the order of these calls.
  using Make = std::function<std::unique_ptr<Job>(Mpi&, const Comm& world)>;
  void add(Make make);
  // Tells `agreed` with everyone's bytes, which are equally many.
  void agree(double token, std::vector<uint8_t> bytes);
  // Tells `drained` when no job has anything to send.
  void drain(double token);
  // Ends the jobs, then MPI, then the thread, and tells `closed`.
  void close(double token);
  // Runs there, between two looks.
  void order(std::function<void()> command);

  // A thread that waits for *word to change, for at most `ns`: true as soon as it differs from
  // `seen`. Meanwhile it does the work of the process's Thread, if there is one.
  static bool look_until(int32_t* word, int32_t seen, uint64_t ns);

  struct State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace hotslot::ranks
