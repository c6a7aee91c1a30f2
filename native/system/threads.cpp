// Functions for threads: bells, words that the end of a thread changes, and the clock that all
// threads read.
#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "system/exports.hpp"
#include "wait/bell.hpp"

namespace hotslot::system {
namespace {

// Returns the word that the arguments (words, index) name. Throws unless the view has `least` words
// from that index on.
int32_t* word(Info info, size_t least = 1) {
  const Bytes words = bytes_of(info[0], "the words");
  const size_t index = size_t(whole(info, 1)), count = words.size / 4;
  if (count < least || index > count - least) throw range("the word lies outside its view");
  return reinterpret_cast<int32_t*>(words.data) + index;
}
int32_t state(Info info, size_t i) { return info[i].As<Napi::Number>().Int32Value(); }
// Returns how long a call may take, in nanoseconds. Argument i gives the time in milliseconds, of
// which at most a second counts.
uint64_t bounded_ns(Info info, size_t i) {
  const double ms = number(info, i);
  return ms > 0 ? uint64_t(std::min(ms, 1000.0) * 1e6) : 0;
}

void wake_native(Info info) { futex_wake(word(info), 1); }

// lookNative(words, index, seen, ms): polls the word for at most `ms`. Returns true as soon as the
// word differs from `seen`, else false.
bool look_native(Info info) {
  const uint64_t ns = bounded_ns(info, 3);
  return ns > 0 && look_until(word(info), state(info, 2), ns);
}

// sleepNative(words, index, seen, ms): sleeps for at most `ms` on the bell at `index`, where native
// code can wake it. Returns whether the bell's count differs from `seen`.
bool sleep_native(Info info) {
  sleep_exactly();
  return reinterpret_cast<Bell*>(word(info, 2))->sleep(state(info, 2), bounded_ns(info, 3));
}

// watchThread(words, index, before, from, to): changes the word from `before` to `from`. Returns
// the word's value before the call. If this value is not `before`, the call changes nothing.
//
// When this thread's environment ends for any reason, a hook changes the word from `from` to `to`.
// A thread that has left in an orderly way has stored another value before, which stays. One call
// changes the word and adds the hook, because a thread can be terminated between two calls.
void thread_ends(void* given) {
  auto* const watch = static_cast<Watch*>(given);
  int32_t expected = watch->from;
  word_at(watch->word).compare_exchange_strong(expected, watch->to);
  const auto same = [&](const auto& each) { return each.get() == watch; };
  auto& watches = watch->owner.watches;
  watches.erase(std::find_if(watches.begin(), watches.end(), same));
}

double watch_thread(Info info) {
  int32_t* const at = word(info);
  int32_t was = state(info, 2);
  // Allocates the watch before it changes the word. If memory runs out, the word is unchanged.
  auto watch = std::make_unique<Watch>(Watch{here(info), at, state(info, 3), state(info, 4),
                                             Napi::Persistent(info[0].As<Napi::TypedArray>())});
  auto& watches = here(info).watches;
  watches.reserve(watches.size() + 1);
  if (!word_at(at).compare_exchange_strong(was, watch->from)) return was;
  napi_add_env_cleanup_hook(info.Env(), thread_ends, watch.get());
  watches.push_back(std::move(watch));
  return was;
}

// unwatchThread(words, index, from): ends the watch, so that the end of this thread no longer
// changes the word. Returns whether the word was watched.
bool unwatch_thread(Info info) {
  int32_t* const at = word(info);
  const int32_t from = state(info, 2);
  const auto same = [&](const auto& each) { return each->word == at && each->from == from; };
  auto& watches = here(info).watches;
  const auto found = std::find_if(watches.begin(), watches.end(), same);
  const bool watched = found != watches.end();
  if (watched) {
    napi_remove_env_cleanup_hook(info.Env(), thread_ends, found->get());
    watches.erase(found);
  }
  return watched;
}

double now_ms(Info) { return double(now_ns()) / 1e6; }

}  // namespace

void add_thread_functions(Napi::Env env, Napi::Object exports) {
  static constexpr Exported bells[] = {
      {"wakeNative", wake_native}, {"lookNative", look_native}, {"sleepNative", sleep_native}};
  static constexpr Exported threads[] = {{"watchThread", watch_thread},
                                         {"unwatchThread", unwatch_thread}};
  static constexpr Exported clock[] = {{"nowMs", now_ms}};
  const Napi::Object group = add_group(env, exports, "bells");
  add_functions(env, group, bells);
  add_numbers(env, group, "layout",
              {{"count", offsetof(Bell, count) / 4},
               {"parked", offsetof(Bell, parked) / 4},
               {"words", bell_words},
               {"awake", Bell::awake},
               {"javascript", Bell::javascript},
               {"native", Bell::native}});
  add_functions(env, add_group(env, exports, "threads"), threads);
  add_functions(env, add_group(env, exports, "clock"), clock);
}

}  // namespace hotslot::system
