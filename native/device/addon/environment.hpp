// The handles that belong to one thread's JavaScript environment. The environment closes its
// handles when the thread ends.
#pragma once
#include <napi.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <unordered_set>
#include <vector>

#include "device/addon/napi.hpp"
#include "device/core/core.hpp"
#include "wait/bell.hpp"

namespace hotslot {

// Host memory that this thread's JavaScript lent to a device. JavaScript may drop the typed array
// meanwhile. `view` keeps the bytes alive until no handle, queued work or graph refers to the
// memory.
struct Lent {
  Ref<Memory> memory;
  double handle;
  Napi::Reference<Napi::TypedArray> view;
};

// The handles of the objects that an environment's JavaScript created, and of the memory that it
// lent. The end of the environment closes all of these handles. An object that another thread has
// pinned stays alive until that thread unpins it.
//
// Before the environment frees lent bytes, it waits up to `last_drain_ns` for work that uses them.
// Work that has not begun by then fails and does not touch the bytes.
class EnvironmentHandles : public Environment {
 public:
  ~EnvironmentHandles() {
    Core::instance().leave(this);
    Core::instance().probe.leave(this);
    // Another thread may have pinned the object. The thread can use the object until it unpins the
    // object, and its unpin then frees the object.
    for (const double handle : made_) handles().retire(handle);
    // All lent memory shares one time limit. Otherwise the end of a thread would take longer the
    // more memory the thread has lent.
    const uint64_t deadline = now_ns() + last_drain_ns;
    const auto left = [&] {
      const uint64_t now = now_ns();
      return now < deadline ? deadline - now : 0;
    };
    for (auto& lent : lent_) {
      try {
        handles().remove(lent.handle, left());
      } catch (...) {
        // remove() throws if an actor has pinned the memory. The bytes can be freed even so,
        // because after revoke() the device does not touch them.
        handles().retire(lent.handle);
      }
      lent.memory->device.revoke(lent.memory, left());
      lent.view.SuppressDestruct();
    }
    for (const auto& [device, times] : opened_) {
      try {
        Core::instance().close(device, times);
      } catch (...) {
        // The environment ends, so no caller can receive an error.
      }
    }
  }

  void opened(double device) { opened_[device]++; }
  void closed(double device) {
    if (opened_[device] == 0) return;
    opened_[device]--;
    Core::instance().close(device);
  }

  // Lends the bytes of `view` and returns the handle. `make` registers the bytes with the device.
  //
  // All allocations before the call of `make` may fail without harm, because the bytes are not
  // registered yet. If handles().add() fails after it, the entry has no open handle. The next sweep
  // then releases the memory like memory whose handle was closed.
  template <class Make>
  double lend(Napi::TypedArray view, Make&& make) {
    // Limit for lent bytes whose handle is closed but which the device has not released. Above the
    // limit, the sweep releases them even if the driver then waits for running work. Without a
    // limit, they would accumulate on a device that is never idle.
    constexpr size_t max_closed_bytes = size_t(1) << 30;
    size_t closed = 0;
    for (auto& each : lent_) closed += each.memory.use_count() == 1 ? each.memory->bytes : 0;
    sweep(closed > max_closed_bytes);
    Napi::Reference<Napi::TypedArray> held = Napi::Persistent(view);
    if (lent_.size() == lent_.capacity()) lent_.reserve(2 * lent_.size() + 8);
    lent_.push_back({make(), 0, std::move(held)});
    try {
      return lent_.back().handle = handles().add(lent_.back().memory);
    } catch (...) {
      sweep();
      throw;
    }
  }

  double make(Ref<Object> object) {
    FreshHandle fresh(handles(), std::move(object));
    made_.insert(fresh.get());
    return fresh.take();
  }
  // Makes this environment the owner of a handle that another thread created.
  double adopt(double handle) {
    FreshHandle fresh(handles(), handle);
    made_.insert(handle);
    return fresh.take();
  }
  void forget(double handle) { made_.erase(handle); }

  // Returns whether the driver may still have registered memory in the pages of these bytes whose
  // handle was closed. Work or a graph may still refer to such memory. Only memory that this
  // environment lent counts.
  bool has_closed(const uint8_t* at, size_t bytes) const {
    const uintptr_t page = uintptr_t(sysconf(_SC_PAGESIZE));
    const auto begin = [&](const uint8_t* of) { return uintptr_t(of) / page; };
    const auto end = [&](const uint8_t* of, size_t count) {
      return (uintptr_t(of) + count + page - 1) / page;
    };
    return std::any_of(lent_.begin(), lent_.end(), [&](const Lent& lent) {
      const Memory& memory = *lent.memory;
      return !handles().is_open(lent.handle) && begin(memory.address) < end(at, bytes) &&
             begin(at) < end(memory.address, memory.bytes);
    });
  }

  // If the driver still has a registration of exactly these bytes whose handle was closed, returns
  // a new handle for it. Returns 0 otherwise.
  double lend_again(const Device& device, const uint8_t* at, size_t bytes) {
    for (auto& lent : lent_) {
      const bool same = &lent.memory->device == &device && lent.memory->address == at &&
                        lent.memory->bytes == bytes;
      if (same && !handles().is_open(lent.handle) && lent.memory->renew())
        return lent.handle = handles().add(lent.memory);
    }
    return 0;
  }

  // Releases lent memory to which only `lent_` refers, and removes released memory from `lent_`.
  // With `at_once`, releases memory even if the driver then waits for running work
  // (Memory::release).
  void sweep(bool at_once = false) {
    for (size_t i = lent_.size(); i-- > 0;) {
      if (lent_[i].memory.use_count() > 1 || !lent_[i].memory->release(at_once)) continue;
      std::swap(lent_[i], lent_.back());
      lent_.pop_back();
    }
  }

 private:
  static HandleTable& handles() { return Core::instance().handles; }

  static constexpr uint64_t last_drain_ns = 1'000'000'000;
  std::vector<Lent> lent_;
  std::unordered_set<double> made_;
  std::map<double, int> opened_;  // how often this thread has each device open
};

}  // namespace hotslot
