// The process's pool of threads for large jobs, which this addon makes and lends: see wait/core_pool.hpp.
#include "device/addon/napi.hpp"
#include "rows/held.hpp"
#include "wait/core_pool.hpp"

namespace hotslot::rows {
namespace {

// Each environment is a thread that runs the library's code; it is counted until it ends.
struct CountedEnvironment : Environment {
  IdleCores::Thread counted;
};

// boundCores(most): no more cores are used. Of several threads' bounds the least counts.
void bound_cores(Info info) { CorePool::of_process().bound(int(std::min<uint64_t>(whole(info, 0), INT32_MAX))); }

// [cores of the process, threads that the library runs, helpers that a large job has now]
Napi::Value cores_now(Info info) {
  const CorePool& pool = CorePool::of_process();
  const int found[] = {pool.cores(), pool.threads(), pool.spare()};
  Napi::Array numbers = Napi::Array::New(info.Env(), 3);
  for (uint32_t i = 0; i < 3; ++i) numbers.Set(i, Napi::Number::New(info.Env(), found[i]));
  return numbers;
}

}  // namespace

void export_cores(Napi::Env env, Napi::Object exports) {
  IdleCores::use(CorePool::table_of_process());
  static constexpr Exported all[] = {{"boundCores", bound_cores}, {"coresNow", cores_now}};
  add_functions(env, exports, all);
  exports.Set("cores", Napi::External<CoresTable>::New(env, const_cast<CoresTable*>(CorePool::table_of_process())));
  make_linkable<CountedEnvironment>(env, exports);
}

}  // namespace hotslot::rows
