// The tables of functions that the loader gets from a Level Zero driver. Included once, at the end
// of level_zero.cpp. The loader rejects a driver that lacks one of these 46 functions, even if its
// table may stay empty.
#define SOFTWARE_TABLE(name, table)                                        \
  SOFTWARE_EXPORT ze_result_t name(ze_api_version_t version, table* out) { \
    if (!out) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;                 \
    if (ZE_MAJOR_VERSION(version) != 1) return ZE_RESULT_ERROR_UNSUPPORTED_VERSION;
#define SOFTWARE_END        \
  return ZE_RESULT_SUCCESS; \
  }
#define SOFTWARE_EMPTY(name, table) SOFTWARE_TABLE(name, table) SOFTWARE_END
#define SOFTWARE_HAS(entry, function) out->entry = software::function;

SOFTWARE_TABLE(zeGetGlobalProcAddrTable, ze_global_dditable_t)
// The loader asks for this table first, so the injected failures are read before any call.
static const software::LogAtExit log;
static const bool once =
    (software::Calls::all().injection.set(software::environment("HOTSLOT_SOFTWARE_FAIL")), true);
(void)once;
SOFTWARE_HAS(pfnInit, zeInit)
SOFTWARE_END
SOFTWARE_TABLE(zeGetDriverProcAddrTable, ze_driver_dditable_t)
SOFTWARE_HAS(pfnGet, zeDriverGet)
SOFTWARE_HAS(pfnGetApiVersion, zeDriverGetApiVersion)
SOFTWARE_HAS(pfnGetProperties, zeDriverGetProperties)
SOFTWARE_HAS(pfnGetExtensionProperties, zeDriverGetExtensionProperties)
SOFTWARE_HAS(pfnGetExtensionFunctionAddress, zeDriverGetExtensionFunctionAddress)
SOFTWARE_END
SOFTWARE_TABLE(zeGetDeviceProcAddrTable, ze_device_dditable_t)
SOFTWARE_HAS(pfnGet, zeDeviceGet)
SOFTWARE_HAS(pfnGetSubDevices, zeDeviceGetSubDevices)
SOFTWARE_HAS(pfnGetProperties, zeDeviceGetProperties)
SOFTWARE_HAS(pfnGetComputeProperties, zeDeviceGetComputeProperties)
SOFTWARE_HAS(pfnGetModuleProperties, zeDeviceGetModuleProperties)
SOFTWARE_HAS(pfnGetCommandQueueGroupProperties, zeDeviceGetCommandQueueGroupProperties)
SOFTWARE_HAS(pfnGetMemoryProperties, zeDeviceGetMemoryProperties)
SOFTWARE_HAS(pfnGetMemoryAccessProperties, zeDeviceGetMemoryAccessProperties)
SOFTWARE_HAS(pfnGetP2PProperties, zeDeviceGetP2PProperties)
SOFTWARE_HAS(pfnCanAccessPeer, zeDeviceCanAccessPeer)
SOFTWARE_HAS(pfnGetStatus, zeDeviceGetStatus)
SOFTWARE_HAS(pfnGetGlobalTimestamps, zeDeviceGetGlobalTimestamps)
SOFTWARE_END
SOFTWARE_TABLE(zeGetContextProcAddrTable, ze_context_dditable_t)
SOFTWARE_HAS(pfnCreate, zeContextCreate)
SOFTWARE_HAS(pfnCreateEx, zeContextCreateEx)
SOFTWARE_HAS(pfnDestroy, zeContextDestroy)
SOFTWARE_HAS(pfnGetStatus, zeContextGetStatus)
SOFTWARE_HAS(pfnMakeMemoryResident, zeContextMakeMemoryResident)
SOFTWARE_HAS(pfnEvictMemory, zeContextEvictMemory)
SOFTWARE_END
SOFTWARE_TABLE(zeGetCommandQueueProcAddrTable, ze_command_queue_dditable_t)
SOFTWARE_HAS(pfnCreate, zeCommandQueueCreate)
SOFTWARE_HAS(pfnDestroy, zeCommandQueueDestroy)
SOFTWARE_HAS(pfnExecuteCommandLists, zeCommandQueueExecuteCommandLists)
SOFTWARE_HAS(pfnSynchronize, zeCommandQueueSynchronize)
SOFTWARE_END
SOFTWARE_TABLE(zeGetCommandListProcAddrTable, ze_command_list_dditable_t)
SOFTWARE_HAS(pfnCreate, zeCommandListCreate)
SOFTWARE_HAS(pfnCreateImmediate, zeCommandListCreateImmediate)
SOFTWARE_HAS(pfnDestroy, zeCommandListDestroy)
SOFTWARE_HAS(pfnClose, zeCommandListClose)
SOFTWARE_HAS(pfnReset, zeCommandListReset)
SOFTWARE_HAS(pfnAppendWriteGlobalTimestamp, zeCommandListAppendWriteGlobalTimestamp)
SOFTWARE_HAS(pfnAppendBarrier, zeCommandListAppendBarrier)
SOFTWARE_HAS(pfnAppendMemoryRangesBarrier, zeCommandListAppendMemoryRangesBarrier)
SOFTWARE_HAS(pfnAppendMemoryCopy, zeCommandListAppendMemoryCopy)
SOFTWARE_HAS(pfnAppendMemoryFill, zeCommandListAppendMemoryFill)
SOFTWARE_HAS(pfnAppendMemoryPrefetch, zeCommandListAppendMemoryPrefetch)
SOFTWARE_HAS(pfnAppendMemAdvise, zeCommandListAppendMemAdvise)
SOFTWARE_HAS(pfnAppendSignalEvent, zeCommandListAppendSignalEvent)
SOFTWARE_HAS(pfnAppendWaitOnEvents, zeCommandListAppendWaitOnEvents)
SOFTWARE_HAS(pfnAppendEventReset, zeCommandListAppendEventReset)
SOFTWARE_HAS(pfnAppendLaunchKernel, zeCommandListAppendLaunchKernel)
SOFTWARE_END
SOFTWARE_TABLE(zeGetFenceProcAddrTable, ze_fence_dditable_t)
SOFTWARE_HAS(pfnCreate, zeFenceCreate)
SOFTWARE_HAS(pfnDestroy, zeFenceDestroy)
SOFTWARE_HAS(pfnHostSynchronize, zeFenceHostSynchronize)
SOFTWARE_HAS(pfnQueryStatus, zeFenceQueryStatus)
SOFTWARE_HAS(pfnReset, zeFenceReset)
SOFTWARE_END
SOFTWARE_TABLE(zeGetEventPoolProcAddrTable, ze_event_pool_dditable_t)
SOFTWARE_HAS(pfnCreate, zeEventPoolCreate)
SOFTWARE_HAS(pfnDestroy, zeEventPoolDestroy)
SOFTWARE_END
SOFTWARE_TABLE(zeGetEventProcAddrTable, ze_event_dditable_t)
SOFTWARE_HAS(pfnCreate, zeEventCreate)
SOFTWARE_HAS(pfnDestroy, zeEventDestroy)
SOFTWARE_HAS(pfnHostSignal, zeEventHostSignal)
SOFTWARE_HAS(pfnHostSynchronize, zeEventHostSynchronize)
SOFTWARE_HAS(pfnQueryStatus, zeEventQueryStatus)
SOFTWARE_HAS(pfnHostReset, zeEventHostReset)
SOFTWARE_HAS(pfnQueryKernelTimestamp, zeEventQueryKernelTimestamp)
SOFTWARE_END
SOFTWARE_TABLE(zeGetModuleProcAddrTable, ze_module_dditable_t)
SOFTWARE_HAS(pfnCreate, zeModuleCreate)
SOFTWARE_HAS(pfnDestroy, zeModuleDestroy)
SOFTWARE_HAS(pfnGetKernelNames, zeModuleGetKernelNames)
SOFTWARE_HAS(pfnGetProperties, zeModuleGetProperties)
SOFTWARE_END
SOFTWARE_TABLE(zeGetModuleBuildLogProcAddrTable, ze_module_build_log_dditable_t)
SOFTWARE_HAS(pfnDestroy, zeModuleBuildLogDestroy)
SOFTWARE_HAS(pfnGetString, zeModuleBuildLogGetString)
SOFTWARE_END
SOFTWARE_TABLE(zeGetKernelProcAddrTable, ze_kernel_dditable_t)
SOFTWARE_HAS(pfnCreate, zeKernelCreate)
SOFTWARE_HAS(pfnDestroy, zeKernelDestroy)
SOFTWARE_HAS(pfnSetCacheConfig, zeKernelSetCacheConfig)
SOFTWARE_HAS(pfnSetGroupSize, zeKernelSetGroupSize)
SOFTWARE_HAS(pfnSuggestGroupSize, zeKernelSuggestGroupSize)
SOFTWARE_HAS(pfnSetArgumentValue, zeKernelSetArgumentValue)
SOFTWARE_HAS(pfnSetIndirectAccess, zeKernelSetIndirectAccess)
SOFTWARE_HAS(pfnGetProperties, zeKernelGetProperties)
SOFTWARE_HAS(pfnGetName, zeKernelGetName)
SOFTWARE_END
SOFTWARE_TABLE(zeGetMemProcAddrTable, ze_mem_dditable_t)
SOFTWARE_HAS(pfnAllocShared, zeMemAllocShared)
SOFTWARE_HAS(pfnAllocDevice, zeMemAllocDevice)
SOFTWARE_HAS(pfnAllocHost, zeMemAllocHost)
SOFTWARE_HAS(pfnFree, zeMemFree)
SOFTWARE_HAS(pfnGetAllocProperties, zeMemGetAllocProperties)
SOFTWARE_HAS(pfnGetAddressRange, zeMemGetAddressRange)
SOFTWARE_END
SOFTWARE_EMPTY(zeGetImageProcAddrTable, ze_image_dditable_t)
SOFTWARE_EMPTY(zeGetSamplerProcAddrTable, ze_sampler_dditable_t)
SOFTWARE_EMPTY(zeGetPhysicalMemProcAddrTable, ze_physical_mem_dditable_t)
SOFTWARE_EMPTY(zeGetVirtualMemProcAddrTable, ze_virtual_mem_dditable_t)
SOFTWARE_EMPTY(zetGetDeviceProcAddrTable, zet_device_dditable_t)
SOFTWARE_EMPTY(zetGetContextProcAddrTable, zet_context_dditable_t)
SOFTWARE_EMPTY(zetGetCommandListProcAddrTable, zet_command_list_dditable_t)
SOFTWARE_EMPTY(zetGetModuleProcAddrTable, zet_module_dditable_t)
SOFTWARE_EMPTY(zetGetKernelProcAddrTable, zet_kernel_dditable_t)
SOFTWARE_EMPTY(zetGetMetricGroupProcAddrTable, zet_metric_group_dditable_t)
SOFTWARE_EMPTY(zetGetMetricProcAddrTable, zet_metric_dditable_t)
SOFTWARE_EMPTY(zetGetMetricStreamerProcAddrTable, zet_metric_streamer_dditable_t)
SOFTWARE_EMPTY(zetGetMetricQueryPoolProcAddrTable, zet_metric_query_pool_dditable_t)
SOFTWARE_EMPTY(zetGetMetricQueryProcAddrTable, zet_metric_query_dditable_t)
SOFTWARE_EMPTY(zetGetTracerExpProcAddrTable, zet_tracer_exp_dditable_t)
SOFTWARE_EMPTY(zetGetDebugProcAddrTable, zet_debug_dditable_t)
SOFTWARE_EMPTY(zesGetDriverProcAddrTable, zes_driver_dditable_t)
SOFTWARE_EMPTY(zesGetDeviceProcAddrTable, zes_device_dditable_t)
SOFTWARE_EMPTY(zesGetSchedulerProcAddrTable, zes_scheduler_dditable_t)
SOFTWARE_EMPTY(zesGetPerformanceFactorProcAddrTable, zes_performance_factor_dditable_t)
SOFTWARE_EMPTY(zesGetPowerProcAddrTable, zes_power_dditable_t)
SOFTWARE_EMPTY(zesGetFrequencyProcAddrTable, zes_frequency_dditable_t)
SOFTWARE_EMPTY(zesGetEngineProcAddrTable, zes_engine_dditable_t)
SOFTWARE_EMPTY(zesGetStandbyProcAddrTable, zes_standby_dditable_t)
SOFTWARE_EMPTY(zesGetFirmwareProcAddrTable, zes_firmware_dditable_t)
SOFTWARE_EMPTY(zesGetMemoryProcAddrTable, zes_memory_dditable_t)
SOFTWARE_EMPTY(zesGetFabricPortProcAddrTable, zes_fabric_port_dditable_t)
SOFTWARE_EMPTY(zesGetTemperatureProcAddrTable, zes_temperature_dditable_t)
SOFTWARE_EMPTY(zesGetPsuProcAddrTable, zes_psu_dditable_t)
SOFTWARE_EMPTY(zesGetFanProcAddrTable, zes_fan_dditable_t)
SOFTWARE_EMPTY(zesGetLedProcAddrTable, zes_led_dditable_t)
SOFTWARE_EMPTY(zesGetRasProcAddrTable, zes_ras_dditable_t)
SOFTWARE_EMPTY(zesGetDiagnosticsProcAddrTable, zes_diagnostics_dditable_t)
