// What cuda_check and hip_check, the programs that check the software drivers of this family,
// share.
#pragma once
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include "../native/check.hpp"
#include "device/cuda/abi.hpp"

inline void (*fail_next)(const char*);
inline const char* (*calls_text)(), *(*live_text)(), *(*complaints_text)(), *(*waits_text)();

template <class F>
void symbol(void* library, F& to, const char* name) {
  to = reinterpret_cast<F>(dlsym(library, name));
  if (to) return;
  std::printf("no symbol %s\n", name);
  std::exit(1);
}

inline void* open_library(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) std::printf("%s\n", dlerror()), std::exit(1);
  symbol(library, fail_next, "hotslot_software_fail");
  symbol(library, calls_text, "hotslot_software_calls");
  symbol(library, live_text, "hotslot_software_live");
  symbol(library, complaints_text, "hotslot_software_complaints");
  symbol(library, waits_text, "hotslot_software_waits");
  return library;
}

inline long long value_in(const char* text, const std::string& name) {
  const std::string all = std::string("\n") + text, key = "\n" + name + " ";
  const size_t at = all.find(key);
  return at == std::string::npos ? -1 : atoll(all.c_str() + at + key.size());
}
inline long long live(const char* kind) { return value_in(live_text(), kind); }
inline long long calls(const char* name) { return value_in(calls_text(), name); }
inline long long violations() { return live("violations"); }

// Returns whether the call ever blocked a thread for at least `ms` milliseconds.
inline bool kept(const char* name, long long ms) {
  const std::string all = std::string("\n") + waits_text(), key = "\n" + std::string(name) + " ";
  const size_t at = all.find(key);
  if (at == std::string::npos) return false;
  long long main = 0, other = 0;
  std::sscanf(all.c_str() + at + key.size(), "%lld %lld", &main, &other);
  return std::max(main, other) >= ms * 1000;
}

// Repeats the query until its status is not "not ready", and returns that status.
template <class F>
int settled(F&& query) {
  for (;;) {
    const int status = query();
    if (status != hotslot::cuda::status::not_ready) return status;
    std::this_thread::yield();
  }
}

// Runs a group. If a check fails, prints the driver's complaints, which often name the cause.
template <size_t N>
int run_group(const Scenario (&groups)[N], const char* name) {
  const int code = run_scenario(groups, name);
  if (failures > 0) std::printf("complaints:\n%s", complaints_text());
  return code;
}
