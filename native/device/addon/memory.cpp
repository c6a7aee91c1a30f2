// Functions for JavaScript: memory of devices and of the CPU, managed memory, and writes and reads
// of values.
#include <time.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "device/addon/arguments.hpp"

namespace hotslot {
namespace {

double allocate(Info info) { return own(info).make(device(info, 0)->allocate(whole(info, 1))); }
double scratch(Info info) { return own(info).make(device(info, 0)->scratch(whole(info, 1))); }
double address(Info info) { return double(uintptr_t(memory(number(info, 0))->address)); }

// ---- host memory --------------------------------------------------------------------------------

// The driver's status for registering memory that is registered already. It is the same in CUDA and
// HIP.
constexpr int already_registered = 712;

// registerHost(device, view, pin, ms): registers the view's bytes and returns a handle.
//
// The driver may still have an earlier registration whose handle was closed, because work or an
// actor uses the memory. If it is of the same bytes, registerHost() opens a new handle for it. If
// it is of other bytes in the same pages, this thread sleeps up to `ms` until the driver has
// released it. `ms` is 0 on the main thread.
double register_host(Info info) {
  const Bytes bytes = bytes_of(info[1], "the view to register");
  const auto lend = [&] {
    return own(info).lend(info[1].As<Napi::TypedArray>(), [&] {
      return device(info, 0)->register_host(bytes.data, bytes.size, info[2].ToBoolean().Value());
    });
  };
  const uint64_t ns = patience_ns(info, 3);
  long nap_ns = 50'000;
  for (const uint64_t begin = now_ns();; nap_ns = std::min(2 * nap_ns, 10'000'000L)) {
    try {
      return lend();
    } catch (const Error& error) {
      if (error.status != already_registered || !own(info).has_closed(bytes.data, bytes.size))
        throw;
      if (const double again = own(info).lend_again(*device(info, 0), bytes.data, bytes.size))
        return again;
      own(info).sweep(true);
      if (!own(info).has_closed(bytes.data, bytes.size)) continue;
      if (now_ns() - begin >= ns) throw;
    }
    const timespec nap{0, nap_ns};
    nanosleep(&nap, nullptr);
  }
}

// allocateHost(device, bytes): returns a handle for host memory that the driver allocates. The
// memory is zeroed. It is pinned if the family pins memory.
double allocate_host(Info info) {
  Ref<Memory> memory = device(info, 0)->allocate_host(whole(info, 1));
  memset(memory->address, 0, size_t(whole(info, 1)));  // may contain values of an earlier owner
  return own(info).make(std::move(memory));
}

// Returns how the driver reaches the memory: 0 pageable, 1 registered, 2 imported.
double host_kind(Info info) { return int(memory(number(info, 0))->host_kind); }

// write(stream, memory, offset, bytes): enqueues a transfer of `bytes` to the memory. First copies
// `bytes` to staging memory, so the caller may change them after write() returns.
void write(Info info) {
  const Bytes bytes = bytes_of(info[3], "the values");
  Span to = span(number(info, 1), whole(info, 2), bytes.size);
  Ref<Memory> staging = to.memory->device.allocate_host(bytes.size);
  memcpy(staging->address, bytes.data, bytes.size);
  stream(info, 0)->copy(to, Span{std::move(staging), 0, bytes.size});
}

// read(stream, memory, offset, bytes): enqueues a copy to staging memory and returns the handle of
// that memory. Call copyOut() after the stream has finished the copy.
double read(Info info) {
  Span from = span(number(info, 1), whole(info, 2), whole(info, 3));
  Ref<Memory> staging = from.memory->device.allocate_host(from.bytes);
  stream(info, 0)->copy(Span{staging, 0, from.bytes}, from);
  return own(info).make(staging);
}
// copyOut(staging, to, from = 0): fills the typed array `to` with the staging memory's bytes from
// byte `from` on. Returns true, see answered() in src/base/addon.ts.
bool copy_out(Info info) {
  const Bytes to = bytes_of(info[1], "the target");
  Span from = span(number(info, 0), info[2].IsNumber() ? whole(info, 2) : 0, to.size);
  // The CPU can read all memory of the CPU device.
  const bool ours =
      from.memory->host || from.memory->managed || std::string_view(from.memory->family) == "host";
  if (!ours) throw argument("copyOut takes memory of the host");
  if (from.memory->revoked.load()) throw argument("copyOut: ", lender_gone, ": ", keep_the_lender);
  memcpy(to.data, from.address(), to.size);
  return true;
}

// ---- managed memory -----------------------------------------------------------------------------

double allocate_managed(Info info) {
  return own(info).make(device(info, 0)->allocate_managed(whole(info, 1)));
}

Span managed_span(Info info, size_t i) {
  Span pages = span(number(info, i), whole(info, i + 1), whole(info, i + 2));
  if (!pages.memory->managed)
    throw argument("the tensor is not in managed memory: only those of a unified memory pool move");
  return pages;
}

// Returns `where` if it is an index of the family's devices. If `least` is −1, `where` may also be
// −1, which is the CPU. Throws for any other value.
int location(const char* family, const Napi::Value& where, int least) {
  const double given = number(where);
  const int count = Core::instance().count(family);
  if (!(given >= least && given < count) || given != double(int(given)))
    throw range("device must be ", least < 0 ? "-1 (the CPU) or " : "", "the index of one of the ",
                count, " ", family, " devices, 0 to ", count - 1, "; got ",
                where.ToString().Utf8Value());
  return int(given);
}

// checkLocation(family, device, least): throws unless location() accepts the device.
void check_location(Info info) {
  location(info[0].As<Napi::String>().Utf8Value().c_str(), info[1], int(number(info, 2)));
}

// prefetch(stream, memory, offset, bytes, device): enqueues a prefetch of managed memory to the
// device, or to the CPU if `device` is −1.
void prefetch(Info info) {
  const Span range = managed_span(info, 1);
  const int where = location(range.memory->family, info[4], on_cpu);
  stream(info, 0)->prefetch(range, where);
}

// advise(memory, offset, bytes, advice, device): passes advice for managed memory to the driver.
// `advice` is 0 for preferred_location and 1 for accessed_by.
void advise(Info info) {
  const Span range = managed_span(info, 0);
  const auto advice = Advice(info[3].As<Napi::Number>().Int32Value());
  const int where =
      location(range.memory->family, info[4], advice == Advice::accessed_by ? 0 : on_cpu);
  range.memory->device.advise(range, advice, where);
}

Napi::Value residency(Info info) {
  const Span range = managed_span(info, 0);
  const Residency found = range.memory->device.residency(range);
  auto out = Napi::Object::New(info.Env()), by = Napi::Object(Napi::Array::New(info.Env()));
  uint32_t n = 0;
  for (const int each : found.accessed_by) by.Set(n++, each);
  out.Set("location", found.location);
  out.Set("preferred", found.preferred);
  out.Set("accessedBy", by);
  return out;
}

// ---- the probe of managed memory ----------------------------------------------------------------

// See Probe::claim.
std::string claim_probe(Info info) { return Core::instance().probe.claim(&own(info)); }
// publishProbe(outcome): sets the outcome of the probe for all threads. Does nothing unless this
// thread has claimed the probe. Returns true, see answered() in src/base/addon.ts.
bool publish_probe(Info info) {
  try {
    Core::instance().probe.publish(&own(info), info[0].As<Napi::String>().Utf8Value());
  } catch (...) {
    Core::instance().probe.leave(&own(info));  // another thread may claim it
    throw;
  }
  return true;
}
std::string probe_outcome(Info) { return Core::instance().probe.outcome(); }

}  // namespace

void add_memory_functions(Napi::Env env, Napi::Object exports) {
  static constexpr Exported memory[] = {
      {"allocate", allocate},
      {"scratch", scratch},
      {"address", address},
      {"registerHost", register_host},
      {"allocateHost", allocate_host},
      {"hostKind", host_kind},
      {"write", write},
      {"read", read},
      {"copyOut", copy_out},
  };
  static constexpr Exported managed[] = {
      {"allocateManaged", allocate_managed},
      {"checkLocation", check_location},
      {"prefetch", prefetch},
      {"advise", advise},
      {"residency", residency},
      {"claimProbe", claim_probe},
      {"publishProbe", publish_probe},
      {"probeOutcome", probe_outcome},
  };
  add_functions(env, add_group(env, exports, "memory"), memory);
  add_functions(env, add_group(env, exports, "managed"), managed);
}

}  // namespace hotslot
