// Opening and listing devices, and the C functions of api.h over them.
#include "device/core.hpp"

#include <cstdlib>
#include <cstring>

#include "device/capture.hpp"
#include "device/family.hpp"
#include "device/pool.hpp"

namespace hotslot {
namespace {

const Family* const families[] = {&cuda_family(), &hip_family(), &level_zero_family(), &host_family()};

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

[[noreturn]] void unknown(const std::string& name) {
  throw Error("ERR_HOTSLOT_UNKNOWN_DEVICE", "unknown device '" + name + "': say 'auto', 'cpu', 'host:0' to 'host:7', or 'cuda:0', 'rocm:0', 'xpu:0' and so on");
}

// 'cuda:1', 'cuda' (its first), 'cpu' (host:0), 'auto' (the first device of the first family that has one).
std::pair<const Family*, int> resolve(const std::string& name) {
  if (name == "auto") {
    for (const Family* family : families)
      if (auto& found = family->find(); !found.devices.empty() && !found.software) return {family, 0};
  }
  const std::string wanted = name == "cpu" ? "host:0" : name;
  const size_t colon = wanted.find(':');
  const std::string digits = colon == std::string::npos ? "0" : wanted.substr(colon + 1);
  const bool number = !digits.empty() && digits.size() < 4 && digits.find_first_not_of("0123456789") == std::string::npos && (digits == "0" || digits[0] != '0');
  for (const Family* family : families) {
    if (wanted.substr(0, colon) != family->name || !number) continue;
    const auto& found = family->find();
    if (found.devices.empty()) throw Error("ERR_HOTSLOT_UNAVAILABLE", "device '" + name + "' is not available: " + found.reason + "; or use 'host:0'");
    const int index = std::atoi(digits.c_str());
    if (size_t(index) < found.devices.size()) return {family, index};
    if (family == &host_family()) break;
    throw Error("ERR_HOTSLOT_UNKNOWN_DEVICE", "unknown device '" + name + "': there " + (found.devices.size() == 1 ? "is 1 device" : "are " + std::to_string(found.devices.size()) + " devices") +
                                                  " of " + family->name + ", the last is '" + family->name + ":" + std::to_string(found.devices.size() - 1) + "'");
  }
  unknown(name);
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
    [](void* stream, void* event) { return guarded([&] { return static_cast<Stream*>(stream)->record(ref<Event>(event), false), 0; }); },
    [](void* stream, void* event) { return guarded([&] { return static_cast<Stream*>(stream)->wait(ref<Event>(event)), 0; }); },
    [](void* stream, void* exec) { return guarded([&] { return Replays::replay(*static_cast<Stream*>(stream), ref<Exec>(exec)), 0; }); },
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
  for (const Family* family : families) {
    const auto& found = family->find();
    const size_t shown = family == &host_family() ? 1 : found.devices.size();  // its further devices are for tests of several
    for (size_t i = 0; i < shown; ++i) facts.push_back({family->name + (":" + std::to_string(i)), family->name, "", found.devices[i], true});
    if (found.devices.empty()) facts.push_back({family->name, family->name, found.reason, "", false});
  }
  return facts;
}

const OpenDevice& Core::open(const std::string& name) {
  const auto [family, index] = resolve(name);
  const std::string wanted = family->name + (":" + std::to_string(index));
  std::lock_guard lock(mutex_);
  auto known = open_.find(wanted);
  if (known == open_.end()) {
    OpenDevice opened;
    opened.device = family->open(index);
    opened.stream = handles.add(opened.device->create_stream(0));
    opened.handle = handles.add(opened.device);
    known = open_.emplace(wanted, std::move(opened)).first;
  }
  OpenDevice& open = known->second;
  if (open.users++ == 0) {
    open.device->in_use = true;
    renew_default(open);
  }
  return open;
}

// Under the mutex. A failed default stream stays nobody's for good: who opens the device anew gets another.
void Core::renew_default(OpenDevice& open) {
  if (thread_captures()) return;
  try {
    Pinned<Stream> stream(open.stream, Kind::stream, "stream");
    if (!stream->capturing()) stream->query();
  } catch (const Error&) {
    const double failed = open.stream;
    try {
      open.stream = handles.add(open.device->create_stream(0));
    } catch (const Error&) {
      return;  // the whole device is lost, and says so to whoever uses it
    }
    handles.remove(failed, 0);
  }
}

// Under the mutex.
OpenDevice& Core::of(double device) {
  for (auto& [name, open] : open_)
    if (open.handle == device) return open;
  throw Error("ERR_HOTSLOT_STALE_HANDLE", "this device is closed (its handle is stale)");
}

void Core::close(double device, int times) {
  std::map<std::string, double> gone;  // let go without the mutex: that may take a while
  std::map<std::string, OpenDevice::Table> tables;
  Ref<Device> trimmed;
  {
    std::lock_guard lock(mutex_);
    OpenDevice& open = of(device);
    open.users -= times;
    if (open.users > 0 || open.captures) return;  // else whoever has the capture stream comes back here
    open.users = 0;
    open.device->in_use = false;
    gone.swap(open.belongings);
    for (const double stream : open.idle_streams) gone.emplace("idle stream " + std::to_string(stream), stream);
    open.idle_streams.clear();
    tables.swap(open.tables);
    open.table_counts.bytes = 0;
    trimmed = open.device;
  }
  for (auto& [name, handle] : gone) {
    try {
      handles.remove(handle, pins_ns);
    } catch (const Error&) {
      // In somebody's use: it stays the device's.
      std::lock_guard lock(mutex_);
      of(device).belongings.emplace(name, handle);
    }
  }
  tables.clear();
  trimmed->trim();
}

int Core::count(const char* family) {
  for (const Family* each : families)
    if (std::strcmp(each->name, family) == 0) return each == &host_family() ? 8 : int(each->find().devices.size());
  return 0;
}

}  // namespace hotslot
