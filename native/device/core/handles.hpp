// The table of handles, which JavaScript holds instead of pointers. A handle is index + generation,
// and a stale one is rejected. A call pins its entry while it runs. Actors pin once at set-up and
// unpin when they end. A thread closes a handle in one of two ways: remove() sleeps until the pins
// are released, and retire() returns at once and leaves the object to the last unpin. The main
// thread retires.
//   Handles-1  A pinned object exists until it is unpinned.
//   Handles-2  A handle names one object: every copy of the handle is stale once the object is
//       taken.
//   Handles-3  One thread takes the object, once: a remover, a retirer or the last unpinner of a
//       retired handle.
//   Handles-4  No pin stays, an entry is given back once, and a handle whose remover gave up can be
//       closed later.
//   Handles-5  A handle that is being closed grants no pin. A retired handle stays so.
// test/model/handles.ts checks every interleaving. `object` need not be atomic. Each access follows
// a change of the word: add() stores it before `open`, a thread takes it under `closing` without
// pins, and each reader has changed the word in between.
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

  // A JavaScript number: generation × 2^20 + index, exact up to 2^52.
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
      // Room for every handle, so that take() allocates nothing.
      if (free_.capacity() <= used_)
        free_.reserve(std::max<size_t>(chunk_entries, 2 * free_.capacity()));
      ++used_;
    }
    Entry& entry = at(index);
    entry.object = std::move(object);
    const uint64_t generation = entry.word.load() >> 32;
    // Publishes the object to every thread that gets this handle.
    entry.word.store(generation << 32 | open);
    return double(generation * max_entries + index);
  }

  // Pins an object. Returns null if the handle is stale, of another kind, or being closed. Pair it
  // with unpin().
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

  // Releases a pin. The last unpin of a retired handle frees the object in this thread, so the
  // object must not belong to a JavaScript environment.
  void unpin(double handle) {
    Entry* entry = find(handle);
    if (!entry) return;
    const uint64_t before = entry->word.fetch_sub(one_pin);
    if ((before & pins) != one_pin || !(before & closing)) return;
    if (before & retired)
      take(*entry, handle);
    else
      futex_wake(low_half(*entry), 1);  // remove() sleeps on it
  }

  // Returns false also while a thread closes the handle.
  bool is_open(double handle) {
    Entry* entry = find(handle);
    if (!entry) return false;
    const uint64_t word = entry->word.load();
    return word >> 32 == uint64_t(handle) / max_entries && (word & open) && !(word & closing);
  }

  // Sleeps up to `ns` until the pins are gone. Returns the object, whose last reference may be the
  // caller's, or null for a stale handle. Throws STATE_BUSY if pins are left, and then the handle
  // is open again.
  Ref<Object> remove(double handle, uint64_t ns) {
    Entry* const entry = start_closing(handle, closing);
    if (!entry) return nullptr;
    const uint64_t deadline = now_ns() + ns;
    for (;;) {
      const uint64_t word = entry->word.load();
      if ((word & pins) == 0) return take(*entry, handle);
      const uint64_t now = now_ns();
      if (now >= deadline) break;
      // Every unpin changes the low half, so the last one cannot be missed between the load and the
      // sleep.
      futex_wait(low_half(*entry), int32_t(uint32_t(word)), deadline - now);
    }
    entry->word.fetch_and(~closing);
    throw state_busy("still in use by another thread: stop what uses it, then close it again");
  }

  // Closes a handle without waiting. Returns nullopt for a stale handle, else the object, or null
  // if pins are left and the last unpin will free it.
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
  // Returns how many handles have their object and how many of those are pinned, including retired
  // ones. Leak tests read this.
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
  // word: generation in the high half; below it pins × 8, retired, closing, open.
  static constexpr uint64_t open = 1, closing = 2, retired = 4, one_pin = 8, pins = 0xfffffff8;
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

  // Marks an entry as closing, after which it grants no pin. Returns null for a stale handle and
  // for one that is being closed.
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
  // Called by the one thread that found a closing entry without pins. The caller drops the object
  // without the lock, because its destructor may close handles.
  Ref<Object> take(Entry& entry, double handle) {
    std::lock_guard lock(mutex_);
    Ref<Object> object = std::move(entry.object);
    // The next generation makes every copy of this handle stale.
    entry.word.store(((uint64_t(handle) / max_entries + 1) & 0xffffffff) << 32);
    free_.push_back(uint32_t(uint64_t(handle) % max_entries));
    return object;
  }
  // Returns the futex of an entry: its pins and flags.
  static int32_t* low_half(Entry& entry) {
    static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && sizeof entry.word == 8);
    return reinterpret_cast<int32_t*>(&entry.word);
  }

  std::mutex mutex_;
  std::array<std::atomic<Entry*>, max_entries / chunk_entries> chunks_{};
  std::vector<uint32_t> free_;
  uint32_t used_ = 0;
};

// Closes a new handle again unless the caller takes it, because calls in between may throw.
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
