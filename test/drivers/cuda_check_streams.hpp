// Groups of cuda_check: copies, streams and events, kernels and their failures.
#pragma once
#include "cuda_check_setup.hpp"

namespace {

void copies() {
  enter();
  const StreamHandle s = stream();
  const DevicePtr a = memory(1024), b = memory(1024);
  unsigned char source[1024], got[1024] = {};
  for (int i = 0; i < 1024; ++i) source[i] = static_cast<unsigned char>(i * 7);
  {
    // The caller may reuse pageable memory at once, even if the copy has not run yet. It may not
    // reuse pinned memory.
    Latch latch(s);
    unsigned char* pinned = nullptr;
    OK(cu.mem_host_alloc(reinterpret_cast<void**>(&pinned), 4, 0));
    pinned[0] = 1;
    unsigned char pageable[1] = {1};
    OK(cu.memcpy_htod_async(a, pageable, 1, s));
    OK(cu.memcpy_htod_async(a + 1, pinned, 1, s));
    pageable[0] = pinned[0] = 2;
    IS(status::not_ready, cu.stream_query(s));
    latch.open();
    OK(cu.memcpy_dtoh_async(got, a, 2, s));  // a copy to pageable memory has arrived
    IS(1, got[0]), IS(2, got[1]);
    OK(cu.mem_free_host(pinned));
  }
  OK(cu.memcpy_htod_async(a, source, 1024, s));
  OK(cu.memcpy_dtod_async(b, a, 1024, s));
  OK(cu.memset_d16_async(b, 0x0102, 2, s));
  OK(cu.memset_d32_async(b + 4, 0x03040506, 1, s));
  OK(cu.memset_d8_async(b + 8, 9, 1, s));
  OK(cu.memcpy_async(DevicePtr(got), b, 1024, s));
  IS(2, got[0]), IS(1, got[1]), IS(2, got[2]), IS(6, got[4]), IS(3, got[7]), IS(9, got[8]),
      IS(63, got[9]);
  IS(0, memcmp(got + 9, source + 9, 1015));
  IS(status::invalid_value, cu.memcpy_dtod_async(a + 1, a, 16, s));  // overlapping
  IS(status::invalid_value, cu.memcpy_htod_async(a, reinterpret_cast<void*>(b), 16, s));
  OK(cu.memcpy_htod_async(a, nullptr, 0, s));
  IS(0, violations());
}

void streams_and_events() {
  enter();
  int least = 9, greatest = 9;
  OK(cu.stream_priority_range(&least, &greatest));
  IS(0, least), IS(-5, greatest);
  StreamHandle clamped = nullptr;
  OK(cu.stream_create(&clamped, stream_non_blocking, -100));
  IS(status::invalid_value, cu.stream_create(&clamped, 2, 0));
  const StreamHandle s = stream(), other = stream();
  const EventHandle plain = event(), start = event(event_default), end = event(event_default);
  IS(status::invalid_value, cu.event_create(nullptr, 0));
  OK(cu.event_query(plain));  // never recorded
  OK(cu.stream_wait_event(s, plain, 0));
  float ms = -1;
  OK(cu.event_record(start, s));
  IS(status::invalid_handle, cu.event_elapsed_time(&ms, start, end));  // never recorded
  {
    Latch latch(s);
    OK(cu.event_record(end, s));
    OK(cu.event_record(plain, s));
    IS(status::not_ready, cu.event_query(end));
    IS(status::not_ready, cu.event_elapsed_time(&ms, start, end));
    IS(status::not_ready, cu.stream_query(s));
    OK(cu.stream_wait_event(other, end, 0));
    IS(status::not_ready, cu.stream_query(other));
    // Waits for a destroyed event remain.
    OK(cu.event_destroy(plain));
    latch.open();
  }
  OK(cu.stream_synchronize(other));
  OK(settled([&] { return cu.stream_query(s); }));
  OK(cu.event_elapsed_time(&ms, start, end));
  IS(true, ms >= 0);
  const EventHandle untimed = event();
  OK(cu.event_record(untimed, s));
  OK(settled([&] { return cu.event_query(untimed); }));
  IS(status::invalid_handle, cu.event_elapsed_time(&ms, untimed, end));
  if (cu.event_record_with_flags)
    IS(status::invalid_value,
       cu.event_record_with_flags(end, s, event_record_external));  // outside a capture
  // A stream that is destroyed finishes its work.
  const DevicePtr at = memory(64);
  const StreamHandle brief = stream();
  const EventHandle after = event();
  Latch latch(brief);
  OK(cu.memset_d8_async(at, 5, 64, brief));
  OK(cu.event_record(after, brief));
  OK(cu.stream_destroy(brief));
  IS(status::not_ready, cu.event_query(after));
  latch.open();
  OK(settled([&] { return cu.event_query(after); }));
  unsigned char got[64];
  OK(cu.memcpy_dtoh_async(got, at, 64, s));
  IS(5, got[63]);
  IS(0, violations());
}

void kernels() {
  enter();
  const Kernels kernels;
  const StreamHandle s = stream();
  Function none = nullptr;
  IS(status::not_found, cu.module_get_function(&none, kernels.module, "nothing"));
  IS(status::not_found, cu.module_get_function(&none, kernels.module, "inner"));   // not visible
  IS(status::not_found, cu.module_get_function(&none, kernels.module, "hidden"));  // a comment
  const Function add = kernels.get("axpby"), stranger = kernels.get("stranger");
  const DevicePtr y = memory(64), x = memory(64);
  const float one = 1;
  unsigned pattern = 0;
  memcpy(&pattern, &one, 4);
  OK(cu.memset_d32_async(x, pattern, 16, s));
  OK(cu.memset_d32_async(y, pattern, 16, s));
  OK(axpby(add, s, y, x, 16, 2, 3));
  float got[16];
  OK(cu.memcpy_dtoh_async(got, y, 64, s));
  IS(5, got[0]), IS(5, got[15]);
  // The image declares doubles, and the host form gets them without rounding.
  {
    const Function follow = kernels.get("follow_every");
    DevicePtr to = memory(4), from = memory(4), counter = memory(4);
    OK(cu.memset_d8_async(counter, 0, 4, s));
    long long n = 1, every = 1;
    double tau = 0.1, rest = 0.9;
    OK(launch(follow, s, {&to, &from, &counter, &n, &every, &tau, &rest}));
    OK(cu.stream_synchronize(s));
  }
  int number = 3;
  IS(98, launch(stranger, s, {&number}));
  IS(0, violations());
  IS(98, launch(kernels.get("bias_act"), s,
                {const_cast<DevicePtr*>(&y)}));  // compiled with other parameters
  IS(1, violations());
  const auto dims = [&](unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                        unsigned bz) {
    return cu.launch_kernel(kernels.get("fail"), gx, gy, gz, bx, by, bz, 0, s, nullptr, nullptr);
  };
  IS(status::invalid_value, dims(0, 1, 1, 1, 1, 1));
  IS(status::invalid_value, dims(1, 65536, 1, 1, 1, 1));
  IS(status::invalid_value, dims(1, 1, 1, 1025, 1, 1));
  IS(status::invalid_value, dims(1, 1, 1, 32, 32, 2));
  IS(status::invalid_value, launch(add, s, {}));
  OK(settled([&] { return cu.stream_query(s); }));

  const auto illegal = [&](Status expected, DevicePtr at, long long n, long long complaints) {
    const long long before = violations();
    const StreamHandle bad = stream();
    OK(axpby(add, bad, y, at, n));
    IS(expected, settled([&] { return cu.stream_query(bad); }));
    IS(expected, cu.memset_d8_async(y, 0, 1, bad));  // the error stays
    IS(expected, cu.stream_synchronize(bad));
    IS(complaints, violations() - before);
  };
  illegal(status::illegal_address, x, 17, 0);        // beyond the end of x
  illegal(status::illegal_address, x + 8192, 1, 0);  // outside all memory
  illegal(716, x + 2, 1, 0);
  illegal(status::launch_failed, x, 0, 1);  // Hotslot launches no kernel with n = 0
  static float pageable[16], pinned[16];
  illegal(status::illegal_address, DevicePtr(pageable), 16, 0);
  OK(cu.mem_host_register(pinned, 64, host_register_portable));
  illegal(status::illegal_address, DevicePtr(pinned), 16, 0);  // not mapped
  OK(cu.mem_host_unregister(pinned));
  OK(cu.mem_host_register(pinned, 64, host_register_portable | host_register_devicemap));
  OK(axpby(add, s, y, DevicePtr(pinned), 16));
  OK(cu.stream_synchronize(s));

  OK(cu.module_unload(kernels.module));
  IS(status::invalid_handle, axpby(add, s, y, x, 16));
  IS(status::invalid_handle, cu.module_unload(kernels.module));
  Module module = nullptr;
  IS(status::invalid_image, cu.module_load_data(&module, "hello"));
  IS(218, cu.module_load_data(&module, ".version 7.0\n"));
  IS(status::unsupported_ptx_version,
     cu.module_load_data(&module, ".version 9.5\n.target sm_75\n"));
  IS(status::no_binary_for_gpu, cu.module_load_data(&module, ".version 7.0\n.target sm_90\n"));
  IS(status::no_binary_for_gpu, cu.module_load_data(&module,
                                                    "\x7f"
                                                    "ELF and more"));
  IS(0, live("modules"));
}

void sticky() {
  const char* mode = getenv("HOTSLOT_SOFTWARE_CUDA");
  const bool whole = as_the_card() && !(mode && strstr(mode, "sticky=stream"));
  enter();
  const Kernels kernels;
  const StreamHandle bad = stream(), good = stream();
  const EventHandle e = event();
  const DevicePtr at = memory(16);
  OK(launch(kernels.get("fail"), bad, {}));
  IS(status::launch_failed, settled([&] { return cu.stream_query(bad); }));
  IS(status::launch_failed, cu.event_record(e, bad));
  const Status otherwise = whole ? status::launch_failed : 0;
  IS(otherwise, cu.memset_d8_async(at, 1, 16, good));
  IS(otherwise, cu.stream_synchronize(good));
  IS(otherwise, cu.mem_free(at));
  IS(otherwise, cu.event_destroy(e));
  DevicePtr more = 0;
  IS(otherwise, cu.mem_alloc(&more, 16));
  Context again = nullptr;
  IS(otherwise, cu.primary_context_retain(&again, 0));
  int count = 0;
  OK(cu.device_get_count(&count));
  OK(cu.context_set_current(context));
  IS(whole ? 1 : 0, live("events"));
}

}  // namespace
