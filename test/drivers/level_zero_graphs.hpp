// Calls of the Level Zero software driver that the vendor's headers lack: lists appended to a list,
// and graphs.
#pragma once
#include "level_zero_kernels.hpp"

namespace software {
namespace {

// Submits a run to an immediate list. Its begin waits for the caller's events, and its end signals
// the caller's event.
void run_on(std::unique_lock<std::mutex>& held, const Ref<List>& list, const Ref<Run>& run,
            const std::vector<Ref<const Work>>& works, bool chained, const Waits& waits,
            const Ref<Op>& previous) {
  auto before = std::make_shared<Work>(), behind = std::make_shared<Work>();
  waits.into(*before, *list);
  before->signal.reset();
  behind->signal = waits.signal;
  machine().submit_run(list->lane, run, works, chained, before, behind, previous);
  after_submit(held, list->lane);
}
ze_result_t zeCommandListImmediateAppendCommandListsExp(
    ze_command_list_handle_t handle, uint32_t count, ze_command_list_handle_t* lists,
    ze_event_handle_t signal, uint32_t wait_count, ze_event_handle_t* events) {
  return enter_alone("zeCommandListImmediateAppendCommandListsExp", Alone(handle), [&](auto& held) {
    const auto list = appendable(handle);
    require(list->immediate(), ZE_RESULT_ERROR_INVALID_COMMAND_LIST_TYPE,
            "lists are appended to an immediate list");
    require(!list->recording, newer::result_capture_unsupported,
            "lists are not appended to a recording");
    require(count == 1, unsupported_feature, "this driver appends one list at a time");
    pointer(lists);
    const auto other = list_of(lists[0]);
    const auto previous = may_run(*other, list->lane, list->context, true);
    const Waits waits(*list, signal, wait_count, events);
    other->latest = run_of(other, list->lane);
    run_on(held, list, other->latest, other->work, other->in_order, waits, previous);
  });
}

Ref<Recording> graph_of(newer::Graph handle) {
  return machine().find<Recording>(handle, Sort::graph);
}
void no_extension(const void* next) { require(!next, invalid_argument, "pNext has to be null"); }
ze_result_t zeGraphCreateExt(ze_context_handle_t context, const void* next, newer::Graph* out) {
  return enter("zeGraphCreateExt", [&](auto&) {
    no_extension(next), pointer(out);
    auto graph = std::make_shared<Recording>();
    graph->context = context_of(context);
    give(out, graph);
  });
}
void begin(const Ref<List>& list, const Ref<Recording>& graph) {
  require(list->immediate() && !list->lane->synchronous && list->in_order, invalid_argument,
          "only an asynchronous in-order immediate list records");
  require(!list->recording, invalid_argument, "the list records already");
  graph->open = true;
  graph->origin = list;
  graph->members[list.get()];
  list->recording = graph;
}
ze_result_t zeCommandListBeginGraphCaptureExt(ze_command_list_handle_t handle, const void* next) {
  return enter_alone("zeCommandListBeginGraphCaptureExt", Alone(handle), [&](auto&) {
    const auto list = appendable(handle);
    no_extension(next);
    auto graph = std::make_shared<Recording>();
    graph->context = list->context;
    begin(list, graph);
  });
}
ze_result_t zeCommandListBeginCaptureIntoGraphExt(ze_command_list_handle_t handle,
                                                  newer::Graph into, const void* next) {
  return enter_alone("zeCommandListBeginCaptureIntoGraphExt", Alone(handle), [&](auto&) {
    const auto list = appendable(handle);
    const auto graph = graph_of(into);
    no_extension(next);
    require(!graph->open && !graph->ended, invalid_argument, "the graph is not empty");
    begin(list, graph);
  });
}
ze_result_t zeCommandListIsGraphCaptureEnabledExt(ze_command_list_handle_t handle) {
  return enter("zeCommandListIsGraphCaptureEnabledExt", [&](auto&) {
    return list_of(handle)->recording ? newer::result_query_true : newer::result_query_false;
  });
}
ze_result_t zeCommandListEndGraphCaptureExt(ze_command_list_handle_t handle, const void* next,
                                            newer::Graph* out) {
  return enter_alone("zeCommandListEndGraphCaptureExt", Alone(handle), [&](auto&) {
    const auto list = list_of(handle);
    no_extension(next);
    const auto graph = list->recording;
    require(graph != nullptr, invalid_argument, "the list does not record");
    require(graph->origin == list, invalid_argument, "the recording began on another list");
    require(graph->handle || out, invalid_argument, "nowhere to put the graph");
    graph->open = false;
    graph->ended = true;
    // A node that does not come before the origin's last node belongs to a list that forked off and
    // did not join.
    std::vector<bool> reached(graph->nodes.size());
    std::vector<uint32_t> stack = graph->members[list.get()];
    while (!stack.empty()) {
      const uint32_t node = stack.back();
      stack.pop_back();
      if (reached[node]) continue;
      reached[node] = true;
      stack.insert(stack.end(), graph->nodes[node]->needs.begin(), graph->nodes[node]->needs.end());
    }
    if (std::find(reached.begin(), reached.end(), false) != reached.end() && graph->broken.empty())
      graph->broken = "a list joined the recording and was not joined back";
    machine().leave(graph);
    graph->members.clear();
    graph->origin.reset();
    if (!graph->handle) machine().add(graph);
    if (out) *out = reinterpret_cast<newer::Graph>(graph->handle);
  });
}
ze_result_t zeGraphInstantiateExt(newer::Graph handle, const void* next,
                                  newer::ExecutableGraph* out) {
  return enter("zeGraphInstantiateExt", [&](auto&) {
    const auto graph = graph_of(handle);
    no_extension(next), pointer(out);
    require(!graph->open, invalid_argument, "the graph is still recorded");
    if (!graph->broken.empty()) refuse(invalid_argument, graph->broken);
    auto executable = std::make_shared<Executable>();
    executable->graph = graph;
    executable->context = graph->context;
    give(out, executable);
  });
}
Ref<Executable> executable_of(newer::ExecutableGraph handle) {
  return machine().find<Executable>(handle, Sort::executable);
}
ze_result_t zeCommandListAppendGraphExt(ze_command_list_handle_t handle,
                                        newer::ExecutableGraph graph, const void* next,
                                        ze_event_handle_t signal, uint32_t count,
                                        ze_event_handle_t* events) {
  return enter_alone("zeCommandListAppendGraphExt", Alone(handle), [&](auto& held) {
    const auto list = appendable(handle);
    const auto executable = executable_of(graph);
    no_extension(next);
    require(list->immediate(), ZE_RESULT_ERROR_INVALID_COMMAND_LIST_TYPE,
            "a graph is appended to an immediate list");
    require(!list->recording, newer::result_capture_unsupported,
            "a graph is not appended to a recording");
    require(executable->context == list->context, invalid_argument, "a graph of another context");
    for (auto& work : executable->graph->nodes) alive(*work);
    const Waits waits(*list, signal, count, events);
    auto run = std::make_shared<Run>();
    run->of = executable;
    run->active = &executable->active;
    run->pending = &executable->pending;
    run_on(held, list, run, executable->graph->nodes, false, waits, nullptr);
  });
}
ze_result_t zeGraphIsEmptyExt(newer::Graph handle) {
  return enter("zeGraphIsEmptyExt", [&](auto&) {
    const auto graph = graph_of(handle);
    if (!graph->broken.empty()) refuse(newer::result_invalid_graph, graph->broken);
    return graph->nodes.empty() ? newer::result_query_true : newer::result_query_false;
  });
}
ze_result_t zeGraphDestroyExt(newer::Graph handle) {
  return enter("zeGraphDestroyExt", [&](auto&) {
    const auto graph = graph_of(handle);
    require(!graph->open, object_in_use, "the graph is destroyed while it is recorded");
    machine().remove(graph);
  });
}
ze_result_t zeExecutableGraphDestroyExt(newer::ExecutableGraph handle) {
  return enter("zeExecutableGraphDestroyExt", [&](auto&) {
    const auto executable = executable_of(handle);
    unused(*executable, "an executable graph");
    machine().remove(executable);
  });
}

}  // namespace
}  // namespace software
