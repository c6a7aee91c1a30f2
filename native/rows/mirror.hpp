// Pack's record of the steps that a device stores. For each index of the lanes' memory, it says
// which step the device will have there after all ticks packed so far. If a batch needs a step that
// the device does not have, pack copies the step into the batch. After this tick the device has the
// step.
//
// The record is in shared memory, so that a successor of pack's thread can use it. Only pack's
// thread uses the record, except for `brought`, which the client reads.
//
//   Mirror-1  A writer may overwrite a step while pack copies it into a batch. So pack checks the
//       copy afterwards by Lanes-4, as it checks copied rows.
//   Mirror-2  Before pack looks up the places of a row, it checks by Lanes-4 that the row's notes
//       were not overwritten. An overwritten note may name a place whose step is not written yet.
//       The record would then wrongly say that the device has this step.
//   Mirror-3  The record lists a step as soon as pack copies it into a batch. The device gets the
//       step only if pack hands over this batch. It may never be handed over, because pack's thread
//       dies or no step is drawable any more. Pack then begins the batch again under the same
//       sequence. This clears the record, so that batches bring all steps again.
//   Mirror-4  Ticks arrive at the device in the order of their sequences. A tick may use the old
//       step at an index, and bring a newer step for the same index. So a tick first gathers its
//       rows from the steps on the device and the steps that it brought. Only then does it store
//       the brought steps at their indices.
#pragma once
#include <cstdint>
#include <vector>

#include "rows/lanes.hpp"

namespace hotslot::rows {

struct alignas(64) MirrorHeader {
  // Sequence + 1 of the batch that was begun last.
  uint64_t begun;
  // Number of steps that all batches so far have brought.
  uint64_t brought;
  uint64_t none[6];
};

class Mirror {
 public:
  // Values instead of an index. `own`: the row keeps its own goal. `nowhere`: padding in a row, a
  // step that did not fit into the batch, or a brought step that the device does not store.
  static constexpr uint32_t nowhere = 0xffffffffu, own = 0xfffffffeu;

  // Takes zeroed memory of bytes() bytes, or the memory of a predecessor. A batch brings at most
  // `most` steps.
  Mirror(void* memory, const Lanes& lanes, uint64_t most);
  static uint64_t bytes_of(uint64_t places) {
    return sizeof(MirrorHeader) + places * sizeof(uint64_t);
  }
  static uint64_t bytes(const Lanes& lanes) { return bytes_of(lanes.lanes * lanes.per_lane); }
  // Returns the bytes of the steps that a batch can bring, and of their indices.
  static uint64_t batch_bytes(const Lanes& lanes, uint64_t most) {
    return most * (lanes.stride + 4);
  }

  // Begins the batch of this sequence. find() copies the steps that the batch brings to `out`.
  void begin(uint64_t sequence, uint8_t* out);
  // Returns the index at which the device finds the step of a place. `index` is the index of this
  // place in the lanes' memory. If the device has the step there, returns `index`.
  //
  // Else copies the step into the batch. The n-th step of the batch (from 0) has the index n + the
  // number of all places of the lanes. Returns `nowhere` if the batch is full.
  uint32_t find(uint32_t index, uint64_t place);
  // Returns true if find() found the batch full. This can happen if writers overwrite rows of the
  // batch repeatedly, because each newly drawn row may bring new steps. In that case, begin the
  // batch again.
  bool full() const { return full_; }
  // Writes the index of each brought step after the last brought step. Returns how many steps the
  // batch brings.
  uint64_t end();

 private:
  MirrorHeader* header_;
  // For each index, the place + 1 of the step that the device has there. 0 if it has none.
  uint64_t* held_;
  Lanes lanes_;
  uint64_t places_, most_;
  uint8_t* out_ = nullptr;
  bool full_ = false;
  // `to_` has the index of each step that the batch brings. For such an index, `which_` has the
  // step's position in `to_`. For another index, `which_` may have a position of an earlier batch.
  // This position is out of range, or `to_` has another index there.
  std::vector<uint32_t> to_, which_;
};

}  // namespace hotslot::rows
