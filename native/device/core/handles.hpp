// The handle table: what JavaScript holds instead of pointers. A handle is index + generation; a stale one is refused.
// A call pins its entry, closing waits for the pins; actors pin once at set-up and drop the pin when they leave.
//   T1  What is pinned is there until it is unpinned.
//   T2  A handle names one object, for ever: copies of it are stale once it is closed.
//   T3  Of all that close a handle one gets the object, once.
//   T4  No pin stays, an entry is given back once, and one that could not be closed can be closed later.
// test/model/handles.ts steps every order. The object is no atomic: it is put there before the word says open, taken
// when the word says closing and has no pins, and who reads it has changed the word in between.
#pragma once
#include <sched.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <utility>
#include <vector>

#include "device/core/device.hpp"
#include "wait/bell.hpp"

namespace hotslot {

class HandleTable {
 public:
  static constexpr uint32_t max_entries = 1u << 20, chunk_entries = 1u << 10;

  // A JavaScript number: generation × 2^20 + index, exact up to 2^52.
  double add(Ref<Object> object) {
    std::lock_guard lock(mutex_);
    uint32_t index;
    if (!free_.empty()) {
      index = free_.back();
      free_.pop_back();
    } else {
      if (used_ == max_entries)
        throw out_of_memory("all ", max_entries, " handles are in use: close what is no longer needed");
      index = used_;
      if (!chunks_[index / chunk_entries]) chunks_[index / chunk_entries].store(new Entry[chunk_entries]);
      // Room for every handle there is: giving one back asks for no memory.
      if (free_.capacity() <= used_) free_.reserve(std::max<size_t>(chunk_entries, 2 * free_.capacity()));
      ++used_;
    }
    Entry& entry = at(index);
    entry.object = std::move(object);
    const uint64_t generation = entry.word.load() >> 32;
    // Publishes the object to every thread that gets hold of this handle.
    entry.word.store(generation << 32 | open);
    return double(generation * max_entries + index);
  }

  // Null when the handle is stale, of another kind, or being closed. Pair with unpin.
  Object* pin(double handle, Kind kind) {
    Entry* entry = find(handle);
    if (!entry) return nullptr;
    const uint64_t generation = uint64_t(handle) / max_entries;
    uint64_t word = entry->word.load();
    do {
      if (word >> 32 != generation || !(word & open) || (word & closing)) return nullptr;
    } while (!entry->word.compare_exchange_weak(word, word + one_pin));
    if (entry->object->kind == kind) return entry->object.get();
    unpin(handle);
    return nullptr;
  }

  void unpin(double handle) {
    if (Entry* entry = find(handle)) entry->word.fetch_sub(one_pin);
  }

  // False also while somebody closes it.
  bool is_open(double handle) {
    Entry* entry = find(handle);
    if (!entry) return false;
    const uint64_t word = entry->word.load();
    return word >> 32 == uint64_t(handle) / max_entries && (word & open) && !(word & closing);
  }

  // Waits up to `ns` for pins to go; returns the object, whose last reference may be the caller's. Null when stale.
  Ref<Object> remove(double handle, uint64_t ns) {
    Entry* entry = find(handle);
    if (!entry) return nullptr;
    const uint64_t generation = uint64_t(handle) / max_entries;
    uint64_t word = entry->word.load();
    do {
      if (word >> 32 != generation || !(word & open) || (word & closing)) return nullptr;
    } while (!entry->word.compare_exchange_weak(word, word | closing));
    const uint64_t deadline = now_ns() + ns;
    while ((entry->word.load() & pins) != 0) {
      if (now_ns() > deadline) {
        entry->word.fetch_and(~closing);
        throw state_busy("still in use by another thread: stop what uses it, then close it again");
      }
      sched_yield();
    }
    std::lock_guard lock(mutex_);
    Ref<Object> object = std::move(entry->object);
    // The next generation: every copy of this handle is stale from here on.
    entry->word.store(((generation + 1) & 0xffffffff) << 32);
    free_.push_back(uint32_t(uint64_t(handle) % max_entries));
    return object;
  }

  struct Counts {
    uint32_t entries, pinned;
  };
  // How many handles are open and how many of them pinned: leak tests read this.
  Counts count(Kind kind) {
    std::lock_guard lock(mutex_);
    Counts counts{0, 0};
    for (uint32_t i = 0; i < used_; ++i) {
      Entry& entry = at(i);
      const uint64_t word = entry.word.load();
      if (!(word & open) || entry.kind() != kind) continue;
      counts.entries++;
      if (word & pins) counts.pinned++;
    }
    return counts;
  }

 private:
  // word: generation in the high half; below it pins × 4, closing, open.
  static constexpr uint64_t open = 1, closing = 2, one_pin = 4, pins = 0xfffffffc;
  struct Entry {
    std::atomic<uint64_t> word{uint64_t(1) << 32};  // generation 1: the number 0 is never a handle
    Ref<Object> object;
    Kind kind() const { return object ? object->kind : Kind{}; }
  };
  Entry& at(uint32_t index) { return chunks_[index / chunk_entries].load()[index % chunk_entries]; }
  Entry* find(double handle) {
    if (!(handle >= 0) || handle >= 4503599627370496.0) return nullptr;
    const uint32_t index = uint32_t(uint64_t(handle) % max_entries);
    Entry* chunk = chunks_[index / chunk_entries].load();
    return chunk ? &chunk[index % chunk_entries] : nullptr;
  }

  std::mutex mutex_;
  std::array<std::atomic<Entry*>, max_entries / chunk_entries> chunks_{};
  std::vector<uint32_t> free_;
  uint32_t used_ = 0;
};

// A handle that goes again unless somebody takes it: what comes between may throw.
class FreshHandle {
 public:
  FreshHandle(HandleTable& table, Ref<Object> object) : FreshHandle(table, table.add(std::move(object))) {}
  FreshHandle(HandleTable& table, double handle) : table_(table), handle_(handle) {}
  ~FreshHandle() {
    try {
      if (handle_ != 0) table_.remove(handle_, 0);
    } catch (...) {
      // Another thread has pinned it: it goes on with it.
    }
  }
  FreshHandle(const FreshHandle&) = delete;
  double get() const { return handle_; }
  double take() { return std::exchange(handle_, 0); }

 private:
  HandleTable& table_;
  double handle_;
};

}  // namespace hotslot
