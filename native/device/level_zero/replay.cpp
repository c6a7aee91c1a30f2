// Runs a graph on a stream: a recorded graph or a closed list, with the events that it signals
// inside.
#include "device/level_zero/graph.hpp"

namespace hotslot::level_zero {

// Runs a graph on the compute engine. Its events are reset after all earlier work, including the
// relays of its last run. A list that cannot be appended runs on its own queue: it waits for `go`,
// which the stream signals when it has reached this point, and the stream waits for `end`. A list
// next to the stream relays the graph's records to fresh points. So other streams can continue
// before the graph ends, and no later run can reset their record.
void Queue::replay(GraphRun& run, const std::vector<Memory*>& lent,
                   const std::vector<Ref<Point>>& earlier, Ref<Point>& over,
                   std::vector<Ref<Point>>& relays) {
  std::lock_guard guard(lock_);
  // Under the lock, as in issue().
  for (const Memory* memory : lent)
    if (memory->revoked.load())
      refuse(family_name, "graphLaunch", {int(status::invalid_argument), "INVALID_ARGUMENT"},
             lender_gone, keep_the_lender);
  sweep(relays_, SIZE_MAX);
  // Another stream's failure does not fail this stream.
  for (auto& point : earlier)
    if (point->look() == Point::pending) pending_.push_back({point, false});
  const bool beside = run.go != nullptr;
  Ref<Point> renewed;
  if (beside || !run.records.empty()) renewed = renew(run);
  if (beside) {
    run_beside(run, over);
  } else {
    over = append(compute, false, ahead(compute), nullptr,
                  [&](ListHandle list, EventHandle signal, uint32_t count, EventHandle* events) {
                    Driver& driver = device.driver;
                    if (run.executable)
                      HOTSLOT_ZE_NEWER(driver, zeCommandListAppendGraphExt, list, run.executable,
                                       nullptr, signal, count, events);
                    else if (run.list)
                      HOTSLOT_ZE_NEWER(driver, zeCommandListImmediateAppendCommandListsExp, list, 1,
                                       &run.list, signal, count, events);
                    else
                      HOTSLOT_ZE(zeCommandListAppendBarrier, list, signal, count, events);
                  });
  }
  for (auto& gate : run.records) {
    // The first waits until the event was reset, because the last run's signal would count
    // otherwise. Then they follow one after the other, like the records.
    std::vector<Ref<Point>> waits{relays.empty() ? renewed : relays.back()};
    relays.push_back(barrier(relay, false, std::move(waits), gate->event()));
    relays.back()->inner = gate;
  }
  // Later work of the stream also waits for the events of the graph.
  if (!relays.empty()) pending_.push_back({relays.back(), false});
}

// Resets the graph's events. Returns the point after which they are unsignaled.
Ref<Point> Queue::renew(GraphRun& run) {
  barrier(compute, false, ahead(compute));
  for (auto& gate : run.records)
    HOTSLOT_ZE(zeCommandListAppendEventReset, list(compute), gate->event());
  if (run.end) HOTSLOT_ZE(zeCommandListAppendEventReset, list(compute), run.end->event());
  // Without events a barrier waits for everything appended before it.
  return barrier(compute, false, {});
}

void Queue::run_beside(GraphRun& run, Ref<Point>& over) {
  if (!queue_) {
    QueueDesc desc{Type::command_queue_desc, nullptr,         device.compute.ordinal, 0, 0,
                   QueueMode::asynchronous,  Priority::normal};
    HOTSLOT_ZE(zeCommandQueueCreate, device.driver.context(), device.handle, &desc, &queue_);
  }
  HOTSLOT_ZE(zeCommandListAppendBarrier, list(compute), run.go->event(), 0, nullptr);
  const Status got = ze().zeCommandQueueExecuteCommandLists(queue_, 1, &run.list, nullptr);
  // `end` follows all earlier work. Without events a barrier waits for everything in the list.
  const auto last = [&] {
    return barrier(compute, false, {}, got == status::success ? run.end->event() : nullptr);
  };
  try {
    over = last();
  } catch (const Error&) {
    // A point has to follow the appended work, even if this call fails.
    run.broken = true;
    over = last();
    throw;
  }
  if (got == status::success) return;
  // `go` was signaled without a run, so the list would start too early the next time.
  run.broken = true;
  note(got);
  fail("zeCommandQueueExecuteCommandLists", got);
}

}  // namespace hotslot::level_zero
