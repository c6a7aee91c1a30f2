// What the software drivers of CUDA and HIP have beside the vendor's calls: options from the environment, counts of
// calls, and the desk for failures to inject and for complaints about misuse.
#pragma once
#include "steering.hpp"

namespace hotslot::software {

// One call's name and how often it was made. All of them are statics of the library and form a list.
struct Call {
  explicit Call(const char* call_name) : name(call_name), next(first().exchange(this)) {}
  static std::atomic<Call*>& first() {
    static std::atomic<Call*> list{nullptr};
    return list;
  }
  const char* const name;
  std::atomic<uint64_t> count{0};
  Call* const next;
};

inline std::string calls_text() {
  std::map<std::string, uint64_t> sorted;
  for (Call* call = Call::first().load(); call; call = call->next)
    if (const uint64_t count = call->count.load()) sorted[call->name] += count;
  return lines(sorted);
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
  leave_log(calls_text(), "we");
}

}  // namespace hotslot::software
