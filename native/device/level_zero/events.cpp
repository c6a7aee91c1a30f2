// Level Zero's events: creating, reusing and querying them.
#include "device/level_zero/events.hpp"

#include "device/level_zero/device.hpp"

namespace hotslot::level_zero {

// ---- points -------------------------------------------------------------------------------------

Point::~Point() {
  const State last = state();
  driver_.points.give(slot_, last == unarmed   ? Points::clean
                             : last == pending ? Points::unsure
                                               : Points::signalled);
}

Point::State Point::look(Status* failure) {
  const State now = state();
  if (now != pending) return now;
  Status got = ze().zeEventQueryStatus(slot_.event);
  // Queries a second time before the device counts as lost, because memory of a lost device is
  // freed at once. If the first query was wrong, the device could still be using that memory.
  if (lost(got)) got = ze().zeEventQueryStatus(slot_.event);
  if (got == status::not_ready) return pending;
  if (got == status::success) {
    state_.store(done);
    return done;
  }
  if (!lost(got)) {
    // The query itself failed, so nothing is known about the work.
    if (failure) *failure = got;
    return pending;
  }
  why_.store(got);
  state_.store(failed);
  return failed;
}

uint64_t Point::stamp() const {
  Timestamps stamps{};
  const Status got =
      ze().zeEventQueryKernelTimestamp(inner ? inner->event() : slot_.event, &stamps);
  // not_ready for an event in a graph means that a later replay has reset the event. The time of
  // the replay that this point belongs to is then lost.
  if (got == status::not_ready && inner)
    refuse(family_name, "zeEventQueryKernelTimestamp", refusal::not_ready,
           "the event is recorded anew", "wait for it first");
  must("zeEventQueryKernelTimestamp", got);
  return stamps.global_end;
}

Gate::Gate(Driver& driver, bool timed)
    : driver_(driver), slot_(driver.points.slot(nullptr, timed, false)) {}

Gate::~Gate() { driver_.points.give(slot_, Points::signalled); }

// ---- where they come from -----------------------------------------------------------------------

Ref<Point> Points::point(XpuDevice& device, bool timed, bool counter) {
  EventSlot slot = this->slot(&device, timed, counter);
  try {
    return std::make_shared<Point>(driver_, slot);
  } catch (...) {
    give(slot, clean);
    throw;
  }
}

EventSlot Points::slot(XpuDevice* device, bool timed, bool counter) {
  const ContextHandle context = driver_.context();
  std::lock_guard guard(lock_);
  Kind& kind = kinds_[timed][counter];
  if (kind.free.empty()) settle(kind);
  if (!kind.free.empty()) {
    const EventSlot slot = kind.free.back();
    kind.free.pop_back();
    return slot;
  }
  // Reserves room for every event, so that give() allocates nothing.
  kind.free.reserve(kind.made + 1), kind.rest.reserve(kind.made + 1);
  if (!counter) return fresh(timed);
  CounterEventDesc desc{};
  desc.type = Type::zex_counter_based_event_desc;
  desc.flags = counter_immediate | counter_host_visible | (timed ? uint32_t(counter_timestamp) : 0);
  desc.signal = desc.wait = scope_host;
  EventSlot slot{nullptr, timed, true, nullptr, 0};
  if (driver_.newer.zexCounterBasedEventCreate2)
    HOTSLOT_ZE_NEWER(driver_, zexCounterBasedEventCreate2, context, device->handle, &desc,
                     &slot.event);
  else
    HOTSLOT_ZE_NEWER(driver_, zeEventCounterBasedCreate, context, device->handle, &desc,
                     &slot.event);
  kind.made++;
  return slot;
}

// Returns an unused event of a pool, or the first event of a new pool. The caller holds the lock,
// as for settle() and trim(Kind&).
EventSlot Points::fresh(bool timed) {
  auto& pools = kinds_[timed][false].pools;
  auto pool = pools.begin();
  while (pool != pools.end() && pool->taken == ~uint64_t(0)) ++pool;
  if (pool == pools.end()) {
    static_assert(pool_events == 64, "a bit each");
    PoolDesc desc{};
    desc.type = Type::event_pool_desc;
    desc.flags = pool_host_visible | (timed ? uint32_t(pool_kernel_timestamp) : 0);
    desc.count = pool_events;
    PoolHandle handle = nullptr;
    // The pool is for every device of the driver, because streams of one device wait for events of
    // the others.
    HOTSLOT_ZE(zeEventPoolCreate, driver_.context(), &desc, 0, nullptr, &handle);
    pools.push_back({handle, 0});
    pool = pools.end() - 1;
  }
  EventDesc desc{};
  desc.type = Type::event_desc;
  while (pool->taken >> desc.index & 1) desc.index++;
  // scope_host: the host can read the writes of earlier work as soon as it sees the event.
  desc.signal = desc.wait = scope_host;
  EventSlot slot{nullptr, timed, false, pool->handle, desc.index};
  HOTSLOT_ZE(zeEventCreate, pool->handle, &desc, &slot.event);
  pool->taken |= uint64_t(1) << desc.index;
  kinds_[timed][false].made++;
  return slot;
}

// Makes events free again. It resets events whose signal came late, and events that could not be
// reset before.
void Points::settle(Kind& kind) {
  for (size_t i = kind.rest.size(); i-- > 0;) {
    auto& [slot, left] = kind.rest[i];
    if (left == unsure && ze().zeEventQueryStatus(slot.event) == status::not_ready) continue;
    if (ze().zeEventHostReset(slot.event) != status::success) continue;
    kind.free.push_back(slot);
    kind.rest.erase(kind.rest.begin() + long(i));
  }
}

// Frees the free events and the empty pools. Objects that the driver fails to free stay in the
// lists. The caller holds the lock.
void Points::trim(Kind& kind) {
  const auto taken = [](const char* call, auto function, auto handle) {
    return offer_twice([&] { must_take(call, function(handle)); });
  };
  settle(kind);
  size_t kept = 0;
  for (size_t i = 0; i < kind.free.size(); ++i) {
    const EventSlot slot = kind.free[i];
    if (!taken("zeEventDestroy", ze().zeEventDestroy, slot.event)) {
      kind.free[kept++] = slot;
      continue;
    }
    kind.made--;
    for (auto& pool : kind.pools)
      if (pool.handle == slot.pool) pool.taken &= ~(uint64_t(1) << slot.index);
  }
  kind.free.resize(kept);
  for (size_t i = kind.pools.size(); i-- > 0;) {
    const Pool& pool = kind.pools[i];
    if (pool.taken == 0 && taken("zeEventPoolDestroy", ze().zeEventPoolDestroy, pool.handle))
      kind.pools.erase(kind.pools.begin() + long(i));
  }
}

void Points::trim() {
  std::lock_guard guard(lock_);
  for (auto& kinds : kinds_)
    for (auto& kind : kinds) trim(kind);
}

void Points::give(EventSlot slot, Left left) {
  if (!slot.event) return;
  // Counter-based events need no reset.
  if (slot.counter) left = clean;
  if (left == signalled && ze().zeEventHostReset(slot.event) == status::success) left = clean;
  std::lock_guard guard(lock_);
  Kind& kind = kinds_[slot.timed][slot.counter];
  if (left == clean)
    kind.free.push_back(slot);
  else
    kind.rest.emplace_back(slot, left);
}

}  // namespace hotslot::level_zero
