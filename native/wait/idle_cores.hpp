// Idle cores for one large job at a time: products, halos, batches. Helpers only ever make it faster: the calling
// thread takes every piece that no other has begun, so a helper that never wakes delays nothing.
//
//   C1  One addition to `next` gives a piece to one thread.
//   C2  What the pieces work on is the caller's: run() returns when all that were begun are counted. A helper that
//       comes later touches the job alone, which lives as long as somebody holds it.
//   C3  What pieces read is there before the job is offered, under the lock; what a piece wrote is released as it is
//       counted, behind the piece, and run() acquires every count.
//   C4  A helper looks at the list and goes to sleep under the lock; a job is listed under it before helpers are
//       woken.
//
// `test/model/cores.ts` goes through every order, with each of these rules broken in turn.
#pragma once
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <type_traits>

namespace hotslot {

class IdleCores {
 public:
  // Threads that take part, the caller among them: HOTSLOT_CORES, else every core up to four, which is where memory has
  // no more to give.
  static int count() {
    static const int cores = [] {
      const int all = std::max(int(std::thread::hardware_concurrency()), 1);
      const char* const asked = std::getenv("HOTSLOT_CORES");
      return asked && *asked ? std::clamp(std::atoi(asked), 1, all) : std::min(all, 4);
    }();
    return cores;
  }
  // Calls do_piece(0) to do_piece(pieces - 1), each once, in any order and at once; returns when all of them have
  // returned.
  template <class F>
  static void run(int pieces, F&& do_piece) {
    if (pieces == 1 || count() == 1) {
      for (int piece = 0; piece < pieces; ++piece) do_piece(piece);
      return;
    }
    std::shared_ptr<Job> job;
    try {
      job = std::make_shared<Job>();
      job->pieces = pieces;
      job->data = &do_piece;
      job->call = [](void* data, int piece) { (*static_cast<std::remove_reference_t<F>*>(data))(piece); };
      instance().offer(job);
    } catch (const std::bad_alloc&) {
      // Nobody else knows of it.
      for (int piece = 0; piece < pieces; ++piece) do_piece(piece);
      return;
    }
    job->work();
    instance().withdraw(job);
    // Only what helpers have begun is left: `data` is theirs until they are done with it.
    while (job->done.load(std::memory_order_acquire) < pieces) sched_yield();
  }

 private:
  struct Job {
    int pieces = 0;
    void* data = nullptr;
    void (*call)(void*, int) = nullptr;
    // Which piece is whose: an addition gives each to one thread, and what the pieces read was there before the job was
    // offered, under the lock. So `next` orders nothing; `done` releases what a piece wrote, and run() acquires all of
    // it.
    std::atomic<int> next{0}, done{0};
    bool taken() const { return next.load(std::memory_order_relaxed) >= pieces; }
    void work() {
      for (int piece; (piece = next.fetch_add(1, std::memory_order_relaxed)) < pieces;) {
        call(data, piece);
        done.fetch_add(1, std::memory_order_release);
      }
    }
  };

  // Never destroyed: helpers may outlive every static.
  static IdleCores& instance() {
    static IdleCores* cores = new IdleCores;
    return *cores;
  }

  void offer(const std::shared_ptr<Job>& job) {
    std::lock_guard lock(mutex_);
    if (helpers_ == 0) recruit();
    jobs_.push_back(job);
    woken_.notify_all();
  }
  void withdraw(const std::shared_ptr<Job>& job) {
    std::lock_guard lock(mutex_);
    jobs_.erase(std::remove(jobs_.begin(), jobs_.end(), job), jobs_.end());
  }

  void recruit() {
    try {
      for (; helpers_ < count() - 1; ++helpers_) std::thread([this] { help(); }).detach();
    } catch (const std::exception&) {
      // As many as the system has room for.
    }
  }

  void help() {
    std::unique_lock lock(mutex_);
    for (;;) {
      while (!jobs_.empty() && jobs_.front()->taken()) jobs_.pop_front();
      if (jobs_.empty()) {
        woken_.wait(lock);
        continue;
      }
      const std::shared_ptr<Job> job = jobs_.front();
      lock.unlock();
      job->work();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable woken_;
  std::deque<std::shared_ptr<Job>> jobs_;
  int helpers_ = 0;
};

}  // namespace hotslot
