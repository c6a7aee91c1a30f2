// Level Zero's graphs. If the device supports recorded graphs, instantiation records the captured
// work as a graph of the driver. Otherwise it appends the work to a command list, in the order in
// which the work was enqueued, and closes the list.
//
// Work that records events always becomes a command list. Other streams wait for these events, and
// cannot wait for the signals of a recorded graph.
#include "device/level_zero/graph.hpp"

#include <algorithm>

namespace hotslot::level_zero {

GraphRun::~GraphRun() {
  Driver& driver = device.driver;
  if (list) driver.take_back("zeCommandListDestroy", ze().zeCommandListDestroy, list);
  if (executable)
    driver.take_back("zeExecutableGraphDestroyExt", driver.newer.zeExecutableGraphDestroyExt,
                     executable);
  if (graph) driver.take_back("zeGraphDestroyExt", driver.newer.zeGraphDestroyExt, graph);
}

Program::Program(XpuDevice& device, Ref<Capture> source)
    : device(device), capture(std::move(source)), lent(capture->lent()) {
  for (auto& work : capture->nodes)
    if (work.type == Work::record) events.push_back(work.event);
  runs.push_back(build());
}

Ref<GraphRun> Program::build() const {
  auto run = std::make_shared<GraphRun>(device);
  if (capture->nodes.empty()) return run;
  if (!device.graphs || !events.empty() || !record_graph(*run)) fill_list(*run);
  return run;
}

// Records the work as a graph of the driver. Returns false if the driver lacks graphs although it
// lists them.
bool Program::record_graph(GraphRun& run) const {
  Driver& driver = device.driver;
  std::lock_guard guard(device.record_lock);
  if (!device.record_list) device.record_list = device.immediate_list(device.compute, 0, true);
  const Status begun = driver.newer.zeCommandListBeginGraphCaptureExt(device.record_list, nullptr);
  if (unsupported(begun)) return false;
  must("zeCommandListBeginGraphCaptureExt", begun);
  // Ends the capture of the list, which must end even after an error. If the driver fails twice to
  // end it, the list is stored until a later attempt succeeds.
  const auto end = [&] {
    const auto call = driver.newer.zeCommandListEndGraphCaptureExt;
    const Status ended = call(device.record_list, nullptr, &run.graph);
    if (ended == status::success ||
        call(device.record_list, nullptr, &run.graph) == status::success)
      return ended;
    driver.unreturned.keep(
        [&device = device, call, list = std::exchange(device.record_list, nullptr)] {
          GraphHandle graph = nullptr;
          must_take("zeCommandListEndGraphCaptureExt", call(list, nullptr, &graph));
          Driver& driver = device.driver;
          if (graph) driver.take_back("zeGraphDestroyExt", driver.newer.zeGraphDestroyExt, graph);
          std::lock_guard guard(device.record_lock);
          if (!device.record_list)
            device.record_list = list;
          else
            driver.take_back("zeCommandListDestroy", ze().zeCommandListDestroy, list);
        });
    return ended;
  };
  try {
    for (auto& work : capture->nodes) device.append(device.record_list, work, nullptr, 0, nullptr);
  } catch (...) {
    end();
    throw;
  }
  must("zeCommandListEndGraphCaptureExt", end());
  HOTSLOT_ZE_NEWER(driver, zeGraphInstantiateExt, run.graph, nullptr, &run.executable);
  return true;
}

// Appends the work to a list in the order of the capture. A barrier before each operation makes
// branches run one after the other.
//
// The list is not an in-order list. Intel's driver renumbers the waits inside an in-order list at
// every submission. If an earlier run of the list is running, its waits would change too.
void Program::fill_list(GraphRun& run) const {
  Driver& driver = device.driver;
  const ListDesc desc{Type::command_list_desc, nullptr, device.compute.ordinal, 0};
  HOTSLOT_ZE(zeCommandListCreate, driver.context(), device.handle, &desc, &run.list);
  const ListHandle list = run.list;
  if (!driver.lists_append) {
    run.go = std::make_unique<Gate>(driver, false);
    run.end = std::make_unique<Gate>(driver, false);
    EventHandle go = run.go->event();
    HOTSLOT_ZE(zeCommandListAppendBarrier, list, nullptr, 1, &go);
    HOTSLOT_ZE(zeCommandListAppendEventReset, list, go);
  }
  for (auto& work : capture->nodes) {
    HOTSLOT_ZE(zeCommandListAppendBarrier, list, nullptr, 0, nullptr);
    EventHandle signal = nullptr;
    if (work.type == Work::record) {
      const bool timed = work.event->timing && device.timing;
      signal = run.records.emplace_back(std::make_shared<Gate>(driver, timed))->event();
    }
    device.append(list, work, signal, 0, nullptr);
  }
  if (run.end) HOTSLOT_ZE(zeCommandListAppendBarrier, list, run.end->event(), 0, nullptr);
  HOTSLOT_ZE(zeCommandListClose, list);
}

// Returns a run for a queue. A run with `go` stays with the first queue that used it, because no
// other stream may use the run's list while the list runs.
Ref<GraphRun> Program::run_for(const Ref<Queue>& queue) {
  for (size_t i = runs.size(); i-- > 0;) {
    auto& run = runs[i];
    if (!run->broken && !(run->assigned && run->queue.expired())) continue;
    // The run may still be running, so it is retired.
    Retired::Reservation place;
    device.driver.retired.add(std::move(place), [old = std::move(run)] {});
    runs.erase(runs.begin() + long(i));
  }
  for (auto& run : runs)
    if (!run->go || !run->assigned || run->queue.lock() == queue) {
      if (run->go) {
        run->assigned = true;
        run->queue = queue;
      }
      return run;
    }
  runs.push_back(build());
  runs.back()->assigned = runs.back()->go != nullptr;
  runs.back()->queue = queue;
  return runs.back();
}

Ref<Exec> XpuGraph::instantiate() {
  return std::make_shared<XpuExec>(std::make_shared<Program>(device, capture));
}

XpuExec::~XpuExec() {
  // Replays may still run, so the memory that they touch is freed after them.
  Driver& driver = program_->device.driver;
  driver.retired.add(std::move(place_), [program = std::move(program_)] {});
}

// Replaces the exec's program. The old program may be running, so it is retired. Returns whether
// both programs have the same types of work in the same order.
bool XpuExec::do_update(const Ref<Graph>& ref) {
  auto& graph = static_cast<XpuGraph&>(*ref);
  auto next = std::make_shared<Program>(graph.device, graph.capture);
  Retired::Reservation place;
  std::lock_guard guard(lock_);
  const auto& had = program_->capture->nodes;
  const auto& has = next->capture->nodes;
  const bool same = std::equal(had.begin(), had.end(), has.begin(), has.end(),
                               [](auto& a, auto& b) { return a.type == b.type; });
  program_->device.driver.retired.add(std::move(place), [old = std::move(program_)] {});
  program_ = std::move(next);
  return same;
}

std::vector<std::pair<Ref<Event>, Ref<Point>>> XpuExec::enqueue(const Ref<Queue>& queue) {
  std::lock_guard guard(lock_);
  Program& program = *program_;
  const Ref<GraphRun> run = program.run_for(queue);
  std::vector<Ref<Point>> earlier = run->relays, relays;
  if (last_) earlier.push_back(last_);
  try {
    queue->replay(*run, program.lent, earlier, last_, relays);
  } catch (...) {
    // The run may be running, so the relays of its records are stored. The next run waits for them.
    run->relays.insert(run->relays.end(), relays.begin(), relays.end());
    throw;
  }
  std::vector<std::pair<Ref<Event>, Ref<Point>>> recorded;
  for (size_t i = 0; i < relays.size(); ++i) recorded.emplace_back(program.events[i], relays[i]);
  run->relays = std::move(relays);
  return recorded;
}

}  // namespace hotslot::level_zero
