// Calls of the Level Zero software driver on the driver and its devices.
#pragma once
#include "level_zero_entry.hpp"

namespace software {
namespace {

struct Group {
  uint32_t flags;
  size_t pattern;
  uint32_t queues;
};
constexpr Group groups[] = {
    {ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COMPUTE | ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COPY, 16,
     4},
    {ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COPY, 4, 2}};
constexpr uint32_t compute_ordinal = 0, group_count = 2, largest_group = 1024;

ze_result_t zeInit(ze_init_flags_t which) {
  if (const uint32_t status = Calls::all().enter("zeInit")) return ze_result_t(status);
  auto& m = machine();
  std::lock_guard held(m.lock);
  if (which & ZE_INIT_FLAG_VPU_ONLY && !(which & ZE_INIT_FLAG_GPU_ONLY))
    return ZE_RESULT_ERROR_UNINITIALIZED;
  if (!features().unknown.empty()) {
    Calls::all().complain(
        "zeInit", "HOTSLOT_SOFTWARE_ZE has '" + features().unknown + "', which means nothing",
        true);
    return ZE_RESULT_ERROR_UNINITIALIZED;
  }
  if (m.initialised) return ZE_RESULT_SUCCESS;
  m.initialised = true;
  m.driver = m.add(std::make_shared<Driver>());
  for (uint32_t i = 0; i < features().devices; ++i)
    m.devices.push_back(m.add(std::make_shared<Device>(i)));
  return ZE_RESULT_SUCCESS;
}

template <class H, class L>
void enumerate(uint32_t* count, H* out, const L& all) {
  pointer(count);
  if (*count == 0 || *count > all.size() || !out) *count = uint32_t(all.size());
  if (out)
    for (uint32_t i = 0; i < *count; ++i) out[i] = reinterpret_cast<H>(all[i]->handle);
}

ze_result_t zeDriverGet(uint32_t* count, ze_driver_handle_t* out) {
  return enter("zeDriverGet",
               [&](auto&) { enumerate(count, out, std::vector<Ref<Driver>>{machine().driver}); });
}
Ref<Driver> driver_of(ze_driver_handle_t handle) {
  return machine().find<Driver>(handle, Sort::driver);
}

ze_result_t zeDriverGetApiVersion(ze_driver_handle_t driver, ze_api_version_t* version) {
  return enter("zeDriverGetApiVersion", [&](auto&) {
    driver_of(driver), pointer(version);
    *version = ze_api_version_t(ZE_MAKE_VERSION(features().major, features().minor));
  });
}
ze_result_t zeDriverGetProperties(ze_driver_handle_t driver, ze_driver_properties_t* out) {
  return enter("zeDriverGetProperties", [&](auto&) {
    driver_of(driver), described(out, ZE_STRUCTURE_TYPE_DRIVER_PROPERTIES);
    memcpy(out->uuid.id, "hotslot software", 16);
    out->driverVersion = 0x01000000 | features().minor;
  });
}

std::vector<const char*> extensions() {
  std::vector<const char*> names;
  if (features().import_intel) names.push_back("ZEX_driver_import_host_pointer");
  if (features().import_standard) names.push_back("ZE_extension_external_memmap_sysmem");
  if (features().counter) names.push_back("ZEX_counter_based_event");
  if (features().immediate_append) names.push_back("ZE_experimental_immediate_command_list_append");
  if (features().graph != Features::none) names.push_back("ZE_extension_record_replay_graph");
  return names;
}
ze_result_t zeDriverGetExtensionProperties(ze_driver_handle_t driver, uint32_t* count,
                                           ze_driver_extension_properties_t* out) {
  return enter("zeDriverGetExtensionProperties", [&](auto&) {
    driver_of(driver), pointer(count);
    const auto names = extensions();
    if (*count == 0 || *count > names.size() || !out) *count = uint32_t(names.size());
    if (out)
      for (uint32_t i = 0; i < *count; ++i) {
        std::snprintf(out[i].name, sizeof out[i].name, "%s", names[i]);
        out[i].version = ZE_MAKE_VERSION(1, 0);
      }
  });
}

ze_result_t zeDeviceGet(ze_driver_handle_t driver, uint32_t* count, ze_device_handle_t* out) {
  return enter("zeDeviceGet",
               [&](auto&) { driver_of(driver), enumerate(count, out, machine().devices); });
}
ze_result_t zeDeviceGetSubDevices(ze_device_handle_t device, uint32_t* count, ze_device_handle_t*) {
  return enter("zeDeviceGetSubDevices",
               [&](auto&) { device_of(device), pointer(count), *count = 0; });
}
ze_result_t zeDeviceGetProperties(ze_device_handle_t handle, ze_device_properties_t* out) {
  return enter("zeDeviceGetProperties", [&](auto&) {
    const auto device = device_of(handle);
    pointer(out);
    const bool cycles = out->stype == ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES_1_2;
    require(cycles || out->stype == ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES, invalid_argument,
            "a structure without its type");
    out->type = ZE_DEVICE_TYPE_GPU;
    out->vendorId = 0;
    out->deviceId = device->index;
    out->flags = 0;
    out->subdeviceId = 0;
    out->coreClockRate = 1000;
    out->maxMemAllocSize = std::min<uint64_t>(machine().memory_bytes(), uint64_t(4) << 30);
    out->maxHardwareContexts = 64;
    out->maxCommandQueuePriority = 0;
    out->numThreadsPerEU = 8;
    out->physicalEUSimdWidth = 8;
    out->numEUsPerSubslice = 8;
    out->numSubslicesPerSlice = 4;
    out->numSlices = 1;
    out->timerResolution = cycles ? cycles_per_second : cycle_ns;
    out->timestampValidBits = 64;
    out->kernelTimestampValidBits = features().timestamps ? 32 : 0;
    memcpy(out->uuid.id, "hotslot device  ", 16);
    out->uuid.id[15] = uint8_t(device->index);
    std::snprintf(out->name, sizeof out->name, "Hotslot software driver (Level Zero 1.%u)",
                  features().minor);
    for (auto* next = static_cast<newer::Head*>(out->pNext); next;
         next = const_cast<newer::Head*>(next->next))
      if (next->stype == newer::stype_graph_properties && features().graph != Features::none)
        reinterpret_cast<newer::GraphProperties*>(next)->flags =
            features().graph == Features::flag ? 1 : 0;
  });
}
ze_result_t zeDeviceGetComputeProperties(ze_device_handle_t device,
                                         ze_device_compute_properties_t* out) {
  return enter("zeDeviceGetComputeProperties", [&](auto&) {
    device_of(device), described(out, ZE_STRUCTURE_TYPE_DEVICE_COMPUTE_PROPERTIES);
    out->maxTotalGroupSize = out->maxGroupSizeX = out->maxGroupSizeY = out->maxGroupSizeZ =
        largest_group;
    out->maxGroupCountX = out->maxGroupCountY = out->maxGroupCountZ = 0x7fffffff;
    out->maxSharedLocalMemory = 65536;
    out->numSubGroupSizes = 2;
    out->subGroupSizes[0] = 16, out->subGroupSizes[1] = 32;
  });
}
ze_result_t zeDeviceGetModuleProperties(ze_device_handle_t device,
                                        ze_device_module_properties_t* out) {
  return enter("zeDeviceGetModuleProperties", [&](auto&) {
    device_of(device), described(out, ZE_STRUCTURE_TYPE_DEVICE_MODULE_PROPERTIES);
    out->spirvVersionSupported = ZE_MAKE_VERSION(1, 2);
    out->flags = features().fp64 ? ZE_DEVICE_MODULE_FLAG_FP64 : 0;
    out->fp16flags = 0;
    out->fp32flags =
        ZE_DEVICE_FP_FLAG_DENORM | ZE_DEVICE_FP_FLAG_INF_NAN | ZE_DEVICE_FP_FLAG_ROUND_TO_NEAREST;
    out->fp64flags = features().fp64 ? out->fp32flags : 0;
    out->maxArgumentsSize = 2048;
    out->printfBufferSize = 0;
  });
}
ze_result_t zeDeviceGetCommandQueueGroupProperties(ze_device_handle_t device, uint32_t* count,
                                                   ze_command_queue_group_properties_t* out) {
  return enter("zeDeviceGetCommandQueueGroupProperties", [&](auto&) {
    device_of(device), pointer(count);
    if (*count == 0 || *count > group_count || !out) *count = group_count;
    if (out)
      for (uint32_t i = 0; i < *count; ++i) {
        described(&out[i], ZE_STRUCTURE_TYPE_COMMAND_QUEUE_GROUP_PROPERTIES);
        out[i].flags = groups[i].flags;
        out[i].maxMemoryFillPatternSize = groups[i].pattern;
        out[i].numQueues = groups[i].queues;
      }
  });
}
ze_result_t zeDeviceGetMemoryProperties(ze_device_handle_t device, uint32_t* count,
                                        ze_device_memory_properties_t* out) {
  return enter("zeDeviceGetMemoryProperties", [&](auto&) {
    device_of(device), pointer(count);
    if (*count == 0 || *count > 1 || !out) *count = 1;
    if (!out) return;
    described(out, ZE_STRUCTURE_TYPE_DEVICE_MEMORY_PROPERTIES);
    out->flags = 0;
    out->maxClockRate = 1000;
    out->maxBusWidth = 64;
    out->totalSize = machine().memory_bytes();
    std::snprintf(out->name, sizeof out->name, "software");
  });
}
ze_result_t zeDeviceGetMemoryAccessProperties(ze_device_handle_t device,
                                              ze_device_memory_access_properties_t* out) {
  return enter("zeDeviceGetMemoryAccessProperties", [&](auto&) {
    device_of(device), described(out, ZE_STRUCTURE_TYPE_DEVICE_MEMORY_ACCESS_PROPERTIES);
    const auto plain = ZE_MEMORY_ACCESS_CAP_FLAG_RW;
    out->hostAllocCapabilities = out->deviceAllocCapabilities = plain;
    out->sharedSingleDeviceAllocCapabilities =
        features().shared != Features::shared_none ? plain : 0;
    out->sharedCrossDeviceAllocCapabilities =
        features().shared == Features::shared_cross ? plain : 0;
    out->sharedSystemAllocCapabilities = 0;
  });
}
ze_result_t zeDeviceCanAccessPeer(ze_device_handle_t device, ze_device_handle_t peer,
                                  ze_bool_t* out) {
  return enter("zeDeviceCanAccessPeer",
               [&](auto&) { device_of(device), device_of(peer), pointer(out), *out = 1; });
}
ze_result_t zeDeviceGetP2PProperties(ze_device_handle_t device, ze_device_handle_t peer,
                                     ze_device_p2p_properties_t* out) {
  return enter("zeDeviceGetP2PProperties", [&](auto&) {
    device_of(device), device_of(peer), described(out, ZE_STRUCTURE_TYPE_DEVICE_P2P_PROPERTIES);
    out->flags = ZE_DEVICE_P2P_PROPERTY_FLAG_ACCESS;
  });
}
ze_result_t zeDeviceGetStatus(ze_device_handle_t device) {
  return enter("zeDeviceGetStatus", [&](auto&) { device_of(device); });
}
ze_result_t zeDeviceGetGlobalTimestamps(ze_device_handle_t device, uint64_t* host, uint64_t* own) {
  return enter("zeDeviceGetGlobalTimestamps", [&](auto&) {
    device_of(device), pointer(host), pointer(own);
    *host = now_ns();
    *own = *host / cycle_ns;
  });
}

}  // namespace
}  // namespace software
