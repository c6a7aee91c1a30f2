// Imitates a device that keeps the places of lanes, in memory of this thread. It gathers a batch by
// the lists in the slot, then stores the new places that came with the batch.
#pragma once
#include <vector>

#include "rows/view.hpp"

namespace lanes_stress {

using namespace hotslot::rows;

class KeptPlaces {
 public:
  KeptPlaces(const Lanes& lanes, View& view)
      : lanes_(lanes),
        places_(lanes.lanes * lanes.per_lane),
        memory_(Mirror::bytes(lanes) / sizeof(Line) + 1) {
    const uint64_t most = places_ + 64;
    ring_.resize(places_ * lanes.stride);
    fresh_.resize(Mirror::batch_bytes(lanes, most));
    view.keep_on_device(std::make_unique<Mirror>(memory_.data(), lanes, most));
  }

  void begin(View& view) { view.mirror()->begin(sequence_, fresh_.data()); }
  // Gathers the batch into `out`, as it is without a device. Returns false if the batch must be
  // started again.
  bool run(View& view, const std::vector<Column>& columns, uint64_t rows,
           const std::vector<uint8_t>& slot, std::vector<uint8_t>& out) {
    if (view.mirror()->full()) return false;
    const uint64_t brought = view.mirror()->end(), stride = lanes_.stride;
    out = slot;
    for (const Column& column : columns)
      if (column.kind <= Column::achieved) gather(column, rows, slot, out);
    for (uint64_t i = 0; i < brought; ++i) {
      uint32_t to;
      std::memcpy(&to, &fresh_[brought * stride + 4 * i], 4);
      if (to != Mirror::nowhere) std::memcpy(&ring_[to * stride], &fresh_[i * stride], stride);
    }
    ++sequence_;
    return true;
  }

 private:
  void gather(const Column& column, uint64_t pieces, const std::vector<uint8_t>& slot,
              std::vector<uint8_t>& out) {
    for (uint64_t i = 0; i < pieces * column.frames; ++i) {
      uint32_t where;
      std::memcpy(&where, &slot[column.at + 4 * i], 4);
      uint8_t* const to = &out[column.at + i * column.bytes];
      if (where == Mirror::nowhere) {
        std::memset(to, 0, column.bytes);
        continue;
      }
      const uint8_t* const from = where < places_ ? &ring_[where * lanes_.stride]
                                                  : &fresh_[(where - places_) * lanes_.stride];
      std::memcpy(to, from + column.offset, column.bytes);
    }
  }

  Lanes lanes_;
  uint64_t places_, sequence_ = 0;
  struct alignas(64) Line {
    uint64_t words[8];
  };
  std::vector<Line> memory_;
  std::vector<uint8_t> ring_, fresh_;
};

}  // namespace lanes_stress
