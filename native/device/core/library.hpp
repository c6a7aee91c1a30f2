// A shared library opened at run time: the first of several names that loads, or the path in an
// environment variable. It stays open for the life of the process, because drivers and BLAS start
// threads that must not lose their code.
#pragma once
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string>

namespace hotslot {

struct Library {
  void* handle = nullptr;
  // The name that was opened, or the reason why none was, with every name tried.
  std::string name, reason;
  // named: by an environment variable. shared: it was open in this process before.
  bool named = false, shared = false;

  explicit operator bool() const { return handle != nullptr; }

  // Returns null if the library lacks the symbol.
  template <class F>
  F symbol(const char* symbol_name) const {
    return handle ? reinterpret_cast<F>(dlsym(handle, symbol_name)) : nullptr;
  }

  // Opens a library. If `variable` is set to a path, only that path is tried. If it is 'none', no
  // name is tried.
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
