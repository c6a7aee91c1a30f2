// Checks where the software HIP runtime differs from CUDA, through the interface that Hotslot uses.
// Usage: hip_check RUNTIME GROUP. The rest is the same code as CUDA's, and cuda_check checks it.
#include "cuda_check_order.hpp"
#include "device/hip/abi.hpp"

using namespace hotslot::hip;
namespace status = hotslot::cuda::status;

namespace {

hotslot::cuda::Table same;
#define OWN_ENTRY(name, symbol, result, parameters) result(*name) parameters = nullptr;
HOTSLOT_HIP_OWN(OWN_ENTRY)
Status (*get_last_error)();

void open(const char* path) {
  void* library = open_library(path);
#define OWN_SYMBOL(name, text, result, parameters) symbol(library, name, #text);
  HOTSLOT_HIP_OWN(OWN_SYMBOL)
#define SAME_SYMBOL(name, text) symbol(library, same.name.function, #text);
#define OPTIONAL_SYMBOL(name, text) \
  same.name.function = reinterpret_cast<decltype(same.name.function)>(dlsym(library, #text));
  HOTSLOT_HIP_SAME(SAME_SYMBOL, OPTIONAL_SYMBOL)
  symbol(library, get_last_error, "hipGetLastError");
}

StreamHandle stream() {
  StreamHandle made = nullptr;
  OK(same.stream_create(&made, 1, 0));
  return made;
}
DevicePtr memory(size_t bytes) {
  DevicePtr made = 0;
  OK(same.mem_alloc(&made, bytes));
  return made;
}

void is_there(bool recent) {
  int version = 0, count = 0, device = 9;
  OK(driver_get_version(&version));
  IS(recent ? 7 : 5, version / 10'000'000);
  IS(recent, bool(same.event_record_with_flags));
  IS(recent, bool(same.graph_upload));
  OK(init(0));
  OK(same.device_get_count(&count));
  IS(2, count);
  OK(get_device(&device));
  IS(0, device);
  char name[64];
  OK(same.device_get_name(name, sizeof name, 0));
  IS(0,
     strcmp(name, recent ? "Hotslot software driver (HIP 7)" : "Hotslot software driver (HIP 5)"));
  int value = 0;
  OK(device_get_attribute(&value, attribute_multiprocessor_count, 0));
  IS(2, value);
  IS(0, strcmp(get_error_name(700), "hipErrorIllegalAddress"));
  IS(0, strcmp(get_error_name(4711), "hipErrorUnknown"));
  IS(status::invalid_device, set_device(2));
  IS(status::invalid_device, get_last_error());
  OK(get_last_error());
  // While another thread captures globally, the old runtime rejects a query in any mode, and breaks
  // that capture.
  const StreamHandle s = stream();
  hotslot::cuda::EventHandle event = nullptr;
  OK(same.event_create(&event, 2));
  OK(same.stream_begin_capture(s, hotslot::cuda::capture_global));
  std::thread([&] {
    auto mode = hotslot::cuda::capture_relaxed;
    OK(same.exchange_capture_mode(&mode));
    IS(recent ? 0 : status::capture_unsupported, same.event_query(event));
  }).join();
  GraphHandle graph = nullptr;
  IS(recent ? 0 : status::capture_invalidated, same.stream_end_capture(s, &graph));
}
void old_runtime() { is_there(false); }
void new_runtime() { is_there(true); }

void no_device() {
  int count = 9;
  void* at = nullptr;
  IS(status::invalid_device, init(0));
  IS(status::no_device, same.device_get_count(&count));
  IS(0, count);
  IS(status::invalid_device, same.mem_host_alloc(&at, 16, 0));
}

void devices() {
  OK(init(0));
  const StreamHandle here = stream();
  const DevicePtr a = memory(64);
  // Each thread has its own current device.
  OK(set_device(1));
  std::thread([] {
    int device = 9;
    OK(get_device(&device));
    IS(0, device);
  }).join();
  const StreamHandle there = stream();
  const DevicePtr b = memory(64);
  OK(enable_peer_access(0, 0));
  IS(status::peer_access_already_enabled, enable_peer_access(0, 0));
  unsigned char got[64] = {};
  OK(same.memset_d8_async(b, 3, 64, there));
  OK(memcpy_peer_async(reinterpret_cast<void*>(a), 0, reinterpret_cast<void*>(b), 1, 64, there));
  OK(same.stream_synchronize(there));
  IS(status::invalid_handle, same.memset_d8_async(b, 3, 64, here));
  // All devices may use managed memory.
  DevicePtr shared = 0;
  int value = 0;
  OK(device_get_attribute(&value, attribute_managed_memory, 1));
  IS(1, value);
  OK(device_get_attribute(&value, attribute_concurrent_managed_access, 1));
  IS(1, value);
  OK(same.mem_alloc_managed(&shared, 64, hotslot::cuda::mem_attach_global));
  OK(same.memset_d8_async(shared, 3, 64, here));
  OK(same.mem_advise_v1(shared, 64, hotslot::cuda::advise_accessed_by, 1));
  OK(same.mem_prefetch_v1(shared, 64, 1, here));
  OK(same.stream_synchronize(here));
  OK(same.mem_range_get_attribute(&value, 4, hotslot::cuda::range_last_prefetch_location, shared,
                                  64));
  IS(1, value);
  OK(same.mem_range_get_attribute(&value, 4, hotslot::cuda::range_accessed_by, shared, 64));
  IS(1, value);
  OK(same.mem_prefetch_v1(shared, 64, -1, there));
  IS(status::invalid_device, same.mem_prefetch_v1(shared, 64, 2, there));
  IS(status::invalid_value, same.mem_prefetch_v1(a, 64, 1, there));
  OK(same.stream_synchronize(there));
  OK(same.mem_free(shared));
  // The direction of a copy must match its addresses.
  IS(21, memcpy_async(got, reinterpret_cast<void*>(a), 64, 1, here));
  IS(21, memcpy_async(got, reinterpret_cast<void*>(a), 64, 5, here));
  OK(memcpy_async(got, reinterpret_cast<void*>(a), 32, 2, here));
  OK(memcpy_async(got + 32, reinterpret_cast<void*>(a + 32), 32, memcpy_default, here));
  IS(3, got[0]), IS(3, got[63]);
}

// The tests' replacement for a code object. An ELF file with only a header follows below.
const char object[] = "HOTSLOT-SOFTWARE-HSACO\naxpby\nfollow_every f64\nstranger\ngather_places\n";
const char for_other[] = "HOTSLOT-SOFTWARE-HSACO\narch gfx1100\naxpby\n";
const char for_this[] = "HOTSLOT-SOFTWARE-HSACO\narch gfx90a\naxpby\n";

void kernels() {
  OK(init(0));
  const StreamHandle s = stream();
  hotslot::cuda::Module module = nullptr;
  hotslot::cuda::Function add = nullptr, stranger = nullptr, none = nullptr;
  IS(status::invalid_image, same.module_load_data(&module, ".version 6.3\n.target sm_70\n"));
  IS(status::no_binary_for_gpu, same.module_load_data(&module, for_other));
  OK(same.module_load_data(&module, for_this));
  OK(same.module_unload(module));
  unsigned char elf[64] = {0x7f, 'E', 'L', 'F', 2, 1, 1};
  IS(status::invalid_image, same.module_load_data(&module, elf));
  elf[18] = 224, elf[58] = 64;  // AMDGPU, size of a section header
  elf[48] = 0x41;               // gfx1100
  IS(status::no_binary_for_gpu, same.module_load_data(&module, elf));
  elf[48] = 0x3f;
  OK(same.module_load_data(&module, elf));
  OK(same.module_load_data(&module, object));
  IS(status::not_found, same.module_get_function(&none, module, "nothing"));
  OK(same.module_get_function(&add, module, "axpby"));
  OK(same.module_get_function(&stranger, module, "stranger"));
  IS(98, same.launch_kernel(stranger, 1, 1, 1, 64, 1, 1, 0, s, nullptr, nullptr));
  DevicePtr y = memory(16), x = memory(16);
  OK(same.memset_d32_async(x, 0x3f800000, 4, s));
  OK(same.memset_d32_async(y, 0x3f800000, 4, s));
  long long n = 4;
  float a = 2, b = 3;
  void* parameters[] = {&y, &x, &n, &a, &b};
  GraphHandle graph = nullptr, longer = nullptr;
  GraphExecHandle exec = nullptr;
  const auto capture = [&](GraphHandle& out, int launches) {
    OK(same.stream_begin_capture(s, hotslot::cuda::capture_thread_local));
    for (int i = 0; i < launches; ++i)
      OK(same.launch_kernel(add, 1, 1, 1, 64, 1, 1, 0, s, parameters, nullptr));
    OK(same.stream_end_capture(s, &out));
  };
  capture(graph, 1);
  capture(longer, 2);
  OK(same.graph_instantiate(&exec, graph, 0));
  OK(same.graph_launch(exec, s));
  float got[4];
  OK(same.memcpy_dtoh_async(got, y, 16, s));
  IS(5, got[3]);
  // HIP returns the node and the reason separately.
  GraphNode node = nullptr;
  int why = -1;
  OK(graph_exec_update(exec, graph, &node, &why));
  IS(0, why);
  IS(status::graph_exec_update_failure, graph_exec_update(exec, longer, &node, &why));
  IS(2, why);
  IS(0, violations());
  IS(1, live("execs")), IS(2, live("graphs")), IS(0, live("contexts_retained"));
}

void order() {
  OK(init(0));
  order_check::Orders(same, object).all();
}

const Scenario groups[] = {{"old", old_runtime}, {"new", new_runtime}, {"no-device", no_device},
                           {"devices", devices}, {"kernels", kernels}, {"order", order}};

}  // namespace

int main(int count, char** words) {
  if (count != 3) return 2;
  open(words[1]);
  return run_group(groups, words[2]);
}
