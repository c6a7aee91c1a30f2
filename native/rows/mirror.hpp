// Pack's record of the places that a device keeps: the step that each of them holds once the ticks
// packed so far have arrived. A step that a batch needs and the device does not hold travels with
// that batch, and is held from then on. The record is in shared memory, so that a successor of
// pack's thread continues with it. Only pack's thread uses it, except for `brought`, which the
// client reads.
//
//   Mirror-1  The bytes that travel are trusted as a row's are: by Lanes-4, after the copy.
//   Mirror-2  A row's places are looked up only when its notes were found whole (Lanes-4 too). A
//       torn note may name a future step, which would then count as held once it exists.
//   Mirror-3  A step that a batch brought is held only if the batch was handed on. A batch that was
//       begun and not handed on (its thread died, or no step could be drawn any more) is begun
//       again under the same sequence. All is forgotten then, and travels once more.
//   Mirror-4  Ticks come to the device in the order of their sequences. Each gathers from the steps
//       that earlier ticks left there and from those that it brought. Only then does it put its own
//       steps into the places, because it may bring a step of the next lap for a place whose older
//       step it uses.
#pragma once
#include <cstdint>
#include <vector>

#include "rows/lanes.hpp"

namespace hotslot::rows {

struct alignas(64) MirrorHeader {
  // Sequence + 1 of the batch that was begun last.
  uint64_t begun;
  // Number of places that ever traveled.
  uint64_t brought;
  uint64_t none[6];
};

class Mirror {
 public:
  // Values instead of an index: no place (padding), and the row's own goal.
  static constexpr uint32_t nowhere = 0xffffffffu, own = 0xfffffffeu;

  // Takes zeroed memory of bytes(), or a predecessor's. A batch has room for `most` places.
  Mirror(void* memory, const Lanes& lanes, uint64_t most);
  static uint64_t bytes_of(uint64_t places) {
    return sizeof(MirrorHeader) + places * sizeof(uint64_t);
  }
  static uint64_t bytes(const Lanes& lanes) { return bytes_of(lanes.lanes * lanes.per_lane); }
  // Bytes of the places that a batch brings, with their numbers.
  static uint64_t batch_bytes(const Lanes& lanes, uint64_t most) {
    return most * (lanes.stride + 4);
  }

  // Begins the batch of this sequence. The places that it brings are written to `out`.
  void begin(uint64_t sequence, uint8_t* out);
  // Returns where the device finds the step at `index` of the lanes' places, which is number
  // `place` of its lane. That is `index` itself, or an index after all places, among those that the
  // batch brings.
  uint32_t find(uint32_t index, uint64_t place);
  // True if the batch had to bring more than there is room for, because writers overtook rows
  // repeatedly. The batch must be begun again.
  bool full() const { return full_; }
  // Writes the numbers of the places after them, and returns how many places the batch brings.
  uint64_t end();

 private:
  MirrorHeader* header_;
  // For each place, the number in its lane of the step that it holds, + 1, or 0 if it holds none.
  uint64_t* held_;
  Lanes lanes_;
  uint64_t places_, most_;
  uint8_t* out_ = nullptr;
  bool full_ = false;
  // The steps that the batch brings: the place of each and, for each place, which of them is for
  // it. A number that an earlier batch left is out of range, or names a step of another place.
  std::vector<uint32_t> to_, which_;
};

}  // namespace hotslot::rows
