// What all software drivers share for tests: injected failures, complaints about misuse, and text
// helpers.
#pragma once
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#define SOFTWARE_EXPORT extern "C" __attribute__((visibility("default")))

namespace hotslot::software {

inline const char* environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

inline std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  for (size_t from = 0; from <= text.size();) {
    const size_t to = std::min(text.find(at, from), text.size());
    if (to > from) parts.push_back(text.substr(from, to - from));
    from = to + 1;
  }
  return parts;
}

inline std::string lines(const std::map<std::string, uint64_t>& counts) {
  std::string text;
  for (auto& [name, count] : counts) text += name + " " + std::to_string(count) + "\n";
  return text;
}

// Stores a text that an export returns. The pointer is valid until the same thread calls
// lent_text() again.
inline const char* lent_text(std::string&& text) {
  static thread_local std::string kept;
  kept = std::move(text);
  return kept.c_str();
}

// Injected failures, as 'name[:nth[:status[:forever]]]' with commas between them.
class Injection {
 public:
  explicit Injection(int otherwise) : otherwise_(otherwise) {}
  void set(const char* spec) {
    std::lock_guard guard(lock_);
    plans_.clear();
    for (const std::string& each : split(spec ? spec : "", ',')) {
      const auto field = split(each, ':');
      Plan plan{field[0], 1, 0, otherwise_, field.size() > 3 && field[3] == "forever"};
      if (field.size() > 1) plan.nth = strtoull(field[1].c_str(), nullptr, 10);
      if (field.size() > 2) plan.status = int(strtol(field[2].c_str(), nullptr, 0));
      plans_.push_back(plan);
    }
    armed_.store(!plans_.empty());
  }
  // Counts the call, and returns the status that it must fail with, or 0.
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
    std::string name;
    uint64_t nth, seen;
    int status;
    bool forever;
  };
  const int otherwise_;
  std::mutex lock_;
  std::vector<Plan> plans_;
  std::atomic<bool> armed_{false};
};

// Collects complaints about misuse that the vendor's interface has no status for.
// HOTSLOT_SOFTWARE_STRICT=print also prints them, and =abort prints them and ends the process.
class Complaints {
 public:
  void say(const std::string& text, bool aloud = false) {
    static const auto& strict =
        *new std::string(environment("HOTSLOT_SOFTWARE_STRICT"));  // never destroyed
    {
      std::lock_guard guard(lock_);
      if (texts_.size() < 65536) texts_ += text + "\n";
      ++count_;
    }
    if (strict.empty() && !aloud) return;
    std::fprintf(stderr, "Hotslot software driver: %s\n", text.c_str());
    if (strict == "abort") std::abort();
  }
  uint64_t count() {
    std::lock_guard guard(lock_);
    return count_;
  }
  std::string all() {
    std::lock_guard guard(lock_);
    return texts_;
  }
  // Returns the complaints since the last take().
  std::string take() {
    std::lock_guard guard(lock_);
    return std::exchange(texts_, {});
  }

 private:
  std::mutex lock_;
  std::string texts_;
  uint64_t count_ = 0;
};

// Writes `text` to the file that HOTSLOT_SOFTWARE_LOG names. At the end of the process the drivers
// write the count of every call.
inline void leave_log(const std::string& text, const char* mode) {
  const char* path = environment("HOTSLOT_SOFTWARE_LOG");
  FILE* const file = *path ? std::fopen(path, mode) : nullptr;
  if (!file) return;
  std::fputs(text.c_str(), file);
  std::fclose(file);
}

}  // namespace hotslot::software
