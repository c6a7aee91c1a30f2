// Implements the C functions of api.h on the core.
#include "device/core/api.h"

#include <cstdio>
#include <type_traits>

#include "device/core/core.hpp"
#include "device/core/graph_pool.hpp"

namespace hotslot {
namespace {

// These variables have no destructor. The C library would register a destructor when a thread first
// uses the variable. If memory runs out at that moment, the C library ends the process.
thread_local char last_text[1024];
thread_local hotslot_error last{"", "", "", "", "", "", 0};

// Copies the text to last_text, and truncates it to the buffer's size.
void keep(const char* text) { snprintf(last_text, sizeof last_text, "%s", text); }

// Calls `f` and returns its result, or 0 if `f` returns void. If `f` throws, stores the error in
// `last` and returns −1.
template <class F>
int guarded(F&& f) {
  try {
    if constexpr (std::is_void_v<decltype(f())>) {
      f();
      return 0;
    } else {
      return f();
    }
  } catch (const Error& error) {
    keep(error.what());
    last = view(error);
  } catch (const std::exception&) {
    keep("out of memory in an actor's call of the device");
    last = {"ERR_HOTSLOT_MEMORY", "", "", "", "", "", 0};
  }
  last.text = last_text;
  return -1;
}

template <class T>
Ref<T> ref(void* object) {
  return std::static_pointer_cast<T>(static_cast<T*>(object)->shared_from_this());
}

Span span(void* memory, uint64_t offset, uint64_t bytes) {
  auto held = ref<Memory>(memory);
  if (offset > held->bytes || bytes > held->bytes - offset)
    throw range("a copy ends beyond its memory");
  return Span{std::move(held), offset, bytes};
}

const hotslot_api table{
    HOTSLOT_API_VERSION,
    sizeof(hotslot_api),
    []() -> const hotslot_error* { return &last; },
    [](double handle, int kind) -> void* {
      return Core::instance().handles.pin(handle, Kind(kind));
    },
    [](double handle) { Core::instance().handles.unpin(handle); },
    [](void* memory, uint64_t* bytes) {
      *bytes = static_cast<Memory*>(memory)->bytes;
      return static_cast<Memory*>(memory)->address;
    },
    [](void* stream, void* to, uint64_t to_offset, void* from, uint64_t from_offset,
       uint64_t bytes) {
      return guarded([&] {
        static_cast<Stream*>(stream)->copy(span(to, to_offset, bytes),
                                           span(from, from_offset, bytes));
      });
    },
    [](void* stream, void* event) {
      return guarded([&] { static_cast<Stream*>(stream)->record(ref<Event>(event), false); });
    },
    [](void* stream, void* event) {
      return guarded([&] { static_cast<Stream*>(stream)->wait(ref<Event>(event)); });
    },
    [](void* stream, void* exec) {
      return guarded([&] { Replays::replay(*static_cast<Stream*>(stream), ref<Exec>(exec)); });
    },
    [](void* stream) {
      return guarded([&] { return int(static_cast<Stream*>(stream)->query()); });
    },
    [](void* event) { return guarded([&] { return int(static_cast<Event*>(event)->query()); }); },
    [](void* device, uint64_t ns) { return int(static_cast<Device*>(device)->help(ns)); },
    [](void* device, void* bell) {
      return guarded([&] { static_cast<Device*>(device)->attend(static_cast<Bell*>(bell)); });
    },
    [](void* device, void* bell) {
      static_cast<Device*>(device)->dismiss(static_cast<Bell*>(bell));
    },
};

}  // namespace

const hotslot_api* api_table() { return &table; }

}  // namespace hotslot
