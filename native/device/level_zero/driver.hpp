// Level Zero's drivers, and how each says no.
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

// One of the loader's drivers with its context; lives as long as the process.
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
  // A mark behind everything that streams of this driver have been given so far. Costs nothing:
  // every stream has one.
  Marks marks();
  void arrive(const Ref<Queue>& queue);
  void depart(std::unique_ptr<Queue> queue);
  // Frees what can be freed, and what is only kept for the next use.
  void tidy();
  template <class F, class... A>
  void take_back(const char* call, F function, A... arguments) {
    unreturned.give_back([=] { must_take(call, function(arguments...)); });
  }

  // Imports in force, by address: a second registration inside one shares it.
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
  std::mutex lock_;  // guards what follows; those queues' own locks are taken under it
  // All there are, by address: a reference would be gone some time before its queue is among the
  // departed.
  std::vector<Queue*> queues_;
  // Their streams are gone, their last work is not. Each has the next: a destructor that adds one
  // asks for no memory.
  std::unique_ptr<Queue> departed_;
  std::mutex memory_lock_;
  std::map<uint8_t*, Import> imports_;
};

// Of a device that exists.
std::pair<Driver*, DeviceHandle> device_at(int index);

}  // namespace hotslot::level_zero
