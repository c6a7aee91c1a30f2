// The table of handles, which JavaScript uses instead of pointers. A handle consists of an index
// and a generation, and functions reject a stale handle. A call pins its entry while the call runs.
// An actor pins its handles once at set-up and unpins them when the actor ends.
//
// A thread closes a handle in one of two ways. remove() sleeps until the pins are released.
// retire() returns at once, and the last unpin frees the object.
//   Handles-1  A pinned object exists until it is unpinned.
//   Handles-2  A handle names one object. Every copy of the handle is stale after a thread took the
//       object.
//   Handles-3  One thread takes the object, once: a remover, a retirer, or the last unpinner of a
//       retired handle.
//   Handles-4  All pins are released in the end, and an entry becomes free only once. If remove()
//       gives up, the handle can be closed later.
//   Handles-5  A handle that is being closed grants no pin. A retired handle grants none again.
//
// test/model/handles.ts checks every interleaving.
//
// `object` need not be atomic, because changes of the atomic `word` order all accesses to `object`.
// add() stores the object before it sets `open`. A thread takes the object after it set `closing`
// and saw no pins. A thread reads the object after it changed `word`.
#pragma once
#include <algorithm>
#include <array>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "device/core/device.hpp"
#include "wait/bell.hpp"

namespace hotslot {

class HandleTable {
 public:
  static constexpr uint32_t max_entries = 1u << 20, chunk_entries = 1u << 10;

  // Adds an object and returns its handle. The handle is a JavaScript number, generation × 2^20 +
  // index, which is exact up to 2^52.
  double add(Ref<Object> object) {
    std::lock_guard lock(mutex_);
    uint32_t index;
    if (!free_.empty()) {
      index = free_.back();
      free_.pop_back();
    } else {
      if (used_ == max_entries)
        throw out_of_memory("all ", max_entries,
                            " handles are in use, which is the maximum; close handles");
      index = used_;
      if (!chunks_[index / chunk_entries])
        chunks_[index / chunk_entries].store(new Entry[chunk_entries]);
      // Reserves room for every handle in the list of free entries, so that take() allocates
      // nothing.
      if (free_.capacity() <= used_)
        free_.reserve(std::max<size_t>(chunk_entries, 2 * free_.capacity()));
      ++used_;
    }
    Entry& entry = at(index);
    entry.object = std::move(object);
    const uint64_t generation = entry.word.load() >> 32;
    // Publishes the object to every thread that receives this handle.
    entry.word.store(generation << 32 | open);
    return double(generation * max_entries + index);
  }

  // Pins an object and returns it. Returns null if the handle is stale, of another kind, or being
  // closed. The caller releases the pin by unpin().
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

  // Releases a pin. The last unpin of a retired handle frees the object in this thread. So it must
  // be possible to free the object in any thread.
  void unpin(double handle) {
    Entry* entry = find(handle);
    if (!entry) return;
    const uint64_t before = entry->word.fetch_sub(one_pin);
    if ((before & pins) != one_pin || !(before & closing)) return;
    if (before & retired)
      take(*entry, handle);
    else
      futex_wake(low_half(*entry), 1);  // wakes remove(), which sleeps on this word
  }

  // Returns whether the handle is open. A handle that a thread is closing is not open.
  bool is_open(double handle) {
    Entry* entry = find(handle);
    if (!entry) return false;
    const uint64_t word = entry->word.load();
    return word >> 32 == uint64_t(handle) / max_entries && (word & open) && !(word & closing);
  }

  // Closes a handle, and sleeps up to `ns` until its pins are released. Then returns the object,
  // and the caller may have the last reference to it. Returns null for a stale handle. If the
  // handle is still pinned after `ns`, opens it again and throws STATE_BUSY.
  Ref<Object> remove(double handle, uint64_t ns) {
    Entry* const entry = start_closing(handle, closing);
    if (!entry) return nullptr;
    const uint64_t deadline = now_ns() + ns;
    for (;;) {
      const uint64_t word = entry->word.load();
      if ((word & pins) == 0) return take(*entry, handle);
      const uint64_t now = now_ns();
      if (now >= deadline) break;
      // Every unpin changes the low half of the word. So futex_wait returns at once if the last
      // unpin came after the load.
      futex_wait(low_half(*entry), int32_t(uint32_t(word)), deadline - now);
    }
    entry->word.fetch_and(~closing);
    throw state_busy("still in use by another thread: stop what uses it, then close it again");
  }

  // Closes a handle without waiting. Returns the object if no pins are left. Returns null if pins
  // are left, and then the last unpin frees the object. Returns nullopt for a stale handle.
  std::optional<Ref<Object>> retire(double handle) {
    uint64_t before = 0;
    Entry* const entry = start_closing(handle, closing | retired, &before);
    if (!entry) return std::nullopt;
    if ((before & pins) != 0) return Ref<Object>();
    return take(*entry, handle);
  }

  struct Counts {
    uint32_t entries, pinned;
  };
  // Counts the handles of a kind that have their object, and how many of these are pinned. Both
  // counts include retired handles that are still pinned. Leak tests call it.
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
  // The fields of `word`. The high half is the generation. The low half is the number of pins × 8
  // plus the flags `retired`, `closing` and `open`.
  static constexpr uint64_t open = 1, closing = 2, retired = 4, one_pin = 8, pins = 0xfffffff8;
  struct Entry {
    std::atomic<uint64_t> word{uint64_t(1) << 32};  // generation 1, so that 0 is never a handle
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

  // Sets the flags `how` in an entry's word, after which the entry grants no pin. Stores the word
  // before this change in `before`. Returns null if the handle is stale or another thread is
  // closing it.
  Entry* start_closing(double handle, uint64_t how, uint64_t* before = nullptr) {
    Entry* const entry = find(handle);
    if (!entry) return nullptr;
    uint64_t word = entry->word.load();
    do {
      if (word >> 32 != uint64_t(handle) / max_entries || !(word & open) || (word & closing))
        return nullptr;
    } while (!entry->word.compare_exchange_weak(word, word | how));
    if (before) *before = word;
    return entry;
  }
  // Frees the entry and returns its object. Called only by the thread that found the entry closing
  // and without pins. The caller frees the object without the lock, because the object's destructor
  // may close handles.
  Ref<Object> take(Entry& entry, double handle) {
    std::lock_guard lock(mutex_);
    Ref<Object> object = std::move(entry.object);
    // The next generation makes every copy of this handle stale.
    entry.word.store(((uint64_t(handle) / max_entries + 1) & 0xffffffff) << 32);
    free_.push_back(uint32_t(uint64_t(handle) % max_entries));
    return object;
  }
  // Returns the address of the low half of an entry's word, with the pins and flags. Threads use it
  // as a futex.
  static int32_t* low_half(Entry& entry) {
    static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && sizeof entry.word == 8);
    return reinterpret_cast<int32_t*>(&entry.word);
  }

  std::mutex mutex_;
  std::array<std::atomic<Entry*>, max_entries / chunk_entries> chunks_{};
  std::vector<uint32_t> free_;
  uint32_t used_ = 0;
};

// Owns a new handle. The destructor closes the handle, unless the caller has called take(). So a
// call that throws before take() leaves no handle open.
class FreshHandle {
 public:
  FreshHandle(HandleTable& table, Ref<Object> object)
      : FreshHandle(table, table.add(std::move(object))) {}
  FreshHandle(HandleTable& table, double handle) : table_(table), handle_(handle) {}
  ~FreshHandle() {
    if (handle_ != 0) table_.retire(handle_);
  }
  FreshHandle(const FreshHandle&) = delete;
  double get() const { return handle_; }
  double take() { return std::exchange(handle_, 0); }

 private:
  HandleTable& table_;
  double handle_;
};

}  // namespace hotslot
