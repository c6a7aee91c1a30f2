// The progress of a sender's numbered rows: a word in shared memory that moves in the same native
// call as the rows do. A thread that is ended still completes its native call, so it leaves both or
// neither.
//   CommitMark-1  mark = n is stored after the commit of every row below n: a thread that reads it
//       may acknowledge them.
//   CommitMark-2  Between two native calls, mark gives exactly the rows that were taken. A
//       successor that continues from it takes no row twice.
#pragma once
#include <napi.h>

#include <atomic>

#include "device/addon/napi.hpp"

namespace hotslot::rows {

struct Mark {
  std::atomic<uint64_t>* word = nullptr;
  uint64_t value = 0;

  void move() const {
    // CommitMark-1: after the commit. Pairs with the acquire of the thread that acknowledges.
    if (word != nullptr) word->store(value, std::memory_order_release);
  }
};

// (…, words or undefined, index, value) from `at` on
inline Mark mark_of(const Napi::CallbackInfo& info, size_t at) {
  if (!info[at].IsTypedArray()) return {};
  const uint64_t index = whole(info, at + 1);
  const Bytes words = require_bytes(info, at, (index + 1) * sizeof(uint64_t));
  return {reinterpret_cast<std::atomic<uint64_t>*>(words.data) + index, whole(info, at + 2)};
}

}  // namespace hotslot::rows
