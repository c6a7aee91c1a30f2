// Scenario of level_zero_check: checks the detector (order.hpp) in the Level Zero driver. The
// detector must complain about operations without an order, and only about these. Runs with
// HOTSLOT_SOFTWARE_ORDER=1 and the newest features.
#pragma once
#include "level_zero_check_newer.hpp"

namespace {

struct OrderCheck {
  Setup s;
  const Program program{s, {{"axpby", "ppiff"}, {"gather_places", "pppiiii"}}};
  ze_kernel_handle_t add = program.kernel("axpby"), gather = program.kernel("gather_places");
  ze_command_list_handle_t learner = s.immediate(0, newer::queue_in_order),
                           side = s.immediate(0, newer::queue_in_order), loose = s.immediate();
  float *a = s.memory(), *b = s.memory(), *sum = s.memory();
  ze_event_handle_t event = s.event(), spent = s.event();
  ze_result_t (*synchronize)(ze_command_list_handle_t, uint64_t) =
      extension<ze_result_t(ze_command_list_handle_t, uint64_t)>(s, "zeCommandListHostSynchronize");

  static void fill(void* at, ze_command_list_handle_t on, ze_event_handle_t signal = nullptr,
                   size_t size = bytes) {
    const float one = 1;
    OK(zeCommandListAppendMemoryFill(on, at, &one, 4, size, signal, 0, nullptr));
  }
  // Adds the values at `at` to `sum`.
  void use(float* at, ze_command_list_handle_t on, ze_event_handle_t signal = nullptr) {
    argument(add, 0, sum), argument(add, 1, at), argument(add, 2, int64_t(n)),
        argument(add, 3, 1.0f), argument(add, 4, 1.0f);
    OK(zeCommandListAppendLaunchKernel(on, add, &one_group, signal, 0, nullptr));
  }
  void draw(float* slot, float* ring, float* places, int64_t rows, int64_t words, int64_t of) {
    argument(gather, 0, slot), argument(gather, 1, ring), argument(gather, 2, places),
        argument(gather, 3, rows), argument(gather, 4, words), argument(gather, 5, of),
        argument(gather, 6, int64_t(0));
    OK(zeCommandListAppendLaunchKernel(side, gather, &one_group, nullptr, 0, nullptr));
  }
  static void wait(ze_command_list_handle_t on, ze_event_handle_t which) {
    OK(zeCommandListAppendWaitOnEvents(on, 1, &which));
  }
  // Makes `later` wait for all work of `earlier`. The host may reset `event` only when nothing
  // waits for it, so it settles first.
  void behind(ze_command_list_handle_t later, ze_command_list_handle_t earlier) {
    fresh(event);
    OK(zeCommandListAppendSignalEvent(earlier, event));
    wait(later, event);
  }
  void fresh(ze_event_handle_t& which) {
    settle();
    OK(zeEventHostReset(which));
  }
  void settle() {
    for (auto list : {learner, side, loose}) OK(synchronize(list, soon));
  }
  void finds(const char* one, const char* other, const char* line) {
    settle();
    const std::string said = violated();
    if (said.find(one) == std::string::npos || said.find(other) == std::string::npos)
      wrong(std::string(line) + ": not found, but '" + said + "'");
  }
  void minds_nothing(const char* line) {
    settle();
    if (const std::string said = violated(); !said.empty()) wrong(std::string(line) + ": " + said);
  }
#define FINDS(one, other) finds(one, other, CHECK_SAID(""))
#define MINDS_NOTHING() minds_nothing(CHECK_SAID(""))

  // The next gather writes to the slot that the learner still reads. See cuda_check_order.hpp.
  void batch_that_is_still_read(bool waits) {
    auto *ring = s.memory(8 * 16 * 4), *places = s.memory(8 * 4);
    fill(ring, side, nullptr, 8 * 16 * 4),
        OK(zeCommandListAppendBarrier(side, nullptr, 0, nullptr));
    const uint8_t zero = 0;
    OK(zeCommandListAppendMemoryFill(side, places, &zero, 1, 8 * 4, nullptr, 0, nullptr));
    fresh(event), fresh(spent);
    draw(a, ring, places, 8, 8, 16);
    OK(zeCommandListAppendSignalEvent(side, event)), wait(learner, event);
    use(a, learner, spent);
    if (waits) wait(side, spent);
    draw(a, ring, places, 8, 8, 16);
    if (waits)
      MINDS_NOTHING();
    else
      FINDS("axpby #", "gather_places #");
    s.free(ring), s.free(places);
    MINDS_NOTHING();
  }

  void queues_and_events() {
    fill(a, side), use(a, learner);
    FINDS("a fill #", "axpby #");
    behind(learner, side), fill(a, side), use(a, learner);  // signaled before the fill
    FINDS("a fill #", "axpby #");
    fresh(event), fill(a, side, event), wait(learner, event), use(a, learner);
    MINDS_NOTHING();
    // A wait counts although its signal is enqueued later.
    fresh(event), wait(learner, event), use(a, learner), fill(a, side, event);
    MINDS_NOTHING();
    // This list keeps no order.
    fill(a, loose), fill(a, loose);
    FINDS("a fill #", "a fill #");
    fill(a, loose), OK(zeCommandListAppendBarrier(loose, nullptr, 0, nullptr)), fill(a, loose);
    MINDS_NOTHING();
    fill(a, loose, nullptr, bytes / 2), fill(a + n / 2, loose, nullptr, bytes / 2);
    MINDS_NOTHING();
    // Runs of a closed list come one after another.
    auto queue = s.queue();
    auto list = s.list();
    fill(a, list), OK(zeCommandListClose(list));
    for (int i = 0; i < 2; ++i) OK(zeCommandQueueExecuteCommandLists(queue, 1, &list, nullptr));
    OK(zeCommandQueueSynchronize(queue, soon));
    MINDS_NOTHING();
    OK(zeCommandQueueExecuteCommandLists(queue, 1, &list, nullptr)), fill(a, side);
    OK(zeCommandQueueSynchronize(queue, soon));
    FINDS("a fill #", "a fill #");
    OK(zeCommandListDestroy(list)), OK(zeCommandQueueDestroy(queue));
  }

  void looks_of_the_host() {
    fresh(event), fill(a, side, event);
    OK(zeEventHostSynchronize(event, soon));
    use(a, learner);
    MINDS_NOTHING();
    fresh(event), OK(zeCommandListAppendSignalEvent(side, event)), fill(a, side);
    OK(zeEventHostSynchronize(event, soon));
    use(a, learner);
    FINDS("a fill #", "axpby #");
    fill(a, side), settle(), use(a, learner);
    MINDS_NOTHING();
    // The fill is done, but the host does not know that.
    auto* brief = s.memory();
    fill(brief, side);
    while (zeMemFree(s.context, brief) != ZE_RESULT_SUCCESS) std::this_thread::yield();
    FINDS("a free of memory", "a fill #");
    brief = s.memory();
    fill(brief, side), settle(), s.free(brief);
    MINDS_NOTHING();
  }

  void graphs() {
    EXTENSION(zeCommandListBeginGraphCaptureExt, ze_command_list_handle_t, const void*);
    EXTENSION(zeCommandListEndGraphCaptureExt, ze_command_list_handle_t, const void*,
              newer::Graph*);
    EXTENSION(zeGraphInstantiateExt, newer::Graph, const void*, newer::ExecutableGraph*);
    EXTENSION(zeCommandListAppendGraphExt, ze_command_list_handle_t, newer::ExecutableGraph,
              const void*, ze_event_handle_t, uint32_t, ze_event_handle_t*);
    EXTENSION(zeGraphDestroyExt, newer::Graph);
    EXTENSION(zeExecutableGraphDestroyExt, newer::ExecutableGraph);
    for (const bool edge : {false, true}) {
      fresh(event), fresh(spent);
      OK(zeCommandListBeginGraphCaptureExt(learner, nullptr));
      fill(b, learner, event), wait(side, event), fill(a, side, spent);
      if (edge) wait(learner, spent);
      fill(a, learner);
      if (!edge) wait(learner, spent);
      newer::Graph graph{};
      newer::ExecutableGraph executable{};
      OK(zeCommandListEndGraphCaptureExt(learner, nullptr, &graph));
      OK(zeGraphInstantiateExt(graph, nullptr, &executable));
      for (int i = 0; i < 2; ++i)
        OK(zeCommandListAppendGraphExt(learner, executable, nullptr, nullptr, 0, nullptr));
      if (edge)
        MINDS_NOTHING();
      else
        FINDS("node 2 of a graph", ": an edge of the graph");
      OK(zeCommandListAppendGraphExt(learner, executable, nullptr, nullptr, 0, nullptr)),
          fill(a, side);
      FINDS("of a graph, writes", "a fill #");
      OK(zeExecutableGraphDestroyExt(executable)), OK(zeGraphDestroyExt(graph));
    }
  }

  void rows() {
    auto *ring = s.memory(8 * 64), *places = s.memory(4 * 4);
    const int32_t drawn[] = {6, 1, 2, 1};
    OK(zeCommandListAppendMemoryCopy(side, places, drawn, sizeof drawn, nullptr, 0, nullptr));
    settle();
    for (const size_t row : {0, 1, 2, 3, 6, 7}) {
      draw(a, ring, places, 4, 16, 8), fill(ring + row * 16, learner, nullptr, 64);
      if (row == 1 || row == 2 || row == 6)
        FINDS("a fill #", "gather_places #");
      else
        MINDS_NOTHING();
    }
    s.free(ring), s.free(places);
  }
};

void ordered() {
  OrderCheck check;
  check.batch_that_is_still_read(false);
  check.batch_that_is_still_read(true);
  check.queues_and_events();
  check.looks_of_the_host();
  check.graphs();
  check.rows();
}

}  // namespace
