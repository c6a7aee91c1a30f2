// Device memory that was given back and waits to be asked for again, by size: taking it costs no call of the driver. What was
// in it is still there.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

namespace hotslot {

// How often something was there already, how often it had to be made, and the bytes that are kept.
struct CacheCounts {
  uint64_t hits = 0, misses = 0, bytes = 0;
};

template <class Address>
class Blocks {
 public:
  // Enough for a learner's working set; what is more goes back to the driver.
  static constexpr size_t most_bytes = size_t(512) << 20;

  // What is asked for, rounded so that sizes that differ a little share blocks.
  static size_t room_for(size_t bytes) {
    constexpr size_t page = 4096, large = 2 << 20;
    if (bytes > large) return (bytes + large - 1) / large * large;
    size_t room = page;
    while (room < bytes) room *= 2;
    return room;
  }
  // Null when there is none of this room.
  Address take(size_t room) {
    std::lock_guard guard(lock_);
    const auto found = kept_.find(room);
    if (found == kept_.end()) return counts_.misses++, Address{};
    counts_.hits++;
    const Address at = found->second;
    kept_.erase(found);
    counts_.bytes -= room;
    return at;
  }
  // False: there is enough already.
  bool keep(Address at, size_t room) {
    std::lock_guard guard(lock_);
    if (counts_.bytes + room > most_bytes) return false;
    kept_.emplace(room, at);
    counts_.bytes += room;
    return true;
  }
  std::vector<std::pair<Address, size_t>> take_all() {
    std::lock_guard guard(lock_);
    std::vector<std::pair<Address, size_t>> all;
    for (auto& [room, at] : kept_) all.emplace_back(at, room);
    kept_.clear();
    counts_.bytes = 0;
    return all;
  }
  CacheCounts counts() {
    std::lock_guard lock(lock_);
    return counts_;
  }

 private:
  std::mutex lock_;
  std::multimap<size_t, Address> kept_;
  CacheCounts counts_;
};

}  // namespace hotslot
