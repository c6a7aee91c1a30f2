// poll.node: the native half of actors/poll.ts and of a backend's readiness. One call checks a
// whole batch of events. While an event is pending, poll's thread sleeps only in wait(). wait()
// first helps the device, then sleeps on the thread's own bell.
#include <napi.h>

#include <algorithm>

#include "device/addon/pins.hpp"
#include "wait/bell.hpp"

namespace hotslot {
namespace {

// The values of a watch word. JavaScript writes pending, and this file writes done.
enum Watch : int32_t { idle = 0, pending = 1, done = 2 };

// Nanoseconds for which wait() helps the device between two checks of the events.
constexpr uint64_t help_ns = 50'000;
// The longest time of one wait(), in nanoseconds. Inside wait(), one sleep on the bell takes at
// most `sleepNs`. JavaScript chooses it by the family of the device, because some devices cannot
// ring.
constexpr uint64_t max_wait_ns = 50'000'000;

class Poller final {
 public:
  static constexpr const char* name = "Poller";
  static constexpr const char* called = "this poller";
  // new Poller({device, events: [event…], watch: Int32Array(events), times: Float64Array(events),
  // counts?: [number…], oldest?: Int32Array(counts), bell?: Int32Array, sleepNs, spinNs}).
  //
  // `counts` divides the events into rings: it has the number of events of each ring. JavaScript
  // takes the events of a ring in order. The first is at the ring's index `oldest`.
  //
  // With a bell, the calling thread may attend the device from back() until away(). Completions
  // then ring the bell, and the thread promises to help the device soon after each ring.
  explicit Poller(Info info) : pins_(info.Env()) {
    const auto options = info[0].As<Napi::Object>();
    device_ = pins_.pin(options.Get("device"), HOTSLOT_DEVICE, "device");
    events_ = pins_.pin_all(options.Get("events"), HOTSLOT_EVENT, "event");
    const Bytes watch = bytes_of(options.Get("watch"), "watch"),
                times = bytes_of(options.Get("times"), "times");
    if (watch.size < events_.size() * 4 || times.size < events_.size() * 8)
      throw argument("watch and times need one element per event");
    watch_ = reinterpret_cast<int32_t*>(watch.data);
    times_ = reinterpret_cast<double*>(times.data);
    if (options.Has("counts")) {
      const auto counts = options.Get("counts").As<Napi::Array>();
      const Bytes oldest = bytes_of(options.Get("oldest"), "oldest");
      uint64_t all = 0;
      for (uint32_t i = 0; i < counts.Length(); ++i) {
        counts_.push_back(whole(counts.Get(i)));
        all += counts_.back();
      }
      if (all != events_.size() || oldest.size < counts_.size() * 4)
        throw argument("rings need as many events as there are, and where each one's oldest is");
      oldest_ = reinterpret_cast<int32_t*>(oldest.data);
      views_.push_back(Napi::Persistent(options.Get("oldest").As<Napi::TypedArray>()));
    } else {
      counts_.assign(events_.size(), 1);
    }
    sleep_ns_ = whole(options.Get("sleepNs"));
    spin_ns_ = whole(options.Get("spinNs"));
    views_.push_back(Napi::Persistent(options.Get("watch").As<Napi::TypedArray>()));
    views_.push_back(Napi::Persistent(options.Get("times").As<Napi::TypedArray>()));
    if (options.Get("bell").IsTypedArray()) {
      views_.push_back(Napi::Persistent(options.Get("bell").As<Napi::TypedArray>()));
      bell_ = reinterpret_cast<Bell*>(bytes_of(options.Get("bell"), "bell").data);
    }
  }
  ~Poller() { dismiss(); }

  static void define(Napi::Env env, Napi::Object exports) {
    add_class<Poller>(env, exports,
                      {{"check", call_method<Poller, &Poller::check>},
                       {"wait", call_method<Poller, &Poller::wait>},
                       {"away", call_method<Poller, &Poller::away>},
                       {"back", call_method<Poller, &Poller::back>},
                       {"close", close_object<Poller>}});
  }

 private:
  // check(ns): returns the number of watched events that became done. If none did, it helps the
  // device for at most `ns` nanoseconds and checks again.
  double check(Info info) {
    int found = look(info.Env());
    const uint64_t ns = whole(info, 0);
    if (found == 0 && ns > 0 && pins_.api().help(device_, ns)) found = look(info.Env());
    return found;
  }

  // wait(seen, ms): waits until a watched event is done, the bell's count differs from `seen`, or
  // the time is over. Returns the number of events that became done.
  double wait(Info info) {
    if (!bell_) throw argument("this poller has no bell to sleep on");
    const int32_t seen = info[0].As<Napi::Number>().Int32Value();
    const uint64_t ns = std::min(uint64_t(number(info, 1) * 1e6), max_wait_ns);
    const uint64_t deadline = now_ns() + ns;
    uint64_t idle_since = 0;
    sleep_exactly();
    for (;;) {
      // Checks the events first, because the device's progress during the sleep is the usual reason
      // for a wake-up.
      if (const int found = look(info.Env())) return found;
      if (bell_->read() != seen) return 0;
      if (pins_.api().help(device_, help_ns)) {
        idle_since = 0;
        continue;
      }
      const uint64_t now = now_ns();
      if (now >= deadline) return 0;
      if (idle_since == 0) idle_since = now;
      if (now - idle_since < spin_ns_) continue;
      // If an event completed after the check, the device has rung the bell. Then the count differs
      // from `seen`, and the sleep returns at once.
      bell_->sleep(seen, std::min(sleep_ns_, deadline - now));
    }
  }

  // Checks the watched events, and returns how many became done. JavaScript takes the events of a
  // ring in order, so the check of a ring ends at its first event that is not done. Further queries
  // would be useless, and one query of a driver takes more than a microsecond.
  int look(Napi::Env env) {
    int found = 0;
    size_t begin = 0;
    for (size_t ring = 0; ring < counts_.size(); begin += counts_[ring++]) {
      const size_t count = counts_[ring], oldest = oldest_ ? uint32_t(oldest_[ring]) : 0;
      for (size_t k = 0; k < count; ++k) {
        const size_t i = begin + (oldest + k) % count;
        if (watch_[i] != pending) continue;
        if (!checked(env, pins_.api().query(events_[i]))) break;
        watch_[i] = done;
        times_[i] = double(now_ns()) / 1e6;
        ++found;
      }
    }
    return found;
  }

  // away(): called before this thread parks in JavaScript, where native code cannot wake it. The
  // device then no longer counts on this thread's help, and passes remaining work to the pool.
  void away(Info) { dismiss(); }
  void back(Info info) { attend(info.Env()); }

  void attend(Napi::Env env) {
    if (bell_ && !attending_) checked(env, pins_.api().attend(device_, bell_));
    attending_ = bell_ != nullptr;
  }
  void dismiss() {
    if (attending_) pins_.api().dismiss(device_, bell_);
    attending_ = false;
  }

  Pins pins_;
  void* device_ = nullptr;
  std::vector<void*> events_;
  std::vector<uint64_t> counts_;
  int32_t *watch_ = nullptr, *oldest_ = nullptr;
  double* times_ = nullptr;
  uint64_t sleep_ns_ = 0, spin_ns_ = 0;
  Bell* bell_ = nullptr;
  bool attending_ = false;
  std::vector<Napi::Reference<Napi::TypedArray>> views_;
};

}  // namespace

static void init_addon(Napi::Env env, Napi::Object exports) {
  make_linkable(env, exports);
  Poller::define(env, exports);
  add_numbers(env, exports, "watch", {{"idle", idle}, {"pending", pending}, {"done", done}});
}
HOTSLOT_ADDON(init_addon)

}  // namespace hotslot
