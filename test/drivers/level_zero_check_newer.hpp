// Scenarios of level_zero_check: features newer than the loader. The driver itself returns their
// functions.
#pragma once
#include "level_zero_check_setup.hpp"

namespace {

template <class F>
F* extension(Setup& s, const char* name) {
  void* out = nullptr;
  OK(zeDriverGetExtensionFunctionAddress(s.driver, name, &out));
  if (!out) std::exit(1);
  return reinterpret_cast<F*>(out);
}
bool listed(Setup& s, const char* name) {
  uint32_t count = 0;
  OK(zeDriverGetExtensionProperties(s.driver, &count, nullptr));
  std::vector<ze_driver_extension_properties_t> all(count);
  OK(zeDriverGetExtensionProperties(s.driver, &count, all.data()));
  for (auto& each : all)
    if (std::strcmp(each.name, name) == 0) return true;
  return false;
}
#define EXTENSION(name, ...) auto* const name = extension<ze_result_t(__VA_ARGS__)>(s, #name)

void modern() {
  Setup s;
  EXTENSION(zeCommandListHostSynchronize, ze_command_list_handle_t, uint64_t);
  EXTENSION(zexCounterBasedEventCreate2, ze_context_handle_t, ze_device_handle_t,
            const newer::CounterEvent*, ze_event_handle_t*);
  EXTENSION(zeCommandListImmediateAppendCommandListsExp, ze_command_list_handle_t, uint32_t,
            ze_command_list_handle_t*, ze_event_handle_t, uint32_t, ze_event_handle_t*);
  auto list = s.immediate(0, newer::queue_in_order), other = s.immediate(0, newer::queue_in_order);
  auto* a = s.memory();
  auto* b = s.memory();
  float values[] = {1, 2, 3, 4};
  for (float& value : values)
    OK(zeCommandListAppendMemoryFill(list, a, &value, 4, bytes, nullptr, 0, nullptr));
  OK(zeCommandListHostSynchronize(list, forever));
  CHECK(s.read(list, a) == 4);

  // A counter-based event that was never signaled counts as done. If it is signaled again, an
  // earlier wait still means the earlier signal. It may be destroyed while a signal is pending.
  newer::CounterEvent desc{
      newer::stype_zex_counter_event, nullptr,
      newer::counter_host_visible | newer::counter_timestamp | newer::counter_immediate,
      ZE_EVENT_SCOPE_FLAG_HOST, 0};
  ze_event_handle_t event{};
  OK(zexCounterBasedEventCreate2(s.context, s.device, &desc, &event));
  OK(zeEventQueryStatus(event));
  OK(zeCommandListAppendWaitOnEvents(other, 1, &event));
  Latch latch(s);
  OK(zeCommandListAppendSignalEvent(list, event));
  OK(zeEventHostSynchronize(event, soon));
  OK(zeCommandListAppendMemoryFill(other, b, &values[0], 4, bytes, nullptr, 1, &event));
  latch.hold(list, event);
  IS(ZE_RESULT_NOT_READY, zeEventQueryStatus(event));
  OK(zeCommandListHostSynchronize(other, soon));
  OK(zeCommandListAppendMemoryFill(other, b, &values[1], 4, bytes, nullptr, 1, &event));
  IS(ZE_RESULT_NOT_READY, zeCommandListHostSynchronize(other, 5'000'000));
  IS(ZE_RESULT_ERROR_INVALID_ARGUMENT, zeEventHostReset(event));
  OK(zeEventDestroy(event));
  latch.open();
  OK(zeCommandListHostSynchronize(other, soon));
  CHECK(s.read(list, b) == 2);
  auto loose = s.immediate();
  OK(zexCounterBasedEventCreate2(s.context, s.device, &desc, &event));
  IS(ZE_RESULT_ERROR_INVALID_ARGUMENT, zeCommandListAppendSignalEvent(loose, event));
  OK(zeCommandListAppendBarrier(list, event, 0, nullptr));
  OK(zeEventHostSynchronize(event, soon));
  ze_kernel_timestamp_result_t stamps{};
  OK(zeEventQueryKernelTimestamp(event, &stamps));
  CHECK(stamps.global.kernelEnd >= stamps.global.kernelStart);

  // An in-order list runs a closed list several times, also with events of the caller.
  Program program(s, axpby);
  auto kernel = program.kernel("axpby");
  argument(kernel, 0, b), argument(kernel, 1, a), argument(kernel, 2, int64_t(n)),
      argument(kernel, 3, 1.0f), argument(kernel, 4, 1.0f);
  auto regular = s.list(0, newer::list_in_order);
  OK(zeCommandListAppendMemoryFill(regular, a, &values[0], 4, bytes, nullptr, 0, nullptr));
  OK(zeCommandListAppendLaunchKernel(regular, kernel, &one_group, nullptr, 0, nullptr));
  OK(zeCommandListAppendLaunchKernel(regular, kernel, &one_group, nullptr, 0, nullptr));
  OK(zeCommandListClose(regular));
  for (int i = 0; i < 3; ++i)
    OK(zeCommandListImmediateAppendCommandListsExp(list, 1, &regular, i == 2 ? event : nullptr, 0,
                                                   nullptr));
  OK(zeCommandListImmediateAppendCommandListsExp(other, 1, &regular, nullptr, 1, &event));
  OK(zeCommandListHostSynchronize(other, soon));
  CHECK(s.read(list, b) == 10);
  CHECK(violated().find("only") == std::string::npos);

  OK(zeEventDestroy(event)), OK(zeKernelDestroy(kernel)), OK(zeModuleDestroy(program.module));
  latch.end();
  for (auto each : {list, other, loose, regular}) OK(zeCommandListDestroy(each));
  s.free(a), s.free(b);
  s.end();
}

// Runs the same closed list on two in-order lists without an order between them.
void twice() {
  Setup s;
  EXTENSION(zeCommandListImmediateAppendCommandListsExp, ze_command_list_handle_t, uint32_t,
            ze_command_list_handle_t*, ze_event_handle_t, uint32_t, ze_event_handle_t*);
  EXTENSION(zeCommandListHostSynchronize, ze_command_list_handle_t, uint64_t);
  auto list = s.immediate(0, newer::queue_in_order), other = s.immediate(0, newer::queue_in_order);
  Latch latch(s);
  auto regular = s.list(0, newer::list_in_order);
  auto begun = s.event();
  OK(zeCommandListAppendSignalEvent(regular, begun));
  latch.hold(regular);
  OK(zeCommandListClose(regular));
  OK(zeCommandListImmediateAppendCommandListsExp(list, 1, &regular, nullptr, 0, nullptr));
  OK(zeEventHostSynchronize(begun, soon));
  OK(zeCommandListImmediateAppendCommandListsExp(other, 1, &regular, nullptr, 0, nullptr));
  IS(ZE_RESULT_ERROR_DEVICE_LOST, zeCommandListHostSynchronize(other, soon));
  CHECK(complained("an earlier run of it is not over"));
  latch.open();
  OK(zeCommandListHostSynchronize(list, soon));
}

void imports() {
  // Runs with import=both.
  Setup s;
  CHECK(listed(s, "ZEX_driver_import_host_pointer") &&
        listed(s, "ZE_extension_external_memmap_sysmem"));
  EXTENSION(zexDriverImportExternalPointer, ze_driver_handle_t, void*, size_t);
  EXTENSION(zexDriverReleaseImportedPointer, ze_driver_handle_t, void*);
  auto* page = static_cast<uint8_t*>(std::aligned_alloc(4096, 4 * 4096));
  std::memset(page, 7, 4 * 4096);
  const auto standard = [&](ze_result_t expected, uint8_t* memory, size_t size) {
    const newer::MemmapSysmem map{newer::stype_memmap_sysmem, nullptr, memory, size};
    const ze_host_mem_alloc_desc_t desc{ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC, &map, 0};
    void* out = nullptr;
    IS(expected, zeMemAllocHost(s.context, &desc, size, 4096, &out));
    CHECK(expected != ZE_RESULT_SUCCESS || out == memory);
  };
  standard(ZE_RESULT_ERROR_INVALID_ARGUMENT, page + 16, 4096);
  standard(ZE_RESULT_ERROR_INVALID_ARGUMENT, page, 4000);
  standard(ZE_RESULT_SUCCESS, page, 8192);
  standard(ZE_RESULT_ERROR_INVALID_ARGUMENT, page + 4096, 8192);
  IS(ZE_RESULT_ERROR_INVALID_ARGUMENT, zexDriverImportExternalPointer(s.driver, page, 16));
  OK(zexDriverImportExternalPointer(s.driver, page + 8192 + 16, 100));
  auto list = s.immediate();
  auto* a = s.memory(8192);
  OK(zeCommandListAppendMemoryCopy(list, a, page, 8192, nullptr, 0, nullptr));
  (void)violated();
  IS(ZE_RESULT_ERROR_INVALID_ARGUMENT,
     zeCommandListAppendMemoryCopy(list, a, page + 4096, 8192, nullptr, 0, nullptr));
  CHECK(complained("only partly"));
  s.finish(list);
  CHECK(text("hotslot_software_live").find("imports 2\n") != std::string::npos);
  IS(ZE_RESULT_ERROR_INVALID_ARGUMENT, zexDriverReleaseImportedPointer(s.driver, page));
  IS(ZE_RESULT_ERROR_INVALID_ARGUMENT, zeMemFree(s.context, page + 8192 + 16));
  s.free(page);
  OK(zexDriverReleaseImportedPointer(s.driver, page + 8192 + 16));
  IS(ZE_RESULT_ERROR_INVALID_ARGUMENT, zexDriverReleaseImportedPointer(s.driver, page + 8192 + 16));
  CHECK(page[100] == 7);
  std::free(page);
  s.free(a);
  OK(zeCommandListDestroy(list));
  s.end();
}

uint32_t graph_flags(Setup& s) {
  newer::GraphProperties graph{newer::stype_graph_properties, nullptr, 0xff};
  ze_device_properties_t p{};
  p.stype = ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES;
  p.pNext = &graph;
  OK(zeDeviceGetProperties(s.device, &p));
  return graph.flags;
}
void listed_only() {
  Setup s;
  CHECK(listed(s, "ZE_extension_record_replay_graph") && graph_flags(s) == 0);
}
void graphs() {
  Setup s;
  CHECK(listed(s, "ZE_extension_record_replay_graph") && graph_flags(s) == 1);
  EXTENSION(zeCommandListHostSynchronize, ze_command_list_handle_t, uint64_t);
  EXTENSION(zeCommandListBeginGraphCaptureExt, ze_command_list_handle_t, const void*);
  EXTENSION(zeCommandListEndGraphCaptureExt, ze_command_list_handle_t, const void*, newer::Graph*);
  EXTENSION(zeCommandListIsGraphCaptureEnabledExt, ze_command_list_handle_t);
  EXTENSION(zeGraphInstantiateExt, newer::Graph, const void*, newer::ExecutableGraph*);
  EXTENSION(zeCommandListAppendGraphExt, ze_command_list_handle_t, newer::ExecutableGraph,
            const void*, ze_event_handle_t, uint32_t, ze_event_handle_t*);
  EXTENSION(zeGraphIsEmptyExt, newer::Graph);
  EXTENSION(zeGraphDestroyExt, newer::Graph);
  EXTENSION(zeExecutableGraphDestroyExt, newer::ExecutableGraph);
  auto list = s.immediate(0, newer::queue_in_order), side = s.immediate(0, newer::queue_in_order),
       loose = s.immediate();
  auto* a = s.memory();
  auto* b = s.memory();
  const float one = 1, five = 5, zero = 0;
  OK(zeCommandListAppendMemoryFill(list, b, &zero, 4, bytes, nullptr, 0, nullptr));
  OK(zeCommandListAppendMemoryFill(list, a, &zero, 4, bytes, nullptr, 0, nullptr));
  Program program(s, axpby);
  auto kernel = program.kernel("axpby");
  argument(kernel, 0, b), argument(kernel, 1, a), argument(kernel, 2, int64_t(n)),
      argument(kernel, 3, 1.0f), argument(kernel, 4, 1.0f);
  auto fork = s.event(), join = s.event(), outside = s.event();

  IS(ZE_RESULT_ERROR_INVALID_ARGUMENT, zeCommandListBeginGraphCaptureExt(loose, nullptr));
  IS(newer::result_query_false, zeCommandListIsGraphCaptureEnabledExt(list));
  OK(zeCommandListBeginGraphCaptureExt(list, nullptr));
  IS(newer::result_query_true, zeCommandListIsGraphCaptureEnabledExt(list));
  IS(ZE_RESULT_ERROR_INVALID_ARGUMENT, zeCommandListBeginGraphCaptureExt(list, nullptr));
  OK(zeCommandListAppendMemoryFill(list, a, &one, 4, bytes, fork, 0, nullptr));
  OK(zeCommandListAppendLaunchKernel(side, kernel, &one_group, join, 1,
                                     &fork));  // joins the capture
  OK(zeCommandListAppendMemoryFill(list, a, &five, 4, bytes, nullptr, 1, &join));
  IS(newer::result_capture_unsupported, zeCommandListHostSynchronize(list, 0));
  IS(newer::result_capture_unsupported, zeCommandListHostSynchronize(side, 0));
  IS(newer::result_capture_unsupported, zeEventQueryStatus(fork));
  newer::Graph graph{};
  OK(zeCommandListEndGraphCaptureExt(list, nullptr, &graph));
  OK(zeCommandListHostSynchronize(list, soon));
  CHECK(s.read(list, b) == 0);
  IS(newer::result_query_false, zeGraphIsEmptyExt(graph));
  newer::ExecutableGraph executable{};
  OK(zeGraphInstantiateExt(graph, nullptr, &executable));
  OK(zeGraphDestroyExt(graph));
  for (int i = 0; i < 3; ++i)
    OK(zeCommandListAppendGraphExt(list, executable, nullptr, i == 2 ? outside : nullptr, 0,
                                   nullptr));
  OK(zeEventHostSynchronize(outside, soon));
  CHECK(s.read(list, b) == 3 && s.read(list, a) == 5);

  // A stream that forked off and did not join, and a wait for an event from outside, make the graph
  // invalid.
  OK(zeEventHostReset(fork)), OK(zeEventHostReset(join));
  OK(zeCommandListBeginGraphCaptureExt(list, nullptr));
  OK(zeCommandListAppendBarrier(list, fork, 0, nullptr));
  OK(zeCommandListAppendWaitOnEvents(side, 1, &fork));
  OK(zeCommandListEndGraphCaptureExt(list, nullptr, &graph));
  newer::ExecutableGraph none{};
  IS(ZE_RESULT_ERROR_INVALID_ARGUMENT, zeGraphInstantiateExt(graph, nullptr, &none));
  CHECK(complained("not joined back"));
  OK(zeGraphDestroyExt(graph));
  OK(zeCommandListHostSynchronize(side, soon));
  OK(zeCommandListBeginGraphCaptureExt(list, nullptr));
  IS(ZE_RESULT_ERROR_INVALID_ARGUMENT, zeCommandListAppendBarrier(list, nullptr, 1, &outside));
  IS(ZE_RESULT_ERROR_INVALID_ARGUMENT, zeCommandListAppendBarrier(list, nullptr, 0, nullptr));
  IS(newer::result_capture_unsupported,
     zeCommandListAppendGraphExt(list, executable, nullptr, nullptr, 0, nullptr));
  OK(zeCommandListEndGraphCaptureExt(list, nullptr, &graph));
  IS(ZE_RESULT_ERROR_INVALID_ARGUMENT, zeGraphInstantiateExt(graph, nullptr, &none));
  OK(zeGraphDestroyExt(graph));
  // Everything that a graph uses must exist when it runs.
  s.free(a);
  IS(ZE_RESULT_ERROR_INVALID_ARGUMENT,
     zeCommandListAppendGraphExt(list, executable, nullptr, nullptr, 0, nullptr));
  OK(zeExecutableGraphDestroyExt(executable));

  for (auto event : {fork, join, outside}) OK(zeEventDestroy(event));
  OK(zeKernelDestroy(kernel)), OK(zeModuleDestroy(program.module));
  for (auto each : {list, side, loose}) OK(zeCommandListDestroy(each));
  s.free(b);
  s.end();
}

}  // namespace
