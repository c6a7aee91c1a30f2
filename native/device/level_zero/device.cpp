// Level Zero's devices and their features.
#include <algorithm>
#include <cstdio>

#include "device/level_zero/device.hpp"

namespace hotslot::level_zero {

MemoryAccessProperties access_of(DeviceHandle device) {
  MemoryAccessProperties access{};
  access.type = Type::device_memory_access_properties;
  HOTSLOT_ZE(zeDeviceGetMemoryAccessProperties, device, &access);
  return access;
}

XpuDevice::XpuDevice(Driver& driver, DeviceHandle handle, int index)
    : GpuDevice(family_name, index, driver.retired), driver(driver), handle(handle) {
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
  // The code below computes the maximum number of groups of a launch. Eight work items for each
  // SIMD lane of the device are enough to keep it busy. Each kernel strides over the remaining
  // elements.
  const uint64_t units =
      uint64_t(properties.slices) * properties.subslices_per_slice * properties.eus_per_subslice;
  const uint64_t lanes = units * properties.threads_per_eu * properties.simd_width;
  max_groups_ = uint32_t(std::min<uint64_t>(std::max<uint64_t>(lanes * 8 / group_size, 64),
                                            std::min(limits.groups_x, 1024u)));
  uint32_t count = 0;
  HOTSLOT_ZE(zeDeviceGetMemoryProperties, handle, &count, nullptr);
  std::vector<MemoryProperties> memories(count);
  for (auto& memory : memories) memory.type = Type::device_memory_properties;
  if (count > 0) HOTSLOT_ZE(zeDeviceGetMemoryProperties, handle, &count, memories.data());
  for (auto& memory : memories) total_ += memory.total;
  const MemoryAccessProperties access = access_of(handle);
  reaches_pageable = access.shared_system & access_read_write;
  shares = access.shared_one & access_read_write;
  shares_all = access.shared_all & access_read_write;
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
    const Group group{i, std::max(groups[i].queues, 1u), groups[i].max_fill_pattern};
    const uint32_t can = groups[i].flags & (group_compute | group_copy);
    if (can & group_compute && !computes) {
      compute = group;
      computes = true;
    } else if (can == group_copy && !has_copies) {
      copies = group;
      has_copies = true;
    }
  }
  if (!computes)
    fail("zeDeviceGetCommandQueueGroupProperties", status::unsupported_feature,
         "the device has no queue that computes");
}

// Tries the features that the interface's version promises. A layer between Hotslot and the driver
// may lack them.
void XpuDevice::probe() {
  const auto tried = [&](auto&& attempt) {
    try {
      attempt();
      return true;
    } catch (const Error& error) {
      // The loader returns `uninitialized` for a function that the driver lacks.
      if (!unsupported(Status(error.status)) && Status(error.status) != status::uninitialized)
        throw;
      return false;
    }
  };
  constexpr uint32_t spec_1_7 = 1 << 16 | 7;
  in_order = driver.version >= spec_1_7 && tried([&] {
               const ListHandle list = immediate_list(compute, 0, true);
               driver.take_back("zeCommandListDestroy", ze().zeCommandListDestroy, list);
             });
  counters =
      in_order &&
      (driver.newer.zexCounterBasedEventCreate2 || driver.newer.zeEventCounterBasedCreate) &&
      tried([&] { driver.points.give(driver.points.slot(this, false, true), Points::clean); });
  timing = properties.kernel_timestamp_bits > 0 && properties.timer_resolution > 0 &&
           // Timed events are not counter-based, because a query of such an event blocks in the
           // driver. Also, when the query reports the event as done, the host may not see the
           // work's writes yet.
           tried([&] { driver.points.give(driver.points.slot(this, true, false), Points::clean); });
}

DeviceTraits XpuDevice::traits() {
  char text[64];
  std::snprintf(text, sizeof text, ", Level Zero %u.%u, driver 0x%x", driver.version >> 16,
                driver.version & 0xffff, driver.build);
  DeviceTraits traits;
  traits.description = std::string(properties.name) + text;
  traits.timing_events = timing;
  if (!shares) traits.no_managed = no_managed;
  traits.moves_pages = false;
  traits.submitter = "level_zero";
  traits.matrix_products = "Hotslot's own kernel";
  return traits;
}

// Returns the total memory, and the total minus this process's memory. Other processes' memory is
// unknown, because only the system's management interface reports it.
MemoryInfo XpuDevice::memory_info() {
  driver.tidy();
  return {total_, free_bytes()};
}

uint64_t XpuDevice::free_bytes() const {
  const uint64_t taken = used.load();
  return total_ > taken ? total_ - taken : 0;
}

ListHandle XpuDevice::immediate_list(const Group& group, int priority, bool ordered) {
  QueueDesc desc{};
  desc.type = Type::command_queue_desc;
  desc.ordinal = group.ordinal;
  desc.index = next_index(group);
  desc.flags = (desc.index > 0 ? uint32_t(queue_explicit_only) : 0) |
               (ordered ? uint32_t(queue_in_order) : 0);
  desc.mode = QueueMode::asynchronous;
  desc.priority = priority < 0 ? Priority::high : priority > 0 ? Priority::low : Priority::normal;
  ListHandle list = nullptr;
  HOTSLOT_ZE(zeCommandListCreateImmediate, driver.context(), handle, &desc, &list);
  return list;
}

}  // namespace hotslot::level_zero
