// What the groups of cuda_check share: the driver's table, a context and its objects, kernels, a
// latch, and the parts of a capture.
#pragma once
#include "cuda_check.hpp"

using namespace hotslot::cuda;

namespace {

Table cu;
Init init;
DriverGetVersion driver_version;
GetProcAddress lookup;

// Looks a call up at the version that it was compiled for. An older driver may lack optional calls.
template <class E>
void resolve(E& entry, int version, bool required, int driver) {
  void* found = nullptr;
  int why = 0;
  const Status status = lookup(entry.name, &found, version, lookup_legacy_stream, &why);
  IS(version > driver ? status::invalid_value : 0, status);
  if (required && !found) wrong(std::string(entry.name) + " was not found", why);
  entry.function = reinterpret_cast<decltype(entry.function)>(found);
}

// Opens the driver. Without `whole`, the table stays empty, because the driver is too old for it.
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

// Returns whether the driver behaves like the H100 (cuda_card.hpp).
bool as_the_card() {
  int version = 0;
  OK(driver_version(&version));
  return version >= 13000;
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

// Every kernel of Hotslot takes pointers, then whole numbers, then reals.
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
.visible .entry gather_places(.param .u64 a, .param .u64 b, .param .u64 c, .param .s64 d, .param .s64 e, .param .s64 f,
  .param .s64 g) { ret; }
.visible .entry stranger(.param .u32 stranger_param_0) { ret; }
.visible .entry follow_every(.param .u64 a, .param .u64 b, .param .u64 c, .param .s64 d, .param .s64 e, .param .f64 f,
  .param .f64 g) { ret; }
.visible .entry bias_act(.param .u64 a) { ret; }
.entry inner() { ret; }
)";

struct Kernels {
  Module module = nullptr;
  Kernels() { OK(cu.module_load_data(&module, ptx)); }
  Function get(const char* name) const {
    Function found = nullptr;
    OK(cu.module_get_function(&found, module, name));
    // Loads the kernel before a capture uses it.
    if (cu.func_load) OK(cu.func_load(found));
    return found;
  }
};
Status launch(Function function, StreamHandle on, std::vector<void*> parameters) {
  return cu.launch_kernel(function, 1, 1, 1, 128, 1, 1, 0, on,
                          parameters.empty() ? nullptr : parameters.data(), nullptr);
}
Status axpby(Function function, StreamHandle on, DevicePtr y, DevicePtr x, long long n, float a = 1,
             float b = 1) {
  return launch(function, on, {&y, &x, &n, &a, &b});
}

// Blocks a stream until open() is called.
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

// Calls `act` in another thread, where it waits for a blocked stream. Opens the latch once `waits`
// returns true.
template <class F, class G>
void waits_for(Latch& latch, F&& act, G&& waits) {
  std::thread waiter([&] {
    OK(cu.context_set_current(context));
    act();
  });
  while (!waits()) std::this_thread::yield();
  latch.open();
  waiter.join();
}

struct Parts {
  StreamHandle origin = stream(), side = stream();
  EventHandle fork = event(), join = event();
  DevicePtr a = memory(64);
  GraphHandle graph = nullptr;
  Status fill() { return cu.memset_d8_async(a, 1, 64, origin); }
  Status begin(CaptureMode mode = capture_thread_local) {
    return cu.stream_begin_capture(origin, mode);
  }
  Status end() { return cu.stream_end_capture(origin, &graph); }
  // Checks a broken capture: further calls return the status, it ends without a graph, and the
  // stream is usable afterwards.
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

int attribute(RangeAttribute which, DevicePtr at, size_t bytes) {
  int value = 9;
  OK(cu.mem_range_get_attribute(&value, sizeof value, which, at, bytes));
  return value;
}

}  // namespace
