// A Level Zero driver in software, for tests. The vendor's loader loads it through
// ZE_ENABLE_ALT_DRIVERS like a real driver. It is stricter than any real driver: lists keep no
// order that they do not promise, and the host cannot touch device memory. It finds stale handles,
// memory in use, half-registered ranges and racing threads. Environment variables (steering.hpp):
// - HOTSLOT_SOFTWARE_ZE: spec=1.4 (default), spec=1.9 or modern, then single features (Features).
// - HOTSLOT_SOFTWARE_STRICT: print prints mistakes of the caller, and abort also ends the process.
// - HOTSLOT_SOFTWARE_FAIL: name[:nth[:status[:forever]]] makes this call fail.
// - HOTSLOT_SOFTWARE_LOG: a file that gets every call and its count at exit.
//
// The declarations come only from the vendor's headers, never from the ABI header of the backend
// that the driver checks.
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
// No call waits longer than the specification says, so there is nothing to report.
SOFTWARE_EXPORT const char* hotslot_software_waits(void) { return ""; }
SOFTWARE_EXPORT const char* hotslot_software_moved(void) { return ""; }
SOFTWARE_EXPORT const char* hotslot_software_live(void) {
  std::lock_guard held(software::machine().lock);
  return software::lent_text(software::machine().live());
}
// Returns all complaints so far, one per line, as HOTSLOT_SOFTWARE_STRICT prints them.
SOFTWARE_EXPORT const char* hotslot_software_violations(void) {
  return software::lent_text(software::Calls::all().complaints.all());
}
