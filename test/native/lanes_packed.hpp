// Stresses steps that travel as rows from one buffer's lanes to another's. A writer adds steps to
// an outbox. A second thread carries them in messages that are longer than the rings of the other
// buffer. Readers sample and pack from that buffer at the same time.
#pragma once
#include <thread>

#include "lanes_ranges.hpp"
#include "rows/packed_steps.hpp"

namespace lanes_stress {

inline StepRules rules_of(const Shape& shape) {
  const StepField observation{nullptr, nullptr, 0, static_cast<uint32_t>(shape.words * 8), {}};
  return {{observation}, {observation}, false};
}

// Checks packed rows of the places [from, from + count) of a lane. The rows must be whole, and the
// end of an episode must come with its final observation.
inline void check_packed(const uint8_t* row, const Shape& shape, uint64_t lane, uint64_t from,
                         uint64_t count) {
  std::vector<uint64_t> words(shape.words + 1);
  for (uint64_t place = from; place < from + count;
       ++place, row += sizeof(StepRow) + shape.place_bytes()) {
    StepRow head;
    std::memcpy(&head, row, sizeof head);
    std::memcpy(words.data(), row + sizeof head, shape.place_bytes());
    if (head.lane != lane) wrong("a row of another lane: got, lane", head.lane, lane);
    if (observed(words.data(), shape.words) != (lane << 48) + place + 1)
      wrong("torn row of lane, place", lane, place);
    const bool final = head.kind == final_row;
    if (!final && ((head.kind & first_bit) != 0) != (words[1] == 0))
      wrong("a first step: lane, place", lane, place);
    if (!final && (head.kind & ended_bits) != 0 && place + 1 == from + count)
      wrong("an end alone", lane, place);
    if (head.reward != (final ? 0 : reward_of(place)))
      wrong("reward of a row: lane, place", lane, place);
  }
}

// Packs a random range that may be as old as the ring, while its writer adds steps.
inline void pack_anything(const Buffer& buffer, uint64_t seed, uint64_t& whole, uint64_t& torn) {
  const Shape& shape = buffer.shape;
  const uint64_t lane = mix(seed) % shape.lanes;
  const Span now = span(buffer.lanes, lane);
  if (now.from == now.to) return;
  const uint64_t count = 1 + mix(seed + 1) % (now.to - now.from),
                 bytes = count * step_row_bytes(buffer.lanes);
  std::vector<uint8_t> out(bytes + 1, 0xcd);
  const PackedLane packed = pack_lane(buffer.lanes, lane, now.from, count, out.data());
  if (out[bytes] != 0xcd) wrong("rows were written outside");
  if (!packed.whole) {
    ++torn;
    return;
  }
  ++whole;
  if (packed.rows + 1 < count || packed.steps > packed.rows)
    wrong("rows packed, of", packed.rows, count);
  check_packed(out.data(), shape, lane, now.from, packed.rows);
}

inline void carry(const Shape& shape, uint64_t ring, int milliseconds) {
  const Shape there{shape.lanes, ring, shape.words};
  Buffer outbox(shape), buffer(there);
  std::vector<std::atomic<uint64_t>> taken(shape.lanes);
  std::atomic<int> reading{2};
  std::atomic<bool> written{false};
  uint64_t messages = 0, whole = 0, torn = 0, drawn = 0;
  std::vector<std::thread> threads;
  threads.emplace_back([&] {
    Pen pen(outbox.lanes, shape, 0, shape.lanes, 21);
    for (uint64_t i = 1; reading > 0 && failures == 0; ++i) {
      // Waits, as a limiter makes it wait, until every lane has room for a step and its final
      // observation.
      for (uint64_t lane = 0; lane < shape.lanes; ++lane)
        while (outbox.lanes.of[lane].committed.load() + 2 > taken[lane].load() + shape.per_lane &&
               failures == 0)
          std::this_thread::yield();
      if (i % 97 == 0) pen.die();
      pen.add();
    }
    written = true;
  });
  threads.emplace_back([&] {
    const StepRules rules = rules_of(shape);
    const uint64_t row_bytes = step_row_bytes(outbox.lanes);
    std::vector<uint32_t> episode(shape.lanes);
    std::vector<uint8_t> bytes(shape.lanes * shape.per_lane * row_bytes);
    for (bool last = false; !last && failures == 0; ++messages) {
      last = written;
      uint64_t rows = 0, steps = 0;
      for (uint64_t lane = 0; lane < shape.lanes; ++lane) {
        const uint64_t from = taken[lane].load(), some = 2 + mix(messages + lane) % shape.per_lane;
        const uint64_t waiting =
            outbox.lanes.of[lane].committed.load(std::memory_order_acquire) - from;
        const uint64_t count = last || waiting < some ? waiting : some;
        const PackedLane packed =
            pack_lane(outbox.lanes, lane, from, count, &bytes[rows * row_bytes]);
        if (!packed.whole) wrong("overtaken by a writer that stands still", lane, from);
        check_packed(&bytes[rows * row_bytes], shape, lane, from, packed.rows);
        rows += packed.rows;
        steps += packed.steps;
        taken[lane] = from + packed.rows;
      }
      if (rows == 0) std::this_thread::yield();
      const PackedSteps given{bytes.data(), rows};
      const PackedLook look = look_at_steps(buffer.lanes, shape.lanes, given, rules);
      if (look.good != rows || look.steps != steps)
        wrong("good rows, steps", look.good, look.steps);
      add_packed_steps(buffer.lanes, 0, shape.lanes, given, rules, episode.data());
    }
  });
  const uint64_t end = now_ns() + static_cast<uint64_t>(milliseconds) * 1'000'000;
  threads.emplace_back([&] {
    ViewRule rule;
    rule.n = 2;
    rule.gamma = 0.5;
    Reader reader(buffer.lanes, there, rule, 64, nullptr);
    for (uint32_t seed = 0; (now_ns() < end || reader.drawn == 0) && failures == 0; ++seed)
      reader.sample(seed);
    drawn = reader.drawn;
    --reading;
  });
  threads.emplace_back([&] {
    for (uint64_t seed = 0; (now_ns() < end || whole == 0) && failures == 0; ++seed)
      pack_anything(buffer, seed, whole, torn);
    --reading;
  });
  for (auto& thread : threads) thread.join();
  if (failures != 0) return;
  if (count_steps_ever(buffer.lanes) != count_steps_ever(outbox.lanes))
    wrong("steps that were carried over");
  std::vector<uint8_t> place(saved_bytes(buffer.lanes));
  for (uint64_t lane = 0; lane < shape.lanes; ++lane) {
    const Span all = span(buffer.lanes, lane);
    if (all.to != outbox.lanes.of[lane].committed.load()) wrong("places of lane", lane, all.to);
    for (uint64_t n = all.from; n < all.to; ++n) {
      read_range(buffer.lanes, lane, n, 1, place.data());
      check_saved(place.data(), there, lane, n);
    }
  }
  std::printf(
      "%u lanes of %llu to %llu: %llu steps in %llu messages, %llu rows drawn, %llu ranges whole, "
      "%llu torn\n",
      shape.lanes, (unsigned long long)shape.per_lane, (unsigned long long)ring,
      (unsigned long long)count_steps_ever(buffer.lanes), (unsigned long long)messages,
      (unsigned long long)drawn, (unsigned long long)whole, (unsigned long long)torn);
}

// Adds rows that changed after they were checked. Nothing may be written outside the writer's lanes
// or read beyond the last row, and the rows before the bad one must be added.
inline void changed_rows() {
  const Shape shape{3, 8, 3};
  const StepRules rules = rules_of(shape);
  for (const bool end : {false, true}) {
    Buffer buffer(shape);
    const uint64_t row_bytes = step_row_bytes(buffer.lanes);
    // The buffer is exactly as long as the rows, so that a sanitizer finds a read beyond.
    std::vector<uint8_t> bytes(2 * row_bytes);
    const StepRow rows[] = {
        {1, 0, 0}, {static_cast<uint16_t>(end ? 1 : 2), static_cast<uint16_t>(end ? 2 : 0), 0}};
    for (int i = 0; i < 2; ++i)
      std::memcpy(&bytes[static_cast<uint64_t>(i) * row_bytes], &rows[i], sizeof rows[i]);
    const PackedSteps given{bytes.data(), 2};
    if (look_at_steps(buffer.lanes, 2, given, rules).good != 1) wrong("a row that is wrong");
    std::vector<uint32_t> episode(2);
    add_packed_steps(buffer.lanes, 0, 2, given, rules, episode.data());
    for (uint64_t lane = 0; lane < 3; ++lane) {
      const LaneWords& words = buffer.lanes.of[lane];
      if (words.begun != (lane == 1) || words.committed != (lane == 1) ||
          words.steps != (lane == 1))
        wrong("a lane that was written in", lane, words.begun.load());
    }
  }
}

}  // namespace lanes_stress
