// replay.node: the native half of actors/replay.ts. It launches a slot's graph, copies the weights
// if that is requested, and records the spent event.
#include <napi.h>

#include "device/addon/pins.hpp"
#include "wait/bell.hpp"

namespace hotslot {
namespace {

class Replayer final {
 public:
  static constexpr const char* name = "Replayer";
  static constexpr const char* called = "this replayer";
  // new Replayer({stream, spent: [event…], graphs: [exec…], begins?: [event…], times:
  // Float64Array(2), weights?, weightsOffset?, weightsBytes?, mailbox?})
  explicit Replayer(Info info) : pins_(info.Env()) {
    const auto options = info[0].As<Napi::Object>();
    stream_ = pins_.pin(options.Get("stream"), HOTSLOT_STREAM, "compute stream");
    spent_ = pins_.pin_all(options.Get("spent"), HOTSLOT_EVENT, "event");
    graphs_ = pins_.pin_all(options.Get("graphs"), HOTSLOT_EXEC, "graph");
    if (options.Has("begins"))
      begins_ = pins_.pin_all(options.Get("begins"), HOTSLOT_EVENT, "event");
    const Bytes times = bytes_of(options.Get("times"), "times");
    if (times.size < 16 || graphs_.size() != spent_.size() ||
        (!begins_.empty() && begins_.size() != spent_.size()))
      throw argument(
          "a replayer needs one graph and one event per slot, and two float64 for times");
    times_ = reinterpret_cast<double*>(times.data);
    view_ = Napi::Persistent(options.Get("times").As<Napi::TypedArray>());
    if (options.Get("weights").IsNumber()) {
      weights_ = pins_.pin(options.Get("weights"), HOTSLOT_MEMORY, "weights tensor");
      mailbox_ = pins_.pin(options.Get("mailbox"), HOTSLOT_MEMORY, "mailbox");
      weights_offset_ = whole(options.Get("weightsOffset"));
      weights_bytes_ = whole(options.Get("weightsBytes"));
    }
  }

  static void define(Napi::Env env, Napi::Object exports) {
    add_class<Replayer>(env, exports,
                        {{"launch", call_method<Replayer, &Replayer::launch>},
                         {"mark", call_method<Replayer, &Replayer::mark>},
                         {"drained", call_method<Replayer, &Replayer::drained>},
                         {"close", close_object<Replayer>}});
  }

 private:
  // launch(slot, mailbox offset or −1): enqueues the graph, then the copy of the weights, then the
  // record of `spent`. −1 omits the copy. Returns true. In a thread that is being terminated, the
  // call does nothing and returns undefined (answered() in src/base/addon.ts).
  bool launch(Info info) {
    const size_t slot = slot_of(info, 0, spent_.size());
    begin(info, slot);
    checked(info.Env(), pins_.api().replay(stream_, graphs_[slot]));
    finish(info, slot);
    return true;
  }

  // mark(slot, mailbox offset or −1): does what launch() does, but without the graph. A new replay
  // actor calls it for a graph that its predecessor launched before it died.
  bool mark(Info info) {
    const size_t slot = slot_of(info, 0, spent_.size());
    begin(info, slot);
    finish(info, slot);
    return true;
  }

  void begin(Info info, size_t slot) {
    times_[0] = double(now_ns()) / 1e6;
    if (!begins_.empty()) checked(info.Env(), pins_.api().record(stream_, begins_[slot]));
  }

  void finish(Info info, size_t slot) {
    const int64_t to = info[1].As<Napi::Number>().Int64Value();
    if (to >= 0 && weights_)
      checked(info.Env(), pins_.api().copy(stream_, mailbox_, uint64_t(to), weights_,
                                           weights_offset_, weights_bytes_));
    checked(info.Env(), pins_.api().record(stream_, spent_[slot]));
    times_[1] = double(now_ns()) / 1e6;
  }

  // drained(): returns whether all work launched so far is done. A new replay actor waits for this
  // before it reads the slots' marks, which show the updates that its predecessor launched.
  bool drained(Info info) { return checked(info.Env(), pins_.api().stream_query(stream_)) == 1; }

  Pins pins_;
  void* stream_ = nullptr;
  std::vector<void*> spent_, graphs_, begins_;
  void* weights_ = nullptr;
  void* mailbox_ = nullptr;
  uint64_t weights_offset_ = 0, weights_bytes_ = 0;
  double* times_ = nullptr;
  Napi::Reference<Napi::TypedArray> view_;
};

}  // namespace

static void init_addon(Napi::Env env, Napi::Object exports) {
  make_linkable(env, exports);
  Replayer::define(env, exports);
}
HOTSLOT_ADDON(init_addon)

}  // namespace hotslot
