// Pack's record of the places that a device keeps. The record says which step each place has on the
// device after the ticks packed so far have arrived. If a batch needs a step that the device does
// not have, the step travels with the batch. From then on the device has this step.
//
// The record is in shared memory, so that a successor of pack's thread continues with it. Only
// pack's thread uses the record, except for `brought`, which the client reads.
//
//   Mirror-1  Bytes that travel are checked as a row's bytes are: by Lanes-4, after the copy.
//   Mirror-2  A row's places are looked up only after its notes were found whole (also by Lanes-4).
//       A torn note may name a future step. The record would then claim that the device has this
//       step, as soon as the step exists.
//   Mirror-3  The device has a step that a batch brought only if pack handed the batch on. A batch
//       may be begun and not handed on, because pack's thread died or no step was drawable any
//       more. Pack then begins the batch again under the same sequence. The record forgets all
//       places, and all steps travel once more.
//   Mirror-4  Ticks arrive at the device in the order of their sequences. A tick may use a place's
//       old step, and bring the step of the next lap for the same place. So a tick first gathers,
//       from the steps that earlier ticks left on the device and from those that it brought. Only
//       then does it put its own steps into their places.
#pragma once
#include <cstdint>
#include <vector>

#include "rows/lanes.hpp"

namespace hotslot::rows {

struct alignas(64) MirrorHeader {
  // Sequence + 1 of the batch that was begun last.
  uint64_t begun;
  // Number of places that batches ever brought.
  uint64_t brought;
  uint64_t none[6];
};

class Mirror {
 public:
  // Values instead of an index. `nowhere` means padding, and `own` means the row's own goal.
  static constexpr uint32_t nowhere = 0xffffffffu, own = 0xfffffffeu;

  // Takes zeroed memory of bytes() bytes, or the memory of a predecessor. A batch brings at most
  // `most` places.
  Mirror(void* memory, const Lanes& lanes, uint64_t most);
  static uint64_t bytes_of(uint64_t places) {
    return sizeof(MirrorHeader) + places * sizeof(uint64_t);
  }
  static uint64_t bytes(const Lanes& lanes) { return bytes_of(lanes.lanes * lanes.per_lane); }
  // Returns the bytes of the places that a batch brings, and of their indices.
  static uint64_t batch_bytes(const Lanes& lanes, uint64_t most) {
    return most * (lanes.stride + 4);
  }

  // Begins the batch of this sequence. find() copies the places that the batch brings to `out`.
  void begin(uint64_t sequence, uint8_t* out);
  // Returns the index at which the device finds the step of place `place` of a lane. `index` is the
  // index of this place in the lanes' memory. If the device has the step there, returns `index`.
  // Else the batch brings the step, and the returned index is after those of all places. Returns
  // `nowhere` if the batch is full.
  uint32_t find(uint32_t index, uint64_t place);
  // Returns true if the batch would have to bring more places than it has room for. This happens if
  // writers overtake rows repeatedly. In that case, begin the batch again.
  bool full() const { return full_; }
  // Writes the indices of the brought places after the places. Returns how many places the batch
  // brings.
  uint64_t end();

 private:
  MirrorHeader* header_;
  // For each index, the place + 1 of the step that the device has there, or 0 if it has none.
  uint64_t* held_;
  Lanes lanes_;
  uint64_t places_, most_;
  uint8_t* out_ = nullptr;
  bool full_ = false;
  // `to_` has the index of each step that the batch brings. `which_` has, for each index, the
  // position in `to_` of the step that the batch brings for this index. A position that an earlier
  // batch left in `which_` is out of range, or belongs to a step with another index.
  std::vector<uint32_t> to_, which_;
};

}  // namespace hotslot::rows
