// A shared library that is opened at run time. It is the first of several names that loads, or the
// path in an environment variable. It stays open until the process ends, because drivers and BLAS
// start threads that need its code.
#pragma once
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string>

namespace hotslot {

struct Library {
  void* handle = nullptr;
  // `name` is the name that was opened. If none was, `reason` says why, for every name that was
  // tried.
  std::string name, reason;
  // named: whether an environment variable names it. shared: whether the process had opened it
  // before.
  bool named = false, shared = false;

  explicit operator bool() const { return handle != nullptr; }

  // Returns the symbol's address, or null if the library lacks the symbol.
  template <class F>
  F symbol(const char* symbol_name) const {
    return handle ? reinterpret_cast<F>(dlsym(handle, symbol_name)) : nullptr;
  }

  // Opens a library. If the environment variable `variable` is set to a path, only that path is
  // tried. If it is 'none', no library is opened.
  static Library open(std::initializer_list<const char*> names, const char* variable) {
    Library library;
    const char* override_path = variable ? std::getenv(variable) : nullptr;
    if (override_path && *override_path) {
      library.named = true;
      if (std::strcmp(override_path, "none") == 0)
        library.reason = std::string(variable) + "=none";
      else if (!library.attempt(override_path))
        library.reason += std::string(" (named by ") + variable + ")";
      return library;
    }
    for (const char* each : names)
      if (library.attempt(each)) break;
    return library;
  }

 private:
  bool attempt(const char* path) {
    void* const before = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (before) dlclose(before);
    handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    shared = before != nullptr;
    if (handle) {
      name = path;
      reason.clear();
      return true;
    }
    const char* why = dlerror();
    if (!reason.empty()) reason += "; ";
    reason += why ? why : path;
    return false;
  }
};

}  // namespace hotslot
