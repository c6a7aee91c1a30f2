// The loop of the thread that owns MPI, and the job that exchanges bytes between all processes.
#include "ranks/thread.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>

#include "wait/idle_cores.hpp"

namespace hotslot::ranks {

namespace {

constexpr uint64_t spin_ns = 50'000;
constexpr uint64_t min_nap_ns = 50'000, max_nap_ns = 1'000'000;
// The longest sleep on the bell. A rank whose thread was lost rings no bell, so the thread looks at
// the states of ranks at least this often.
constexpr uint64_t sleep_ns = 100'000'000;
// While a helper looks at the jobs, the MPI thread does not, and naps for `helped_nap_ns` at a
// time. For `lately_ns` after a helper got its data, the MPI thread looks at the jobs once per nap.
//
// A thread counts as a helper only if it may help for `help_ns`, which is twice a nap. A thread
// with less time could end its help while the MPI thread still naps. Then nobody would look at the
// jobs.
constexpr uint64_t lately_ns = 10'000'000, helped_nap_ns = 1'000'000, help_ns = 2 * helped_nap_ns;

class Agreement final : public Job {
 public:
  Agreement(Mpi& mpi, const Comm& world, double token, std::vector<uint8_t> bytes,
            const Thread::Tell& tell)
      : token_(token),
        tell_(tell),
        mine_(std::move(bytes)),
        all_(mine_.size() * size_t(mpi.size())) {
    request_ = mpi.all_gather(mine_.data(), mine_.size(), all_.data(), world);
  }
  void look(Mpi& mpi, Look& look) override {
    if (over_) return;
    look.due = true;
    if (!mpi.test(request_)) return;
    over_ = look.worked = true;
    tell_({Notice::agreed, token_, {}, std::move(all_)});
  }
  bool over() const override { return over_; }

 private:
  const double token_;
  const Thread::Tell& tell_;
  std::vector<uint8_t> mine_, all_;
  Request request_;
  bool over_ = false;
};

}  // namespace

struct Thread::State {
  std::vector<std::string> names;
  Bell* bell;
  Tell tell;
  std::mutex mutex;
  std::condition_variable ended;
  std::deque<std::function<void()>> orders;
  bool over = false;
  // True if the thread and its helpers must end. step() reads it before it takes `turn`, to decide
  // whether to take it. It reads it again while it holds `turn`, and only this read ends the
  // thread.
  std::atomic<bool> leave{false};

  // State of the helpers, the threads that look at the jobs instead of the MPI thread. `helped` is
  // whether MPI allows this. `helpers` is the number of helpers now. `helped_at` is when a helper
  // got its data, or 0 if the last helper gave up.
  //
  // These three members only decide who looks at the jobs how often, and `turn` guards the jobs. So
  // a stale value costs at most one look, and the members need no order among them.
  std::atomic<bool> helped{false};
  std::atomic<int> helpers{0};
  std::atomic<uint64_t> helped_at{0};
  // The thread that holds `turn` has exclusive use of MPI and of the members below.
  std::mutex turn;
  // The error of a helper's look. It ends the MPI thread.
  std::string broken;
  std::unique_ptr<Mpi> mpi;
  Comm world;
  std::vector<std::unique_ptr<Job>> jobs;
  std::vector<double> draining;
  bool closing = false;
  double closing_token = 0;
  uint64_t worked_at = 0;

  void run() {
    try {
      {
        const std::lock_guard<std::mutex> lock(turn);
        start();
      }
      while (step()) {}
      const std::lock_guard<std::mutex> lock(turn);
      if (closing) finish();
    } catch (const std::exception& error) {
      const std::string text = error.what();
      const std::lock_guard<std::mutex> lock(turn);
      broken = text;
      tell({Notice::failed, 0, {}, {text.begin(), text.end()}});
    }
    const std::lock_guard<std::mutex> lock(mutex);
    over = true;
    ended.notify_all();
  }

  void start() {
    std::string why;
    mpi = Mpi::open(names, why);
    if (!mpi) throw Failure(why);
    mpi->init();
    helped = mpi->serialized();
    world = mpi->duplicate(nullptr);
    const std::string text = mpi->name() + "\n" + mpi->version();
    tell({Notice::opened,
          0,
          {double(mpi->rank()), double(mpi->size())},
          {text.begin(), text.end()}});
  }

  void finish() {
    for (auto& job : jobs) job->end(*mpi);
    jobs.clear();
    mpi->free(world);
    mpi->finalize();
    tell({Notice::closed, closing_token, {}, {}});
  }

  // Runs one round of the thread. Returns false when the thread must end.
  bool step() {
    const int32_t seen = bell->read();
    Look look;
    uint64_t waited = 0;
    if (helpers == 0 || leave || ordered()) {
      const std::lock_guard<std::mutex> lock(turn);
      if (!broken.empty()) throw Failure(broken);
      if (leave || closing) return false;
      obey(look);
      pass(look);
      waited = now_ns() - worked_at;
    }
    if (look.worked) return true;
    if (helpers > 0 || now_ns() - helped_at < lately_ns) {
      // Naps, and does not sleep on the bell. A thread that starts an exchange would have to wake
      // this thread, which takes time. That thread is likely to wait for data next, and then it
      // helps.
      const timespec nap{0, long(helped_nap_ns)};
      nanosleep(&nap, nullptr);
    } else if (waited < spin_ns) {
      pause_core();
      sched_yield();
    } else {
      // If data is due, sleeps for an eighth of the time waited so far, between min_nap_ns and
      // max_nap_ns. So the sleep delays the awaited data only a little.
      bell->sleep(seen, look.due ? std::clamp(waited / 8, min_nap_ns, max_nap_ns) : sleep_ns);
    }
    return true;
  }

  void help(int32_t* word, int32_t seen, uint64_t ns) {
    // True if this thread counts as a helper. The MPI thread then naps until the help ends.
    const bool stays = ns >= help_ns;
    const uint64_t deadline = now_ns() + ns;
    if (stays) helpers.fetch_add(1);
    while (word_at(word).load() == seen && now_ns() < deadline) {
      if (!help_once()) break;
      // Yields, because the awaited work may need this core.
      sched_yield();
    }
    if (!stays) return;
    // If the word is unchanged, this helper gives up and sleeps next. `helped_at` is then 0, so
    // that the MPI thread looks at the jobs without these naps.
    helped_at = word_at(word).load() != seen ? now_ns() : 0;
    helpers.fetch_sub(1);
  }
  // Looks at all jobs once, unless another thread is doing so. Returns false if the MPI thread has
  // to end, because of a close or an error. A helper can do nothing more then.
  bool help_once() {
    const std::unique_lock<std::mutex> lock(turn, std::try_to_lock);
    if (!lock) return true;
    if (leave || closing || !broken.empty()) return false;
    try {
      Look look;
      pass(look);
    } catch (const std::exception& error) {
      broken = error.what();
    }
    return broken.empty();
  }

  // Looks at all jobs. The caller holds `turn`.
  void pass(Look& look) {
    for (auto& job : jobs) job->look(*mpi, look);
    jobs.erase(std::remove_if(jobs.begin(), jobs.end(), [](auto& job) { return job->over(); }),
               jobs.end());
    if (!draining.empty() &&
        std::all_of(jobs.begin(), jobs.end(), [](auto& job) { return job->drained(); })) {
      for (const double token : draining) tell({Notice::drained, token, {}, {}});
      draining.clear();
    }
    if (look.worked) worked_at = now_ns();
  }

  bool ordered() {
    const std::lock_guard<std::mutex> lock(mutex);
    return !orders.empty();
  }
  // Runs the orders. Only the MPI thread calls it. An order may wait for all other processes, and a
  // helper must return in time.
  void obey(Look& look) {
    std::deque<std::function<void()>> now;
    {
      const std::lock_guard<std::mutex> lock(mutex);
      now.swap(orders);
    }
    for (auto& order : now) order();
    if (!now.empty()) look.worked = true;
  }
};

namespace {
// The process's MPI thread. There is at most one. The mutex guards the pointer.
std::mutex there_mutex;
std::shared_ptr<Thread::State> there;
}  // namespace

bool Thread::look_until(int32_t* word, int32_t seen, uint64_t ns) {
  std::shared_ptr<State> state;
  {
    const std::lock_guard<std::mutex> lock(there_mutex);
    state = there;
  }
  if (!state || !state->helped) return hotslot::look_until(word, seen, ns);
  state->help(word, seen, ns);
  return word_at(word).load() != seen;
}

Thread::Thread(std::vector<std::string> names, Bell* bell, Tell tell)
    : state_(std::make_shared<State>()) {
  const std::lock_guard<std::mutex> lock(there_mutex);
  there = state_;
  state_->names = std::move(names);
  state_->bell = bell;
  state_->tell = std::move(tell);
  std::thread([state = state_] {
    sleep_exactly();
    const IdleCores::Thread counted;
    state->run();
  }).detach();
}

Thread::~Thread() {
  {
    const std::lock_guard<std::mutex> lock(there_mutex);
    there.reset();
  }
  state_->leave = true;
  state_->bell->ring();
  std::unique_lock<std::mutex> lock(state_->mutex);
  if (!state_->ended.wait_for(lock, std::chrono::seconds(1), [this] { return state_->over; }))
    return;
  // Waits for a helper that began before `leave` was set, because it may still be in MPI.
  for (const uint64_t begin = now_ns(); now_ns() - begin < 1'000'000'000; sched_yield())
    if (const std::unique_lock<std::mutex> turn(state_->turn, std::try_to_lock); turn) return;
}

void Thread::order(std::function<void()> command) {
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->orders.push_back(std::move(command));
  }
  state_->bell->ring();
}

void Thread::add(Make make) {
  State* const state = state_.get();
  order(
      [state, make = std::move(make)] { state->jobs.push_back(make(*state->mpi, state->world)); });
}

void Thread::agree(double token, std::vector<uint8_t> bytes) {
  State* const state = state_.get();
  add([state, token, bytes = std::move(bytes)](Mpi& mpi, const Comm& world) mutable {
    return std::make_unique<Agreement>(mpi, world, token, std::move(bytes), state->tell);
  });
}

void Thread::drain(double token) {
  State* const state = state_.get();
  order([state, token] { state->draining.push_back(token); });
}

void Thread::close(double token) {
  State* const state = state_.get();
  order([state, token] {
    state->closing = true;
    state->closing_token = token;
  });
}

}  // namespace hotslot::ranks
