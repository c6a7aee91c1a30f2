// Belongings of a device that all threads share: idle streams, tables, and the one capture stream.
#include <algorithm>
#include <cstring>

#include "device/core/capture.hpp"
#include "device/core/core.hpp"
#include "device/core/graph_pool.hpp"

namespace hotslot {
namespace {

// Time limit for copying a table to the device. A table has a few kilobytes and its own stream. So
// a longer copy means that the device is stuck, and table() throws STATE_BUSY.
constexpr uint64_t table_ns = 5'000'000'000;
// Maximum number of idle streams and of tables of a device. A stream that is returned above the
// limit is closed. A new table above the limit replaces the least recently used table.
constexpr size_t max_idle_streams = 16, max_tables = 1024;

}  // namespace

double Core::belonging(double device, const std::string& name,
                       const std::function<Ref<Object>(Device&)>& make) {
  std::lock_guard lock(mutex_);
  OpenDevice& open = of(device);
  auto known = open.belongings.find(name);
  if (known != open.belongings.end()) return known->second;
  FreshHandle fresh(handles, make(*open.device));
  open.belongings.emplace(name, fresh.get());
  return fresh.take();
}

double Core::module(double device, const std::string& key) {
  std::lock_guard lock(mutex_);
  OpenDevice& open = of(device);
  const auto known = open.belongings.find("kernels " + key);
  return known == open.belongings.end() ? 0 : known->second;
}

double Core::add_module(double device, const std::string& key, const Ref<Object>& module) {
  std::lock_guard lock(mutex_);
  OpenDevice& open = of(device);
  if (open.users == 0) throw stale("device");
  const std::string name = "kernels " + key;
  auto known = open.belongings.find(name);
  if (known != open.belongings.end()) return known->second;
  FreshHandle fresh(handles, module);
  open.belongings.emplace(name, fresh.get());
  return fresh.take();
}

void Core::drop_belonging(double device, double handle) {
  {
    std::lock_guard lock(mutex_);
    auto& belongings = of(device).belongings;
    const auto known = std::find_if(belongings.begin(), belongings.end(),
                                    [&](auto& each) { return each.second == handle; });
    if (known == belongings.end()) return;
    belongings.erase(known);
  }
  handles.retire(handle);
}

// ---- the stream pool and tables -----------------------------------------------------------------

double Core::lend_stream(double device) {
  if (thread_captures())
    throw state_capture(
        "this call needs a stream of its own, which cannot be created inside a capture; make the "
        "call before the capture begins");
  std::vector<Ref<Object>> failed;  // freed after the mutex is released
  std::lock_guard lock(mutex_);
  OpenDevice& open = of(device);
  // Looks for a stream on which the previous thread's work has ended without an error. Streams with
  // an error are closed.
  for (size_t i = open.idle_streams.size(); i-- > 0;) {
    const double handle = open.idle_streams[i];
    try {
      if (!Pinned<Stream>(handle, Kind::stream, "stream")->query()) continue;
      open.idle_streams.erase(open.idle_streams.begin() + ptrdiff_t(i));
      open.stream_counts.hits++;
      return handle;
    } catch (const Error&) {
      open.idle_streams.erase(open.idle_streams.begin() + ptrdiff_t(i));
      if (auto stream = handles.retire(handle)) failed.push_back(std::move(*stream));
    }
  }
  open.stream_counts.misses++;
  return handles.add(open.device->create_stream(0));
}

void Core::take_back_stream(double device, double handle) {
  {
    std::lock_guard lock(mutex_);
    OpenDevice& open = of(device);
    try {
      // The device may have been opened with another precision of products since.
      if (open.users > 0 && open.idle_streams.size() < max_idle_streams &&
          Pinned<Stream>(handle, Kind::stream, "stream")->products == open.device->products)
        return open.idle_streams.push_back(handle);
    } catch (const std::bad_alloc&) {
      // The stream is closed instead.
    } catch (const Error&) {
      // The stream is closed already.
    }
  }
  handles.retire(handle);
}

Ref<Memory> Core::table(double device, const void* bytes, size_t size) {
  const std::string key(static_cast<const char*>(bytes), size);
  Ref<Device> on;
  const auto known = [&](OpenDevice& open) -> Ref<Memory> {
    const auto found = open.tables.find(key);
    if (found == open.tables.end()) return nullptr;
    found->second.used = ++open.table_counts.hits + open.table_counts.misses;
    return found->second.memory;
  };
  {
    std::lock_guard lock(mutex_);
    OpenDevice& open = of(device);
    if (auto found = known(open)) return found;
    on = open.device;
  }
  if (thread_captures())
    throw state_capture(
        "this call needs a table in device memory, which cannot be written inside a capture; make "
        "the call once before the capture begins");
  Ref<Memory> made = on->allocate(size);
  {
    const Ref<Stream> stream = on->create_stream(0);
    const Ref<Event> there = on->create_event(false);
    Ref<Memory> staging = on->allocate_host(size);
    std::memcpy(staging->address, bytes, size);
    stream->copy(Span{made, 0, size}, Span{std::move(staging), 0, size});
    stream->record(there, false);
    if (!on->wait_event(*there, table_ns))
      throw state_busy("the device did not take a table of ", size,
                       " bytes in time: it is stuck, or another thread's capture takes long");
  }
  Ref<Memory> gone;
  std::lock_guard lock(mutex_);
  OpenDevice& open = of(device);
  if (auto found = known(open)) return found;  // another thread added the table first
  open.table_counts.misses++;
  if (open.users == 0) return made;
  if (open.tables.size() == max_tables) {
    const auto oldest =
        std::min_element(open.tables.begin(), open.tables.end(),
                         [](auto& a, auto& b) { return a.second.used < b.second.used; });
    open.table_counts.bytes -= oldest->first.size();
    gone = std::move(oldest->second.memory);
    open.tables.erase(oldest);
  }
  open.tables[key] = {made, open.table_counts.hits + open.table_counts.misses};
  open.table_counts.bytes += size;
  return made;
}

Core::Caches Core::caches(double device) {
  std::lock_guard lock(mutex_);
  OpenDevice& open = of(device);
  return {open.device->kept(), open.stream_counts, open.table_counts};
}

// ---- the shared capture stream ------------------------------------------------------------------

double Core::enter_capture(double device, const Ref<Object>& pool, const void* thread,
                           uint64_t ns) {
  std::unique_lock lock(mutex_);
  OpenDevice& open = of(device);
  if (open.captures == thread) {
    throw state_busy("the shared capture stream of ", open.device->family, ":", open.device->index,
                     " is in use by this thread already: one captured or warmed-up function cannot "
                     "run inside another");
  }
  if (!left_.wait_for(lock, std::chrono::nanoseconds(ns), [&] { return !open.captures; })) return 0;
  if (pool) {
    auto& arena = static_cast<GraphPool&>(*pool);
    if (&*arena.device != &*open.device) throw argument("the graph pool belongs to another device");
    arena.rewind();
  }
  // Searched for after the wait, because the previous thread may have closed the capture stream
  // after an error. A new one is then created.
  auto stream = open.belongings.find(capture_stream);
  if (stream == open.belongings.end()) {
    FreshHandle fresh(handles, open.device->create_stream(0));
    stream = open.belongings.emplace(capture_stream, fresh.get()).first;
    fresh.take();
  }
  open.captures = thread;
  open.pool = pool;
  return stream->second;
}

// Lets other threads use the capture stream, and ends its capture if one is open. The caller holds
// the mutex.
void Core::end_scope(OpenDevice& open) {
  open.captures = nullptr;
  open.pool.reset();
  left_.notify_all();
  const auto known = open.belongings.find(capture_stream);
  if (known == open.belongings.end()) return;  // the stream had failed and was dropped
  Pinned<Stream> stream(known->second, Kind::stream, "capture stream");
  if (stream->capturing()) stream->end_capture();
}

void Core::leave_capture(double device, const void* thread) {
  {
    std::lock_guard lock(mutex_);
    OpenDevice& open = of(device);
    if (open.captures != thread) return;
    end_scope(open);
  }
  close(device, 0);
}

void Core::leave(const void* thread) {
  std::lock_guard lock(mutex_);
  for (auto& [name, open] : open_) {
    if (open.captures != thread) continue;
    try {
      end_scope(open);
    } catch (const std::exception&) {
      // The capture stream failed. The next thread that enters gets the error.
    }
  }
}

void Core::require_entered(const Object& pool, const void* thread) {
  std::lock_guard lock(mutex_);
  for (auto& [name, open] : open_)
    if (open.captures == thread && open.pool.get() == &pool) return;
  throw state_capture(
      "a graph pool lends memory only inside a function that is captured or warmed up with it");
}

}  // namespace hotslot
