// Looks up whether a device has a step, and copies the steps that it does not have.
#include "rows/mirror.hpp"

#include <algorithm>
#include <cstring>

#include "rows/copy.hpp"

namespace hotslot::rows {

Mirror::Mirror(void* memory, const Lanes& lanes, uint64_t most)
    : header_(static_cast<MirrorHeader*>(memory)),
      held_(reinterpret_cast<uint64_t*>(header_ + 1)),
      lanes_(lanes),
      places_(lanes.lanes * lanes.per_lane),
      most_(most),
      which_(places_) {
  to_.reserve(most);
}

void Mirror::begin(uint64_t sequence, uint8_t* out) {
  if (header_->begun == sequence + 1) std::fill_n(held_, places_, 0);
  header_->begun = sequence + 1;
  out_ = out;
  full_ = false;
  to_.clear();
}

uint32_t Mirror::find(uint32_t index, uint64_t place) {
  const uint32_t which = which_[index];
  const bool brings = which < to_.size() && to_[which] == index;
  if (held_[index] == place + 1) return brings ? static_cast<uint32_t>(places_ + which) : index;
  if (to_.size() == most_) {
    full_ = true;
    return nowhere;
  }
  // A batch can bring two steps for one index, if the lane's ring wrapped around between two calls
  // of find(). The device then stores only the newer step at this index.
  if (brings) to_[which] = nowhere;
  which_[index] = static_cast<uint32_t>(to_.size());
  held_[index] = place + 1;
  from_shared(out_ + to_.size() * lanes_.stride, lanes_.places + index * lanes_.stride,
              lanes_.place_bytes);
  to_.push_back(index);
  return static_cast<uint32_t>(places_ + which_[index]);
}

uint64_t Mirror::end() {
  std::memcpy(out_ + to_.size() * lanes_.stride, to_.data(), to_.size() * 4);
  // The client's thread also reads `brought`, for statistics. The store is relaxed, because the
  // number orders no other data.
  __atomic_store_n(&header_->brought, header_->brought + to_.size(), __ATOMIC_RELAXED);
  return to_.size();
}

}  // namespace hotslot::rows
