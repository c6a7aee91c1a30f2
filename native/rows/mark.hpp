// A word in shared memory that says how many of a sender's numbered rows were added. One native
// call adds rows and sets the word. A thread that is ended still completes its native call, so it
// does both or neither.
//   CommitMark-1  The mark is set to n after the commit of every row below n. A thread that reads n
//       may acknowledge these rows.
//   CommitMark-2  Between two native calls, the mark counts exactly the rows that were added. A
//       successor that continues from the mark adds no row twice.
#pragma once
#include <napi.h>

#include <atomic>

#include "device/addon/napi.hpp"

namespace hotslot::rows {

struct Mark {
  std::atomic<uint64_t>* word = nullptr;
  uint64_t value = 0;

  void move() const {
    // CommitMark-1: the caller has committed the rows. Pairs with the acquiring load of the thread
    // that acknowledges.
    if (word != nullptr) word->store(value, std::memory_order_release);
  }
};

// Reads a mark from the arguments from `at` on: (…, words or undefined, index, value). Returns a
// mark without a word if `words` is undefined.
inline Mark mark_of(const Napi::CallbackInfo& info, size_t at) {
  if (!info[at].IsTypedArray()) return {};
  const uint64_t index = whole(info, at + 1);
  const Bytes words = require_bytes(info, at, (index + 1) * sizeof(uint64_t));
  return {reinterpret_cast<std::atomic<uint64_t>*>(words.data) + index, whole(info, at + 2)};
}

}  // namespace hotslot::rows
