// Runs the pieces of a tick's native work a few times, for a count of their instructions. Under
// callgrind each piece's counts are dumped under its name (instructions.ts). Times would depend on
// how busy the machine is, and instructions depend only on the code. Without valgrind the program
// only runs.
#include <cstdlib>
#include <memory>
#include <vector>

#include <valgrind/callgrind.h>

#include "../native/lanes_stress.hpp"
#include "kernels/kernel.hpp"
#include "rows/row_check.hpp"
#include "rows/rows.hpp"
#include "rows/sampler.hpp"
#include "wait/core_pool.hpp"

using namespace hotslot;
using lanes_stress::Memory;

namespace {

// Number of repetitions. instructions.ts divides every count by it.
constexpr int times = 16;

template <typename Act>
void piece(const char* name, Act&& act) {
  // The first repetition is not counted, because it grows buffers.
  act(0);
  CALLGRIND_ZERO_STATS;
  for (int i = 1; i <= times; ++i) act(i);
  CALLGRIND_DUMP_STATS_AT(name);
}

struct Rows {
  Memory memory;
  rows::Source source;
  Rows(uint32_t capacity, uint32_t row_bytes) : memory(rows::bytes_needed(capacity, row_bytes)) {
    rows::format(memory.data, capacity, row_bytes);
    source = rows::open(memory.data, memory.bytes);
    const std::vector<uint8_t> bytes(uint64_t{capacity} * row_bytes, 1);
    rows::put_rows(source, 0, capacity, bytes.data());
    rows::set_rows(source, capacity);
  }
};

void gathers(const char* name, uint32_t row_bytes, uint64_t count) {
  const uint32_t capacity = 4096;
  const Rows rows(capacity, row_bytes);
  std::vector<uint32_t> indices(count);
  const uint64_t bytes = count * row_bytes;
  Memory out(bytes);
  rows::draw(1, capacity, indices.data(), count);
  piece(name, [&](int) {
    rows::GatherJob job;
    rows::gather(rows.source, job, indices.data(), count, out.data, 0, rows::should_stream(bytes),
                 rows::Hands::one);
  });
}

void adds() {
  const Rows rows(4096, 172);
  const uint64_t count = 16;
  const std::vector<uint8_t> obs(count * 160, 2), action(count * 8, 3), reward(count * 4, 4);
  std::vector<rows::Field> fields = {{obs.data(), nullptr, 0, 160, 160, nullptr},
                                     {action.data(), nullptr, 160, 8, 8, nullptr},
                                     {reward.data(), nullptr, 168, 4, 4, nullptr}};
  const rows::FieldKind looked{4, rows::FloatKind::float32, rows::Role::value};
  rows::RowCheck check({looked, looked, looked});
  piece("add-16-rows", [&](int) {
    rows::RefusedValue value;
    if (!check.look(fields, nullptr, count, value)) std::abort();
    rows::add(rows.source, fields.data(), fields.size(), nullptr, count);
  });
}

void draws() {
  std::vector<uint32_t> indices(4096);
  piece("draw-4096-indices",
        [&](int i) { rows::draw(uint64_t(i), 1'000'003, indices.data(), indices.size()); });
}

void philox() {
  std::vector<float> out(4096);
  int32_t state[4] = {1, 2, 0, 0};
  KernelArgs args{};
  args.pointer[0] = out.data();
  args.pointer[1] = state;
  args.whole[0] = int64_t(out.size());
  args.real[1] = 1;
  const Kernel* kernel = find_kernel("random_uniform");
  if (!kernel) std::abort();
  piece("philox-4096-numbers", [&](int i) {
    state[2] = i;
    kernel->run(&args);
  });
}

// Draws a prioritized batch as pack's thread does, then updates the priorities.
void prioritized() {
  using namespace lanes_stress;
  const Shape shape{8, 4096, 4};
  Buffer buffer(shape);
  Pen pen(buffer.lanes, shape, 0, shape.lanes, 1);
  for (uint64_t i = 0; i < shape.per_lane; ++i) pen.add();
  const uint64_t leaves = shape.lanes * shape.per_lane, count = 256;
  Memory memory(tree_bytes(leaves, shape.lanes));
  PriorityTree::format(memory.data, leaves, shape.lanes, 0.6, 1e-6);
  ViewRule rule;
  Column ids, weights;
  ids.kind = Column::ids;
  weights.kind = Column::weights;
  weights.at = count * 8;
  View view(buffer.lanes, rule, {ids, weights});
  view.follow(std::make_unique<PriorityTree>(memory.data, leaves, shape.lanes));
  Memory out(count * 16);
  Request request;
  request.count = count;
  request.out = out.data;
  request.beta = 0.4;
  std::vector<float> given(count);
  const auto* const drawn = reinterpret_cast<const double*>(out.data);
  // The priorities differ, so that the tree's sums differ.
  for (uint64_t i = 0; i < count; ++i) given[i] = float(i % 17) / 4;
  const auto draw = [&](int i) {
    view.look_around();
    if (view.draw(request, uint64_t(i)) == View::Result::empty ||
        view.gather(0) != View::Result::done)
      std::abort();
  };
  piece("prioritized-256-drawn", draw);
  piece("prioritized-256-updated",
        [&](int) { view.tree()->update(view.drawable(), drawn, given.data(), count); });
  piece("write-8-steps", [&](int) { pen.add(); });
}

}  // namespace

int main() {
  IdleCores::use(CorePool::table_of_process());
  gathers("gather-256-of-172-bytes", 172, 256);
  gathers("gather-1024-of-1720-bytes", 1720, 1024);
  adds();
  draws();
  philox();
  prioritized();
}
