// Level Zero's drivers.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device/core/library.hpp"
#include "device/gpu/give_back.hpp"
#include "device/gpu/memory.hpp"
#include "device/level_zero/abi.hpp"
#include "device/level_zero/events.hpp"

namespace hotslot::level_zero {

class Queue;

// A driver of the loader, with its context. It is never destroyed.
struct Driver {
  DriverHandle handle = nullptr, own = nullptr;  // the loader's, and the driver's; often equal
  uint32_t version = 0, build = 0;               // of the interface, and of the driver
  Newer newer;
  bool imports_pages = false, imports_any = false;  // whether it imports whole pages; any range
  bool graphs = false, lists_append = false;
  Points points{*this};
  Retired retired{[this] { return marks(); }, [this] { return marks().empty(); }};
  Unreturned unreturned;

  ContextHandle context();
  void resolve(const Library& library, bool alone);
  // Returns marks after all work that is enqueued so far on streams of this driver. It enqueues
  // nothing, because the last point of each stream is a mark already.
  Marks marks();
  void arrive(const Ref<Queue>& queue);
  void depart(std::unique_ptr<Queue> queue);
  // Frees resources that no work touches, and resources that are only cached.
  void tidy();
  template <class F, class... A>
  void take_back(const char* call, F function, A... arguments) {
    unreturned.give_back([=] { must_take(call, function(arguments...)); });
  }

  // An active import of host memory. A registration of a range inside an active import uses that
  // import. `users` counts these registrations. `pages` is true if the standard's call imported
  // whole pages.
  struct Import {
    size_t bytes;
    int users;
    bool pages;
  };
  HostKind import(uint8_t* address, size_t bytes);
  void release_import(uint8_t* address);
  bool imported_pages(const uint8_t* address);

  Staging staging{retired, [this](size_t room) { return allocate_staging(room); },
                  [this](uint8_t* at) {
                    take_back("zeMemFree", ze().zeMemFree, context(), static_cast<void*>(at));
                  }};

 private:
  uint8_t* allocate_staging(size_t room);
  void give_import(uint8_t* address, bool pages);
  void sweep_departed();
  std::mutex context_lock_;
  std::atomic<ContextHandle> context_{nullptr};
  std::mutex lock_;  // guards the fields below; queues' own locks are taken after it
  // All queues, as addresses. A weak reference would expire before its queue is in `departed_`, and
  // marks() would miss the queue.
  std::vector<Queue*> queues_;
  // Queues whose streams are closed and whose last work may still run. They form a linked list, so
  // that a destructor can add a queue without an allocation.
  std::unique_ptr<Queue> departed_;
  std::mutex memory_lock_;
  std::map<uint8_t*, Import> imports_;
};

// Returns the driver and the handle of a device. The device must exist.
std::pair<Driver*, DeviceHandle> device_at(int index);

}  // namespace hotslot::level_zero
