// The one native core of the process: open devices, the handle table, and the C table lent to the
// other addons.
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
  // Opens a device once per process. Later calls return the same device, which is in use until it
  // was closed as often.
  const OpenDevice& open(const std::string& name);
  void close(double device, int times = 1);  // 0: looks whether the device is still in use
  // Returns the number of devices of the family.
  int count(const char* family);
  // Returns the handle of the belonging that the device has under this name.
  double belonging(double device, const std::string& name,
                   const std::function<Ref<Object>(Device&)>& make);
  // Kernels that a program brought, by a key that covers everything they are made of. `module`
  // returns the module's handle, or 0 if the key has none. `add_module` returns the handle of this
  // module, or of another one if another thread was first. Both throw STALE_HANDLE if no thread has
  // the device open.
  double module(double device, const std::string& key);
  double add_module(double device, const std::string& key, const Ref<Object>& module);
  // Drops a belonging that failed. The next thread that requests it gets a new one.
  void drop_belonging(double device, double handle);

  // Returns a stream of the device's pool for one borrower, until take_back_stream(). Throws
  // STATE_CAPTURE inside a capture.
  double lend_stream(double device);
  void take_back_stream(double device, double handle);
  // Returns device memory that holds these bytes permanently. A later request for the same bytes
  // returns the same memory, unless many others were requested since. Throws inside a capture
  // unless the memory already exists.
  Ref<Memory> table(double device, const void* bytes, size_t size);
  struct Caches {
    CacheCounts buffers, streams, tables;
  };
  Caches caches(double device);

  // Returns the handle of the shared capture stream, which one thread at a time has, with a pool
  // (or null). Waits up to `ns` for another thread, and returns 0 if that still has it. Throws BUSY
  // if this thread already has it.
  double enter_capture(double device, const Ref<Object>& pool, const void* thread, uint64_t ns);
  // Releases the capture stream, and ends a capture that is still open. Does nothing if the thread
  // does not have it.
  void leave_capture(double device, const void* thread);
  // Releases every capture stream of a thread that ends.
  void leave(const void* thread);
  // Throws unless the thread has entered with this pool.
  void require_entered(const Object& pool, const void* thread);
  HandleTable handles;
  Probe probe;

 private:
  // Returns the device of a name: 'cuda:1', 'cuda' (its first), 'cpu', 'auto'.
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
