// system.node: functions of the operating system and the process, except those for devices and
// rows. JavaScript checks the arguments, and this addon checks only what memory safety needs.
#include "system/exports.hpp"
#include "wait/core_pool.hpp"

namespace hotslot::system {
namespace {

// misalignment(view, to): returns the address of the view's first byte mod `to`.
double misalignment(Info info) {
  const Bytes view = require_bytes(info, 0, 1);
  return double(reinterpret_cast<uintptr_t>(view.data) % u32(info, 1));
}

void init(Napi::Env env, Napi::Object exports) {
  static constexpr Exported memory[] = {{"misalignment", misalignment}};
  add_functions(env, add_group(env, exports, "memory"), memory);
  add_file_functions(env, exports);
  add_process_functions(env, exports);
  add_thread_functions(env, exports);
  add_core_functions(env, exports);
  IdleCores::use(CorePool::table_of_process());
  make_linkable<Thread>(env, exports);  // last, because this counts the thread
}

}  // namespace

HOTSLOT_ADDON(init)

}  // namespace hotslot::system
