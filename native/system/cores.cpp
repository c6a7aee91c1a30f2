// Functions for the process's pool of threads for large jobs. This addon creates the pool and lends
// it to other addons (wait/core_pool.hpp).
#include "system/exports.hpp"
#include "wait/core_pool.hpp"

namespace hotslot::system {
namespace {

// boundCores(most): limits the cores that are used. The smallest limit that any thread has set
// counts.
void bound_cores(Info info) {
  CorePool::of_process().bound(int(std::min<uint64_t>(whole(info, 0), INT32_MAX)));
}

// coresNow() → [cores of the process, threads that the library runs, helpers that a large job would
// get now]
Napi::Value cores_now(Info info) {
  const CorePool& pool = CorePool::of_process();
  const int found[] = {pool.cores(), pool.threads(), pool.spare()};
  Napi::Array numbers = Napi::Array::New(info.Env(), 3);
  for (uint32_t i = 0; i < 3; ++i) numbers.Set(i, found[i]);
  return numbers;
}

}  // namespace

void add_core_functions(Napi::Env env, Napi::Object exports) {
  const Napi::Object cores = add_group(env, exports, "cores");
  static constexpr Exported all[] = {{"boundCores", bound_cores}, {"coresNow", cores_now}};
  add_functions(env, cores, all);
  cores.Set("table", Napi::External<CoresTable>::New(
                         env, const_cast<CoresTable*>(CorePool::table_of_process())));
}

}  // namespace hotslot::system
