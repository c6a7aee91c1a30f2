// What tests set and read in the Level Zero software driver: its features, the calls that fail, the
// counts of calls, and complaints about callers.
#pragma once
#include <unistd.h>

#include "steering.hpp"

namespace software {

using namespace hotslot::software;

// Parses HOTSLOT_SOFTWARE_ZE, a list of words and word=value with commas between them. Later words
// override earlier ones. `spec` sets all features of a version.
struct Features {
  uint32_t major = 1, minor = 4;
  bool in_order = false, counter = false, immediate_append = false, timestamps = true, fp64 = false;
  bool import_standard = false, import_intel = false;
  enum Graph { none, listed_only, flag } graph = none;
  enum Shared { shared_none, shared_single, shared_cross } shared = shared_single;
  uint32_t devices = 1;
  uint64_t memory_mib = 0;  // MiB of each device, or 0 for half of the machine's memory
  uint64_t linger_us = 50;  // delay in µs of an unordered operation, so that others may overtake it
  uint64_t wrap_ms = 0;     // time in ms until the kernel timestamp wraps, or 0
  std::string unknown;      // the first unknown word

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
      const std::string name = word.substr(0, equals),
                        value = equals == std::string::npos ? "1" : word.substr(equals + 1);
      const uint64_t number = std::strtoull(value.c_str(), nullptr, 10);
      if (name == "spec")
        spec(value);
      else if (name == "modern")
        spec(name);
      else if (name == "inorder")
        in_order = number != 0;
      else if (name == "counter")
        counter = number != 0;
      else if (name == "immediate_append")
        immediate_append = number != 0;
      else if (name == "timestamps")
        timestamps = number != 0;
      else if (name == "fp64")
        fp64 = number != 0;
      else if (name == "import")
        import_standard = value == "standard" || value == "both",
        import_intel = value == "intel" || value == "both";
      else if (name == "graph")
        graph = value == "flag" ? flag : value == "listed-only" ? listed_only : none;
      else if (name == "shared")
        shared = value == "cross" ? shared_cross : value == "none" ? shared_none : shared_single;
      else if (name == "devices")
        devices = uint32_t(number);
      else if (name == "memory")
        memory_mib = number;
      else if (name == "linger")
        linger_us = number;
      else if (name == "wrap")
        wrap_ms = number;
      else if (unknown.empty())
        unknown = word;
    }
  }
};

// Counts of calls, injected failures, and complaints about callers.
struct Calls {
  Injection injection{0x7ffffffe};
  Complaints complaints;

  static Calls& all() {
    static Calls* calls = new Calls;  // never destroyed
    return *calls;
  }

  // Counts a call, and returns the status that it must fail with, or 0.
  uint32_t enter(const char* name) {
    {
      std::lock_guard guard(mutex_);
      counts_[name]++;
    }
    return uint32_t(injection.status(name));
  }
  std::string text() {
    std::lock_guard guard(mutex_);
    return lines(counts_);
  }
  void complain(const char* call, const std::string& what, bool aloud = false) {
    complaints.say(std::string(call) + ": " + what, aloud);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, uint64_t> counts_;
};

// Writes the counts at exit. Two copies of this library in one process append to the same file.
struct LogAtExit {
  ~LogAtExit() { leave_log(Calls::all().text(), "ae"); }
};

}  // namespace software
