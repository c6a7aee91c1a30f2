// A Level Zero driver in software, for tests: the vendor's loader loads it through
// ZE_ENABLE_ALT_DRIVERS as it would a real one. It is stricter than any: lists keep no order they
// do not promise, device memory is out of the host's reach, stale handles, memory in use,
// half-registered ranges and racing threads are found. What steers it (steering.hpp):
//   HOTSLOT_SOFTWARE_ZE: spec=1.4 (default), spec=1.9 or modern, then single features (see
//     Features)
//   HOTSLOT_SOFTWARE_STRICT: print: mistakes of the caller are said; abort: and end the program
//   HOTSLOT_SOFTWARE_FAIL: name[:nth[:status[:forever]]]: this call fails
//   HOTSLOT_SOFTWARE_LOG: a file that gets every call and its count at exit
// Declarations come from the vendor's headers alone, never from the ABI page of the backend it
// checks.
#include "level_zero_graphs.hpp"

namespace software {
namespace {

ze_result_t zeDriverGetExtensionFunctionAddress(ze_driver_handle_t driver, const char* name,
                                                void** out) {
  return enter("zeDriverGetExtensionFunctionAddress", [&](auto&) {
    driver_of(driver), pointer(name), pointer(out);
    const Features& f = features();
    const struct {
      bool there;
      const char* name;
      void* function;
    } all[] = {
#define SOFTWARE_NEWER(there, name) {there, #name, reinterpret_cast<void*>(&name)}
        SOFTWARE_NEWER(f.in_order, zeCommandListHostSynchronize),
        SOFTWARE_NEWER(f.immediate_append, zeCommandListImmediateAppendCommandListsExp),
        SOFTWARE_NEWER(f.counter, zexCounterBasedEventCreate2),
        SOFTWARE_NEWER(f.counter && f.minor >= 15, zeEventCounterBasedCreate),
        SOFTWARE_NEWER(f.import_intel, zexDriverImportExternalPointer),
        SOFTWARE_NEWER(f.import_intel, zexDriverReleaseImportedPointer),
        SOFTWARE_NEWER(f.graph != Features::none, zeGraphCreateExt),
        SOFTWARE_NEWER(f.graph != Features::none, zeCommandListBeginGraphCaptureExt),
        SOFTWARE_NEWER(f.graph != Features::none, zeCommandListBeginCaptureIntoGraphExt),
        SOFTWARE_NEWER(f.graph != Features::none, zeCommandListIsGraphCaptureEnabledExt),
        SOFTWARE_NEWER(f.graph != Features::none, zeCommandListEndGraphCaptureExt),
        SOFTWARE_NEWER(f.graph != Features::none, zeGraphInstantiateExt),
        SOFTWARE_NEWER(f.graph != Features::none, zeCommandListAppendGraphExt),
        SOFTWARE_NEWER(f.graph != Features::none, zeGraphIsEmptyExt),
        SOFTWARE_NEWER(f.graph != Features::none, zeGraphDestroyExt),
        SOFTWARE_NEWER(f.graph != Features::none, zeExecutableGraphDestroyExt),
    };
    *out = nullptr;
    for (auto& each : all)
      if (each.there && std::strcmp(each.name, name) == 0) *out = each.function;
    return *out ? ZE_RESULT_SUCCESS : unsupported_feature;
  });
}

}  // namespace
}  // namespace software

#include "level_zero_tables.hpp"

SOFTWARE_EXPORT void hotslot_software_fail(const char* specification) {
  software::Calls::all().injection.set(specification);
}
SOFTWARE_EXPORT const char* hotslot_software_calls(void) {
  return software::lent_text(software::Calls::all().text());
}
// Nothing here waits for more than the specification says.
SOFTWARE_EXPORT const char* hotslot_software_waits(void) { return ""; }
SOFTWARE_EXPORT const char* hotslot_software_moved(void) { return ""; }
SOFTWARE_EXPORT const char* hotslot_software_live(void) {
  std::lock_guard held(software::machine().lock);
  return software::lent_text(software::machine().live());
}
// What callers did wrong so far, a line each: what HOTSLOT_SOFTWARE_STRICT would have said.
SOFTWARE_EXPORT const char* hotslot_software_violations(void) {
  return software::lent_text(software::Calls::all().complaints.all());
}
