// A cache of freed memory blocks, by size. Allocating a block from the cache needs no call of the
// driver. The block still has its old contents.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <new>

namespace hotslot {

// The number of requests that the cache served, the number that it could not serve, and the bytes
// of all blocks in the cache.
struct CacheCounts {
  uint64_t hits = 0, misses = 0, bytes = 0;
};

template <class Address>
class Blocks {
 public:
  // Caches at most `max_bytes`. The default is enough for a learner's working set.
  explicit Blocks(size_t max_bytes = size_t(512) << 20) : max_bytes_(max_bytes) {}

  // Returns the size of the block for a request of `bytes`. Rounds up, so that requests of similar
  // sizes can use the same block. A request above `max_bytes` is only rounded to whole pages,
  // because the cache never stores its block.
  size_t room_for(size_t bytes) const {
    constexpr size_t page = 4096, large = 2 << 20;
    if (bytes > max_bytes_) return round_up(bytes, page);
    if (bytes > large) return round_up(bytes, large);
    size_t room = page;
    while (room < bytes) room *= 2;
    return room;
  }
  // Removes a block of this size from the cache and returns it. Returns null if the cache has none.
  Address take(size_t room) {
    std::lock_guard guard(lock_);
    const auto found = kept_.find(room);
    if (found == kept_.end()) {
      counts_.misses++;
      return Address{};
    }
    counts_.hits++;
    const Address at = found->second;
    kept_.erase(found);
    counts_.bytes -= room;
    return at;
  }
  // Adds a block to the cache. Returns false if the cache would exceed `max_bytes`, or if memory
  // for the entry runs out. It does not throw, because destructors call it.
  bool keep(Address at, size_t room) {
    std::lock_guard guard(lock_);
    if (counts_.bytes + room > max_bytes_) return false;
    try {
      kept_.emplace(room, at);
    } catch (const std::bad_alloc&) {
      return false;
    }
    counts_.bytes += room;
    return true;
  }
  // Removes all blocks from the cache and returns them by size. It allocates nothing.
  std::multimap<size_t, Address> take_all() {
    std::lock_guard guard(lock_);
    std::multimap<size_t, Address> all;
    all.swap(kept_);
    counts_.bytes = 0;
    return all;
  }
  CacheCounts counts() {
    std::lock_guard lock(lock_);
    return counts_;
  }

 private:
  static size_t round_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }
  const size_t max_bytes_;
  std::mutex lock_;
  std::multimap<size_t, Address> kept_;
  CacheCounts counts_;
};

}  // namespace hotslot
