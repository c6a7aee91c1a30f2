// Calls of the Level Zero software driver on events and event pools.
#pragma once
#include "level_zero_memory.hpp"

namespace software {
namespace {

ze_result_t zeEventPoolCreate(ze_context_handle_t context, const ze_event_pool_desc_t* desc,
                              uint32_t count, ze_device_handle_t* devices,
                              ze_event_pool_handle_t* out) {
  return enter("zeEventPoolCreate", [&](auto&) {
    described(desc, ZE_STRUCTURE_TYPE_EVENT_POOL_DESC), pointer(out);
    flags(desc->flags, features().minor > 4 ? 0xf : 0x7);
    require(desc->count > 0, invalid_size, "a pool of no events");
    if (desc->flags & (ZE_EVENT_POOL_FLAG_KERNEL_TIMESTAMP | newer::pool_mapped_timestamp) &&
        !features().timestamps)
      refuse(unsupported_feature);
    for (uint32_t i = 0; devices && i < count; ++i) device_of(devices[i]);
    auto pool = std::make_shared<Pool>(desc->flags, desc->count);
    pool->context = context_of(context);
    give(out, pool);
  });
}
ze_result_t zeEventPoolDestroy(ze_event_pool_handle_t handle) {
  return enter("zeEventPoolDestroy", [&](auto&) {
    const auto pool = machine().find<Pool>(handle, Sort::pool);
    require(std::find(pool->taken.begin(), pool->taken.end(), true) == pool->taken.end(),
            object_in_use, "the pool still has events");
    machine().remove(pool);
  });
}
ze_result_t zeEventCreate(ze_event_pool_handle_t handle, const ze_event_desc_t* desc,
                          ze_event_handle_t* out) {
  return enter("zeEventCreate", [&](auto&) {
    const auto pool = machine().find<Pool>(handle, Sort::pool);
    described(desc, ZE_STRUCTURE_TYPE_EVENT_DESC), pointer(out);
    flags(desc->signal | desc->wait, 0x7);
    require(desc->index < pool->taken.size(), invalid_argument, "an event beyond its pool's end");
    require(!pool->taken[desc->index], invalid_argument, "two live events at one index of a pool");
    auto event = std::make_shared<Event>();
    event->context = pool->context;
    event->pool = pool;
    event->index = desc->index;
    event->signal_scope = desc->signal;
    pool->taken[desc->index] = true;
    give(out, event);
  });
}
ze_result_t create_counter_event(const char* name, ze_context_handle_t context,
                                 ze_device_handle_t device, const newer::CounterEvent* desc,
                                 bool typed, ze_event_handle_t* out) {
  return enter(name, [&](auto&) {
    device_of(device), pointer(desc), pointer(out);
    require(!typed || desc->stype == newer::stype_zex_counter_event, invalid_argument,
            "a structure without its type");
    flags(desc->flags, 0x3f), flags(desc->signal | desc->wait, 0x7);
    if (desc->flags & (newer::counter_timestamp | newer::counter_mapped_timestamp) &&
        !features().timestamps)
      refuse(unsupported_feature);
    auto event = std::make_shared<Event>();
    event->context = context_of(context);
    event->signal_scope = desc->signal;
    event->counter_flags = desc->flags & 3 ? desc->flags : desc->flags | newer::counter_immediate;
    give(out, event);
  });
}
ze_result_t zexCounterBasedEventCreate2(ze_context_handle_t context, ze_device_handle_t device,
                                        const newer::CounterEvent* desc, ze_event_handle_t* out) {
  return create_counter_event("zexCounterBasedEventCreate2", context, device, desc, true, out);
}
ze_result_t zeEventCounterBasedCreate(ze_context_handle_t context, ze_device_handle_t device,
                                      const newer::CounterEvent* desc, ze_event_handle_t* out) {
  return create_counter_event("zeEventCounterBasedCreate", context, device, desc, false, out);
}
ze_result_t zeEventDestroy(ze_event_handle_t handle) {
  return enter("zeEventDestroy", [&](auto&) {
    const auto event = event_of(handle);
    if (event->pool) {
      unused(*event, "an event of a pool");
      event->pool->taken[event->index] = false;
    }
    machine().remove(event);
  });
}
Ref<Event> host_event(const char* name, ze_event_handle_t handle, bool looks) {
  const auto event = event_of(handle);
  require(event->host_visible(), invalid_argument,
          "the host uses an event that is not visible to it");
  if (event->recorded)
    refuse(newer::result_capture_unsupported, "the event was last signalled inside a recording");
  if (looks && !(event->signal_scope & ZE_EVENT_SCOPE_FLAG_HOST))
    Calls::all().complain(name,
                          "the host waits for an event whose signal scope leaves the host out: it "
                          "may not see what was written before");
  return event;
}
bool done(const Event& event, bool& failed) {
  if (event.pool) {
    failed = event.failed;
    return event.signalled;
  }
  failed = event.point && event.point->failed;
  return !event.point || event.point->done;
}
// Reports to the detector that the host knows the event to be done.
void seen(const Event& event) {
  if (!Detector::on()) return;
  if (event.pool)
    machine().detector.seen(event.clock);
  else if (event.point)
    machine().detector.seen(event.point->clock);
}
ze_result_t zeEventQueryStatus(ze_event_handle_t handle) {
  return enter("zeEventQueryStatus", [&](auto&) {
    bool failed;
    const auto event = host_event("zeEventQueryStatus", handle, true);
    if (!done(*event, failed)) return not_ready;
    seen(*event);
    return failed ? device_lost : ZE_RESULT_SUCCESS;
  });
}
ze_result_t zeEventHostSynchronize(ze_event_handle_t handle, uint64_t ns) {
  return enter("zeEventHostSynchronize", [&](auto& held) {
    const auto event = host_event("zeEventHostSynchronize", handle, true);
    bool failed = false;
    event->in_use++;
    const bool over = machine().wait(held, ns, [&] { return done(*event, failed); });
    event->in_use--;
    if (over) seen(*event);
    return !over ? not_ready : failed ? device_lost : ZE_RESULT_SUCCESS;
  });
}
ze_result_t zeEventHostSignal(ze_event_handle_t handle) {
  return enter("zeEventHostSignal", [&](auto&) {
    const auto event = host_event("zeEventHostSignal", handle, false);
    require(event->pool != nullptr, invalid_argument,
            "a counter-based event is signalled by lists alone");
    machine().signal(*event, false, {}, machine().detector.host());
  });
}
ze_result_t zeEventHostReset(ze_event_handle_t handle) {
  return enter("zeEventHostReset", [&](auto&) {
    const auto event = event_of(handle);
    require(event->pool != nullptr, invalid_argument, "a counter-based event is never reset");
    event->signalled = event->failed = event->recorded = false;
  });
}
ze_result_t zeEventQueryKernelTimestamp(ze_event_handle_t handle,
                                        ze_kernel_timestamp_result_t* out) {
  return enter("zeEventQueryKernelTimestamp", [&](auto&) {
    const auto event = host_event("zeEventQueryKernelTimestamp", handle, false);
    pointer(out);
    require(event->timed(), invalid_argument, "the event keeps no timestamps");
    bool failed;
    if (!done(*event, failed)) return not_ready;
    seen(*event);
    const Stamps stamps = event->pool    ? event->stamps
                          : event->point ? event->point->stamps
                                         : Stamps{};
    out->global = out->context = {stamps.begin, stamps.end};
    return failed ? device_lost : ZE_RESULT_SUCCESS;
  });
}

}  // namespace
}  // namespace software
