// Groups of cuda_check: lookups of calls, contexts, stale handles, registered memory.
#pragma once
#include "cuda_check_setup.hpp"

namespace {

void lookups() {
  int version = 0, why = -1, count = 0;
  void* found = nullptr;
  OK(driver_version(&version));
  IS(status::not_initialized, cu.device_get_count(&count));
  IS(status::invalid_value, init(1));
  OK(init(0));
  OK(cu.device_get_count(&count));
  IS(1, count);
  IS(status::invalid_value, lookup("cuMemAlloc", &found, version + 10, lookup_legacy_stream, &why));
  OK(lookup("cuNoSuchCall", &found, 12000, 1, &why));
  IS(1, why), IS(true, found == nullptr);
  OK(lookup("cuGraphExecUpdate", &found, 10010, 1, &why));
  IS(2, why), IS(true, found == nullptr);
  OK(lookup("cuGraphExecUpdate", &found, 10020, 1, &why));
  IS(0, why), IS(true, found && found != reinterpret_cast<void*>(cu.graph_exec_update.function));
  OK(lookup("cuInit", &found, 12000, 1, &why));
  IS(true, found == reinterpret_cast<void*>(init));
  OK(lookup("cuFuncLoad", &found, 12000, 1, &why));
  IS(2, why);
  IS(version >= 13000, bool(cu.func_load));
  // These names have two signatures, and an old driver has only the old one.
  IS(true, bool(cu.mem_prefetch_v1) && bool(cu.mem_advise_v1));
  IS(version >= 12020, bool(cu.mem_prefetch)), IS(version >= 12020, bool(cu.mem_advise));
  IS(false, cu.mem_prefetch && reinterpret_cast<void*>(cu.mem_prefetch.function) ==
                                   reinterpret_cast<void*>(cu.mem_prefetch_v1.function));
  char name[80];
  OK(cu.device_get_name(name, sizeof name, 0));
  const std::string own = version >= 13000 ? "13.0, errors lose the context" : "12.0";
  IS(0, strcmp(name, ("Hotslot software driver (CUDA " + own + ")").c_str()));
  IS(status::invalid_device, cu.device_get_name(name, sizeof name, 1));
  const char* text = nullptr;
  OK(cu.get_error_name(900, &text));
  IS(0, strcmp(text, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"));
  IS(status::invalid_value, cu.get_error_name(12345, &text));
  int value = 0;
  OK(cu.device_get_attribute(&value, attribute_cc_major, 0));
  IS(8, value);
  // The driver reads PTX of its own version, and rejects PTX of the next version.
  enter();
  Module module = nullptr;
  IS(0, cu.module_load_data(&module, version >= 13000 ? ".version 9.0\n.target sm_75"
                                                      : ".version 8.0\n.target sm_75"));
  IS(status::unsupported_ptx_version,
     cu.module_load_data(&module, version >= 13000 ? ".version 9.1\n.target sm_75"
                                                   : ".version 9.0\n.target sm_75"));
  IS(0, violations());
}

void too_old() {
  int version = 0, why = 0;
  void* found = nullptr;
  OK(driver_version(&version));
  IS(11080, version);
  IS(status::invalid_value, lookup("cuGraphExecUpdate", &found, 12000, 1, &why));
}

void contexts() {
  OK(init(0));
  Context current = nullptr, made = nullptr;
  StreamHandle held = nullptr;
  DevicePtr at = 0;
  IS(status::invalid_context, cu.stream_create(&held, 0, 0));
  OK(cu.primary_context_retain(&made, 0));
  OK(cu.context_get_current(&current));
  IS(true, current == nullptr);
  IS(status::invalid_context, cu.mem_alloc(&at, 16));
  OK(cu.context_set_current(made));
  context = made;
  at = memory(16);
  // A context is current in only one thread.
  std::thread([&] { IS(status::invalid_context, cu.mem_free(at)); }).join();
  OK(elsewhere([&] { return cu.mem_free(at); }));
  unsigned flags = 9;
  int active = 0;
  OK(cu.primary_context_set_flags(0, sched_blocking_sync));
  OK(cu.primary_context_get_state(0, &flags, &active));
  IS(4, flags), IS(1, active), IS(1, live("contexts_retained"));
  IS(status::invalid_context, cu.context_set_current(reinterpret_cast<Context>(16)));
  OK(cu.context_set_current(nullptr));
  IS(status::invalid_context, cu.mem_alloc(&at, 16));
}

void stale_handles() {
  enter();
  const StreamHandle s = stream(), gone = stream();
  const EventHandle e = event(), gone_event = event();
  OK(cu.stream_destroy(gone));
  OK(cu.event_destroy(gone_event));
  IS(status::invalid_handle, cu.stream_destroy(gone));
  IS(status::invalid_handle, cu.stream_query(gone));
  IS(status::invalid_handle, cu.event_query(gone_event));
  IS(status::invalid_handle, cu.event_record(e, gone));
  IS(status::invalid_handle, cu.event_record(gone_event, s));
  IS(status::invalid_handle, cu.stream_wait_event(s, reinterpret_cast<EventHandle>(s), 0));
  IS(status::invalid_handle, cu.graph_launch(reinterpret_cast<GraphExecHandle>(s), s));
  IS(0, violations());
  IS(status::invalid_handle, cu.stream_query(nullptr));
  IS(1, violations());
  IS(1, live("streams")), IS(1, live("events"));
}

void registrations() {
  enter();
  const StreamHandle s = stream();
  static unsigned char block[8192];
  unsigned char* page = block + 17;
  OK(cu.mem_host_register(page, 100, 3));
  OK(cu.mem_host_register(page + 100, 100, 3));  // adjacent, on the same page
  IS(status::already_registered, cu.mem_host_register(page + 50, 100, 3));
  IS(status::invalid_value, cu.mem_host_unregister(page + 1));
  IS(status::not_registered, cu.mem_host_unregister(page + 200));
  IS(2, live("registrations"));
  DevicePtr at = memory(4096), pointer = 0;
  OK(cu.mem_host_get_device_pointer(&pointer, page + 5, 0));
  IS(true, pointer == DevicePtr(page + 5));
  OK(cu.memcpy_htod_async(at, page, 100, s));
  IS(status::invalid_value, cu.memcpy_htod_async(at, page, 150, s));  // ends in another range
  // begins before the range
  IS(status::invalid_value, cu.memcpy_htod_async(at, page - 8, 50, s));
  IS(status::invalid_value, cu.memcpy_dtoh_async(page + 150, at, 100, s));  // ends after the range
  OK(cu.stream_synchronize(s));
  OK(cu.mem_host_unregister(page));
  OK(cu.mem_host_register(page + 50, 50, host_register_portable));
  IS(status::invalid_value, cu.mem_host_get_device_pointer(&pointer, page + 50, 0));  // not mapped
  IS(status::invalid_value, cu.mem_host_register(reinterpret_cast<void*>(at), 10, 3));
  IS(status::invalid_value, cu.mem_host_register(page, 0, 3));
  // Device pointers outside live memory.
  IS(status::invalid_value, cu.memcpy_htod_async(at + 4000, page + 100, 97, s));
  IS(status::invalid_value, cu.memcpy_dtod_async(at, at + 5000, 16, s));
  IS(status::invalid_value, cu.memset_d8_async(at - 1, 1, 2, s));
  IS(status::invalid_value, cu.memset_d32_async(at + 2, 1, 2, s));
  IS(status::invalid_value, cu.mem_free(at + 1));
  OK(cu.mem_free(at));
  IS(status::invalid_value, cu.mem_free(at));
  IS(status::invalid_value, cu.memset_d8_async(at, 1, 2, s));
  IS(0, violations());
}

}  // namespace
