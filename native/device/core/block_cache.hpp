// Memory that was given back and waits to be asked for again, by size: taking it costs no call of
// the driver. What was in it is still there.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <new>

namespace hotslot {

// How often something was there already, how often it had to be made, and the bytes that are kept.
struct CacheCounts {
  uint64_t hits = 0, misses = 0, bytes = 0;
};

template <class Address>
class Blocks {
 public:
  // Keeps at most this much. By default enough for a learner's working set.
  explicit Blocks(size_t max_bytes = size_t(512) << 20) : max_bytes_(max_bytes) {}

  // What is asked for, rounded so that sizes that differ a little share blocks; what is never kept,
  // to whole pages alone.
  size_t room_for(size_t bytes) const {
    constexpr size_t page = 4096, large = 2 << 20;
    if (bytes > max_bytes_) return round_up(bytes, page);
    if (bytes > large) return round_up(bytes, large);
    size_t room = page;
    while (room < bytes) room *= 2;
    return room;
  }
  // Null when there is none of this room.
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
  // False: there is enough already, or no memory to remember it. Destructors ask.
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
  // All, by their room. It asks for no memory.
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
