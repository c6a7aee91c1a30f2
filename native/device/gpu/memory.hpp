// The handling of memory that all GPU families share: staging memory, host memory that a caller
// lent, and the retries after memory has run out. The functions of each family call its driver.
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <functional>
#include <mutex>
#include <utility>

#include "device/core/block_cache.hpp"
#include "device/gpu/retired.hpp"

namespace hotslot {

// Calls `allocate`, which returns false if memory has run out, and retries up to twice. Returns
// false if every attempt failed.
//
// Before the first retry, frees the cache. Before the second, waits up to two seconds for the work
// that touches retired memory, then frees that memory. The driver may block the thread until
// running work is done. A thread that may not sweep skips the second retry.
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

// A cache of pinned host memory of the driver. Reads and writes of pageable arrays use this memory.
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
  // Returns memory to the cache after all work that is enqueued now, because this work may touch
  // the memory.
  void give(Retired::Reservation place, uint8_t* at, size_t room) {
    retired_.add(std::move(place),
                 [this, at, room](Retired::Reservation next) { put(std::move(next), at, room); });
  }
  // Returns memory to the cache at once. No work may touch the memory.
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

// Staging memory that a read or write has taken from the cache. `Base` is the family's memory
// class. `room` is the size of the cached block. See lend().
template <class Base>
class StagingMemory final : public Base {
 public:
  template <class... Arguments>
  StagingMemory(Staging& staging, size_t room, Arguments&&... base)
      : Base(std::forward<Arguments>(base)...), staging_(staging), room_(room) {}
  ~StagingMemory() override { staging_.give(std::move(place_), this->address, room_); }

  // Takes at least `bytes` bytes of staging memory and returns `make(room, at)`.
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

// Excludes the whole pages of registered memory from child processes, or includes them again. If a
// child shared a page, this process's next write would copy the page (gVisor, Linux before 5.9).
// This process would then use the copy, and the device would still use the old page.
inline void keep_from_children(void* address, size_t bytes, bool keep) {
  const uintptr_t page = uintptr_t(sysconf(_SC_PAGESIZE)),
                  begin = (uintptr_t(address) + page - 1) / page * page,
                  end = (uintptr_t(address) + bytes) / page * page;
  // madvise() may fail for other kinds of memory, for example a mapped file. The pages are then
  // shared with children.
  if (begin < end)
    madvise(reinterpret_cast<void*>(begin), end - begin, keep ? MADV_DONTFORK : MADV_DOFORK);
}

// Host memory that a caller lent, pinned or not. Its pages stay pinned until release() returns
// true, because running work may need them.
//
// release() returns false until the work that was enqueued before its first call has ended. For
// pinned pages it also returns false while any work runs, because a driver that unpins waits for
// running work. With `at_once`, release() unpins the pages even then, and may block.
template <class Base>
class LentMemory final : public Base {
 public:
  // `let_go` unpins the pages. It is empty if the pages are not pinned.
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
