// Host forms of the kernels that a software driver launches: the core's own, and of those that programs bring, the ones
// in the shared libraries (kernels/library.h) that HOTSLOT_SOFTWARE_KERNELS names, with colons between.
#pragma once
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <string>

#include "kernels/kernel.hpp"

namespace hotslot::software {

inline const char* need_unknown(const KernelArgs&, Reach*) { return nullptr; }

// Nobody knows how much of its tensors such a kernel touches.
inline bool brought(const Kernel& kernel) { return kernel.need == need_unknown; }

// Kernels that the detector of order.hpp leaves out: nobody knows what a program's touches, and one that holds its
// stream reads a word that another is to write meanwhile.
inline bool unseen(const Kernel& kernel) { return brought(kernel) || kernel.may_hold; }

inline const Kernel* brought_form(const std::string& name) {
  static std::mutex lock;
  static auto& kernels = *new std::deque<Kernel>;  // read by threads that go on while the process ends
  static std::map<std::string, const Kernel*> known;
  std::lock_guard guard(lock);
  if (const auto found = known.find(name); found != known.end()) return found->second;
  const char* paths = std::getenv("HOTSLOT_SOFTWARE_KERNELS");
  const std::string all = paths ? paths : "";
  for (size_t from = 0; from < all.size();) {
    const size_t to = std::min(all.find(':', from), all.size());
    void* library = dlopen(all.substr(from, to - from).c_str(), RTLD_NOW | RTLD_LOCAL);
    const auto* list = library ? static_cast<const hotslot_kernel*>(dlsym(library, "hotslot_kernels_1")) : nullptr;
    for (; list && list->name; ++list)
      if (name == list->name) {
        kernels.push_back(
            {list->name, int(std::strlen(list->tensors)), list->wholes, list->reals, need_unknown, list->run});
        return known[name] = &kernels.back();
      }
    from = to + 1;
  }
  return nullptr;
}

inline const Kernel* form_of(const std::string& name) {
  const Kernel* const own = find_kernel(name.c_str());
  return own ? own : brought_form(name);
}

}  // namespace hotslot::software
