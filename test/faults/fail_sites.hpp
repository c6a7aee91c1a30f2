// The places whose calls the shim intercepts, and for each of them what its calls returned and
// nobody released. This code allocates no memory.
#pragma once
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unwind.h>

#include <atomic>
#include <cstdint>

namespace hotslot::faults {

constexpr int max_sites = 8192, max_modules = 64, frames_shown = 4;
constexpr size_t max_kept = size_t(1) << 20;

class Spin {
 public:
  void lock() {
    while (flag_.exchange(true)) continue;
  }
  void unlock() { flag_.store(false); }

 private:
  std::atomic<bool> flag_{false};
};
class Held {
 public:
  explicit Held(Spin& spin) : spin_(spin) { spin_.lock(); }
  ~Held() { spin_.unlock(); }

 private:
  Spin& spin_;
};

// ---- the owner of an address --------------------------------------------------------------------

enum Whose : uintptr_t { unknown, ours, between, theirs };

struct Module {
  uintptr_t base = 0;
  Whose whose = unknown;
  char name[24] = "";
};

struct State {
  Spin lock;
  Module modules[max_modules];
  std::atomic<int> module_count{0};
  struct Site {
    uint64_t id;
    const char* kind;
    int frames;
    struct {
      int module;
      uintptr_t offset;
    } frame[frames_shown];
    uint64_t count;  // calls so far
    int64_t live;    // returned and not released
  } site[max_sites];
  int site_count = 0;
  // Hash table with open addressing: an address that a call returned, and the site of the call. The
  // address `gone` marks a removed entry.
  struct Kept {
    uintptr_t at;
    int32_t site;
  } kept[max_kept];
  std::atomic<size_t> kept_count{0};
  std::atomic<bool> recording{false};
  std::atomic<uint64_t> armed{0};
  std::atomic<bool> struck{false};
  std::atomic<const char*> forced{nullptr};
  char forced_name[32];
};
inline State state;
inline thread_local bool inside __attribute__((tls_model("initial-exec"))) = false;

// Cache of code pages that were looked up: the page, and the index of its module. Hotslot's
// binaries are never unloaded.
struct Page {
  std::atomic<uintptr_t> word{0};
};
inline Page pages[4096];

inline const Module* module_of(uintptr_t address) {
  const uintptr_t page = address >> 12;
  Page& known = pages[(page ^ (page >> 12)) % 4096];
  const uintptr_t word = known.word.load();
  if (word >> 12 == page) return &state.modules[word & 4095];
  Dl_info info;
  if (!dladdr(reinterpret_cast<void*>(address), &info) || !info.dli_fname) return nullptr;
  const uintptr_t base = uintptr_t(info.dli_fbase);
  Held held(state.lock);
  int at = 0;
  const int count = state.module_count.load();
  while (at < count && state.modules[at].base != base) ++at;
  if (at == max_modules) return nullptr;
  if (at == count) {
    const char* name = strrchr(info.dli_fname, '/');
    name = name ? name + 1 : info.dli_fname;
    Module& made = state.modules[at];
    snprintf(made.name, sizeof made.name, "%s", name);
    made.base = base;
    const bool addon = strstr(name, ".node") != nullptr;
    static const char* const libraries[] = {"libc.so",  "libstdc++.so",  "libgcc_s.so",
                                            "ld-linux", "libpthread.so", "libdl.so"};
    made.whose = addon ? ours : theirs;
    for (const char* each : libraries)
      if (strncmp(name, each, strlen(each)) == 0) made.whose = between;
    state.module_count.store(at + 1);
  }
  known.word.store(page << 12 | uintptr_t(at));
  return &state.modules[at];
}

// ---- a call -------------------------------------------------------------------------------------

struct Stack {
  int ours = 0;
  const Module* module[frames_shown];
  uintptr_t offset[frames_shown];
  bool begun = false;
  const void* from;
};

inline _Unwind_Reason_Code look(_Unwind_Context* context, void* given) {
  auto& stack = *static_cast<Stack*>(given);
  const uintptr_t at = _Unwind_GetIP(context);
  if (!stack.begun && at != uintptr_t(stack.from)) return _URC_NO_REASON;  // a frame of the shim
  stack.begun = true;
  const Module* const module = module_of(at);
  if (!module || module->whose == theirs) return _URC_END_OF_STACK;
  if (module->whose != ours) return stack.ours > 0 ? _URC_END_OF_STACK : _URC_NO_REASON;
  stack.module[stack.ours] = module;
  stack.offset[stack.ours++] = at - module->base;
  return stack.ours == frames_shown ? _URC_END_OF_STACK : _URC_NO_REASON;
}

constexpr int frames_told_apart = 2;

inline State::Site* site_of(const char* kind, const void* from) {
  Stack stack;
  stack.from = from;
  inside = true;
  _Unwind_Backtrace(look, &stack);
  inside = false;
  if (stack.ours == 0) return nullptr;
  uint64_t id = 1469598103934665603u;
  const auto mix = [&](uint64_t word) { id = (id ^ word) * 1099511628211u, id ^= id >> 29; };
  for (const char* c = kind; *c; ++c) mix(uint64_t(*c));
  for (int i = 0; i < stack.ours && i < frames_told_apart; ++i) {
    for (const char* c = stack.module[i]->name; *c; ++c) mix(uint64_t(*c));
    mix(stack.offset[i]);
  }
  Held held(state.lock);
  for (int i = 0; i < state.site_count; ++i)
    if (state.site[i].id == id) return &state.site[i];
  if (state.site_count == max_sites) abort();
  State::Site& made = state.site[state.site_count++];
  made.id = id;
  made.kind = kind;
  made.frames = stack.ours;
  for (int i = 0; i < stack.ours; ++i)
    made.frame[i] = {int(stack.module[i] - state.modules), stack.offset[i]};
  return &made;
}

inline size_t place_of(uintptr_t at) { return size_t(at * 0x9E3779B97F4A7C15u >> 44) % max_kept; }
constexpr uintptr_t gone = 1;

struct Call {
  State::Site* site = nullptr;
  bool fails = false;
  // The loader made the call, to allocate a binary's thread-local data at a thread's first access.
  // The data ends with the thread, so it is not counted.
  bool of_loader = false;

  Call(const char* kind, void* from) {
    const int error = errno;
    if (state.recording.load() && !inside) look_at(kind, from);
    errno = error;
  }
  void look_at(const char* kind, void* from) {
    inside = true;
    const Module* const module = module_of(uintptr_t(from));
    inside = false;
    if (!module || module->whose == theirs) return;
    of_loader = strncmp(module->name, "ld-linux", 8) == 0;
    site = site_of(kind, from);
    if (!site) return;
    __atomic_fetch_add(&site->count, 1, __ATOMIC_RELAXED);
    uint64_t id = site->id;
    if (state.armed.compare_exchange_strong(id, 0)) {
      state.struck.store(true);
      fails = true;
    }
    const char* const forced = state.forced.load();
    if (forced && strcmp(forced, kind) == 0) fails = true;
  }
  void* keep(void* made) {
    if (!site || !made || of_loader) return made;
    Held held(state.lock);
    if (state.kept_count.fetch_add(1) > max_kept / 2) abort();
    size_t at = place_of(uintptr_t(made));
    while (state.kept[at].at > gone) at = (at + 1) % max_kept;
    state.kept[at] = {uintptr_t(made), int32_t(site - state.site)};
    ++site->live;
    return made;
  }
};

inline void forget(void* made) {
  if (!made || state.kept_count.load() == 0) return;
  Held held(state.lock);
  for (size_t at = place_of(uintptr_t(made)); state.kept[at].at != 0; at = (at + 1) % max_kept)
    if (state.kept[at].at == uintptr_t(made)) {
      --state.site[state.kept[at].site].live;
      state.kept[at].at = gone;
      state.kept_count.fetch_sub(1);
      return;
    }
}

// ---- commands -----------------------------------------------------------------------------------

// Starts recording ('on'), or stops it.
inline const char* record(const char* on) {
  state.recording.store(on != nullptr);
  return "";
}

// Returns one line per site: id, kind, number of calls, number not released, and the addresses in
// Hotslot's binaries from the innermost on.
inline const char* sites(const char*) {
  static char text[max_sites * 128];
  inside = true;
  Held held(state.lock);
  size_t length = 0;
  text[0] = 0;
  for (int i = 0; i < state.site_count; ++i) {
    const State::Site& site = state.site[i];
    length += size_t(snprintf(text + length, sizeof text - length, "%016lx %s %lu %ld", site.id,
                              site.kind, site.count, site.live));
    for (int frame = 0; frame < site.frames; ++frame)
      length +=
          size_t(snprintf(text + length, sizeof text - length, " %s+0x%lx",
                          state.modules[site.frame[frame].module].name, site.frame[frame].offset));
    length += size_t(snprintf(text + length, sizeof text - length, "\n"));
  }
  inside = false;
  return text;
}

// Makes the next call of this site fail. Without an id, no call fails.
inline const char* arm(const char* id) {
  state.struck.store(false);
  state.armed.store(id ? strtoull(id, nullptr, 16) : 0);
  return "";
}
inline const char* struck(const char*) { return state.struck.load() ? "yes" : ""; }

// Makes every call of this kind fail from now on. Without a kind, none does.
inline const char* force(const char* kind) {
  state.forced.store(nullptr);
  if (!kind) return "";
  snprintf(state.forced_name, sizeof state.forced_name, "%s", kind);
  state.forced.store(state.forced_name);
  return "";
}

}  // namespace hotslot::faults
