// Level Zero's devices: what they can do, their memory, the kernels on them.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "device/level_zero.hpp"
#include "kernels/images.hpp"

namespace hotslot::level_zero {
namespace {

constexpr size_t page = 4096;
// Staging memory kept for the next read or write; more is given back to the driver.
constexpr size_t most_staging_bytes = 64u << 20;
// Memory that runs out waits this long for what was let go but is still in use.
constexpr uint64_t reclaim_ns = 2'000'000'000;
constexpr uint32_t group_size = 256;
// Buffers may be larger than 4 GiB; division and roots round as the host's do.
constexpr const char* build_flags = "-ze-opt-greater-than-4GB-buffer-required -cl-fp32-correctly-rounded-divide-sqrt";

bool out_of_memory(Status status) {
  return status == status::out_of_device_memory || status == status::out_of_host_memory || status == status::unsupported_size;
}

[[noreturn]] void no_memory(size_t bytes, uint64_t free) {
  throw Error("ERR_HOTSLOT_MEMORY", std::string(family_name) + ": " + std::to_string(bytes) + " bytes were asked for, " + std::to_string(free) +
                                        " are free: use fewer or smaller slots");
}

void free_memory(Driver& driver, void* at) { driver.take_back("zeMemFree", ze().zeMemFree, driver.context(), at); }

class DeviceMemory final : public Memory {
 public:
  DeviceMemory(XpuDevice& device, uint8_t* at, size_t bytes) : Memory(device, at, bytes, false) { device.used += bytes; }
  ~DeviceMemory() override {
    auto& xpu = static_cast<XpuDevice&>(device);
    xpu.driver.retired.add([&xpu, at = address, bytes = bytes] {
      free_memory(xpu.driver, at);
      xpu.used -= bytes;
    });
  }
};

size_t room_for(size_t bytes) {
  size_t room = page;
  while (room < bytes) room *= 2;
  return room;
}

class Staging final : public Memory {
 public:
  Staging(XpuDevice& device, uint8_t* at, size_t bytes) : Memory(device, at, bytes, true, HostKind::registered) {}
  ~Staging() override {
    Driver& driver = static_cast<XpuDevice&>(device).driver;
    driver.retired.add([&driver, at = address, room = room_for(bytes)] { driver.give_staging(at, room); });
  }
};

// Lent by the host, as it is or imported. What still runs keeps an import in force.
class LentMemory final : public Memory {
 public:
  LentMemory(XpuDevice& device, uint8_t* at, size_t bytes, HostKind kind) : Memory(device, at, bytes, true, kind) {}
  bool release() override {
    std::lock_guard guard(lock_);
    Driver& driver = static_cast<XpuDevice&>(device).driver;
    if (released_) return true;
    if (!Retired::may_sweep()) return false;
    if (!marked_) marks_ = driver.marks();
    marked_ = true;
    if (!passed(marks_)) return false;
    released_ = true;
    if (host_kind == HostKind::imported) driver.release_import(address);
    return true;
  }

 private:
  std::mutex lock_;
  bool marked_ = false, released_ = false;
  Marks marks_;
};

}  // namespace

// ---- host memory -----------------------------------------------------------------------------------------------------

// Whole pages the standard's way; else Intel's, which takes any range; else, where the driver could only take pages, as it is.
HostKind Driver::import(uint8_t* address, size_t bytes) {
  std::lock_guard guard(memory_lock_);
  auto after = imports_.upper_bound(address);
  if (after != imports_.begin())
    if (auto known = std::prev(after); address + bytes <= known->first + known->second.bytes) {
      known->second.users++;
      return HostKind::imported;
    }
  const bool pages = imports_pages && uintptr_t(address) % page == 0 && bytes % page == 0;
  if (!pages && !imports_any) return HostKind::pageable;
  if (pages) {
    MemmapDesc map{Type::external_memmap_sysmem_desc, nullptr, address, bytes};
    HostMemDesc desc{Type::host_mem_alloc_desc, &map, 0};
    void* at = nullptr;
    HOTSLOT_ZE(zeMemAllocHost, context(), &desc, bytes, page, &at);
    if (at != address) {
      free_memory(*this, at);
      fail("zeMemAllocHost", status::unsupported_feature, "the driver mapped the memory elsewhere");
    }
  } else {
    HOTSLOT_ZE_NEWER(*this, zexDriverImportExternalPointer, own, address, bytes);
  }
  imports_[address] = {bytes, 1, pages};
  return HostKind::imported;
}

bool Driver::imported_pages(const uint8_t* address) {
  std::lock_guard guard(memory_lock_);
  auto after = imports_.upper_bound(const_cast<uint8_t*>(address));
  return after != imports_.begin() && std::prev(after)->second.pages;
}

void Driver::release_import(uint8_t* address) {
  std::lock_guard guard(memory_lock_);
  auto after = imports_.upper_bound(address);
  if (after == imports_.begin()) return;
  const auto known = std::prev(after);
  if (--known->second.users > 0) return;
  if (known->second.pages) free_memory(*this, known->first);
  else take_back("zexDriverReleaseImportedPointer", newer.zexDriverReleaseImportedPointer, own, static_cast<void*>(known->first));
  imports_.erase(known);
}

uint8_t* Driver::take_staging(size_t room) {
  {
    std::lock_guard guard(memory_lock_);
    if (auto found = staging_.find(room); found != staging_.end()) {
      uint8_t* const at = found->second;
      staging_.erase(found);
      staging_bytes_ -= room;
      return at;
    }
  }
  HostMemDesc desc{Type::host_mem_alloc_desc, nullptr, 0};
  void* at = nullptr;
  const Status got = ze().zeMemAllocHost(context(), &desc, room, page, &at);
  if (out_of_memory(got))
    throw Error("ERR_HOTSLOT_MEMORY", std::string(family_name) + ": the driver has no " + std::to_string(room) +
                                          " bytes of host memory left: read and write less at a time");
  must("zeMemAllocHost", got);
  return static_cast<uint8_t*>(at);
}

void Driver::give_staging(uint8_t* at, size_t room) {
  {
    std::lock_guard guard(memory_lock_);
    if (staging_bytes_ + room <= most_staging_bytes) {
      staging_.emplace(room, at);
      staging_bytes_ += room;
      return;
    }
  }
  free_memory(*this, at);
}

// ---- what a device can do --------------------------------------------------------------------------------------------

XpuDevice::XpuDevice(Driver& driver, DeviceHandle handle, int index) : GpuDevice(family_name, index, driver.retired), driver(driver), handle(handle) {
  GraphProperties graph{};
  graph.type = Type::record_replay_graph_properties;
  properties.type = Type::device_properties_1_2;
  if (driver.graphs) properties.next = &graph;
  HOTSLOT_ZE(zeDeviceGetProperties, handle, &properties);
  properties.next = nullptr;
  ComputeProperties limits{};
  limits.type = Type::device_compute_properties;
  HOTSLOT_ZE(zeDeviceGetComputeProperties, handle, &limits);
  largest_group_ = std::max(1u, std::min(limits.group_size, limits.group_size_x));
  // Eight items per lane of the device are enough to keep it busy; kernels stride over what is more.
  const uint64_t units = uint64_t(properties.slices) * properties.subslices_per_slice * properties.eus_per_subslice;
  const uint64_t lanes = units * properties.threads_per_eu * properties.simd_width;
  most_groups_ = uint32_t(std::min<uint64_t>(std::max<uint64_t>(lanes * 8 / group_size, 64), std::min(limits.groups_x, 1024u)));
  uint32_t count = 0;
  HOTSLOT_ZE(zeDeviceGetMemoryProperties, handle, &count, nullptr);
  std::vector<MemoryProperties> memories(count);
  for (auto& memory : memories) memory.type = Type::device_memory_properties;
  if (count > 0) HOTSLOT_ZE(zeDeviceGetMemoryProperties, handle, &count, memories.data());
  for (auto& memory : memories) total_ += memory.total;
  MemoryAccessProperties access{};
  access.type = Type::device_memory_access_properties;
  HOTSLOT_ZE(zeDeviceGetMemoryAccessProperties, handle, &access);
  reaches_pageable = access.shared_system & access_read_write;
  find_groups();
  probe();
  graphs = in_order && driver.graphs && (graph.flags & graph_immutable);
}

void XpuDevice::find_groups() {
  uint32_t count = 0;
  HOTSLOT_ZE(zeDeviceGetCommandQueueGroupProperties, handle, &count, nullptr);
  std::vector<GroupProperties> groups(count);
  for (auto& group : groups) group.type = Type::command_queue_group_properties;
  if (count > 0) HOTSLOT_ZE(zeDeviceGetCommandQueueGroupProperties, handle, &count, groups.data());
  bool computes = false;
  for (uint32_t i = 0; i < count; ++i) {
    const Group group{i, std::max(groups[i].queues, 1u), groups[i].most_fill_pattern};
    if (groups[i].flags & group_compute && !computes) compute = group, computes = true;
    else if ((groups[i].flags & (group_compute | group_copy)) == group_copy && !has_copies) copies = group, has_copies = true;
  }
  if (!computes) fail("zeDeviceGetCommandQueueGroupProperties", status::unsupported_feature, "the device has no queue that computes");
}

// What the interface's version promises is tried: layers between us and the driver may know less than it does.
void XpuDevice::probe() {
  const auto tried = [&](auto&& attempt) {
    try {
      attempt();
      return true;
    } catch (const Error& error) {
      // The loader's own answer for a function that the driver lacks.
      if (!unsupported(Status(error.status)) && Status(error.status) != status::uninitialized) throw;
      return false;
    }
  };
  constexpr uint32_t spec_1_7 = 1 << 16 | 7;
  in_order = driver.version >= spec_1_7 && tried([&] {
               const ListHandle list = immediate_list(compute, 0, true);
               driver.take_back("zeCommandListDestroy", ze().zeCommandListDestroy, list);
             });
  counters = in_order && (driver.newer.zexCounterBasedEventCreate2 || driver.newer.zeEventCounterBasedCreate) &&
             tried([&] { driver.points.give(driver.points.slot(this, false, true), Points::clean); });
  timing = properties.kernel_timestamp_bits > 0 && properties.timer_resolution > 0 &&
           // Not counting: asking a timed one waits in the driver, and done does not mean visible to the host.
           tried([&] { driver.points.give(driver.points.slot(this, true, false), Points::clean); });
}

DeviceTraits XpuDevice::traits() {
  char text[64];
  std::snprintf(text, sizeof text, ", Level Zero %u.%u, driver 0x%x", driver.version >> 16, driver.version & 0xffff, driver.build);
  DeviceTraits traits;
  traits.description = std::string(properties.name) + text;
  traits.timing_events = timing;
  traits.submitter = "level_zero";
  traits.matrix_products = "Hotslot's own kernel";
  return traits;
}

// What others use of the device is not known without the system's management interface.
MemoryInfo XpuDevice::memory_info() {
  driver.tidy();
  const uint64_t taken = used.load();
  return {total_, total_ > taken ? total_ - taken : 0};
}

ListHandle XpuDevice::immediate_list(const Group& group, int priority, bool ordered) {
  QueueDesc desc{};
  desc.type = Type::command_queue_desc;
  desc.ordinal = group.ordinal;
  desc.index = next_index(group);
  desc.flags = (desc.index > 0 ? uint32_t(queue_explicit_only) : 0) | (ordered ? uint32_t(queue_in_order) : 0);
  desc.mode = QueueMode::asynchronous;
  desc.priority = priority < 0 ? Priority::high : priority > 0 ? Priority::low : Priority::normal;
  ListHandle list = nullptr;
  HOTSLOT_ZE(zeCommandListCreateImmediate, driver.context(), handle, &desc, &list);
  return list;
}

// ---- memory ----------------------------------------------------------------------------------------------------------

Ref<Memory> XpuDevice::allocate(size_t bytes) {
  forbid_in_capture(family, "memAlloc");
  driver.retired.sweep();
  if (bytes > total_) no_memory(bytes, memory_info().free);
  const size_t room = std::max<size_t>(bytes, 1);
  RelaxedLimitsDesc relaxed{Type::relaxed_allocation_limits_desc, nullptr, relaxed_max_size};
  DeviceMemDesc desc{Type::device_mem_alloc_desc, room > properties.most_allocation ? &relaxed : nullptr, 0, 0};
  void* at = nullptr;
  Status got = ze().zeMemAllocDevice(driver.context(), &desc, room, page, handle, &at);
  if (out_of_memory(got)) {
    driver.retired.drain(reclaim_ns);
    got = ze().zeMemAllocDevice(driver.context(), &desc, room, page, handle, &at);
  }
  if (out_of_memory(got)) no_memory(bytes, memory_info().free);
  must("zeMemAllocDevice", got);
  auto memory = std::make_shared<DeviceMemory>(*this, static_cast<uint8_t*>(at), bytes);
  zero(at, room);
  return memory;
}

// Zeroed before anybody can use it, on whatever stream.
void XpuDevice::zero(void* address, size_t bytes) {
  Work work;
  work.type = Work::fill;
  // Only its range matters: this memory belongs to whoever allocates.
  work.to = Span{std::make_shared<Memory>(*this, static_cast<uint8_t*>(address), bytes, false), 0, bytes};
  std::lock_guard guard(zero_lock_);
  try {
    if (!own_) own_ = Queue::open(*this, 0);
    own_->issue(work, "zeCommandListAppendMemoryFill");
    while (!own_->idle()) {
      const timespec nap{0, 10'000};
      nanosleep(&nap, nullptr);
    }
  } catch (const Error&) {
    if (own_ && own_->failed()) own_.reset();
    throw;
  }
}

Ref<Memory> XpuDevice::allocate_host(size_t bytes) {
  forbid_in_capture(family, "memAllocHost");
  driver.retired.sweep();
  return staging(bytes);
}

Ref<Memory> XpuDevice::staging(size_t bytes) { return std::make_shared<Staging>(*this, driver.take_staging(room_for(bytes)), bytes); }

Ref<Memory> XpuDevice::register_host(void* address, size_t bytes, bool pin) {
  forbid_in_capture(family, "memHostRegister");
  driver.retired.sweep();
  auto* at = static_cast<uint8_t*>(address);
  const HostKind kind = pin && bytes > 0 ? driver.import(at, bytes) : HostKind::pageable;
  return std::make_shared<LentMemory>(*this, at, bytes, kind);
}

// What Intel's call imported is known to copies alone: a kernel would get an address that means nothing to the device.
bool XpuDevice::kernels_reach(const Memory& memory) const {
  if (!memory.host || reaches_pageable || memory.host_kind == HostKind::registered) return true;
  return memory.host_kind == HostKind::imported && driver.imported_pages(memory.address);
}

void XpuDevice::reach(const Memory& memory, const Kernel* kernel) {
  if (&memory.device == this || memory.host) {
    if (kernel && !kernels_reach(memory))
      throw Error("ERR_HOTSLOT_ARGUMENT", "kernel '" + std::string(kernel->name) + "' cannot reach host memory that xpu:" + std::to_string(index) +
                                              " has not imported as whole pages: copy it to the device first");
    return;
  }
  auto& peer = static_cast<XpuDevice&>(memory.device);
  const std::string pair = "xpu:" + std::to_string(index) + " does not reach the memory of xpu:" + std::to_string(peer.index);
  if (&peer.driver != &driver) throw Error("ERR_HOTSLOT_ARGUMENT", pair + ": the two belong to different drivers; copy through host memory");
  std::lock_guard guard(load_lock_);
  auto known = peers_.find(&peer);
  if (known == peers_.end()) {
    uint8_t can = 0;
    HOTSLOT_ZE(zeDeviceCanAccessPeer, handle, peer.handle, &can);
    known = peers_.emplace(&peer, can != 0).first;
  }
  if (!known->second) fail("zeDeviceCanAccessPeer", status::unsupported_feature, pair + ": copy through host memory");
}

// ---- kernels ---------------------------------------------------------------------------------------------------------

// Under load_lock_.
void XpuDevice::load_module() {
  if (module_) return;
  const KernelImage* image = kernel_image("spirv");
  if (!image) fail("zeModuleCreate", status::invalid_native_binary, "this build of Hotslot has no SPIR-V kernels");
  ModuleDesc desc{Type::module_desc, nullptr, ModuleFormat::spirv, image->bytes, static_cast<const uint8_t*>(image->data), build_flags, nullptr};
  std::string said;
  Status got = status::success;
  for (const char* flags : {build_flags, ""}) {  // a driver that knows a flag not builds without
    LogHandle log = nullptr;
    desc.build_flags = flags;
    got = ze().zeModuleCreate(driver.context(), handle, &desc, &module_, &log);
    size_t bytes = 0;
    if (got != status::success && log && ze().zeModuleBuildLogGetString(log, &bytes, nullptr) == status::success && bytes > 0) {
      said.resize(bytes);
      if (ze().zeModuleBuildLogGetString(log, &bytes, said.data()) != status::success) said.clear();
      said.resize(std::strlen(said.c_str()));
    }
    if (log) driver.take_back("zeModuleBuildLogDestroy", ze().zeModuleBuildLogDestroy, log);
    if (got != status::module_build_failure) break;
  }
  if (got != status::success) module_ = nullptr, fail("zeModuleCreate", got, said);
}

XpuDevice::Loaded& XpuDevice::kernel_named(const std::string& name) {
  std::lock_guard guard(load_lock_);
  auto& known = kernels_[name];
  if (known) return *known;
  load_module();
  auto loaded = std::make_unique<Loaded>();
  const KernelDesc desc{Type::kernel_desc, nullptr, 0, name.c_str()};
  const Status got = ze().zeKernelCreate(module_, &desc, &loaded->handle);
  if (got != status::success) fail("zeKernelCreate", got, "kernel '" + name + "'");
  // A kernel that needs much of the device takes smaller groups only.
  Status set = status::invalid_group_size_dimension;
  for (uint32_t size = std::min(group_size, largest_group_); size > 0 && set == status::invalid_group_size_dimension; size /= 2) {
    loaded->group = size;
    set = ze().zeKernelSetGroupSize(loaded->handle, size, 1, 1);
  }
  if (set != status::success) {
    driver.take_back("zeKernelDestroy", ze().zeKernelDestroy, loaded->handle);
    fail("zeKernelSetGroupSize", set, "kernel '" + name + "'");
  }
  known = std::move(loaded);
  return *known;
}

// In the kernel's order: pointers, whole numbers, reals.
void XpuDevice::launch(ListHandle list, const std::string& name, const Arguments& arguments, EventHandle signal, uint32_t count, EventHandle* waits) {
  Loaded& kernel = kernel_named(name);
  std::lock_guard guard(kernel.lock);
  uint32_t at = 0;
  for (auto& pointer : arguments.pointers) HOTSLOT_ZE(zeKernelSetArgumentValue, kernel.handle, at++, sizeof pointer, &pointer);
  for (auto& whole : arguments.wholes) HOTSLOT_ZE(zeKernelSetArgumentValue, kernel.handle, at++, sizeof whole, &whole);
  for (auto& real : arguments.reals) HOTSLOT_ZE(zeKernelSetArgumentValue, kernel.handle, at++, sizeof real, &real);
  const uint64_t groups = (std::max<uint64_t>(arguments.threads, 1) + kernel.group - 1) / kernel.group;
  const GroupCount size{uint32_t(std::min<uint64_t>(groups, most_groups_)), 1, 1};
  HOTSLOT_ZE(zeCommandListAppendLaunchKernel, list, kernel.handle, &size, signal, count, waits);
}

void XpuDevice::append(ListHandle list, const Work& work, EventHandle signal, uint32_t count, EventHandle* waits) {
  const bool nothing = (work.type == Work::copy || work.type == Work::fill) && work.to.bytes == 0;
  if (nothing || work.type == Work::record) return HOTSLOT_ZE(zeCommandListAppendBarrier, list, signal, count, waits);
  if (work.type == Work::copy)
    return HOTSLOT_ZE(zeCommandListAppendMemoryCopy, list, work.to.address(), work.from.address(), work.to.bytes, signal, count, waits);
  Arguments arguments;
  if (work.type == Work::fill) {
    // Every group that is given a fill takes its pattern, unless no group of the device does.
    if (work.pattern_bytes <= std::max(compute.most_fill_pattern, size_t(4)))
      return HOTSLOT_ZE(zeCommandListAppendMemoryFill, list, work.to.address(), &work.pattern, size_t(work.pattern_bytes), work.to.bytes, signal,
                        count, waits);
    arguments.threads = work.to.bytes / work.pattern_bytes;
    arguments.pointers = {work.to.address()};
    arguments.wholes = {int64_t(arguments.threads), int64_t(work.pattern)};
    return launch(list, "fill", arguments, signal, count, waits);
  }
  const Kernel& kernel = *work.launch.kernel;
  const KernelArgs& args = work.launch.args;
  for (auto& span : work.launch.spans) arguments.pointers.push_back(span.address());
  arguments.wholes.assign(args.whole, args.whole + kernel.wholes);
  arguments.reals.assign(args.real, args.real + kernel.reals);
  // As many threads as the output has elements.
  uint64_t need[max_pointers]{};
  kernel.need(args, need);
  if (kernel.pointers > 0) arguments.threads = need[0] / 4;
  launch(list, kernel.name, arguments, signal, count, waits);
}

}  // namespace hotslot::level_zero
