// The one native core of the process: the open devices, the table of handles, and the table of C
// functions that the other addons borrow.
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
  // Opens a device, or returns the device if it is open already. The device stays in use until
  // close() was called as often as open().
  const OpenDevice& open(const std::string& name);
  void close(double device, int times = 1);  // 0: only frees the belongings if unused
  // Returns the number of devices of the family.
  int count(const char* family);
  // Returns the handle of the device's belonging with this name. Calls `make` for the object if the
  // device has none.
  double belonging(double device, const std::string& name,
                   const std::function<Ref<Object>(Device&)>& make);
  // Kernels that a program brought. The key identifies everything that the kernels were built from.
  // `module` returns the module's handle, or 0 if no module has the key. `add_module` returns the
  // handle of this module, or of the module that another thread added first. Both throw
  // STALE_HANDLE if no thread has the device open.
  double module(double device, const std::string& key);
  double add_module(double device, const std::string& key, const Ref<Object>& module);
  // Closes a belonging that failed. belonging() then makes a new object for the next thread.
  void drop_belonging(double device, double handle);

  // Returns a stream of the device's pool for the caller alone, until take_back_stream(). Throws
  // STATE_CAPTURE inside a capture.
  double lend_stream(double device);
  void take_back_stream(double device, double handle);
  // Returns device memory that permanently contains these bytes. A later request for the same bytes
  // returns the same memory, unless many other tables were requested meanwhile. Throws inside a
  // capture unless the memory already exists.
  Ref<Memory> table(double device, const void* bytes, size_t size);
  struct Caches {
    CacheCounts buffers, streams, tables;
  };
  Caches caches(double device);

  // Returns the handle of the shared capture stream, which only one thread at a time may use. The
  // thread also gets the pool, unless it is null. Waits up to `ns` for another thread to leave, and
  // returns 0 if that thread has not left by then. Throws BUSY if this thread has entered already.
  double enter_capture(double device, const Ref<Object>& pool, const void* thread, uint64_t ns);
  // Releases the capture stream, and ends its capture if one is open. Does nothing if the thread
  // has not entered.
  void leave_capture(double device, const void* thread);
  // Releases every capture stream that a thread has entered, because the thread ends.
  void leave(const void* thread);
  // Throws unless the thread has entered with this pool.
  void require_entered(const Object& pool, const void* thread);
  HandleTable handles;
  Probe probe;

 private:
  // Returns the family and the index for a device's name: 'cuda:1', 'cuda' (the first), 'cpu' or
  // 'auto'.
  static std::pair<const Family*, int> resolve(const std::string& name);
  OpenDevice& of(double device);
  void renew_default(OpenDevice& open);
  void end_scope(OpenDevice& open);
  std::mutex mutex_;
  std::condition_variable left_;
  std::map<std::string, OpenDevice> open_;
};

// Names of the belongings that every device can have. See belonging().
constexpr const char* capture_stream = "capture stream";
constexpr const char* graph_pool = "graph pool";

const hotslot_api* api_table();

// Keeps a handle pinned during a call.
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
