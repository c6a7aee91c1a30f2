// What the scenarios of level_zero_check share: the driver's own functions, a device and its
// objects, kernels, a latch.
#pragma once
#include <dlfcn.h>
#include <level_zero/ze_api.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "../native/check.hpp"
#include "kernels/images.hpp"
#include "level_zero_newer.hpp"

namespace {

namespace newer = software::newer;

constexpr uint64_t soon = 2'000'000'000, forever = ~uint64_t(0);
constexpr size_t n = 64, bytes = n * sizeof(float);

template <class F>
F* own(const char* name) {
  void* library = dlopen(std::getenv("ZE_ENABLE_ALT_DRIVERS"), RTLD_NOW | RTLD_NOLOAD);
  void* symbol = library ? dlsym(library, name) : nullptr;
  if (!symbol) std::printf("the driver has no %s\n", name), std::exit(1);
  return reinterpret_cast<F*>(symbol);
}
void fail(const char* specification) {
  own<void(const char*)>("hotslot_software_fail")(specification);
}
std::string text(const char* name) { return own<const char*()>(name)(); }
// Returns the complaints since the last call.
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
    const ze_event_pool_desc_t pool_desc{
        ZE_STRUCTURE_TYPE_EVENT_POOL_DESC, nullptr,
        ZE_EVENT_POOL_FLAG_HOST_VISIBLE | ZE_EVENT_POOL_FLAG_KERNEL_TIMESTAMP, events};
    OK(zeEventPoolCreate(context, &pool_desc, 0, nullptr, &pool));
  }
  // Checks that every object was destroyed.
  void end() {
    OK(zeEventPoolDestroy(pool));
    OK(zeContextDestroy(context));
    const std::string left = text("hotslot_software_live");
    if (!left.empty()) wrong("left over:\n" + left);
  }
  ze_event_handle_t event(ze_event_scope_flags_t signal = ZE_EVENT_SCOPE_FLAG_HOST) {
    const ze_event_desc_t desc{ZE_STRUCTURE_TYPE_EVENT_DESC, nullptr, next_event++ % events, signal,
                               0};
    ze_event_handle_t out{};
    OK(zeEventCreate(pool, &desc, &out));
    return out;
  }
  ze_command_list_handle_t immediate(uint32_t ordinal = 0, uint32_t flags = 0, uint32_t index = 0) {
    const ze_command_queue_desc_t desc{ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC,
                                       nullptr,
                                       ordinal,
                                       index,
                                       flags,
                                       ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS,
                                       ZE_COMMAND_QUEUE_PRIORITY_NORMAL};
    ze_command_list_handle_t out{};
    OK(zeCommandListCreateImmediate(context, device, &desc, &out));
    return out;
  }
  ze_command_queue_handle_t queue(uint32_t ordinal = 0) {
    const ze_command_queue_desc_t desc{ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC,
                                       nullptr,
                                       ordinal,
                                       0,
                                       0,
                                       ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS,
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
  // Waits for all work of an immediate list. Spec 1.4 offers only events for that.
  void finish(ze_command_list_handle_t list, ze_result_t expected = ZE_RESULT_SUCCESS) {
    auto done = event();
    OK(zeCommandListAppendBarrier(list, done, 0, nullptr));
    IS(expected, zeEventHostSynchronize(done, soon));
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

// Returns a SPIR-V module of kernels that do nothing. The letters of the parameters: 'p' a float
// pointer, 'i' 64 bits, 'f' a float, 'd' a double.
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
    const ze_module_desc_t desc{ZE_STRUCTURE_TYPE_MODULE_DESC,
                                nullptr,
                                ZE_MODULE_FORMAT_IL_SPIRV,
                                words.size() * 4,
                                reinterpret_cast<const uint8_t*>(words.data()),
                                nullptr,
                                nullptr};
    OK(zeModuleCreate(s.context, s.device, &desc, &module, nullptr));
  }
  ze_kernel_handle_t kernel(const char* name, ze_result_t expected = ZE_RESULT_SUCCESS) const {
    const ze_kernel_desc_t desc{ZE_STRUCTURE_TYPE_KERNEL_DESC, nullptr, 0, name};
    ze_kernel_handle_t out{};
    IS(expected, zeKernelCreate(module, &desc, &out));
    if (out) OK(zeKernelSetGroupSize(out, 64, 1, 1));
    return out;
  }
};
template <class T>
void argument(ze_kernel_handle_t kernel, uint32_t index, T value,
              ze_result_t expected = ZE_RESULT_SUCCESS) {
  IS(expected, zeKernelSetArgumentValue(kernel, index, sizeof value, &value));
}
constexpr ze_group_count_t one_group{1, 1, 1};
const std::map<std::string, std::string> axpby{{"axpby", "ppiff"}};

// Blocks a list until open() is called.
struct Latch {
  Setup& s;
  Program program;
  ze_kernel_handle_t kernel;
  int32_t* word;
  explicit Latch(Setup& s)
      : s(s),
        program(s, axpby),
        kernel(program.kernel("latch")),
        word(reinterpret_cast<int32_t*>(s.host(4))) {
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

}  // namespace
