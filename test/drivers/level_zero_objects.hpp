// The objects that handles of the Level Zero software driver refer to, and how a call is refused.
#pragma once
#include <time.h>

#include <memory>

#include "kernels/kernel.hpp"
#include "level_zero_newer.hpp"
#include "level_zero_spirv.hpp"
#include "level_zero_testing.hpp"
#include "order_parts.hpp"

namespace software {

template <class T>
using Ref = std::shared_ptr<T>;

// Thrown to refuse a call. `what` counts as a violation. It is empty if the caller made no mistake.
struct Refusal {
  ze_result_t status;
  std::string what;
};
[[noreturn]] inline void refuse(ze_result_t status, const std::string& what = "") {
  throw Refusal{status, what};
}
inline void require(bool holds, ze_result_t status, const char* what) {
  if (!holds) refuse(status, what);
}

inline uint64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return uint64_t(t.tv_sec) * 1000000000u + uint64_t(t.tv_nsec);
}

// 12.5 MHz, so that the number of nanoseconds per cycle and of cycles per second are both whole.
constexpr uint64_t cycle_ns = 80, cycles_per_second = 12'500'000;

enum class Sort : uint8_t {
  driver = 1,
  device,
  context,
  queue,
  fence,
  list,
  pool,
  event,
  module,
  build_log,
  kernel,
  graph,
  executable
};
constexpr const char* sort_names[] = {"",           "drivers", "devices", "contexts",   "queues",
                                      "fences",     "lists",   "pools",   "events",     "modules",
                                      "build_logs", "kernels", "graphs",  "executables"};

struct Context;
struct Object {
  explicit Object(Sort sort) : sort(sort) {}
  virtual ~Object() = default;
  const Sort sort;
  uintptr_t handle = 0;
  Ref<Context> context;
  int in_use = 0;                 // number of unfinished operations that refer to it
  bool live = true;               // not destroyed
  std::atomic<bool> user{false};  // whether a thread is in a call that only one thread may make
};

struct Context : Object {
  Context() : Object(Sort::context) {}
};

struct Driver : Object {
  Driver() : Object(Sort::driver) {}
};

struct Device : Object {
  explicit Device(uint32_t index) : Object(Sort::device), index(index) {}
  const uint32_t index;
  uint64_t used = 0;
};

enum class Residence : uint8_t { device, host, shared, imported };

// A block of memory. For device memory the program gets an address without access, so a host that
// touches it crashes. The bytes are at `bytes_at`.
struct Allocation {
  Residence residence;
  uintptr_t base;
  size_t bytes;
  uint8_t* bytes_at;
  Ref<Device> device;
  Ref<Context> context;
  uint64_t id;
  size_t mapped = 0;
  bool released_by_free = true;  // false if Intel's own call releases it
  int in_use = 0;
  bool live = true;
};

struct Stamps {
  uint64_t begin = 0, end = 0;
};

// One signal of a counter-based event. A waiter refers to the point, so the event may be signaled
// again or destroyed meanwhile.
struct Point {
  bool done = false, failed = false;
  Stamps stamps;
  Clock clock;  // for the detector, like all clocks: what it comes after
};

struct Recording;
struct Pool : Object {
  Pool(uint32_t flags, uint32_t count) : Object(Sort::pool), flags(flags), taken(count) {}
  const uint32_t flags;
  std::vector<bool> taken;
};

struct Event : Object {
  Event() : Object(Sort::event) {}
  Ref<Pool> pool;  // null if counter-based
  uint32_t index = 0, signal_scope = 0, counter_flags = 0;
  bool signalled = false, failed = false;
  Stamps stamps;
  Clock clock;
  Ref<Point> point;  // counter-based: the latest signal, or null, which counts as done
  // If the last signal was in a recording: the recording, and the nodes that the signal comes
  // after.
  std::weak_ptr<Recording> recording;
  bool recorded = false;
  std::vector<uint32_t> recorded_after;

  bool host_visible() const {
    return pool ? pool->flags & ZE_EVENT_POOL_FLAG_HOST_VISIBLE
                : counter_flags & newer::counter_host_visible;
  }
  bool timed() const {
    return pool ? pool->flags & (ZE_EVENT_POOL_FLAG_KERNEL_TIMESTAMP | newer::pool_mapped_timestamp)
                : counter_flags & (newer::counter_timestamp | newer::counter_mapped_timestamp);
  }
};

struct Module : Object {
  explicit Module(Spirv&& spirv) : Object(Sort::module), spirv(std::move(spirv)) {}
  const Spirv spirv;
  Ref<Device> device;
};

struct BuildLog : Object {
  explicit BuildLog(std::string text) : Object(Sort::build_log), text(std::move(text)) {}
  const std::string text;
};

struct Kernel : Object {
  Kernel() : Object(Sort::kernel) {}
  Ref<Module> module;
  const hotslot::Kernel* form = nullptr;
  std::string name;
  std::vector<Parameter> parameters;
  std::vector<uint64_t> values;
  std::vector<bool> set;
  uint32_t group = 0;
};

}  // namespace software
