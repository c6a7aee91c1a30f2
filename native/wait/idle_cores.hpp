// Shares large jobs of the calling thread with the process's one thread pool. The jobs are matrix
// products, halos and batches. The pool (wait/core_pool.hpp) belongs to system.node. system.node
// lends it to every other addon when that addon is loaded.
#pragma once
#include <atomic>
#include <cstdint>
#include <type_traits>

namespace hotslot {

constexpr uint32_t cores_version = 1;

// The table of functions that system.node lends. It has only C types, because addons exchange it.
struct CoresTable {
  uint32_t version, bytes;
  // Returns the number of cores that the process may use.
  int (*cores)();
  // Returns how many of the pool's threads may help the caller with a job that reads or writes
  // `bytes` bytes.
  int (*helpers)(uint64_t bytes);
  // Calls piece(data, 0) to piece(data, pieces - 1), each once and in any order. The caller's
  // thread and at most `helpers` other threads make the calls. Returns when all calls have
  // returned. A piece must not throw.
  void (*run)(int pieces, int helpers, void* data, void (*piece)(void*, int));
  // Counts a thread that the library runs: 1 when it begins, -1 when it ends.
  void (*count_thread)(int by);
};

class IdleCores {
 public:
  // Sets the table. Any thread calls it after its addon was loaded, and all threads pass the same
  // table.
  static void use(const CoresTable* table) { lent().store(table, std::memory_order_release); }

  static int cores() {
    return with([](auto& table) { return table.cores(); }, 1);
  }
  static int helpers(uint64_t bytes) {
    return with([bytes](auto& table) { return table.helpers(bytes); }, 0);
  }

  template <class F>
  static void run(int pieces, int helpers, F&& do_piece) {
    const CoresTable* const table =
        helpers > 0 && pieces > 1 ? lent().load(std::memory_order_acquire) : nullptr;
    if (table == nullptr) {
      for (int piece = 0; piece < pieces; ++piece) do_piece(piece);
      return;
    }
    table->run(pieces, helpers, &do_piece, [](void* data, int piece) {
      (*static_cast<std::remove_reference_t<F>*>(data))(piece);
    });
  }

  // Counts a native thread of the library while this object exists.
  class Thread {
   public:
    Thread() : table_(lent().load(std::memory_order_acquire)) { count(1); }
    ~Thread() { count(-1); }
    Thread(const Thread&) = delete;

   private:
    void count(int by) const {
      if (table_ != nullptr) table_->count_thread(by);
    }
    const CoresTable* const table_;
  };

 private:
  static std::atomic<const CoresTable*>& lent() {
    static std::atomic<const CoresTable*> table{nullptr};
    return table;
  }
  template <class F>
  static int with(F&& ask, int otherwise) {
    const CoresTable* const table = lent().load(std::memory_order_acquire);
    return table == nullptr ? otherwise : ask(*table);
  }
};

}  // namespace hotslot
