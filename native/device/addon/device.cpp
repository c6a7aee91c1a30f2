// device.node: the core's functions for JavaScript, with one exported object for each subject. The
// functions take and return handles. src/device/ makes JavaScript objects from the handles.
#include "device/addon/arguments.hpp"
#include "device/core/own_thread.hpp"
#include "device/gpu/give_back.hpp"

namespace hotslot {
namespace {

Napi::Value list_devices(Info info) {
  auto list = Napi::Array::New(info.Env());
  uint32_t n = 0;
  for (auto& facts : Core::instance().list()) {
    auto entry = Napi::Object::New(info.Env());
    entry.Set("name", facts.name);
    entry.Set("family", facts.family);
    entry.Set("available", facts.available);
    if (!facts.reason.empty()) entry.Set("reason", facts.reason);
    if (!facts.description.empty()) entry.Set("description", facts.description);
    list.Set(n++, entry);
  }
  return list;
}

// openDevice(name, products): `products` is 'float32', 'tf32' or undefined.
Napi::Value open_device(Info info) {
  std::optional<Products> products;
  if (info[1].IsString())
    products = info[1].As<Napi::String>().Utf8Value() == name_of(Products::tf32)
                   ? Products::tf32
                   : Products::float32;
  const OpenDevice& open = Core::instance().open(info[0].As<Napi::String>().Utf8Value(), products);
  try {
    open.device->prepare();  // not under the core's mutex, because it may take seconds
    own(info).opened(open.handle);
  } catch (...) {
    Core::instance().close(open.handle);
    throw;
  }
  auto out = Napi::Object::New(info.Env());
  out.Set("handle", open.handle);
  out.Set("family", open.device->family);
  out.Set("index", open.device->index);
  out.Set("stream", open.stream);
  return out;
}

// Undoes one openDevice() of this thread. Other threads can still use the device. Its belongings
// are freed when no thread has the device open.
void close_device(Info info) { own(info).closed(number(info, 0)); }

Napi::Value device_traits(Info info) {
  const DeviceTraits traits = device(info, 0)->traits();
  auto out = Napi::Object::New(info.Env());
  out.Set("description", traits.description);
  out.Set("timingEvents", traits.timing_events);
  out.Set("graphEvents", traits.graph_events);
  out.Set("rings", traits.rings);
  out.Set("noManaged", traits.no_managed);
  out.Set("watchdog", traits.watchdog);
  out.Set("movesPages", traits.moves_pages);
  out.Set("submitter", traits.submitter);
  out.Set("matrixProducts", traits.matrix_products);
  out.Set("products", name_of(traits.products));
  return out;
}

Napi::Value memory_info(Info info) {
  const MemoryInfo facts = device(info, 0)->memory_info();
  auto out = Napi::Object::New(info.Env());
  out.Set("total", double(facts.total));
  out.Set("free", double(facts.free));
  return out;
}

// Returns whether a stream of either device can copy between the two devices in one operation.
bool reaches(Info info) { return device(info, 0)->reaches(*device(info, 1)); }

// Returns whether streams of one device can wait for events of the other.
bool orders(Info info) { return device(info, 0)->orders(*device(info, 1)); }

// ownThread(): declares that the calling thread runs only Hotslot's code until it ends. See
// own_thread.hpp.
void own_thread(Info) { is_own_thread = true; }

// ---- handles ------------------------------------------------------------------------------------

// close(handle, ms): closes a handle, and returns whether it was open. If the handle's object is
// memory, it stays allocated until queued work that uses it is done.
//
// If `ms` is positive, this thread sleeps up to `ms` until other threads have unpinned the handle.
// If the handle is still pinned then, close() throws STATE_BUSY and the handle stays open. If `ms`
// is 0, close() returns at once, and the last unpin frees the object.
bool close(Info info) {
  const double handle = number(info, 0);
  const uint64_t ns = patience_ns(info, 1);
  const bool open =
      ns > 0 ? handles().remove(handle, ns) != nullptr : handles().retire(handle).has_value();
  own(info).forget(number(info, 0));
  own(info).sweep();
  return open;
}

// Returns the numbers of open and of pinned handles of one kind. Leak tests read them.
Napi::Value handle_count(Info info) {
  const auto counts = handles().count(Kind(info[0].As<Napi::Number>().Int32Value()));
  auto out = Napi::Object::New(info.Env());
  out.Set("open", counts.entries);
  out.Set("pinned", counts.pinned);
  return out;
}

// Returns the error text of each resource that could not be freed since the last call.
Napi::Value release_failures(Info info) {
  auto list = Napi::Array::New(info.Env());
  uint32_t n = 0;
  for (auto& text : ReleaseFailures::instance().take()) list.Set(n++, text);
  return list;
}

}  // namespace

static void init_addon(Napi::Env env, Napi::Object exports) {
  make_linkable<EnvironmentHandles>(env, exports);
  exports.Set("table",
              Napi::External<hotslot_api>::New(env, const_cast<hotslot_api*>(api_table())));
  static constexpr Exported devices[] = {
      {"listDevices", list_devices},
      {"openDevice", open_device},
      {"closeDevice", close_device},
      {"deviceTraits", device_traits},
      {"memoryInfo", memory_info},
      {"reaches", reaches},
      {"orders", orders},
      {"ownThread", own_thread},
  };
  static constexpr Exported handles[] = {
      {"close", close},
      {"handleCount", handle_count},
      {"releaseFailures", release_failures},
  };
  add_functions(env, add_group(env, exports, "devices"), devices);
  const Napi::Object group = add_group(env, exports, "handles");
  add_functions(env, group, handles);
  add_numbers(env, group, "kinds",
              {{"device", Kind::device},
               {"memory", Kind::memory},
               {"event", Kind::event},
               {"stream", Kind::stream},
               {"graph", Kind::graph},
               {"exec", Kind::exec},
               {"pool", Kind::pool},
               {"kernels", Kind::kernels}});
  add_stream_functions(env, exports);
  add_graph_functions(env, exports);
  add_memory_functions(env, exports);
  add_shared_functions(env, exports);
  add_halo_functions(env, exports);
  add_kernel_functions(env, exports);
}
HOTSLOT_ADDON(init_addon)

}  // namespace hotslot
