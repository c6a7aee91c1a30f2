// The one native core of the process: open devices, the handle table, the C table lent to the other
// addons.
#pragma once
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "device/core/api.h"
#include "device/core/device.hpp"
#include "device/core/handles.hpp"
#include "device/core/managed_probe.hpp"
#include "device/core/open_device.hpp"

namespace hotslot {

struct DeviceFacts {
  std::string name, family, reason, description;
  bool available;
};

struct Family;

class Core {
 public:
  static Core& instance();
  std::vector<DeviceFacts> list();
  // Opens once per process; later calls give the same device, which is in use until it was closed
  // as often.
  const OpenDevice& open(const std::string& name);
  void close(double device, int times = 1);  // 0: looks whether the device is still in use
  // How many devices the family has.
  int count(const char* family);
  // The handle of what belongs to the device under this name.
  double belonging(double device, const std::string& name,
                   const std::function<Ref<Object>(Device&)>& make);
  // Kernels that a program brought, by a key that says all of what they are made of: the handle of
  // the module, 0 where there is none, and the same of this one unless another thread was first.
  // Throws STALE_HANDLE where no thread has the device open any more.
  double module(double device, const std::string& key);
  double add_module(double device, const std::string& key, const Ref<Object>& module);
  // It failed: the next thread that asks gets a new one.
  void drop_belonging(double device, double handle);

  // A stream of the device's pool for one borrower, until it gives it back. Refused with
  // STATE_CAPTURE inside a capture.
  double lend_stream(double device);
  void take_back_stream(double device, double handle);
  // Device memory that holds these bytes for good: the same memory when they are asked for again,
  // unless many others were asked for since. Refused inside a capture unless it is there.
  Ref<Memory> table(double device, const void* bytes, size_t size);
  struct Caches {
    CacheCounts buffers, streams, tables;
  };
  Caches caches(double device);

  // The shared capture stream for one thread at a time, and a pool with it (or null): its handle.
  // Waits up to `ns` for another thread and answers 0 when it has it still. Throws BUSY when this
  // thread has it already.
  double enter_capture(double device, const Ref<Object>& pool, const void* thread, uint64_t ns);
  // Ends a capture that is still open. Does nothing when the thread does not have it.
  void leave_capture(double device, const void* thread);
  // The thread ends: leaves whatever it has.
  void leave(const void* thread);
  // Throws unless the thread has entered with this pool.
  void require_entered(const Object& pool, const void* thread);
  HandleTable handles;
  Probe probe;

 private:
  // The device that a name means: 'cuda:1', 'cuda' (its first), 'cpu', 'auto'.
  static std::pair<const Family*, int> resolve(const std::string& name);
  OpenDevice& of(double device);
  void renew_default(OpenDevice& open);
  void end_scope(OpenDevice& open);
  std::mutex mutex_;
  std::condition_variable left_;
  std::map<std::string, OpenDevice> open_;
};

// Names of belongings.
constexpr const char* capture_stream = "capture stream";
constexpr const char* graph_pool = "graph pool";

const hotslot_api* api_table();

// Holds a pin for the length of a call.
template <class T>
class Pinned {
 public:
  Pinned(double handle, Kind kind, const char* what)
      : handle_(handle), object_(static_cast<T*>(Core::instance().handles.pin(handle, kind))) {
    if (!object_) throw stale(what);
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
