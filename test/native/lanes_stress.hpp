// What the stress of trajectories shares: writers that store lane, place and step in each
// observation, and readers that check every row of every sample. Any mixture of two places is
// found.
#pragma once
#include <cmath>
#include <cstdlib>
#include <memory>
#include <vector>

#include "check.hpp"
#include "lanes_mirror.hpp"
#include "rows/copy.hpp"
#include "rows/lanes.hpp"
#include "rows/view.hpp"
#include "wait/bell.hpp"

namespace lanes_stress {

using namespace hotslot::rows;
using hotslot::now_ns;

inline uint64_t mix(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdull;
  x ^= x >> 33;
  return x * 0xc4ceb9fe1a85ec53ull;
}

struct Memory {
  uint64_t bytes;
  uint8_t* data;
  explicit Memory(uint64_t size) : bytes((size + 63) / 64 * 64) {
    data = static_cast<uint8_t*>(std::aligned_alloc(64, bytes));
    std::memset(data, 0, bytes);
  }
  ~Memory() { std::free(data); }
};

// Number of words that identify an observation: one for its lane and place, one for the number of
// earlier steps of its episode. All other words follow from these.
constexpr uint64_t names = 2;
struct Shape {
  uint32_t lanes;
  uint64_t per_lane, words;
  uint32_t place_bytes() const { return static_cast<uint32_t>((words + 1) * 8); }
};
struct Buffer {
  Shape shape;
  Memory memory;
  Lanes lanes;
  explicit Buffer(const Shape& of)
      : shape(of), memory(lanes_bytes(of.lanes, of.per_lane, of.place_bytes())) {
    format_lanes(memory.data, of.lanes, of.per_lane, of.place_bytes());
    lanes = open_lanes(memory.data, memory.bytes);
  }
};

inline float reward_of(uint64_t place) { return static_cast<float>(place % 8); }
inline void observe(uint64_t* to, uint64_t words, uint64_t lane, uint64_t place, uint64_t step) {
  to[0] = (lane << 48) + place + 1;
  to[1] = step;
  for (uint64_t k = names; k < words; ++k) to[k] = mix(to[0] * 31 + step * 7 + k);
}
// Returns the first word of an observation, or 0 if the observation is torn.
inline uint64_t observed(const uint64_t* from, uint64_t words) {
  for (uint64_t k = names; k < words; ++k) {
    if (from[k] != mix(from[0] * 31 + from[1] * 7 + k)) return 0;
  }
  return from[0];
}

class Pen {
 public:
  Pen(const Lanes& lanes, const Shape& shape, uint64_t first, uint64_t count, uint64_t seed)
      : lanes_(lanes),
        shape_(shape),
        first_(first),
        count_(count),
        random_(seed),
        episode_(count) {}

  void add() {
    const uint64_t words = shape_.words;
    std::vector<uint64_t> now(count_ * words), last(now), actions(count_);
    std::vector<float> rewards(count_);
    std::vector<uint8_t> terminated(count_), truncated(count_), skip(count_);
    for (uint64_t i = 0; i < count_; ++i) {
      random_ = mix(random_ + 1);
      const uint64_t place = lanes_.of[first_ + i].committed.load(std::memory_order_relaxed);
      skip[i] = random_ % 5 == 0;
      terminated[i] = random_ % 16 == 3;
      truncated[i] = random_ % 24 == 5;
      rewards[i] = reward_of(place);
      actions[i] = ~((first_ + i) * 1'000'003 + place);
      observe(&now[i * words], words, first_ + i, place, episode_[i]);
      observe(&last[i * words], words, first_ + i, place + 1, episode_[i] + 1);
    }
    const StepField fields[] = {field(now, &last, 0, words * 8),
                                field(actions, nullptr, words * 8, 8)};
    add_steps(lanes_, first_, count_,
              {fields, 2, rewards.data(), terminated.data(), truncated.data(), skip.data()},
              episode_.data());
  }

  // Dies after Lanes-2: part of a place is written, and nothing is committed. The next step begins
  // an episode.
  void die() {
    for (uint64_t i = 0; i < count_; ++i) {
      const uint64_t lane = first_ + i,
                     place = lanes_.of[lane].committed.load(std::memory_order_relaxed);
      if (lanes_.of[lane].begun.load(std::memory_order_relaxed) < place + 2)
        lanes_.of[lane].begun.store(place + 2);
      before_shared_writes();
      const std::vector<uint8_t> half(shape_.place_bytes() / 2, 0xee);
      to_shared(lanes_.places + (lane * shape_.per_lane + place % shape_.per_lane) * lanes_.stride,
                half.data(), half.size());
      const std::vector<uint8_t> note(sizeof(Note) - 5, 0xee);
      to_shared(lanes_.notes + (lane * shape_.per_lane + place % shape_.per_lane) * sizeof(Note),
                note.data(), note.size());
      episode_[i] = 0;
    }
  }

 private:
  static StepField field(const std::vector<uint64_t>& now, const std::vector<uint64_t>* last,
                         uint64_t at, uint64_t bytes) {
    return {reinterpret_cast<const uint8_t*>(now.data()),
            last ? reinterpret_cast<const uint8_t*>(last->data()) : nullptr,
            static_cast<uint32_t>(at),
            static_cast<uint32_t>(bytes),
            {}};
  }

  Lanes lanes_;
  Shape shape_;
  uint64_t first_, count_, random_;
  std::vector<uint32_t> episode_;
};

// Samples batches and checks them. Its columns are stored one after another, and `at_` has their
// offsets.
class Reader {
 public:
  // If `kept` is true, batches are gathered from places that a device keeps.
  Reader(const Lanes& lanes, const Shape& shape, const ViewRule& rule, uint64_t rows, void* tree,
         bool kept = false)
      : shape_(shape),
        rule_(rule),
        rows_(rows),
        view_(lanes, rule, columns(rule)),
        out_(bytes_ + 64, 0xcd) {
    if (kept) kept_ = std::make_unique<KeptPlaces>(lanes, view_);
    if (tree != nullptr)
      view_.follow(std::make_unique<PriorityTree>(tree, lanes.lanes * lanes.per_lane, lanes.lanes));
  }

  // Returns false if no step is drawable.
  bool sample(uint32_t seed) {
    Request request;
    request.count = rows_;
    std::vector<uint8_t> slot(kept_ ? out_.size() : 0, 0xcd);
    request.out = kept_ ? slot.data() : out_.data();
    request.beta = 0.5;
    view_.look_around();
    if (view_.draw(request, seed) == View::Result::empty) return false;
    if (kept_) kept_->begin(view_);
    // Gathers in parts, like pack.
    View::Result result = View::Result::more;
    while (result == View::Result::more)
      result = view_.gather(now_ns() + (seed % 2 == 0 ? 1 : 10'000'000));
    if (result == View::Result::empty) return false;
    again += view_.drawn_again();
    // Some batches are dropped here, as if the reader died before it handed them on.
    if (kept_ && (seed % 61 == 7 || !kept_->run(view_, made_, rows_ * slots(), slot, out_)))
      return true;
    for (size_t i = bytes_; i < out_.size(); ++i) {
      if (out_[i] != 0xcd) wrong("a sample wrote outside");
    }
    for (uint64_t i = 0; i < rows_; ++i) check_row(i);
    drawn += rows_;
    if (view_.tree() != nullptr) prioritise(seed);
    return true;
  }
  uint64_t drawn = 0, again = 0;
  View& view() { return view_; }

 private:
  bool windows() const { return rule_.edges != ViewRule::transitions; }
  uint64_t slots() const { return windows() ? rule_.window() + 1 : 1; }

  std::vector<Column> columns(const ViewRule& rule) {
    const uint32_t obs = static_cast<uint32_t>(shape_.words * 8);
    std::vector<Column>& made = made_;
    const auto column = [&](Column::Kind kind, uint64_t bytes, uint64_t per_row,
                            uint32_t frames = 1) {
      Column each;
      each.kind = kind;
      each.at = bytes_;
      each.frames = frames;
      if (kind <= Column::achieved) each.bytes = obs;
      each.observation = kind <= Column::achieved;
      made.push_back(each);
      bytes_ += (bytes * per_row * frames * rows_ + 63) / 64 * 64;
    };
    column(Column::now, obs, slots(), rule.frames);
    if (!windows()) column(Column::next, obs, 1, rule.frames);
    column(Column::rewards, 4, windows() ? rule.window() : 1);
    column(Column::steps, 4, 1);
    column(Column::ids, 8, 1);
    column(Column::terminated, 1, windows() ? rule.window() : 1);
    column(Column::truncated, 1, windows() ? rule.window() : 1);
    if (windows()) column(Column::mask, 4, rule.window());
    for (size_t i = 0; i < 8; ++i) at_[i] = i < made.size() ? made[i].at : 0;
    return made;
  }
  template <typename T>
  T get(size_t column, uint64_t i) const {
    T value;
    std::memcpy(&value, out_.data() + at_[column] + i * sizeof(T), sizeof(T));
    return value;
  }
  const uint64_t* obs(size_t column, uint64_t i) const {
    return reinterpret_cast<const uint64_t*>(out_.data() + at_[column] + i * shape_.words * 8);
  }

  void expect_obs(const uint64_t* at, uint64_t lane, uint64_t place, uint64_t step) const {
    const uint64_t got = observed(at, shape_.words);
    if (got == 0) return wrong("torn observation of lane, place", lane, place);
    if (got != (lane << 48) + place + 1)
      wrong("another place's observation: got, lane, place", got, lane, place);
    if (at[1] != step)
      wrong("another episode's observation: lane, place, step, got", lane, place, step, at[1]);
  }
  // Checks a stack of frames that ends at `place`, which has `step` earlier steps in its episode.
  void expect_frames(const uint64_t* at, uint64_t lane, uint64_t place, uint64_t step) const {
    for (uint64_t back = rule_.frames; back-- > 0; at += shape_.words) {
      const uint64_t to = back < step ? back : step;
      expect_obs(at, lane, place - to, step - to);
    }
  }
  void check_row(uint64_t i) const {
    const size_t after = windows() ? 1 : 2;
    const auto steps = static_cast<uint64_t>(get<int32_t>(after + 1, i));
    const auto id = static_cast<uint64_t>(get<double>(after + 2, i));
    const uint64_t lane = id % shape_.lanes, place = id / shape_.lanes, frames = rule_.frames;
    if (steps == 0 || steps > (windows() ? rule_.window() : rule_.n)) return wrong("steps", steps);
    if (!windows()) {
      const uint64_t step = obs(0, i * frames)[(frames - 1) * shape_.words + 1];
      expect_frames(obs(0, i * frames), lane, place, step);
      expect_frames(obs(1, i * frames), lane, place + steps, step + steps);
      float sum = 0;
      for (uint64_t j = 0; j < steps; ++j)
        sum += static_cast<float>(std::pow(rule_.gamma, j)) * reward_of(place + j);
      if (sum != get<float>(2, i)) wrong("reward of lane, place", lane, place);
      const bool ended = get<uint8_t>(5, i) || get<uint8_t>(6, i);
      if (steps < rule_.n && !ended) wrong("too few steps from lane, place", lane, place);
      return;
    }
    const uint64_t T = rule_.window();
    uint64_t before = 0;
    while (before < T && get<float>(6, i * T + before) == 0) ++before;
    const uint64_t first = place - (rule_.edges == ViewRule::anchor ? rule_.burn_in - before : 0);
    const uint64_t* const own = obs(0, (i * (T + 1) + before) * frames);
    const uint64_t step = own[(frames - 1) * shape_.words + 1];
    if (before > 0 && step != 0) wrong("padding in the middle of lane, place", lane, place);
    for (uint64_t s = 0; s <= steps; ++s)
      expect_frames(own + s * frames * shape_.words, lane, first + s, step + s);
    for (uint64_t s = 0; s < T; ++s) {
      const bool there = s >= before && s - before < steps;
      if (get<float>(6, i * T + s) != (there ? 1 : 0)) wrong("mask of lane, place", lane, place);
      if (get<float>(1, i * T + s) != (there ? reward_of(first + s - before) : 0))
        wrong("reward of lane, place", lane, place);
    }
  }
  void prioritise(uint32_t seed) {
    std::vector<double> ids(rows_);
    std::vector<float> priorities(rows_);
    for (uint64_t i = 0; i < rows_; ++i) {
      ids[i] = get<double>(windows() ? 3 : 4, i);
      priorities[i] = static_cast<float>((seed + i) % 9);
    }
    view_.look_around();
    view_.tree()->update(view_.drawable(), ids.data(), priorities.data(), rows_);
  }

  Shape shape_;
  ViewRule rule_;
  uint64_t rows_, bytes_ = 0;
  uint64_t at_[8] = {};
  std::vector<Column> made_;
  View view_;
  std::unique_ptr<KeptPlaces> kept_;
  std::vector<uint8_t> out_;
};

}  // namespace lanes_stress
