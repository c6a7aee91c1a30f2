// The part of Level Zero's binary interface that Hotslot uses. It is declared here, so Hotslot
// neither ships nor needs a vendor's header. Spec 1.4 is the minimum (Debian 12's loader). Newer
// functions have separate entries, which a driver may lack. test/abi checks every signature, size,
// offset and value against the vendor's headers if they are installed.
#pragma once
#include <cstddef>
#include <cstdint>

namespace hotslot::level_zero {

using Status = uint32_t;
using DriverHandle = struct DriverOf*;
using DeviceHandle = struct DeviceOf*;
using ContextHandle = struct ContextOf*;
using QueueHandle = struct QueueOf*;
using ListHandle = struct ListOf*;
using FenceHandle = struct FenceOf*;
using PoolHandle = struct PoolOf*;
using EventHandle = struct EventOf*;
using ModuleHandle = struct ModuleOf*;
using LogHandle = struct LogOf*;
using KernelHandle = struct KernelOf*;
using GraphHandle = struct GraphOf*;
using ExecutableHandle = struct ExecutableOf*;

namespace status {
constexpr Status success = 0, not_ready = 1, device_lost = 0x70000001,
                 out_of_host_memory = 0x70000002, out_of_device_memory = 0x70000003,
                 module_build_failure = 0x70000004, module_link_failure = 0x70000005,
                 device_requires_reset = 0x70000006, insufficient_permissions = 0x70010000,
                 not_available = 0x70010001, dependency_unavailable = 0x70020000,
                 uninitialized = 0x78000001, unsupported_version = 0x78000002,
                 unsupported_feature = 0x78000003, invalid_argument = 0x78000004,
                 invalid_null_handle = 0x78000005, handle_object_in_use = 0x78000006,
                 invalid_null_pointer = 0x78000007, invalid_size = 0x78000008,
                 unsupported_size = 0x78000009, unsupported_alignment = 0x7800000a,
                 invalid_synchronization_object = 0x7800000b, invalid_enumeration = 0x7800000c,
                 unsupported_enumeration = 0x7800000d, invalid_native_binary = 0x7800000f,
                 invalid_kernel_name = 0x78000011, invalid_group_size_dimension = 0x78000013,
                 invalid_kernel_argument_index = 0x78000015,
                 invalid_kernel_argument_size = 0x78000016, invalid_command_list_type = 0x78000019,
                 overlapping_regions = 0x7800001a, unknown = 0x7ffffffe;
// Statuses of recorded graphs, which are newer than spec 1.4 (spec 1.17).
constexpr Status invalid_graph = 0x78000024, graph_capture_unsupported = 0x78000025;
}  // namespace status

// The type of a structure. Every extensible structure has it as its first field.
enum class Type : uint32_t {
  driver_properties = 0x1,
  device_compute_properties = 0x4,
  command_queue_group_properties = 0x6,
  device_memory_properties = 0x7,
  device_memory_access_properties = 0x8,
  context_desc = 0xd,
  command_queue_desc = 0xe,
  command_list_desc = 0xf,
  event_pool_desc = 0x10,
  event_desc = 0x11,
  device_mem_alloc_desc = 0x15,
  host_mem_alloc_desc = 0x16,
  module_desc = 0x1b,
  kernel_desc = 0x1d,
  kernel_properties = 0x1e,
  relaxed_allocation_limits_desc = 0x20001,
  device_properties_1_2 = 0x20006,  // `timer_resolution` is in cycles per second
  external_memmap_sysmem_desc = 0x20037,
  record_replay_graph_properties = 0x20047,
  zex_counter_based_event_desc = 0x3001c,
};

enum Flag : uint32_t {
  init_gpu_only = 1,
  group_compute = 1,
  group_copy = 2,
  queue_explicit_only = 1,
  queue_in_order = 2,  // spec 1.7
  list_in_order = 8,   // spec 1.7
  pool_host_visible = 1,
  pool_kernel_timestamp = 4,
  scope_device = 2,
  scope_host = 4,
  counter_immediate = 1,
  counter_host_visible = 4,
  counter_timestamp = 16,
  relaxed_max_size = 1,
  graph_immutable = 1,
  access_read_write = 1,
};
enum class DeviceType : uint32_t { gpu = 1 };
enum class QueueMode : uint32_t { asynchronous = 2 };
enum class Priority : uint32_t { normal = 0, low = 1, high = 2 };
enum class ModuleFormat : uint32_t { spirv = 0 };
// `prefer_system` is newer than spec 1.4.
enum class MemoryAdvice : uint32_t { prefer_device = 2, prefer_system = 8 };
enum class HandleKind : uint32_t { driver = 0 };

struct Extension {
  char name[256];
  uint32_t version;
};
struct DriverProperties {
  Type type;
  void* next;
  uint8_t uuid[16];
  uint32_t version;
};
struct DeviceProperties {
  Type type;
  void* next;
  DeviceType kind;
  uint32_t vendor, id, flags, subdevice, core_clock;
  uint64_t max_allocation;
  uint32_t hardware_contexts, priorities, threads_per_eu, simd_width, eus_per_subslice,
      subslices_per_slice, slices;
  uint64_t timer_resolution;
  uint32_t timestamp_bits, kernel_timestamp_bits;
  uint8_t uuid[16];
  char name[256];
};
struct GraphProperties {
  Type type;
  void* next;
  uint32_t flags;
};
struct ComputeProperties {
  Type type;
  void* next;
  uint32_t group_size, group_size_x, group_size_y, group_size_z, groups_x, groups_y, groups_z,
      local_memory, subgroup_sizes, subgroup_size[8];
};
struct MemoryProperties {
  Type type;
  void* next;
  uint32_t flags, clock, bus_width;
  uint64_t total;
  char name[256];
};
struct MemoryAccessProperties {
  Type type;
  void* next;
  uint32_t host, device, shared_one, shared_all, shared_system;
};
struct GroupProperties {
  Type type;
  void* next;
  uint32_t flags;
  size_t max_fill_pattern;
  uint32_t queues;
};
struct ContextDesc {
  Type type;
  const void* next;
  uint32_t flags;
};
struct QueueDesc {
  Type type;
  const void* next;
  uint32_t ordinal, index, flags;
  QueueMode mode;
  Priority priority;
};
struct ListDesc {
  Type type;
  const void* next;
  uint32_t ordinal, flags;
};
struct PoolDesc {
  Type type;
  const void* next;
  uint32_t flags, count;
};
struct EventDesc {
  Type type;
  const void* next;
  uint32_t index, signal, wait;
};
// Intel's structure. Since spec 1.15 the standard has a structure with the same fields. Both
// functions accept Intel's type, because the driver reads the types only of chained structures.
struct CounterEventDesc {
  Type type;
  const void* next;
  uint32_t flags, signal, wait;
};
struct DeviceMemDesc {
  Type type;
  const void* next;
  uint32_t flags, ordinal;
};
struct HostMemDesc {
  Type type;
  const void* next;
  uint32_t flags;
};
struct RelaxedLimitsDesc {
  Type type;
  const void* next;
  uint32_t flags;
};
// An extension that is chained to a HostMemDesc. It maps whole pages that already exist.
struct MemmapDesc {
  Type type;
  const void* next;
  void* memory;
  uint64_t bytes;
};
struct ModuleDesc {
  Type type;
  const void* next;
  ModuleFormat format;
  size_t bytes;
  const uint8_t* image;
  const char* build_flags;
  const void* constants;
};
struct KernelDesc {
  Type type;
  const void* next;
  uint32_t flags;
  const char* name;
};
struct KernelProperties {
  Type type;
  void* next;
  uint32_t arguments, required_group[3], required_subgroups, required_subgroup, largest_subgroup,
      max_subgroups;
  uint32_t local_bytes, private_bytes, spill_bytes;
  uint8_t kernel_id[16], module_id[16];
};
struct GroupCount {
  uint32_t x, y, z;
};
struct Timestamps {
  uint64_t global_begin, global_end, context_begin, context_end;
};

// Functions: name in the loader's library, and parameters. All of them exist in spec 1.4.
#define HOTSLOT_ZE_ENTRIES(ENTRY)                                                                  \
  ENTRY(zeInit, (uint32_t))                                                                        \
  ENTRY(zeDriverGet, (uint32_t*, DriverHandle*))                                                   \
  ENTRY(zeDriverGetApiVersion, (DriverHandle, uint32_t*))                                          \
  ENTRY(zeDriverGetProperties, (DriverHandle, DriverProperties*))                                  \
  ENTRY(zeDriverGetExtensionProperties, (DriverHandle, uint32_t*, Extension*))                     \
  ENTRY(zeDriverGetExtensionFunctionAddress, (DriverHandle, const char*, void**))                  \
  ENTRY(zeDeviceGet, (DriverHandle, uint32_t*, DeviceHandle*))                                     \
  ENTRY(zeDeviceGetProperties, (DeviceHandle, DeviceProperties*))                                  \
  ENTRY(zeDeviceGetComputeProperties, (DeviceHandle, ComputeProperties*))                          \
  ENTRY(zeDeviceGetMemoryProperties, (DeviceHandle, uint32_t*, MemoryProperties*))                 \
  ENTRY(zeDeviceGetMemoryAccessProperties, (DeviceHandle, MemoryAccessProperties*))                \
  ENTRY(zeDeviceGetCommandQueueGroupProperties, (DeviceHandle, uint32_t*, GroupProperties*))       \
  ENTRY(zeDeviceCanAccessPeer, (DeviceHandle, DeviceHandle, uint8_t*))                             \
  ENTRY(zeContextCreate, (DriverHandle, const ContextDesc*, ContextHandle*))                       \
  ENTRY(zeContextMakeMemoryResident, (ContextHandle, DeviceHandle, void*, size_t))                 \
  ENTRY(zeContextEvictMemory, (ContextHandle, DeviceHandle, void*, size_t))                        \
  ENTRY(zeCommandQueueCreate, (ContextHandle, DeviceHandle, const QueueDesc*, QueueHandle*))       \
  ENTRY(zeCommandQueueDestroy, (QueueHandle))                                                      \
  ENTRY(zeCommandQueueExecuteCommandLists, (QueueHandle, uint32_t, ListHandle*, FenceHandle))      \
  ENTRY(zeCommandListCreate, (ContextHandle, DeviceHandle, const ListDesc*, ListHandle*))          \
  ENTRY(zeCommandListCreateImmediate,                                                              \
        (ContextHandle, DeviceHandle, const QueueDesc*, ListHandle*))                              \
  ENTRY(zeCommandListDestroy, (ListHandle))                                                        \
  ENTRY(zeCommandListClose, (ListHandle))                                                          \
  ENTRY(zeCommandListAppendBarrier, (ListHandle, EventHandle, uint32_t, EventHandle*))             \
  ENTRY(zeCommandListAppendMemoryCopy,                                                             \
        (ListHandle, void*, const void*, size_t, EventHandle, uint32_t, EventHandle*))             \
  ENTRY(zeCommandListAppendMemoryFill,                                                             \
        (ListHandle, void*, const void*, size_t, size_t, EventHandle, uint32_t, EventHandle*))     \
  ENTRY(zeCommandListAppendMemoryPrefetch, (ListHandle, const void*, size_t))                      \
  ENTRY(zeCommandListAppendMemAdvise,                                                              \
        (ListHandle, DeviceHandle, const void*, size_t, MemoryAdvice))                             \
  ENTRY(zeCommandListAppendLaunchKernel,                                                           \
        (ListHandle, KernelHandle, const GroupCount*, EventHandle, uint32_t, EventHandle*))        \
  ENTRY(zeCommandListAppendEventReset, (ListHandle, EventHandle))                                  \
  ENTRY(zeEventPoolCreate, (ContextHandle, const PoolDesc*, uint32_t, DeviceHandle*, PoolHandle*)) \
  ENTRY(zeEventPoolDestroy, (PoolHandle))                                                          \
  ENTRY(zeEventCreate, (PoolHandle, const EventDesc*, EventHandle*))                               \
  ENTRY(zeEventDestroy, (EventHandle))                                                             \
  ENTRY(zeEventHostReset, (EventHandle))                                                           \
  ENTRY(zeEventHostSynchronize, (EventHandle, uint64_t))                                           \
  ENTRY(zeEventQueryStatus, (EventHandle))                                                         \
  ENTRY(zeEventQueryKernelTimestamp, (EventHandle, Timestamps*))                                   \
  ENTRY(zeMemAllocDevice,                                                                          \
        (ContextHandle, const DeviceMemDesc*, size_t, size_t, DeviceHandle, void**))               \
  ENTRY(zeMemAllocHost, (ContextHandle, const HostMemDesc*, size_t, size_t, void**))               \
  ENTRY(zeMemAllocShared, (ContextHandle, const DeviceMemDesc*, const HostMemDesc*, size_t,        \
                           size_t, DeviceHandle, void**))                                          \
  ENTRY(zeMemFree, (ContextHandle, void*))                                                         \
  ENTRY(zeModuleCreate,                                                                            \
        (ContextHandle, DeviceHandle, const ModuleDesc*, ModuleHandle*, LogHandle*))               \
  ENTRY(zeModuleBuildLogGetString, (LogHandle, size_t*, char*))                                    \
  ENTRY(zeModuleBuildLogDestroy, (LogHandle))                                                      \
  ENTRY(zeKernelCreate, (ModuleHandle, const KernelDesc*, KernelHandle*))                          \
  ENTRY(zeModuleGetKernelNames, (ModuleHandle, uint32_t*, const char**))                           \
  ENTRY(zeModuleDestroy, (ModuleHandle))                                                           \
  ENTRY(zeKernelGetProperties, (KernelHandle, KernelProperties*))                                  \
  ENTRY(zeKernelDestroy, (KernelHandle))                                                           \
  ENTRY(zeKernelSetGroupSize, (KernelHandle, uint32_t, uint32_t, uint32_t))                        \
  ENTRY(zeKernelSetArgumentValue, (KernelHandle, uint32_t, size_t, const void*))

// Functions that a driver may lack. The address comes from the loader's library, else from the
// driver by name, else it is null. Graphs (spec 1.17) and the append to immediate lists (spec 1.9)
// belong to the standard. Functions that begin with zex are Intel's.
#define HOTSLOT_ZE_NEWER_ENTRIES(ENTRY)                                                   \
  ENTRY(zeCommandListImmediateAppendCommandListsExp,                                      \
        (ListHandle, uint32_t, ListHandle*, EventHandle, uint32_t, EventHandle*))         \
  ENTRY(zexCounterBasedEventCreate2,                                                      \
        (ContextHandle, DeviceHandle, const CounterEventDesc*, EventHandle*))             \
  ENTRY(zeEventCounterBasedCreate,                                                        \
        (ContextHandle, DeviceHandle, const CounterEventDesc*, EventHandle*))             \
  ENTRY(zexDriverImportExternalPointer, (DriverHandle, void*, size_t))                    \
  ENTRY(zexDriverReleaseImportedPointer, (DriverHandle, void*))                           \
  ENTRY(zeCommandListBeginGraphCaptureExt, (ListHandle, const void*))                     \
  ENTRY(zeCommandListEndGraphCaptureExt, (ListHandle, const void*, GraphHandle*))         \
  ENTRY(zeGraphInstantiateExt, (GraphHandle, const void*, ExecutableHandle*))             \
  ENTRY(zeCommandListAppendGraphExt,                                                      \
        (ListHandle, ExecutableHandle, const void*, EventHandle, uint32_t, EventHandle*)) \
  ENTRY(zeGraphDestroyExt, (GraphHandle))                                                 \
  ENTRY(zeExecutableGraphDestroyExt, (ExecutableHandle))

// The loader's function that translates its handles to the driver's handles.
using TranslateHandle = Status (*)(HandleKind, void*, void**);

struct Table {
#define HOTSLOT_ENTRY(symbol, parameters) Status(*symbol) parameters = nullptr;
  HOTSLOT_ZE_ENTRIES(HOTSLOT_ENTRY)
#undef HOTSLOT_ENTRY
};
struct Newer {
#define HOTSLOT_ENTRY(symbol, parameters) Status(*symbol) parameters = nullptr;
  HOTSLOT_ZE_NEWER_ENTRIES(HOTSLOT_ENTRY)
#undef HOTSLOT_ENTRY
};

}  // namespace hotslot::level_zero
