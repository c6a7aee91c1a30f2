// The one native core of the process: the open devices, the table of handles, and the table of C
// functions that the other addons borrow.
#pragma once
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
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
  // Opens a device. If the device is open already, only counts the call. The device stays in use
  // until close() has undone every call of open().
  //
  // `products` is the precision of matrix products. It holds while the device is in use: a call
  // without it gets the precision in use, and a call with another one throws. The first call
  // chooses for the others. Its default is float32.
  const OpenDevice& open(const std::string& name, std::optional<Products> products = {});
  // Undoes `times` calls of open(). If no thread has the device open afterward, frees its
  // belongings. With 0, only does the latter.
  void close(double device, int times = 1);
  // Returns the number of devices of the family.
  int count(const char* family);
  // A belonging is a named object of a device that all threads share. It is freed when no thread
  // has the device open. belonging() returns the handle of the belonging with this name. If the
  // device has none, `make` creates the object.
  double belonging(double device, const std::string& name,
                   const std::function<Ref<Object>(Device&)>& make);
  // Kernels that a program brought are belongings, too. The key identifies everything that the
  // kernels were built from.
  //
  // `module` returns the module's handle, or 0 if no module has the key. `add_module` returns the
  // handle of this module, or of the module that another thread added first. It throws STALE_HANDLE
  // if no thread has the device open.
  double module(double device, const std::string& key);
  double add_module(double device, const std::string& key, const Ref<Object>& module);
  // Closes a belonging that failed. The next call of belonging() creates a new object.
  void drop_belonging(double device, double handle);

  // Returns a stream that only the caller uses until take_back_stream(). Takes an idle stream of
  // the device if it has one, and creates a stream otherwise. Throws STATE_CAPTURE inside a
  // capture.
  double lend_stream(double device);
  void take_back_stream(double device, double handle);
  // Returns device memory that permanently contains these bytes. The device keeps its most recently
  // used tables, so a later request for the same bytes usually returns the same memory. Throws
  // inside a capture unless the device has the table already.
  Ref<Memory> table(double device, const void* bytes, size_t size);
  struct Caches {
    CacheCounts buffers, streams, tables;
  };
  Caches caches(double device);

  // Returns the handle of the device's shared capture stream, which one thread at a time may use.
  // If another thread uses it, waits up to `ns`, then returns 0. Throws BUSY if this thread uses it
  // already.
  //
  // `thread` is the address of the thread's EnvironmentHandles. `pool` is a graph pool that this
  // thread then uses together with the stream, or null. Allocations of the pool begin anew.
  double enter_capture(double device, const Ref<Object>& pool, const void* thread, uint64_t ns);
  // Lets other threads use the capture stream, and ends its capture if one is open. Does nothing if
  // this thread does not use the stream.
  void leave_capture(double device, const void* thread);
  // Called when the thread ends. Lets other threads use every capture stream that this thread used,
  // and ends open captures of these streams.
  void leave(const void* thread);
  // Throws unless enter_capture() gave this thread a capture stream together with this pool.
  void require_entered(const Object& pool, const void* thread);
  HandleTable handles;
  Probe probe;

 private:
  // Returns the family and the index for a device's name: 'cuda:1', 'cuda' (the first), 'cpu' or
  // 'auto'.
  static std::pair<const Family*, int> resolve(const std::string& name);
  OpenDevice& of(double device);
  void renew_default(OpenDevice& open);
  void choose(OpenDevice& open, std::optional<Products> products);
  void end_scope(OpenDevice& open);
  std::mutex mutex_;
  std::condition_variable left_;
  std::map<std::string, OpenDevice> open_;
};

// Names of the belongings that every device can have. See belonging().
constexpr const char* capture_stream = "capture stream";
constexpr const char* graph_pool = "graph pool";

const hotslot_api* api_table();

// Keeps a handle pinned while the Pinned exists. The constructor throws STALE_HANDLE if the handle
// is closed.
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
