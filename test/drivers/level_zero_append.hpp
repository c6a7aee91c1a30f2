// Calls of the Level Zero software driver that append to a list.
#pragma once
#include "level_zero_queues.hpp"

namespace software {
namespace {

Ref<List> appendable(ze_command_list_handle_t handle) {
  auto list = list_of(handle);
  if (list->immediate() && list->lane->error) refuse(device_lost);
  require(!list->closed, invalid_argument, "an append to a closed list");
  return list;
}
[[noreturn]] void break_recording(Recording& recording, const char* why) {
  recording.broken = why;
  refuse(invalid_argument, why);
}
// Adds a node to the graph of a recording. The list's next node comes after it.
void record(const Ref<List>& list, Work&& work, const std::vector<Ref<Event>>& waits) {
  Recording& recording = *list->recording;
  if (!recording.broken.empty())
    refuse(invalid_argument, "the recording is broken: " + recording.broken);
  auto& after = recording.members[list.get()];
  work.needs = after;
  for (auto& event : waits) {
    if (!event->recorded && !event->pool && !event->point)
      continue;  // an event that was never signaled counts as done
    if (!event->recorded || event->recording.lock() != list->recording)
      break_recording(recording, "a recording waits for what was signalled outside it");
    work.needs.insert(work.needs.end(), event->recorded_after.begin(), event->recorded_after.end());
  }
  if (work.cleared) break_recording(recording, "a recording resets an event");
  const auto signal = std::move(work.signal);
  work.signal.reset();
  after = {uint32_t(recording.nodes.size())};
  if (signal) {
    signal->recorded = true;
    signal->recording = list->recording;
    signal->recorded_after = after;
  }
  recording.nodes.push_back(std::make_shared<Work>(std::move(work)));
}
struct Waits {
  std::vector<Ref<Event>> events;
  Ref<Event> signal;
  Waits(const List& list, ze_event_handle_t signal_handle, uint32_t count,
        ze_event_handle_t* handles) {
    require(count == 0 || handles, invalid_size, "a number of events without events");
    for (uint32_t i = 0; i < count; ++i) events.push_back(event_of(handles[i]));
    if (signal_handle) signal = event_of(signal_handle);
    for (auto& event : events)
      require(event->context == list.context, invalid_argument, "an event of another context");
    if (!signal) return;
    require(signal->context == list.context, invalid_argument, "an event of another context");
    if (signal->pool) return;
    require(list.in_order, invalid_argument,
            "a counter-based event is signalled by in-order lists alone");
    require(signal->counter_flags &
                (list.immediate() ? newer::counter_immediate : newer::counter_regular),
            invalid_argument, "a counter-based event made for the other kind of list");
  }
  // Stores the events in work that runs now, outside a recording.
  void into(Work& work, const List& list) const {
    work.signal = signal;
    work.waits_for_events = !events.empty();
    for (auto& event : events) {
      if (event->recorded)
        refuse(newer::result_capture_unsupported,
               "the event was last signalled inside a recording that is over");
      if (event->pool) {
        work.waits.push_back(event);
        continue;
      }
      // An in-order list is always after its own signals.
      const auto own = [&](auto& earlier) { return earlier->signal == event; };
      if (event->point && std::none_of(list.work.begin(), list.work.end(), own))
        work.points.push_back(event->point);
    }
  }
};
void append(std::unique_lock<std::mutex>& held, const Ref<List>& list, Work&& work,
            const Waits& waits) {
  for (auto& range : work.ranges) within_reach(range, list->device);
  for (auto& event : waits.events)
    if (const auto theirs = event->recorded ? event->recording.lock() : nullptr;
        theirs && theirs->open && !list->recording) {
      // A wait for a recorded event makes the list take part in the recording. It must join back
      // before the recording ends.
      require(list->immediate() && list->in_order, invalid_argument,
              "only in-order immediate lists can be recorded");
      list->recording = theirs;
      theirs->members[list.get()];
    }
  if (list->recording) {
    work.signal = waits.signal;
    record(list, std::move(work), waits.events);
    return;
  }
  waits.into(work, *list);
  const auto shared = std::make_shared<Work>(std::move(work));
  if (!list->immediate()) {
    list->work.push_back(shared);
    return;
  }
  machine().submit(list->lane, list->lane->order, shared);
  after_submit(held, list->lane);
}

ze_result_t zeCommandListAppendBarrier(ze_command_list_handle_t handle, ze_event_handle_t signal,
                                       uint32_t count, ze_event_handle_t* events) {
  return enter_alone("zeCommandListAppendBarrier", Alone(handle), [&](auto& held) {
    const auto list = appendable(handle);
    Work work;
    work.type = Work::barrier;
    append(held, list, std::move(work), Waits(*list, signal, count, events));
  });
}
ze_result_t zeCommandListAppendMemoryRangesBarrier(ze_command_list_handle_t handle, uint32_t ranges,
                                                   const size_t* sizes, const void** memory,
                                                   ze_event_handle_t signal, uint32_t count,
                                                   ze_event_handle_t* events) {
  return enter_alone("zeCommandListAppendMemoryRangesBarrier", Alone(handle), [&](auto& held) {
    const auto list = appendable(handle);
    pointer(sizes), pointer(memory);
    Work work;
    work.type = Work::barrier;
    for (uint32_t i = 0; i < ranges; ++i)
      work.ranges.push_back(machine().range(memory[i], sizes[i], "a barrier's range", true));
    append(held, list, std::move(work), Waits(*list, signal, count, events));
  });
}
ze_result_t zeCommandListAppendMemoryCopy(ze_command_list_handle_t handle, void* to,
                                          const void* from, size_t bytes, ze_event_handle_t signal,
                                          uint32_t count, ze_event_handle_t* events) {
  return enter_alone("zeCommandListAppendMemoryCopy", Alone(handle), [&](auto& held) {
    const auto list = appendable(handle);
    pointer(to), pointer(from);
    require(uintptr_t(to) + bytes <= uintptr_t(from) || uintptr_t(from) + bytes <= uintptr_t(to),
            ZE_RESULT_ERROR_OVERLAPPING_REGIONS, "source and target overlap");
    Work work;
    work.type = Work::copy;
    work.ranges = {machine().range(to, bytes, "a copy's target", true),
                   machine().range(from, bytes, "a copy's source", true)};
    append(held, list, std::move(work), Waits(*list, signal, count, events));
  });
}
ze_result_t zeCommandListAppendMemoryFill(ze_command_list_handle_t handle, void* to,
                                          const void* pattern, size_t pattern_bytes, size_t bytes,
                                          ze_event_handle_t signal, uint32_t count,
                                          ze_event_handle_t* events) {
  return enter_alone("zeCommandListAppendMemoryFill", Alone(handle), [&](auto& held) {
    const auto list = appendable(handle);
    pointer(to), pointer(pattern);
    require(pattern_bytes > 0 && (pattern_bytes & (pattern_bytes - 1)) == 0 &&
                pattern_bytes <= groups[list->ordinal].pattern,
            invalid_size, "a pattern that is no power of two up to what the queue group takes");
    require(bytes % pattern_bytes == 0, invalid_size, "a fill that ends within its pattern");
    Work work;
    work.type = Work::fill;
    work.ranges = {machine().range(to, bytes, "a fill's target", false)};
    memcpy(work.pattern, pattern, pattern_bytes);
    work.pattern_bytes = pattern_bytes;
    append(held, list, std::move(work), Waits(*list, signal, count, events));
  });
}
// Returns the memory of a prefetch or an advice.
Range shared_range(const List& list, const void* memory, size_t bytes, const char* what) {
  pointer(memory);
  require(bytes > 0, invalid_size, "a prefetch of nothing, or an advice about it");
  Range range = machine().range(memory, bytes, what, false);
  require(range.allocation->residence == Residence::shared, invalid_argument,
          "only shared memory moves");
  require(range.allocation->context == list.context, invalid_argument, "memory of another context");
  return range;
}
ze_result_t zeCommandListAppendMemoryPrefetch(ze_command_list_handle_t handle, const void* memory,
                                              size_t bytes) {
  return enter_alone("zeCommandListAppendMemoryPrefetch", Alone(handle), [&](auto& held) {
    const auto list = appendable(handle);
    Work work;
    work.ranges = {shared_range(*list, memory, bytes, "a prefetch")};
    append(held, list, std::move(work), Waits(*list, nullptr, 0, nullptr));
  });
}
ze_result_t zeCommandListAppendMemAdvise(ze_command_list_handle_t handle, ze_device_handle_t device,
                                         const void* memory, size_t bytes,
                                         ze_memory_advice_t advice) {
  return enter_alone("zeCommandListAppendMemAdvise", Alone(handle), [&](auto& held) {
    const auto list = appendable(handle);
    const auto about = device_of(device);
    // This is no complaint, because the caller cannot know which advice a driver accepts.
    if (uint32_t(advice) > (features().minor > 4 ? 9u : 7u)) refuse(invalid_enumeration);
    Work work;
    work.ranges = {shared_range(*list, memory, bytes, "an advice")};
    within_reach(work.ranges[0], about);
    append(held, list, std::move(work), Waits(*list, nullptr, 0, nullptr));
  });
}
ze_result_t zeCommandListAppendSignalEvent(ze_command_list_handle_t handle,
                                           ze_event_handle_t event) {
  return enter_alone("zeCommandListAppendSignalEvent", Alone(handle), [&](auto& held) {
    const auto list = appendable(handle);
    event_of(event);
    append(held, list, Work(), Waits(*list, event, 0, nullptr));
  });
}
ze_result_t zeCommandListAppendWaitOnEvents(ze_command_list_handle_t handle, uint32_t count,
                                            ze_event_handle_t* events) {
  return enter_alone("zeCommandListAppendWaitOnEvents", Alone(handle), [&](auto& held) {
    const auto list = appendable(handle);
    pointer(events);
    Work work;
    work.type = Work::barrier;
    append(held, list, std::move(work), Waits(*list, nullptr, count, events));
  });
}
ze_result_t zeCommandListAppendEventReset(ze_command_list_handle_t handle,
                                          ze_event_handle_t event) {
  return enter_alone("zeCommandListAppendEventReset", Alone(handle), [&](auto& held) {
    const auto list = appendable(handle);
    Work work;
    work.type = Work::reset;
    work.cleared = event_of(event);
    require(work.cleared->pool != nullptr, invalid_argument,
            "a counter-based event is never reset");
    append(held, list, std::move(work), Waits(*list, nullptr, 0, nullptr));
  });
}
ze_result_t zeCommandListAppendWriteGlobalTimestamp(ze_command_list_handle_t handle, uint64_t* to,
                                                    ze_event_handle_t signal, uint32_t count,
                                                    ze_event_handle_t* events) {
  return enter_alone("zeCommandListAppendWriteGlobalTimestamp", Alone(handle), [&](auto& held) {
    const auto list = appendable(handle);
    pointer(to);
    Work work;
    work.type = Work::stamp;
    work.ranges = {machine().range(to, sizeof *to, "a timestamp's target", false)};
    append(held, list, std::move(work), Waits(*list, signal, count, events));
  });
}

}  // namespace
}  // namespace software
