// libcuda.so.1 for tests: NVIDIA's driver interface over the host device, with the rules of a real
// driver and some more. The same source with -DHOTSLOT_SOFTWARE_HIP=5 or =7 is libamdhip64.so of an
// old or a new ROCm.
//   HOTSLOT_SOFTWARE_CUDA=12.0|13.0|11.8, then options with commas between. The version says how it
//   behaves where the documents are silent: see cuda_card.hpp. devices=N, memory=BYTES per device,
//   sticky=context or sticky=stream (what a failing kernel takes with it), register=refuse, ptx=6.3
//   (newest .version taken), cc=8.0, peer=none, managed=none, or managed=exclusive (not while the
//   CPU may use it), hang=cuMemAllocManaged (the call that never returns)
//   HOTSLOT_SOFTWARE_HIP=devices=N,memory=BYTES,sticky=context,register=refuse,peer=none,managed=none,hang=NAME,arch=gfx90a
//   HOTSLOT_SOFTWARE_FAIL=name[:nth[:status[:forever]]], HOTSLOT_SOFTWARE_STRICT=print|abort,
//   HOTSLOT_SOFTWARE_LOG=path
#ifdef HOTSLOT_SOFTWARE_HIP
#include "hip_exports.hpp"
#else
#include "cuda_exports.hpp"
#endif

using namespace hotslot::software;

SOFTWARE_EXPORT void hotslot_software_fail(const char* spec) { desk().injection.set(spec); }

SOFTWARE_EXPORT const char* hotslot_software_calls(void) { return lent_text(calls_text()); }

// What was made and not given back, and how often something was done that nobody may do.
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

// How long calls kept their callers: lines 'name µs µs', the longest in the main thread and in any
// other.
SOFTWARE_EXPORT const char* hotslot_software_waits(void) { return lent_text(waits_text()); }
SOFTWARE_EXPORT const char* hotslot_software_moved(void) {
  return lent_text(lines({{"to_device", op::bytes_to_device}, {"to_host", op::bytes_to_host}}));
}

// Something outside the driver, like a library's own kernels, is loaded now.
SOFTWARE_EXPORT void hotslot_software_load(const char* what) {
  static Call call("(a library)");
  thread_state().call = &call;
  std::lock_guard guard(driver().lock);
  if (thread_state().current) load(*thread_state().current, what);
}

// The sentences behind `violations`, since the last time.
SOFTWARE_EXPORT const char* hotslot_software_complaints(void) {
  return lent_text(desk().complaints.take());
}
