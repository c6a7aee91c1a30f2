// What every software driver has beside the vendor's calls: options from the environment, counts of calls, injected failures,
// and complaints about misuse that a real driver would answer with a crash or with wrong bytes, if at all.
#pragma once
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace hotslot::software {

#define SOFTWARE_EXPORT extern "C" __attribute__((visibility("default")))

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
  std::string text;
  for (auto& [name, count] : sorted) text += name + " " + std::to_string(count) + "\n";
  return text;
}

// 'word,key=value,word': the words, and the values by key.
struct Options {
  std::vector<std::string> words;
  std::map<std::string, std::string> values;
  explicit Options(const char* text) {
    std::string rest = text ? text : "";
    while (!rest.empty()) {
      const size_t comma = rest.find(','), equals = rest.substr(0, comma).find('=');
      const std::string part = rest.substr(0, comma);
      if (equals == std::string::npos) words.push_back(part);
      else values[part.substr(0, equals)] = part.substr(equals + 1);
      rest = comma == std::string::npos ? "" : rest.substr(comma + 1);
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

// Failures to inject: 'name[:nth[:status[:forever]]]', several with commas between them.
class Injection {
 public:
  void set(const char* spec) {
    std::lock_guard guard(lock_);
    plans_.clear();
    std::string rest = spec ? spec : "";
    while (!rest.empty()) {
      const size_t comma = rest.find(',');
      plans_.emplace_back(rest.substr(0, comma));
      rest = comma == std::string::npos ? "" : rest.substr(comma + 1);
    }
    armed_.store(!plans_.empty());
  }
  // The status this call is to fail with, or 0.
  int status(const char* name) {
    if (!armed_.load()) return 0;
    std::lock_guard guard(lock_);
    for (Plan& plan : plans_) {
      if (plan.name != name) continue;
      const uint64_t now = ++plan.seen;
      if (now == plan.nth || (plan.forever && now > plan.nth)) return plan.status;
    }
    return 0;
  }

 private:
  struct Plan {
    explicit Plan(const std::string& text) {
      std::string field[4];
      size_t at = 0;
      for (char c : text)
        if (c == ':' && at < 3) ++at;
        else field[at] += c;
      name = field[0];
      if (!field[1].empty()) nth = strtoull(field[1].c_str(), nullptr, 10);
      if (!field[2].empty()) status = int(strtol(field[2].c_str(), nullptr, 0));
      forever = field[3] == "forever";
    }
    std::string name;
    uint64_t nth = 1, seen = 0;
    int status = 999;
    bool forever = false;
  };
  std::mutex lock_;
  std::vector<Plan> plans_;
  std::atomic<bool> armed_{false};
};

// Misuse that has no answer in the vendor's interface. HOTSLOT_SOFTWARE_STRICT=print says it aloud, =abort ends the process too.
class Complaints {
 public:
  void say(const std::string& text) {
    static const std::string strict = getenv("HOTSLOT_SOFTWARE_STRICT") ? getenv("HOTSLOT_SOFTWARE_STRICT") : "";
    if (!strict.empty()) fprintf(stderr, "Hotslot software driver: %s\n", text.c_str());
    if (strict == "abort") std::abort();
    std::lock_guard guard(lock_);
    if (texts_.size() < 65536) texts_ += text + "\n";
    ++count_;
  }
  uint64_t count() {
    std::lock_guard guard(lock_);
    return count_;
  }
  // Since the last time.
  std::string take() {
    std::lock_guard guard(lock_);
    return std::exchange(texts_, {});
  }

 private:
  std::mutex lock_;
  std::string texts_;
  uint64_t count_ = 0;
};

struct Desk {
  Injection injection;
  Complaints complaints;
  // The process is ending: whatever is called from here on finds a driver that has shut down.
  std::atomic<bool> gone{false};
  Desk() { injection.set(getenv("HOTSLOT_SOFTWARE_FAIL")); }
};

// Never destroyed: threads of the process may still call while statics die.
inline Desk& desk() {
  static Desk* desk = new Desk;
  return *desk;
}

// For exports that hand out text: good until the thread asks again.
inline const char* lent_text(std::string&& text) {
  static thread_local std::string kept;
  kept = std::move(text);
  return kept.c_str();
}

__attribute__((destructor)) inline void close_desk() {
  desk().gone.store(true);
  const char* path = getenv("HOTSLOT_SOFTWARE_LOG");
  if (!path || !*path) return;
  if (FILE* file = fopen(path, "we")) {
    const std::string text = calls_text();
    fwrite(text.data(), 1, text.size(), file);
    fclose(file);
  }
}

}  // namespace hotslot::software
