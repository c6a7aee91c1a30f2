// The libcuda.so.1 of the tests: NVIDIA's driver interface on top of the CPU device. It has the
// rules of a real driver, and some stricter ones. With -DHOTSLOT_SOFTWARE_HIP=5 or =7 the same
// source is libamdhip64.so of an old or a new ROCm. Environment variables:
// - HOTSLOT_SOFTWARE_CUDA is a version (12.0, 13.0 or 11.8), then options with commas between them.
//   The version decides how the driver behaves where the documents do not say (cuda_card.hpp).
// - HOTSLOT_SOFTWARE_HIP has only options, also arch=gfx90a.
// - HOTSLOT_SOFTWARE_FAIL=name[:nth[:status[:forever]]], HOTSLOT_SOFTWARE_STRICT=print|abort and
//   HOTSLOT_SOFTWARE_LOG=path: see steering.hpp.
//
// make_devices() has all options. Some of them are:
//   devices=N, memory=BYTES per device
//   sticky=context, sticky=stream: what a failing kernel makes unusable
//   register=refuse, peer=none, managed=none
//   managed=exclusive: the CPU may not always use managed memory
//   ptx=6.3: newest accepted .version; cc=8.0
//   hang=cuMemAllocManaged: a call that never returns
#ifdef HOTSLOT_SOFTWARE_HIP
#include "hip_exports.hpp"
#else
#include "cuda_exports.hpp"
#endif

using namespace hotslot::software;

SOFTWARE_EXPORT void hotslot_software_fail(const char* spec) { desk().injection.set(spec); }

SOFTWARE_EXPORT const char* hotslot_software_calls(void) { return lent_text(calls_text()); }

// Returns the number of live objects of each kind, and the number of complaints ("violations").
SOFTWARE_EXPORT const char* hotslot_software_live(void) {
  Driver& all = driver();
  std::lock_guard guard(all.lock);
  uint64_t kinds[3] = {}, bytes[3] = {};
  int retained = 0;
  for (auto& [begin, range] : all.ranges) {
    kinds[range->kind]++;
    bytes[range->kind] += range->bytes;
  }
  for (auto& device : all.devices) retained += device->retained;
  const std::pair<const char*, uint64_t> counts[] = {
      {"streams", all.streams.size()},
      {"events", all.events.size()},
      {"allocations", kinds[Range::device]},
      {"allocation_bytes", bytes[Range::device]},
      {"host_allocations", kinds[Range::host]},
      {"host_allocation_bytes", bytes[Range::host]},
      {"registrations", kinds[Range::registered]},
      {"graphs", all.graphs.size()},
      {"execs", all.execs.size()},
      {"modules", all.modules.size()},
      {"contexts_retained", uint64_t(retained)},
      {"pageable_copies", all.pageable_copies},
      {"violations", desk().complaints.count()},
  };
  std::string text;
  for (auto& [name, count] : counts) text += std::string(name) + " " + std::to_string(count) + "\n";
  return lent_text(std::move(text));
}

// Returns how long calls blocked their callers, as lines 'name µs µs': the longest time in the main
// thread, and in any other.
SOFTWARE_EXPORT const char* hotslot_software_waits(void) { return lent_text(waits_text()); }
SOFTWARE_EXPORT const char* hotslot_software_moved(void) {
  return lent_text(lines({{"to_device", op::bytes_to_device}, {"to_host", op::bytes_to_host}}));
}

// A library calls this when it loads something outside the driver, such as its kernels.
SOFTWARE_EXPORT void hotslot_software_load(const char* what) {
  static Call call("(a library)");
  thread_state().call = &call;
  std::lock_guard guard(driver().lock);
  if (thread_state().current) load(*thread_state().current, what);
}

// Returns the texts of the `violations` since the last call.
SOFTWARE_EXPORT const char* hotslot_software_complaints(void) {
  return lent_text(desk().complaints.take());
}
