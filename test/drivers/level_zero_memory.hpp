// Calls of the Level Zero software driver on contexts and memory.
#pragma once
#include "level_zero_devices.hpp"

namespace software {
namespace {

ze_result_t create_context(const char* name, ze_driver_handle_t driver,
                           const ze_context_desc_t* desc, ze_context_handle_t* out) {
  return enter(name, [&](auto&) {
    driver_of(driver), described(desc, ZE_STRUCTURE_TYPE_CONTEXT_DESC), pointer(out);
    give(out, std::make_shared<Context>());
  });
}
ze_result_t zeContextCreate(ze_driver_handle_t driver, const ze_context_desc_t* desc,
                            ze_context_handle_t* out) {
  return create_context("zeContextCreate", driver, desc, out);
}
ze_result_t zeContextCreateEx(ze_driver_handle_t driver, const ze_context_desc_t* desc, uint32_t,
                              ze_device_handle_t*, ze_context_handle_t* out) {
  return create_context("zeContextCreateEx", driver, desc, out);
}
ze_result_t zeContextDestroy(ze_context_handle_t handle) {
  return enter("zeContextDestroy", [&](auto&) {
    const auto context = context_of(handle);
    no_child([&](const Object& object) { return object.context == context; },
             "the context still has objects");
    require(!machine().allocated(context), object_in_use, "the context still has memory");
    machine().remove(context);
  });
}
ze_result_t zeContextGetStatus(ze_context_handle_t context) {
  return enter("zeContextGetStatus", [&](auto&) { context_of(context); });
}
// Checks that the device may use the range. Shared memory belongs to one device and the host,
// unless the driver shares memory across devices.
void within_reach(const Range& range, const Ref<Device>& device) {
  if (!range.allocation || range.allocation->residence != Residence::shared ||
      features().shared == Features::shared_cross)
    return;
  require(range.allocation->device == device, invalid_argument,
          "a device uses another one's shared memory");
}
ze_result_t resident(const char* name, ze_context_handle_t handle, ze_device_handle_t device,
                     const void* memory, size_t bytes) {
  return enter(name, [&](auto&) {
    const auto context = context_of(handle);
    const auto on = device_of(device);
    pointer(memory);
    require(bytes > 0, invalid_size, "residency of nothing");
    const Range range = machine().range(memory, bytes, "residency", false);
    require(range.allocation->context == context, invalid_argument, "memory of another context");
    within_reach(range, on);
  });
}
ze_result_t zeContextMakeMemoryResident(ze_context_handle_t context, ze_device_handle_t device,
                                        void* memory, size_t bytes) {
  return resident("zeContextMakeMemoryResident", context, device, memory, bytes);
}
ze_result_t zeContextEvictMemory(ze_context_handle_t context, ze_device_handle_t device,
                                 void* memory, size_t bytes) {
  return resident("zeContextEvictMemory", context, device, memory, bytes);
}

void aligned(size_t bytes, size_t alignment) {
  require(bytes > 0, invalid_size, "an allocation of nothing");
  require((alignment & (alignment - 1)) == 0 && alignment <= 4096,
          ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT,
          "an alignment that is no power of two up to a page");
  if (bytes > std::min<uint64_t>(machine().memory_bytes(), uint64_t(4) << 30))
    refuse(ZE_RESULT_ERROR_UNSUPPORTED_SIZE);
}
// Checks memory that is to be imported. The standard extension imports through the call that
// allocates.
void import_range(void* memory, size_t bytes) {
  pointer(memory);
  require(bytes > 0, invalid_size, "an import of nothing");
  require(!machine().touching(uintptr_t(memory), bytes), invalid_argument,
          "imported memory overlaps an import or an allocation");
}
ze_result_t zeMemAllocDevice(ze_context_handle_t context, const ze_device_mem_alloc_desc_t* desc,
                             size_t bytes, size_t alignment, ze_device_handle_t handle,
                             void** out) {
  return enter("zeMemAllocDevice", [&](auto&) {
    const auto device = device_of(handle);
    described(desc, ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC), pointer(out),
        aligned(bytes, alignment);
    const auto memory = machine().allocate(Residence::device, context_of(context), device, bytes);
    if (!memory) refuse(ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
    *out = reinterpret_cast<void*>(memory->base);
  });
}
ze_result_t zeMemAllocHost(ze_context_handle_t handle, const ze_host_mem_alloc_desc_t* desc,
                           size_t bytes, size_t alignment, void** out) {
  return enter("zeMemAllocHost", [&](auto&) {
    const auto context = context_of(handle);
    described(desc, ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC), pointer(out);
    for (auto* next = static_cast<const newer::Head*>(desc->pNext); next; next = next->next) {
      if (next->stype != newer::stype_memmap_sysmem) continue;
      if (!features().import_standard)
        refuse(unsupported_feature,
               "this driver does not list ZE_extension_external_memmap_sysmem");
      auto& map = *reinterpret_cast<const newer::MemmapSysmem*>(next);
      require(uintptr_t(map.memory) % 4096 == 0 && map.size % 4096 == 0, invalid_argument,
              "imported memory that is not whole pages");
      require(map.size == bytes, invalid_argument, "an import of another size than the allocation");
      import_range(map.memory, bytes);
      machine().import(context, map.memory, bytes, true);
      *out = map.memory;
      return;
    }
    aligned(bytes, alignment);
    const auto memory = machine().allocate(Residence::host, context, nullptr, bytes);
    if (!memory) refuse(ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY);
    *out = reinterpret_cast<void*>(memory->base);
  });
}
ze_result_t zeMemAllocShared(ze_context_handle_t context, const ze_device_mem_alloc_desc_t* desc,
                             const ze_host_mem_alloc_desc_t* host, size_t bytes, size_t alignment,
                             ze_device_handle_t device, void** out) {
  return enter("zeMemAllocShared", [&](auto&) {
    described(desc, ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC),
        described(host, ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC), pointer(out);
    aligned(bytes, alignment);
    if (features().shared == Features::shared_none)
      refuse(unsupported_feature, "this device has no shared memory");
    require(device || features().shared == Features::shared_cross, invalid_argument,
            "shared memory of no device, where only one device can have it");
    const auto memory = machine().allocate(Residence::shared, context_of(context),
                                           device ? device_of(device) : nullptr, bytes);
    if (!memory) refuse(ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
    *out = reinterpret_cast<void*>(memory->base);
  });
}
Ref<Allocation> allocation_at(const void* memory) {
  pointer(memory);
  const auto allocation = machine().touching(uintptr_t(memory), 1);
  require(allocation && allocation->base == uintptr_t(memory), invalid_argument,
          "a pointer that no allocation or import begins at");
  return allocation;
}
ze_result_t zeMemFree(ze_context_handle_t handle, void* memory) {
  return enter("zeMemFree", [&](auto&) {
    const auto context = context_of(handle);
    const auto allocation = allocation_at(memory);
    require(allocation->released_by_free, invalid_argument,
            "memory imported by zexDriverImportExternalPointer is not freed but released");
    require(allocation->context == context, invalid_argument, "memory of another context");
    machine().free(allocation);
  });
}
ze_result_t zeMemGetAllocProperties(ze_context_handle_t context, const void* memory,
                                    ze_memory_allocation_properties_t* out,
                                    ze_device_handle_t* device) {
  return enter("zeMemGetAllocProperties", [&](auto&) {
    context_of(context), pointer(memory),
        described(out, ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES);
    const auto allocation = machine().touching(uintptr_t(memory), 1);
    const auto residence = allocation ? allocation->residence : Residence::host;
    out->type = !allocation                      ? ZE_MEMORY_TYPE_UNKNOWN
                : residence == Residence::device ? ZE_MEMORY_TYPE_DEVICE
                : residence == Residence::shared ? ZE_MEMORY_TYPE_SHARED
                                                 : ZE_MEMORY_TYPE_HOST;
    out->id = allocation ? allocation->id : 0;
    out->pageSize = allocation ? 4096 : 0;
    if (device)
      *device = allocation && allocation->device
                    ? reinterpret_cast<ze_device_handle_t>(allocation->device->handle)
                    : nullptr;
  });
}
ze_result_t zeMemGetAddressRange(ze_context_handle_t context, const void* memory, void** base,
                                 size_t* bytes) {
  return enter("zeMemGetAddressRange", [&](auto&) {
    context_of(context), pointer(memory);
    const auto allocation = machine().touching(uintptr_t(memory), 1);
    if (!allocation) refuse(ZE_RESULT_ERROR_UNKNOWN);
    if (base) *base = reinterpret_cast<void*>(allocation->base);
    if (bytes) *bytes = allocation->bytes;
  });
}
ze_result_t zexDriverImportExternalPointer(ze_driver_handle_t driver, void* memory, size_t bytes) {
  return enter("zexDriverImportExternalPointer", [&](auto&) {
    driver_of(driver), import_range(memory, bytes);
    machine().import(nullptr, memory, bytes, false);
  });
}
ze_result_t zexDriverReleaseImportedPointer(ze_driver_handle_t driver, void* memory) {
  return enter("zexDriverReleaseImportedPointer", [&](auto&) {
    driver_of(driver);
    const auto allocation = allocation_at(memory);
    require(!allocation->released_by_free, invalid_argument,
            "memory that zexDriverImportExternalPointer did not import");
    machine().free(allocation);
  });
}

}  // namespace
}  // namespace software
