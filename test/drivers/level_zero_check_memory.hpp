// Scenarios of level_zero_check: two devices, little memory, and memory that a device and the host
// share.
#pragma once
#include "level_zero_check_setup.hpp"

namespace {

void peers() {
  // Runs with devices=2,memory=64.
  Setup s;
  CHECK(s.devices.size() == 2);
  ze_bool_t can = 0;
  OK(zeDeviceCanAccessPeer(s.devices[0], s.devices[1], &can));
  CHECK(can);
  auto* a = s.memory(bytes, 0);
  auto* b = s.memory(bytes, 1);
  auto list = s.immediate();
  const float one = 1;
  OK(zeCommandListAppendMemoryFill(list, a, &one, 4, bytes, nullptr, 0, nullptr));
  OK(zeCommandListAppendBarrier(list, nullptr, 0, nullptr));
  OK(zeCommandListAppendMemoryCopy(list, b, a, bytes, nullptr, 0, nullptr));
  s.finish(list);
  CHECK(s.read(list, b) == 1);
  ze_memory_allocation_properties_t properties{};
  properties.stype = ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES;
  ze_device_handle_t where{};
  OK(zeMemGetAllocProperties(s.context, b + 3, &properties, &where));
  CHECK(properties.type == ZE_MEMORY_TYPE_DEVICE && where == s.devices[1]);
  OK(zeMemGetAllocProperties(s.context, &s, &properties, &where));
  CHECK(properties.type == ZE_MEMORY_TYPE_UNKNOWN);
  const ze_device_mem_alloc_desc_t desc{ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC, nullptr, 0, 0};
  void* out = nullptr;
  IS(ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY,
     zeMemAllocDevice(s.context, &desc, 64 << 20, 64, s.device, &out));
  s.free(a), s.free(b);
  OK(zeCommandListDestroy(list));
  s.end();
}

// Shared memory moves between its device and the host and, if the driver says so, to other devices.
// Runs with devices=2,memory=64.
void shared() {
  Setup s;
  const ze_device_mem_alloc_desc_t on{ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC, nullptr, 0, 0};
  const ze_host_mem_alloc_desc_t with{ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC, nullptr, 0};
  const auto allocate = [&](ze_result_t expected, size_t size, ze_device_handle_t device) {
    void* out = nullptr;
    IS(expected, zeMemAllocShared(s.context, &on, &with, size, 64, device, &out));
    return static_cast<float*>(out);
  };
  ze_device_memory_access_properties_t access{};
  access.stype = ZE_STRUCTURE_TYPE_DEVICE_MEMORY_ACCESS_PROPERTIES;
  OK(zeDeviceGetMemoryAccessProperties(s.device, &access));
  if (!access.sharedSingleDeviceAllocCapabilities) {
    allocate(ZE_RESULT_ERROR_UNSUPPORTED_FEATURE, bytes, s.device);
    return s.end();
  }
  const bool cross = access.sharedCrossDeviceAllocCapabilities;
  auto* a = allocate(ZE_RESULT_SUCCESS, bytes, s.device);
  auto* plain = s.memory();
  auto list = s.immediate();
  const float five = 5;
  a[1] = 4;
  CHECK(s.read(list, a + 1) == 4);
  OK(zeCommandListAppendMemoryFill(list, a, &five, 4, bytes, nullptr, 0, nullptr));
  OK(zeCommandListAppendBarrier(list, nullptr, 0, nullptr));
  OK(zeCommandListAppendMemoryPrefetch(list, a, bytes));
  OK(zeCommandListAppendMemAdvise(list, s.device, a, bytes,
                                  ZE_MEMORY_ADVICE_SET_PREFERRED_LOCATION));
  OK(zeContextMakeMemoryResident(s.context, s.device, a, bytes));
  OK(zeContextEvictMemory(s.context, s.device, a, bytes));
  s.finish(list);
  CHECK(a[n - 1] == 5);
  CHECK(text("hotslot_software_live").find("allocations 2\nbytes 512\n") != std::string::npos);
  CHECK(violated().empty());

  const auto prefer_system = ze_memory_advice_t(8);
  IS(cross ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_INVALID_ENUMERATION,
     zeCommandListAppendMemAdvise(list, s.device, a, bytes, prefer_system));
  CHECK(violated().empty());
  IS(ZE_RESULT_ERROR_INVALID_NULL_POINTER, zeCommandListAppendMemoryPrefetch(list, nullptr, bytes));
  IS(ZE_RESULT_ERROR_INVALID_NULL_HANDLE,
     zeCommandListAppendMemAdvise(list, nullptr, a, bytes,
                                  ZE_MEMORY_ADVICE_SET_PREFERRED_LOCATION));
  IS(ZE_RESULT_ERROR_INVALID_SIZE, zeCommandListAppendMemoryPrefetch(list, a, 0));
  (void)violated();
  IS(ZE_RESULT_ERROR_INVALID_ARGUMENT, zeCommandListAppendMemoryPrefetch(list, &s, 4));
  CHECK(complained("no live allocation"));
  IS(ZE_RESULT_ERROR_INVALID_ARGUMENT, zeCommandListAppendMemoryPrefetch(list, a + 1, bytes));
  CHECK(complained("only partly"));
  IS(ZE_RESULT_ERROR_INVALID_ARGUMENT, zeCommandListAppendMemoryPrefetch(list, plain, bytes));
  CHECK(complained("only shared memory moves"));
  IS(ZE_RESULT_ERROR_INVALID_ARGUMENT, zeContextMakeMemoryResident(s.context, s.device, &s, 4));
  (void)violated();

  // The second device uses the memory.
  std::swap(s.device, s.devices[1]);
  auto theirs = s.immediate();
  std::swap(s.device, s.devices[1]);
  const auto other = cross ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_INVALID_ARGUMENT;
  for (const int use : {0, 1, 2, 3}) {
    IS(other, use == 0
                  ? zeCommandListAppendMemoryFill(theirs, a, &five, 4, bytes, nullptr, 0, nullptr)
              : use == 1 ? zeCommandListAppendMemoryPrefetch(theirs, a, bytes)
              : use == 2 ? zeContextMakeMemoryResident(s.context, s.devices[1], a, bytes)
                         : zeCommandListAppendMemAdvise(list, s.devices[1], a, bytes,
                                                        ZE_MEMORY_ADVICE_SET_PREFERRED_LOCATION));
    CHECK(cross ? violated().empty() : complained("another one's shared memory"));
  }
  if (cross)
    s.free(allocate(ZE_RESULT_SUCCESS, bytes, nullptr));
  else
    allocate(ZE_RESULT_ERROR_INVALID_ARGUMENT, bytes, nullptr);
  allocate(ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY, 64 << 20, s.device);
  s.finish(list), s.finish(theirs);

  // A prefetch that waits is work that uses the memory.
  (void)violated();
  auto gate = s.event();
  OK(zeCommandListAppendBarrier(list, nullptr, 1, &gate));
  OK(zeCommandListAppendMemoryPrefetch(list, a, bytes));
  IS(ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE, zeMemFree(s.context, a));
  CHECK(complained("while queued work uses it"));
  OK(zeEventHostSignal(gate));
  s.finish(list);
  OK(zeEventDestroy(gate));
  s.free(a), s.free(plain);
  OK(zeCommandListDestroy(list)), OK(zeCommandListDestroy(theirs));
  s.end();
}

}  // namespace
