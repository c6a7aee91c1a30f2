// What pack knows of the places that a device keeps: which step each of them holds, once the ticks
// that were packed so far have come there. What a batch needs and the device does not hold travels
// with that batch, and is held from then on. In shared memory, so that a successor of pack's thread
// goes on with it; pack's thread alone touches it, but for `brought`, which the client reads.
//
//   Mirror-1  The bytes that travel are believed as a row's are: by Lanes-4, behind the copy.
//   Mirror-2  A row's places are looked up only when its notes were found whole (Lanes-4 too): what
//       a torn note says may be a step that is still to come, and would count as held when it has.
//   Mirror-3  What a batch brought is held only if the batch was handed on. One that was begun and
//       was not - its thread died, or nothing could be drawn any more - is begun again under the
//       same sequence: all is forgotten then, and travels once more.
//   Mirror-4  Ticks come to the device in the order of their sequences. Each gathers from what
//       those before it left there and from what it brought itself, and only then puts what it
//       brought into the places: it may bring a step of the next lap for a place whose older step
//       it was drawn with.
#pragma once
#include <cstdint>
#include <vector>

#include "rows/lanes.hpp"

namespace hotslot::rows {

struct alignas(64) MirrorHeader {
  // Sequence + 1 of the batch that was begun last.
  uint64_t begun;
  // Places that ever travelled.
  uint64_t brought;
  uint64_t none[6];
};

class Mirror {
 public:
  // In place of where something lies: nowhere, and the row's own.
  static constexpr uint32_t nowhere = 0xffffffffu, own = 0xfffffffeu;

  // Over zeroed memory of bytes(), or what a predecessor left there. A batch has room for `most`
  // places.
  Mirror(void* memory, const Lanes& lanes, uint64_t most);
  static uint64_t bytes_of(uint64_t places) {
    return sizeof(MirrorHeader) + places * sizeof(uint64_t);
  }
  static uint64_t bytes(const Lanes& lanes) { return bytes_of(lanes.lanes * lanes.per_lane); }
  // Of what a batch brings: places and their numbers.
  static uint64_t batch_bytes(const Lanes& lanes, uint64_t most) {
    return most * (lanes.stride + 4);
  }

  // What the batch of this sequence brings goes to `out`.
  void begin(uint64_t sequence, uint8_t* out);
  // Where the device finds what lies at `index` of the lanes' places, which is number `place` of
  // its lane: there, or behind all places among what the batch brings.
  uint32_t find(uint32_t index, uint64_t place);
  // More had to be brought than there is room for: writers overtook rows again and again. To be
  // begun again.
  bool full() const { return full_; }
  // Writes the numbers of the places behind them; how many the batch brings.
  uint64_t end();

 private:
  MirrorHeader* header_;
  // Of each place: the number in its lane of what it holds, + 1; 0 for nothing.
  uint64_t* held_;
  Lanes lanes_;
  uint64_t places_, most_;
  uint8_t* out_ = nullptr;
  bool full_ = false;
  // What the batch brings: where each goes, and of each place which one is for it. A number of an
  // earlier batch names none, or one of another place.
  std::vector<uint32_t> to_, which_;
};

}  // namespace hotslot::rows
