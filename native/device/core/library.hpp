// A shared library that is opened at run time. Its path is in an environment variable, or it is the
// first of several names that loads. It stays open until the process ends, because drivers and BLAS
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
  // `name` is the name or path that was opened. If opening failed, `reason` has the error of each
  // name that was tried.
  std::string name, reason;
  // named: whether an environment variable names the library. shared: whether it was loaded in the
  // process before this call.
  bool named = false, shared = false;

  explicit operator bool() const { return handle != nullptr; }

  // Returns the symbol's address, or null if the library lacks the symbol.
  template <class F>
  F symbol(const char* symbol_name) const {
    return handle ? reinterpret_cast<F>(dlsym(handle, symbol_name)) : nullptr;
  }

  // Opens the first of `names` that loads. If the environment variable `variable` is set to a path,
  // tries only this path. If it is 'none', opens no library.
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
