// Opening and listing devices, and the C functions of api.h over them.
#include "device/core.hpp"

#include <cstdlib>
#include <cstring>
#include <thread>

#include "device/host.hpp"

namespace hotslot {
namespace {

// Host devices host:0 … host:7: one machine, several separate memories.
constexpr int host_devices = 8;

thread_local std::string last_text;
thread_local hotslot_error last{"", "", "", "", "", "", 0};

template <class F>
int guarded(F&& f) {
  try {
    return f();
  } catch (const Error& error) {
    last_text = error.what();
    last = {error.code, last_text.c_str(), error.family, error.call, error.status_name, error.advice, error.status};
  } catch (const std::exception& error) {
    last_text = error.what();
    last = {"ERR_HOTSLOT_MEMORY", last_text.c_str(), "", "", "", "", 0};
  }
  return -1;
}

template <class T>
Ref<T> ref(void* object) {
  return std::static_pointer_cast<T>(static_cast<T*>(object)->shared_from_this());
}

Span span(void* memory, uint64_t offset, uint64_t bytes) {
  auto held = ref<Memory>(memory);
  if (offset > held->bytes || bytes > held->bytes - offset) throw Error("ERR_HOTSLOT_RANGE", "a copy ends beyond its memory");
  return Span{std::move(held), offset, bytes};
}

const hotslot_api table{
    HOTSLOT_API_VERSION,
    sizeof(hotslot_api),
    []() -> const hotslot_error* { return &last; },
    [](double handle, int kind) -> void* { return Core::instance().handles.pin(handle, Kind(kind)); },
    [](double handle) { Core::instance().handles.unpin(handle); },
    [](void* memory, uint64_t* bytes) {
      *bytes = static_cast<Memory*>(memory)->bytes;
      return static_cast<Memory*>(memory)->address;
    },
    [](void* stream, void* to, uint64_t to_offset, void* from, uint64_t from_offset, uint64_t bytes) {
      return guarded([&] {
        static_cast<Stream*>(stream)->copy(span(to, to_offset, bytes), span(from, from_offset, bytes));
        return 0;
      });
    },
    [](void* stream, void* event) { return guarded([&] { return static_cast<Stream*>(stream)->record(ref<Event>(event)), 0; }); },
    [](void* stream, void* event) { return guarded([&] { return static_cast<Stream*>(stream)->wait(ref<Event>(event)), 0; }); },
    [](void* stream, void* exec) { return guarded([&] { return static_cast<Stream*>(stream)->replay(ref<Exec>(exec)), 0; }); },
    [](void* stream) { return guarded([&] { return int(static_cast<Stream*>(stream)->query()); }); },
    [](void* event) { return guarded([&] { return int(static_cast<Event*>(event)->query()); }); },
    [](void* device, uint64_t ns) { return int(static_cast<Device*>(device)->help(ns)); },
    [](void* device, void* bell) { static_cast<Device*>(device)->attend(static_cast<Bell*>(bell)); },
    [](void* device, void* bell) { static_cast<Device*>(device)->dismiss(static_cast<Bell*>(bell)); },
};

}  // namespace

const hotslot_api* api_table() { return &table; }

Core& Core::instance() {
  static Core* core = new Core;  // never destroyed: threads of the process may still use it while statics die
  return *core;
}

std::vector<DeviceFacts> Core::list() {
  std::vector<DeviceFacts> facts;
  const std::string cores = std::to_string(std::thread::hardware_concurrency()) + " cores, matrix products by " + gemm_provider();
  facts.push_back({"host:0", "host", "", cores, true});
  for (const char* family : {"cuda", "rocm", "xpu"})
    facts.push_back({family, family, "this version of Hotslot drives the host device only; use host:0", "", false});
  return facts;
}

const OpenDevice& Core::open(const std::string& name) {
  std::string wanted = name == "auto" || name == "cpu" || name == "host" ? "host:0" : name;
  std::lock_guard lock(mutex_);
  if (auto known = open_.find(wanted); known != open_.end()) return known->second;
  const size_t colon = wanted.find(':');
  const std::string family = wanted.substr(0, colon);
  for (const char* later : {"cuda", "rocm", "xpu"})
    if (family == later)
      throw Error("ERR_HOTSLOT_UNAVAILABLE", "device '" + name + "' is not available: this version of Hotslot drives the host device only; use 'host:0' or 'auto'");
  char* end = nullptr;
  const long index = colon == std::string::npos ? -1 : strtol(wanted.c_str() + colon + 1, &end, 10);
  const bool number = end && *end == 0 && end != wanted.c_str() + colon + 1;
  if (family != "host" || !number || index < 0 || index >= host_devices || wanted != "host:" + std::to_string(index))
    throw Error("ERR_HOTSLOT_UNKNOWN_DEVICE", "unknown device '" + name + "': say 'auto', 'cpu' or 'host:0' to 'host:" + std::to_string(host_devices - 1) + "'");
  OpenDevice opened{host::open(int(index)), 0, 0};
  opened.handle = handles.add(opened.device);
  opened.stream = handles.add(opened.device->create_stream(0));
  return open_.emplace(wanted, std::move(opened)).first->second;
}

}  // namespace hotslot
