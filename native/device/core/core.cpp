// The core's open devices. The core opens each device once per process, and counts how many calls
// of open() were not undone by close().
#include "device/core/core.hpp"

#include "device/core/capture.hpp"
#include "device/core/family.hpp"

namespace hotslot {
Core& Core::instance() {
  static Core* core =
      new Core;  // never destroyed: threads may still use it during the process's exit
  return *core;
}

const OpenDevice& Core::open(const std::string& name, std::optional<Products> products) {
  const auto [family, index] = resolve(name);
  const std::string wanted = family->name + (":" + std::to_string(index));
  std::lock_guard lock(mutex_);
  auto known = open_.find(wanted);
  if (known == open_.end()) {
    OpenDevice opened;
    opened.device = family->open(index);
    FreshHandle stream(handles, opened.device->create_stream(0)), device(handles, opened.device);
    opened.stream = stream.get();
    opened.handle = device.get();
    known = open_.emplace(wanted, std::move(opened)).first;
    stream.take();
    device.take();
  }
  OpenDevice& open = known->second;
  choose(open, products);
  if (open.users == 0) {
    renew_default(open);
    open.device->in_use = true;
  }
  open.users++;
  return open;
}

// Sets the precision of matrix products, or throws if the device cannot have it. The caller holds
// the mutex.
//
// Each stream keeps the precision with which it was created, so streams that a program left open
// compute as before. The default stream lives as long as the process, so it is replaced.
void Core::choose(OpenDevice& open, std::optional<Products> products) {
  Device& device = *open.device;
  const bool used = open.users > 0 || open.captures;
  const Products now = device.products, wanted = products.value_or(used ? now : Products::float32);
  if (wanted == now) return;
  const std::string name = device.family + (":" + std::to_string(device.index));
  try {
    if (!used && thread_captures())
      throw state_capture("products: '", name_of(wanted), "' needs another default stream of ",
                          name,
                          ", which cannot be created inside a capture; open the device before "
                          "the capture begins");
    if (wanted == Products::tf32)
      if (const std::string why = device.why_not_tf32(); !why.empty())
        throw unavailable("products: ", name, " cannot multiply in TF32: ", why, "; use 'float32'");
    if (used)
      throw state_busy("products: ", name, " is open in this process with '", name_of(now),
                       "', got '", name_of(wanted),
                       "'; close it everywhere first, or omit products");
    device.products = wanted;
    const double before = open.stream;
    open.stream = handles.add(device.create_stream(0));
    handles.retire(before);
  } catch (...) {
    device.products = now;
    if (!used) device.in_use = false;
    throw;
  }
}

// Replaces the default stream if it failed. Called when a thread opens a device that no thread had
// open. The caller holds the mutex.
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
      return;  // the whole device is lost, and its next call throws
    }
    handles.retire(failed);
  }
}

// Returns the open device of a handle. The caller holds the mutex.
OpenDevice& Core::of(double device) {
  for (auto& [name, open] : open_)
    if (open.handle == device) return open;
  throw stale("device");
}

void Core::close(double device, int times) {
  // These objects are freed after the mutex is released, because freeing may take a while. Freeing
  // them allocates nothing.
  std::map<std::string, double> gone;
  std::vector<double> idle;
  std::map<std::string, OpenDevice::Table> tables;
  Ref<Device> trimmed;
  {
    std::lock_guard lock(mutex_);
    OpenDevice& open = of(device);
    open.users -= times;
    if (open.users > 0 || open.captures)
      return;  // if a thread uses the capture stream, its leave_capture() calls close() again
    open.users = 0;
    open.device->in_use = false;
    gone.swap(open.belongings);
    idle.swap(open.idle_streams);
    tables.swap(open.tables);
    open.table_counts.bytes = 0;
    trimmed = open.device;
  }
  // A call of another thread may have pinned one of these handles. Its object is then freed when
  // that call returns.
  for (const auto& [name, handle] : gone) handles.retire(handle);
  for (const double stream : idle) handles.retire(stream);
  tables.clear();
  trimmed->trim();
}

}  // namespace hotslot
