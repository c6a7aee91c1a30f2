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

// One of the loader's drivers with its context. It lives as long as the process.
struct Driver {
  DriverHandle handle = nullptr, own = nullptr;  // the loader's and the driver's, often the same
  uint32_t version = 0, build = 0;               // of the interface; of the driver
  Newer newer;
  bool imports_pages = false, imports_any = false;  // the standard's way and Intel's
  bool graphs = false, lists_append = false;
  Points points{*this};
  Retired retired{[this] { return marks(); }, [this] { return marks().empty(); }};
  Unreturned unreturned;

  ContextHandle context();
  void resolve(const Library& library, bool alone);
  // Returns marks after all work enqueued so far on streams of this driver. It costs nothing,
  // because every stream has one.
  Marks marks();
  void arrive(const Ref<Queue>& queue);
  void depart(std::unique_ptr<Queue> queue);
  // Frees resources that are idle or only kept for the next use.
  void tidy();
  template <class F, class... A>
  void take_back(const char* call, F function, A... arguments) {
    unreturned.give_back([=] { must_take(call, function(arguments...)); });
  }

  // An active import, by address. A second registration inside it shares it.
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
  std::mutex lock_;  // guards the fields below; queues' own locks are taken under it
  // All queues, by address, because a weak reference would expire before its queue is among the
  // departed.
  std::vector<Queue*> queues_;
  // Queues whose streams are closed and whose last work may run. They are a linked list, so that a
  // destructor that adds one allocates nothing.
  std::unique_ptr<Queue> departed_;
  std::mutex memory_lock_;
  std::map<uint8_t*, Import> imports_;
};

// Returns the driver and the handle of an existing device.
std::pair<Driver*, DeviceHandle> device_at(int index);

}  // namespace hotslot::level_zero
