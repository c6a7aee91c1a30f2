// Scenarios of level_zero_check: wrong calls, and injected failures.
#pragma once
#include "level_zero_check_setup.hpp"

namespace {

// The loader's validation layer rejects these calls, so the driver never gets them.
void validation() {
  Setup s;
  IS(ZE_RESULT_ERROR_INVALID_NULL_HANDLE, zeEventQueryStatus(nullptr));
  IS(ZE_RESULT_ERROR_INVALID_NULL_HANDLE, zeCommandListAppendBarrier(nullptr, nullptr, 0, nullptr));
  auto list = s.immediate();
  IS(ZE_RESULT_ERROR_INVALID_NULL_POINTER,
     zeCommandListAppendMemoryCopy(list, nullptr, list, 4, nullptr, 0, nullptr));
  IS(ZE_RESULT_ERROR_INVALID_SIZE, zeCommandListAppendBarrier(list, nullptr, 1, nullptr));
  void* out = nullptr;
  const ze_device_mem_alloc_desc_t memory{ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC, nullptr, 0, 0};
  IS(ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT,
     zeMemAllocDevice(s.context, &memory, 4096, 3, s.device, &out));
  ze_command_queue_desc_t desc{ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC,
                               nullptr,
                               0,
                               0,
                               newer::queue_in_order,
                               ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS,
                               ZE_COMMAND_QUEUE_PRIORITY_NORMAL};
  ze_command_list_handle_t refused{};
  IS(ZE_RESULT_ERROR_INVALID_ENUMERATION,
     zeCommandListCreateImmediate(s.context, s.device, &desc, &refused));
  CHECK(violated().empty());
  OK(zeCommandListDestroy(list));
  s.end();
}

// Mistakes that the validation layer does not notice, and perhaps not even a GPU's driver.
void mistakes() {
  Setup s;
  void* nowhere = nullptr;
  IS(ZE_RESULT_ERROR_UNSUPPORTED_FEATURE,
     zeDriverGetExtensionFunctionAddress(s.driver, "zexDriverImportExternalPointer", &nowhere));
  auto list = s.immediate();
  auto* a = s.memory();
  auto event = s.event();
  const ze_event_desc_t again{ZE_STRUCTURE_TYPE_EVENT_DESC, nullptr, 0, 0, 0};
  ze_event_handle_t twin{};
  IS(ZE_RESULT_ERROR_INVALID_ARGUMENT, zeEventCreate(s.pool, &again, &twin));
  CHECK(complained("two live events"));
  IS(ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE, zeEventPoolDestroy(s.pool));
  OK(zeEventDestroy(event));
  IS(ZE_RESULT_ERROR_INVALID_ARGUMENT, zeEventQueryStatus(event));
  CHECK(complained("zeEventQueryStatus: a destroyed handle"));
  IS(ZE_RESULT_ERROR_INVALID_ARGUMENT,
     zeCommandListAppendBarrier(list, reinterpret_cast<ze_event_handle_t>(list), 0, nullptr));
  CHECK(complained("a handle of something else"));
  IS(ZE_RESULT_ERROR_INVALID_ARGUMENT, zeEventQueryStatus(reinterpret_cast<ze_event_handle_t>(&s)));
  CHECK(complained("no handle of this driver"));
  auto device_scope = s.event(ZE_EVENT_SCOPE_FLAG_DEVICE);
  OK(zeCommandListAppendBarrier(list, device_scope, 0, nullptr));
  OK(zeEventHostSynchronize(device_scope, soon));
  CHECK(complained("leaves the host out"));
  OK(zeEventDestroy(device_scope));
  IS(ZE_RESULT_ERROR_OVERLAPPING_REGIONS,
     zeCommandListAppendMemoryCopy(list, a, a + 1, 8, nullptr, 0, nullptr));
  IS(ZE_RESULT_ERROR_INVALID_ARGUMENT,
     zeCommandListAppendMemoryCopy(list, a + n - 1, &s, 8, nullptr, 0, nullptr));
  CHECK(complained("only partly"));
  const uint8_t pattern[16]{};
  IS(ZE_RESULT_ERROR_INVALID_SIZE,
     zeCommandListAppendMemoryFill(list, a, pattern, 3, 9, nullptr, 0, nullptr));
  IS(ZE_RESULT_ERROR_INVALID_SIZE,
     zeCommandListAppendMemoryFill(list, a, pattern, 4, 9, nullptr, 0, nullptr));
  auto copies = s.immediate(1);
  IS(ZE_RESULT_ERROR_INVALID_SIZE,
     zeCommandListAppendMemoryFill(copies, a, pattern, 16, 16, nullptr, 0, nullptr));
  ze_command_queue_desc_t desc{
      ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC, nullptr, 1, 1, 0, ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS,
      ZE_COMMAND_QUEUE_PRIORITY_NORMAL};
  ze_command_list_handle_t other{};
  IS(ZE_RESULT_ERROR_INVALID_ARGUMENT,
     zeCommandListCreateImmediate(s.context, s.device, &desc, &other));
  CHECK(complained("EXPLICIT_ONLY"));
  desc.flags = ZE_COMMAND_QUEUE_FLAG_EXPLICIT_ONLY;
  OK(zeCommandListCreateImmediate(s.context, s.device, &desc, &other));
  OK(zeCommandListDestroy(other));
  desc.index = 2;
  IS(ZE_RESULT_ERROR_INVALID_ARGUMENT,
     zeCommandListCreateImmediate(s.context, s.device, &desc, &other));
  // Memory, events and lists cannot be destroyed while queued work uses them.
  Latch latch(s);
  auto gate = s.event();
  OK(zeCommandListAppendMemoryFill(list, a, pattern, 4, bytes, nullptr, 1, &gate));
  (void)violated();
  IS(ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE, zeMemFree(s.context, a));
  CHECK(complained("freed while queued work uses it"));
  IS(ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE, zeEventDestroy(gate));
  IS(ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE, zeCommandListDestroy(list));
  IS(ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE, zeContextDestroy(s.context));
  OK(zeEventHostSignal(gate));
  s.finish(list);
  OK(zeEventDestroy(gate));
  IS(ZE_RESULT_ERROR_INVALID_ARGUMENT, zeMemFree(s.context, a + 1));
  // Two threads use one list.
  std::atomic<bool> stop{false};
  std::set<std::string> said;
  const auto append = [&] {
    while (!stop) zeCommandListAppendMemoryFill(copies, a, pattern, 1, bytes, nullptr, 0, nullptr);
  };
  std::thread first(append), second(append);
  for (int i = 0; i < 2000 && said.empty(); ++i) {
    if (violated().find("two threads") != std::string::npos) said.insert("two threads");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  stop = true;
  first.join(), second.join();
  CHECK(!said.empty());
  s.finish(copies);
  const std::string live = text("hotslot_software_live");
  CHECK(live.find("lists 2\n") != std::string::npos &&
        live.find("allocations 2\nbytes 260\n") != std::string::npos);
  latch.end();
  OK(zeCommandListDestroy(list)), OK(zeCommandListDestroy(copies));
  s.free(a);
  IS(ZE_RESULT_ERROR_INVALID_ARGUMENT, zeMemFree(s.context, a));
  s.end();
}

void injection() {
  // Runs with HOTSLOT_SOFTWARE_FAIL=zeMemAllocDevice:2:0x70000003.
  Setup s;
  auto* first = s.memory();
  const ze_device_mem_alloc_desc_t desc{ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC, nullptr, 0, 0};
  void* out = nullptr;
  IS(ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY,
     zeMemAllocDevice(s.context, &desc, bytes, 64, s.device, &out));
  auto* second = s.memory();
  auto event = s.event();
  fail("zeEventHostSignal,zeEventQueryStatus:3:0x70000001:forever");
  IS(ZE_RESULT_ERROR_UNKNOWN, zeEventHostSignal(event));
  OK(zeEventHostSignal(event));
  for (const uint32_t status : {0u, 0u, 0x70000001u, 0x70000001u})
    IS(status, zeEventQueryStatus(event));
  fail(nullptr);
  OK(zeEventQueryStatus(event));
  CHECK(text("hotslot_software_calls").find("zeMemAllocDevice 3\n") != std::string::npos);
  OK(zeEventDestroy(event));
  s.free(first), s.free(second);
  s.end();
}

// Touches device memory, which must end the process. The test checks how the process ends.
void touch() {
  Setup s;
  volatile float* memory = s.memory();
  std::puts("alive until here");
  std::fflush(stdout);
  memory[0] = 1;
}

void strict() {
  Setup s;
  zeEventQueryStatus(reinterpret_cast<ze_event_handle_t>(&s));
}

}  // namespace
