// What a test steers and reads in the Level Zero software driver: which features it has, which call fails, what was called,
// what callers did wrong. Names and formats are the same in every software driver.
#pragma once
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#define SOFTWARE_EXPORT extern "C" __attribute__((visibility("default")))

namespace software {

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

// HOTSLOT_SOFTWARE_ZE: a comma list of words and word=value, later ones win. `spec` sets a whole set.
struct Features {
  uint32_t major = 1, minor = 4;
  bool in_order = false, counter = false, immediate_append = false, timestamps = true, fp64 = false;
  bool import_standard = false, import_intel = false;
  enum Graph { none, listed_only, flag } graph = none;
  enum Shared { shared_none, shared_single, shared_cross } shared = shared_single;
  uint32_t devices = 1;
  uint64_t memory_mib = 0;    // of each device; 0: half of the machine's
  uint64_t linger_us = 50;    // how long an unordered operation waits for one that may overtake it
  uint64_t wrap_ms = 0;       // the kernel timestamp runs over that long after the start; 0: whenever it does
  std::string unknown;        // the first word nobody knows

  void spec(const std::string& version) {
    const bool modern = version == "modern", newer = modern || version == "1.9";
    if (!newer && version != "1.4") unknown = "spec=" + version;
    minor = modern ? 17 : newer ? 9 : 4;
    in_order = counter = immediate_append = import_intel = newer;
    import_standard = modern;
    graph = modern ? flag : none;
    shared = modern ? shared_cross : shared_single;
  }

  explicit Features(const std::string& words) {
    for (const std::string& word : split(words, ',')) {
      const size_t equals = word.find('=');
      const std::string name = word.substr(0, equals), value = equals == std::string::npos ? "1" : word.substr(equals + 1);
      const uint64_t number = std::strtoull(value.c_str(), nullptr, 10);
      if (name == "spec") spec(value);
      else if (name == "modern") spec(name);
      else if (name == "inorder") in_order = number != 0;
      else if (name == "counter") counter = number != 0;
      else if (name == "immediate_append") immediate_append = number != 0;
      else if (name == "timestamps") timestamps = number != 0;
      else if (name == "fp64") fp64 = number != 0;
      else if (name == "import") import_standard = value == "standard" || value == "both", import_intel = value == "intel" || value == "both";
      else if (name == "graph") graph = value == "flag" ? flag : value == "listed-only" ? listed_only : none;
      else if (name == "shared") shared = value == "cross" ? shared_cross : value == "none" ? shared_none : shared_single;
      else if (name == "devices") devices = uint32_t(number);
      else if (name == "memory") memory_mib = number;
      else if (name == "linger") linger_us = number;
      else if (name == "wrap") wrap_ms = number;
      else if (unknown.empty()) unknown = word;
    }
  }
};

// ---- calls and failures ----------------------------------------------------------------------------------------------

// A call that is to fail: "name[:nth[:status[:forever]]]", several with commas between them.
struct Failure {
  std::string call;
  uint64_t left = 1;  // this many calls from now
  uint32_t status = 0x7ffffffe;
  bool forever = false;
};

struct Calls {
  std::mutex mutex;
  std::map<std::string, uint64_t> counts;
  std::vector<Failure> failures;
  std::string violations;

  static Calls& all() {
    static Calls* calls = new Calls;  // outlives every thread
    return *calls;
  }

  void fail(const char* specification) {
    std::lock_guard guard(mutex);
    failures.clear();
    for (const std::string& each : split(specification ? specification : "", ',')) {
      const auto parts = split(each, ':');
      Failure failure;
      failure.call = parts[0];
      if (parts.size() > 1) failure.left = std::max<uint64_t>(1, std::strtoull(parts[1].c_str(), nullptr, 10));
      if (parts.size() > 2) failure.status = uint32_t(std::strtoull(parts[2].c_str(), nullptr, 0));
      failure.forever = parts.size() > 3 && parts[3] == "forever";
      failures.push_back(failure);
    }
  }

  // Counts one call; the status it has to fail with, or 0.
  uint32_t enter(const char* name) {
    std::lock_guard guard(mutex);
    counts[name]++;
    for (size_t i = 0; i < failures.size(); ++i) {
      Failure& failure = failures[i];
      if (failure.call != name || --failure.left > 0) continue;
      const uint32_t status = failure.status;
      if (failure.forever) failure.left = 1;
      else failures.erase(failures.begin() + long(i));
      return status;
    }
    return 0;
  }

  std::string text() {
    std::lock_guard guard(mutex);
    std::string lines;
    for (auto& [name, count] : counts) lines += name + " " + std::to_string(count) + "\n";
    return lines;
  }

  // A mistake of whoever called. HOTSLOT_SOFTWARE_STRICT=print says it, =abort says it and stops the program.
  void complain(const char* call, const std::string& what, bool aloud = false) {
    static const std::string strict = environment("HOTSLOT_SOFTWARE_STRICT");
    {
      std::lock_guard guard(mutex);
      if (violations.size() < 65536) violations += std::string(call) + ": " + what + "\n";
    }
    if (strict.empty() && !aloud) return;
    std::fprintf(stderr, "Hotslot software driver: %s: %s\n", call, what.c_str());
    if (strict == "abort") std::abort();
  }
};

// What a C caller reads stays valid until its thread asks again.
inline const char* lent(std::string&& text) {
  static thread_local std::string kept;
  kept = std::move(text);
  return kept.c_str();
}

// HOTSLOT_SOFTWARE_LOG names a file that gets every call and its count when the process ends.
struct LogAtExit {
  ~LogAtExit() {
    const char* path = environment("HOTSLOT_SOFTWARE_LOG");
    if (!*path) return;
    if (FILE* file = std::fopen(path, "ae")) {
      std::fputs(Calls::all().text().c_str(), file);
      std::fclose(file);
    }
  }
};

}  // namespace software
