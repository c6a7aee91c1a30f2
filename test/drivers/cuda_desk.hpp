// What the software drivers of CUDA and HIP have in addition to the vendor's calls. This is options
// from the environment, counts of calls, injected failures, and complaints about misuse.
#pragma once
#include <algorithm>

#include "steering.hpp"

namespace hotslot::software {

// The name and the count of one call. All calls are static variables of the library and form a
// list.
struct Call {
  explicit Call(const char* call_name) : name(call_name), next(first().exchange(this)) {}
  static std::atomic<Call*>& first() {
    static std::atomic<Call*> list{nullptr};
    return list;
  }
  const char* const name;
  std::atomic<uint64_t> count{0};
  // Longest time in nanoseconds that the call blocked the main thread, and any other thread.
  std::atomic<uint64_t> kept_main{0}, kept_other{0};
  Call* const next;
};

inline std::string calls_text() {
  std::map<std::string, uint64_t> sorted;
  for (Call* call = Call::first().load(); call; call = call->next)
    if (const uint64_t count = call->count.load()) sorted[call->name] += count;
  return lines(sorted);
}

// Returns lines 'name µs µs' of the calls that blocked a thread: the longest time in the main
// thread, and in any other.
inline std::string waits_text() {
  std::map<std::string, std::pair<uint64_t, uint64_t>> sorted;
  for (Call* call = Call::first().load(); call; call = call->next) {
    const uint64_t main = call->kept_main.load(), other = call->kept_other.load();
    if (main == 0 && other == 0) continue;
    auto& longest = sorted[call->name];
    longest = {std::max(longest.first, main), std::max(longest.second, other)};
  }
  std::string text;
  for (auto& [name, longest] : sorted)
    text += name + " " + std::to_string(longest.first / 1000) + " " +
            std::to_string(longest.second / 1000) + "\n";
  return text;
}

// Parses 'word,key=value,word' to the words and to the values by key.
struct Options {
  std::vector<std::string> words;
  std::map<std::string, std::string> values;
  explicit Options(const char* text) {
    for (const std::string& part : split(text ? text : "", ',')) {
      const size_t equals = part.find('=');
      if (equals == std::string::npos)
        words.push_back(part);
      else
        values[part.substr(0, equals)] = part.substr(equals + 1);
    }
  }
  std::string get(const char* key, const char* otherwise) const {
    auto found = values.find(key);
    return found == values.end() ? otherwise : found->second;
  }
  uint64_t number(const char* key, uint64_t otherwise) const {
    auto found = values.find(key);
    return found == values.end() ? otherwise : strtoull(found->second.c_str(), nullptr, 10);
  }
};

struct Desk {
  Injection injection{999};
  Complaints complaints;
  // True while the process ends. Every call then fails because the driver has shut down.
  std::atomic<bool> gone{false};
  Desk() { injection.set(environment("HOTSLOT_SOFTWARE_FAIL")); }
};

// The desk is never destroyed, because threads may still call while static variables are destroyed.
inline Desk& desk() {
  static Desk* desk = new Desk;
  return *desk;
}

__attribute__((destructor)) inline void close_desk() {
  desk().gone.store(true);
  const std::string waits = waits_text();
  leave_log(calls_text() + (waits.empty() ? "" : "kept waiting, µs: main thread, others\n" + waits),
            "we");
}

}  // namespace hotslot::software
