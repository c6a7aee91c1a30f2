// Checks each rule of races.hpp with the fewest accesses that show it.
#pragma once
#include <functional>
#include <utility>

#include "../native/check.hpp"
#include "races.hpp"

namespace hotslot {

// Makes one access from each of two threads or blocks to the same word, and checks whether a race
// is found.
inline void check_races() {
  Races races;
  constexpr unsigned both = Races::local | Races::global;
  int32_t shared = 0, own = 0;
  const auto write = [&](int32_t& word, int32_t value) { races.write(&word, 4), word = value; };
  const auto read = [&](int32_t& word) { races.read(&word, 4); };
  using Act = std::function<void(int32_t&)>;
  const auto found = [&](int32_t& word, const Act& one, const Act& other, unsigned orders,
                         bool two_blocks = false) {
    shared = own = 0;
    races.launch({{reinterpret_cast<const char*>(&shared), 4}}, {});
    races.begin_block(0, 2);
    races.resume(0), one(word);
    if (orders) races.barrier(orders), races.resume(1), races.barrier(orders);
    if (two_blocks) races.begin_block(1, 2);
    races.resume(two_blocks ? 0 : 1), other(word);
    return !races.end().empty();
  };
  const Act writes_1 = [&](int32_t&word) { write(word, 1); },
            writes_2 = [&](int32_t&word) { write(word, 2); };
  const Act reads = [&](int32_t& word) { read(word); };
  const std::pair<Act, Act> conflicts[] = {
      {writes_1, writes_2}, {writes_1, reads}, {reads, writes_1}};
  for (const auto& [one, other] : conflicts) {
    check(found(shared, one, other, 0) && found(own, one, other, 0),
          "a conflict without a barrier is found");
    check(found(shared, one, other, Races::local),
          "a barrier of local memory does not order tensors");
    check(found(own, one, other, Races::global),
          "a barrier of tensors does not order local memory");
    check(!found(shared, one, other, both) && !found(own, one, other, both),
          "a barrier of both orders both");
    check(found(shared, one, other, both, true), "nothing orders two blocks");
    check(!found(own, one, other, 0, true), "local memory is its block's");
  }
  check(!found(shared, writes_1, writes_1, 0) && !found(shared, reads, reads, 0),
        "equal writes and reads are none");
  // The second of two readers may also be the writer.
  const Act reads_and_writes = [&](int32_t& word) { read(word), write(word, 1); };
  check(found(shared, reads, reads_and_writes, 0),
        "a write after another thread's read is found after its own");
}

}  // namespace hotslot
