// Exports the functions of a software driver that tests call from JavaScript. The core has opened
// the library already. process.dlopen() of the same library returns { fail(spec | null), calls(),
// live(), waits(), moved() }.
#pragma once
#include <cstddef>

#include "node_api.hpp"

extern "C" {
void hotslot_software_fail(const char* spec);
const char* hotslot_software_calls(void);
const char* hotslot_software_live(void);
const char* hotslot_software_waits(void);
const char* hotslot_software_moved(void);

__attribute__((visibility("default"))) inline napi_value napi_register_module_v1(
    napi_env env, napi_value exports);
__attribute__((visibility("default"))) inline int node_api_module_get_api_version_v1() { return 9; }
}

namespace hotslot::software::addon {

inline napi_value fail(napi_env env, napi_callback_info info) {
  size_t count = 1, length = 0;
  napi_value argument = nullptr;
  char spec[256] = "";
  napi_get_cb_info(env, info, &count, &argument, nullptr, nullptr);
  const bool given = napi_get_value_string_utf8(env, argument, spec, sizeof spec, &length) == 0;
  hotslot_software_fail(given ? spec : nullptr);
  return nullptr;
}

template <const char* (*F)(void)>
napi_value text(napi_env env, napi_callback_info) {
  const char* const said = F();
  napi_value out = nullptr;
  napi_create_string_utf8(env, said, size_t(-1), &out);
  return out;
}

}  // namespace hotslot::software::addon

__attribute__((used)) inline napi_value napi_register_module_v1(napi_env env, napi_value exports) {
  using namespace hotslot::software::addon;
  const auto add = [&](const char* name, napi_callback function) {
    napi_value made = nullptr;
    napi_create_function(env, name, size_t(-1), function, nullptr, &made);
    napi_set_named_property(env, exports, name, made);
  };
  add("fail", fail);
  add("calls", text<hotslot_software_calls>);
  add("live", text<hotslot_software_live>);
  add("waits", text<hotslot_software_waits>);
  add("moved", text<hotslot_software_moved>);
  return exports;
}
