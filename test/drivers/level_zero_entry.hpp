// What every call of the Level Zero software driver needs: counting, the lock, lookups of handles,
// and checks of arguments.
#pragma once
#include <level_zero/ze_api.h>
#include <level_zero/ze_ddi.h>
#include <level_zero/zes_api.h>
#include <level_zero/zes_ddi.h>
#include <level_zero/zet_api.h>
#include <level_zero/zet_ddi.h>

#include "level_zero_running.hpp"

namespace software {
namespace {

// Short names of frequent results.
constexpr auto not_ready = ZE_RESULT_NOT_READY, device_lost = ZE_RESULT_ERROR_DEVICE_LOST,
               invalid_argument = ZE_RESULT_ERROR_INVALID_ARGUMENT,
               invalid_size = ZE_RESULT_ERROR_INVALID_SIZE,
               invalid_enumeration = ZE_RESULT_ERROR_INVALID_ENUMERATION,
               object_in_use = ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE,
               unsupported_feature = ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;

Machine& machine() { return Machine::one(); }
const Features& features() { return machine().features; }

// Runs the body of a call. It counts the call, injects a failure if one is due, and takes the lock.
// A Refusal becomes the call's result.
template <class F>
ze_result_t enter(const char* name, F&& body) {
  if (const uint32_t status = Calls::all().enter(name)) {
    Detector::off();
    return ze_result_t(status);
  }
  try {
    std::unique_lock held(machine().lock);
    if (!machine().initialised) return ZE_RESULT_ERROR_UNINITIALIZED;
    if constexpr (std::is_void_v<decltype(body(held))>) {
      body(held);
      return ZE_RESULT_SUCCESS;
    } else {
      return body(held);
    }
  } catch (const Refusal& refusal) {
    if (!refusal.what.empty()) Calls::all().complain(name, refusal.what);
    return refusal.status;
  } catch (const std::bad_alloc&) {
    return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
  }
}

// For calls that two threads must not make for one object at the same time. The second call is
// refused.
class Alone {
 public:
  template <class... H>
  explicit Alone(H... handles) {
    std::lock_guard held(machine().lock);
    for (uintptr_t handle : {uintptr_t(handles)...})
      if (auto object = machine().look_up(handle)) {
        if (object->user.exchange(true))
          taken = true;
        else
          mine_.push_back(std::move(object));
      }
  }
  ~Alone() {
    for (auto& object : mine_) object->user.store(false);
  }
  bool taken = false;

 private:
  std::vector<Ref<Object>> mine_;
};
template <class F>
ze_result_t enter_alone(const char* name, const Alone& alone, F&& body) {
  return enter(name, [&](auto& held) {
    require(!alone.taken, object_in_use, "two threads use the same object at the same time");
    return body(held);
  });
}

template <class H, class T>
void give(H* out, const Ref<T>& object) {
  *out = reinterpret_cast<H>(machine().add(object)->handle);
}
template <class T>
void pointer(T* value) {
  require(value != nullptr, ZE_RESULT_ERROR_INVALID_NULL_POINTER, "a null pointer");
}
template <class D>
void described(const D* desc, ze_structure_type_t stype) {
  pointer(desc);
  require(desc->stype == stype, invalid_argument, "a structure without its type");
}
void flags(uint32_t given, uint32_t known) {
  if (given & ~known)
    refuse(invalid_enumeration, "flags " + std::to_string(given) +
                                    ", of which this version knows " + std::to_string(known));
}

Ref<Context> context_of(ze_context_handle_t handle) {
  return machine().find<Context>(handle, Sort::context);
}
Ref<Device> device_of(ze_device_handle_t handle) {
  return machine().find<Device>(handle, Sort::device);
}
Ref<List> list_of(ze_command_list_handle_t handle) {
  return machine().find<List>(handle, Sort::list);
}
Ref<Event> event_of(ze_event_handle_t handle) { return machine().find<Event>(handle, Sort::event); }
Ref<Kernel> kernel_of(ze_kernel_handle_t handle) {
  return machine().find<Kernel>(handle, Sort::kernel);
}

void unused(const Object& object, const char* what) {
  if (object.in_use)
    refuse(object_in_use, std::string(what) + " is destroyed while queued work uses it");
}
template <class F>
void no_child(F&& matches, const char* what) {
  if (machine().any(matches)) refuse(object_in_use, what);
}

}  // namespace
}  // namespace software
