// Level Zero's drivers: their features that are newer than spec 1.4, and their errors.
#include "device/level_zero/driver.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "device/level_zero/queue.hpp"

namespace hotslot::level_zero {
namespace {

struct Known {
  Status status;
  const char* name;
};
constexpr Known known[] = {
    {status::not_ready, "NOT_READY"},
    {status::device_lost, "DEVICE_LOST"},
    {status::out_of_host_memory, "OUT_OF_HOST_MEMORY"},
    {status::out_of_device_memory, "OUT_OF_DEVICE_MEMORY"},
    {status::module_build_failure, "MODULE_BUILD_FAILURE"},
    {status::module_link_failure, "MODULE_LINK_FAILURE"},
    {status::device_requires_reset, "DEVICE_REQUIRES_RESET"},
    {status::insufficient_permissions, "INSUFFICIENT_PERMISSIONS"},
    {status::not_available, "NOT_AVAILABLE"},
    {status::dependency_unavailable, "DEPENDENCY_UNAVAILABLE"},
    {status::uninitialized, "UNINITIALIZED"},
    {status::unsupported_version, "UNSUPPORTED_VERSION"},
    {status::unsupported_feature, "UNSUPPORTED_FEATURE"},
    {status::invalid_argument, "INVALID_ARGUMENT"},
    {status::invalid_null_handle, "INVALID_NULL_HANDLE"},
    {status::handle_object_in_use, "HANDLE_OBJECT_IN_USE"},
    {status::invalid_null_pointer, "INVALID_NULL_POINTER"},
    {status::invalid_size, "INVALID_SIZE"},
    {status::unsupported_size, "UNSUPPORTED_SIZE"},
    {status::unsupported_alignment, "UNSUPPORTED_ALIGNMENT"},
    {status::invalid_synchronization_object, "INVALID_SYNCHRONIZATION_OBJECT"},
    {status::invalid_enumeration, "INVALID_ENUMERATION"},
    {status::unsupported_enumeration, "UNSUPPORTED_ENUMERATION"},
    {status::invalid_native_binary, "INVALID_NATIVE_BINARY"},
    {status::invalid_kernel_name, "INVALID_KERNEL_NAME"},
    {status::invalid_group_size_dimension, "INVALID_GROUP_SIZE_DIMENSION"},
    {status::invalid_kernel_argument_index, "INVALID_KERNEL_ARGUMENT_INDEX"},
    {status::invalid_kernel_argument_size, "INVALID_KERNEL_ARGUMENT_SIZE"},
    {status::invalid_command_list_type, "INVALID_COMMAND_LIST_TYPE"},
    {status::overlapping_regions, "OVERLAPPING_REGIONS"},
    {status::invalid_graph, "INVALID_GRAPH"},
    {status::graph_capture_unsupported, "GRAPH_CAPTURE_UNSUPPORTED"},
    {status::unknown, "UNKNOWN"}};

const char* name_of(Status status) {
  for (auto& each : known)
    if (each.status == status) return each.name;
  return "UNKNOWN";
}

const char* advice_for(Status status) {
  if (lost(status))
    return "work on this device failed or hung, and this process cannot use it any more: "
           "close what is open "
           "and start it again; "
           "dmesg says more";
  switch (status) {
    case status::out_of_host_memory:
    case status::out_of_device_memory:
      return "free what is not needed, or use smaller tensors and fewer slots";
    case status::insufficient_permissions:
      return "let this user open /dev/dri/render*: it is usually the group 'render'";
    case status::module_build_failure:
    case status::invalid_kernel_name:
      return "rebuild the kernels (npm run build:kernels), or update Intel's driver";
    case status::uninitialized:
      return "no driver is there any more: the process may be ending";
    default:
      return "look up the status in Level Zero's specification; if Hotslot asked for something "
             "impossible, report it";
  }
}

}  // namespace

bool lost(Status status) {
  return status == status::device_lost || status == status::device_requires_reset;
}

bool unsupported(Status status) {
  return status == status::unsupported_feature || status == status::unsupported_enumeration ||
         status == status::invalid_enumeration || status == status::unsupported_version;
}

void fail(const char* call, Status status, const std::string& detail) {
  char hex[16];
  std::snprintf(hex, sizeof hex, "0x%x", status);
  throw Error(family_name, call, int(status), name_of(status),
              std::string(family_name) + ": " + call + " failed with " + name_of(status) + " (" +
                  hex + ")" + (detail.empty() ? "" : ": " + detail),
              advice_for(status));
}

void Driver::resolve(const Library& library, bool alone) {
  HOTSLOT_ZE(zeDriverGetApiVersion, handle, &version);
  DriverProperties properties{};
  properties.type = Type::driver_properties;
  HOTSLOT_ZE(zeDriverGetProperties, handle, &properties);
  build = properties.version;
  uint32_t count = 0;
  HOTSLOT_ZE(zeDriverGetExtensionProperties, handle, &count, nullptr);
  std::vector<Extension> extensions(count);
  if (count > 0) HOTSLOT_ZE(zeDriverGetExtensionProperties, handle, &count, extensions.data());
  const auto lists = [&](const char* name) {
    for (auto& each : extensions)
      if (std::strcmp(each.name, name) == 0) return true;
    return false;
  };
  // If the loader has several drivers, it may return handles of its own. Functions whose addresses
  // come from a driver cannot read these handles. Only the handle of the driver itself can be
  // translated. Functions for imports need only this handle, so they can be used.
  void* translated = handle;
  const auto translate = library.symbol<TranslateHandle>("zelLoaderTranslateHandle");
  const bool known =
      translate ? translate(HandleKind::driver, handle, &translated) == status::success : alone;
  own = static_cast<DriverHandle>(translated);
  const auto ask = [&](const char* name) -> void* {
    if (void* address = library.symbol<void*>(name)) return address;
    void* address = nullptr;
    const bool usable = known && (own == handle || std::strncmp(name, "zexDriver", 9) == 0);
    if (!usable ||
        ze().zeDriverGetExtensionFunctionAddress(handle, name, &address) != status::success)
      return nullptr;
    return address;
  };
#define HOTSLOT_ENTRY(name, parameters) \
  newer.name = reinterpret_cast<decltype(newer.name)>(ask(#name));
  HOTSLOT_ZE_NEWER_ENTRIES(HOTSLOT_ENTRY)
#undef HOTSLOT_ENTRY
  imports_pages = lists("ZE_extension_external_memmap_sysmem");
  imports_any = newer.zexDriverImportExternalPointer && newer.zexDriverReleaseImportedPointer;
  // The driver's list of extensions decides, because a new loader has the function for every
  // driver.
  lists_append = lists("ZE_experimental_immediate_command_list_append") &&
                 newer.zeCommandListImmediateAppendCommandListsExp;
  // The driver's list of extensions decides, and later the device's flag. The loader has the
  // functions for every driver.
  graphs = lists("ZE_extension_record_replay_graph") && newer.zeCommandListBeginGraphCaptureExt &&
           newer.zeCommandListEndGraphCaptureExt && newer.zeGraphInstantiateExt &&
           newer.zeCommandListAppendGraphExt && newer.zeGraphDestroyExt &&
           newer.zeExecutableGraphDestroyExt;
}

ContextHandle Driver::context() {
  if (const ContextHandle made = context_.load()) return made;
  std::lock_guard guard(context_lock_);
  if (const ContextHandle made = context_.load()) return made;
  ContextDesc desc{};
  desc.type = Type::context_desc;
  ContextHandle context = nullptr;
  HOTSLOT_ZE(zeContextCreate, handle, &desc, &context);
  context_.store(context);
  return context;
}

Marks Driver::marks() {
  Marks marks;
  std::lock_guard guard(lock_);
  sweep_departed();
  for (Queue* queue : queues_) queue->marks(marks);
  return marks;
}

void Driver::tidy() {
  {
    std::lock_guard guard(lock_);
    for (Queue* queue : queues_) queue->tidy();
  }
  retired.sweep();
  {
    std::lock_guard guard(lock_);
    sweep_departed();
  }
  unreturned.offer_again();
  points.trim();
  if (retired.idle()) staging.trim();
}

void Driver::arrive(const Ref<Queue>& queue) {
  std::lock_guard guard(lock_);
  sweep_departed();
  queues_.push_back(queue.get());
}

void Driver::depart(std::unique_ptr<Queue> queue) {
  std::lock_guard guard(lock_);
  queue->next_departed = std::move(departed_);
  departed_ = std::move(queue);
  sweep_departed();
}

void Driver::sweep_departed() {
  for (auto* at = &departed_; *at;)
    if ((*at)->destroyed()) {
      queues_.erase(std::remove(queues_.begin(), queues_.end(), at->get()), queues_.end());
      *at = std::move((*at)->next_departed);
    } else {
      at = &(*at)->next_departed;
    }
}

}  // namespace hotslot::level_zero
