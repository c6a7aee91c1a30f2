// Groups of cuda_check: the driver's options, and threads that make all calls at the same time.
#pragma once
#include "cuda_check_setup.hpp"

namespace {

// Runs with hang=cuMemAllocManaged.
void hangs() {
  enter();
  static std::atomic<bool> returned{false};
  std::thread([] {
    DevicePtr at = 0;
    OK(cu.context_set_current(context));
    cu.mem_alloc_managed(&at, 64, mem_attach_global);
    returned = true;
  }).detach();
  while (calls("cuMemAllocManaged") != 1) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  IS(false, returned.load());
  memory(64);  // other calls still return
  IS(1, live("allocations"));
}

void two_devices() {
  enter();
  int count = 0, can = 0;
  OK(cu.device_get_count(&count));
  IS(2, count);
  Context second = nullptr;
  OK(cu.primary_context_retain(&second, 1));
  const Kernels kernels;
  const Function add = kernels.get("axpby");
  const StreamHandle here = stream();
  const EventHandle mark = event();
  const DevicePtr a = memory(64);
  OK(cu.context_set_current(second));
  const StreamHandle there = stream();
  const DevicePtr b = memory(64);
  // A launch and a record need a stream of their own device. Waits, queries and copies between two
  // devices do not.
  IS(status::invalid_handle, axpby(add, there, b, b, 16));
  IS(status::invalid_handle, axpby(add, here, a, a, 16));
  IS(status::invalid_handle, cu.event_record(mark, there));
  OK(cu.event_record(mark, here));
  OK(cu.stream_wait_event(there, mark, 0));
  OK(settled([&] { return cu.event_query(mark); }));
  IS(status::invalid_handle, cu.memset_d8_async(a, 1, 64, there));
  IS(status::invalid_handle, cu.memcpy_dtod_async(b, a, 64, there));
  OK(cu.memset_d32_async(b, 0x40000000, 16, there));
  OK(cu.memset_d32_async(a, 0x3f800000, 16, here));
  OK(cu.stream_synchronize(here));
  const Kernels theirs;
  const Function add_there = theirs.get("axpby");
  OK(cu.device_can_access_peer(&can, 1, 0));
  IS(1, can);
  const StreamHandle early = stream();
  OK(axpby(add_there, early, b, a, 16));
  IS(status::illegal_address, settled([&] { return cu.stream_query(early); }));
  OK(cu.context_enable_peer_access(context, 0));
  IS(status::peer_access_already_enabled, cu.context_enable_peer_access(context, 0));
  IS(217, cu.context_enable_peer_access(second, 0));
  OK(axpby(add_there, there, b, a, 16));
  float got[16];
  OK(cu.memcpy_peer_async(a, context, b, second, 64, there));
  OK(cu.memcpy_dtoh_async(got, b, 64, there));
  IS(3, got[15]);
  IS(status::invalid_value, cu.memcpy_peer_async(a, second, b, context, 64, there));
  OK(cu.context_set_current(context));
  OK(cu.memcpy_dtoh_async(got, a, 64, here));
  IS(3, got[15]);
  // All devices may use managed memory, and it moves to the device that prefetches it.
  DevicePtr shared = 0;
  OK(cu.mem_alloc_managed(&shared, 64, mem_attach_global));
  OK(cu.memset_d32_async(shared, 0x40000000, 16, there));
  OK(cu.mem_prefetch(shared, 64, {location_device, 1}, 0, here));
  OK(cu.stream_synchronize(here));
  IS(1, attribute(range_last_prefetch_location, shared, 64));
  OK(cu.context_set_current(second));
  OK(axpby(add_there, there, b, shared, 16));
  OK(cu.memcpy_dtod_async(shared, b, 64, there));
  OK(cu.stream_synchronize(there));
  IS(5, reinterpret_cast<float*>(shared)[15]);
  OK(cu.context_set_current(context));
  OK(cu.mem_free(shared));
  IS(2, live("contexts_retained"));
  IS(0, violations());
}

// Runs with memory=65536, register=refuse, ptx=6.3.
void limits() {
  enter();
  Module module = nullptr;
  OK(cu.module_load_data(&module, ptx));
  IS(status::unsupported_ptx_version,
     cu.module_load_data(&module, ".version 6.4\n.target sm_60\n"));
  size_t free = 0, total = 0;
  DevicePtr at = 0;
  static char block[64];
  OK(cu.device_total_mem(&total, 0));
  IS(65536, total);
  const DevicePtr first = memory(40000);
  OK(cu.mem_get_info(&free, &total));
  IS(25536, free), IS(65536, total);
  IS(status::out_of_memory, cu.mem_alloc(&at, 30000));
  IS(0, at);
  IS(status::out_of_memory, cu.mem_alloc_managed(&at, 30000, mem_attach_global));
  OK(cu.mem_free(first));
  OK(cu.mem_alloc_managed(&at, 40000, mem_attach_global));
  IS(40000, live("allocation_bytes"));
  OK(cu.mem_free(at));
  OK(cu.mem_alloc(&at, 65536));
  IS(65536, live("allocation_bytes"));
  IS(status::not_supported, cu.mem_host_register(block, 64, 3));
  int supported = 1;
  OK(cu.device_get_attribute(&supported, attribute_host_register_supported, 0));
  IS(0, supported);
}

void no_device() { IS(status::no_device, init(0)); }

// Runs with the unknown option stickiness=context.
void misspelt() {
  IS(status::unknown, init(0));
  IS(1, violations());
  IS(0, strcmp(complaints_text(), "nobody knows the option stickiness=context\n"));
}

// Runs with HOTSLOT_SOFTWARE_FAIL=cuMemAlloc:2:2,cuStreamQuery:1:719:forever.
void injection() {
  enter();
  DevicePtr at = 0;
  const StreamHandle s = stream();
  OK(cu.mem_alloc(&at, 16));
  IS(1, live("allocations"));
  DevicePtr none = 0;
  IS(2, cu.mem_alloc(&none, 16));
  IS(0, none), IS(1, live("allocations"));
  OK(cu.mem_alloc(&at, 16));
  IS(719, cu.stream_query(s));
  IS(719, cu.stream_query(s));
  fail_next("cuEventCreate");
  OK(cu.stream_query(s));
  EventHandle made = nullptr;
  IS(999, cu.event_create(&made, 0));
  IS(0, live("events"));
  OK(cu.event_create(&made, 0));
  fail_next("cuEventQuery:2:0x2bc");
  OK(cu.event_query(made));
  IS(700, cu.event_query(made));
  fail_next(nullptr);
  OK(cu.event_query(made));
  IS(3, calls("cuMemAlloc")), IS(3, calls("cuStreamQuery")), IS(3, calls("cuEventQuery")),
      IS(-1, calls("cuMemFree"));
}

// Runs with HOTSLOT_SOFTWARE_STRICT=abort.
void strict() {
  enter();
  const DevicePtr at = memory(64);
  const StreamHandle s = stream();
  Latch latch(s);
  OK(cu.memset_d8_async(at, 1, 64, s));
  OK(cu.mem_free(at));
  wrong("it went on");
}

// Four threads make many calls at the same time, for the sanitizers.
void threads() {
  enter();
  const Kernels kernels;
  const Function add = kernels.get("axpby");
  const EventHandle shared = event();
  std::vector<std::thread> all;
  for (int id = 0; id < 4; ++id)
    all.emplace_back([&, id] {
      OK(cu.context_set_current(context));
      OK(exchange(id % 2 ? capture_thread_local : capture_relaxed));
      for (int round = 0; round < 40; ++round) {
        Parts p;
        const DevicePtr y = memory(64);
        OK(cu.memset_d8_async(y, 0, 64, p.origin));
        OK(cu.stream_synchronize(p.origin));
        OK(p.begin());
        OK(axpby(add, p.origin, y, y, 16));
        OK(cu.event_record(p.fork, p.origin));
        OK(cu.stream_wait_event(p.side, p.fork, 0));
        OK(axpby(add, p.side, y, y, 16));
        OK(cu.event_record(p.join, p.side));
        OK(cu.stream_wait_event(p.origin, p.join, 0));
        OK(p.end());
        GraphExecHandle exec = nullptr;
        OK(cu.graph_instantiate(&exec, p.graph, 0));
        OK(cu.graph_destroy(p.graph));
        for (int i = 0; i < 3; ++i) OK(cu.graph_launch(exec, i % 2 ? p.side : p.origin));
        OK(cu.event_record(shared, p.side));
        OK(cu.stream_wait_event(p.origin, shared, 0));
        float got[16];
        OK(cu.memcpy_dtoh_async(got, y, 64, p.origin));
        IS(0, got[7]);
        OK(settled([&] { return cu.event_query(shared); }));
        OK(cu.stream_synchronize(p.side));
        OK(cu.stream_synchronize(p.origin));
        OK(cu.graph_exec_destroy(exec));
        for (const DevicePtr at : {y, p.a}) OK(cu.mem_free(at));
        for (const EventHandle e : {p.fork, p.join}) OK(cu.event_destroy(e));
        for (const StreamHandle s : {p.side, p.origin}) OK(cu.stream_destroy(s));
      }
    });
  for (auto& thread : all) thread.join();
  IS(0, violations());
  for (const char* kind : {"streams", "allocations", "allocation_bytes", "graphs", "execs"})
    IS(0, live(kind));
}

}  // namespace
