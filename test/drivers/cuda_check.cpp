// Every rule of the software CUDA driver once, through the ABI that Hotslot uses: cuda_check DRIVER GROUP. Says what differs
// from what was expected and returns 1. The environment the driver reads is the caller's to set.
#include "cuda_check.hpp"

using namespace hotslot::cuda;

namespace {

Table cu;
Init init;
DriverGetVersion driver_version;
GetProcAddress lookup;

// What the table asks for, at the versions it was compiled for; what may be missing is missing where the driver is older.
template <class E>
void resolve(E& entry, int version, bool required, int driver) {
  void* found = nullptr;
  int why = 0;
  const Status status = lookup(entry.name, &found, version, lookup_legacy_stream, &why);
  IS(version > driver ? status::invalid_value : 0, status);
  if (required && !found) std::printf("%s was not found (%d)\n", entry.name, why), ++wrong;
  entry.function = reinterpret_cast<decltype(entry.function)>(found);
}

// Without a table where the driver is too old for it.
void open(const char* path, bool whole) {
  void* library = open_library(path);
  symbol(library, init, "cuInit");
  symbol(library, driver_version, "cuDriverGetVersion");
  symbol(library, lookup, "cuGetProcAddress_v2");
  if (!whole) return;
  int version = 0;
  OK(driver_version(&version));
#define REQUIRED_ENTRY(name, symbol, asked, parameters) resolve(cu.name, asked, true, version);
#define OPTIONAL_ENTRY(name, symbol, asked, parameters) resolve(cu.name, asked, false, version);
  HOTSLOT_CUDA_ENTRIES(REQUIRED_ENTRY, OPTIONAL_ENTRY)
}

Context context;
void enter(int device = 0) {
  OK(init(0));
  OK(cu.primary_context_retain(&context, device));
  OK(cu.context_set_current(context));
}

StreamHandle stream() {
  StreamHandle made = nullptr;
  OK(cu.stream_create(&made, stream_non_blocking, 0));
  return made;
}
EventHandle event(unsigned flags = event_disable_timing) {
  EventHandle made = nullptr;
  OK(cu.event_create(&made, flags));
  return made;
}
DevicePtr memory(size_t bytes) {
  DevicePtr made = 0;
  OK(cu.mem_alloc(&made, bytes));
  return made;
}
template <class F>
auto elsewhere(F&& f) {
  decltype(f()) result{};
  std::thread([&] {
    OK(cu.context_set_current(context));
    result = f();
  }).join();
  return result;
}
Status exchange(CaptureMode mode) { return cu.exchange_capture_mode(&mode); }

// Pointers, then whole numbers, then reals, as every kernel of Hotslot takes them.
const char* const ptx = R"(
// .version 99.0 in a comment is none
.version 6.3
.target sm_70
.address_size 64
/* .visible .entry hidden() */
.visible .entry axpby(
  .param .u64 axpby_param_0,
  .param .u64 axpby_param_1,
  .param .u64 axpby_param_2,
  .param .f32 axpby_param_3,
  .param .f32 axpby_param_4
)
{ ret; }
.visible .entry latch(.param .u64 .ptr .global .align 4 latch_param_0, .param .s64 latch_param_1) { ret; }
.visible .entry fail() { ret; }
.visible .entry stranger(.param .u32 stranger_param_0) { ret; }
.visible .entry adam_advance(.param .u64 a, .param .u64 b, .param .f64 c, .param .f64 d, .param .f64 e) { ret; }
.visible .entry bias_act(.param .u64 a) { ret; }
.entry inner() { ret; }
)";

struct Kernels {
  Module module = nullptr;
  Kernels() { OK(cu.module_load_data(&module, ptx)); }
  Function get(const char* name) const {
    Function found = nullptr;
    OK(cu.module_get_function(&found, module, name));
    return found;
  }
};
Status launch(Function function, StreamHandle on, std::vector<void*> parameters) {
  return cu.launch_kernel(function, 1, 1, 1, 128, 1, 1, 0, on, parameters.empty() ? nullptr : parameters.data(), nullptr);
}
Status axpby(Function function, StreamHandle on, DevicePtr y, DevicePtr x, long long n, float a = 1, float b = 1) {
  return launch(function, on, {&y, &x, &n, &a, &b});
}

// Holds a stream until it is opened.
struct Latch {
  const Kernels kernels;
  int* word = nullptr;
  explicit Latch(StreamHandle on) {
    OK(cu.mem_host_alloc(reinterpret_cast<void**>(&word), 4, host_alloc_portable));
    *word = 0;
    DevicePtr at = 0;
    OK(cu.mem_host_get_device_pointer(&at, word, 0));
    long long milliseconds = 10'000;
    OK(launch(kernels.get("latch"), on, {&at, &milliseconds}));
  }
  void open() { __atomic_store_n(word, 1, __ATOMIC_SEQ_CST); }
};

// ---- groups ----------------------------------------------------------------------------------------------------------

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
  // Two signatures of one name, of which an old driver has the old one.
  IS(true, bool(cu.mem_prefetch_v1) && bool(cu.mem_advise_v1));
  IS(version >= 12020, bool(cu.mem_prefetch)), IS(version >= 12020, bool(cu.mem_advise));
  IS(false, cu.mem_prefetch && reinterpret_cast<void*>(cu.mem_prefetch.function) == reinterpret_cast<void*>(cu.mem_prefetch_v1.function));
  char name[64];
  OK(cu.device_get_name(name, sizeof name, 0));
  IS(0, strcmp(name, version >= 13000 ? "Hotslot software driver (CUDA 13.0)" : "Hotslot software driver (CUDA 12.0)"));
  IS(status::invalid_device, cu.device_get_name(name, sizeof name, 1));
  const char* text = nullptr;
  OK(cu.get_error_name(900, &text));
  IS(0, strcmp(text, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"));
  IS(status::invalid_value, cu.get_error_name(12345, &text));
  int value = 0;
  OK(cu.device_get_attribute(&value, attribute_cc_major, 0));
  IS(8, value);
  // A PTX of the driver's own version is read, one of the next is not.
  enter();
  Module module = nullptr;
  IS(0, cu.module_load_data(&module, version >= 13000 ? ".version 9.0\n.target sm_75" : ".version 8.0\n.target sm_75"));
  IS(status::unsupported_ptx_version, cu.module_load_data(&module, version >= 13000 ? ".version 9.1\n.target sm_75" : ".version 9.0\n.target sm_75"));
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
  // A context is current in one thread.
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
  OK(cu.mem_host_register(page + 100, 100, 3));  // the same page, next to each other
  IS(status::already_registered, cu.mem_host_register(page + 50, 100, 3));
  IS(status::invalid_value, cu.mem_host_unregister(page + 1));
  IS(status::not_registered, cu.mem_host_unregister(page + 200));
  IS(2, live("registrations"));
  DevicePtr at = memory(4096), pointer = 0;
  OK(cu.mem_host_get_device_pointer(&pointer, page + 5, 0));
  IS(true, pointer == DevicePtr(page + 5));
  OK(cu.memcpy_htod_async(at, page, 100, s));
  IS(status::invalid_value, cu.memcpy_htod_async(at, page, 150, s));       // ends in another one
  IS(status::invalid_value, cu.memcpy_htod_async(at, page - 8, 50, s));    // begins before it
  IS(status::invalid_value, cu.memcpy_dtoh_async(page + 150, at, 100, s));  // ends behind it
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

void copies() {
  enter();
  const StreamHandle s = stream();
  const DevicePtr a = memory(1024), b = memory(1024);
  unsigned char source[1024], got[1024] = {};
  for (int i = 0; i < 1024; ++i) source[i] = static_cast<unsigned char>(i * 7);
  {
    // Pageable memory may be used again at once, even when the copy's turn has not come; pinned memory may not.
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
    OK(cu.memcpy_dtoh_async(got, a, 2, s));  // to pageable memory: it has arrived
    IS(1, got[0]), IS(2, got[1]);
    OK(cu.mem_free_host(pinned));
  }
  OK(cu.memcpy_htod_async(a, source, 1024, s));
  OK(cu.memcpy_dtod_async(b, a, 1024, s));
  OK(cu.memset_d16_async(b, 0x0102, 2, s));
  OK(cu.memset_d32_async(b + 4, 0x03040506, 1, s));
  OK(cu.memset_d8_async(b + 8, 9, 1, s));
  OK(cu.memcpy_async(DevicePtr(got), b, 1024, s));
  IS(2, got[0]), IS(1, got[1]), IS(2, got[2]), IS(6, got[4]), IS(3, got[7]), IS(9, got[8]), IS(63, got[9]);
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
    // Whatever a destroyed event stood for still holds.
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
  if (cu.event_record_with_flags) IS(status::invalid_value, cu.event_record_with_flags(end, s, event_record_external));  // outside a capture
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
  // Doubles where the image says so; the host form gets them whole.
  {
    const Function advance = kernels.get("adam_advance");
    const DevicePtr step = memory(4), scales = memory(16);
    OK(cu.memset_d8_async(step, 0, 4, s));
    double lr = 0.5, beta1 = 0.9, beta2 = 0.999;
    OK(launch(advance, s, {const_cast<DevicePtr*>(&step), const_cast<DevicePtr*>(&scales), &lr, &beta1, &beta2}));
    OK(cu.stream_synchronize(s));
  }
  int number = 3;
  IS(98, launch(stranger, s, {&number}));
  IS(0, violations());
  IS(98, launch(kernels.get("bias_act"), s, {const_cast<DevicePtr*>(&y)}));  // compiled with other parameters
  IS(1, violations());
  const auto dims = [&](unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz) {
    return cu.launch_kernel(kernels.get("fail"), gx, gy, gz, bx, by, bz, 0, s, nullptr, nullptr);
  };
  IS(status::invalid_value, dims(0, 1, 1, 1, 1, 1));
  IS(status::invalid_value, dims(1, 65536, 1, 1, 1, 1));
  IS(status::invalid_value, dims(1, 1, 1, 1025, 1, 1));
  IS(status::invalid_value, dims(1, 1, 1, 32, 32, 2));
  IS(status::invalid_value, launch(add, s, {}));
  OK(cu.stream_query(s));

  const auto illegal = [&](Status expected, DevicePtr at, long long n, long long complaints) {
    const long long before = violations();
    const StreamHandle bad = stream();
    OK(axpby(add, bad, y, at, n));
    IS(expected, settled([&] { return cu.stream_query(bad); }));
    IS(expected, cu.memset_d8_async(y, 0, 1, bad));  // sticky
    IS(expected, cu.stream_synchronize(bad));
    IS(complaints, violations() - before);
  };
  illegal(status::illegal_address, x, 17, 0);       // beyond its end
  illegal(status::illegal_address, x + 8192, 1, 0);  // in nobody's memory
  illegal(716, x + 2, 1, 0);
  illegal(status::launch_failed, x, 0, 1);  // no kernel of Hotslot is launched with this
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
  IS(status::unsupported_ptx_version, cu.module_load_data(&module, ".version 9.5\n.target sm_75\n"));
  IS(status::no_binary_for_gpu, cu.module_load_data(&module, ".version 7.0\n.target sm_90\n"));
  IS(status::no_binary_for_gpu, cu.module_load_data(&module, "\x7f" "ELF and more"));
  IS(0, live("modules"));
}

void sticky() {
  const char* mode = getenv("HOTSLOT_SOFTWARE_CUDA");
  const bool whole = mode && strstr(mode, "sticky=context");
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

struct Parts {
  StreamHandle origin = stream(), side = stream();
  EventHandle fork = event(), join = event();
  DevicePtr a = memory(64);
  GraphHandle graph = nullptr;
  Status fill() { return cu.memset_d8_async(a, 1, 64, origin); }
  Status begin(CaptureMode mode = capture_thread_local) { return cu.stream_begin_capture(origin, mode); }
  Status end() { return cu.stream_end_capture(origin, &graph); }
  // A broken capture says so, ends without a graph, and leaves the stream usable.
  void broken() {
    IS(status::capture_invalidated, fill());
    IS(status::capture_invalidated, end());
    IS(true, graph == nullptr);
    usable();
  }
  void usable() {
    OK(begin());
    OK(fill());
    OK(end());
    size_t nodes = 0;
    OK(cu.graph_get_nodes(graph, nullptr, &nodes));
    IS(1, nodes);
    OK(cu.graph_destroy(graph));
    OK(settled([&] { return cu.stream_query(origin); }));
  }
};

void captures() {
  enter();
  const Kernels kernels;
  DevicePtr at = 0;
  void* host = nullptr;
  static char block[64];
  Module module = nullptr;
  // What this thread's own capture bars, in the default mode and in thread-local mode, and what relaxing allows.
  for (const CaptureMode thread_mode : {capture_global, capture_thread_local, capture_relaxed}) {
    const bool barred = thread_mode != capture_relaxed;
    OK(exchange(thread_mode));
    const auto bars = [&](bool even_relaxed, auto&& call) {
      Parts p;
      OK(exchange(capture_relaxed));
      OK(cu.event_record(p.join, p.side));
      OK(settled([&] { return cu.event_query(p.join); }));
      OK(exchange(thread_mode));
      OK(p.begin());
      OK(p.fill());
      IS(barred || even_relaxed ? status::capture_unsupported : 0, call(p));
      if (barred || even_relaxed) return p.broken();
      OK(p.fill());
      OK(p.end());
    };
    bars(false, [&](Parts&) { return cu.mem_alloc(&at, 16); });
    bars(false, [&](Parts&) { return cu.mem_host_alloc(&host, 16, 0); });
    bars(false, [&](Parts&) {
      const Status status = cu.mem_host_register(block, 64, 1);
      if (status == 0) cu.mem_host_unregister(block);
      return status;
    });
    bars(false, [&](Parts& p) { return cu.event_query(p.join); });
    bars(false, [&](Parts& p) { return cu.stream_query(p.side); });
    bars(false, [&](Parts& p) { return cu.stream_synchronize(p.side); });
    bars(false, [&](Parts&) { return cu.module_load_data(&module, ptx); });
    bars(true, [&](Parts& p) { return cu.stream_query(p.origin); });
    bars(true, [&](Parts& p) { return cu.stream_synchronize(p.origin); });
  }
  OK(exchange(capture_global));
  IS(status::invalid_value, exchange(CaptureMode(3)));

  // What other threads' captures bar: nothing but global ones do, and relaxed threads never care.
  for (const CaptureMode capture_mode : {capture_global, capture_thread_local, capture_relaxed}) {
    for (const CaptureMode thread_mode : {capture_global, capture_thread_local, capture_relaxed}) {
      Parts p;
      OK(p.begin(capture_mode));
      const bool barred = capture_mode == capture_global && thread_mode == capture_global;
      IS(barred ? status::capture_unsupported : 0, elsewhere([&] {
           OK(exchange(thread_mode));
           return cu.event_query(p.join);
         }));
      if (barred) p.broken();
      else OK(p.end());
    }
  }
  // A mode is its thread's.
  CaptureMode mode = capture_relaxed;
  OK(cu.exchange_capture_mode(&mode));
  IS(capture_global, mode);
  IS(capture_global, elsewhere([] {
       CaptureMode theirs = capture_relaxed;
       OK(cu.exchange_capture_mode(&theirs));
       return int(theirs);
     }));
  OK(exchange(capture_thread_local));

  Parts p;
  IS(401, p.end());
  OK(p.begin());
  IS(401, p.begin());
  IS(status::capture_wrong_thread, elsewhere([&] { return p.end(); }));
  OK(p.fill());
  OK(p.end());
  OK(p.begin(capture_relaxed));
  OK(elsewhere([&] { return p.end(); }));
  // 901 after 905, 902; 903, 904; 907 for events last recorded inside.
  OK(cu.event_record(p.join, p.side));
  OK(p.begin());
  IS(status::capture_isolation, cu.stream_wait_event(p.origin, p.join, 0));
  p.broken();
  OK(p.begin());
  OK(cu.stream_begin_capture(p.side, capture_thread_local));
  OK(cu.event_record(p.fork, p.origin));
  IS(status::capture_merge, cu.stream_wait_event(p.side, p.fork, 0));
  IS(status::capture_invalidated, cu.stream_end_capture(p.side, &p.graph));
  p.broken();
  OK(p.begin());
  OK(cu.event_record(p.fork, p.origin));
  OK(cu.stream_wait_event(p.side, p.fork, 0));
  IS(status::capture_unmatched, cu.stream_end_capture(p.side, &p.graph));
  p.broken();
  OK(p.begin());
  OK(cu.event_record(p.fork, p.origin));
  OK(cu.stream_wait_event(p.side, p.fork, 0));
  OK(cu.memset_d8_async(p.a, 1, 1, p.side));
  IS(status::capture_unjoined, p.end());
  p.usable();
  OK(cu.stream_query(p.side));
  IS(status::captured_event, cu.event_query(p.fork));
  IS(status::captured_event, cu.stream_wait_event(p.side, p.fork, 0));
  OK(exchange(capture_relaxed));
  IS(status::captured_event, cu.event_query(p.fork));  // relaxed or not
  OK(exchange(capture_thread_local));
  OK(cu.event_record(p.fork, p.side));
  OK(settled([&] { return cu.event_query(p.fork); }));
  // The origin is destroyed: who joined is free.
  OK(p.begin());
  OK(cu.event_record(p.fork, p.origin));
  OK(cu.stream_wait_event(p.side, p.fork, 0));
  OK(cu.stream_destroy(p.origin));
  OK(cu.stream_query(p.side));
  // Launching a graph is no part of a capture.
  Parts q;
  OK(q.begin());
  OK(q.fill());
  OK(q.end());
  GraphExecHandle exec = nullptr;
  OK(cu.graph_instantiate(&exec, q.graph, 0));
  OK(q.begin());
  IS(status::capture_unsupported, cu.graph_launch(exec, q.origin));
  q.broken();
  IS(0, violations());
}

void graphs() {
  enter();
  const Kernels kernels;
  const Function add = kernels.get("axpby");
  Parts p;
  const DevicePtr y = memory(64), x = memory(64);
  OK(cu.memset_d8_async(y, 0, 64, p.origin));
  OK(cu.memset_d32_async(x, 0x3f800000, 16, p.origin));
  const auto capture = [&](auto&& work) {
    OK(p.begin());
    work();
    OK(p.end());
    return p.graph;
  };
  unsigned char to[64], from[64] = {7};
  const GraphHandle one = capture([&] {
    OK(axpby(add, p.origin, y, x, 16));
    OK(cu.memcpy_dtoh_async(to, y, 64, p.origin));    // pageable: written at each replay
    OK(cu.memcpy_htod_async(p.a, from, 64, p.origin));  // read at each replay
  });
  size_t count = 0;
  OK(cu.graph_get_nodes(one, nullptr, &count));
  IS(3, count);
  GraphNode nodes[5] = {};
  count = 5;
  OK(cu.graph_get_nodes(one, nodes, &count));
  IS(3, count), IS(true, nodes[0] && nodes[2] && !nodes[3]);
  GraphExecHandle exec = nullptr;
  IS(status::invalid_value, cu.graph_instantiate(&exec, one, 16));
  OK(cu.graph_instantiate(&exec, one, 0));
  if (cu.graph_upload) OK(cu.graph_upload(exec, p.side));
  OK(cu.graph_destroy(one));
  IS(status::invalid_handle, cu.graph_destroy(one));
  from[0] = 8;
  for (int i = 0; i < 3; ++i) OK(cu.graph_launch(exec, i % 2 ? p.origin : p.side));
  OK(cu.stream_synchronize(p.origin));
  OK(cu.stream_synchronize(p.side));
  float sum = 0;
  memcpy(&sum, to, 4);
  IS(3, sum);
  OK(cu.memcpy_dtoh_async(to, p.a, 64, p.side));
  IS(8, to[0]);

  // Updates: the same nodes in the same order with other arguments.
  ExecUpdateResult info{-1, nullptr, nullptr};
  const GraphHandle same = capture([&] {
    OK(axpby(add, p.origin, y, x, 16, 10, 1));
    OK(cu.memcpy_dtoh_async(to, y, 64, p.origin));
    OK(cu.memcpy_htod_async(p.a, from, 64, p.origin));
  });
  OK(cu.graph_exec_update(exec, same, &info));
  IS(0, info.result);
  OK(cu.graph_launch(exec, p.side));
  OK(cu.stream_synchronize(p.side));
  memcpy(&sum, to, 4);
  IS(13, sum);
  const GraphHandle shorter = capture([&] { OK(axpby(add, p.origin, y, x, 16)); });
  IS(status::graph_exec_update_failure, cu.graph_exec_update(exec, shorter, &info));
  IS(2, info.result);
  const GraphHandle other = capture([&] {
    OK(axpby(add, p.origin, y, x, 16));
    OK(p.fill());
    OK(p.fill());
  });
  IS(status::graph_exec_update_failure, cu.graph_exec_update(exec, other, &info));
  IS(3, info.result);
  const GraphHandle directions = capture([&] {
    OK(axpby(add, p.origin, y, x, 16));
    OK(cu.memcpy_dtod_async(p.a, y, 64, p.origin));
    OK(cu.memcpy_htod_async(p.a, from, 64, p.origin));
  });
  IS(status::graph_exec_update_failure, cu.graph_exec_update(exec, directions, &info));
  IS(5, info.result);
  IS(status::invalid_handle, cu.graph_exec_update(exec, one, &info));
  OK(cu.graph_launch(exec, p.side));
  OK(cu.stream_synchronize(p.side));
  for (const GraphHandle graph : {same, shorter, other, directions}) OK(cu.graph_destroy(graph));

  if (cu.event_record_with_flags) {
    // A record that is a node: every launch renews it, and it can be asked for and timed from outside.
    const EventHandle begun = event(event_default), over = event(event_default);
    const GraphHandle timed = capture([&] {
      OK(cu.event_record_with_flags(begun, p.origin, event_record_external));
      OK(p.fill());
      OK(cu.event_record_with_flags(over, p.origin, event_record_external));
    });
    OK(cu.graph_get_nodes(timed, nullptr, &count));
    IS(3, count);
    GraphExecHandle timer = nullptr;
    OK(cu.graph_instantiate(&timer, timed, 0));
    OK(cu.event_query(over));
    float ms = -1;
    Latch latch(p.side);
    OK(cu.graph_launch(timer, p.side));
    IS(status::not_ready, cu.event_query(over));
    latch.open();
    OK(settled([&] { return cu.event_query(over); }));
    OK(cu.event_elapsed_time(&ms, begun, over));
    IS(true, ms >= 0);
    OK(cu.graph_exec_destroy(timer));
    OK(cu.graph_destroy(timed));
  }
  // Destroyed while it runs, it runs on.
  {
    Latch latch(p.side);
    OK(cu.graph_launch(exec, p.side));
    OK(cu.graph_exec_destroy(exec));
    latch.open();
    OK(cu.stream_synchronize(p.side));
    memcpy(&sum, to, 4);
    IS(33, sum);
  }
  IS(status::invalid_handle, cu.graph_launch(exec, p.side));
  IS(0, violations());
  IS(0, live("graphs")), IS(0, live("execs"));

  // A wrong address in a graph is the launching stream's fault.
  const GraphHandle illegal = capture([&] { OK(axpby(add, p.origin, y, x, 17)); });
  OK(cu.graph_instantiate(&exec, illegal, 0));
  const StreamHandle bad = stream();
  OK(cu.graph_launch(exec, bad));
  IS(status::illegal_address, settled([&] { return cu.stream_query(bad); }));
  OK(cu.stream_query(p.origin));
  IS(0, violations());
}

// Memory that goes while something still refers to it: what a real driver would do with it is anybody's guess.
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
  replay([&] { OK(cu.memcpy_htod_async(p.a, block, 64, p.origin)); }, [&] { OK(cu.mem_host_unregister(block)); });
  const Kernels kernels;
  const Function add = kernels.get("axpby");
  replay([&] { OK(axpby(add, p.origin, p.a, p.a, 4)); }, [&] { OK(cu.module_unload(kernels.module)); });

  const auto queued = [&](auto&& work, auto&& let) {
    const long long before = violations();
    const StreamHandle s = stream();
    Latch latch(s);
    work(s);
    let();
    IS(before + 1, violations());
    latch.open();
    OK(cu.stream_synchronize(s));
  };
  const DevicePtr c = memory(64);
  queued([&](StreamHandle s) { OK(cu.memset_d8_async(c, 1, 64, s)); }, [&] { OK(cu.mem_free(c)); });
  OK(cu.mem_host_register(block, 64, 3));
  queued([&](StreamHandle s) { OK(cu.memcpy_htod_async(p.a, block, 64, s)); }, [&] { OK(cu.mem_host_unregister(block)); });
  // By a graph that is under way.
  const DevicePtr d = memory(64);
  OK(p.begin());
  OK(cu.memset_d8_async(d, 1, 64, p.origin));
  OK(p.end());
  GraphExecHandle exec = nullptr;
  OK(cu.graph_instantiate(&exec, p.graph, 0));
  queued([&](StreamHandle s) { OK(cu.graph_launch(exec, s)); }, [&] { OK(cu.mem_free(d)); });
  // Work that is done uses nothing, as soon as anybody can know.
  for (int i = 0; i < 200; ++i) {
    const long long before = violations();
    const DevicePtr e = memory(64);
    const StreamHandle s = stream();
    const EventHandle done = event();
    OK(cu.memset_d8_async(e, 1, 64, s));
    if (i % 2) OK(cu.event_record(done, s));
    OK(i % 2 ? settled([&] { return cu.event_query(done); }) : settled([&] { return cu.stream_query(s); }));
    OK(cu.mem_free(e));
    OK(cu.stream_destroy(s));
    OK(cu.event_destroy(done));
    IS(before, violations());
  }
  IS(true, strstr(complaints_text(), "a free of memory that queued work still uses") != nullptr);
}

int attribute(RangeAttribute which, DevicePtr at, size_t bytes) {
  int value = 9;
  OK(cu.mem_range_get_attribute(&value, sizeof value, which, at, bytes));
  return value;
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
  // Fresh memory was brought nowhere, belongs nowhere, and nobody reaches it.
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
  IS(status::invalid_value, cu.mem_range_get_attribute(&value, 4, range_preferred_location, plain, 64));
  IS(status::invalid_value, cu.mem_range_get_attribute(by, 8, range_preferred_location, at, 64));
  IS(status::invalid_value, cu.mem_range_get_attribute(by, 6, range_accessed_by, at, 64));
  // A prefetch is no part of a capture, and breaks it; memory and advice are barred like all that is not enqueued.
  Parts p;
  OK(p.begin());
  IS(status::capture_unsupported, cu.mem_prefetch_v1(at, 64, 0, p.origin));
  p.broken();
  DevicePtr more = 0;
  for (int i = 0; i < 2; ++i) {
    OK(p.begin());
    IS(status::capture_unsupported, i ? cu.mem_alloc_managed(&more, 64, mem_attach_global) : cu.mem_advise_v1(at, 64, advise_accessed_by, 0));
    p.broken();
  }
  IS(0, violations());
  // Not freed while a prefetch of it is queued.
  {
    Latch latch(s);
    OK(cu.mem_prefetch_v1(at, 8192, 0, s));
    OK(cu.mem_free(at));
    IS(1, violations());
    latch.open();
    OK(cu.stream_synchronize(s));
  }
  IS(status::invalid_value, cu.mem_prefetch_v1(at, 64, 0, s));
}

// managed=exclusive
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
  IS(status::invalid_device, cu.mem_advise(at, 64, advise_preferred_location, {location_device, 0}));
}

// hang=cuMemAllocManaged
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
  memory(64);  // others go on
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
  // A kernel and a record need their own device's stream; waiting, asking and copies between two do not.
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
  // Managed memory is everybody's, and goes where it is wanted.
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

// memory=65536, register=refuse, ptx=6.3
void limits() {
  enter();
  Module module = nullptr;
  OK(cu.module_load_data(&module, ptx));
  IS(status::unsupported_ptx_version, cu.module_load_data(&module, ".version 6.4\n.target sm_60\n"));
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

// stickiness=context
void misspelt() {
  IS(status::unknown, init(0));
  IS(1, violations());
  IS(0, strcmp(complaints_text(), "nobody knows the option stickiness=context\n"));
}

// HOTSLOT_SOFTWARE_FAIL=cuMemAlloc:2:2,cuStreamQuery:1:719:forever
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
  IS(3, calls("cuMemAlloc")), IS(3, calls("cuStreamQuery")), IS(3, calls("cuEventQuery")), IS(-1, calls("cuMemFree"));
}

// HOTSLOT_SOFTWARE_STRICT=abort
void strict() {
  enter();
  const DevicePtr at = memory(64);
  const StreamHandle s = stream();
  Latch latch(s);
  OK(cu.memset_d8_async(at, 1, 64, s));
  OK(cu.mem_free(at));
  std::printf("it went on\n");
  ++wrong;
}

// Several threads at everything at once, for the sanitizers.
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
  for (const char* kind : {"streams", "allocations", "allocation_bytes", "graphs", "execs"}) IS(0, live(kind));
}

const Group groups[] = {{"lookups", lookups},
              {"too-old", too_old},
              {"contexts", contexts},
              {"stale-handles", stale_handles},
              {"registrations", registrations},
              {"copies", copies},
              {"streams-and-events", streams_and_events},
              {"kernels", kernels},
              {"sticky", sticky},
              {"captures", captures},
              {"graphs", graphs},
              {"let-go", let_go},
              {"managed", managed},
              {"exclusive", exclusive},
              {"hangs", hangs},
              {"two-devices", two_devices},
              {"limits", limits},
              {"no-device", no_device},
              {"misspelt", misspelt},
              {"injection", injection},
              {"strict", strict},
              {"threads", threads}};

}  // namespace

int main(int count, char** words) {
  if (count != 3) return 2;
  open(words[1], strcmp(words[2], "too-old") != 0);
  return run_group(groups, words[2]);
}
