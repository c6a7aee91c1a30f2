// The process's pool of threads for large jobs. Helpers can only make a job faster. The calling
// thread takes every piece that no helper has begun, so a helper that never wakes delays nothing.
//
//   CorePool-1  Each piece goes to one thread, by an addition to `next`.
//   CorePool-2  Pieces work on memory of the caller, so run() returns only after all begun pieces
//       are counted. A helper that arrives later touches only the job, which exists as long as a
//       thread refers to it.
//   CorePool-3  The caller writes the input before it offers the job, under the lock. A thread
//       counts a piece after its work, with release, and run() acquires every count.
//   CorePool-4  A helper searches the list of jobs and goes to sleep under the lock. A job is added
//       to the list under the lock, before helpers are woken. So a helper sees the job in the
//       list, or it already sleeps and can be woken for the job.
//   CorePool-5  A helper joins a job by lowering the job's `places` by one, under the lock. This
//       number begins as the number of requested helpers, so no more helpers work on the job.
//
// `test/model/cores.ts` checks every interleaving, with each of these rules broken in turn.
#pragma once
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <thread>

#include "wait/idle_cores.hpp"
#include "wait/process_cores.hpp"

namespace hotslot {

class CorePool {
 public:
  static constexpr int max_helpers = 16;
  // The name of the helpers in `top -H`.
  static constexpr const char* thread_name = "hotslot-cores";
  // Bytes of a job for each helper. A helper for fewer bytes costs more than it saves.
  static constexpr uint64_t bytes_each = uint64_t{1} << 18;

  explicit CorePool(int cores) : cores_(std::max(cores, 1)) {}

  // Returns the number of helpers for a job on `cores` cores while the library runs `threads`
  // threads, including the caller. The threads may leave few cores or none. However, most of them
  // sleep most of the time, so a job still gets up to three helpers.
  static constexpr int spare(int cores, int threads) {
    const int beside = cores - std::max(threads, 1), least = std::min(cores - 1, 3);
    return std::clamp(std::max(beside, least), 0, max_helpers);
  }

  int cores() const { return cores_.load(std::memory_order_relaxed); }
  int threads() const { return threads_.load(std::memory_order_relaxed); }
  int spare() const { return spare(cores(), threads()); }
  int helpers(uint64_t bytes) const { return int(std::min(uint64_t(spare()), bytes / bytes_each)); }
  void count_thread(int by) { threads_.fetch_add(by, std::memory_order_relaxed); }
  // Limits the cores that jobs use from now on.
  void bound(int cores) {
    cores_.store(std::clamp(cores, 1, this->cores()), std::memory_order_relaxed);
  }

  void run(int pieces, int helpers, void* data, void (*piece)(void*, int)) {
    std::shared_ptr<Job> job;
    helpers = std::min(helpers, pieces - 1);
    if (helpers > 0) try {
        job = std::make_shared<Job>();
        job->pieces = pieces;
        job->places = helpers;
        job->data = data;
        job->call = piece;
        offer(job);
      } catch (const std::bad_alloc&) {
        job.reset();  // no other thread refers to it
      }
    if (!job) {
      for (int each = 0; each < pieces; ++each) piece(data, each);
      return;
    }
    job->work();
    withdraw(job);
    // Helpers have begun all the pieces that are left. They use `data` until these pieces are done.
    while (job->done.load(std::memory_order_acquire) < pieces) sched_yield();
  }

  // Returns the process's pool. It is never destroyed, because helpers may outlive every static
  // object.
  static CorePool& of_process() {
    static CorePool* const pool = new CorePool(process_cores());
    return *pool;
  }
  static const CoresTable* table_of_process() {
    static constexpr CoresTable table{
        cores_version,
        sizeof(CoresTable),
        [] { return of_process().cores(); },
        [](uint64_t bytes) { return of_process().helpers(bytes); },
        [](int pieces, int helpers, void* data, void (*piece)(void*, int)) {
          of_process().run(pieces, helpers, data, piece);
        },
        [](int by) { of_process().count_thread(by); },
    };
    return &table;
  }

 private:
  struct Job {
    int pieces = 0;
    int places = 0;  // guarded by the pool's lock
    void* data = nullptr;
    void (*call)(void*, int) = nullptr;
    // An addition to `next` gives each piece to one thread. `next` is relaxed, because the pieces'
    // input was written before the job was offered, under the lock. `done` releases a piece's
    // writes, and run() acquires all of them.
    std::atomic<int> next{0}, done{0};
    bool taken() const { return next.load(std::memory_order_relaxed) >= pieces; }
    void work() {
      for (int piece; (piece = next.fetch_add(1, std::memory_order_relaxed)) < pieces;) {
        call(data, piece);
        done.fetch_add(1, std::memory_order_release);
      }
    }
  };

  // Adds the job to the list. Wakes as many helpers as were requested, or fewer if some already
  // work for other callers. Starts threads if too few helpers sleep.
  void offer(const std::shared_ptr<Job>& job) {
    std::lock_guard lock(mutex_);
    jobs_.push_back(job);
    int wanted = std::min(job->places, spare() - (helpers_ - asleep_));
    for (; wanted > 0 && asleep_ > 0; --wanted, --asleep_, ++wakes_) woken_.notify_one();
    try {
      for (; wanted > 0 && helpers_ < max_helpers; --wanted, ++helpers_) {
        std::thread helper([this] { help(); });
        pthread_setname_np(helper.native_handle(), thread_name);
        helper.detach();
      }
    } catch (const std::exception&) {
      // The job continues with the helpers that the system could start.
    }
  }
  void withdraw(const std::shared_ptr<Job>& job) {
    std::lock_guard lock(mutex_);
    jobs_.erase(std::remove(jobs_.begin(), jobs_.end(), job), jobs_.end());
  }

  void help() {
    // A new thread inherits the cores of the thread that started it. That caller may have been
    // bound to fewer cores than the process has.
    use_cores_of_process();
    std::unique_lock lock(mutex_);
    for (;;) {
      while (!jobs_.empty() && jobs_.front()->taken()) jobs_.pop_front();
      const auto found = std::find_if(jobs_.begin(), jobs_.end(),
                                      [](auto& job) { return job->places > 0 && !job->taken(); });
      if (found == jobs_.end()) {
        ++asleep_;
        woken_.wait(lock, [this] { return wakes_ > 0; });
        --wakes_;
        continue;
      }
      const std::shared_ptr<Job> job = *found;
      --job->places;
      lock.unlock();
      job->work();
      lock.lock();
    }
  }

  std::atomic<int> cores_, threads_{0};
  // The lock guards the members below. `helpers_` is the number of helpers. `asleep_` is the number
  // of helpers that sleep and were not woken. `wakes_` is the number of wake-ups that no helper has
  // taken.
  std::mutex mutex_;
  std::condition_variable woken_;
  std::deque<std::shared_ptr<Job>> jobs_;
  int helpers_ = 0, asleep_ = 0, wakes_ = 0;
};

}  // namespace hotslot
