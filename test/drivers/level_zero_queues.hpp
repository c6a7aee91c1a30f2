// Calls of the Level Zero software driver on queues, fences and whole lists.
#pragma once
#include "level_zero_events.hpp"

namespace software {
namespace {

void group_of(uint32_t ordinal, uint32_t index, uint32_t queue_flags) {
  require(ordinal < group_count && index < groups[ordinal].queues, invalid_argument,
          "a queue group or an index that the device does not have");
  require(index == 0 || queue_flags & ZE_COMMAND_QUEUE_FLAG_EXPLICIT_ONLY, invalid_argument,
          "an index other than 0 needs the flag EXPLICIT_ONLY");
}
void set_up(Lane& lane, const ze_command_queue_desc_t& desc, const Ref<Device>& device) {
  flags(desc.flags,
        ZE_COMMAND_QUEUE_FLAG_EXPLICIT_ONLY |
            (features().in_order ? newer::queue_in_order | newer::queue_copy_offload_hint : 0));
  require(desc.mode <= ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS &&
              desc.priority <= ZE_COMMAND_QUEUE_PRIORITY_PRIORITY_HIGH,
          invalid_enumeration, "an unknown mode or priority");
  group_of(desc.ordinal, desc.index, desc.flags);
  lane.order.in_order = desc.flags & newer::queue_in_order;
  lane.synchronous = desc.mode == ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS;
  lane.device = device;
  lane.ordinal = desc.ordinal;
}
void idle(const Ref<Lane>& lane, const char* what) {
  require(machine().idle(*lane), object_in_use, what);
}
ze_result_t zeCommandQueueCreate(ze_context_handle_t context, ze_device_handle_t device,
                                 const ze_command_queue_desc_t* desc,
                                 ze_command_queue_handle_t* out) {
  return enter("zeCommandQueueCreate", [&](auto&) {
    described(desc, ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC), pointer(out);
    auto queue = std::make_shared<Queue>();
    queue->context = context_of(context);
    set_up(*queue->lane, *desc, device_of(device));
    give(out, queue);
  });
}
Ref<Queue> queue_of(ze_command_queue_handle_t handle) {
  return machine().find<Queue>(handle, Sort::queue);
}
ze_result_t zeCommandQueueDestroy(ze_command_queue_handle_t handle) {
  return enter("zeCommandQueueDestroy", [&](auto&) {
    const auto queue = queue_of(handle);
    idle(queue->lane, "the queue is destroyed with work on it");
    require(queue->fences == 0, object_in_use, "the queue still has fences");
    machine().remove(queue);
  });
}
ze_result_t zeCommandQueueSynchronize(ze_command_queue_handle_t handle, uint64_t ns) {
  return enter("zeCommandQueueSynchronize",
               [&](auto& held) { return machine().synchronize(held, queue_of(handle)->lane, ns); });
}

// Checks that everything the work refers to still exists when a list or graph runs.
void alive(const Work& work) {
  for (auto& range : work.ranges)
    require(!range.allocation || range.allocation->live, invalid_argument,
            "it refers to memory that is freed");
  for (auto& event : work.waits)
    require(event->live, invalid_argument, "it waits for an event that is destroyed");
  for (auto& event : {work.signal, work.cleared})
    require(!event || event->live, invalid_argument,
            "it signals or resets an event that is destroyed");
  require(!work.launched || work.launched->live, invalid_argument,
          "it launches a kernel that is destroyed");
}
Ref<Run> run_of(const Ref<List>& list, const Ref<Lane>& lane) {
  auto run = std::make_shared<Run>();
  // Runs of one list on one queue come one after another.
  if (list->latest && list->latest->lane == lane.get()) run->clock = list->latest->clock;
  run->of = list;
  run->active = &list->active;
  run->pending = &list->pending;
  return run;
}
// Checks that the list may run on this lane now. Returns the end of its last run, which the new run
// comes after, or null.
Ref<Op> may_run(const List& list, const Ref<Lane>& lane, const Ref<Context>& context,
                bool chained_by_caller) {
  require(!list.immediate(), ZE_RESULT_ERROR_INVALID_COMMAND_LIST_TYPE,
          "an immediate list is not executed");
  require(list.closed, invalid_argument, "a list is executed before it is closed");
  require(list.ordinal == lane->ordinal, ZE_RESULT_ERROR_INVALID_COMMAND_LIST_TYPE,
          "a list of another queue group");
  require(list.device == lane->device && list.context == context, invalid_argument,
          "a list of another device or context");
  for (auto& work : list.work) alive(*work);
  if (!list.pending) return nullptr;
  if (list.latest->lane == lane.get()) return list.latest->end;
  require(chained_by_caller, object_in_use, "a list is executed while it is on another queue");
  return nullptr;
}
void after_submit(std::unique_lock<std::mutex>& held, const Ref<Lane>& lane) {
  if (lane->synchronous) machine().synchronize(held, lane, ~uint64_t(0));
}
ze_result_t zeCommandQueueExecuteCommandLists(ze_command_queue_handle_t handle, uint32_t count,
                                              ze_command_list_handle_t* lists,
                                              ze_fence_handle_t fence_handle) {
  return enter("zeCommandQueueExecuteCommandLists", [&](auto& held) {
    const auto queue = queue_of(handle);
    const auto& lane = queue->lane;
    require(count > 0, invalid_size, "no lists");
    pointer(lists);
    Ref<Fence> fence;
    if (fence_handle) {
      fence = machine().find<Fence>(fence_handle, Sort::fence);
      require(fence->queue == queue, invalid_argument, "a fence of another queue");
      require(!fence->submitted, ZE_RESULT_ERROR_INVALID_SYNCHRONIZATION_OBJECT,
              "a fence is used again without a reset");
    }
    if (lane->error) refuse(device_lost);
    for (uint32_t i = 0; i < count; ++i) may_run(*list_of(lists[i]), lane, queue->context, false);
    const auto nothing = std::make_shared<Work>();
    for (uint32_t i = 0; i < count; ++i) {
      const auto list = list_of(lists[i]);
      const auto previous = may_run(*list, lane, queue->context, false);
      list->latest = run_of(list, lane);
      machine().submit_run(lane, list->latest, list->work, list->in_order, nothing, nothing,
                           previous);
    }
    if (fence) {
      fence->submitted = true;
      const auto op = machine().submit(lane, lane->order, nothing, nullptr,
                                       std::vector<Ref<Op>>(lane->pending.list));
      op->fence = fence;
      op->clock.join(lane->done);
    }
    after_submit(held, lane);
  });
}
ze_result_t zeFenceCreate(ze_command_queue_handle_t handle, const ze_fence_desc_t* desc,
                          ze_fence_handle_t* out) {
  return enter("zeFenceCreate", [&](auto&) {
    const auto queue = queue_of(handle);
    described(desc, ZE_STRUCTURE_TYPE_FENCE_DESC), pointer(out),
        flags(desc->flags, ZE_FENCE_FLAG_SIGNALED);
    auto fence = std::make_shared<Fence>();
    fence->context = queue->context;
    fence->queue = queue;
    fence->signalled = fence->submitted = desc->flags & ZE_FENCE_FLAG_SIGNALED;
    queue->fences++;
    give(out, fence);
  });
}
Ref<Fence> fence_of(ze_fence_handle_t handle) { return machine().find<Fence>(handle, Sort::fence); }
ze_result_t zeFenceDestroy(ze_fence_handle_t handle) {
  return enter("zeFenceDestroy", [&](auto&) {
    const auto fence = fence_of(handle);
    require(!fence->submitted || fence->signalled, object_in_use,
            "the fence is destroyed before it is signalled");
    fence->queue->fences--;
    machine().remove(fence);
  });
}
ze_result_t zeFenceHostSynchronize(ze_fence_handle_t handle, uint64_t ns) {
  return enter("zeFenceHostSynchronize", [&](auto& held) {
    const auto fence = fence_of(handle);
    if (!machine().wait(held, ns, [&] { return fence->signalled; })) return not_ready;
    if (Detector::on()) machine().detector.seen(fence->clock);
    return fence->failed ? device_lost : ZE_RESULT_SUCCESS;
  });
}
ze_result_t zeFenceQueryStatus(ze_fence_handle_t handle) {
  return enter("zeFenceQueryStatus", [&](auto&) {
    const auto fence = fence_of(handle);
    if (fence->signalled && Detector::on()) machine().detector.seen(fence->clock);
    return !fence->signalled ? not_ready : fence->failed ? device_lost : ZE_RESULT_SUCCESS;
  });
}
ze_result_t zeFenceReset(ze_fence_handle_t handle) {
  return enter("zeFenceReset", [&](auto&) {
    const auto fence = fence_of(handle);
    require(!fence->submitted || fence->signalled, object_in_use,
            "the fence is reset before it is signalled");
    fence->signalled = fence->failed = fence->submitted = false;
  });
}

ze_result_t zeCommandListCreate(ze_context_handle_t context, ze_device_handle_t device,
                                const ze_command_list_desc_t* desc, ze_command_list_handle_t* out) {
  return enter("zeCommandListCreate", [&](auto&) {
    described(desc, ZE_STRUCTURE_TYPE_COMMAND_LIST_DESC), pointer(out);
    flags(desc->flags, 0x7 | (features().in_order ? newer::list_in_order : 0));
    group_of(desc->commandQueueGroupOrdinal, 0, 0);
    auto list = std::make_shared<List>();
    list->context = context_of(context);
    list->device = device_of(device);
    list->ordinal = desc->commandQueueGroupOrdinal;
    list->in_order = desc->flags & newer::list_in_order;
    give(out, list);
  });
}
ze_result_t zeCommandListCreateImmediate(ze_context_handle_t context, ze_device_handle_t device,
                                         const ze_command_queue_desc_t* desc,
                                         ze_command_list_handle_t* out) {
  return enter("zeCommandListCreateImmediate", [&](auto&) {
    described(desc, ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC), pointer(out);
    auto list = std::make_shared<List>();
    list->context = context_of(context);
    list->device = device_of(device);
    list->lane = std::make_shared<Lane>();
    set_up(*list->lane, *desc, list->device);
    list->ordinal = desc->ordinal;
    list->in_order = list->lane->order.in_order;
    give(out, list);
  });
}
ze_result_t zeCommandListDestroy(ze_command_list_handle_t handle) {
  return enter_alone("zeCommandListDestroy", Alone(handle), [&](auto&) {
    const auto list = list_of(handle);
    require(!list->recording, object_in_use, "the list is destroyed while it records");
    if (list->immediate()) idle(list->lane, "the list is destroyed with work on it");
    unused(*list, "a list");
    machine().remove(list);
  });
}
Ref<List> regular(ze_command_list_handle_t handle) {
  auto list = list_of(handle);
  require(!list->immediate(), invalid_argument, "an immediate list is neither closed nor reset");
  return list;
}
ze_result_t zeCommandListClose(ze_command_list_handle_t handle) {
  return enter_alone("zeCommandListClose", Alone(handle), [&](auto&) {
    const auto list = regular(handle);
    require(!list->closed, invalid_argument, "the list is closed already");
    list->closed = true;
  });
}
ze_result_t zeCommandListReset(ze_command_list_handle_t handle) {
  return enter_alone("zeCommandListReset", Alone(handle), [&](auto&) {
    const auto list = regular(handle);
    require(list->pending == 0, object_in_use, "the list is reset while it runs");
    list->work.clear();
    list->closed = false;
  });
}
ze_result_t zeCommandListHostSynchronize(ze_command_list_handle_t handle, uint64_t ns) {
  return enter("zeCommandListHostSynchronize", [&](auto& held) {
    const auto list = list_of(handle);
    require(list->immediate(), invalid_argument, "only an immediate list can be waited for");
    if (list->recording)
      refuse(newer::result_capture_unsupported, "the host waits for a list that records");
    return machine().synchronize(held, list->lane, ns);
  });
}

}  // namespace
}  // namespace software
