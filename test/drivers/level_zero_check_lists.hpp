// Scenarios of level_zero_check: lists, events and queues, in order and out of order.
#pragma once
#include "level_zero_check_setup.hpp"

namespace {

void basics() {
  Setup s;
  for (auto stype :
       {ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES, ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES_1_2}) {
    ze_device_properties_t p{};
    p.stype = stype;
    OK(zeDeviceGetProperties(s.device, &p));
    CHECK(std::string(p.name) == "Hotslot software driver (Level Zero 1.4)");
    CHECK(p.type == ZE_DEVICE_TYPE_GPU && p.kernelTimestampValidBits == 32);
    CHECK(p.timerResolution == (stype == ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES ? 80 : 12'500'000));
  }
  ze_api_version_t version;
  OK(zeDriverGetApiVersion(s.driver, &version));
  CHECK(version == ZE_MAKE_VERSION(1, 4));
  uint32_t count = 0;
  OK(zeDriverGetExtensionProperties(s.driver, &count, nullptr));
  CHECK(count == 0);
  OK(zeDeviceGetCommandQueueGroupProperties(s.device, &count, nullptr));
  CHECK(count == 2);
  ze_command_queue_group_properties_t groups[2]{};
  for (auto& group : groups) group.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_GROUP_PROPERTIES;
  OK(zeDeviceGetCommandQueueGroupProperties(s.device, &count, groups));
  CHECK(groups[0].flags == 3 && groups[1].flags == ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COPY &&
        groups[1].numQueues == 2);

  // Copies from host to device, device to device, and device to host. Each copy waits for the one
  // before.
  auto* a = s.memory();
  auto* b = s.memory();
  std::vector<float> in(n), out(n);
  for (size_t i = 0; i < n; ++i) in[i] = float(i);
  auto list = s.immediate();
  ze_event_handle_t e[3] = {s.event(), s.event(), s.event()};
  for (auto event : e) IS(ZE_RESULT_NOT_READY, zeEventQueryStatus(event));
  OK(zeCommandListAppendMemoryCopy(list, a, in.data(), bytes, e[0], 0, nullptr));
  OK(zeCommandListAppendMemoryCopy(list, b, a, bytes, e[1], 1, &e[0]));
  OK(zeCommandListAppendMemoryCopy(list, out.data(), b, bytes, e[2], 1, &e[1]));
  OK(zeEventHostSynchronize(e[2], soon));
  CHECK(in == out);
  // An event stays signaled until it is reset. The host's own signal has the same effect.
  for (auto event : e) OK(zeEventQueryStatus(event));
  ze_kernel_timestamp_result_t first{}, last{};
  OK(zeEventQueryKernelTimestamp(e[0], &first));
  OK(zeEventQueryKernelTimestamp(e[2], &last));
  CHECK(first.global.kernelEnd <= last.global.kernelStart && last.global.kernelEnd <= 0xffffffff);
  OK(zeEventHostReset(e[0]));
  IS(ZE_RESULT_NOT_READY, zeEventQueryStatus(e[0]));
  IS(ZE_RESULT_NOT_READY, zeEventHostSynchronize(e[0], 1'000'000));
  // A command waits for an event that is not signaled yet, whoever signals it.
  const float two = 2;
  OK(zeCommandListAppendMemoryFill(list, a, &two, 4, bytes, e[1], 1, &e[0]));
  OK(zeEventHostReset(e[2]));
  OK(zeCommandListAppendMemoryCopy(list, out.data(), a, bytes, e[2], 1,
                                   &e[1]));  // e[1] is still signaled, so the copy does not wait
  OK(zeEventHostSynchronize(e[2], soon));
  CHECK(out[1] == 1);
  OK(zeEventHostSignal(e[0]));
  s.finish(list);
  CHECK(s.read(list, a) == 2);
  // The device resets, waits and signals.
  OK(zeCommandListAppendEventReset(list, e[1]));
  s.finish(list);
  IS(ZE_RESULT_NOT_READY, zeEventQueryStatus(e[1]));
  auto copies = s.immediate(1);
  OK(zeCommandListAppendWaitOnEvents(copies, 1, &e[1]));
  const uint8_t zero = 0;
  OK(zeCommandListAppendMemoryFill(copies, a, &zero, 1, bytes, nullptr, 0, nullptr));
  CHECK(s.read(list, a) == 2);
  OK(zeCommandListAppendSignalEvent(list, e[1]));
  s.finish(copies);
  CHECK(s.read(list, a) == 0);

  for (auto event : e) OK(zeEventDestroy(event));
  OK(zeCommandListDestroy(copies));
  OK(zeCommandListDestroy(list));
  s.free(a), s.free(b);
  CHECK(violated().empty());
  CHECK(text("hotslot_software_calls").find("zeCommandListAppendMemoryCopy 7\n") !=
        std::string::npos);
  s.end();
}

// Only events and barriers order a list that is not in-order. The driver runs unordered commands in
// reverse.
void unordered() {
  Setup s;
  auto list = s.immediate();
  auto* a = s.memory();
  const float one = 1, two = 2, three = 3;
  OK(zeCommandListAppendMemoryFill(list, a, &one, 4, bytes, nullptr, 0, nullptr));
  OK(zeCommandListAppendMemoryFill(list, a, &two, 4, bytes, nullptr, 0, nullptr));
  s.finish(list);
  CHECK(s.read(list, a) == 1);
  OK(zeCommandListAppendMemoryFill(list, a, &one, 4, bytes, nullptr, 0, nullptr));
  OK(zeCommandListAppendBarrier(list, nullptr, 0, nullptr));
  OK(zeCommandListAppendMemoryFill(list, a, &two, 4, bytes, nullptr, 0, nullptr));
  s.finish(list);
  CHECK(s.read(list, a) == 2);
  // A signal without a barrier before it overtakes earlier commands.
  auto early = s.event();
  OK(zeCommandListAppendMemoryFill(list, a, &three, 4, bytes, nullptr, 0, nullptr));
  OK(zeCommandListAppendSignalEvent(list, early));
  auto other = s.immediate();
  float seen = 0;
  auto done = s.event();
  OK(zeCommandListAppendMemoryCopy(other, &seen, a, 4, done, 1, &early));
  OK(zeEventHostSynchronize(done, soon));
  s.finish(list);
  CHECK(s.read(list, a) == 3);
  // A barrier with events waits for these events only, and blocks later commands.
  auto gate = s.event();
  Latch latch(s);
  latch.hold(list);
  OK(zeCommandListAppendBarrier(list, done = s.event(), 1, &gate));
  OK(zeCommandListAppendMemoryFill(list, a, &one, 4, bytes, nullptr, 0, nullptr));
  IS(ZE_RESULT_NOT_READY, zeEventHostSynchronize(done, 5'000'000));
  CHECK(s.read(other, a) == 3);
  latch.open();
  OK(zeEventHostSignal(gate));
  OK(zeEventHostSynchronize(done, soon));
  s.finish(list);
  CHECK(s.read(list, a) == 1);
  // The same rules hold in a regular list.
  auto queue = s.queue();
  for (const bool ordered : {false, true}) {
    auto regular = s.list();
    for (const float* value : {&one, &two, &three}) {
      OK(zeCommandListAppendMemoryFill(regular, a, value, 4, bytes, nullptr, 0, nullptr));
      if (ordered) OK(zeCommandListAppendBarrier(regular, nullptr, 0, nullptr));
    }
    OK(zeCommandListClose(regular));
    OK(zeCommandQueueExecuteCommandLists(queue, 1, &regular, nullptr));
    OK(zeCommandQueueSynchronize(queue, soon));
    CHECK(s.read(list, a) == (ordered ? 3 : 1));
    OK(zeCommandListDestroy(regular));
  }
}

void lists() {
  Setup s;
  auto queue = s.queue(), second = s.queue();
  auto reader = s.immediate();
  auto* a = s.memory();
  auto* b = s.memory();
  const float one = 1;
  const ze_fence_desc_t fence_desc{ZE_STRUCTURE_TYPE_FENCE_DESC, nullptr, 0};
  ze_fence_handle_t fence{};
  OK(zeFenceCreate(queue, &fence_desc, &fence));
  Program program(s, axpby);
  auto kernel = program.kernel("axpby");
  argument(kernel, 0, b), argument(kernel, 1, a), argument(kernel, 2, int64_t(n)),
      argument(kernel, 3, 1.0f), argument(kernel, 4, 1.0f);

  auto list = s.list();
  OK(zeCommandListAppendMemoryFill(list, a, &one, 4, bytes, nullptr, 0, nullptr));
  OK(zeCommandListAppendBarrier(list, nullptr, 0, nullptr));
  OK(zeCommandListAppendLaunchKernel(list, kernel, &one_group, nullptr, 0, nullptr));
  IS(ZE_RESULT_ERROR_INVALID_ARGUMENT, zeCommandQueueExecuteCommandLists(queue, 1, &list, nullptr));
  CHECK(complained("before it is closed"));
  OK(zeCommandListClose(list));
  IS(ZE_RESULT_ERROR_INVALID_ARGUMENT, zeCommandListAppendBarrier(list, nullptr, 0, nullptr));
  CHECK(complained("closed list"));
  IS(ZE_RESULT_ERROR_INVALID_ARGUMENT, zeCommandListClose(list));
  // Each run uses the arguments as they were at the append.
  argument(kernel, 3, 100.0f);
  const float zero = 0;
  OK(zeCommandListAppendMemoryFill(reader, b, &zero, 4, bytes, nullptr, 0, nullptr));
  s.finish(reader);
  for (int i = 0; i < 3; ++i)
    OK(zeCommandQueueExecuteCommandLists(queue, 1, &list, i == 2 ? fence : nullptr));
  OK(zeFenceHostSynchronize(fence, soon));
  OK(zeFenceQueryStatus(fence));
  CHECK(s.read(reader, b) == 3);
  IS(ZE_RESULT_ERROR_INVALID_SYNCHRONIZATION_OBJECT,
     zeCommandQueueExecuteCommandLists(queue, 1, &list, fence));
  OK(zeFenceReset(fence));
  IS(ZE_RESULT_NOT_READY, zeFenceQueryStatus(fence));
  OK(zeCommandQueueSynchronize(queue, soon));
  (void)violated();

  // While a list is on a queue, another queue rejects it. Neither the list nor anything that it
  // uses can be reset or destroyed.
  Latch latch(s);
  auto held = s.list();
  latch.hold(held);
  OK(zeCommandListAppendMemoryFill(held, a, &one, 4, bytes, nullptr, 0, nullptr));
  OK(zeCommandListClose(held));
  OK(zeCommandQueueExecuteCommandLists(queue, 1, &held, nullptr));
  IS(ZE_RESULT_NOT_READY, zeCommandQueueSynchronize(queue, 1'000'000));
  IS(ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE,
     zeCommandQueueExecuteCommandLists(second, 1, &held, nullptr));
  CHECK(complained("on another queue"));
  IS(ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE, zeCommandListReset(held));
  IS(ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE, zeCommandListDestroy(held));
  IS(ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE, zeCommandQueueDestroy(queue));
  IS(ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE, zeKernelDestroy(latch.kernel));
  IS(ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE, zeMemFree(s.context, latch.word));
  CHECK(complained("while queued work uses it"));
  latch.open();
  OK(zeCommandQueueSynchronize(queue, soon));

  // Everything that a list refers to must exist when it runs.
  s.free(a);
  IS(ZE_RESULT_ERROR_INVALID_ARGUMENT, zeCommandQueueExecuteCommandLists(queue, 1, &held, nullptr));
  CHECK(complained("freed"));
  OK(zeCommandListReset(held));
  OK(zeCommandListAppendMemoryFill(held, b, &one, 4, bytes, nullptr, 0, nullptr));
  OK(zeCommandListClose(held));
  IS(ZE_RESULT_ERROR_INVALID_ARGUMENT,
     zeCommandListAppendMemoryCopy(reader, b, a + 1, 4, nullptr, 0, nullptr));
  CHECK(complained("a copy's source: 4 bytes of memory that is freed"));
  OK(zeCommandQueueExecuteCommandLists(queue, 1, &held, nullptr));
  OK(zeCommandQueueSynchronize(queue, soon));
  auto copies = s.queue(1);
  IS(ZE_RESULT_ERROR_INVALID_COMMAND_LIST_TYPE,
     zeCommandQueueExecuteCommandLists(copies, 1, &held, nullptr));

  OK(zeCommandListDestroy(held)), OK(zeCommandListDestroy(list)), OK(zeCommandListDestroy(reader));
  IS(ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE, zeCommandQueueDestroy(queue));
  OK(zeFenceDestroy(fence));
  OK(zeCommandQueueDestroy(queue)), OK(zeCommandQueueDestroy(second)),
      OK(zeCommandQueueDestroy(copies));
  latch.end();
  IS(ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE, zeModuleDestroy(program.module));
  OK(zeKernelDestroy(kernel)), OK(zeModuleDestroy(program.module));
  s.free(b);
  s.end();
}

// A chain of events across many lists. The bytes of the last step must arrive.
void storm() {
  Setup s;
  constexpr uint32_t lists = 6, steps = 20000;
  ze_command_list_handle_t list[lists];
  for (uint32_t i = 0; i < lists; ++i) list[i] = s.immediate(i % 2);
  std::vector<ze_event_handle_t> ring;
  for (uint32_t i = 0; i < 48; ++i) ring.push_back(s.event());
  auto* a = s.memory();
  auto* b = s.memory();
  uint32_t random = 1;
  for (uint32_t step = 0; step < steps; ++step) {
    auto signal = ring[step % ring.size()];
    auto* wait = step > 0 ? &ring[(step - 1) % ring.size()] : nullptr;
    if (step >= ring.size()) {
      OK(zeEventHostSynchronize(signal, soon));
      OK(zeEventHostReset(signal));
    }
    random = random * 1664525 + 1013904223;
    auto on = list[(random >> 16) % lists];
    const float value = float(step);
    if (step % 2 == 0)
      OK(zeCommandListAppendMemoryFill(on, a, &value, 4, bytes, signal, wait ? 1 : 0, wait));
    else
      OK(zeCommandListAppendMemoryCopy(on, b, a, bytes, signal, 1, wait));
  }
  OK(zeEventHostSynchronize(ring[(steps - 1) % ring.size()], soon));
  CHECK(s.read(list[0], a) == steps - 2 && s.read(list[1], b) == steps - 2);
  for (auto each : ring) OK(zeEventDestroy(each));
  for (auto each : list) OK(zeCommandListDestroy(each));
  s.free(a), s.free(b);
  s.end();
}

}  // namespace
