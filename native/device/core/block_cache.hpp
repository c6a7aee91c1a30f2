// A cache of freed memory by size, so that allocating it again needs no call of the driver. It
// keeps its old contents.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <new>

namespace hotslot {

// The number of requests served by the cache, the number that it could not serve, and the bytes
// kept.
struct CacheCounts {
  uint64_t hits = 0, misses = 0, bytes = 0;
};

template <class Address>
class Blocks {
 public:
  // Keeps at most `max_bytes`. The default is enough for a learner's working set.
  explicit Blocks(size_t max_bytes = size_t(512) << 20) : max_bytes_(max_bytes) {}

  // Returns a requested size rounded up, so that similar sizes share blocks. Sizes above
  // `max_bytes`, which are never kept, are rounded to whole pages only.
  size_t room_for(size_t bytes) const {
    constexpr size_t page = 4096, large = 2 << 20;
    if (bytes > max_bytes_) return round_up(bytes, page);
    if (bytes > large) return round_up(bytes, large);
    size_t room = page;
    while (room < bytes) room *= 2;
    return room;
  }
  // Returns null if no block of this size is kept.
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
  // Returns false if `max_bytes` would be exceeded, or if memory for the entry is missing.
  // Destructors call it.
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
  // Takes all blocks, by size. It allocates nothing.
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
