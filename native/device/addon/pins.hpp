// The handles that an actor's native code has pinned. The actor pins them at set-up. The destructor
// unpins them when the actor is closed.
#pragma once
#include <vector>

#include "device/addon/napi.hpp"

namespace hotslot {

class Pins {
 public:
  explicit Pins(Napi::Env env) : env_(env), api_(environment(env).api) {
    if (!api_)
      throw wrong_addon("load this addon through Hotslot: it is not linked to device.node");
  }
  ~Pins() {
    for (double handle : held_) api_->unpin(handle);
  }
  Pins(const Pins&) = delete;

  const hotslot_api& api() const { return *api_; }

  void* pin(const Napi::Value& handle, int kind, const char* what) {
    held_.push_back(number(handle));  // before pin(), because push_back() may throw
    void* object = api_->pin(number(handle), kind);
    if (object) return object;
    held_.pop_back();
    throw_js(env_, stale(what));
  }

  std::vector<void*> pin_all(const Napi::Value& handles, int kind, const char* what) {
    auto list = handles.As<Napi::Array>();
    std::vector<void*> out;
    for (uint32_t i = 0; i < list.Length(); ++i) out.push_back(pin(list.Get(i), kind, what));
    return out;
  }

 private:
  Napi::Env env_;
  const hotslot_api* api_;
  std::vector<double> held_;
};

// Returns the slot index that JavaScript passed as argument `i`. Throws if it is not below `depth`.
inline size_t slot_of(Info info, size_t i, size_t depth) {
  const int64_t slot = int64_t(whole(info, i));
  if (slot < 0 || size_t(slot) >= depth) throw range("slot ", slot, " is not one of ", depth);
  return size_t(slot);
}

}  // namespace hotslot
