// Functions for JavaScript: the belongings of a device that all threads share.
#include "device/addon/arguments.hpp"
#include "device/core/graph_pool.hpp"

namespace hotslot {
namespace {

double shared_capture_stream(Info info) {
  return Core::instance().belonging(number(info, 0), capture_stream,
                                    [](Device& of) { return of.create_stream(0); });
}

double shared_graph_pool(Info info) {
  return Core::instance().belonging(number(info, 0), graph_pool, [&](Device&) {
    return std::make_shared<GraphPool>(device(info, 0).ref());
  });
}

// Closes a belonging that failed. The next thread that requests it gets a new object.
void drop_belonging(Info info) {
  Core::instance().drop_belonging(number(info, 0), number(info, 1));
}

// transferStream(source, target): returns the handle of the source's stream for copies to the
// target. All threads share the stream, and use it for nothing else.
double transfer_stream(Info info) {
  const auto target = device(info, 1);
  return Core::instance().belonging(
      number(info, 0), "to " + std::string(target->family) + ":" + std::to_string(target->index),
      [](Device& of) { return of.create_stream(0); });
}

// lendStream(device): returns a stream that only this thread uses until it calls takeBackStream()
// or ends.
double lend_stream(Info info) {
  return own(info).adopt(Core::instance().lend_stream(number(info, 0)));
}
void take_back_stream(Info info) {
  own(info).forget(number(info, 1));
  Core::instance().take_back_stream(number(info, 0), number(info, 1));
}

// deviceTable(device, bytes): returns this thread's handle for read-only device memory that
// contains these bytes.
double device_table(Info info) {
  const Bytes bytes = bytes_of(info[1], "the table");
  return own(info).make(Core::instance().table(number(info, 0), bytes.data, bytes.size));
}

Napi::Value caches(Info info) {
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
}

}  // namespace

void add_shared_functions(Napi::Env env, Napi::Object exports) {
  static constexpr Exported all[] = {
      {"sharedCaptureStream", shared_capture_stream},
      {"sharedGraphPool", shared_graph_pool},
      {"transferStream", transfer_stream},
      {"dropBelonging", drop_belonging},
      {"lendStream", lend_stream},
      {"takeBackStream", take_back_stream},
      {"deviceTable", device_table},
      {"caches", caches},
  };
  add_functions(env, add_group(env, exports, "shared"), all);
}

}  // namespace hotslot
