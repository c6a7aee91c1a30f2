// Compares our declarations of Level Zero with the installed headers. Declarations newer than these
// headers are only checked if the macro of their extension exists. -DNEGATIVE adds declarations
// that are wrong.
#include <level_zero/loader/ze_loader.h>
#include <level_zero/ze_api.h>

#include "device/level_zero/abi.hpp"
#include "same.hpp"

namespace hotslot::level_zero {

using abi::same_function;

#define HOTSLOT_ENTRY(symbol, parameters)                                 \
  static_assert(same_function<Status(*) parameters, decltype(&::symbol)>, \
                #symbol " has another signature");
HOTSLOT_ZE_ENTRIES(HOTSLOT_ENTRY)
static_assert(same_function<TranslateHandle, decltype(&::zelLoaderTranslateHandle)>,
              "zelLoaderTranslateHandle has another signature");
SAME_NUMBER(HandleKind::driver, ZEL_HANDLE_DRIVER);

SAME_NUMBER(status::success, ZE_RESULT_SUCCESS);
SAME_NUMBER(status::not_ready, ZE_RESULT_NOT_READY);
#define SAME_STATUS(ours, theirs) SAME_NUMBER(status::ours, ZE_RESULT_ERROR_##theirs)
SAME_STATUS(device_lost, DEVICE_LOST);
SAME_STATUS(out_of_host_memory, OUT_OF_HOST_MEMORY);
SAME_STATUS(out_of_device_memory, OUT_OF_DEVICE_MEMORY);
SAME_STATUS(module_build_failure, MODULE_BUILD_FAILURE);
SAME_STATUS(module_link_failure, MODULE_LINK_FAILURE);
SAME_STATUS(device_requires_reset, DEVICE_REQUIRES_RESET);
SAME_STATUS(insufficient_permissions, INSUFFICIENT_PERMISSIONS);
SAME_STATUS(not_available, NOT_AVAILABLE);
SAME_STATUS(dependency_unavailable, DEPENDENCY_UNAVAILABLE);
SAME_STATUS(uninitialized, UNINITIALIZED);
SAME_STATUS(unsupported_version, UNSUPPORTED_VERSION);
SAME_STATUS(unsupported_feature, UNSUPPORTED_FEATURE);
SAME_STATUS(invalid_argument, INVALID_ARGUMENT);
SAME_STATUS(invalid_null_handle, INVALID_NULL_HANDLE);
SAME_STATUS(handle_object_in_use, HANDLE_OBJECT_IN_USE);
SAME_STATUS(invalid_null_pointer, INVALID_NULL_POINTER);
SAME_STATUS(invalid_size, INVALID_SIZE);
SAME_STATUS(unsupported_size, UNSUPPORTED_SIZE);
SAME_STATUS(unsupported_alignment, UNSUPPORTED_ALIGNMENT);
SAME_STATUS(invalid_synchronization_object, INVALID_SYNCHRONIZATION_OBJECT);
SAME_STATUS(invalid_enumeration, INVALID_ENUMERATION);
SAME_STATUS(unsupported_enumeration, UNSUPPORTED_ENUMERATION);
SAME_STATUS(invalid_native_binary, INVALID_NATIVE_BINARY);
SAME_STATUS(invalid_kernel_name, INVALID_KERNEL_NAME);
SAME_STATUS(invalid_group_size_dimension, INVALID_GROUP_SIZE_DIMENSION);
SAME_STATUS(invalid_kernel_argument_index, INVALID_KERNEL_ARGUMENT_INDEX);
SAME_STATUS(invalid_kernel_argument_size, INVALID_KERNEL_ARGUMENT_SIZE);
SAME_STATUS(invalid_command_list_type, INVALID_COMMAND_LIST_TYPE);
SAME_STATUS(overlapping_regions, OVERLAPPING_REGIONS);
SAME_STATUS(unknown, UNKNOWN);

#define SAME_TYPE(ours, theirs) SAME_NUMBER(Type::ours, ZE_STRUCTURE_TYPE_##theirs)
SAME_TYPE(driver_properties, DRIVER_PROPERTIES);
SAME_TYPE(device_compute_properties, DEVICE_COMPUTE_PROPERTIES);
SAME_TYPE(command_queue_group_properties, COMMAND_QUEUE_GROUP_PROPERTIES);
SAME_TYPE(device_memory_properties, DEVICE_MEMORY_PROPERTIES);
SAME_TYPE(device_memory_access_properties, DEVICE_MEMORY_ACCESS_PROPERTIES);
SAME_TYPE(context_desc, CONTEXT_DESC);
SAME_TYPE(command_queue_desc, COMMAND_QUEUE_DESC);
SAME_TYPE(command_list_desc, COMMAND_LIST_DESC);
SAME_TYPE(event_pool_desc, EVENT_POOL_DESC);
SAME_TYPE(event_desc, EVENT_DESC);
SAME_TYPE(device_mem_alloc_desc, DEVICE_MEM_ALLOC_DESC);
SAME_TYPE(host_mem_alloc_desc, HOST_MEM_ALLOC_DESC);
SAME_TYPE(module_desc, MODULE_DESC);
SAME_TYPE(kernel_desc, KERNEL_DESC);
SAME_TYPE(kernel_properties, KERNEL_PROPERTIES);
SAME_TYPE(relaxed_allocation_limits_desc, RELAXED_ALLOCATION_LIMITS_EXP_DESC);
SAME_TYPE(device_properties_1_2, DEVICE_PROPERTIES_1_2);

SAME_NUMBER(init_gpu_only, ZE_INIT_FLAG_GPU_ONLY);
SAME_NUMBER(group_compute, ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COMPUTE);
SAME_NUMBER(group_copy, ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COPY);
SAME_NUMBER(queue_explicit_only, ZE_COMMAND_QUEUE_FLAG_EXPLICIT_ONLY);
SAME_NUMBER(pool_host_visible, ZE_EVENT_POOL_FLAG_HOST_VISIBLE);
SAME_NUMBER(pool_kernel_timestamp, ZE_EVENT_POOL_FLAG_KERNEL_TIMESTAMP);
SAME_NUMBER(scope_device, ZE_EVENT_SCOPE_FLAG_DEVICE);
SAME_NUMBER(scope_host, ZE_EVENT_SCOPE_FLAG_HOST);
SAME_NUMBER(relaxed_max_size, ZE_RELAXED_ALLOCATION_LIMITS_EXP_FLAG_MAX_SIZE);
SAME_NUMBER(access_read_write, ZE_MEMORY_ACCESS_CAP_FLAG_RW);
SAME_NUMBER(DeviceType::gpu, ZE_DEVICE_TYPE_GPU);
SAME_NUMBER(QueueMode::asynchronous, ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS);
SAME_NUMBER(Priority::normal, ZE_COMMAND_QUEUE_PRIORITY_NORMAL);
SAME_NUMBER(Priority::low, ZE_COMMAND_QUEUE_PRIORITY_PRIORITY_LOW);
SAME_NUMBER(Priority::high, ZE_COMMAND_QUEUE_PRIORITY_PRIORITY_HIGH);
SAME_NUMBER(ModuleFormat::spirv, ZE_MODULE_FORMAT_IL_SPIRV);
SAME_NUMBER(MemoryAdvice::prefer_device, ZE_MEMORY_ADVICE_SET_PREFERRED_LOCATION);

// Checks the size and the first two fields of an extensible structure. Its other fields follow.
#define SAME_DESC(ours, theirs)          \
  SAME_STRUCT(ours, theirs);             \
  SAME_FIELD(ours, type, theirs, stype); \
  SAME_FIELD(ours, next, theirs, pNext)

SAME_STRUCT(Extension, ze_driver_extension_properties_t);
SAME_FIELD(Extension, name, ze_driver_extension_properties_t, name);
SAME_FIELD(Extension, version, ze_driver_extension_properties_t, version);
SAME_DESC(DriverProperties, ze_driver_properties_t);
static_assert(offsetof(DriverProperties, uuid) == offsetof(ze_driver_properties_t, uuid) &&
                  sizeof(DriverProperties::uuid) == sizeof(ze_driver_uuid_t),
              "DriverProperties::uuid is not ze_driver_uuid_t");
SAME_FIELD(DriverProperties, version, ze_driver_properties_t, driverVersion);
SAME_DESC(DeviceProperties, ze_device_properties_t);
SAME_FIELD(DeviceProperties, kind, ze_device_properties_t, type);
SAME_FIELD(DeviceProperties, vendor, ze_device_properties_t, vendorId);
SAME_FIELD(DeviceProperties, id, ze_device_properties_t, deviceId);
SAME_FIELD(DeviceProperties, flags, ze_device_properties_t, flags);
SAME_FIELD(DeviceProperties, subdevice, ze_device_properties_t, subdeviceId);
SAME_FIELD(DeviceProperties, core_clock, ze_device_properties_t, coreClockRate);
SAME_FIELD(DeviceProperties, max_allocation, ze_device_properties_t, maxMemAllocSize);
SAME_FIELD(DeviceProperties, hardware_contexts, ze_device_properties_t, maxHardwareContexts);
SAME_FIELD(DeviceProperties, priorities, ze_device_properties_t, maxCommandQueuePriority);
SAME_FIELD(DeviceProperties, threads_per_eu, ze_device_properties_t, numThreadsPerEU);
SAME_FIELD(DeviceProperties, simd_width, ze_device_properties_t, physicalEUSimdWidth);
SAME_FIELD(DeviceProperties, eus_per_subslice, ze_device_properties_t, numEUsPerSubslice);
SAME_FIELD(DeviceProperties, subslices_per_slice, ze_device_properties_t, numSubslicesPerSlice);
SAME_FIELD(DeviceProperties, slices, ze_device_properties_t, numSlices);
SAME_FIELD(DeviceProperties, timer_resolution, ze_device_properties_t, timerResolution);
SAME_FIELD(DeviceProperties, timestamp_bits, ze_device_properties_t, timestampValidBits);
SAME_FIELD(DeviceProperties, kernel_timestamp_bits, ze_device_properties_t,
           kernelTimestampValidBits);
static_assert(offsetof(DeviceProperties, uuid) == offsetof(ze_device_properties_t, uuid) &&
                  sizeof(DeviceProperties::uuid) == sizeof(ze_device_uuid_t),
              "DeviceProperties::uuid is not ze_device_uuid_t");
SAME_FIELD(DeviceProperties, name, ze_device_properties_t, name);
SAME_DESC(ComputeProperties, ze_device_compute_properties_t);
SAME_FIELD(ComputeProperties, group_size, ze_device_compute_properties_t, maxTotalGroupSize);
SAME_FIELD(ComputeProperties, group_size_x, ze_device_compute_properties_t, maxGroupSizeX);
SAME_FIELD(ComputeProperties, groups_x, ze_device_compute_properties_t, maxGroupCountX);
SAME_FIELD(ComputeProperties, local_memory, ze_device_compute_properties_t, maxSharedLocalMemory);
SAME_FIELD(ComputeProperties, subgroup_size, ze_device_compute_properties_t, subGroupSizes);
SAME_DESC(MemoryProperties, ze_device_memory_properties_t);
SAME_FIELD(MemoryProperties, flags, ze_device_memory_properties_t, flags);
SAME_FIELD(MemoryProperties, clock, ze_device_memory_properties_t, maxClockRate);
SAME_FIELD(MemoryProperties, bus_width, ze_device_memory_properties_t, maxBusWidth);
SAME_FIELD(MemoryProperties, total, ze_device_memory_properties_t, totalSize);
SAME_FIELD(MemoryProperties, name, ze_device_memory_properties_t, name);
SAME_DESC(MemoryAccessProperties, ze_device_memory_access_properties_t);
SAME_FIELD(MemoryAccessProperties, host, ze_device_memory_access_properties_t,
           hostAllocCapabilities);
SAME_FIELD(MemoryAccessProperties, device, ze_device_memory_access_properties_t,
           deviceAllocCapabilities);
SAME_FIELD(MemoryAccessProperties, shared_one, ze_device_memory_access_properties_t,
           sharedSingleDeviceAllocCapabilities);
SAME_FIELD(MemoryAccessProperties, shared_all, ze_device_memory_access_properties_t,
           sharedCrossDeviceAllocCapabilities);
SAME_FIELD(MemoryAccessProperties, shared_system, ze_device_memory_access_properties_t,
           sharedSystemAllocCapabilities);
SAME_DESC(GroupProperties, ze_command_queue_group_properties_t);
SAME_FIELD(GroupProperties, flags, ze_command_queue_group_properties_t, flags);
SAME_FIELD(GroupProperties, max_fill_pattern, ze_command_queue_group_properties_t,
           maxMemoryFillPatternSize);
SAME_FIELD(GroupProperties, queues, ze_command_queue_group_properties_t, numQueues);
SAME_DESC(ContextDesc, ze_context_desc_t);
SAME_FIELD(ContextDesc, flags, ze_context_desc_t, flags);
SAME_DESC(QueueDesc, ze_command_queue_desc_t);
SAME_FIELD(QueueDesc, ordinal, ze_command_queue_desc_t, ordinal);
SAME_FIELD(QueueDesc, index, ze_command_queue_desc_t, index);
SAME_FIELD(QueueDesc, flags, ze_command_queue_desc_t, flags);
SAME_FIELD(QueueDesc, mode, ze_command_queue_desc_t, mode);
SAME_FIELD(QueueDesc, priority, ze_command_queue_desc_t, priority);
SAME_DESC(ListDesc, ze_command_list_desc_t);
SAME_FIELD(ListDesc, ordinal, ze_command_list_desc_t, commandQueueGroupOrdinal);
SAME_FIELD(ListDesc, flags, ze_command_list_desc_t, flags);
SAME_DESC(PoolDesc, ze_event_pool_desc_t);
SAME_FIELD(PoolDesc, flags, ze_event_pool_desc_t, flags);
SAME_FIELD(PoolDesc, count, ze_event_pool_desc_t, count);
SAME_DESC(EventDesc, ze_event_desc_t);
SAME_FIELD(EventDesc, index, ze_event_desc_t, index);
SAME_FIELD(EventDesc, signal, ze_event_desc_t, signal);
SAME_FIELD(EventDesc, wait, ze_event_desc_t, wait);
SAME_DESC(DeviceMemDesc, ze_device_mem_alloc_desc_t);
SAME_FIELD(DeviceMemDesc, flags, ze_device_mem_alloc_desc_t, flags);
SAME_FIELD(DeviceMemDesc, ordinal, ze_device_mem_alloc_desc_t, ordinal);
SAME_DESC(HostMemDesc, ze_host_mem_alloc_desc_t);
SAME_FIELD(HostMemDesc, flags, ze_host_mem_alloc_desc_t, flags);
SAME_DESC(RelaxedLimitsDesc, ze_relaxed_allocation_limits_exp_desc_t);
SAME_FIELD(RelaxedLimitsDesc, flags, ze_relaxed_allocation_limits_exp_desc_t, flags);
SAME_DESC(ModuleDesc, ze_module_desc_t);
SAME_FIELD(ModuleDesc, format, ze_module_desc_t, format);
SAME_FIELD(ModuleDesc, bytes, ze_module_desc_t, inputSize);
SAME_FIELD(ModuleDesc, image, ze_module_desc_t, pInputModule);
SAME_FIELD(ModuleDesc, build_flags, ze_module_desc_t, pBuildFlags);
SAME_FIELD(ModuleDesc, constants, ze_module_desc_t, pConstants);
SAME_DESC(KernelDesc, ze_kernel_desc_t);
SAME_FIELD(KernelDesc, flags, ze_kernel_desc_t, flags);
SAME_FIELD(KernelDesc, name, ze_kernel_desc_t, pKernelName);
SAME_DESC(KernelProperties, ze_kernel_properties_t);
SAME_FIELD(KernelProperties, arguments, ze_kernel_properties_t, numKernelArgs);
SAME_STRUCT(GroupCount, ze_group_count_t);
SAME_FIELD(GroupCount, x, ze_group_count_t, groupCountX);
SAME_FIELD(GroupCount, y, ze_group_count_t, groupCountY);
SAME_FIELD(GroupCount, z, ze_group_count_t, groupCountZ);
SAME_STRUCT(Timestamps, ze_kernel_timestamp_result_t);
SAME_FIELD(Timestamps, global_begin, ze_kernel_timestamp_result_t, global.kernelStart);
SAME_FIELD(Timestamps, global_end, ze_kernel_timestamp_result_t, global.kernelEnd);
SAME_FIELD(Timestamps, context_begin, ze_kernel_timestamp_result_t, context.kernelStart);
SAME_FIELD(Timestamps, context_end, ze_kernel_timestamp_result_t, context.kernelEnd);

// ---- newer than 1.4 -----------------------------------------------------------------------------

// Headers from spec 1.10 on define their version. Older ones only define the names of their
// extensions.
#ifdef ZE_API_VERSION_CURRENT_M
SAME_NUMBER(queue_in_order, ZE_COMMAND_QUEUE_FLAG_IN_ORDER);
SAME_NUMBER(list_in_order, ZE_COMMAND_LIST_FLAG_IN_ORDER);
SAME_NUMBER(MemoryAdvice::prefer_system, ZE_MEMORY_ADVICE_SET_SYSTEM_MEMORY_PREFERRED_LOCATION);
#if ZE_API_VERSION_CURRENT_M >= ZE_MAKE_VERSION(1, 15)
static_assert(same_function<decltype(Newer::zeEventCounterBasedCreate),
                            decltype(&::zeEventCounterBasedCreate)>,
              "zeEventCounterBasedCreate has another signature");
SAME_NUMBER(counter_immediate, ZE_EVENT_COUNTER_BASED_FLAG_IMMEDIATE);
SAME_NUMBER(counter_host_visible, ZE_EVENT_COUNTER_BASED_FLAG_HOST_VISIBLE);
SAME_NUMBER(counter_timestamp, ZE_EVENT_COUNTER_BASED_FLAG_DEVICE_TIMESTAMP);
SAME_DESC(CounterEventDesc, ze_event_counter_based_desc_t);
SAME_FIELD(CounterEventDesc, flags, ze_event_counter_based_desc_t, flags);
SAME_FIELD(CounterEventDesc, signal, ze_event_counter_based_desc_t, signal);
SAME_FIELD(CounterEventDesc, wait, ze_event_counter_based_desc_t, wait);
#endif
#endif
#ifdef ZE_IMMEDIATE_COMMAND_LIST_APPEND_EXP_NAME
static_assert(same_function<decltype(Newer::zeCommandListImmediateAppendCommandListsExp),
                            decltype(&::zeCommandListImmediateAppendCommandListsExp)>,
              "zeCommandListImmediateAppendCommandListsExp has another signature");
#endif
#ifdef ZE_EXTERNAL_MEMORY_MAPPING_EXT_NAME
SAME_TYPE(external_memmap_sysmem_desc, EXTERNAL_MEMMAP_SYSMEM_EXT_DESC);
SAME_DESC(MemmapDesc, ze_external_memmap_sysmem_ext_desc_t);
SAME_FIELD(MemmapDesc, memory, ze_external_memmap_sysmem_ext_desc_t, pSystemMemory);
SAME_FIELD(MemmapDesc, bytes, ze_external_memmap_sysmem_ext_desc_t, size);
#endif
#ifdef ZE_RECORD_REPLAY_GRAPH_EXT_NAME
#define SAME_NEWER(symbol)                                                   \
  static_assert(same_function<decltype(Newer::symbol), decltype(&::symbol)>, \
                #symbol " has another signature")
SAME_NEWER(zeCommandListBeginGraphCaptureExt);
SAME_NEWER(zeCommandListEndGraphCaptureExt);
SAME_NEWER(zeGraphInstantiateExt);
SAME_NEWER(zeCommandListAppendGraphExt);
SAME_NEWER(zeGraphDestroyExt);
SAME_NEWER(zeExecutableGraphDestroyExt);
SAME_TYPE(record_replay_graph_properties, RECORD_REPLAY_GRAPH_EXT_PROPERTIES);
SAME_NUMBER(graph_immutable, ZE_RECORD_REPLAY_GRAPH_EXT_FLAG_IMMUTABLE_GRAPH);
SAME_DESC(GraphProperties, ze_record_replay_graph_ext_properties_t);
SAME_FIELD(GraphProperties, flags, ze_record_replay_graph_ext_properties_t, graphFlags);
#endif

#ifdef NEGATIVE
struct Shifted {
  Type type;
  const void* next;
  uint32_t flags, ordinal, index;
  QueueMode mode;
  Priority priority;
};
static_assert(same_function<Status (*)(ContextHandle, const PoolDesc*, PoolHandle*),
                            decltype(&::zeEventPoolCreate)>,
              "wrong: two parameters too few");
static_assert(same_function<Status (*)(ListHandle, uint64_t, EventHandle*),
                            decltype(&::zeCommandListAppendWaitOnEvents)>,
              "wrong: a count of 8 bytes");
SAME_NUMBER(Priority::low, ZE_COMMAND_QUEUE_PRIORITY_PRIORITY_HIGH);
SAME_FIELD(Shifted, ordinal, ze_command_queue_desc_t, ordinal);
SAME_STRUCT(KernelDesc, ze_host_mem_alloc_desc_t);
#endif

}  // namespace hotslot::level_zero
