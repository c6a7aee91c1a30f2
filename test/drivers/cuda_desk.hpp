// What the software drivers of CUDA and HIP have beside the vendor's calls: options from the
// environment, counts of calls, and the desk for failures to inject and for complaints about
// misuse.
#pragma once
#include <algorithm>

#include "steering.hpp"

namespace hotslot::software {

// One call's name and how often it was made. All of them are statics of the library and form a
// list.
struct Call {
  explicit Call(const char* call_name) : name(call_name), next(first().exchange(this)) {}
  static std::atomic<Call*>& first() {
    static std::atomic<Call*> list{nullptr};
    return list;
  }
  const char* const name;
  std::atomic<uint64_t> count{0};
  // The longest that it kept a caller waiting, in nanoseconds: the main thread, and any other.
  std::atomic<uint64_t> kept_main{0}, kept_other{0};
  Call* const next;
};

inline std::string calls_text() {
  std::map<std::string, uint64_t> sorted;
  for (Call* call = Call::first().load(); call; call = call->next)
    if (const uint64_t count = call->count.load()) sorted[call->name] += count;
  return lines(sorted);
}

// Lines 'name µs µs' of calls that kept somebody waiting: the longest in the main thread, and in
// any other.
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

// 'word,key=value,word': the words, and the values by key.
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
  // The process is ending: whatever is called from here on finds a driver that has shut down.
  std::atomic<bool> gone{false};
  Desk() { injection.set(environment("HOTSLOT_SOFTWARE_FAIL")); }
};

// Never destroyed: threads of the process may still call while statics die.
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
