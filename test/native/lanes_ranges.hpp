// Stresses the functions that checkpoints use: they read ranges of places and the state of a lane.
// The writer adds steps at full speed and sometimes dies. The ranges are then restored into unused
// lanes.
#pragma once
#include <map>
#include <thread>

#include "lanes_stress.hpp"

namespace lanes_stress {

inline bool same(const Note& one, const Note& other) {
  return std::memcmp(&one, &other, sizeof one) == 0;
}

// Checks one place that read_range() copied.
inline void check_saved(const uint8_t* at, const Shape& shape, uint64_t lane, uint64_t place) {
  Note note;
  std::memcpy(&note, at, sizeof note);
  std::vector<uint64_t> words(shape.words + 1);
  std::memcpy(words.data(), at + sizeof note, shape.place_bytes());
  const uint64_t got = observed(words.data(), shape.words);
  if (got == 0) return wrong("torn place of lane", place, lane);
  if (got != (lane << 48) + place + 1)
    return wrong("another place: got, lane, place", got, lane, place);
  if (words[1] != note.step) wrong("another place's note: lane, place", lane, place);
  if (note.final != 0) {
    if (note.reward != 0) wrong("a final observation's note: lane, place", lane, place);
  } else if (note.reward != reward_of(place) || words[shape.words] != ~(lane * 1'000'003 + place)) {
    wrong("another step's reward or action: lane, place", lane, place);
  }
}

// Saves like a checkpoint: it reads the lane's state, copies the places in pieces, and drops the
// places that the writer has overtaken.
struct Saver {
  const Buffer& from;
  uint64_t seed;
  uint64_t trusted = 0, overtaken = 0;
  // the states that it has read of each lane
  std::vector<std::vector<LaneState>> seen{from.shape.lanes};

  void save(uint64_t lane) {
    const Shape& shape = from.shape;
    LaneState state = lane_state(from.lanes, lane);
    seen[lane].push_back(state);
    if (state.from > state.to || state.to - state.from > shape.per_lane)
      wrong("a lane from, to", state.from, state.to);
    seed = mix(seed + 1);
    const uint64_t most = 1 + seed % shape.per_lane, bytes = saved_bytes(from.lanes);
    Buffer fresh(shape);
    std::vector<uint8_t> piece(most * bytes + 1);
    for (uint64_t place = state.from; place < state.to; place += most) {
      const uint64_t count = state.to - place < most ? state.to - place : most;
      piece[count * bytes] = 0xcd;
      const uint64_t lowest = read_range(from.lanes, lane, place, count, piece.data());
      if (piece[count * bytes] != 0xcd) wrong("a range was written outside its places");
      for (uint64_t i = 0; i < count; ++i) {
        if (place + i < lowest) {
          ++overtaken;
          continue;
        }
        ++trusted;
        check_saved(&piece[i * bytes], shape, lane, place + i);
      }
      put_range(fresh.lanes, lane, place, count, piece.data());
      if (lowest > state.from) state.from = lowest < place + count ? lowest : place + count;
    }
    restored(fresh, lane, state);
  }

  // Checks a restored lane: dropped places are gone, the other places are there, and the episode
  // can continue.
  void restored(const Buffer& fresh, uint64_t lane, const LaneState& state) const {
    set_lane(fresh.lanes, lane, state);
    const LaneState there = lane_state(fresh.lanes, lane);
    if (there.from != state.from || there.to != state.to || there.steps != state.steps ||
        !same(there.last, state.last))
      wrong("a lane that was set: from, to, steps", there.from, there.to, there.steps);
    const Span now = span(fresh.lanes, lane);
    if (now.from != state.from || now.to != state.to)
      wrong("a span that was set", now.from, now.to);
    std::vector<uint8_t> place(saved_bytes(fresh.lanes));
    for (uint64_t n = now.from; n < now.to; ++n) {
      if (read_range(fresh.lanes, lane, n, 1, place.data()) > n)
        wrong("a range counted as overtaken without a writer", n);
      check_saved(place.data(), fresh.shape, lane, n);
    }
    if (state.to == 0) return;
    if (steps_so_far(fresh.lanes, lane) != (state.last.final ? 0 : state.last.step + 1))
      wrong("steps so far", lane);
    take_over(fresh.lanes, lane);
    if (count_steps_ever(fresh.lanes) != state.steps)
      wrong("steps counted after a restore", state.steps);
  }
};

// State of a lane between two steps of its writer. The log has it by `to`.
struct Moment {
  uint64_t steps;
  Note last;
};
using Log = std::vector<std::map<uint64_t, Moment>>;

inline void ranges(const Shape& shape, int milliseconds) {
  Buffer buffer(shape);
  std::atomic<int> reading{2};
  Log log(shape.lanes);
  const auto writer = [&] {
    Pen pen(buffer.lanes, shape, 0, shape.lanes, 3);
    std::vector<uint64_t> steps(shape.lanes), before(shape.lanes);
    for (uint64_t i = 1; reading > 0; ++i) {
      pen.add();
      for (uint64_t lane = 0; lane < shape.lanes; ++lane) {
        const uint64_t to = buffer.lanes.of[lane].committed.load();
        // add() commits at most one step, with or without a final observation.
        if (to == before[lane]) continue;
        before[lane] = to;
        log[lane][to] = {++steps[lane], note_at(buffer.lanes, lane, to - 1)};
      }
      if (i % 997 == 0) pen.die();
    }
  };
  Saver savers[2] = {{buffer, 1}, {buffer, 2}};
  std::vector<std::thread> threads;
  threads.emplace_back(writer);
  for (Saver& saver : savers)
    threads.emplace_back([&] {
      const uint64_t end = now_ns() + static_cast<uint64_t>(milliseconds) * 1'000'000;
      while ((now_ns() < end || saver.trusted == 0 || saver.overtaken == 0) && failures == 0)
        for (uint64_t lane = 0; lane < shape.lanes; ++lane) saver.save(lane);
      --reading;
    });
  for (auto& thread : threads) thread.join();
  uint64_t looks = 0;
  for (const Saver& saver : savers)
    for (uint64_t lane = 0; lane < shape.lanes; ++lane)
      for (const LaneState& state : saver.seen[lane]) {
        ++looks;
        if (state.to == 0) continue;
        const auto moment = log[lane].find(state.to);
        if (moment == log[lane].end()) {
          wrong("a state that the lane never had: lane, to", lane, state.to);
        } else if (moment->second.steps != state.steps || !same(moment->second.last, state.last)) {
          wrong("steps of lane, to", lane, state.to, state.steps, moment->second.steps);
        }
      }
  std::printf("%u lanes of %llu, ranges: %llu looks, %llu places trusted, %llu overtaken\n",
              shape.lanes, (unsigned long long)shape.per_lane, (unsigned long long)looks,
              (unsigned long long)(savers[0].trusted + savers[1].trusted),
              (unsigned long long)(savers[0].overtaken + savers[1].overtaken));
}

// Checks the states that a reader may meet between two stores of a writer. The count of steps may
// lag behind the committed steps, or be ahead of those that the reader has seen. Places may be
// about to be overwritten.
inline void between_stores(const Buffer& buffer, uint64_t lane) {
  LaneWords& words = buffer.lanes.of[lane];
  const uint64_t steps = words.steps.load(), begun = words.begun.load(),
                 per_lane = buffer.shape.per_lane;
  if (words.committed.load() == 0) return;
  for (const uint64_t off : {steps - 1, steps + 1, steps}) {
    words.steps.store(off);
    const LaneState state = lane_state(buffer.lanes, lane);
    if (state.steps != steps) wrong("steps while they are counted: got, of", state.steps, steps);
  }
  std::vector<uint8_t> place(saved_bytes(buffer.lanes));
  const uint64_t lowest =
      read_range(buffer.lanes, lane, words.committed.load() - 1, 1, place.data());
  if (lowest != (begun > per_lane ? begun - per_lane : 0)) wrong("lowest, begun", lowest, begun);
}

// Saves and restores the lanes after every step of a short run with deaths and clears. The restored
// lanes must have the same counts, and the next writer's steps must be correct.
inline void kept_lanes() {
  const Shape shape{2, 8, 3};
  Buffer saved(shape);
  Pen pen(saved.lanes, shape, 0, 2, 11);
  for (uint64_t i = 0; i < 200; ++i) {
    if (i % 23 == 22) pen.die();
    if (i % 61 == 60) clear_lanes(saved.lanes);
    Buffer fresh(shape);
    std::vector<uint8_t> bytes(shape.per_lane * saved_bytes(saved.lanes));
    for (uint64_t lane = 0; lane < shape.lanes; ++lane) {
      between_stores(saved, lane);
      const LaneState state = lane_state(saved.lanes, lane);
      const uint64_t count = state.to - state.from;
      if (read_range(saved.lanes, lane, state.from, count, bytes.data()) > state.from)
        wrong("a range counted as overtaken without a writer", i);
      put_range(fresh.lanes, lane, state.from, count, bytes.data());
      set_lane(fresh.lanes, lane, state);
    }
    const LaneCounts then = count_steps(saved.lanes), now = count_steps(fresh.lanes);
    if (then.ptr != now.ptr || then.size != now.size)
      wrong("counts of fresh lanes", now.ptr, now.size);
    Pen next(fresh.lanes, shape, 0, 2, i);
    for (int more = 0; more < 12; ++more) next.add();
    for (uint64_t lane = 0; lane < shape.lanes; ++lane) {
      const Span all = span(fresh.lanes, lane);
      read_range(fresh.lanes, lane, all.from, all.to - all.from, bytes.data());
      for (uint64_t place = all.from; place < all.to; ++place)
        check_saved(&bytes[(place - all.from) * saved_bytes(fresh.lanes)], shape, lane, place);
    }
    pen.add();
  }
}

}  // namespace lanes_stress
