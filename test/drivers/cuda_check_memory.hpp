// Groups of cuda_check: memory that is freed while it is used, and managed memory.
#pragma once
#include "cuda_check_setup.hpp"

namespace {

// Frees memory while work or graphs still refer to it. What a vendor's driver does then is
// undefined.
void let_go() {
  enter();
  Parts p;
  static char block[64];
  const auto replay = [&](auto&& work, auto&& let) {
    const long long before = violations();
    OK(p.begin());
    work();
    OK(p.end());
    GraphExecHandle exec = nullptr;
    OK(cu.graph_instantiate(&exec, p.graph, 0));
    OK(cu.graph_destroy(p.graph));
    const StreamHandle s = stream();
    OK(cu.graph_launch(exec, s));
    OK(cu.stream_synchronize(s));
    let();
    IS(before, violations());
    IS(status::illegal_address, cu.graph_launch(exec, s));
    IS(before + 1, violations());
    IS(status::illegal_address, settled([&] { return cu.stream_query(s); }));
    OK(cu.graph_exec_destroy(exec));
  };
  const DevicePtr b = memory(64);
  replay([&] { OK(cu.memset_d8_async(b, 1, 64, p.origin)); }, [&] { OK(cu.mem_free(b)); });
  OK(cu.mem_host_register(block, 64, 3));
  replay([&] { OK(cu.memcpy_htod_async(p.a, block, 64, p.origin)); },
         [&] { OK(cu.mem_host_unregister(block)); });
  const Kernels kernels;
  const Function add = kernels.get("axpby");
  replay([&] { OK(axpby(add, p.origin, p.a, p.a, 4)); },
         [&] { OK(cu.module_unload(kernels.module)); });

  const auto queued = [&](auto&& work, auto&& let) {
    const long long before = violations();
    const StreamHandle s = stream();
    Latch latch(s);
    work(s);
    waits_for(latch, let, [&] { return violations() == before + 1; });
    OK(cu.stream_synchronize(s));
  };
  const DevicePtr c = memory(64);
  queued([&](StreamHandle s) { OK(cu.memset_d8_async(c, 1, 64, s)); }, [&] { OK(cu.mem_free(c)); });
  OK(cu.mem_host_register(block, 64, 3));
  queued([&](StreamHandle s) { OK(cu.memcpy_htod_async(p.a, block, 64, s)); },
         [&] { OK(cu.mem_host_unregister(block)); });
  // The memory is used by a graph that is running.
  const DevicePtr d = memory(64);
  OK(p.begin());
  OK(cu.memset_d8_async(d, 1, 64, p.origin));
  OK(p.end());
  GraphExecHandle exec = nullptr;
  OK(cu.graph_instantiate(&exec, p.graph, 0));
  queued([&](StreamHandle s) { OK(cu.graph_launch(exec, s)); }, [&] { OK(cu.mem_free(d)); });
  // Work that is known to be done no longer uses its memory.
  for (int i = 0; i < 200; ++i) {
    const long long before = violations();
    const DevicePtr e = memory(64);
    const StreamHandle s = stream();
    const EventHandle done = event();
    OK(cu.memset_d8_async(e, 1, 64, s));
    if (i % 2) OK(cu.event_record(done, s));
    OK(i % 2 ? settled([&] { return cu.event_query(done); })
             : settled([&] { return cu.stream_query(s); }));
    OK(cu.mem_free(e));
    OK(cu.stream_destroy(s));
    OK(cu.event_destroy(done));
    IS(before, violations());
  }
  IS(true, strstr(complaints_text(), "a free of memory that queued work still uses") != nullptr);
}

void managed() {
  enter();
  const StreamHandle s = stream();
  const DevicePtr plain = memory(64);
  DevicePtr at = 0;
  IS(status::invalid_value, cu.mem_alloc_managed(&at, 0, mem_attach_global));
  IS(status::invalid_value, cu.mem_alloc_managed(&at, 64, 0));
  OK(cu.mem_alloc_managed(&at, 8192, mem_attach_global));
  IS(2, live("allocations")), IS(8256, live("allocation_bytes"));
  int value = 0, by[2] = {};
  OK(cu.device_get_attribute(&value, attribute_managed_memory, 0));
  IS(1, value);
  OK(cu.device_get_attribute(&value, attribute_concurrent_managed_access, 0));
  IS(1, value);
  // Fresh memory has neither a location nor a preferred location, and no device that accesses it.
  IS(device_invalid, attribute(range_last_prefetch_location, at, 8192));
  IS(device_invalid, attribute(range_preferred_location, at, 8192));
  OK(cu.mem_range_get_attribute(by, sizeof by, range_accessed_by, at, 8192));
  IS(device_invalid, by[0]), IS(device_invalid, by[1]);
  OK(cu.mem_advise_v1(at, 8192, advise_preferred_location, 0));
  OK(cu.mem_advise_v1(at, 8192, advise_accessed_by, 0));
  IS(0, attribute(range_preferred_location, at, 8192));
  OK(cu.mem_range_get_attribute(by, sizeof by, range_accessed_by, at, 8192));
  IS(0, by[0]), IS(device_invalid, by[1]);
  OK(cu.memset_d8_async(at, 7, 8192, s));
  OK(cu.mem_prefetch_v1(at, 8192, 0, s));
  OK(cu.mem_prefetch_v1(at, 64, device_cpu, s));
  OK(cu.stream_synchronize(s));
  IS(device_cpu, attribute(range_last_prefetch_location, at, 4096));
  IS(0, attribute(range_last_prefetch_location, at + 4096, 4096));
  IS(device_invalid, attribute(range_last_prefetch_location, at, 8192));
  IS(7, reinterpret_cast<unsigned char*>(at)[8191]);
  if (cu.mem_prefetch) {
    OK(cu.mem_prefetch(at, 8192, {location_device, 0}, 0, s));
    OK(cu.mem_prefetch(at, 8192, {location_host, 9}, 0, s));
    OK(cu.stream_synchronize(s));
    IS(device_cpu, attribute(range_last_prefetch_location, at, 8192));
    OK(cu.mem_advise(at, 8192, advise_preferred_location, {location_host, 0}));
    IS(device_cpu, attribute(range_preferred_location, at, 8192));
    IS(status::invalid_device, cu.mem_prefetch(at, 64, {location_device, 1}, 0, s));
    IS(status::invalid_device, cu.mem_prefetch(at, 64, {location_device, -1}, 0, s));
    IS(status::invalid_value, cu.mem_prefetch(at, 64, {0, 0}, 0, s));
    IS(status::invalid_value, cu.mem_prefetch(at, 64, {location_device, 0}, 1, s));
    IS(status::invalid_device, cu.mem_advise(at, 64, advise_accessed_by, {location_device, 1}));
  }
  IS(status::invalid_device, cu.mem_prefetch_v1(at, 64, 1, s));
  IS(status::invalid_device, cu.mem_advise_v1(at, 64, advise_accessed_by, device_invalid));
  IS(status::invalid_value, cu.mem_prefetch_v1(plain, 64, 0, s));
  IS(status::invalid_value, cu.mem_prefetch_v1(at, 8193, 0, s));
  IS(status::invalid_value, cu.mem_prefetch_v1(at, 0, 0, s));
  IS(status::invalid_value, cu.mem_advise_v1(plain, 64, advise_preferred_location, 0));
  IS(status::invalid_value, cu.mem_advise_v1(at, 64, MemoryAdvice(7), 0));
  IS(status::invalid_value,
     cu.mem_range_get_attribute(&value, 4, range_preferred_location, plain, 64));
  IS(status::invalid_value, cu.mem_range_get_attribute(by, 8, range_preferred_location, at, 64));
  IS(status::invalid_value, cu.mem_range_get_attribute(by, 6, range_accessed_by, at, 64));
  // A prefetch cannot be captured, and breaks the capture. Allocations and advice break it too,
  // because a capture bars every call that is not enqueued.
  Parts p;
  OK(p.begin());
  IS(status::capture_unsupported, cu.mem_prefetch_v1(at, 64, 0, p.origin));
  p.broken();
  DevicePtr more = 0;
  for (int i = 0; i < 2; ++i) {
    OK(p.begin());
    IS(status::capture_unsupported, i ? cu.mem_alloc_managed(&more, 64, mem_attach_global)
                                      : cu.mem_advise_v1(at, 64, advise_accessed_by, 0));
    p.broken();
  }
  IS(0, violations());
  // Freeing memory while a prefetch of it is queued causes a complaint.
  {
    Latch latch(s);
    OK(cu.mem_prefetch_v1(at, 8192, 0, s));
    waits_for(
        latch, [&] { OK(cu.mem_free(at)); }, [] { return violations() == 1; });
    OK(cu.stream_synchronize(s));
  }
  IS(status::invalid_value, cu.mem_prefetch_v1(at, 64, 0, s));
}

// Runs with managed=exclusive.
void exclusive() {
  enter();
  const StreamHandle s = stream();
  int value = 9;
  OK(cu.device_get_attribute(&value, attribute_managed_memory, 0));
  IS(1, value);
  OK(cu.device_get_attribute(&value, attribute_concurrent_managed_access, 0));
  IS(0, value);
  DevicePtr at = 0;
  OK(cu.mem_alloc_managed(&at, 64, mem_attach_global));
  IS(status::invalid_device, cu.mem_prefetch(at, 64, {location_device, 0}, 0, s));
  IS(status::invalid_device, cu.mem_prefetch(at, 64, {location_host, 0}, 0, s));
  IS(status::invalid_device,
     cu.mem_advise(at, 64, advise_preferred_location, {location_device, 0}));
}

}  // namespace
