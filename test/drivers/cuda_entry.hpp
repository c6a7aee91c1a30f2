// The entry of every call: enter() counts the call, injects a failure if one is due, and returns an
// error if the driver is not initialized. It then runs the call under the driver's lock.
#pragma once
#include <unistd.h>

#include "cuda_devices.hpp"
#include "cuda_fork.hpp"
#include "cuda_graphs.hpp"

namespace hotslot::software {

inline void make_devices(const Options& options) {
  Driver& all = driver();
  for (auto& [name, value] : options.values) {
    static const char* const known[] = {
        "devices", "memory",  "sticky", "register",     "peer",         "ptx",       "cc",
        "arch",    "managed", "hang",   "free",         "load",         "alloc",     "prefetch",
        "depth",   "slow",    "fork",   "exec_timeout", "graph_events", "exclusive", "fill"};
    if (std::none_of(std::begin(known), std::end(known),
                     [name = name](const char* each) { return name == each; }))
      desk().complaints.say("nobody knows the option " + name + "=" + value),
          throw Refusal{status::unknown};
  }
  all.memory = options.number("memory", 0);
  all.card = card_of(all.version);
  if (const std::string takes = options.get("sticky", ""); !takes.empty())
    all.card.kernels_lose_contexts = takes == "context";
  all.refuse_register = options.get("register", "") == "refuse";
  all.peer = options.get("peer", "") != "none";
  all.managed = options.get("managed", "") != "none";
  all.concurrent = options.get("managed", "") != "exclusive";
  all.hang = options.get("hang", "");
  all.frees_wait = options.get("free", "waits") == "waits";
#ifdef HOTSLOT_SOFTWARE_HIP
  all.loads_wait = false;
#else
  all.loads_wait = options.get("load", "waits") == "waits";
#endif
  all.allocations_wait = options.get("alloc", "") == "waits";
  all.prefetches_wait = options.get("prefetch", "waits") == "waits";
  if (options.get("fork", "parts") == "parts") watch_forks();
  all.fills_load = options.get("fill", "") == "loads";
  all.exclusive = options.get("exclusive", "");
  all.late_graph_events = options.get("graph_events", "") == "late";
  all.depth = options.number("depth", 1000);
  all.slow = options.number("slow", 0);
  all.exec_timeout = options.get("exec_timeout", "") != "";
#ifdef HOTSLOT_SOFTWARE_HIP
  const uint64_t asked = strtoull(environment("GPU_MAX_HW_QUEUES"), nullptr, 10), otherwise = 4;
#else
  const uint64_t asked = strtoull(environment("CUDA_DEVICE_MAX_CONNECTIONS"), nullptr, 10),
                 otherwise = 8;
#endif
  all.connections = asked >= 1 && asked <= 32 ? asked : otherwise;
  for (uint64_t i = 0; i < options.number("devices", 1); ++i) {
    all.devices.push_back(std::make_unique<Device>());
    all.devices.back()->index = int(i);
    all.devices.back()->host = host::open(int(i));
  }
}

template <class F>
Status enter(Call& call, bool before_init, F&& f) {
  call.count.fetch_add(1);
  thread_state().call = &call;
  if (desk().gone.load()) return status::deinitialized;
  if (const int injected = desk().injection.status(call.name)) {
    Detector::off();
    return injected;
  }
  std::lock_guard guard(driver().lock);
  if (!before_init && !driver().initialised) return status::not_initialized;
  if (driver().hang == call.name) {
    const Unlocked others;
    for (;;) pause();
  }
  try {
    await_entry(call);
    return f();
  } catch (const Refusal& refusal) {
    return refusal.status;
  } catch (const Error& error) {
    if (error.status) return error.status;
    return strcmp(error.code, "ERR_HOTSLOT_MEMORY") == 0 ? status::out_of_memory
                                                         : status::invalid_value;
  } catch (const std::bad_alloc&) {
    return status::out_of_memory;
  }
}

}  // namespace hotslot::software
