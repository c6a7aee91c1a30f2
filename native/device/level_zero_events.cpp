// Level Zero's events: where they come from, when one may be used again, what they say.
#include "device/level_zero.hpp"

namespace hotslot::level_zero {
namespace {

constexpr uint32_t pool_events = 64;

}  // namespace

// ---- points ----------------------------------------------------------------------------------------------------------

Point::~Point() {
  const State last = state();
  driver_.points.give(slot_, last == unarmed ? Points::clean : last == pending ? Points::unsure : Points::signalled);
}

Point::State Point::look(Status* odd) {
  const State now = state();
  if (now != pending) return now;
  Status got = ze().zeEventQueryStatus(slot_.event);
  // Asked twice: whoever believes that a device is lost frees what it may still be using.
  if (lost(got)) got = ze().zeEventQueryStatus(slot_.event);
  if (got == status::not_ready) return pending;
  if (got == status::success) {
    state_.store(done);
    return done;
  }
  if (!lost(got)) {
    // The question failed, which says nothing about the work.
    if (odd) *odd = got;
    return pending;
  }
  why_.store(got);
  state_.store(failed);
  return failed;
}

uint64_t Point::stamp() const {
  Timestamps stamps{};
  HOTSLOT_ZE(zeEventQueryKernelTimestamp, inner ? inner->event() : slot_.event, &stamps);
  return stamps.global_end;
}

Gate::Gate(Driver& driver, bool timed) : driver_(driver), slot_(driver.points.slot(nullptr, timed, false)) {}

Gate::~Gate() { driver_.points.give(slot_, Points::signalled); }

// ---- where they come from --------------------------------------------------------------------------------------------

Ref<Point> Points::point(XpuDevice& device, bool timed, bool counter) {
  Slot slot = this->slot(&device, timed, counter);
  try {
    return std::make_shared<Point>(driver_, slot);
  } catch (...) {
    give(slot, clean);
    throw;
  }
}

Slot Points::slot(XpuDevice* device, bool timed, bool counter) {
  const ContextHandle context = driver_.context();
  std::lock_guard guard(lock_);
  Kind& kind = kinds_[timed][counter];
  if (kind.free.empty())
    for (size_t i = kind.unsure.size(); i-- > 0;) {
      const EventHandle event = kind.unsure[i].event;
      if (ze().zeEventQueryStatus(event) != status::success || ze().zeEventHostReset(event) != status::success) continue;
      kind.free.push_back(kind.unsure[i]);
      kind.unsure.erase(kind.unsure.begin() + long(i));
    }
  if (!kind.free.empty()) {
    const Slot slot = kind.free.back();
    kind.free.pop_back();
    return slot;
  }
  if (!counter) return fresh(timed);
  CounterEventDesc desc{};
  desc.type = Type::zex_counter_based_event_desc;
  desc.flags = counter_immediate | counter_host_visible | (timed ? uint32_t(counter_timestamp) : 0);
  desc.signal = desc.wait = scope_host;
  Slot slot{nullptr, timed, true};
  if (driver_.newer.zexCounterBasedEventCreate2) HOTSLOT_ZE_NEWER(driver_, zexCounterBasedEventCreate2, context, device->handle, &desc, &slot.event);
  else HOTSLOT_ZE_NEWER(driver_, zeEventCounterBasedCreate, context, device->handle, &desc, &slot.event);
  return slot;
}

// Under the lock: the next event of the newest pool, or the first of another one.
Slot Points::fresh(bool timed) {
  Kind& kind = kinds_[timed][false];
  if (!kind.pool || kind.used == pool_events) {
    PoolDesc desc{};
    desc.type = Type::event_pool_desc;
    desc.flags = pool_host_visible | (timed ? uint32_t(pool_kernel_timestamp) : 0);
    desc.count = pool_events;
    PoolHandle pool = nullptr;
    // For every device of the driver: streams of one wait for another's.
    must("zeEventPoolCreate", ze().zeEventPoolCreate(driver_.context(), &desc, 0, nullptr, &pool));
    kind.pool = pool;
    kind.used = 0;
  }
  EventDesc desc{};
  desc.type = Type::event_desc;
  desc.index = kind.used;
  // The host may read what the work before it wrote as soon as it sees the event.
  desc.signal = desc.wait = scope_host;
  Slot slot{nullptr, timed, false};
  HOTSLOT_ZE(zeEventCreate, kind.pool, &desc, &slot.event);
  kind.used++;
  return slot;
}

void Points::give(Slot slot, Left left) {
  if (!slot.event) return;
  // Counter-based ones need no reset, whatever they were used for last.
  if (slot.counter) left = clean;
  if (left == signalled && ze().zeEventHostReset(slot.event) == status::success) left = clean;
  std::lock_guard guard(lock_);
  Kind& kind = kinds_[slot.timed][slot.counter];
  (left == clean ? kind.free : kind.unsure).push_back(slot);
}

}  // namespace hotslot::level_zero
