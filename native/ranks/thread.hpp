// The one thread of a process that owns MPI. It initializes MPI, does the work of jobs, and
// finalizes MPI. MPI wakes no thread, so this thread looks at its jobs repeatedly. It looks without
// a pause while data moves, and with naps while data is due. Otherwise it sleeps on its bell.
//
// If the library allows calls from several threads, a thread that waits for data looks at the jobs
// itself. The waiting thread then gets its data without a context switch, even if both threads are
// on one core.
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

// A message from the thread to JavaScript. Its kind decides what its numbers mean
// (src/extras/mpi/native.ts).
struct Notice {
  enum Kind : int { opened, failed, agreed, drained, closed, note, left, mail, wake };
  Kind kind;
  double job = 0;
  double numbers[3] = {0, 0, 0};
  std::vector<uint8_t> bytes = {};
};

// The result of a look at the jobs. `worked`: whether something moved. `due`: whether a job waits
// for something that only MPI can deliver.
struct Look {
  bool worked = false, due = false;
};

class Job {
 public:
  virtual ~Job() = default;
  virtual void look(Mpi& mpi, Look& look) = 0;
  // Returns whether all data that the job was given has been sent.
  virtual bool drained() const { return true; }
  virtual bool over() const { return false; }
  // Cancels the requests that are still under way. Runs before MPI is finalized.
  virtual void end(Mpi&) {}
};

class Thread {
 public:
  using Tell = std::function<void(Notice&&)>;
  // The thread and its helpers call `tell`, one at a time. `bell` must outlive the thread.
  Thread(std::vector<std::string> names, Bell* bell, Tell tell);
  // Ends the thread. MPI is finalized only if close() was called before. Waits up to a second for
  // the thread to leave MPI, and up to a second for a helper.
  ~Thread();
  Thread(const Thread&) = delete;

  // Makes the MPI thread create a job later. Any thread may call it. Jobs are created in the order
  // of these calls.
  using Make = std::function<std::unique_ptr<Job>(Mpi&, const Comm& world)>;
  void add(Make make);
  // Exchanges bytes with all processes, which must all give the same number of bytes. The notice
  // `agreed` has the bytes of all of them.
  void agree(double token, std::vector<uint8_t> bytes);
  // Sends the notice `drained` when all jobs have sent their data.
  void drain(double token);
  // Ends the jobs, then MPI, then the thread, and sends the notice `closed`.
  void close(double token);
  // Makes the MPI thread run `command` later, between two looks at the jobs.
  void order(std::function<void()> command);

  // Waits until *word differs from `seen`, for at most `ns` nanoseconds. Returns whether it
  // differs. While it waits, the caller does the work of the process's Thread, if there is one.
  static bool look_until(int32_t* word, int32_t seen, uint64_t ns);

  struct State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace hotslot::ranks
