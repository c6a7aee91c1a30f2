// The one thread of a process that owns MPI, from its start to its end. It polls its jobs: without
// a pause while something moves, then with naps while something is due, because MPI wakes no
// thread. Otherwise it sleeps on its bell. A thread that waits for data from MPI polls in its
// place, if the library allows calls from more than one thread. With both on one core, each
// hand-over would be a context switch.
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

// A message from the thread to JavaScript. The kind gives the numbers their meaning
// (src/extras/mpi/native.ts).
struct Notice {
  enum Kind : int { opened, failed, agreed, drained, closed, note, left, mail, wake };
  Kind kind;
  double job = 0;
  double numbers[3] = {0, 0, 0};
  std::vector<uint8_t> bytes = {};
};

// The result of a look. `worked`: something moved. `due`: something is awaited that only MPI can
// bring.
struct Look {
  bool worked = false, due = false;
};

class Job {
 public:
  virtual ~Job() = default;
  virtual void look(Mpi& mpi, Look& look) = 0;
  // Whether all data that it was given has been sent.
  virtual bool drained() const { return true; }
  virtual bool over() const { return false; }
  // Runs before MPI's own end: cancels requests that are still under way.
  virtual void end(Mpi&) {}
};

class Thread {
 public:
  using Tell = std::function<void(Notice&&)>;
  // The thread, and helpers in its place, call `tell`, one at a time. `bell` outlives the thread.
  Thread(std::vector<std::string> names, Bell* bell, Tell tell);
  // Ends the thread without finalizing MPI, unless close() came first. Waits up to a second each
  // for the thread and for a helper to leave MPI.
  ~Thread();
  Thread(const Thread&) = delete;

  // Called by any thread: the MPI thread makes the job later. Jobs are made in the order of these
  // calls.
  using Make = std::function<std::unique_ptr<Job>(Mpi&, const Comm& world)>;
  void add(Make make);
  // Notifies `agreed` with the bytes of all processes, which must be equally many.
  void agree(double token, std::vector<uint8_t> bytes);
  // Notifies `drained` when no job has anything to send.
  void drain(double token);
  // Ends the jobs, then MPI, then the thread, and notifies `closed`.
  void close(double token);
  // Runs `command` on the thread, between two looks.
  void order(std::function<void()> command);

  // Waits for *word to change, for at most `ns` nanoseconds, and returns true as soon as it differs
  // from `seen`. Meanwhile the caller does the work of the process's Thread, if there is one.
  static bool look_until(int32_t* word, int32_t seen, uint64_t ns);

  struct State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace hotslot::ranks
