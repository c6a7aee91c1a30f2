// The memory handling that all GPU families share: host memory for staging, host memory that a
// caller lent, and device memory that has run out. The family makes the driver's calls.
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <functional>
#include <mutex>
#include <utility>

#include "device/core/block_cache.hpp"
#include "device/gpu/retired.hpp"

namespace hotslot {

// Retries an allocation that found no memory: first after freeing the cache, then after waiting for
// retired memory and freeing memory for which the driver may wait. `allocate` returns false if it
// found no memory.
template <class Allocate, class Trim>
bool reclaim(Retired& retired, Allocate&& allocate, Trim&& trim) {
  constexpr uint64_t reclaim_ns = 2'000'000'000;
  if (allocate()) return true;
  trim();
  if (allocate()) return true;
  if (!Retired::may_sweep()) return false;
  retired.drain(reclaim_ns);
  trim();
  retired.force();
  return allocate();
}

// A cache of the driver's pinned host memory, for reads and writes of pageable arrays.
class Staging {
 public:
  // `allocate` throws if the driver has no pinned memory left.
  Staging(Retired& retired, std::function<uint8_t*(size_t)> allocate,
          std::function<void(uint8_t*)> free)
      : retired_(retired), allocate_(std::move(allocate)), free_(std::move(free)) {}
  size_t room_for(size_t bytes) const { return blocks_.room_for(bytes); }
  uint8_t* take(size_t room) {
    uint8_t* const kept = blocks_.take(room);
    return kept ? kept : allocate_(room);
  }
  // Returns memory to the cache once no work enqueued so far touches it.
  void give(Retired::Reservation place, uint8_t* at, size_t room) {
    retired_.add(std::move(place),
                 [this, at, room](Retired::Reservation next) { put(std::move(next), at, room); });
  }
  // Returns memory that no work touches.
  void put(Retired::Reservation place, uint8_t* at, size_t room) {
    if (!blocks_.keep(at, room)) let_go(std::move(place), at, room);
  }
  void trim() {
    for (auto& [room, at] : blocks_.take_all()) let_go(Retired::Reservation::if_any(), at, room);
    retired_.sweep();
  }

 private:
  void let_go(Retired::Reservation place, uint8_t* at, size_t room) {
    retired_.when_idle(std::move(place), room, [this, at] { free_(at); });
  }
  static constexpr size_t max_staging_bytes = size_t(256) << 20;
  Retired& retired_;
  const std::function<uint8_t*(size_t)> allocate_;
  const std::function<void(uint8_t*)> free_;
  Blocks<uint8_t*> blocks_{max_staging_bytes};
};

// Staging memory that a read or write uses. `Base` is the family's memory, and `room` is the size
// taken. See lend().
template <class Base>
class StagingMemory final : public Base {
 public:
  template <class... Arguments>
  StagingMemory(Staging& staging, size_t room, Arguments&&... base)
      : Base(std::forward<Arguments>(base)...), staging_(staging), room_(room) {}
  ~StagingMemory() override { staging_.give(std::move(place_), this->address, room_); }

  // Returns `make(room, at)` for at least `bytes` bytes of staging.
  template <class Make>
  static Ref<Memory> lend(Staging& staging, size_t bytes, Make&& make) {
    const size_t room = staging.room_for(bytes);
    uint8_t* const at = staging.take(room);
    try {
      return make(room, at);
    } catch (...) {
      staging.put(Retired::Reservation::if_any(), at, room);
      throw;
    }
  }

 private:
  Staging& staging_;
  const size_t room_;
  Retired::Reservation place_;
};

// Keeps the whole pages of registered memory from child processes. If they were shared (gVisor,
// Linux before 5.9), this process's next write would copy a page, and the device would continue
// with the old one.
inline void keep_from_children(void* address, size_t bytes, bool keep) {
  const uintptr_t page = uintptr_t(sysconf(_SC_PAGESIZE)),
                  begin = (uintptr_t(address) + page - 1) / page * page,
                  end = (uintptr_t(address) + bytes) / page * page;
  // The call may fail for other kinds of memory (a mapped file), which then stays as it was.
  if (begin < end)
    madvise(reinterpret_cast<void*>(begin), end - begin, keep ? MADV_DONTFORK : MADV_DOFORK);
}

// Host memory that a caller lent, pinned or not. It is returned to the caller after the work that
// was enqueued before the first release() has ended and nothing runs, because a driver that unpins
// waits for that. Without release() the pages stay pinned, because running work may need them.
template <class Base>
class LentMemory final : public Base {
 public:
  // `let_go` unpins the pages. It is empty if they are not pinned.
  template <class... Arguments>
  LentMemory(Retired& retired, std::function<void()> let_go, Arguments&&... base)
      : Base(std::forward<Arguments>(base)...), retired_(retired), let_go_(std::move(let_go)) {}

  bool release(bool at_once) override {
    std::lock_guard guard(lock_);
    if (released_) return true;
    if (!Retired::may_sweep()) return false;
    if (!marked_ && !retired_.mark(marks_)) return false;
    marked_ = true;
    if (!passed(marks_)) return false;
    if (let_go_ && !at_once && !retired_.idle()) return false;
    released_ = true;
    if (let_go_) let_go_();
    return true;
  }
  bool renew() override {
    std::lock_guard guard(lock_);
    if (released_) return false;
    marked_ = false;
    marks_.clear();
    return true;
  }

 private:
  Retired& retired_;
  const std::function<void()> let_go_;
  std::mutex lock_;
  bool marked_ = false, released_ = false;
  Marks marks_;
};

}  // namespace hotslot
