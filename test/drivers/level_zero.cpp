// A Level Zero driver in software, for tests: the vendor's loader loads it through ZE_ENABLE_ALT_DRIVERS as it would a real
// one. It is stricter than any: lists keep no order they do not promise, device memory is out of the host's reach, stale
// handles, memory in use, half-registered ranges and racing threads are found. level_zero_testing.hpp has what steers it:
//   HOTSLOT_SOFTWARE_ZE       spec=1.4 (default), spec=1.9 or modern, then single features (see Features)
//   HOTSLOT_SOFTWARE_STRICT   print: mistakes of the caller are said; abort: and end the program
//   HOTSLOT_SOFTWARE_FAIL     name[:nth[:status[:forever]]]: this call fails
//   HOTSLOT_SOFTWARE_LOG      a file that gets every call and its count at exit
// Declarations come from the vendor's headers alone, never from the ABI page of the backend it checks.
#include <level_zero/ze_api.h>
#include <level_zero/ze_ddi.h>
#include <level_zero/zes_api.h>
#include <level_zero/zes_ddi.h>
#include <level_zero/zet_api.h>
#include <level_zero/zet_ddi.h>

#include "level_zero_machine.hpp"

namespace software {
namespace {

// The results most calls can have, by shorter names.
constexpr auto not_ready = ZE_RESULT_NOT_READY, device_lost = ZE_RESULT_ERROR_DEVICE_LOST, invalid_argument = ZE_RESULT_ERROR_INVALID_ARGUMENT,
               invalid_size = ZE_RESULT_ERROR_INVALID_SIZE, invalid_enumeration = ZE_RESULT_ERROR_INVALID_ENUMERATION,
               object_in_use = ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE, unsupported_feature = ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;

Machine& machine() { return Machine::one(); }
const Features& features() { return machine().features; }

// Every entry point runs in here: counted, made to fail when a test wants it, one at a time, refusals become results.
template <class F>
ze_result_t enter(const char* name, F&& body) {
  if (const uint32_t status = Calls::all().enter(name)) return ze_result_t(status);
  try {
    std::unique_lock held(machine().lock);
    if (!machine().initialised) return ZE_RESULT_ERROR_UNINITIALIZED;
    if constexpr (std::is_void_v<decltype(body(held))>) {
      body(held);
      return ZE_RESULT_SUCCESS;
    } else {
      return body(held);
    }
  } catch (const Refusal& refusal) {
    if (!refusal.what.empty()) Calls::all().complain(name, refusal.what);
    return refusal.status;
  } catch (const std::bad_alloc&) {
    return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
  }
}

// The same for calls that no two threads may make for one object at the same time: one of them is refused.
class Alone {
 public:
  template <class... H>
  explicit Alone(H... handles) {
    std::lock_guard held(machine().lock);
    for (uintptr_t handle : {uintptr_t(handles)...})
      if (auto object = machine().look_up(handle)) {
        if (object->user.exchange(true)) taken = true;
        else mine_.push_back(std::move(object));
      }
  }
  ~Alone() {
    for (auto& object : mine_) object->user.store(false);
  }
  bool taken = false;

 private:
  std::vector<Ref<Object>> mine_;
};
template <class F>
ze_result_t enter_alone(const char* name, const Alone& alone, F&& body) {
  return enter(name, [&](auto& held) {
    require(!alone.taken, object_in_use, "two threads use the same object at the same time");
    return body(held);
  });
}

template <class H, class T>
void give(H* out, const Ref<T>& object) {
  *out = reinterpret_cast<H>(machine().add(object)->handle);
}
template <class T>
void pointer(T* value) {
  require(value != nullptr, ZE_RESULT_ERROR_INVALID_NULL_POINTER, "a null pointer");
}
template <class D>
void described(const D* desc, ze_structure_type_t stype) {
  pointer(desc);
  require(desc->stype == stype, invalid_argument, "a structure without its type");
}
void flags(uint32_t given, uint32_t known) {
  if (given & ~known) refuse(invalid_enumeration, "flags " + std::to_string(given) + ", of which this version knows " + std::to_string(known));
}

Ref<Context> context_of(ze_context_handle_t handle) { return machine().find<Context>(handle, Sort::context); }
Ref<Device> device_of(ze_device_handle_t handle) { return machine().find<Device>(handle, Sort::device); }
Ref<List> list_of(ze_command_list_handle_t handle) { return machine().find<List>(handle, Sort::list); }
Ref<Event> event_of(ze_event_handle_t handle) { return machine().find<Event>(handle, Sort::event); }
Ref<Kernel> kernel_of(ze_kernel_handle_t handle) { return machine().find<Kernel>(handle, Sort::kernel); }

void unused(const Object& object, const char* what) {
  if (object.in_use) refuse(object_in_use, std::string(what) + " is destroyed while queued work uses it");
}
template <class F>
void no_child(F&& matches, const char* what) {
  if (machine().any(matches)) refuse(object_in_use, what);
}

// ---- driver and devices ----------------------------------------------------------------------------------------------

struct Group {
  uint32_t flags;
  size_t pattern;
  uint32_t queues;
};
constexpr Group groups[] = {{ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COMPUTE | ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COPY, 16, 4},
                            {ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COPY, 4, 2}};
constexpr uint32_t compute_ordinal = 0, group_count = 2, largest_group = 1024;

ze_result_t zeInit(ze_init_flags_t which) {
  if (const uint32_t status = Calls::all().enter("zeInit")) return ze_result_t(status);
  auto& m = machine();
  std::lock_guard held(m.lock);
  if (which & ZE_INIT_FLAG_VPU_ONLY && !(which & ZE_INIT_FLAG_GPU_ONLY)) return ZE_RESULT_ERROR_UNINITIALIZED;
  if (!features().unknown.empty()) {
    Calls::all().complain("zeInit", "HOTSLOT_SOFTWARE_ZE has '" + features().unknown + "', which means nothing", true);
    return ZE_RESULT_ERROR_UNINITIALIZED;
  }
  if (m.initialised) return ZE_RESULT_SUCCESS;
  m.initialised = true;
  m.driver = m.add(std::make_shared<Driver>());
  for (uint32_t i = 0; i < features().devices; ++i) m.devices.push_back(m.add(std::make_shared<Device>(i)));
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
  return enter("zeDriverGet", [&](auto&) { enumerate(count, out, std::vector<Ref<Driver>>{machine().driver}); });
}
Ref<Driver> driver_of(ze_driver_handle_t handle) { return machine().find<Driver>(handle, Sort::driver); }

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
ze_result_t zeDriverGetExtensionProperties(ze_driver_handle_t driver, uint32_t* count, ze_driver_extension_properties_t* out) {
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
  return enter("zeDeviceGet", [&](auto&) { driver_of(driver), enumerate(count, out, machine().devices); });
}
ze_result_t zeDeviceGetSubDevices(ze_device_handle_t device, uint32_t* count, ze_device_handle_t*) {
  return enter("zeDeviceGetSubDevices", [&](auto&) { device_of(device), pointer(count), *count = 0; });
}
ze_result_t zeDeviceGetProperties(ze_device_handle_t handle, ze_device_properties_t* out) {
  return enter("zeDeviceGetProperties", [&](auto&) {
    const auto device = device_of(handle);
    pointer(out);
    const bool cycles = out->stype == ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES_1_2;
    require(cycles || out->stype == ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES, invalid_argument, "a structure without its type");
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
    std::snprintf(out->name, sizeof out->name, "Hotslot software driver (Level Zero 1.%u)", features().minor);
    for (auto* next = static_cast<newer::Head*>(out->pNext); next; next = const_cast<newer::Head*>(next->next))
      if (next->stype == newer::stype_graph_properties && features().graph != Features::none)
        reinterpret_cast<newer::GraphProperties*>(next)->flags = features().graph == Features::flag ? 1 : 0;
  });
}
ze_result_t zeDeviceGetComputeProperties(ze_device_handle_t device, ze_device_compute_properties_t* out) {
  return enter("zeDeviceGetComputeProperties", [&](auto&) {
    device_of(device), described(out, ZE_STRUCTURE_TYPE_DEVICE_COMPUTE_PROPERTIES);
    out->maxTotalGroupSize = out->maxGroupSizeX = out->maxGroupSizeY = out->maxGroupSizeZ = largest_group;
    out->maxGroupCountX = out->maxGroupCountY = out->maxGroupCountZ = 0x7fffffff;
    out->maxSharedLocalMemory = 65536;
    out->numSubGroupSizes = 2;
    out->subGroupSizes[0] = 16, out->subGroupSizes[1] = 32;
  });
}
ze_result_t zeDeviceGetModuleProperties(ze_device_handle_t device, ze_device_module_properties_t* out) {
  return enter("zeDeviceGetModuleProperties", [&](auto&) {
    device_of(device), described(out, ZE_STRUCTURE_TYPE_DEVICE_MODULE_PROPERTIES);
    out->spirvVersionSupported = ZE_MAKE_VERSION(1, 2);
    out->flags = features().fp64 ? ZE_DEVICE_MODULE_FLAG_FP64 : 0;
    out->fp16flags = 0;
    out->fp32flags = ZE_DEVICE_FP_FLAG_DENORM | ZE_DEVICE_FP_FLAG_INF_NAN | ZE_DEVICE_FP_FLAG_ROUND_TO_NEAREST;
    out->fp64flags = features().fp64 ? out->fp32flags : 0;
    out->maxArgumentsSize = 2048;
    out->printfBufferSize = 0;
  });
}
ze_result_t zeDeviceGetCommandQueueGroupProperties(ze_device_handle_t device, uint32_t* count, ze_command_queue_group_properties_t* out) {
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
ze_result_t zeDeviceGetMemoryProperties(ze_device_handle_t device, uint32_t* count, ze_device_memory_properties_t* out) {
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
ze_result_t zeDeviceGetMemoryAccessProperties(ze_device_handle_t device, ze_device_memory_access_properties_t* out) {
  return enter("zeDeviceGetMemoryAccessProperties", [&](auto&) {
    device_of(device), described(out, ZE_STRUCTURE_TYPE_DEVICE_MEMORY_ACCESS_PROPERTIES);
    const auto plain = ZE_MEMORY_ACCESS_CAP_FLAG_RW;
    out->hostAllocCapabilities = out->deviceAllocCapabilities = plain;
    out->sharedSingleDeviceAllocCapabilities = features().shared != Features::shared_none ? plain : 0;
    out->sharedCrossDeviceAllocCapabilities = features().shared == Features::shared_cross ? plain : 0;
    out->sharedSystemAllocCapabilities = 0;
  });
}
ze_result_t zeDeviceCanAccessPeer(ze_device_handle_t device, ze_device_handle_t peer, ze_bool_t* out) {
  return enter("zeDeviceCanAccessPeer", [&](auto&) { device_of(device), device_of(peer), pointer(out), *out = 1; });
}
ze_result_t zeDeviceGetP2PProperties(ze_device_handle_t device, ze_device_handle_t peer, ze_device_p2p_properties_t* out) {
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

// ---- contexts and memory ---------------------------------------------------------------------------------------------

ze_result_t create_context(const char* name, ze_driver_handle_t driver, const ze_context_desc_t* desc, ze_context_handle_t* out) {
  return enter(name, [&](auto&) {
    driver_of(driver), described(desc, ZE_STRUCTURE_TYPE_CONTEXT_DESC), pointer(out);
    give(out, std::make_shared<Context>());
  });
}
ze_result_t zeContextCreate(ze_driver_handle_t driver, const ze_context_desc_t* desc, ze_context_handle_t* out) {
  return create_context("zeContextCreate", driver, desc, out);
}
ze_result_t zeContextCreateEx(ze_driver_handle_t driver, const ze_context_desc_t* desc, uint32_t, ze_device_handle_t*, ze_context_handle_t* out) {
  return create_context("zeContextCreateEx", driver, desc, out);
}
ze_result_t zeContextDestroy(ze_context_handle_t handle) {
  return enter("zeContextDestroy", [&](auto&) {
    const auto context = context_of(handle);
    no_child([&](const Object& object) { return object.context == context; }, "the context still has objects");
    require(!machine().allocated(context), object_in_use, "the context still has memory");
    machine().remove(context);
  });
}
ze_result_t zeContextGetStatus(ze_context_handle_t context) {
  return enter("zeContextGetStatus", [&](auto&) { context_of(context); });
}
// Shared memory is one device's and the host's, unless it is shared across devices.
void within_reach(const Range& range, const Ref<Device>& device) {
  if (!range.allocation || range.allocation->residence != Residence::shared || features().shared == Features::shared_cross) return;
  require(range.allocation->device == device, invalid_argument, "a device uses another one's shared memory");
}
ze_result_t resident(const char* name, ze_context_handle_t handle, ze_device_handle_t device, const void* memory, size_t bytes) {
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
ze_result_t zeContextMakeMemoryResident(ze_context_handle_t context, ze_device_handle_t device, void* memory, size_t bytes) {
  return resident("zeContextMakeMemoryResident", context, device, memory, bytes);
}
ze_result_t zeContextEvictMemory(ze_context_handle_t context, ze_device_handle_t device, void* memory, size_t bytes) {
  return resident("zeContextEvictMemory", context, device, memory, bytes);
}

void aligned(size_t bytes, size_t alignment) {
  require(bytes > 0, invalid_size, "an allocation of nothing");
  require((alignment & (alignment - 1)) == 0 && alignment <= 4096, ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT,
          "an alignment that is no power of two up to a page");
  if (bytes > std::min<uint64_t>(machine().memory_bytes(), uint64_t(4) << 30)) refuse(ZE_RESULT_ERROR_UNSUPPORTED_SIZE);
}
// Import and allocation are one call in the standard way.
void import_range(void* memory, size_t bytes) {
  pointer(memory);
  require(bytes > 0, invalid_size, "an import of nothing");
  require(!machine().touching(uintptr_t(memory), bytes), invalid_argument, "imported memory overlaps an import or an allocation");
}
ze_result_t zeMemAllocDevice(ze_context_handle_t context, const ze_device_mem_alloc_desc_t* desc, size_t bytes, size_t alignment,
                             ze_device_handle_t handle, void** out) {
  return enter("zeMemAllocDevice", [&](auto&) {
    const auto device = device_of(handle);
    described(desc, ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC), pointer(out), aligned(bytes, alignment);
    const auto memory = machine().allocate(Residence::device, context_of(context), device, bytes);
    if (!memory) refuse(ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
    *out = reinterpret_cast<void*>(memory->base);
  });
}
ze_result_t zeMemAllocHost(ze_context_handle_t handle, const ze_host_mem_alloc_desc_t* desc, size_t bytes, size_t alignment, void** out) {
  return enter("zeMemAllocHost", [&](auto&) {
    const auto context = context_of(handle);
    described(desc, ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC), pointer(out);
    for (auto* next = static_cast<const newer::Head*>(desc->pNext); next; next = next->next) {
      if (next->stype != newer::stype_memmap_sysmem) continue;
      if (!features().import_standard) refuse(unsupported_feature, "this driver does not list ZE_extension_external_memmap_sysmem");
      auto& map = *reinterpret_cast<const newer::MemmapSysmem*>(next);
      require(uintptr_t(map.memory) % 4096 == 0 && map.size % 4096 == 0, invalid_argument, "imported memory that is not whole pages");
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
ze_result_t zeMemAllocShared(ze_context_handle_t context, const ze_device_mem_alloc_desc_t* desc, const ze_host_mem_alloc_desc_t* host, size_t bytes,
                             size_t alignment, ze_device_handle_t device, void** out) {
  return enter("zeMemAllocShared", [&](auto&) {
    described(desc, ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC), described(host, ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC), pointer(out);
    aligned(bytes, alignment);
    if (features().shared == Features::shared_none) refuse(unsupported_feature, "this device has no shared memory");
    require(device || features().shared == Features::shared_cross, invalid_argument, "shared memory of no device, where only one device can have it");
    const auto memory = machine().allocate(Residence::shared, context_of(context), device ? device_of(device) : nullptr, bytes);
    if (!memory) refuse(ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
    *out = reinterpret_cast<void*>(memory->base);
  });
}
Ref<Allocation> allocation_at(const void* memory) {
  pointer(memory);
  const auto allocation = machine().touching(uintptr_t(memory), 1);
  require(allocation && allocation->base == uintptr_t(memory), invalid_argument, "a pointer that no allocation or import begins at");
  return allocation;
}
ze_result_t zeMemFree(ze_context_handle_t handle, void* memory) {
  return enter("zeMemFree", [&](auto&) {
    const auto context = context_of(handle);
    const auto allocation = allocation_at(memory);
    require(allocation->released_by_free, invalid_argument, "memory imported by zexDriverImportExternalPointer is not freed but released");
    require(allocation->context == context, invalid_argument, "memory of another context");
    machine().free(allocation);
  });
}
ze_result_t zeMemGetAllocProperties(ze_context_handle_t context, const void* memory, ze_memory_allocation_properties_t* out,
                                    ze_device_handle_t* device) {
  return enter("zeMemGetAllocProperties", [&](auto&) {
    context_of(context), pointer(memory), described(out, ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES);
    const auto allocation = machine().touching(uintptr_t(memory), 1);
    const auto residence = allocation ? allocation->residence : Residence::host;
    out->type = !allocation                        ? ZE_MEMORY_TYPE_UNKNOWN
                : residence == Residence::device   ? ZE_MEMORY_TYPE_DEVICE
                : residence == Residence::shared   ? ZE_MEMORY_TYPE_SHARED
                                                   : ZE_MEMORY_TYPE_HOST;
    out->id = allocation ? allocation->id : 0;
    out->pageSize = allocation ? 4096 : 0;
    if (device) *device = allocation && allocation->device ? reinterpret_cast<ze_device_handle_t>(allocation->device->handle) : nullptr;
  });
}
ze_result_t zeMemGetAddressRange(ze_context_handle_t context, const void* memory, void** base, size_t* bytes) {
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
    require(!allocation->released_by_free, invalid_argument, "memory that zexDriverImportExternalPointer did not import");
    machine().free(allocation);
  });
}

// ---- events ----------------------------------------------------------------------------------------------------------

ze_result_t zeEventPoolCreate(ze_context_handle_t context, const ze_event_pool_desc_t* desc, uint32_t count, ze_device_handle_t* devices,
                              ze_event_pool_handle_t* out) {
  return enter("zeEventPoolCreate", [&](auto&) {
    described(desc, ZE_STRUCTURE_TYPE_EVENT_POOL_DESC), pointer(out);
    flags(desc->flags, features().minor > 4 ? 0xf : 0x7);
    require(desc->count > 0, invalid_size, "a pool of no events");
    if (desc->flags & (ZE_EVENT_POOL_FLAG_KERNEL_TIMESTAMP | newer::pool_mapped_timestamp) && !features().timestamps) refuse(unsupported_feature);
    for (uint32_t i = 0; devices && i < count; ++i) device_of(devices[i]);
    auto pool = std::make_shared<Pool>(desc->flags, desc->count);
    pool->context = context_of(context);
    give(out, pool);
  });
}
ze_result_t zeEventPoolDestroy(ze_event_pool_handle_t handle) {
  return enter("zeEventPoolDestroy", [&](auto&) {
    const auto pool = machine().find<Pool>(handle, Sort::pool);
    require(std::find(pool->taken.begin(), pool->taken.end(), true) == pool->taken.end(), object_in_use, "the pool still has events");
    machine().remove(pool);
  });
}
ze_result_t zeEventCreate(ze_event_pool_handle_t handle, const ze_event_desc_t* desc, ze_event_handle_t* out) {
  return enter("zeEventCreate", [&](auto&) {
    const auto pool = machine().find<Pool>(handle, Sort::pool);
    described(desc, ZE_STRUCTURE_TYPE_EVENT_DESC), pointer(out);
    flags(desc->signal | desc->wait, 0x7);
    require(desc->index < pool->taken.size(), invalid_argument, "an event beyond its pool's end");
    require(!pool->taken[desc->index], invalid_argument, "two live events at one index of a pool");
    auto event = std::make_shared<Event>();
    event->context = pool->context;
    event->pool = pool;
    event->index = desc->index;
    event->signal_scope = desc->signal;
    pool->taken[desc->index] = true;
    give(out, event);
  });
}
ze_result_t create_counter_event(const char* name, ze_context_handle_t context, ze_device_handle_t device, const newer::CounterEvent* desc,
                                 bool typed, ze_event_handle_t* out) {
  return enter(name, [&](auto&) {
    device_of(device), pointer(desc), pointer(out);
    require(!typed || desc->stype == newer::stype_zex_counter_event, invalid_argument, "a structure without its type");
    flags(desc->flags, 0x3f), flags(desc->signal | desc->wait, 0x7);
    if (desc->flags & (newer::counter_timestamp | newer::counter_mapped_timestamp) && !features().timestamps) refuse(unsupported_feature);
    auto event = std::make_shared<Event>();
    event->context = context_of(context);
    event->signal_scope = desc->signal;
    event->counter_flags = desc->flags & 3 ? desc->flags : desc->flags | newer::counter_immediate;
    give(out, event);
  });
}
ze_result_t zexCounterBasedEventCreate2(ze_context_handle_t context, ze_device_handle_t device, const newer::CounterEvent* desc,
                                        ze_event_handle_t* out) {
  return create_counter_event("zexCounterBasedEventCreate2", context, device, desc, true, out);
}
ze_result_t zeEventCounterBasedCreate(ze_context_handle_t context, ze_device_handle_t device, const newer::CounterEvent* desc,
                                      ze_event_handle_t* out) {
  return create_counter_event("zeEventCounterBasedCreate", context, device, desc, false, out);
}
ze_result_t zeEventDestroy(ze_event_handle_t handle) {
  return enter("zeEventDestroy", [&](auto&) {
    const auto event = event_of(handle);
    if (event->pool) {
      unused(*event, "an event of a pool");
      event->pool->taken[event->index] = false;
    }
    machine().remove(event);
  });
}
Ref<Event> host_event(const char* name, ze_event_handle_t handle, bool looks) {
  const auto event = event_of(handle);
  require(event->host_visible(), invalid_argument, "the host uses an event that is not visible to it");
  if (event->recorded) refuse(newer::result_capture_unsupported, "the event was last signalled inside a recording");
  if (looks && !(event->signal_scope & ZE_EVENT_SCOPE_FLAG_HOST))
    Calls::all().complain(name, "the host waits for an event whose signal scope leaves the host out: it may not see what was written before");
  return event;
}
bool done(const Event& event, bool& failed) {
  if (event.pool) {
    failed = event.failed;
    return event.signalled;
  }
  failed = event.point && event.point->failed;
  return !event.point || event.point->done;
}
ze_result_t zeEventQueryStatus(ze_event_handle_t handle) {
  return enter("zeEventQueryStatus", [&](auto&) {
    bool failed;
    if (!done(*host_event("zeEventQueryStatus", handle, true), failed)) return not_ready;
    return failed ? device_lost : ZE_RESULT_SUCCESS;
  });
}
ze_result_t zeEventHostSynchronize(ze_event_handle_t handle, uint64_t ns) {
  return enter("zeEventHostSynchronize", [&](auto& held) {
    const auto event = host_event("zeEventHostSynchronize", handle, true);
    bool failed = false;
    event->in_use++;
    const bool over = machine().wait(held, ns, [&] { return done(*event, failed); });
    event->in_use--;
    return !over ? not_ready : failed ? device_lost : ZE_RESULT_SUCCESS;
  });
}
ze_result_t zeEventHostSignal(ze_event_handle_t handle) {
  return enter("zeEventHostSignal", [&](auto&) {
    const auto event = host_event("zeEventHostSignal", handle, false);
    require(event->pool != nullptr, invalid_argument, "a counter-based event is signalled by lists alone");
    machine().signal(*event, false, {});
  });
}
ze_result_t zeEventHostReset(ze_event_handle_t handle) {
  return enter("zeEventHostReset", [&](auto&) {
    const auto event = event_of(handle);
    require(event->pool != nullptr, invalid_argument, "a counter-based event is never reset");
    event->signalled = event->failed = event->recorded = false;
  });
}
ze_result_t zeEventQueryKernelTimestamp(ze_event_handle_t handle, ze_kernel_timestamp_result_t* out) {
  return enter("zeEventQueryKernelTimestamp", [&](auto&) {
    const auto event = host_event("zeEventQueryKernelTimestamp", handle, false);
    pointer(out);
    require(event->timed(), invalid_argument, "the event keeps no timestamps");
    bool failed;
    if (!done(*event, failed)) return not_ready;
    const Stamps stamps = event->pool ? event->stamps : event->point ? event->point->stamps : Stamps{};
    out->global = out->context = {stamps.begin, stamps.end};
    return failed ? device_lost : ZE_RESULT_SUCCESS;
  });
}

// ---- queues, lists, fences -------------------------------------------------------------------------------------------

void group_of(uint32_t ordinal, uint32_t index, uint32_t queue_flags) {
  require(ordinal < group_count && index < groups[ordinal].queues, invalid_argument, "a queue group or an index that the device does not have");
  require(index == 0 || queue_flags & ZE_COMMAND_QUEUE_FLAG_EXPLICIT_ONLY, invalid_argument, "an index other than 0 needs the flag EXPLICIT_ONLY");
}
void set_up(Lane& lane, const ze_command_queue_desc_t& desc, const Ref<Device>& device) {
  flags(desc.flags, ZE_COMMAND_QUEUE_FLAG_EXPLICIT_ONLY | (features().in_order ? newer::queue_in_order | newer::queue_copy_offload_hint : 0));
  require(desc.mode <= ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS && desc.priority <= ZE_COMMAND_QUEUE_PRIORITY_PRIORITY_HIGH, invalid_enumeration,
          "an unknown mode or priority");
  group_of(desc.ordinal, desc.index, desc.flags);
  lane.order.in_order = desc.flags & newer::queue_in_order;
  lane.synchronous = desc.mode == ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS;
  lane.device = device;
  lane.ordinal = desc.ordinal;
}
void idle(const Ref<Lane>& lane, const char* what) {
  require(machine().idle(*lane), object_in_use, what);
}
ze_result_t zeCommandQueueCreate(ze_context_handle_t context, ze_device_handle_t device, const ze_command_queue_desc_t* desc,
                                 ze_command_queue_handle_t* out) {
  return enter("zeCommandQueueCreate", [&](auto&) {
    described(desc, ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC), pointer(out);
    auto queue = std::make_shared<Queue>();
    queue->context = context_of(context);
    set_up(*queue->lane, *desc, device_of(device));
    give(out, queue);
  });
}
Ref<Queue> queue_of(ze_command_queue_handle_t handle) { return machine().find<Queue>(handle, Sort::queue); }
ze_result_t zeCommandQueueDestroy(ze_command_queue_handle_t handle) {
  return enter("zeCommandQueueDestroy", [&](auto&) {
    const auto queue = queue_of(handle);
    idle(queue->lane, "the queue is destroyed with work on it");
    require(queue->fences == 0, object_in_use, "the queue still has fences");
    machine().remove(queue);
  });
}
ze_result_t zeCommandQueueSynchronize(ze_command_queue_handle_t handle, uint64_t ns) {
  return enter("zeCommandQueueSynchronize", [&](auto& held) { return machine().synchronize(held, queue_of(handle)->lane, ns); });
}

// What has to be there still when a list or a graph runs.
void alive(const Work& work) {
  for (auto& range : work.ranges)
    require(!range.allocation || range.allocation->live, invalid_argument, "it refers to memory that is freed");
  for (auto& event : work.waits) require(event->live, invalid_argument, "it waits for an event that is destroyed");
  for (auto& event : {work.signal, work.cleared}) require(!event || event->live, invalid_argument, "it signals or resets an event that is destroyed");
  require(!work.launched || work.launched->live, invalid_argument, "it launches a kernel that is destroyed");
}
Ref<Run> run_of(const Ref<List>& list) {
  auto run = std::make_shared<Run>();
  run->of = list;
  run->active = &list->active;
  run->pending = &list->pending;
  return run;
}
// Whether the list may run on this lane now; what it comes after.
Ref<Op> may_run(const List& list, const Ref<Lane>& lane, const Ref<Context>& context, bool chained_by_caller) {
  require(!list.immediate(), ZE_RESULT_ERROR_INVALID_COMMAND_LIST_TYPE, "an immediate list is not executed");
  require(list.closed, invalid_argument, "a list is executed before it is closed");
  require(list.ordinal == lane->ordinal, ZE_RESULT_ERROR_INVALID_COMMAND_LIST_TYPE, "a list of another queue group");
  require(list.device == lane->device && list.context == context, invalid_argument, "a list of another device or context");
  for (auto& work : list.work) alive(*work);
  if (!list.pending) return nullptr;
  if (list.latest->lane == lane.get()) return list.latest->end;
  require(chained_by_caller, object_in_use, "a list is executed while it is on another queue");
  return nullptr;
}
void after_submit(std::unique_lock<std::mutex>& held, const Ref<Lane>& lane) {
  if (lane->synchronous) machine().synchronize(held, lane, ~uint64_t(0));
}
ze_result_t zeCommandQueueExecuteCommandLists(ze_command_queue_handle_t handle, uint32_t count, ze_command_list_handle_t* lists,
                                              ze_fence_handle_t fence_handle) {
  return enter("zeCommandQueueExecuteCommandLists", [&](auto& held) {
    const auto queue = queue_of(handle);
    const auto& lane = queue->lane;
    require(count > 0, invalid_size, "no lists");
    pointer(lists);
    Ref<Fence> fence;
    if (fence_handle) {
      fence = machine().find<Fence>(fence_handle, Sort::fence);
      require(fence->queue == queue, invalid_argument, "a fence of another queue");
      require(!fence->submitted, ZE_RESULT_ERROR_INVALID_SYNCHRONIZATION_OBJECT, "a fence is used again without a reset");
    }
    if (lane->error) refuse(device_lost);
    for (uint32_t i = 0; i < count; ++i) may_run(*list_of(lists[i]), lane, queue->context, false);
    const auto nothing = std::make_shared<Work>();
    for (uint32_t i = 0; i < count; ++i) {
      const auto list = list_of(lists[i]);
      const auto previous = may_run(*list, lane, queue->context, false);
      list->latest = run_of(list);
      machine().submit_run(lane, list->latest, list->work, list->in_order, nothing, nothing, previous);
    }
    if (fence) {
      fence->submitted = true;
      machine().submit(lane, lane->order, nothing, nullptr, std::vector<Ref<Op>>(lane->pending.list))->fence = fence;
    }
    after_submit(held, lane);
  });
}
ze_result_t zeFenceCreate(ze_command_queue_handle_t handle, const ze_fence_desc_t* desc, ze_fence_handle_t* out) {
  return enter("zeFenceCreate", [&](auto&) {
    const auto queue = queue_of(handle);
    described(desc, ZE_STRUCTURE_TYPE_FENCE_DESC), pointer(out), flags(desc->flags, ZE_FENCE_FLAG_SIGNALED);
    auto fence = std::make_shared<Fence>();
    fence->context = queue->context;
    fence->queue = queue;
    fence->signalled = fence->submitted = desc->flags & ZE_FENCE_FLAG_SIGNALED;
    queue->fences++;
    give(out, fence);
  });
}
Ref<Fence> fence_of(ze_fence_handle_t handle) { return machine().find<Fence>(handle, Sort::fence); }
ze_result_t zeFenceDestroy(ze_fence_handle_t handle) {
  return enter("zeFenceDestroy", [&](auto&) {
    const auto fence = fence_of(handle);
    require(!fence->submitted || fence->signalled, object_in_use, "the fence is destroyed before it is signalled");
    fence->queue->fences--;
    machine().remove(fence);
  });
}
ze_result_t zeFenceHostSynchronize(ze_fence_handle_t handle, uint64_t ns) {
  return enter("zeFenceHostSynchronize", [&](auto& held) {
    const auto fence = fence_of(handle);
    if (!machine().wait(held, ns, [&] { return fence->signalled; })) return not_ready;
    return fence->failed ? device_lost : ZE_RESULT_SUCCESS;
  });
}
ze_result_t zeFenceQueryStatus(ze_fence_handle_t handle) {
  return enter("zeFenceQueryStatus", [&](auto&) {
    const auto fence = fence_of(handle);
    return !fence->signalled ? not_ready : fence->failed ? device_lost : ZE_RESULT_SUCCESS;
  });
}
ze_result_t zeFenceReset(ze_fence_handle_t handle) {
  return enter("zeFenceReset", [&](auto&) {
    const auto fence = fence_of(handle);
    require(!fence->submitted || fence->signalled, object_in_use, "the fence is reset before it is signalled");
    fence->signalled = fence->failed = fence->submitted = false;
  });
}

ze_result_t zeCommandListCreate(ze_context_handle_t context, ze_device_handle_t device, const ze_command_list_desc_t* desc,
                                ze_command_list_handle_t* out) {
  return enter("zeCommandListCreate", [&](auto&) {
    described(desc, ZE_STRUCTURE_TYPE_COMMAND_LIST_DESC), pointer(out);
    flags(desc->flags, 0x7 | (features().in_order ? newer::list_in_order : 0));
    group_of(desc->commandQueueGroupOrdinal, 0, 0);
    auto list = std::make_shared<List>();
    list->context = context_of(context);
    list->device = device_of(device);
    list->ordinal = desc->commandQueueGroupOrdinal;
    list->in_order = desc->flags & newer::list_in_order;
    give(out, list);
  });
}
ze_result_t zeCommandListCreateImmediate(ze_context_handle_t context, ze_device_handle_t device, const ze_command_queue_desc_t* desc,
                                         ze_command_list_handle_t* out) {
  return enter("zeCommandListCreateImmediate", [&](auto&) {
    described(desc, ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC), pointer(out);
    auto list = std::make_shared<List>();
    list->context = context_of(context);
    list->device = device_of(device);
    list->lane = std::make_shared<Lane>();
    set_up(*list->lane, *desc, list->device);
    list->ordinal = desc->ordinal;
    list->in_order = list->lane->order.in_order;
    give(out, list);
  });
}
ze_result_t zeCommandListDestroy(ze_command_list_handle_t handle) {
  return enter_alone("zeCommandListDestroy", Alone(handle), [&](auto&) {
    const auto list = list_of(handle);
    require(!list->recording, object_in_use, "the list is destroyed while it records");
    if (list->immediate()) idle(list->lane, "the list is destroyed with work on it");
    unused(*list, "a list");
    machine().remove(list);
  });
}
Ref<List> regular(ze_command_list_handle_t handle) {
  auto list = list_of(handle);
  require(!list->immediate(), invalid_argument, "an immediate list is neither closed nor reset");
  return list;
}
ze_result_t zeCommandListClose(ze_command_list_handle_t handle) {
  return enter_alone("zeCommandListClose", Alone(handle), [&](auto&) {
    const auto list = regular(handle);
    require(!list->closed, invalid_argument, "the list is closed already");
    list->closed = true;
  });
}
ze_result_t zeCommandListReset(ze_command_list_handle_t handle) {
  return enter_alone("zeCommandListReset", Alone(handle), [&](auto&) {
    const auto list = regular(handle);
    require(list->pending == 0, object_in_use, "the list is reset while it runs");
    list->work.clear();
    list->closed = false;
  });
}
ze_result_t zeCommandListHostSynchronize(ze_command_list_handle_t handle, uint64_t ns) {
  return enter("zeCommandListHostSynchronize", [&](auto& held) {
    const auto list = list_of(handle);
    require(list->immediate(), invalid_argument, "only an immediate list can be waited for");
    if (list->recording) refuse(newer::result_capture_unsupported, "the host waits for a list that records");
    return machine().synchronize(held, list->lane, ns);
  });
}

// ---- appending -------------------------------------------------------------------------------------------------------

Ref<List> appendable(ze_command_list_handle_t handle) {
  auto list = list_of(handle);
  if (list->immediate() && list->lane->error) refuse(device_lost);
  require(!list->closed, invalid_argument, "an append to a closed list");
  return list;
}
[[noreturn]] void break_recording(Recording& recording, const char* why) {
  recording.broken = why;
  refuse(invalid_argument, why);
}
// One more node of the graph; the list's next one comes after it.
void record(const Ref<List>& list, Work&& work, const std::vector<Ref<Event>>& waits) {
  Recording& recording = *list->recording;
  if (!recording.broken.empty()) refuse(invalid_argument, "the recording is broken: " + recording.broken);
  auto& after = recording.members[list.get()];
  work.needs = after;
  for (auto& event : waits) {
    if (!event->recorded && !event->pool && !event->point) continue;  // never signalled counts as done
    if (!event->recorded || event->recording.lock() != list->recording)
      break_recording(recording, "a recording waits for what was signalled outside it");
    work.needs.insert(work.needs.end(), event->recorded_after.begin(), event->recorded_after.end());
  }
  if (work.cleared) break_recording(recording, "a recording resets an event");
  const auto signal = std::move(work.signal);
  work.signal.reset();
  after = {uint32_t(recording.nodes.size())};
  if (signal) {
    signal->recorded = true;
    signal->recording = list->recording;
    signal->recorded_after = after;
  }
  recording.nodes.push_back(std::make_shared<Work>(std::move(work)));
}
struct Waits {
  std::vector<Ref<Event>> events;
  Ref<Event> signal;
  Waits(const List& list, ze_event_handle_t signal_handle, uint32_t count, ze_event_handle_t* handles) {
    require(count == 0 || handles, invalid_size, "a number of events without events");
    for (uint32_t i = 0; i < count; ++i) events.push_back(event_of(handles[i]));
    if (signal_handle) signal = event_of(signal_handle);
    for (auto& event : events) require(event->context == list.context, invalid_argument, "an event of another context");
    if (!signal) return;
    require(signal->context == list.context, invalid_argument, "an event of another context");
    if (signal->pool) return;
    require(list.in_order, invalid_argument, "a counter-based event is signalled by in-order lists alone");
    require(signal->counter_flags & (list.immediate() ? newer::counter_immediate : newer::counter_regular), invalid_argument,
            "a counter-based event made for the other kind of list");
  }
  // Into what runs now.
  void into(Work& work, const List& list) const {
    work.signal = signal;
    work.waits_for_events = !events.empty();
    for (auto& event : events) {
      if (event->recorded) refuse(newer::result_capture_unsupported, "the event was last signalled inside a recording that is over");
      if (event->pool) {
        work.waits.push_back(event);
        continue;
      }
      // What this list signalled itself is in order anyhow.
      const auto own = [&](auto& earlier) { return earlier->signal == event; };
      if (event->point && std::none_of(list.work.begin(), list.work.end(), own)) work.points.push_back(event->point);
    }
  }
};
void append(std::unique_lock<std::mutex>& held, const Ref<List>& list, Work&& work, const Waits& waits) {
  for (auto& range : work.ranges) within_reach(range, list->device);
  for (auto& event : waits.events)
    if (const auto theirs = event->recorded ? event->recording.lock() : nullptr; theirs && theirs->open && !list->recording) {
      // Waiting for a recorded event takes the list into the recording, to be joined before its end.
      require(list->immediate() && list->in_order, invalid_argument, "only in-order immediate lists can be recorded");
      list->recording = theirs;
      theirs->members[list.get()];
    }
  if (list->recording) {
    work.signal = waits.signal;
    record(list, std::move(work), waits.events);
    return;
  }
  waits.into(work, *list);
  const auto shared = std::make_shared<Work>(std::move(work));
  if (!list->immediate()) {
    list->work.push_back(shared);
    return;
  }
  machine().submit(list->lane, list->lane->order, shared);
  after_submit(held, list->lane);
}

ze_result_t zeCommandListAppendBarrier(ze_command_list_handle_t handle, ze_event_handle_t signal, uint32_t count, ze_event_handle_t* events) {
  return enter_alone("zeCommandListAppendBarrier", Alone(handle), [&](auto& held) {
    const auto list = appendable(handle);
    Work work;
    work.type = Work::barrier;
    append(held, list, std::move(work), Waits(*list, signal, count, events));
  });
}
ze_result_t zeCommandListAppendMemoryRangesBarrier(ze_command_list_handle_t handle, uint32_t ranges, const size_t* sizes, const void** memory,
                                                   ze_event_handle_t signal, uint32_t count, ze_event_handle_t* events) {
  return enter_alone("zeCommandListAppendMemoryRangesBarrier", Alone(handle), [&](auto& held) {
    const auto list = appendable(handle);
    pointer(sizes), pointer(memory);
    Work work;
    work.type = Work::barrier;
    for (uint32_t i = 0; i < ranges; ++i) work.ranges.push_back(machine().range(memory[i], sizes[i], "a barrier's range", true));
    append(held, list, std::move(work), Waits(*list, signal, count, events));
  });
}
ze_result_t zeCommandListAppendMemoryCopy(ze_command_list_handle_t handle, void* to, const void* from, size_t bytes, ze_event_handle_t signal,
                                          uint32_t count, ze_event_handle_t* events) {
  return enter_alone("zeCommandListAppendMemoryCopy", Alone(handle), [&](auto& held) {
    const auto list = appendable(handle);
    pointer(to), pointer(from);
    require(uintptr_t(to) + bytes <= uintptr_t(from) || uintptr_t(from) + bytes <= uintptr_t(to), ZE_RESULT_ERROR_OVERLAPPING_REGIONS,
            "source and target overlap");
    Work work;
    work.type = Work::copy;
    work.ranges = {machine().range(to, bytes, "a copy's target", true), machine().range(from, bytes, "a copy's source", true)};
    append(held, list, std::move(work), Waits(*list, signal, count, events));
  });
}
ze_result_t zeCommandListAppendMemoryFill(ze_command_list_handle_t handle, void* to, const void* pattern, size_t pattern_bytes, size_t bytes,
                                          ze_event_handle_t signal, uint32_t count, ze_event_handle_t* events) {
  return enter_alone("zeCommandListAppendMemoryFill", Alone(handle), [&](auto& held) {
    const auto list = appendable(handle);
    pointer(to), pointer(pattern);
    require(pattern_bytes > 0 && (pattern_bytes & (pattern_bytes - 1)) == 0 && pattern_bytes <= groups[list->ordinal].pattern, invalid_size,
            "a pattern that is no power of two up to what the queue group takes");
    require(bytes % pattern_bytes == 0, invalid_size, "a fill that ends within its pattern");
    Work work;
    work.type = Work::fill;
    work.ranges = {machine().range(to, bytes, "a fill's target", false)};
    memcpy(work.pattern, pattern, pattern_bytes);
    work.pattern_bytes = pattern_bytes;
    append(held, list, std::move(work), Waits(*list, signal, count, events));
  });
}
// What is prefetched or advised about.
Range shared_range(const List& list, const void* memory, size_t bytes, const char* what) {
  pointer(memory);
  require(bytes > 0, invalid_size, "a prefetch of nothing, or an advice about it");
  Range range = machine().range(memory, bytes, what, false);
  require(range.allocation->residence == Residence::shared, invalid_argument, "only shared memory moves");
  require(range.allocation->context == list.context, invalid_argument, "memory of another context");
  return range;
}
ze_result_t zeCommandListAppendMemoryPrefetch(ze_command_list_handle_t handle, const void* memory, size_t bytes) {
  return enter_alone("zeCommandListAppendMemoryPrefetch", Alone(handle), [&](auto& held) {
    const auto list = appendable(handle);
    Work work;
    work.ranges = {shared_range(*list, memory, bytes, "a prefetch")};
    append(held, list, std::move(work), Waits(*list, nullptr, 0, nullptr));
  });
}
ze_result_t zeCommandListAppendMemAdvise(ze_command_list_handle_t handle, ze_device_handle_t device, const void* memory, size_t bytes,
                                         ze_memory_advice_t advice) {
  return enter_alone("zeCommandListAppendMemAdvise", Alone(handle), [&](auto& held) {
    const auto list = appendable(handle);
    const auto about = device_of(device);
    // Nobody's mistake: whoever advises cannot know what a driver takes.
    if (uint32_t(advice) > (features().minor > 4 ? 9u : 7u)) refuse(invalid_enumeration);
    Work work;
    work.ranges = {shared_range(*list, memory, bytes, "an advice")};
    within_reach(work.ranges[0], about);
    append(held, list, std::move(work), Waits(*list, nullptr, 0, nullptr));
  });
}
ze_result_t zeCommandListAppendSignalEvent(ze_command_list_handle_t handle, ze_event_handle_t event) {
  return enter_alone("zeCommandListAppendSignalEvent", Alone(handle), [&](auto& held) {
    const auto list = appendable(handle);
    event_of(event);
    append(held, list, Work(), Waits(*list, event, 0, nullptr));
  });
}
ze_result_t zeCommandListAppendWaitOnEvents(ze_command_list_handle_t handle, uint32_t count, ze_event_handle_t* events) {
  return enter_alone("zeCommandListAppendWaitOnEvents", Alone(handle), [&](auto& held) {
    const auto list = appendable(handle);
    pointer(events);
    Work work;
    work.type = Work::barrier;
    append(held, list, std::move(work), Waits(*list, nullptr, count, events));
  });
}
ze_result_t zeCommandListAppendEventReset(ze_command_list_handle_t handle, ze_event_handle_t event) {
  return enter_alone("zeCommandListAppendEventReset", Alone(handle), [&](auto& held) {
    const auto list = appendable(handle);
    Work work;
    work.type = Work::reset;
    work.cleared = event_of(event);
    require(work.cleared->pool != nullptr, invalid_argument, "a counter-based event is never reset");
    append(held, list, std::move(work), Waits(*list, nullptr, 0, nullptr));
  });
}
ze_result_t zeCommandListAppendWriteGlobalTimestamp(ze_command_list_handle_t handle, uint64_t* to, ze_event_handle_t signal, uint32_t count,
                                                    ze_event_handle_t* events) {
  return enter_alone("zeCommandListAppendWriteGlobalTimestamp", Alone(handle), [&](auto& held) {
    const auto list = appendable(handle);
    pointer(to);
    Work work;
    work.type = Work::stamp;
    work.ranges = {machine().range(to, sizeof *to, "a timestamp's target", false)};
    append(held, list, std::move(work), Waits(*list, signal, count, events));
  });
}

// ---- modules and kernels ---------------------------------------------------------------------------------------------

// Kernels that only tests launch are in every module: no image has them.
const hotslot::Kernel* test_kernel(const std::string& name) {
  for (auto& kernel : hotslot::test_kernels())
    if (name == kernel.name) return &kernel;
  return nullptr;
}

ze_result_t zeModuleCreate(ze_context_handle_t context, ze_device_handle_t device, const ze_module_desc_t* desc, ze_module_handle_t* out,
                           ze_module_build_log_handle_t* log) {
  return enter("zeModuleCreate", [&](auto&) {
    described(desc, ZE_STRUCTURE_TYPE_MODULE_DESC), pointer(out), pointer(desc->pInputModule);
    require(desc->format == ZE_MODULE_FORMAT_IL_SPIRV, ZE_RESULT_ERROR_INVALID_NATIVE_BINARY, "this driver takes SPIR-V alone");
    require(desc->inputSize > 0, invalid_size, "a module of no bytes");
    const auto owner = context_of(context);
    const auto target = device_of(device);
    Spirv spirv(desc->pInputModule, desc->inputSize);
    std::string said = spirv.error;
    for (auto& flag : split(desc->pBuildFlags ? desc->pBuildFlags : "", ' '))
      if (said.empty() && flag.rfind("-ze-", 0) != 0 && flag.rfind("-cl-", 0) != 0) said = "unknown build flag " + flag;
    if (said.empty() && spirv.float64 && !features().fp64) said = "this device has no double precision, and the module requires Float64";
    if (log) {
      auto built = std::make_shared<BuildLog>(said.empty() ? "" : "error: " + said);
      built->context = owner;
      give(log, built);
    }
    if (!said.empty()) refuse(ZE_RESULT_ERROR_MODULE_BUILD_FAILURE, said);
    auto module = std::make_shared<Module>(std::move(spirv));
    module->context = owner;
    module->device = target;
    give(out, module);
  });
}
Ref<Module> module_of(ze_module_handle_t handle) { return machine().find<Module>(handle, Sort::module); }
ze_result_t zeModuleDestroy(ze_module_handle_t handle) {
  return enter("zeModuleDestroy", [&](auto&) {
    const auto module = module_of(handle);
    no_child([&](const Object& object) { return object.sort == Sort::kernel && static_cast<const Kernel&>(object).module == module; },
             "the module still has kernels");
    machine().remove(module);
  });
}
ze_result_t zeModuleGetKernelNames(ze_module_handle_t handle, uint32_t* count, const char** names) {
  return enter("zeModuleGetKernelNames", [&](auto&) {
    const auto module = module_of(handle);
    pointer(count);
    auto& kernels = module->spirv.kernels;
    if (*count == 0 || *count > kernels.size() || !names) *count = uint32_t(kernels.size());
    if (!names) return;
    uint32_t i = 0;
    for (auto& [name, parameters] : kernels)
      if (i < *count) names[i++] = name.c_str();
  });
}
ze_result_t zeModuleGetProperties(ze_module_handle_t module, ze_module_properties_t* out) {
  return enter("zeModuleGetProperties", [&](auto&) { module_of(module), described(out, ZE_STRUCTURE_TYPE_MODULE_PROPERTIES), out->flags = 0; });
}
ze_result_t zeModuleBuildLogDestroy(ze_module_build_log_handle_t log) {
  return enter("zeModuleBuildLogDestroy", [&](auto&) { machine().remove(machine().find<BuildLog>(log, Sort::build_log)); });
}
ze_result_t zeModuleBuildLogGetString(ze_module_build_log_handle_t handle, size_t* bytes, char* text) {
  return enter("zeModuleBuildLogGetString", [&](auto&) {
    const auto log = machine().find<BuildLog>(handle, Sort::build_log);
    pointer(bytes);
    const size_t whole = log->text.size() + 1;
    if (text) std::snprintf(text, std::min(*bytes, whole), "%s", log->text.c_str());
    *bytes = text ? std::min(*bytes, whole) : whole;
  });
}

ze_result_t zeKernelCreate(ze_module_handle_t handle, const ze_kernel_desc_t* desc, ze_kernel_handle_t* out) {
  return enter("zeKernelCreate", [&](auto&) {
    const auto module = module_of(handle);
    described(desc, ZE_STRUCTURE_TYPE_KERNEL_DESC), pointer(out), pointer(desc->pKernelName), flags(desc->flags, 0x3);
    auto kernel = std::make_shared<Kernel>();
    kernel->name = desc->pKernelName;
    kernel->module = module;
    kernel->context = module->context;
    const auto found = module->spirv.kernels.find(kernel->name);
    if (found != module->spirv.kernels.end()) {
      kernel->form = hotslot::find_kernel(desc->pKernelName);
      kernel->parameters = found->second;
      if (!kernel->form) refuse(unsupported_feature, "kernel " + kernel->name + " has no host form, so this driver cannot run it");
    } else if ((kernel->form = test_kernel(kernel->name))) {
      kernel->parameters.insert(kernel->parameters.end(), size_t(kernel->form->pointers), {'p', 8});
      kernel->parameters.insert(kernel->parameters.end(), size_t(kernel->form->wholes), {'i', 8});
      kernel->parameters.insert(kernel->parameters.end(), size_t(kernel->form->reals), {'f', 4});
    } else {
      refuse(ZE_RESULT_ERROR_INVALID_KERNEL_NAME, "the module has no kernel " + kernel->name);
    }
    std::string sorts;
    for (auto& parameter : kernel->parameters) sorts += parameter.sort;
    const std::string expected = std::string(size_t(kernel->form->pointers), 'p') + std::string(size_t(kernel->form->wholes), 'i') +
                                 std::string(size_t(kernel->form->reals), 'f');
    if (sorts != expected) refuse(invalid_argument, "kernel " + kernel->name + " takes " + sorts + " in the module and " + expected + " on the host");
    kernel->values.resize(sorts.size());
    kernel->set.resize(sorts.size());
    give(out, kernel);
  });
}
ze_result_t zeKernelDestroy(ze_kernel_handle_t handle) {
  return enter_alone("zeKernelDestroy", Alone(handle), [&](auto&) {
    const auto kernel = kernel_of(handle);
    unused(*kernel, "a kernel");
    machine().remove(kernel);
  });
}
ze_result_t zeKernelSetGroupSize(ze_kernel_handle_t handle, uint32_t x, uint32_t y, uint32_t z) {
  return enter_alone("zeKernelSetGroupSize", Alone(handle), [&](auto&) {
    const auto kernel = kernel_of(handle);
    require(x > 0 && y > 0 && z > 0 && uint64_t(x) * y * z <= largest_group, ZE_RESULT_ERROR_INVALID_GROUP_SIZE_DIMENSION,
            "a group size of nothing or of more than the device has");
    require(y == 1 && z == 1, ZE_RESULT_ERROR_INVALID_GROUP_SIZE_DIMENSION, "these kernels have one dimension: others repeat the work");
    kernel->group = x;
  });
}
ze_result_t zeKernelSuggestGroupSize(ze_kernel_handle_t handle, uint32_t x, uint32_t y, uint32_t z, uint32_t* gx, uint32_t* gy, uint32_t* gz) {
  return enter("zeKernelSuggestGroupSize", [&](auto&) {
    kernel_of(handle), pointer(gx), pointer(gy), pointer(gz);
    require(x > 0 && y > 0 && z > 0, ZE_RESULT_ERROR_INVALID_GLOBAL_WIDTH_DIMENSION, "a size of nothing");
    *gx = std::min(x, 256u), *gy = 1, *gz = 1;
  });
}
ze_result_t zeKernelSetArgumentValue(ze_kernel_handle_t handle, uint32_t index, size_t bytes, const void* value) {
  return enter_alone("zeKernelSetArgumentValue", Alone(handle), [&](auto&) {
    const auto kernel = kernel_of(handle);
    if (index >= kernel->parameters.size())
      refuse(ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_INDEX, kernel->name + " has " + std::to_string(kernel->parameters.size()) + " arguments, " +
                                                                std::to_string(index) + " is none of them");
    const Parameter parameter = kernel->parameters[index];
    if (bytes != parameter.bytes)
      refuse(ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_SIZE,
             "argument " + std::to_string(index) + " of " + kernel->name + " has " + std::to_string(parameter.bytes) + " bytes, not " +
                 std::to_string(bytes));
    require(value || parameter.sort == 'p', ZE_RESULT_ERROR_INVALID_NULL_POINTER, "an argument without a value");
    kernel->values[index] = 0;
    if (value) memcpy(&kernel->values[index], value, bytes);
    kernel->set[index] = true;
  });
}
ze_result_t zeKernelSetIndirectAccess(ze_kernel_handle_t kernel, ze_kernel_indirect_access_flags_t which) {
  return enter_alone("zeKernelSetIndirectAccess", Alone(kernel), [&](auto&) { kernel_of(kernel), flags(which, 0x7); });
}
ze_result_t zeKernelSetCacheConfig(ze_kernel_handle_t kernel, ze_cache_config_flags_t which) {
  return enter_alone("zeKernelSetCacheConfig", Alone(kernel), [&](auto&) { kernel_of(kernel), flags(which, 0x3); });
}
ze_result_t zeKernelGetProperties(ze_kernel_handle_t handle, ze_kernel_properties_t* out) {
  return enter("zeKernelGetProperties", [&](auto&) {
    const auto kernel = kernel_of(handle);
    described(out, ZE_STRUCTURE_TYPE_KERNEL_PROPERTIES);
    ze_kernel_properties_t values{};
    values.stype = out->stype;
    values.pNext = out->pNext;
    values.numKernelArgs = uint32_t(kernel->parameters.size());
    values.maxSubgroupSize = 32;
    values.maxNumSubgroups = largest_group / 16;
    *out = values;
  });
}
ze_result_t zeKernelGetName(ze_kernel_handle_t handle, size_t* bytes, char* name) {
  return enter("zeKernelGetName", [&](auto&) {
    const auto kernel = kernel_of(handle);
    pointer(bytes);
    const size_t whole = kernel->name.size() + 1;
    if (name) std::snprintf(name, std::min(*bytes, whole), "%s", kernel->name.c_str());
    *bytes = name ? std::min(*bytes, whole) : whole;
  });
}
ze_result_t zeCommandListAppendLaunchKernel(ze_command_list_handle_t handle, ze_kernel_handle_t kernel_handle, const ze_group_count_t* count,
                                            ze_event_handle_t signal, uint32_t wait_count, ze_event_handle_t* events) {
  // The kernel holds the arguments: nobody may set one meanwhile.
  return enter_alone("zeCommandListAppendLaunchKernel", Alone(handle, kernel_handle), [&](auto& held) {
    const auto list = appendable(handle);
    const auto kernel = kernel_of(kernel_handle);
    pointer(count);
    require(list->ordinal == compute_ordinal, ZE_RESULT_ERROR_INVALID_COMMAND_LIST_TYPE, "a kernel on a copy queue");
    require(kernel->module->device == list->device && kernel->context == list->context, invalid_argument, "a kernel of another device or context");
    require(kernel->group > 0, ZE_RESULT_ERROR_INVALID_GROUP_SIZE_DIMENSION, "a launch before the kernel's group size is set");
    require(count->groupCountX > 0 && count->groupCountY == 1 && count->groupCountZ == 1, ZE_RESULT_ERROR_INVALID_GROUP_SIZE_DIMENSION,
            "these kernels have one dimension, and no launch is empty");
    Work work;
    work.type = Work::kernel;
    work.form = kernel->form;
    work.launched = kernel;
    std::vector<const void*> pointers;
    size_t whole = 0, real = 0;
    for (size_t i = 0; i < kernel->parameters.size(); ++i) {
      if (!kernel->set[i]) refuse(invalid_argument, "argument " + std::to_string(i) + " of " + kernel->name + " was never set");
      const Parameter parameter = kernel->parameters[i];
      const uint64_t bits = kernel->values[i];
      if (parameter.sort == 'p') {
        pointers.push_back(reinterpret_cast<const void*>(bits));
      } else if (parameter.sort == 'i') {
        work.args.whole[whole++] = parameter.bytes == 4 ? int64_t(int32_t(bits)) : int64_t(bits);
      } else {
        float single;
        double wide;
        memcpy(&single, &bits, 4), memcpy(&wide, &bits, 8);
        work.args.real[real++] = parameter.bytes == 4 ? double(single) : wide;
      }
    }
    uint64_t need[hotslot::max_pointers]{};
    if (const char* wrong = work.form->need(work.args, need)) refuse(invalid_argument, kernel->name + ": " + wrong);
    for (size_t i = 0; i < pointers.size(); ++i)
      work.ranges.push_back(machine().range(pointers[i], need[i], (kernel->name + "'s argument " + std::to_string(i)).c_str(), false));
    append(held, list, std::move(work), Waits(*list, signal, wait_count, events));
  });
}

// ---- what is newer ---------------------------------------------------------------------------------------------------

// Begin and end of a run on an immediate list, with the caller's events.
void run_on(std::unique_lock<std::mutex>& held, const Ref<List>& list, const Ref<Run>& run, const std::vector<Ref<const Work>>& works, bool chained,
            const Waits& waits, const Ref<Op>& previous) {
  auto before = std::make_shared<Work>(), behind = std::make_shared<Work>();
  waits.into(*before, *list);
  before->signal.reset();
  behind->signal = waits.signal;
  machine().submit_run(list->lane, run, works, chained, before, behind, previous);
  after_submit(held, list->lane);
}
ze_result_t zeCommandListImmediateAppendCommandListsExp(ze_command_list_handle_t handle, uint32_t count, ze_command_list_handle_t* lists,
                                                        ze_event_handle_t signal, uint32_t wait_count, ze_event_handle_t* events) {
  return enter_alone("zeCommandListImmediateAppendCommandListsExp", Alone(handle), [&](auto& held) {
    const auto list = appendable(handle);
    require(list->immediate(), ZE_RESULT_ERROR_INVALID_COMMAND_LIST_TYPE, "lists are appended to an immediate list");
    require(!list->recording, newer::result_capture_unsupported, "lists are not appended to a recording");
    require(count == 1, unsupported_feature, "this driver appends one list at a time");
    pointer(lists);
    const auto other = list_of(lists[0]);
    const auto previous = may_run(*other, list->lane, list->context, true);
    const Waits waits(*list, signal, wait_count, events);
    other->latest = run_of(other);
    run_on(held, list, other->latest, other->work, other->in_order, waits, previous);
  });
}

Ref<Recording> graph_of(newer::Graph handle) { return machine().find<Recording>(handle, Sort::graph); }
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
ze_result_t zeCommandListBeginCaptureIntoGraphExt(ze_command_list_handle_t handle, newer::Graph into, const void* next) {
  return enter_alone("zeCommandListBeginCaptureIntoGraphExt", Alone(handle), [&](auto&) {
    const auto list = appendable(handle);
    const auto graph = graph_of(into);
    no_extension(next);
    require(!graph->open && !graph->ended, invalid_argument, "the graph is not empty");
    begin(list, graph);
  });
}
ze_result_t zeCommandListIsGraphCaptureEnabledExt(ze_command_list_handle_t handle) {
  return enter("zeCommandListIsGraphCaptureEnabledExt",
               [&](auto&) { return list_of(handle)->recording ? newer::result_query_true : newer::result_query_false; });
}
ze_result_t zeCommandListEndGraphCaptureExt(ze_command_list_handle_t handle, const void* next, newer::Graph* out) {
  return enter_alone("zeCommandListEndGraphCaptureExt", Alone(handle), [&](auto&) {
    const auto list = list_of(handle);
    no_extension(next);
    const auto graph = list->recording;
    require(graph != nullptr, invalid_argument, "the list does not record");
    require(graph->origin == list, invalid_argument, "the recording began on another list");
    require(graph->handle || out, invalid_argument, "nowhere to put the graph");
    graph->open = false;
    graph->ended = true;
    // Whatever the origin's last work does not come after was forked off and never joined.
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
ze_result_t zeGraphInstantiateExt(newer::Graph handle, const void* next, newer::ExecutableGraph* out) {
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
Ref<Executable> executable_of(newer::ExecutableGraph handle) { return machine().find<Executable>(handle, Sort::executable); }
ze_result_t zeCommandListAppendGraphExt(ze_command_list_handle_t handle, newer::ExecutableGraph graph, const void* next, ze_event_handle_t signal,
                                        uint32_t count, ze_event_handle_t* events) {
  return enter_alone("zeCommandListAppendGraphExt", Alone(handle), [&](auto& held) {
    const auto list = appendable(handle);
    const auto executable = executable_of(graph);
    no_extension(next);
    require(list->immediate(), ZE_RESULT_ERROR_INVALID_COMMAND_LIST_TYPE, "a graph is appended to an immediate list");
    require(!list->recording, newer::result_capture_unsupported, "a graph is not appended to a recording");
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

ze_result_t zeDriverGetExtensionFunctionAddress(ze_driver_handle_t driver, const char* name, void** out) {
  return enter("zeDriverGetExtensionFunctionAddress", [&](auto&) {
    driver_of(driver), pointer(name), pointer(out);
    const Features& f = features();
    const struct {
      bool there;
      const char* name;
      void* function;
    } all[] = {
#define SOFTWARE_NEWER(there, name) {there, #name, reinterpret_cast<void*>(&name)}
        SOFTWARE_NEWER(f.in_order, zeCommandListHostSynchronize),
        SOFTWARE_NEWER(f.immediate_append, zeCommandListImmediateAppendCommandListsExp),
        SOFTWARE_NEWER(f.counter, zexCounterBasedEventCreate2),
        SOFTWARE_NEWER(f.counter && f.minor >= 15, zeEventCounterBasedCreate),
        SOFTWARE_NEWER(f.import_intel, zexDriverImportExternalPointer),
        SOFTWARE_NEWER(f.import_intel, zexDriverReleaseImportedPointer),
        SOFTWARE_NEWER(f.graph != Features::none, zeGraphCreateExt),
        SOFTWARE_NEWER(f.graph != Features::none, zeCommandListBeginGraphCaptureExt),
        SOFTWARE_NEWER(f.graph != Features::none, zeCommandListBeginCaptureIntoGraphExt),
        SOFTWARE_NEWER(f.graph != Features::none, zeCommandListIsGraphCaptureEnabledExt),
        SOFTWARE_NEWER(f.graph != Features::none, zeCommandListEndGraphCaptureExt),
        SOFTWARE_NEWER(f.graph != Features::none, zeGraphInstantiateExt),
        SOFTWARE_NEWER(f.graph != Features::none, zeCommandListAppendGraphExt),
        SOFTWARE_NEWER(f.graph != Features::none, zeGraphIsEmptyExt),
        SOFTWARE_NEWER(f.graph != Features::none, zeGraphDestroyExt),
        SOFTWARE_NEWER(f.graph != Features::none, zeExecutableGraphDestroyExt),
    };
    *out = nullptr;
    for (auto& each : all)
      if (each.there && std::strcmp(each.name, name) == 0) *out = each.function;
    return *out ? ZE_RESULT_SUCCESS : unsupported_feature;
  });
}

}  // namespace
}  // namespace software

#include "level_zero_tables.hpp"

// ---- what a test asks for --------------------------------------------------------------------------------------------

SOFTWARE_EXPORT void hotslot_software_fail(const char* specification) { software::Calls::all().fail(specification); }
SOFTWARE_EXPORT const char* hotslot_software_calls(void) { return software::lent(software::Calls::all().text()); }
SOFTWARE_EXPORT const char* hotslot_software_live(void) {
  std::lock_guard held(software::machine().lock);
  return software::lent(software::machine().live());
}
// What callers did wrong so far, a line each: what HOTSLOT_SOFTWARE_STRICT would have said.
SOFTWARE_EXPORT const char* hotslot_software_violations(void) {
  auto& calls = software::Calls::all();
  std::lock_guard guard(calls.mutex);
  return software::lent(std::string(calls.violations));
}
