// Properties of a queue's operations, which the executor reads.
#include "device/host/stream.hpp"
#include "wait/bell.hpp"

namespace hotslot::host {
namespace {

constexpr uint64_t long_graph_ns = 200'000;
constexpr size_t long_copy_bytes = 512 << 10;

}  // namespace

void Point::finish(const char* failed) {
  error = failed;
  time_ns = now_ns();
  done.store(true);
}

bool Op::may_take_long() const {
  if (type == graph) {
    const uint64_t last = program->last_run_ns.load();
    return last == 0 || last > long_graph_ns || program->may_hold;
  }
  return type == node && (work->type == Node::kernel || work->type == Node::guarded ||
                          work->bytes > long_copy_bytes);
}

bool Op::for_pool() const {
  if (type == graph) return program->may_hold;
  return type == node && work->may_hold;
}

void Op::settle(const char* failed) const {
  for (auto& each : points)
    if (!each->done.load()) each->finish(failed);
}

const char* revoked(const std::vector<Memory*>& lent) {
  for (const Memory* memory : lent)
    if (memory->revoked.load()) return lender_gone;
  return nullptr;
}

const char* revoked(const std::vector<Ref<Object>>& keep) {
  for (auto& object : keep)
    if (object->kind == Kind::memory && static_cast<Memory&>(*object).revoked.load())
      return lender_gone;
  return nullptr;
}

}  // namespace hotslot::host
