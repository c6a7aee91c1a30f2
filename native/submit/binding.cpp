// submit.node: the native half of actors/submit.ts and of every transfer backend. It copies a
// slot's host buffer to its device buffer on the copy stream. A deferred copy runs on the
// consumer's stream instead.
#include <napi.h>

#include "device/addon/pins.hpp"
#include "wait/bell.hpp"

namespace hotslot {
namespace {

class Submitter final {
 public:
  static constexpr const char* name = "Submitter";
  static constexpr const char* called = "this submitter";
  // new Submitter({stream, copied: [event…], begins?: [event…], hosts: [memory…], hostOffsets:
  // [bytes…], slots: [memory…], mode}). Mode 0 copies at once. Mode 1 defers the copy to the
  // consumer's stream. Mode 2 is direct: the rows are already on the device, and no wait is needed.
  explicit Submitter(Info info) : pins_(info.Env()) {
    const auto options = info[0].As<Napi::Object>();
    stream_ = pins_.pin(options.Get("stream"), HOTSLOT_STREAM, "copy stream");
    copied_ = pins_.pin_all(options.Get("copied"), HOTSLOT_EVENT, "event");
    if (options.Has("begins"))
      begins_ = pins_.pin_all(options.Get("begins"), HOTSLOT_EVENT, "event");
    hosts_ = pins_.pin_all(options.Get("hosts"), HOTSLOT_MEMORY, "host memory");
    devices_ = pins_.pin_all(options.Get("slots"), HOTSLOT_MEMORY, "slot");
    const auto offsets = options.Get("hostOffsets").As<Napi::Array>();
    for (uint32_t i = 0; i < offsets.Length(); ++i) offsets_.push_back(whole(offsets.Get(i)));
    mode_ = options.Get("mode").As<Napi::Number>().Int32Value();
    if ((!begins_.empty() && begins_.size() != copied_.size()) ||
        devices_.size() != copied_.size() || offsets_.size() != copied_.size() ||
        hosts_.size() != copied_.size())
      throw argument(
          "a submitter needs one event, one host memory, one offset and one device slot per slot");
  }

  static void define(Napi::Env env, Napi::Object exports) {
    add_class<Submitter>(env, exports,
                         {{"submit", call_method<Submitter, &Submitter::submit>},
                          {"waitReady", call_method<Submitter, &Submitter::wait_ready>},
                          {"close", close_object<Submitter>}});
  }

 private:
  // submit(slot, bytes): records the slot's begin event, if there is one. In mode 0, it then
  // enqueues the copy and records the slot's `copied` event. Returns the host seconds that the call
  // took.
  double submit(Info info) {
    const size_t slot = slot_of(info, 0, copied_.size());
    const uint64_t bytes = whole(info, 1);
    const uint64_t begin = now_ns();
    if (!begins_.empty()) checked(info.Env(), pins_.api().record(stream_, begins_[slot]));
    if (mode_ == 0) checked(info.Env(), copy(stream_, slot, bytes));
    if (mode_ == 0) checked(info.Env(), pins_.api().record(stream_, copied_[slot]));
    return double(now_ns() - begin) / 1e9;
  }

  // waitReady(stream handle, slot, bytes): makes work that is enqueued on the stream later run
  // after the slot's copy. Returns the host seconds that the call took.
  //
  // Mode 2 does nothing. In mode 0, and in mode 1 if `bytes` is 0, the stream waits for the slot's
  // `copied` event. In mode 1 with more bytes, the stream gets the deferred copy and then the
  // record of this event.
  double wait_ready(Info info) {
    const size_t slot = slot_of(info, 1, copied_.size());
    const double handle = number(info, 0);
    void* stream = pins_.api().pin(handle, HOTSLOT_STREAM);
    if (!stream) throw stale("stream");
    const uint64_t begin = now_ns();
    const uint64_t bytes = whole(info, 2);
    int result;
    if (mode_ == 2)
      result = 0;
    else if (mode_ == 0 || bytes == 0)
      result = pins_.api().wait(stream, copied_[slot]);
    else if ((result = copy(stream, slot, bytes)) >= 0)
      result = pins_.api().record(stream, copied_[slot]);
    pins_.api().unpin(handle);
    checked(info.Env(), result);
    return double(now_ns() - begin) / 1e9;
  }

  int copy(void* stream, size_t slot, uint64_t bytes) {
    return pins_.api().copy(stream, devices_[slot], 0, hosts_[slot], offsets_[slot], bytes);
  }

  Pins pins_;
  void* stream_ = nullptr;
  std::vector<void*> copied_, begins_, hosts_, devices_;
  std::vector<uint64_t> offsets_;
  int mode_ = 0;
};

}  // namespace

static void init_addon(Napi::Env env, Napi::Object exports) {
  make_linkable(env, exports);
  Submitter::define(env, exports);
}
HOTSLOT_ADDON(init_addon)

}  // namespace hotslot
