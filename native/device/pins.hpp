// What an actor's native half holds: pins on the handles it borrows, taken once at set-up and dropped when it leaves.
#pragma once
#include <string>
#include <vector>

#include "device/throw.hpp"

namespace hotslot {

class Pins {
 public:
  explicit Pins(Napi::Env env) : env_(env), api_(instance(env).api) {
    if (!api_) throw_js(env, "ERR_HOTSLOT_ADDON", "load this addon through Hotslot: it is not linked to device.node");
  }
  ~Pins() { drop(); }
  Pins(const Pins&) = delete;

  const hotslot_api& api() const { return *api_; }

  void* pin(const Napi::Value& handle, int kind, const char* what) {
    const double number = handle.As<Napi::Number>().DoubleValue();
    void* object = api_->pin(number, kind);
    if (!object) throw_js(env_, "ERR_HOTSLOT_STALE_HANDLE", (std::string("this ") + what + " is closed (its handle is stale)").c_str());
    held_.push_back(number);
    return object;
  }

  std::vector<void*> pin_all(const Napi::Value& handles, int kind, const char* what) {
    auto list = handles.As<Napi::Array>();
    std::vector<void*> out;
    for (uint32_t i = 0; i < list.Length(); ++i) out.push_back(pin(list.Get(i), kind, what));
    return out;
  }

  void drop() {
    for (double handle : held_) api_->unpin(handle);
    held_.clear();
  }

 private:
  Napi::Env env_;
  const hotslot_api* api_;
  std::vector<double> held_;
};

// A slot index out of JavaScript, checked.
inline size_t slot_of(const Napi::CallbackInfo& info, size_t argument, size_t depth) {
  const int64_t slot = info[argument].As<Napi::Number>().Int64Value();
  if (slot < 0 || size_t(slot) >= depth) throw_js(info.Env(), "ERR_HOTSLOT_RANGE", ("slot " + std::to_string(slot) + " is not one of " + std::to_string(depth)).c_str());
  return size_t(slot);
}

}  // namespace hotslot
