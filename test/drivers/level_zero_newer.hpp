// Features of Level Zero that are newer than Debian's headers (spec 1.4) and that this driver has.
// The public interfaces are spec 1.7 (in-order lists), 1.15 (counter-based events), 1.17 (graphs),
// and Intel's zex names. Numbers and layouts are theirs.
#pragma once
#include <level_zero/ze_api.h>

namespace software::newer {

// In-order is one bit in the flags of queues and immediate lists, and another bit in the flags of
// regular lists.
constexpr uint32_t queue_in_order = 1u << 1, queue_copy_offload_hint = 1u << 2,
                   list_in_order = 1u << 3;
constexpr uint32_t pool_mapped_timestamp = 1u << 3;

constexpr uint32_t stype_memmap_sysmem = 0x00020037, stype_graph_properties = 0x00020047,
                   stype_zex_counter_event = 0x0003001c;
constexpr auto result_query_true = ze_result_t(0x78000022),
               result_query_false = ze_result_t(0x78000023),
               result_invalid_graph = ze_result_t(0x78000024),
               result_capture_unsupported = ze_result_t(0x78000025);

// Extends the descriptor of zeMemAllocHost, which then maps existing memory.
struct MemmapSysmem {
  uint32_t stype;
  const void* next;
  void* memory;
  uint64_t size;
};

struct GraphProperties {
  uint32_t stype;
  void* next;
  uint32_t flags;  // 1 immutable, 2 mutable
};

// The layout of both zex_counter_based_event_desc_t and ze_event_counter_based_desc_t.
struct CounterEvent {
  uint32_t stype;
  const void* next;
  uint32_t flags;
  uint32_t signal, wait;
};
constexpr uint32_t counter_immediate = 1, counter_regular = 2, counter_host_visible = 4,
                   counter_ipc = 8, counter_timestamp = 16, counter_mapped_timestamp = 32;

using Graph = struct GraphOf*;
using ExecutableGraph = struct ExecutableGraphOf*;

// The first members of every extensible structure.
struct Head {
  uint32_t stype;
  const Head* next;
};

}  // namespace software::newer
