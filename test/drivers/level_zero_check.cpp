// Drives the Level Zero software driver through the vendor's loader, the way a backend would and the ways it must not. One
// scenario per process, named by the argument: the loader and the driver read the environment once. Says what does not
// hold and returns 1.
#include <dlfcn.h>
#include <level_zero/ze_api.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "kernels/images.hpp"
#include "level_zero_newer.hpp"

namespace {

namespace newer = software::newer;

int violations = 0;
void check(int line, bool holds, const char* what) {
  if (holds) return;
  std::printf("line %d does not hold: %s\n", line, what);
  violations++;
}
void gives(int line, unsigned expected, unsigned got, const char* what) {
  if (got == expected) return;
  std::printf("line %d: %s gave 0x%x, not 0x%x\n", line, what, got, expected);
  violations++;
}
#define CHECK(condition) check(__LINE__, (condition), #condition)
#define GIVES(status, call) gives(__LINE__, unsigned(status), unsigned(call), #call)
#define OK(call) GIVES(0, call)

constexpr uint64_t soon = 2'000'000'000, forever = ~uint64_t(0);
constexpr size_t n = 64, bytes = n * sizeof(float);

// ---- the driver's own functions --------------------------------------------------------------------------------------

template <class F>
F* own(const char* name) {
  void* library = dlopen(std::getenv("ZE_ENABLE_ALT_DRIVERS"), RTLD_NOW | RTLD_NOLOAD);
  void* symbol = library ? dlsym(library, name) : nullptr;
  if (!symbol) std::printf("the driver has no %s\n", name), std::exit(1);
  return reinterpret_cast<F*>(symbol);
}
void fail(const char* specification) { own<void(const char*)>("hotslot_software_fail")(specification); }
std::string text(const char* name) { return own<const char*()>(name)(); }
// Since the last time.
std::string violated() {
  static size_t seen = 0;
  const std::string all = text("hotslot_software_violations"), fresh = all.substr(seen);
  seen = all.size();
  return fresh;
}
bool complained(const char* about) {
  const std::string all = violated();
  if (all.find(about) != std::string::npos) return true;
  std::printf("complained about '%s', not about '%s'\n", all.c_str(), about);
  return false;
}

// ---- what every scenario begins with ---------------------------------------------------------------------------------

struct Setup {
  ze_driver_handle_t driver{};
  std::vector<ze_device_handle_t> devices;
  ze_device_handle_t device{};
  ze_context_handle_t context{};
  ze_event_pool_handle_t pool{};
  uint32_t next_event = 0;
  static constexpr uint32_t events = 64;

  Setup() {
    OK(zeInit(0));
    uint32_t count = 0;
    OK(zeDriverGet(&count, nullptr));
    CHECK(count == 1);
    if (count != 1) std::exit(1);
    OK(zeDriverGet(&count, &driver));
    OK(zeDeviceGet(driver, &count, nullptr));
    devices.resize(count);
    OK(zeDeviceGet(driver, &count, devices.data()));
    device = devices.at(0);
    const ze_context_desc_t desc{ZE_STRUCTURE_TYPE_CONTEXT_DESC, nullptr, 0};
    OK(zeContextCreate(driver, &desc, &context));
    const ze_event_pool_desc_t pool_desc{ZE_STRUCTURE_TYPE_EVENT_POOL_DESC, nullptr,
                                         ZE_EVENT_POOL_FLAG_HOST_VISIBLE | ZE_EVENT_POOL_FLAG_KERNEL_TIMESTAMP, events};
    OK(zeEventPoolCreate(context, &pool_desc, 0, nullptr, &pool));
  }
  // Everything was destroyed: the driver knows of nothing any more.
  void end() {
    OK(zeEventPoolDestroy(pool));
    OK(zeContextDestroy(context));
    const std::string left = text("hotslot_software_live");
    if (!left.empty()) std::printf("left over:\n%s", left.c_str()), violations++;
  }
  ze_event_handle_t event(ze_event_scope_flags_t signal = ZE_EVENT_SCOPE_FLAG_HOST) {
    const ze_event_desc_t desc{ZE_STRUCTURE_TYPE_EVENT_DESC, nullptr, next_event++ % events, signal, 0};
    ze_event_handle_t out{};
    OK(zeEventCreate(pool, &desc, &out));
    return out;
  }
  ze_command_list_handle_t immediate(uint32_t ordinal = 0, uint32_t flags = 0, uint32_t index = 0) {
    const ze_command_queue_desc_t desc{ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC, nullptr, ordinal, index, flags, ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS,
                                       ZE_COMMAND_QUEUE_PRIORITY_NORMAL};
    ze_command_list_handle_t out{};
    OK(zeCommandListCreateImmediate(context, device, &desc, &out));
    return out;
  }
  ze_command_queue_handle_t queue(uint32_t ordinal = 0) {
    const ze_command_queue_desc_t desc{ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC, nullptr, ordinal, 0, 0, ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS,
                                       ZE_COMMAND_QUEUE_PRIORITY_NORMAL};
    ze_command_queue_handle_t out{};
    OK(zeCommandQueueCreate(context, device, &desc, &out));
    return out;
  }
  ze_command_list_handle_t list(uint32_t ordinal = 0, uint32_t flags = 0) {
    const ze_command_list_desc_t desc{ZE_STRUCTURE_TYPE_COMMAND_LIST_DESC, nullptr, ordinal, flags};
    ze_command_list_handle_t out{};
    OK(zeCommandListCreate(context, device, &desc, &out));
    return out;
  }
  float* memory(size_t size = bytes, uint32_t which = 0) {
    const ze_device_mem_alloc_desc_t desc{ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC, nullptr, 0, 0};
    void* out = nullptr;
    OK(zeMemAllocDevice(context, &desc, size, 64, devices[which], &out));
    return static_cast<float*>(out);
  }
  float* host(size_t size = bytes) {
    const ze_host_mem_alloc_desc_t desc{ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC, nullptr, 0};
    void* out = nullptr;
    OK(zeMemAllocHost(context, &desc, size, 64, &out));
    return static_cast<float*>(out);
  }
  void free(void* memory) { OK(zeMemFree(context, memory)); }
  // Waits for everything on an immediate list, by an event as there is no other way in spec 1.4.
  void finish(ze_command_list_handle_t list, ze_result_t expected = ZE_RESULT_SUCCESS) {
    auto done = event();
    OK(zeCommandListAppendBarrier(list, done, 0, nullptr));
    GIVES(expected, zeEventHostSynchronize(done, soon));
    OK(zeEventDestroy(done));
  }
  float read(ze_command_list_handle_t list, const float* from) {
    float value = -1;
    auto done = event();
    OK(zeCommandListAppendMemoryCopy(list, &value, from, sizeof value, done, 0, nullptr));
    OK(zeEventHostSynchronize(done, soon));
    OK(zeEventDestroy(done));
    return value;
  }
};

// A SPIR-V module of kernels that do nothing: 'p' a float pointer, 'i' 64 bits, 'f' a float, 'd' a double.
std::vector<uint32_t> spirv(const std::map<std::string, std::string>& kernels) {
  std::vector<uint32_t> words{0x07230203, 0x00010000, 0, 1000, 0};
  const auto say = [&](uint32_t op, std::vector<uint32_t> operands) {
    words.push_back(uint32_t(operands.size() + 1) << 16 | op);
    words.insert(words.end(), operands.begin(), operands.end());
  };
  say(17, {4}), say(17, {6}), say(17, {11});
  bool wide = false;
  for (auto& [name, parameters] : kernels) wide = wide || parameters.find('d') != std::string::npos;
  if (wide) say(17, {10});
  say(14, {2, 2});
  uint32_t id = 100;
  for (auto& [name, parameters] : kernels) {
    std::vector<uint32_t> operands{6, id++};
    operands.resize(2 + name.size() / 4 + 1);
    std::memcpy(&operands[2], name.data(), name.size());
    say(15, operands);
  }
  const std::map<char, uint32_t> types{{'v', 1}, {'f', 2}, {'i', 3}, {'d', 4}, {'p', 5}};
  say(19, {1}), say(22, {2, 32}), say(21, {3, 64, 0}), say(32, {5, 5, 2});
  if (wide) say(22, {4, 64});
  uint32_t type = 50, function = 100, value = 200;
  for (auto& [name, parameters] : kernels) {
    std::vector<uint32_t> operands{type, 1};
    for (char each : parameters) operands.push_back(types.at(each));
    say(33, operands);
    say(54, {1, function++, 0, type++});
    for (char each : parameters) say(55, {types.at(each), value++});
    say(248, {value++}), say(253, {}), say(56, {});
  }
  return words;
}

struct Program {
  ze_module_handle_t module{};
  Program() = default;
  Program(Setup& s, const std::map<std::string, std::string>& kernels) {
    const auto words = spirv(kernels);
    const ze_module_desc_t desc{ZE_STRUCTURE_TYPE_MODULE_DESC, nullptr, ZE_MODULE_FORMAT_IL_SPIRV, words.size() * 4,
                                reinterpret_cast<const uint8_t*>(words.data()), nullptr, nullptr};
    OK(zeModuleCreate(s.context, s.device, &desc, &module, nullptr));
  }
  ze_kernel_handle_t kernel(const char* name, ze_result_t expected = ZE_RESULT_SUCCESS) const {
    const ze_kernel_desc_t desc{ZE_STRUCTURE_TYPE_KERNEL_DESC, nullptr, 0, name};
    ze_kernel_handle_t out{};
    GIVES(expected, zeKernelCreate(module, &desc, &out));
    if (out) OK(zeKernelSetGroupSize(out, 64, 1, 1));
    return out;
  }
};
template <class T>
void argument(ze_kernel_handle_t kernel, uint32_t index, T value, ze_result_t expected = ZE_RESULT_SUCCESS) {
  GIVES(expected, zeKernelSetArgumentValue(kernel, index, sizeof value, &value));
}
constexpr ze_group_count_t one_group{1, 1, 1};
const std::map<std::string, std::string> axpby{{"axpby", "ppiff"}};

// Holds its list until opened.
struct Latch {
  Setup& s;
  Program program;
  ze_kernel_handle_t kernel;
  int32_t* word;
  explicit Latch(Setup& s) : s(s), program(s, axpby), kernel(program.kernel("latch")), word(reinterpret_cast<int32_t*>(s.host(4))) {
    __atomic_store_n(word, 0, __ATOMIC_SEQ_CST);
    argument(kernel, 0, word), argument(kernel, 1, int64_t(5000));
  }
  void hold(ze_command_list_handle_t list, ze_event_handle_t signal = nullptr) {
    OK(zeCommandListAppendLaunchKernel(list, kernel, &one_group, signal, 0, nullptr));
  }
  void open() { __atomic_store_n(word, 1, __ATOMIC_SEQ_CST); }
  void end() {
    OK(zeKernelDestroy(kernel)), OK(zeModuleDestroy(program.module));
    s.free(word);
  }
};

// ---- scenarios -------------------------------------------------------------------------------------------------------

void basics() {
  Setup s;
  for (auto stype : {ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES, ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES_1_2}) {
    ze_device_properties_t p{};
    p.stype = stype;
    OK(zeDeviceGetProperties(s.device, &p));
    CHECK(std::string(p.name) == "Hotslot software driver (Level Zero 1.4)");
    CHECK(p.type == ZE_DEVICE_TYPE_GPU && p.kernelTimestampValidBits == 32);
    CHECK(p.timerResolution == (stype == ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES ? 80 : 12'500'000));
  }
  ze_api_version_t version;
  OK(zeDriverGetApiVersion(s.driver, &version));
  CHECK(version == ZE_MAKE_VERSION(1, 4));
  uint32_t count = 0;
  OK(zeDriverGetExtensionProperties(s.driver, &count, nullptr));
  CHECK(count == 0);
  OK(zeDeviceGetCommandQueueGroupProperties(s.device, &count, nullptr));
  CHECK(count == 2);
  ze_command_queue_group_properties_t groups[2]{};
  for (auto& group : groups) group.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_GROUP_PROPERTIES;
  OK(zeDeviceGetCommandQueueGroupProperties(s.device, &count, groups));
  CHECK(groups[0].flags == 3 && groups[1].flags == ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COPY && groups[1].numQueues == 2);

  // Host, device, device, host: each step waits for the one before.
  auto* a = s.memory();
  auto* b = s.memory();
  std::vector<float> in(n), out(n);
  for (size_t i = 0; i < n; ++i) in[i] = float(i);
  auto list = s.immediate();
  ze_event_handle_t e[3] = {s.event(), s.event(), s.event()};
  for (auto event : e) GIVES(ZE_RESULT_NOT_READY, zeEventQueryStatus(event));
  OK(zeCommandListAppendMemoryCopy(list, a, in.data(), bytes, e[0], 0, nullptr));
  OK(zeCommandListAppendMemoryCopy(list, b, a, bytes, e[1], 1, &e[0]));
  OK(zeCommandListAppendMemoryCopy(list, out.data(), b, bytes, e[2], 1, &e[1]));
  OK(zeEventHostSynchronize(e[2], soon));
  CHECK(in == out);
  // A signalled event stays so until it is reset; the host's own signal counts the same.
  for (auto event : e) OK(zeEventQueryStatus(event));
  ze_kernel_timestamp_result_t first{}, last{};
  OK(zeEventQueryKernelTimestamp(e[0], &first));
  OK(zeEventQueryKernelTimestamp(e[2], &last));
  CHECK(first.global.kernelEnd <= last.global.kernelStart && last.global.kernelEnd <= 0xffffffff);
  OK(zeEventHostReset(e[0]));
  GIVES(ZE_RESULT_NOT_READY, zeEventQueryStatus(e[0]));
  GIVES(ZE_RESULT_NOT_READY, zeEventHostSynchronize(e[0], 1'000'000));
  // Waiting for what nobody has signalled yet waits, whoever signals.
  const float two = 2;
  OK(zeCommandListAppendMemoryFill(list, a, &two, 4, bytes, e[1], 1, &e[0]));
  OK(zeEventHostReset(e[2]));
  OK(zeCommandListAppendMemoryCopy(list, out.data(), a, bytes, e[2], 1, &e[1]));  // e[1] is signalled still: it passes at once
  OK(zeEventHostSynchronize(e[2], soon));
  CHECK(out[1] == 1);
  OK(zeEventHostSignal(e[0]));
  s.finish(list);
  CHECK(s.read(list, a) == 2);
  // On the device: reset, wait, signal.
  OK(zeCommandListAppendEventReset(list, e[1]));
  s.finish(list);
  GIVES(ZE_RESULT_NOT_READY, zeEventQueryStatus(e[1]));
  auto copies = s.immediate(1);
  OK(zeCommandListAppendWaitOnEvents(copies, 1, &e[1]));
  const uint8_t zero = 0;
  OK(zeCommandListAppendMemoryFill(copies, a, &zero, 1, bytes, nullptr, 0, nullptr));
  CHECK(s.read(list, a) == 2);
  OK(zeCommandListAppendSignalEvent(list, e[1]));
  s.finish(copies);
  CHECK(s.read(list, a) == 0);

  for (auto event : e) OK(zeEventDestroy(event));
  OK(zeCommandListDestroy(copies));
  OK(zeCommandListDestroy(list));
  s.free(a), s.free(b);
  CHECK(violated().empty());
  CHECK(text("hotslot_software_calls").find("zeCommandListAppendMemoryCopy 7\n") != std::string::npos);
  s.end();
}

// Nothing but events and barriers orders a list that is not in-order, and what is not ordered comes the other way round.
void unordered() {
  Setup s;
  auto list = s.immediate();
  auto* a = s.memory();
  const float one = 1, two = 2, three = 3;
  OK(zeCommandListAppendMemoryFill(list, a, &one, 4, bytes, nullptr, 0, nullptr));
  OK(zeCommandListAppendMemoryFill(list, a, &two, 4, bytes, nullptr, 0, nullptr));
  s.finish(list);
  CHECK(s.read(list, a) == 1);
  OK(zeCommandListAppendMemoryFill(list, a, &one, 4, bytes, nullptr, 0, nullptr));
  OK(zeCommandListAppendBarrier(list, nullptr, 0, nullptr));
  OK(zeCommandListAppendMemoryFill(list, a, &two, 4, bytes, nullptr, 0, nullptr));
  s.finish(list);
  CHECK(s.read(list, a) == 2);
  // A signal without a barrier overtakes what stands before it.
  auto early = s.event();
  OK(zeCommandListAppendMemoryFill(list, a, &three, 4, bytes, nullptr, 0, nullptr));
  OK(zeCommandListAppendSignalEvent(list, early));
  auto other = s.immediate();
  float seen = 0;
  auto done = s.event();
  OK(zeCommandListAppendMemoryCopy(other, &seen, a, 4, done, 1, &early));
  OK(zeEventHostSynchronize(done, soon));
  s.finish(list);
  CHECK(s.read(list, a) == 3);
  // A barrier with events waits for those alone, and holds what comes later.
  auto gate = s.event();
  Latch latch(s);
  latch.hold(list);
  OK(zeCommandListAppendBarrier(list, done = s.event(), 1, &gate));
  OK(zeCommandListAppendMemoryFill(list, a, &one, 4, bytes, nullptr, 0, nullptr));
  GIVES(ZE_RESULT_NOT_READY, zeEventHostSynchronize(done, 5'000'000));
  CHECK(s.read(other, a) == 3);
  latch.open();
  OK(zeEventHostSignal(gate));
  OK(zeEventHostSynchronize(done, soon));
  s.finish(list);
  CHECK(s.read(list, a) == 1);
  // The same within a regular list.
  auto queue = s.queue();
  for (const bool ordered : {false, true}) {
    auto regular = s.list();
    for (const float* value : {&one, &two, &three}) {
      OK(zeCommandListAppendMemoryFill(regular, a, value, 4, bytes, nullptr, 0, nullptr));
      if (ordered) OK(zeCommandListAppendBarrier(regular, nullptr, 0, nullptr));
    }
    OK(zeCommandListClose(regular));
    OK(zeCommandQueueExecuteCommandLists(queue, 1, &regular, nullptr));
    OK(zeCommandQueueSynchronize(queue, soon));
    CHECK(s.read(list, a) == (ordered ? 3 : 1));
    OK(zeCommandListDestroy(regular));
  }
}

void lists() {
  Setup s;
  auto queue = s.queue(), second = s.queue();
  auto reader = s.immediate();
  auto* a = s.memory();
  auto* b = s.memory();
  const float one = 1;
  const ze_fence_desc_t fence_desc{ZE_STRUCTURE_TYPE_FENCE_DESC, nullptr, 0};
  ze_fence_handle_t fence{};
  OK(zeFenceCreate(queue, &fence_desc, &fence));
  Program program(s, axpby);
  auto kernel = program.kernel("axpby");
  argument(kernel, 0, b), argument(kernel, 1, a), argument(kernel, 2, int64_t(n)), argument(kernel, 3, 1.0f), argument(kernel, 4, 1.0f);

  auto list = s.list();
  OK(zeCommandListAppendMemoryFill(list, a, &one, 4, bytes, nullptr, 0, nullptr));
  OK(zeCommandListAppendBarrier(list, nullptr, 0, nullptr));
  OK(zeCommandListAppendLaunchKernel(list, kernel, &one_group, nullptr, 0, nullptr));
  GIVES(ZE_RESULT_ERROR_INVALID_ARGUMENT, zeCommandQueueExecuteCommandLists(queue, 1, &list, nullptr));
  CHECK(complained("before it is closed"));
  OK(zeCommandListClose(list));
  GIVES(ZE_RESULT_ERROR_INVALID_ARGUMENT, zeCommandListAppendBarrier(list, nullptr, 0, nullptr));
  CHECK(complained("closed list"));
  GIVES(ZE_RESULT_ERROR_INVALID_ARGUMENT, zeCommandListClose(list));
  // The arguments are those of the append, however often it runs.
  argument(kernel, 3, 100.0f);
  const float zero = 0;
  OK(zeCommandListAppendMemoryFill(reader, b, &zero, 4, bytes, nullptr, 0, nullptr));
  s.finish(reader);
  for (int i = 0; i < 3; ++i) OK(zeCommandQueueExecuteCommandLists(queue, 1, &list, i == 2 ? fence : nullptr));
  OK(zeFenceHostSynchronize(fence, soon));
  OK(zeFenceQueryStatus(fence));
  CHECK(s.read(reader, b) == 3);
  GIVES(ZE_RESULT_ERROR_INVALID_SYNCHRONIZATION_OBJECT, zeCommandQueueExecuteCommandLists(queue, 1, &list, fence));
  OK(zeFenceReset(fence));
  GIVES(ZE_RESULT_NOT_READY, zeFenceQueryStatus(fence));
  OK(zeCommandQueueSynchronize(queue, soon));
  (void)violated();

  // While it is on one queue it is not given to another, reset, destroyed, nor is anything it uses.
  Latch latch(s);
  auto held = s.list();
  latch.hold(held);
  OK(zeCommandListAppendMemoryFill(held, a, &one, 4, bytes, nullptr, 0, nullptr));
  OK(zeCommandListClose(held));
  OK(zeCommandQueueExecuteCommandLists(queue, 1, &held, nullptr));
  GIVES(ZE_RESULT_NOT_READY, zeCommandQueueSynchronize(queue, 1'000'000));
  GIVES(ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE, zeCommandQueueExecuteCommandLists(second, 1, &held, nullptr));
  CHECK(complained("on another queue"));
  GIVES(ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE, zeCommandListReset(held));
  GIVES(ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE, zeCommandListDestroy(held));
  GIVES(ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE, zeCommandQueueDestroy(queue));
  GIVES(ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE, zeKernelDestroy(latch.kernel));
  GIVES(ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE, zeMemFree(s.context, latch.word));
  CHECK(complained("while queued work uses it"));
  latch.open();
  OK(zeCommandQueueSynchronize(queue, soon));

  // What it refers to has to be there when it runs.
  s.free(a);
  GIVES(ZE_RESULT_ERROR_INVALID_ARGUMENT, zeCommandQueueExecuteCommandLists(queue, 1, &held, nullptr));
  CHECK(complained("freed"));
  OK(zeCommandListReset(held));
  OK(zeCommandListAppendMemoryFill(held, b, &one, 4, bytes, nullptr, 0, nullptr));
  OK(zeCommandListClose(held));
  GIVES(ZE_RESULT_ERROR_INVALID_ARGUMENT, zeCommandListAppendMemoryCopy(reader, b, a + 1, 4, nullptr, 0, nullptr));
  CHECK(complained("a copy's source: 4 bytes of memory that is freed"));
  OK(zeCommandQueueExecuteCommandLists(queue, 1, &held, nullptr));
  OK(zeCommandQueueSynchronize(queue, soon));
  auto copies = s.queue(1);
  GIVES(ZE_RESULT_ERROR_INVALID_COMMAND_LIST_TYPE, zeCommandQueueExecuteCommandLists(copies, 1, &held, nullptr));

  OK(zeCommandListDestroy(held)), OK(zeCommandListDestroy(list)), OK(zeCommandListDestroy(reader));
  GIVES(ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE, zeCommandQueueDestroy(queue));
  OK(zeFenceDestroy(fence));
  OK(zeCommandQueueDestroy(queue)), OK(zeCommandQueueDestroy(second)), OK(zeCommandQueueDestroy(copies));
  latch.end();
  GIVES(ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE, zeModuleDestroy(program.module));
  OK(zeKernelDestroy(kernel)), OK(zeModuleDestroy(program.module));
  s.free(b);
  s.end();
}

void kernels() {
  Setup s;
  const std::map<std::string, std::string> odd{{"axpby", "ppiff"}, {"copy2d", "ppiiii"}, {"nobody", "p"}, {"adam", "ppi"}};
  Program program(s, odd);
  uint32_t count = 0;
  OK(zeModuleGetKernelNames(program.module, &count, nullptr));
  CHECK(count == 4);
  program.kernel("td_loss", ZE_RESULT_ERROR_INVALID_KERNEL_NAME);
  program.kernel("nobody", ZE_RESULT_ERROR_UNSUPPORTED_FEATURE);
  program.kernel("adam", ZE_RESULT_ERROR_INVALID_ARGUMENT);
  auto kernel = program.kernel("axpby");
  auto list = s.immediate();
  auto* x = s.memory();
  auto* y = s.host();
  for (size_t i = 0; i < n; ++i) y[i] = float(i);
  const float half = 0.5f;
  OK(zeCommandListAppendMemoryFill(list, x, &half, 4, bytes, nullptr, 0, nullptr));
  s.finish(list);
  const auto launch = [&](ze_result_t expected, ze_group_count_t groups = one_group) {
    GIVES(expected, zeCommandListAppendLaunchKernel(list, kernel, &groups, nullptr, 0, nullptr));
  };
  launch(ZE_RESULT_ERROR_INVALID_ARGUMENT);
  CHECK(complained("never set"));
  argument(kernel, 0, y), argument(kernel, 1, x), argument(kernel, 2, int64_t(n)), argument(kernel, 3, 4.0f), argument(kernel, 4, 2.0f);
  launch(ZE_RESULT_SUCCESS);
  s.finish(list);
  for (size_t i = 0; i < n; ++i) CHECK(y[i] == 2 + 2 * float(i));
  argument(kernel, 3, 4.0, ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_SIZE);
  argument(kernel, 5, 4.0f, ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_INDEX);
  launch(ZE_RESULT_ERROR_INVALID_GROUP_SIZE_DIMENSION, {1, 2, 1});
  launch(ZE_RESULT_ERROR_INVALID_GROUP_SIZE_DIMENSION, {0, 1, 1});
  GIVES(ZE_RESULT_ERROR_INVALID_GROUP_SIZE_DIMENSION, zeKernelSetGroupSize(kernel, 2048, 1, 1));
  argument(kernel, 2, int64_t(n + 1));
  launch(ZE_RESULT_ERROR_INVALID_ARGUMENT);
  CHECK(complained("only partly"));
  argument(kernel, 2, int64_t(0));
  launch(ZE_RESULT_ERROR_INVALID_ARGUMENT);
  CHECK(complained("n must be at least 1"));
  std::vector<float> pageable(n);
  argument(kernel, 2, int64_t(n)), argument(kernel, 0, pageable.data());
  launch(ZE_RESULT_ERROR_INVALID_ARGUMENT);
  CHECK(complained("no live allocation"));
  argument(kernel, 0, y);
  auto copies = s.immediate(1);
  GIVES(ZE_RESULT_ERROR_INVALID_COMMAND_LIST_TYPE, zeCommandListAppendLaunchKernel(copies, kernel, &one_group, nullptr, 0, nullptr));

  // What does not build says why.
  for (const bool junk : {true, false}) {
    auto words = spirv({{"axpby", "ppidd"}});
    if (junk) words = {1, 2, 3};
    const ze_module_desc_t desc{ZE_STRUCTURE_TYPE_MODULE_DESC, nullptr, ZE_MODULE_FORMAT_IL_SPIRV, words.size() * 4,
                                reinterpret_cast<const uint8_t*>(words.data()), nullptr, nullptr};
    ze_module_handle_t module{};
    ze_module_build_log_handle_t log{};
    GIVES(ZE_RESULT_ERROR_MODULE_BUILD_FAILURE, zeModuleCreate(s.context, s.device, &desc, &module, &log));
    size_t size = 0;
    OK(zeModuleBuildLogGetString(log, &size, nullptr));
    std::string said(size, ' ');
    OK(zeModuleBuildLogGetString(log, &size, said.data()));
    CHECK(said.find(junk ? "not SPIR-V" : "Float64") != std::string::npos);
    OK(zeModuleBuildLogDestroy(log));
  }

  // A kernel that fails takes its list with it, and whoever waits for that list, but nobody else.
  auto failing = program.kernel("fail");
  auto after = s.event();
  auto doomed = s.immediate(), waiting = s.immediate();
  OK(zeCommandListAppendLaunchKernel(doomed, failing, &one_group, after, 0, nullptr));
  GIVES(ZE_RESULT_ERROR_DEVICE_LOST, zeEventHostSynchronize(after, soon));
  GIVES(ZE_RESULT_ERROR_DEVICE_LOST, zeEventQueryStatus(after));
  GIVES(ZE_RESULT_ERROR_DEVICE_LOST, zeCommandListAppendBarrier(doomed, nullptr, 0, nullptr));
  auto later = s.event();
  OK(zeCommandListAppendBarrier(waiting, later, 1, &after));
  GIVES(ZE_RESULT_ERROR_DEVICE_LOST, zeEventHostSynchronize(later, soon));
  CHECK(s.read(list, x) == 0.5f);
  auto queue = s.queue();
  auto regular = s.list();
  OK(zeCommandListAppendLaunchKernel(regular, failing, &one_group, nullptr, 0, nullptr));
  OK(zeCommandListClose(regular));
  OK(zeCommandQueueExecuteCommandLists(queue, 1, &regular, nullptr));
  GIVES(ZE_RESULT_ERROR_DEVICE_LOST, zeCommandQueueSynchronize(queue, soon));
  GIVES(ZE_RESULT_ERROR_DEVICE_LOST, zeCommandQueueExecuteCommandLists(queue, 1, &regular, nullptr));
  // A reset event forgets.
  OK(zeEventHostReset(after));
  GIVES(ZE_RESULT_NOT_READY, zeEventQueryStatus(after));
}

// The loader's validation layer sees these; the driver never does.
void validation() {
  Setup s;
  GIVES(ZE_RESULT_ERROR_INVALID_NULL_HANDLE, zeEventQueryStatus(nullptr));
  GIVES(ZE_RESULT_ERROR_INVALID_NULL_HANDLE, zeCommandListAppendBarrier(nullptr, nullptr, 0, nullptr));
  auto list = s.immediate();
  GIVES(ZE_RESULT_ERROR_INVALID_NULL_POINTER, zeCommandListAppendMemoryCopy(list, nullptr, list, 4, nullptr, 0, nullptr));
  GIVES(ZE_RESULT_ERROR_INVALID_SIZE, zeCommandListAppendBarrier(list, nullptr, 1, nullptr));
  void* out = nullptr;
  const ze_device_mem_alloc_desc_t memory{ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC, nullptr, 0, 0};
  GIVES(ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT, zeMemAllocDevice(s.context, &memory, 4096, 3, s.device, &out));
  ze_command_queue_desc_t desc{ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC, nullptr, 0, 0, newer::queue_in_order, ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS,
                               ZE_COMMAND_QUEUE_PRIORITY_NORMAL};
  ze_command_list_handle_t refused{};
  GIVES(ZE_RESULT_ERROR_INVALID_ENUMERATION, zeCommandListCreateImmediate(s.context, s.device, &desc, &refused));
  CHECK(violated().empty());
  OK(zeCommandListDestroy(list));
  s.end();
}

// What the layer lets pass and a driver of silicon might too.
void mistakes() {
  Setup s;
  void* nowhere = nullptr;
  GIVES(ZE_RESULT_ERROR_UNSUPPORTED_FEATURE, zeDriverGetExtensionFunctionAddress(s.driver, "zexDriverImportExternalPointer", &nowhere));
  auto list = s.immediate();
  auto* a = s.memory();
  auto event = s.event();
  const ze_event_desc_t again{ZE_STRUCTURE_TYPE_EVENT_DESC, nullptr, 0, 0, 0};
  ze_event_handle_t twin{};
  GIVES(ZE_RESULT_ERROR_INVALID_ARGUMENT, zeEventCreate(s.pool, &again, &twin));
  CHECK(complained("two live events"));
  GIVES(ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE, zeEventPoolDestroy(s.pool));
  OK(zeEventDestroy(event));
  GIVES(ZE_RESULT_ERROR_INVALID_ARGUMENT, zeEventQueryStatus(event));
  CHECK(complained("zeEventQueryStatus: a destroyed handle"));
  GIVES(ZE_RESULT_ERROR_INVALID_ARGUMENT, zeCommandListAppendBarrier(list, reinterpret_cast<ze_event_handle_t>(list), 0, nullptr));
  CHECK(complained("a handle of something else"));
  GIVES(ZE_RESULT_ERROR_INVALID_ARGUMENT, zeEventQueryStatus(reinterpret_cast<ze_event_handle_t>(&s)));
  CHECK(complained("no handle of this driver"));
  auto device_scope = s.event(ZE_EVENT_SCOPE_FLAG_DEVICE);
  OK(zeCommandListAppendBarrier(list, device_scope, 0, nullptr));
  OK(zeEventHostSynchronize(device_scope, soon));
  CHECK(complained("leaves the host out"));
  OK(zeEventDestroy(device_scope));
  GIVES(ZE_RESULT_ERROR_OVERLAPPING_REGIONS, zeCommandListAppendMemoryCopy(list, a, a + 1, 8, nullptr, 0, nullptr));
  GIVES(ZE_RESULT_ERROR_INVALID_ARGUMENT, zeCommandListAppendMemoryCopy(list, a + n - 1, &s, 8, nullptr, 0, nullptr));
  CHECK(complained("only partly"));
  const uint8_t pattern[16]{};
  GIVES(ZE_RESULT_ERROR_INVALID_SIZE, zeCommandListAppendMemoryFill(list, a, pattern, 3, 9, nullptr, 0, nullptr));
  GIVES(ZE_RESULT_ERROR_INVALID_SIZE, zeCommandListAppendMemoryFill(list, a, pattern, 4, 9, nullptr, 0, nullptr));
  auto copies = s.immediate(1);
  GIVES(ZE_RESULT_ERROR_INVALID_SIZE, zeCommandListAppendMemoryFill(copies, a, pattern, 16, 16, nullptr, 0, nullptr));
  ze_command_queue_desc_t desc{ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC, nullptr, 1, 1, 0, ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS,
                               ZE_COMMAND_QUEUE_PRIORITY_NORMAL};
  ze_command_list_handle_t other{};
  GIVES(ZE_RESULT_ERROR_INVALID_ARGUMENT, zeCommandListCreateImmediate(s.context, s.device, &desc, &other));
  CHECK(complained("EXPLICIT_ONLY"));
  desc.flags = ZE_COMMAND_QUEUE_FLAG_EXPLICIT_ONLY;
  OK(zeCommandListCreateImmediate(s.context, s.device, &desc, &other));
  OK(zeCommandListDestroy(other));
  desc.index = 2;
  GIVES(ZE_RESULT_ERROR_INVALID_ARGUMENT, zeCommandListCreateImmediate(s.context, s.device, &desc, &other));
  // Memory, events and lists with work on them stay.
  Latch latch(s);
  auto gate = s.event();
  OK(zeCommandListAppendMemoryFill(list, a, pattern, 4, bytes, nullptr, 1, &gate));
  (void)violated();
  GIVES(ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE, zeMemFree(s.context, a));
  CHECK(complained("freed while queued work uses it"));
  GIVES(ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE, zeEventDestroy(gate));
  GIVES(ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE, zeCommandListDestroy(list));
  GIVES(ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE, zeContextDestroy(s.context));
  OK(zeEventHostSignal(gate));
  s.finish(list);
  OK(zeEventDestroy(gate));
  GIVES(ZE_RESULT_ERROR_INVALID_ARGUMENT, zeMemFree(s.context, a + 1));
  // Two threads with one list.
  std::atomic<bool> stop{false};
  std::set<std::string> said;
  const auto append = [&] {
    while (!stop) zeCommandListAppendMemoryFill(copies, a, pattern, 1, bytes, nullptr, 0, nullptr);
  };
  std::thread first(append), second(append);
  for (int i = 0; i < 2000 && said.empty(); ++i) {
    if (violated().find("two threads") != std::string::npos) said.insert("two threads");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  stop = true;
  first.join(), second.join();
  CHECK(!said.empty());
  s.finish(copies);
  const std::string live = text("hotslot_software_live");
  CHECK(live.find("lists 2\n") != std::string::npos && live.find("allocations 2\nbytes 260\n") != std::string::npos);
  latch.end();
  OK(zeCommandListDestroy(list)), OK(zeCommandListDestroy(copies));
  s.free(a);
  GIVES(ZE_RESULT_ERROR_INVALID_ARGUMENT, zeMemFree(s.context, a));
  s.end();
}

void injection() {
  // HOTSLOT_SOFTWARE_FAIL=zeMemAllocDevice:2:0x70000003 is set.
  Setup s;
  auto* first = s.memory();
  const ze_device_mem_alloc_desc_t desc{ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC, nullptr, 0, 0};
  void* out = nullptr;
  GIVES(ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY, zeMemAllocDevice(s.context, &desc, bytes, 64, s.device, &out));
  auto* second = s.memory();
  auto event = s.event();
  fail("zeEventHostSignal,zeEventQueryStatus:3:0x70000001:forever");
  GIVES(ZE_RESULT_ERROR_UNKNOWN, zeEventHostSignal(event));
  OK(zeEventHostSignal(event));
  for (const uint32_t status : {0u, 0u, 0x70000001u, 0x70000001u}) GIVES(status, zeEventQueryStatus(event));
  fail(nullptr);
  OK(zeEventQueryStatus(event));
  CHECK(text("hotslot_software_calls").find("zeMemAllocDevice 3\n") != std::string::npos);
  OK(zeEventDestroy(event));
  s.free(first), s.free(second);
  s.end();
}

void peers() {
  // devices=2,memory=64 is set.
  Setup s;
  CHECK(s.devices.size() == 2);
  ze_bool_t can = 0;
  OK(zeDeviceCanAccessPeer(s.devices[0], s.devices[1], &can));
  CHECK(can);
  auto* a = s.memory(bytes, 0);
  auto* b = s.memory(bytes, 1);
  auto list = s.immediate();
  const float one = 1;
  OK(zeCommandListAppendMemoryFill(list, a, &one, 4, bytes, nullptr, 0, nullptr));
  OK(zeCommandListAppendBarrier(list, nullptr, 0, nullptr));
  OK(zeCommandListAppendMemoryCopy(list, b, a, bytes, nullptr, 0, nullptr));
  s.finish(list);
  CHECK(s.read(list, b) == 1);
  ze_memory_allocation_properties_t properties{};
  properties.stype = ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES;
  ze_device_handle_t where{};
  OK(zeMemGetAllocProperties(s.context, b + 3, &properties, &where));
  CHECK(properties.type == ZE_MEMORY_TYPE_DEVICE && where == s.devices[1]);
  OK(zeMemGetAllocProperties(s.context, &s, &properties, &where));
  CHECK(properties.type == ZE_MEMORY_TYPE_UNKNOWN);
  const ze_device_mem_alloc_desc_t desc{ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC, nullptr, 0, 0};
  void* out = nullptr;
  GIVES(ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY, zeMemAllocDevice(s.context, &desc, 64 << 20, 64, s.device, &out));
  s.free(a), s.free(b);
  OK(zeCommandListDestroy(list));
  s.end();
}

// Memory that moves: its device's and the host's, and where the driver says so everybody's. devices=2,memory=64 is set.
void shared() {
  Setup s;
  const ze_device_mem_alloc_desc_t on{ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC, nullptr, 0, 0};
  const ze_host_mem_alloc_desc_t with{ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC, nullptr, 0};
  const auto allocate = [&](ze_result_t expected, size_t size, ze_device_handle_t device) {
    void* out = nullptr;
    GIVES(expected, zeMemAllocShared(s.context, &on, &with, size, 64, device, &out));
    return static_cast<float*>(out);
  };
  ze_device_memory_access_properties_t access{};
  access.stype = ZE_STRUCTURE_TYPE_DEVICE_MEMORY_ACCESS_PROPERTIES;
  OK(zeDeviceGetMemoryAccessProperties(s.device, &access));
  if (!access.sharedSingleDeviceAllocCapabilities) {
    allocate(ZE_RESULT_ERROR_UNSUPPORTED_FEATURE, bytes, s.device);
    return s.end();
  }
  const bool cross = access.sharedCrossDeviceAllocCapabilities;
  auto* a = allocate(ZE_RESULT_SUCCESS, bytes, s.device);
  auto* plain = s.memory();
  auto list = s.immediate();
  const float five = 5;
  a[1] = 4;
  CHECK(s.read(list, a + 1) == 4);
  OK(zeCommandListAppendMemoryFill(list, a, &five, 4, bytes, nullptr, 0, nullptr));
  OK(zeCommandListAppendBarrier(list, nullptr, 0, nullptr));
  OK(zeCommandListAppendMemoryPrefetch(list, a, bytes));
  OK(zeCommandListAppendMemAdvise(list, s.device, a, bytes, ZE_MEMORY_ADVICE_SET_PREFERRED_LOCATION));
  OK(zeContextMakeMemoryResident(s.context, s.device, a, bytes));
  OK(zeContextEvictMemory(s.context, s.device, a, bytes));
  s.finish(list);
  CHECK(a[n - 1] == 5);
  CHECK(text("hotslot_software_live").find("allocations 2\nbytes 512\n") != std::string::npos);
  CHECK(violated().empty());

  const auto prefer_system = ze_memory_advice_t(8);
  GIVES(cross ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_INVALID_ENUMERATION, zeCommandListAppendMemAdvise(list, s.device, a, bytes, prefer_system));
  CHECK(violated().empty());
  GIVES(ZE_RESULT_ERROR_INVALID_NULL_POINTER, zeCommandListAppendMemoryPrefetch(list, nullptr, bytes));
  GIVES(ZE_RESULT_ERROR_INVALID_NULL_HANDLE, zeCommandListAppendMemAdvise(list, nullptr, a, bytes, ZE_MEMORY_ADVICE_SET_PREFERRED_LOCATION));
  GIVES(ZE_RESULT_ERROR_INVALID_SIZE, zeCommandListAppendMemoryPrefetch(list, a, 0));
  (void)violated();
  GIVES(ZE_RESULT_ERROR_INVALID_ARGUMENT, zeCommandListAppendMemoryPrefetch(list, &s, 4));
  CHECK(complained("no live allocation"));
  GIVES(ZE_RESULT_ERROR_INVALID_ARGUMENT, zeCommandListAppendMemoryPrefetch(list, a + 1, bytes));
  CHECK(complained("only partly"));
  GIVES(ZE_RESULT_ERROR_INVALID_ARGUMENT, zeCommandListAppendMemoryPrefetch(list, plain, bytes));
  CHECK(complained("only shared memory moves"));
  GIVES(ZE_RESULT_ERROR_INVALID_ARGUMENT, zeContextMakeMemoryResident(s.context, s.device, &s, 4));
  (void)violated();

  // The other device.
  std::swap(s.device, s.devices[1]);
  auto theirs = s.immediate();
  std::swap(s.device, s.devices[1]);
  const auto other = cross ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_INVALID_ARGUMENT;
  for (const int use : {0, 1, 2, 3}) {
    GIVES(other, use == 0   ? zeCommandListAppendMemoryFill(theirs, a, &five, 4, bytes, nullptr, 0, nullptr)
                 : use == 1 ? zeCommandListAppendMemoryPrefetch(theirs, a, bytes)
                 : use == 2 ? zeContextMakeMemoryResident(s.context, s.devices[1], a, bytes)
                            : zeCommandListAppendMemAdvise(list, s.devices[1], a, bytes, ZE_MEMORY_ADVICE_SET_PREFERRED_LOCATION));
    CHECK(cross ? violated().empty() : complained("another one's shared memory"));
  }
  if (cross) s.free(allocate(ZE_RESULT_SUCCESS, bytes, nullptr));
  else allocate(ZE_RESULT_ERROR_INVALID_ARGUMENT, bytes, nullptr);
  allocate(ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY, 64 << 20, s.device);
  s.finish(list), s.finish(theirs);

  // A prefetch that waits is work on the memory.
  (void)violated();
  auto gate = s.event();
  OK(zeCommandListAppendBarrier(list, nullptr, 1, &gate));
  OK(zeCommandListAppendMemoryPrefetch(list, a, bytes));
  GIVES(ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE, zeMemFree(s.context, a));
  CHECK(complained("while queued work uses it"));
  OK(zeEventHostSignal(gate));
  s.finish(list);
  OK(zeEventDestroy(gate));
  s.free(a), s.free(plain);
  OK(zeCommandListDestroy(list)), OK(zeCommandListDestroy(theirs));
  s.end();
}

// One chain of events across many lists: whatever the machine does, the last one's bytes are there.
void storm() {
  Setup s;
  constexpr uint32_t lists = 6, steps = 20000;
  ze_command_list_handle_t list[lists];
  for (uint32_t i = 0; i < lists; ++i) list[i] = s.immediate(i % 2);
  std::vector<ze_event_handle_t> ring;
  for (uint32_t i = 0; i < 48; ++i) ring.push_back(s.event());
  auto* a = s.memory();
  auto* b = s.memory();
  uint32_t random = 1;
  for (uint32_t step = 0; step < steps; ++step) {
    auto signal = ring[step % ring.size()];
    auto* wait = step > 0 ? &ring[(step - 1) % ring.size()] : nullptr;
    if (step >= ring.size()) {
      OK(zeEventHostSynchronize(signal, soon));
      OK(zeEventHostReset(signal));
    }
    random = random * 1664525 + 1013904223;
    auto on = list[(random >> 16) % lists];
    const float value = float(step);
    if (step % 2 == 0) OK(zeCommandListAppendMemoryFill(on, a, &value, 4, bytes, signal, wait ? 1 : 0, wait));
    else OK(zeCommandListAppendMemoryCopy(on, b, a, bytes, signal, 1, wait));
  }
  OK(zeEventHostSynchronize(ring[(steps - 1) % ring.size()], soon));
  CHECK(s.read(list[0], a) == steps - 2 && s.read(list[1], b) == steps - 2);
  for (auto each : ring) OK(zeEventDestroy(each));
  for (auto each : list) OK(zeCommandListDestroy(each));
  s.free(a), s.free(b);
  s.end();
}

// The module Hotslot ships: every kernel in it takes what its host form takes.
void image() {
  Setup s;
  const auto* shipped = hotslot::spirv_images;
  CHECK(shipped->format != nullptr);
  const ze_module_desc_t desc{ZE_STRUCTURE_TYPE_MODULE_DESC, nullptr, ZE_MODULE_FORMAT_IL_SPIRV, shipped->bytes,
                              static_cast<const uint8_t*>(shipped->data),
                              "-cl-fp32-correctly-rounded-divide-sqrt", nullptr};
  Program program{};
  ze_module_build_log_handle_t log{};
  OK(zeModuleCreate(s.context, s.device, &desc, &program.module, &log));
  OK(zeModuleBuildLogDestroy(log));
  uint32_t count = 0;
  OK(zeModuleGetKernelNames(program.module, &count, nullptr));
  CHECK(count > 10);
  std::vector<const char*> names(count);
  OK(zeModuleGetKernelNames(program.module, &count, names.data()));
  for (auto* name : names) OK(zeKernelDestroy(program.kernel(name)));
  auto kernel = program.kernel("axpby");
  auto* y = s.host();
  auto* x = s.host();
  for (size_t i = 0; i < n; ++i) x[i] = float(i), y[i] = 1;
  argument(kernel, 0, y), argument(kernel, 1, x), argument(kernel, 2, int64_t(n)), argument(kernel, 3, 0.5f), argument(kernel, 4, 2.0f);
  auto list = s.immediate();
  OK(zeCommandListAppendLaunchKernel(list, kernel, &one_group, nullptr, 0, nullptr));
  s.finish(list);
  for (size_t i = 0; i < n; ++i) CHECK(y[i] == 2 + 0.5f * float(i));
  OK(zeKernelDestroy(kernel)), OK(zeModuleDestroy(program.module)), OK(zeCommandListDestroy(list));
  s.free(x), s.free(y);
  s.end();
}

// Prints what no call may survive; the test looks at how the process ends.
void touch() {
  Setup s;
  volatile float* memory = s.memory();
  std::puts("alive until here");
  std::fflush(stdout);
  memory[0] = 1;
}
void strict() {
  Setup s;
  zeEventQueryStatus(reinterpret_cast<ze_event_handle_t>(&s));
}

// ---- newer than the loader -------------------------------------------------------------------------------------------

template <class F>
F* extension(Setup& s, const char* name) {
  void* out = nullptr;
  OK(zeDriverGetExtensionFunctionAddress(s.driver, name, &out));
  if (!out) std::exit(1);
  return reinterpret_cast<F*>(out);
}
bool listed(Setup& s, const char* name) {
  uint32_t count = 0;
  OK(zeDriverGetExtensionProperties(s.driver, &count, nullptr));
  std::vector<ze_driver_extension_properties_t> all(count);
  OK(zeDriverGetExtensionProperties(s.driver, &count, all.data()));
  for (auto& each : all)
    if (std::strcmp(each.name, name) == 0) return true;
  return false;
}
#define EXTENSION(name, ...) auto* const name = extension<ze_result_t(__VA_ARGS__)>(s, #name)

void modern() {
  Setup s;
  EXTENSION(zeCommandListHostSynchronize, ze_command_list_handle_t, uint64_t);
  EXTENSION(zexCounterBasedEventCreate2, ze_context_handle_t, ze_device_handle_t, const newer::CounterEvent*, ze_event_handle_t*);
  EXTENSION(zeCommandListImmediateAppendCommandListsExp, ze_command_list_handle_t, uint32_t, ze_command_list_handle_t*, ze_event_handle_t, uint32_t,
            ze_event_handle_t*);
  auto list = s.immediate(0, newer::queue_in_order), other = s.immediate(0, newer::queue_in_order);
  auto* a = s.memory();
  auto* b = s.memory();
  float values[] = {1, 2, 3, 4};
  for (float& value : values) OK(zeCommandListAppendMemoryFill(list, a, &value, 4, bytes, nullptr, 0, nullptr));
  OK(zeCommandListHostSynchronize(list, forever));
  CHECK(s.read(list, a) == 4);

  // Never signalled counts as done; signalled again, a wait from before still means the earlier signal; gone in flight.
  newer::CounterEvent desc{newer::stype_zex_counter_event, nullptr, newer::counter_host_visible | newer::counter_timestamp | newer::counter_immediate,
                           ZE_EVENT_SCOPE_FLAG_HOST, 0};
  ze_event_handle_t event{};
  OK(zexCounterBasedEventCreate2(s.context, s.device, &desc, &event));
  OK(zeEventQueryStatus(event));
  OK(zeCommandListAppendWaitOnEvents(other, 1, &event));
  Latch latch(s);
  OK(zeCommandListAppendSignalEvent(list, event));
  OK(zeEventHostSynchronize(event, soon));
  OK(zeCommandListAppendMemoryFill(other, b, &values[0], 4, bytes, nullptr, 1, &event));
  latch.hold(list, event);
  GIVES(ZE_RESULT_NOT_READY, zeEventQueryStatus(event));
  OK(zeCommandListHostSynchronize(other, soon));
  OK(zeCommandListAppendMemoryFill(other, b, &values[1], 4, bytes, nullptr, 1, &event));
  GIVES(ZE_RESULT_NOT_READY, zeCommandListHostSynchronize(other, 5'000'000));
  GIVES(ZE_RESULT_ERROR_INVALID_ARGUMENT, zeEventHostReset(event));
  OK(zeEventDestroy(event));
  latch.open();
  OK(zeCommandListHostSynchronize(other, soon));
  CHECK(s.read(list, b) == 2);
  auto loose = s.immediate();
  OK(zexCounterBasedEventCreate2(s.context, s.device, &desc, &event));
  GIVES(ZE_RESULT_ERROR_INVALID_ARGUMENT, zeCommandListAppendSignalEvent(loose, event));
  OK(zeCommandListAppendBarrier(list, event, 0, nullptr));
  OK(zeEventHostSynchronize(event, soon));
  ze_kernel_timestamp_result_t stamps{};
  OK(zeEventQueryKernelTimestamp(event, &stamps));
  CHECK(stamps.global.kernelEnd >= stamps.global.kernelStart);

  // A closed list on an in-order list, again and again; with events of the caller.
  Program program(s, axpby);
  auto kernel = program.kernel("axpby");
  argument(kernel, 0, b), argument(kernel, 1, a), argument(kernel, 2, int64_t(n)), argument(kernel, 3, 1.0f), argument(kernel, 4, 1.0f);
  auto regular = s.list(0, newer::list_in_order);
  OK(zeCommandListAppendMemoryFill(regular, a, &values[0], 4, bytes, nullptr, 0, nullptr));
  OK(zeCommandListAppendLaunchKernel(regular, kernel, &one_group, nullptr, 0, nullptr));
  OK(zeCommandListAppendLaunchKernel(regular, kernel, &one_group, nullptr, 0, nullptr));
  OK(zeCommandListClose(regular));
  for (int i = 0; i < 3; ++i) OK(zeCommandListImmediateAppendCommandListsExp(list, 1, &regular, i == 2 ? event : nullptr, 0, nullptr));
  OK(zeCommandListImmediateAppendCommandListsExp(other, 1, &regular, nullptr, 1, &event));
  OK(zeCommandListHostSynchronize(other, soon));
  CHECK(s.read(list, b) == 10);
  CHECK(violated().find("only") == std::string::npos);

  OK(zeEventDestroy(event)), OK(zeKernelDestroy(kernel)), OK(zeModuleDestroy(program.module));
  latch.end();
  for (auto each : {list, other, loose, regular}) OK(zeCommandListDestroy(each));
  s.free(a), s.free(b);
  s.end();
}

// The same list on two in-order lists with nothing between them.
void twice() {
  Setup s;
  EXTENSION(zeCommandListImmediateAppendCommandListsExp, ze_command_list_handle_t, uint32_t, ze_command_list_handle_t*, ze_event_handle_t, uint32_t,
            ze_event_handle_t*);
  EXTENSION(zeCommandListHostSynchronize, ze_command_list_handle_t, uint64_t);
  auto list = s.immediate(0, newer::queue_in_order), other = s.immediate(0, newer::queue_in_order);
  Latch latch(s);
  auto regular = s.list(0, newer::list_in_order);
  auto begun = s.event();
  OK(zeCommandListAppendSignalEvent(regular, begun));
  latch.hold(regular);
  OK(zeCommandListClose(regular));
  OK(zeCommandListImmediateAppendCommandListsExp(list, 1, &regular, nullptr, 0, nullptr));
  OK(zeEventHostSynchronize(begun, soon));
  OK(zeCommandListImmediateAppendCommandListsExp(other, 1, &regular, nullptr, 0, nullptr));
  GIVES(ZE_RESULT_ERROR_DEVICE_LOST, zeCommandListHostSynchronize(other, soon));
  CHECK(complained("an earlier run of it is not over"));
  latch.open();
  OK(zeCommandListHostSynchronize(list, soon));
}

void imports() {
  // import=both is set.
  Setup s;
  CHECK(listed(s, "ZEX_driver_import_host_pointer") && listed(s, "ZE_extension_external_memmap_sysmem"));
  EXTENSION(zexDriverImportExternalPointer, ze_driver_handle_t, void*, size_t);
  EXTENSION(zexDriverReleaseImportedPointer, ze_driver_handle_t, void*);
  auto* page = static_cast<uint8_t*>(std::aligned_alloc(4096, 4 * 4096));
  std::memset(page, 7, 4 * 4096);
  const auto standard = [&](ze_result_t expected, uint8_t* memory, size_t size) {
    const newer::MemmapSysmem map{newer::stype_memmap_sysmem, nullptr, memory, size};
    const ze_host_mem_alloc_desc_t desc{ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC, &map, 0};
    void* out = nullptr;
    GIVES(expected, zeMemAllocHost(s.context, &desc, size, 4096, &out));
    CHECK(expected != ZE_RESULT_SUCCESS || out == memory);
  };
  standard(ZE_RESULT_ERROR_INVALID_ARGUMENT, page + 16, 4096);
  standard(ZE_RESULT_ERROR_INVALID_ARGUMENT, page, 4000);
  standard(ZE_RESULT_SUCCESS, page, 8192);
  standard(ZE_RESULT_ERROR_INVALID_ARGUMENT, page + 4096, 8192);
  GIVES(ZE_RESULT_ERROR_INVALID_ARGUMENT, zexDriverImportExternalPointer(s.driver, page, 16));
  OK(zexDriverImportExternalPointer(s.driver, page + 8192 + 16, 100));
  auto list = s.immediate();
  auto* a = s.memory(8192);
  OK(zeCommandListAppendMemoryCopy(list, a, page, 8192, nullptr, 0, nullptr));
  (void)violated();
  GIVES(ZE_RESULT_ERROR_INVALID_ARGUMENT, zeCommandListAppendMemoryCopy(list, a, page + 4096, 8192, nullptr, 0, nullptr));
  CHECK(complained("only partly"));
  s.finish(list);
  CHECK(text("hotslot_software_live").find("imports 2\n") != std::string::npos);
  GIVES(ZE_RESULT_ERROR_INVALID_ARGUMENT, zexDriverReleaseImportedPointer(s.driver, page));
  GIVES(ZE_RESULT_ERROR_INVALID_ARGUMENT, zeMemFree(s.context, page + 8192 + 16));
  s.free(page);
  OK(zexDriverReleaseImportedPointer(s.driver, page + 8192 + 16));
  GIVES(ZE_RESULT_ERROR_INVALID_ARGUMENT, zexDriverReleaseImportedPointer(s.driver, page + 8192 + 16));
  CHECK(page[100] == 7);
  std::free(page);
  s.free(a);
  OK(zeCommandListDestroy(list));
  s.end();
}

uint32_t graph_flags(Setup& s) {
  newer::GraphProperties graph{newer::stype_graph_properties, nullptr, 0xff};
  ze_device_properties_t p{};
  p.stype = ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES;
  p.pNext = &graph;
  OK(zeDeviceGetProperties(s.device, &p));
  return graph.flags;
}
void listed_only() {
  Setup s;
  CHECK(listed(s, "ZE_extension_record_replay_graph") && graph_flags(s) == 0);
}
void graphs() {
  Setup s;
  CHECK(listed(s, "ZE_extension_record_replay_graph") && graph_flags(s) == 1);
  EXTENSION(zeCommandListHostSynchronize, ze_command_list_handle_t, uint64_t);
  EXTENSION(zeCommandListBeginGraphCaptureExt, ze_command_list_handle_t, const void*);
  EXTENSION(zeCommandListEndGraphCaptureExt, ze_command_list_handle_t, const void*, newer::Graph*);
  EXTENSION(zeCommandListIsGraphCaptureEnabledExt, ze_command_list_handle_t);
  EXTENSION(zeGraphInstantiateExt, newer::Graph, const void*, newer::ExecutableGraph*);
  EXTENSION(zeCommandListAppendGraphExt, ze_command_list_handle_t, newer::ExecutableGraph, const void*, ze_event_handle_t, uint32_t,
            ze_event_handle_t*);
  EXTENSION(zeGraphIsEmptyExt, newer::Graph);
  EXTENSION(zeGraphDestroyExt, newer::Graph);
  EXTENSION(zeExecutableGraphDestroyExt, newer::ExecutableGraph);
  auto list = s.immediate(0, newer::queue_in_order), side = s.immediate(0, newer::queue_in_order), loose = s.immediate();
  auto* a = s.memory();
  auto* b = s.memory();
  const float one = 1, five = 5, zero = 0;
  OK(zeCommandListAppendMemoryFill(list, b, &zero, 4, bytes, nullptr, 0, nullptr));
  OK(zeCommandListAppendMemoryFill(list, a, &zero, 4, bytes, nullptr, 0, nullptr));
  Program program(s, axpby);
  auto kernel = program.kernel("axpby");
  argument(kernel, 0, b), argument(kernel, 1, a), argument(kernel, 2, int64_t(n)), argument(kernel, 3, 1.0f), argument(kernel, 4, 1.0f);
  auto fork = s.event(), join = s.event(), outside = s.event();

  GIVES(ZE_RESULT_ERROR_INVALID_ARGUMENT, zeCommandListBeginGraphCaptureExt(loose, nullptr));
  GIVES(newer::result_query_false, zeCommandListIsGraphCaptureEnabledExt(list));
  OK(zeCommandListBeginGraphCaptureExt(list, nullptr));
  GIVES(newer::result_query_true, zeCommandListIsGraphCaptureEnabledExt(list));
  GIVES(ZE_RESULT_ERROR_INVALID_ARGUMENT, zeCommandListBeginGraphCaptureExt(list, nullptr));
  OK(zeCommandListAppendMemoryFill(list, a, &one, 4, bytes, fork, 0, nullptr));
  OK(zeCommandListAppendLaunchKernel(side, kernel, &one_group, join, 1, &fork));  // joins the recording
  OK(zeCommandListAppendMemoryFill(list, a, &five, 4, bytes, nullptr, 1, &join));
  GIVES(newer::result_capture_unsupported, zeCommandListHostSynchronize(list, 0));
  GIVES(newer::result_capture_unsupported, zeCommandListHostSynchronize(side, 0));
  GIVES(newer::result_capture_unsupported, zeEventQueryStatus(fork));
  newer::Graph graph{};
  OK(zeCommandListEndGraphCaptureExt(list, nullptr, &graph));
  OK(zeCommandListHostSynchronize(list, soon));
  CHECK(s.read(list, b) == 0);
  GIVES(newer::result_query_false, zeGraphIsEmptyExt(graph));
  newer::ExecutableGraph executable{};
  OK(zeGraphInstantiateExt(graph, nullptr, &executable));
  OK(zeGraphDestroyExt(graph));
  for (int i = 0; i < 3; ++i) OK(zeCommandListAppendGraphExt(list, executable, nullptr, i == 2 ? outside : nullptr, 0, nullptr));
  OK(zeEventHostSynchronize(outside, soon));
  CHECK(s.read(list, b) == 3 && s.read(list, a) == 5);

  // Forked off and not joined; waiting for what is outside.
  OK(zeEventHostReset(fork)), OK(zeEventHostReset(join));
  OK(zeCommandListBeginGraphCaptureExt(list, nullptr));
  OK(zeCommandListAppendBarrier(list, fork, 0, nullptr));
  OK(zeCommandListAppendWaitOnEvents(side, 1, &fork));
  OK(zeCommandListEndGraphCaptureExt(list, nullptr, &graph));
  newer::ExecutableGraph none{};
  GIVES(ZE_RESULT_ERROR_INVALID_ARGUMENT, zeGraphInstantiateExt(graph, nullptr, &none));
  CHECK(complained("not joined back"));
  OK(zeGraphDestroyExt(graph));
  OK(zeCommandListHostSynchronize(side, soon));
  OK(zeCommandListBeginGraphCaptureExt(list, nullptr));
  GIVES(ZE_RESULT_ERROR_INVALID_ARGUMENT, zeCommandListAppendBarrier(list, nullptr, 1, &outside));
  GIVES(ZE_RESULT_ERROR_INVALID_ARGUMENT, zeCommandListAppendBarrier(list, nullptr, 0, nullptr));
  GIVES(newer::result_capture_unsupported, zeCommandListAppendGraphExt(list, executable, nullptr, nullptr, 0, nullptr));
  OK(zeCommandListEndGraphCaptureExt(list, nullptr, &graph));
  GIVES(ZE_RESULT_ERROR_INVALID_ARGUMENT, zeGraphInstantiateExt(graph, nullptr, &none));
  OK(zeGraphDestroyExt(graph));
  // What it uses has to be there.
  s.free(a);
  GIVES(ZE_RESULT_ERROR_INVALID_ARGUMENT, zeCommandListAppendGraphExt(list, executable, nullptr, nullptr, 0, nullptr));
  OK(zeExecutableGraphDestroyExt(executable));

  for (auto event : {fork, join, outside}) OK(zeEventDestroy(event));
  OK(zeKernelDestroy(kernel)), OK(zeModuleDestroy(program.module));
  for (auto each : {list, side, loose}) OK(zeCommandListDestroy(each));
  s.free(b);
  s.end();
}

const std::map<std::string, void (*)()> scenarios{
#define SCENARIO(name) {#name, name}
    SCENARIO(basics), SCENARIO(unordered), SCENARIO(lists), SCENARIO(kernels), SCENARIO(validation), SCENARIO(mistakes), SCENARIO(injection),
    SCENARIO(peers),  SCENARIO(storm),     SCENARIO(image), SCENARIO(touch),   SCENARIO(strict),     SCENARIO(modern),   SCENARIO(twice),
    SCENARIO(imports), SCENARIO(graphs),   SCENARIO(listed_only), SCENARIO(shared)};

}  // namespace

int main(int count, char** arguments) {
  const auto found = scenarios.find(count > 1 ? arguments[1] : "");
  if (found == scenarios.end()) {
    for (auto& [name, run] : scenarios) std::puts(name.c_str());
    return 2;
  }
  // A lost wake shows as a process that does not end.
  alarm(60);
  found->second();
  std::fflush(stdout);
  return violations > 0 ? 1 : 0;
}
