// Runs a graph on a stream, either as a recorded graph or as a closed list. A list also signals the
// events that the graph records.
#include "device/level_zero/graph.hpp"

namespace hotslot::level_zero {

// Runs a graph on the compute engine. The graph's events are reset first, after all earlier work
// and after the relays of the graph's last run.
//
// If a list cannot be appended, it runs on a queue of its own, next to the stream. Such a list
// waits for `go`, which the stream signals when it reaches this replay. The stream then waits for
// `end`.
//
// For each record of the graph, a separate list (the relay) signals a fresh point. So other streams
// can continue before the graph ends, and no later run can reset the point for which they wait.
void Queue::replay(GraphRun& run, const std::vector<Memory*>& lent,
                   const std::vector<Ref<Point>>& earlier, Ref<Point>& over,
                   std::vector<Ref<Point>>& relays) {
  std::lock_guard guard(lock_);
  // This thread holds the queue's lock during this check, for the reason given in issue().
  for (const Memory* memory : lent)
    if (memory->revoked.load())
      refuse(family_name, "graphLaunch", {int(status::invalid_argument), "INVALID_ARGUMENT"},
             lender_gone, keep_the_lender);
  sweep(relays_, SIZE_MAX);
  // Leaves out points that have failed, so that a failure of another stream does not affect this
  // stream.
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
    // The first relay point waits until the events were reset, because otherwise the last run's
    // signal would count. Each further relay point waits for the one before it, because the records
    // are in this order too.
    std::vector<Ref<Point>> waits{relays.empty() ? renewed : relays.back()};
    relays.push_back(barrier(relay, false, std::move(waits), gate->event()));
    relays.back()->inner = gate;
  }
  // Later work of the stream also waits for the relay.
  if (!relays.empty()) pending_.push_back({relays.back(), false});
}

// Resets the graph's events. Returns the point after which they are not signaled.
Ref<Point> Queue::renew(GraphRun& run) {
  barrier(compute, false, ahead(compute));
  for (auto& gate : run.records)
    HOTSLOT_ZE(zeCommandListAppendEventReset, list(compute), gate->event());
  if (run.end) HOTSLOT_ZE(zeCommandListAppendEventReset, list(compute), run.end->event());
  // A barrier without events waits for everything that was appended before it.
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
  // The barrier waits for all work in the stream's own list, and for `end`, which the graph's list
  // signals last.
  const auto last = [&] {
    return barrier(compute, false, {}, got == status::success ? run.end->event() : nullptr);
  };
  try {
    over = last();
  } catch (const Error&) {
    // A point must follow the appended work even if this call fails. Otherwise memory that the
    // graph touches could be freed too early.
    run.broken = true;
    over = last();
    throw;
  }
  if (got == status::success) return;
  // `go` was signaled, but the list does not run and so does not reset it. If the list ran later,
  // it would start too early.
  run.broken = true;
  note(got);
  fail("zeCommandQueueExecuteCommandLists", got);
}

}  // namespace hotslot::level_zero
