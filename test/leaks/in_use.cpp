// Returns to JavaScript how many bytes of the C library's memory all threads have in use.
// process.dlopen() of this library gives { inUse() }, which returns the bytes as text. Freed memory
// that the library caches does not count. The system's numbers include such memory.
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../drivers/node_api.hpp"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

// Returns the size of the last element that begins with `text`. The elements after all arenas are
// about the whole process.
long long last(const char* all, const char* text) {
  const char* found = nullptr;
  for (const char* at = all; (at = strstr(at, text)) != nullptr; ++at) found = at;
  const char* size = found ? strstr(found, "size=\"") : nullptr;
  return size ? atoll(size + 6) : 0;
}

napi_value in_use(napi_env env, napi_callback_info) {
  char* all = nullptr;
  size_t length = 0;
  FILE* to = open_memstream(&all, &length);
  malloc_info(0, to);
  fclose(to);
  const long long free = last(all, "<total type=\"fast\"") + last(all, "<total type=\"rest\"");
  const long long bytes =
      last(all, "<system type=\"current\"") + last(all, "<total type=\"mmap\"") - free;
  ::free(all);
  char text[32];
  snprintf(text, sizeof text, "%lld", bytes);
  napi_value made = nullptr;
  napi_create_string_utf8(env, text, size_t(-1), &made);
  return made;
}

}  // namespace

EXPORT napi_value napi_register_module_v1(napi_env env, napi_value exports) {
  napi_value made = nullptr;
  napi_create_function(env, "inUse", size_t(-1), in_use, nullptr, &made);
  napi_set_named_property(env, exports, "inUse", made);
  return exports;
}
EXPORT int node_api_module_get_api_version_v1() { return 9; }
