// The core's face to JavaScript: what belongs to a device and is shared by its threads, and the one capture stream.
#include "device/addon/arguments.hpp"
#include "device/core/graph_pool.hpp"

namespace hotslot {
namespace {

Napi::Value shared_capture_stream(Info info) {
  return guard(info, [&] {
    return Core::instance().belonging(number(info, 0), capture_stream, [](Device& of) { return of.create_stream(0); });
  });
}

// It failed: the next thread that asks gets another.
Napi::Value drop_belonging(Info info) {
  return guard(info, [&] { Core::instance().drop_belonging(number(info, 0), number(info, 1)); });
}

// transferStream(source, target): copies from one to the other have a stream of their own, made on the source.
Napi::Value transfer_stream(Info info) {
  return guard(info, [&] {
    const auto target = device(info, 1);
    return Core::instance().belonging(number(info, 0),
                                      "to " + std::string(target->family) + ":" + std::to_string(target->index),
                                      [](Device& of) { return of.create_stream(0); });
  });
}

// lendStream(device): a stream of the device's pool, this thread's until takeBackStream or its end.
Napi::Value lend_stream(Info info) {
  return guard(info, [&] { return own(info).adopt(Core::instance().lend_stream(number(info, 0))); });
}
Napi::Value take_back_stream(Info info) {
  return guard(info, [&] {
    own(info).forget(number(info, 1));
    Core::instance().take_back_stream(number(info, 0), number(info, 1));
  });
}

// deviceTable(device, bytes): a handle of this thread's for read-only device memory with these bytes.
Napi::Value device_table(Info info) {
  const Bytes bytes = bytes_of(info[1], "the table");
  return guard(info, [&] { return own(info).make(Core::instance().table(number(info, 0), bytes.data, bytes.size)); });
}

Napi::Value caches(Info info) {
  return guard(info, [&] {
    const Core::Caches found = Core::instance().caches(number(info, 0));
    auto out = Napi::Object::New(info.Env());
    const auto set = [&](const char* name, const CacheCounts& counts) {
      auto entry = Napi::Object::New(info.Env());
      entry.Set("hits", double(counts.hits));
      entry.Set("misses", double(counts.misses));
      entry.Set("bytes", double(counts.bytes));
      out.Set(name, entry);
    };
    set("buffers", found.buffers);
    set("streams", found.streams);
    set("tables", found.tables);
    return out;
  });
}

// ---- graph pools and the capture stream -----------------------------------------------------------------------------

Pinned<GraphPool> pool(double handle) { return {handle, Kind::pool, "graph pool"}; }

Ref<GraphPool> new_pool(Info info) { return std::make_shared<GraphPool>(device(info, 0).ref()); }

Napi::Value shared_graph_pool(Info info) {
  return guard(info, [&] {
    return Core::instance().belonging(number(info, 0), graph_pool, [&](Device&) { return new_pool(info); });
  });
}
Napi::Value create_graph_pool(Info info) {
  return guard(info, [&] { return own(info).make(new_pool(info)); });
}
Napi::Value graph_pool_bytes(Info info) {
  return guard(info, [&] { return double(pool(number(info, 0))->bytes()); });
}

// enterCapture(device, pool or 0, ms): the capture stream's handle; this thread alone has it, and the pool,
// until leaveCapture. 0: another thread has it still.
Napi::Value enter_capture(Info info) {
  return guard(info, [&] {
    Ref<Object> with;
    if (number(info, 1) != 0) with = pool(number(info, 1)).ref();
    return Core::instance().enter_capture(number(info, 0), with, &own(info), uint64_t(number(info, 2) * 1e6));
  });
}
Napi::Value leave_capture(Info info) {
  return guard(info, [&] { Core::instance().leave_capture(number(info, 0), &own(info)); });
}

// poolAllocate(pool, bytes): [handle of the block, offset in it]. The handle is the pool's.
Napi::Value pool_allocate(Info info) {
  return guard(info, [&] {
    const auto from = pool(number(info, 0));
    Core::instance().require_entered(*from, &own(info));
    const GraphPool::Part part = from->allocate(whole(info, 1));
    auto out = Napi::Array::New(info.Env(), 2);
    out.Set(0u, part.block);
    out.Set(1u, double(part.offset));
    return out;
  });
}

}  // namespace

void add_shared_functions(Napi::Env env, Napi::Object exports) {
  static constexpr Exported all[] = {
      {"sharedCaptureStream", shared_capture_stream},
      {"dropBelonging", drop_belonging},
      {"transferStream", transfer_stream},
      {"lendStream", lend_stream},
      {"takeBackStream", take_back_stream},
      {"deviceTable", device_table},
      {"caches", caches},
      {"sharedGraphPool", shared_graph_pool},
      {"createGraphPool", create_graph_pool},
      {"graphPoolBytes", graph_pool_bytes},
      {"enterCapture", enter_capture},
      {"leaveCapture", leave_capture},
      {"poolAllocate", pool_allocate},
  };
  add_functions(env, exports, all);
}

}  // namespace hotslot
