// The shared code of devices, events and graphs of all families. It checks the family, the device
// and open captures, then calls the family's do_… function.
#include "device/core/device.hpp"

#include "device/core/capture.hpp"

namespace hotslot {

Memory::Memory(Device& device, uint8_t* address, size_t bytes, bool host, HostKind host_kind,
               bool managed)
    : Object(Kind::memory, device.family),
      device(device),
      address(address),
      bytes(bytes),
      host(host),
      host_kind(host_kind),
      managed(managed) {}

void require_device(const Device& device, const Device& of, const char* thing, const char* what,
                    const char* instead) {
  if (&device != &of)
    throw argument(thing, " of ", of.family, ":", of.index, " cannot ", what, " on ", device.family,
                   ":", device.index, ": ", instead);
}

// ---- events -------------------------------------------------------------------------------------

Event::Event(Device& device, bool timing)
    : Object(Kind::event, device.family), device(device), timing(timing) {}

bool Event::query() {
  const char* call = "eventQuery";
  forbid_in_capture(family, call);
  std::lock_guard guard(capture_mark.lock);
  forbid_captured(family, call, capture_mark);
  return !recorded || do_query();
}

double Event::elapsed_ms(Event& start) {
  const char* call = "eventElapsedTime";
  require_family(family, start, "an event");
  if (!timing || !start.timing)
    throw argument("elapsedMs needs two events created with timing: true");
  forbid_in_capture(family, call);
  bool both = true;
  for (Event* event : {&start, this}) {
    std::lock_guard guard(event->capture_mark.lock);
    forbid_captured(family, call, event->capture_mark);
    both = both && event->recorded;
  }
  const std::optional<double> ms = both ? do_elapsed_ms(start) : std::nullopt;
  if (!ms)
    refuse(family, call, refusal::not_ready, "both events must be recorded and done",
           "wait for the later event first");
  return *ms;
}

// ---- graphs -------------------------------------------------------------------------------------

Exec::Exec(Device& device) : Object(Kind::exec, device.family), device(device) {}

Graph::Graph(Device& device, Ref<Capture> capture)
    : Object(Kind::graph, device.family), device(device), capture(std::move(capture)) {}

size_t Graph::node_count() const { return capture->nodes.size(); }

bool Exec::update(const Ref<Graph>& graph) {
  require_family(family, *graph, "a graph");
  require_device(device, graph->device, "a graph", "update an exec", "instantiate it");
  return do_update(graph);
}

// ---- devices ------------------------------------------------------------------------------------

Ref<Memory> Device::allocate(size_t bytes) {
  forbid_in_capture(family, "memAlloc");
  return do_allocate(bytes);
}

Ref<Memory> Device::allocate_managed(size_t bytes) {
  forbid_in_capture(family, "memAllocManaged");
  return do_allocate_managed(bytes);
}

Ref<Memory> Device::allocate_host(size_t bytes) {
  forbid_in_capture(family, "memAllocHost");
  return do_allocate_host(bytes);
}

Ref<Memory> Device::register_host(void* address, size_t bytes, bool pin) {
  forbid_in_capture(family, "memHostRegister");
  return do_register_host(address, bytes, pin);
}

void Device::advise(const Span& span, Advice advice, int where) {
  require_family(family, *span.memory, "memory");
  forbid_in_capture(family, "memAdvise");
  if (span.bytes > 0) do_advise(span, advice, where);
}

Residency Device::residency(const Span& span) {
  require_family(family, *span.memory, "memory");
  forbid_in_capture(family, "memRangeGetAttribute");
  return span.bytes > 0 ? do_residency(span) : Residency{};
}

bool Device::wait_event(Event& event, uint64_t ns) {
  require_family(family, event, "an event");
  return do_wait_event(event, ns);
}

}  // namespace hotslot
