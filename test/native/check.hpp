// What test programs check with. A failed check is printed and counted, on any thread, and the
// program continues.
#pragma once
#include <atomic>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

inline std::atomic<int> failures{0};

// Counts a failure, and prints the first twenty. A stress test that fails once usually fails all
// the time.
template <class... Numbers>
void wrong(std::string_view what, Numbers... numbers) {
  if (++failures > 20) return;
  std::string text(what);
  ((text += ' ' + std::to_string(numbers)), ...);
  std::printf("FAILED %s\n", text.c_str());
}
inline void check(bool holds, std::string_view what) {
  if (!holds) wrong(what);
}
inline void compare(const char* what, long long expected, long long got) {
  if (expected == got) return;
  char text[100];
  std::snprintf(text, sizeof text, " gave %lld (0x%llx), not %lld (0x%llx)", got, got, expected,
                expected);
  wrong(std::string(what) + text);
}
#define CHECK_TEXT(number) #number
#define CHECK_LINE(number) CHECK_TEXT(number)
#define CHECK_SAID(what) __FILE__ ":" CHECK_LINE(__LINE__) ": " what
#define CHECK(condition) check((condition), CHECK_SAID(#condition))
// Compares numbers or status codes.
#define IS(expected, call) \
  compare(CHECK_SAID(#call), static_cast<long long>(expected), static_cast<long long>(call))
#define OK(call) IS(0, call)

struct Scenario {
  const char* name;
  void (*run)();
};
// Runs the scenario `name` and returns the program's exit code. If there is no such scenario,
// prints all names and returns 2.
template <size_t N>
int run_scenario(const Scenario (&all)[N], const char* name) {
  for (auto& each : all) {
    if (std::strcmp(each.name, name) != 0) continue;
    each.run();
    std::fflush(stdout);
    return failures > 0;
  }
  for (auto& each : all) std::puts(each.name);
  return 2;
}
