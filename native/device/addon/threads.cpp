// The core's face to JavaScript: threads and processes, how they wake each other and what is left when they end.
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "device/addon/arguments.hpp"

namespace hotslot {
namespace {

Napi::Value wake_native(Info info) {
  const Bytes words = bytes_of(info[0], "the bell");
  const size_t index = size_t(whole(info, 1));
  if (index < words.size / 4) futex_wake(reinterpret_cast<int32_t*>(words.data) + index, 1);
  return info.Env().Undefined();
}

// watchThread(words, index, before, from, to): the word goes from `before` to `from`, and from there to `to` when this
// thread's environment ends, however it ends; a thread that said goodbye has another word there then, which stays. In
// one call, for a thread can be terminated between two of them. Answers what the word was.
struct Watch {
  int32_t* word;
  int32_t from, to;
  Napi::Reference<Napi::TypedArray> words;
};
Napi::Value watch_thread(Info info) {
  const Bytes words = bytes_of(info[0], "the thread's words");
  const size_t index = size_t(whole(info, 1));
  if (index >= words.size / 4) throw_js(info.Env(), range("the thread's word lies outside its view"));
  const auto state = [&](size_t i) { return info[i].As<Napi::Number>().Int32Value(); };
  int32_t* const word = reinterpret_cast<int32_t*>(words.data) + index;
  int32_t was = state(2);
  if (!word_at(word).compare_exchange_strong(was, state(3))) return Napi::Number::New(info.Env(), was);
  auto* watch = new Watch{word, state(3), state(4), Napi::Persistent(info[0].As<Napi::TypedArray>())};
  // The reference keeps the memory until the hook ran.
  info.Env().AddCleanupHook([watch] {
    int32_t expected = watch->from;
    word_at(watch->word).compare_exchange_strong(expected, watch->to);
    delete watch;
  });
  return Napi::Number::New(info.Env(), was);
}

// endWithParent(pid): this process is killed when the thread that started it ends; at once when that has happened
// already.
Napi::Value end_with_parent(Info info) {
  return guard(info, [&] {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (double(getppid()) != number(info, 0)) raise(SIGKILL);
  });
}

Napi::Value now_ms(Info info) { return Napi::Number::New(info.Env(), double(now_ns()) / 1e6); }

// ---- the probe of managed memory ------------------------------------------------------------------------------------

// See Probe::claim.
Napi::Value claim_probe(Info info) {
  return guard(info, [&] { return Core::instance().probe.claim(&own(info)); });
}
// publishProbe(outcome): of the thread that has claimed it. True: looked at, see answered() in src/addon.ts.
Napi::Value publish_probe(Info info) {
  return guard(info, [&] {
    Core::instance().probe.publish(&own(info), info[0].As<Napi::String>().Utf8Value());
    return true;
  });
}
Napi::Value probe_outcome(Info info) {
  return guard(info, [&] { return Core::instance().probe.outcome(); });
}

}  // namespace

void add_thread_functions(Napi::Env env, Napi::Object exports) {
  add_functions(env, exports,
                {
                    {"wakeNative", wake_native},
                    {"watchThread", watch_thread},
                    {"endWithParent", end_with_parent},
                    {"nowMs", now_ms},
                    {"claimProbe", claim_probe},
                    {"publishProbe", publish_probe},
                    {"probeOutcome", probe_outcome},
                });
}

}  // namespace hotslot
