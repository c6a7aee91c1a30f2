// Finds races of a kernel whose threads run one at a time. The compiler's thread sanitizer (opt
// -passes=tsan) inserts a call before each access of the kernel's code, and the call ends up in
// this class.
//
// It reports a write that changes a byte which another thread has written or read, and a read of a
// byte that another thread has changed. Only a barrier between the two accesses orders threads of
// one block, if it orders this kind of memory. Threads of two blocks are never ordered within a
// launch.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <unordered_map>
#include <vector>

namespace hotslot {

class Races {
 public:
  // Kinds of memory, with the values of OpenCL's barrier() flags.
  static constexpr unsigned local = 1, global = 2;

  struct Range {
    const char* begin;
    size_t bytes;
  };

  // Begins a launch. All blocks share the memory of `buffers`. In `stacks`, each thread has its own
  // memory.
  void launch(const std::vector<Range>& buffers, const Range& stacks) {
    buffers_.clear();
    for (const Range& range : buffers)
      buffers_.push_back({range, std::vector<Cell>(range.bytes + line)});
    stacks_ = stacks;
    found_.clear();
    pending_.bytes = 0;
    looks_ = true;
  }
  // Begins a block, with its own local memory.
  void begin_block(size_t block, size_t threads) {
    settle();
    block_ = uint32_t(block);
    epochs_.assign(threads, {});
    own_.clear();
  }
  // Switches to this thread.
  void resume(size_t thread) {
    settle();
    thread_ = uint32_t(thread);
  }
  // The current thread has reached a barrier.
  void barrier(unsigned orders) {
    settle();
    for (unsigned kind : {local, global})
      if (orders & kind) epochs_[thread_][kind - 1]++;
  }
  // Ends the launch. Returns the first race, or an empty string.
  const std::string& end() {
    settle();
    looks_ = false;
    return found_;
  }

  void read(const void* at, size_t bytes) {
    if (!looks_) return;
    settle();
    const auto [cells, kind] = find(static_cast<const char*>(at));
    if (!cells) return;
    for (size_t i = 0; i < bytes; i++) {
      Cell* const cell = cells + i;
      if (cell->changed && unordered(cell->writer, kind))
        report("reads", cell->writer, "changed", static_cast<const char*>(at) + i);
      if (unordered(cell->reader, kind))
        cell->others = std::max(cell->others, cell->reader.block == block_ ? here : elsewhere);
      else if (cell->others == here && cell->reader.epoch != epoch(kind))
        cell->others = nobody;
      cell->reader = now(kind);
    }
  }

  void write(const void* at, size_t bytes) {
    if (!looks_) return;
    settle();
    pending_.at = static_cast<const char*>(at);
    pending_.bytes = bytes;
    std::memcpy(pending_.old, at, bytes);
  }

 private:
  struct Access {
    uint32_t block = 0, thread = 0, epoch = 0;
    bool known = false;
  };
  // Readers of a byte other than the latest one: none since the same barrier, a thread of the same
  // block, or a thread of another block.
  enum Others : uint8_t { nobody, here, elsewhere };
  struct Cell {
    Access writer, reader;
    Others others = nobody;
    // whether the writer changed the byte
    bool changed = false;
  };
  struct Buffer {
    Range range;
    std::vector<Cell> cells;
  };

  // Compares the bytes of the latest write with those before it. Every function calls this first,
  // so the write has happened by then.
  void settle() {
    const size_t bytes = pending_.bytes;
    pending_.bytes = 0;
    if (bytes == 0) return;
    const auto [cells, kind] = find(pending_.at);
    if (!cells) return;
    for (size_t i = 0; i < bytes; i++) {
      const char* const at = pending_.at + i;
      Cell* const cell = cells + i;
      const bool changes = *at != pending_.old[i];
      if (changes) {
        if (unordered(cell->writer, kind)) report("changes", cell->writer, "wrote", at);
        if (unordered(cell->reader, kind) || cell->others == elsewhere ||
            (cell->others == here && cell->reader.epoch == epoch(kind)))
          report("changes", cell->reader, cell->others == nobody ? "read" : "and others read", at);
      }
      // A write of equal bytes must not hide another thread's change.
      if (!changes && unordered(cell->writer, kind)) continue;
      cell->changed = changes;
      cell->writer = now(kind);
    }
  }

  uint32_t epoch(unsigned kind) const { return epochs_[thread_][kind - 1]; }
  Access now(unsigned kind) const { return {block_, thread_, epoch(kind), true}; }
  bool unordered(const Access& other, unsigned kind) const {
    if (!other.known) return false;
    if (other.block != block_) return true;
    return other.thread != thread_ && other.epoch == epoch(kind);
  }

  // Returns the cells from this byte on, and the kind of memory. An access stays within the cells,
  // because it is aligned to its size.
  std::pair<Cell*, unsigned> find(const char* at) {
    for (Buffer& buffer : buffers_)
      if (at >= buffer.range.begin && at < buffer.range.begin + buffer.range.bytes)
        return {&buffer.cells[size_t(at - buffer.range.begin)], global};
    if (at >= stacks_.begin && at < stacks_.begin + stacks_.bytes) return {nullptr, 0};
    const auto address = reinterpret_cast<uintptr_t>(at);
    return {&own_[address / line][address % line], local};
  }

  void report(const char* does, const Access& other, const char* did, const char* at) {
    if (!found_.empty()) return;
    std::string where = "memory of its block";
    for (size_t i = 0; i < buffers_.size(); i++) {
      const Range& range = buffers_[i].range;
      if (at >= range.begin && at < range.begin + range.bytes)
        where = "byte " + std::to_string(at - range.begin) + " of buffer " + std::to_string(i);
    }
    found_ = "thread " + std::to_string(thread_) + " of block " + std::to_string(block_) + " " +
             does + " " + where + ", which thread " + std::to_string(other.thread) + " of block " +
             std::to_string(other.block) + " " + did;
  }

  std::vector<Buffer> buffers_;
  Range stacks_{};
  // Cells of the block's own memory, in lines of the longest access.
  static constexpr size_t line = 16;
  std::unordered_map<uintptr_t, std::array<Cell, line>> own_;
  std::vector<std::array<uint32_t, 2>> epochs_;
  uint32_t block_ = 0, thread_ = 0;
  struct {
    const char* at;
    size_t bytes = 0;
    char old[16];
  } pending_;
  std::string found_;
  bool looks_ = false;
};

}  // namespace hotslot
