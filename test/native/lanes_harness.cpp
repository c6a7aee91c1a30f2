// Stresses trajectories without JavaScript, for the sanitizers. Writers add steps at full speed to
// small rings, and sometimes die in the middle of a step. Readers of every kind check each row at
// the same time. Prints each error and returns 1. Build it in the project's root, with
// -fsanitize=thread or with -fsanitize=address,undefined:
//   g++ -std=c++17 -O1 -g -fsanitize=thread -Inative test/native/lanes_harness.cpp
//   native/rows/all.cpp
#include <thread>

#include "lanes_packed.hpp"
#include "lanes_ranges.hpp"
#include "lanes_stress.hpp"
#include "wait/core_pool.hpp"

using namespace lanes_stress;

namespace {

ViewRule transitions(uint32_t n, uint32_t frames = 1) {
  ViewRule rule;
  rule.n = n;
  rule.gamma = 0.5;
  rule.frames = frames;
  return rule;
}
ViewRule windows(ViewRule::Edges edges, uint32_t burn_in, uint32_t length, uint32_t frames = 1) {
  ViewRule rule;
  rule.edges = edges;
  rule.burn_in = burn_in;
  rule.length = length;
  rule.frames = frames;
  return rule;
}

struct Tree {
  Memory memory;
  Tree(const Buffer& buffer, double alpha)
      : memory(tree_bytes(leaves(buffer), buffer.shape.lanes)) {
    PriorityTree::format(memory.data, leaves(buffer), buffer.shape.lanes, alpha, 0.25);
  }
  static uint64_t leaves(const Buffer& buffer) {
    return buffer.shape.lanes * buffer.shape.per_lane;
  }
};

// Runs two writers and four readers until the time is over. One reader gathers from the places that
// a device keeps. From time to time a writer dies, or all lanes are cleared.
void torture(const Shape& shape, const ViewRule& one, const ViewRule& other, uint64_t rows,
             int milliseconds) {
  Buffer buffer(shape);
  Tree tree(buffer, 0.5);
  std::atomic<int> reading{4};
  std::atomic<uint64_t> deaths{0};
  const uint64_t end = now_ns() + static_cast<uint64_t>(milliseconds) * 1'000'000,
                 half = (shape.lanes + 1) / 2;
  uint64_t drawn[4] = {}, again[4] = {}, longest[4] = {};
  std::vector<std::thread> threads;
  const auto writer = [&](uint64_t first, uint64_t count) {
    Pen pen(buffer.lanes, shape, first, count, first + 1);
    for (uint64_t i = 1; reading.load() > 0; ++i) {
      pen.add();
      if (i % 997 == 0) {
        pen.die();
        ++deaths;
      }
      if (first == 0 && i % 20'011 == 0) clear_lanes(buffer.lanes);
    }
  };
  const auto reader = [&](int i, const ViewRule& rule, void* priorities) {
    Reader with(buffer.lanes, shape, rule, rows, priorities, i == 3);
    for (uint32_t seed = 0; (now_ns() < end || with.drawn == 0) && failures == 0; ++seed) {
      const uint64_t begin = now_ns();
      with.sample(seed);
      const uint64_t took = now_ns() - begin;
      if (took > longest[i]) longest[i] = took;
    }
    drawn[i] = with.drawn;
    again[i] = with.again;
    --reading;
  };
  threads.emplace_back(reader, 0, one, nullptr);
  threads.emplace_back(reader, 1, other, nullptr);
  threads.emplace_back(reader, 2, one, tree.memory.data);
  threads.emplace_back(reader, 3, rows % 2 == 0 ? one : other, nullptr);
  threads.emplace_back(writer, 0, half);
  if (half < shape.lanes) threads.emplace_back(writer, half, shape.lanes - half);
  for (auto& thread : threads) thread.join();
  const LaneCounts counts = count_steps(buffer.lanes);
  std::printf("%u lanes of %llu: %llu steps, %llu deaths;", shape.lanes,
              (unsigned long long)shape.per_lane, (unsigned long long)counts.ptr,
              (unsigned long long)deaths.load());
  for (int i = 0; i < 4; ++i)
    std::printf(" %llu rows, %llu again, at most %.1f ms;", (unsigned long long)drawn[i],
                (unsigned long long)again[i], static_cast<double>(longest[i]) / 1e6);
  std::puts("");
}

// Samples while a writer adds steps without pause. A batch that is longer than the ring must
// finish, and so must a new Drawable's first sync(). The ring must never look empty.
void without_pause(uint64_t per_lane, int milliseconds, uint64_t words = 8) {
  const Shape shape{1, per_lane, words};
  constexpr uint64_t rows = 1024;
  Buffer buffer(shape);
  std::atomic<bool> over{false};
  std::thread writer([&] {
    for (Pen pen(buffer.lanes, shape, 0, 1, 1); !over;) pen.add();
  });
  while (count_steps(buffer.lanes).ptr < 2 * per_lane) {}
  Reader reader(buffer.lanes, shape, transitions(1), rows, nullptr);
  uint64_t looks = 0, most = 0;
  const uint64_t end = now_ns() + static_cast<uint64_t>(milliseconds) * 1'000'000;
  while (now_ns() < end && failures == 0) {
    for (int i = 0; i < 3000 && failures == 0; ++i) {
      // Of the places at most every second one is a final observation.
      const uint64_t size = count_steps(buffer.lanes).size;
      if (size + 3 < per_lane / 2 || size > per_lane) wrong("steps of a full ring", size, per_lane);
    }
    Drawable drawable(buffer.lanes, transitions(1));
    drawable.sync();
    const uint64_t before = reader.again;
    if (drawable.count() == 0 || !reader.sample(static_cast<uint32_t>(looks++)))
      wrong("a full ring is empty", per_lane);
    if (reader.again - before > most) most = reader.again - before;
  }
  over = true;
  writer.join();
  // A row may be drawn again several times, but one such row must not make the others be drawn
  // again.
  if (most > 8 * rows) wrong("rows drawn again for one batch", most);
  std::printf("1 lane of %llu: %llu batches, %llu rows again at most\n",
              (unsigned long long)per_lane, (unsigned long long)looks, (unsigned long long)most);
}

// Updates a Drawable while its writer adds steps. Whenever the writer pauses, the Drawable must
// equal a new one.
void same_lists(uint64_t per_lane, const ViewRule& rule, int milliseconds) {
  const Shape shape{2, per_lane, 2};
  Buffer buffer(shape);
  std::atomic<bool> over{false};
  // `pause` is the round for which the writer must pause, and `stands` the last round for which it
  // paused.
  std::atomic<uint64_t> pause{0}, stands{0};
  std::thread writer([&] {
    Pen pen(buffer.lanes, shape, 0, 2, 5);
    for (uint64_t i = 1; !over; ++i) {
      for (uint64_t round = pause; round != 0; round = pause) {
        stands = round;
        std::this_thread::yield();
      }
      pen.add();
      if (i % 97 == 0) pen.die();
    }
  });
  Drawable kept(buffer.lanes, rule);
  uint64_t rounds = 0;
  const uint64_t end = now_ns() + static_cast<uint64_t>(milliseconds) * 1'000'000;
  for (; now_ns() < end && failures == 0; ++rounds) {
    for (uint64_t i = mix(rounds) % 8; i > 0; --i) {
      kept.sync();
      // Delays some updates.
      for (uint64_t wait = mix(rounds + i) % 4 * 400; wait > 0; --wait)
        (void)buffer.lanes.of[0].begun.load();
    }
    pause = rounds + 1;
    while (stands != rounds + 1) std::this_thread::yield();
    kept.sync();
    Drawable fresh(buffer.lanes, rule);
    fresh.sync();
    if (kept.count() != fresh.count())
      wrong("drawable steps, from the start", kept.count(), fresh.count());
    for (uint64_t o = 0; o < fresh.count() && failures == 0; ++o) {
      const Drawable::Step one = kept.at(o), other = fresh.at(o);
      if (one.lane != other.lane || one.place != other.place || one.reach != other.reach ||
          one.rest != other.rest)
        wrong("another step at ordinal, of", o, fresh.count());
    }
    pause = 0;
  }
  over = true;
  writer.join();
  std::printf("2 lanes of %llu: %llu lists compared\n", (unsigned long long)per_lane,
              (unsigned long long)rounds);
}

// Opens one tree after another over the same memory. Each leaf must keep the priority of its step.
void successors() {
  const Shape shape{3, 37, 3};
  Buffer buffer(shape);
  Tree tree(buffer, 1);
  const uint64_t leaves = Tree::leaves(buffer);
  Pen pen(buffer.lanes, shape, 0, 3, 9);
  std::vector<double> before(leaves, 0);
  std::vector<uint64_t> known(leaves, 0);
  double largest = 1;
  for (uint64_t round = 1; round < 400; ++round) {
    for (uint64_t i = mix(round) % (round % 50 == 0 ? 90 : 9); i > 0; --i) pen.add();
    if (round % 23 == 0) pen.die();
    if (round % 91 == 0) clear_lanes(buffer.lanes);
    Drawable drawable(buffer.lanes, transitions(2, 2));
    PriorityTree next(tree.memory.data, leaves, shape.lanes);
    next.follow(drawable);
    if (round % 3 == 0) next.follow(drawable);
    std::vector<double> now(leaves, 0), ids;
    std::vector<float> priorities;
    for (uint64_t o = 0; o < drawable.count(); ++o) {
      const Drawable::Step step = drawable.at(o);
      const uint64_t leaf = step.lane * shape.per_lane + step.place % shape.per_lane;
      const bool same = known[leaf] == step.place + 1;
      now[leaf] = same ? before[leaf] : largest + 0.25;
      known[leaf] = step.place + 1;
      if (mix(round * 1000 + o) % 3 != 0) continue;
      ids.push_back(static_cast<double>(step.place * shape.lanes + step.lane));
      priorities.push_back(static_cast<float>(mix(o + round) % 40));
    }
    double sum = 0;
    for (uint64_t i = 0; i < leaves; ++i) {
      if (next.leaf(i) != now[i]) wrong("leaf, round", i, round);
      if (now[i] == 0) known[i] = 0;
      sum += now[i];
    }
    if (next.total() != sum) wrong("total, round", round);
    next.update(drawable, ids.data(), priorities.data(), ids.size());
    for (uint64_t i = 0; i < ids.size(); ++i) {
      const auto id = static_cast<uint64_t>(ids[i]);
      now[id % shape.lanes * shape.per_lane + id / shape.lanes % shape.per_lane] =
          priorities[i] + 0.25;
      if (priorities[i] > largest) largest = priorities[i];
    }
    if (next.header().largest != largest) wrong("largest, round", round);
    before = now;
  }
}

// A writer that dies leaves neither a step nor a gap. The places that it began to overwrite are
// gone.
void death() {
  const Shape shape{1, 8, 3};
  Buffer buffer(shape);
  Pen pen(buffer.lanes, shape, 0, 1, 77);
  for (int i = 0; i < 40; ++i) pen.add();
  const uint64_t committed = buffer.lanes.of[0].committed.load();
  pen.die();
  const Span there = span(buffer.lanes, 0);
  if (there.to != committed || there.from != committed + 2 - shape.per_lane)
    wrong("the span after a writer died");
  Drawable drawable(buffer.lanes, transitions(1));
  drawable.sync();
  for (int i = 0; i < 4; ++i) pen.add();
  drawable.sync();
  Drawable::Step step;
  if (drawable.find(0, committed - 1, step) && note_at(buffer.lanes, 0, committed).step == 0 &&
      note_at(buffer.lanes, 0, committed).final == 0 &&
      !note_at(buffer.lanes, 0, committed - 1).terminated)
    wrong("an episode continues after its writer died");
}

// A writer that dies after its store of `committed` has not counted its last step. Its successor
// first adds that step to the count.
void uncounted() {
  for (const int steps : {1, 5, 40}) {
    Buffer buffer({1, 8, 3});
    Pen pen(buffer.lanes, buffer.shape, 0, 1, 77);
    for (int i = 0; i < steps; ++i) pen.add();
    const uint64_t counted = buffer.lanes.of[0].steps.load();
    take_over(buffer.lanes, 0);
    if (buffer.lanes.of[0].steps.load() != counted) wrong("a step counted twice", steps);
    buffer.lanes.of[0].steps.store(counted - 1);
    take_over(buffer.lanes, 0);
    if (buffer.lanes.of[0].steps.load() != counted) wrong("a step was not counted", steps);
    const LaneCounts counts = count_steps(buffer.lanes);
    if (counts.ptr != counted || counts.size > 8)
      wrong("counts after a writer died", counts.ptr, counts.size);
  }
}

}  // namespace

int main(int argc, char** argv) {
  hotslot::IdleCores::use(hotslot::CorePool::table_of_process());
  const int ms = argc > 1 ? std::atoi(argv[1]) : 250;
  death();
  uncounted();
  successors();
  kept_lanes();
  changed_rows();
  carry({1, 8, 3}, 4, ms / 2);
  carry({3, 64, 16}, 16, ms / 2);
  ranges({1, 4, 3}, ms / 2);
  ranges({3, 64, 16}, ms / 2);
  for (const uint64_t per_lane : {8, 64, 700}) without_pause(per_lane, ms);
  without_pause(700, ms, 256);  // large enough to be shared with idle cores
  for (const uint64_t per_lane : {16, 700}) {
    same_lists(per_lane, transitions(3, 4), ms);
    same_lists(per_lane, windows(ViewRule::anchor, 3, 2, 2), ms);
    ViewRule goals = transitions(2);
    goals.relabel = ViewRule::episode;
    same_lists(per_lane, goals, ms);
  }
  torture({1, 4, 16}, transitions(3), transitions(1, 2), 16, ms);
  torture({4, 8, 16}, transitions(3, 2), windows(ViewRule::anchor, 2, 3), 97, ms);
  // A batch of several blocks.
  torture({2, 16, 24}, transitions(1), windows(ViewRule::anchor, 4, 4, 3), 300, ms);
  torture({3, 32, 16}, transitions(2), windows(ViewRule::full, 1, 4), 300, ms);
  torture({2, 12, 24}, windows(ViewRule::tail, 2, 3, 2), windows(ViewRule::tail, 0, 4), 40, ms);
  return failures > 0;
}
