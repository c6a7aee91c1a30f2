// The one native core of the process: open devices, the handle table, the C table lent to the other addons.
#pragma once
#include <map>
#include <mutex>
#include <string>

#include "device/api.h"
#include "device/device.hpp"
#include "device/handles.hpp"

namespace hotslot {

struct DeviceFacts {
  std::string name, family, reason, description;
  bool available;
};

struct OpenDevice {
  Ref<Device> device;
  double handle;
  // The default compute stream: every thread's current stream at first.
  double stream;
};

class Core {
 public:
  static Core& instance();
  std::vector<DeviceFacts> list();
  // Opens once per process; later calls give the same device.
  const OpenDevice& open(const std::string& name);
  HandleTable handles;

 private:
  std::mutex mutex_;
  std::map<std::string, OpenDevice> open_;
};

const hotslot_api* api_table();

// Holds a pin for the length of a call.
template <class T>
class Pinned {
 public:
  Pinned(double handle, Kind kind, const char* what) : handle_(handle), object_(static_cast<T*>(Core::instance().handles.pin(handle, kind))) {
    if (!object_) throw Error("ERR_HOTSLOT_STALE_HANDLE", std::string("this ") + what + " is closed (its handle is stale)");
  }
  ~Pinned() { Core::instance().handles.unpin(handle_); }
  Pinned(const Pinned&) = delete;
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  Ref<T> ref() const { return std::static_pointer_cast<T>(object_->shared_from_this()); }

 private:
  double handle_;
  T* object_;
};

}  // namespace hotslot
