// Preloaded into a process under test. It intercepts the calls that Hotslot's own binaries make for
// memory, threads and files, and calls of the kernel. It lists the places that make them, makes the
// next call from one place fail, and counts what the calls returned and nobody released. Calls of
// Node's own code, its libraries and V8 pass through unchanged.
//
// A place is made of two return addresses in Hotslot's binaries, the innermost ones of the call's
// stack. Frames of the C and C++ libraries before them are skipped. Addresses are relative to their
// binary, so a place has the same name in every process.
//
// process.dlopen() of this library gives { record(on), sites(), arm(id), struck(), force(kind |
// null) }.
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <unwind.h>

#include <cstdarg>
#include <cstdint>
#include <new>

#include "../drivers/node_api.hpp"
#include "fail_sites.hpp"

using namespace hotslot::faults;

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
void __libc_free(void*);
}

#define EXPORT extern "C" __attribute__((visibility("default")))
#define HERE __builtin_return_address(0)
#define REAL(name)                                                                        \
  ([] {                                                                                   \
    static const auto found = reinterpret_cast<decltype(&name)>(dlsym(RTLD_NEXT, #name)); \
    return found;                                                                         \
  }())

// ---- memory -------------------------------------------------------------------------------------

namespace {

template <class Make>
void* made(const char* kind, void* from, Make&& make) {
  Call call(kind, from);
  if (call.fails) {
    errno = ENOMEM;
    return nullptr;
  }
  return call.keep(make());
}

}  // namespace

EXPORT void* malloc(size_t bytes) {
  return made("malloc", HERE, [&] { return __libc_malloc(bytes); });
}
EXPORT void* calloc(size_t count, size_t bytes) {
  return made("calloc", HERE, [&] { return __libc_calloc(count, bytes); });
}
EXPORT void* realloc(void* old, size_t bytes) {
  Call call("realloc", HERE);
  if (call.fails) {
    errno = ENOMEM;
    return nullptr;
  }
  forget(old);
  return call.keep(__libc_realloc(old, bytes));
}
EXPORT void* memalign(size_t to, size_t bytes) {
  return made("memalign", HERE, [&] { return __libc_memalign(to, bytes); });
}
EXPORT void* aligned_alloc(size_t to, size_t bytes) {
  return made("aligned_alloc", HERE, [&] { return __libc_memalign(to, bytes); });
}
EXPORT int posix_memalign(void** out, size_t to, size_t bytes) {
  void* const at = made("posix_memalign", HERE, [&] { return __libc_memalign(to, bytes); });
  if (at) *out = at;
  return at ? 0 : ENOMEM;
}
EXPORT void free(void* at) {
  forget(at);
  __libc_free(at);
}

namespace {

void* new_or_throw(void* from, size_t to, size_t bytes) {
  void* const at = made("new", from, [&] {
    return to ? __libc_memalign(to, bytes) : __libc_malloc(bytes ? bytes : 1);
  });
  if (!at) throw std::bad_alloc();
  return at;
}
void* new_or_null(void* from, size_t bytes) noexcept {
  return made("new", from, [&] { return __libc_malloc(bytes ? bytes : 1); });
}

}  // namespace

#define PUBLIC __attribute__((visibility("default")))
PUBLIC void* operator new(size_t bytes) { return new_or_throw(HERE, 0, bytes); }
PUBLIC void* operator new[](size_t bytes) { return new_or_throw(HERE, 0, bytes); }
PUBLIC void* operator new(size_t bytes, std::align_val_t to) {
  return new_or_throw(HERE, size_t(to), bytes);
}
PUBLIC void* operator new[](size_t bytes, std::align_val_t to) {
  return new_or_throw(HERE, size_t(to), bytes);
}
PUBLIC void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return new_or_null(HERE, bytes);
}
PUBLIC void* operator new[](size_t bytes, const std::nothrow_t&) noexcept {
  return new_or_null(HERE, bytes);
}
PUBLIC void operator delete(void* at) noexcept { free(at); }
PUBLIC void operator delete[](void* at) noexcept { free(at); }
PUBLIC void operator delete(void* at, size_t) noexcept { free(at); }
PUBLIC void operator delete[](void* at, size_t) noexcept { free(at); }
PUBLIC void operator delete(void* at, std::align_val_t) noexcept { free(at); }
PUBLIC void operator delete[](void* at, std::align_val_t) noexcept { free(at); }
PUBLIC void operator delete(void* at, size_t, std::align_val_t) noexcept { free(at); }
PUBLIC void operator delete[](void* at, size_t, std::align_val_t) noexcept { free(at); }

// ---- the system ---------------------------------------------------------------------------------

// Returns the call's result, or `failed` with errno set to `error` if the call is to fail.
#define GUARDED(kind, failed, error, ...) \
  Call call(kind, HERE);                  \
  if (call.fails) {                       \
    errno = error;                        \
    return failed;                        \
  }                                       \
  return __VA_ARGS__

EXPORT void* mmap64(void* at, size_t bytes, int rights, int flags, int fd, off64_t offset) {
  Call call("mmap", HERE);
  if (call.fails) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  void* const made = REAL(mmap64)(at, bytes, rights, flags, fd, offset);
  return made == MAP_FAILED ? made : call.keep(made);
}
EXPORT int munmap(void* at, size_t bytes) noexcept {
  forget(at);
  return REAL(munmap)(at, bytes);
}
EXPORT int madvise(void* at, size_t bytes, int advice) noexcept {
  GUARDED("madvise", -1, EINVAL, REAL(madvise)(at, bytes, advice));
}
EXPORT int pthread_create(pthread_t* thread, const pthread_attr_t* how, void* (*main)(void*),
                          void* given) noexcept {
  GUARDED("pthread_create", EAGAIN, EAGAIN, REAL(pthread_create)(thread, how, main, given));
}
EXPORT int open64(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t rights = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  GUARDED("open", -1, EMFILE, REAL(open64)(path, flags, rights));
}
EXPORT FILE* fopen64(const char* path, const char* how) {
  GUARDED("fopen", nullptr, EMFILE, REAL(fopen64)(path, how));
}
EXPORT int flock(int fd, int how) noexcept { GUARDED("flock", -1, ENOLCK, REAL(flock)(fd, how)); }
EXPORT int pipe2(int* ends, int flags) noexcept {
  GUARDED("pipe", -1, EMFILE, REAL(pipe2)(ends, flags));
}
EXPORT int poll(pollfd* all, nfds_t count, int ms) {
  GUARDED("poll", -1, ENOMEM, REAL(poll)(all, count, ms));
}
EXPORT ssize_t read(int fd, void* to, size_t bytes) {
  GUARDED("read", -1, EIO, REAL(read)(fd, to, bytes));
}
EXPORT ssize_t write(int fd, const void* from, size_t bytes) {
  GUARDED("write", -1, EIO, REAL(write)(fd, from, bytes));
}
EXPORT void* dlopen(const char* path, int how) noexcept {
  Call call("dlopen", HERE);
  // The loader's error text is set by a real failure, so a missing library is opened.
  return REAL(dlopen)(call.fails ? "there-is-no-such-library.so" : path, how);
}
EXPORT int prctl(int what, ...) noexcept {
  va_list rest;
  va_start(rest, what);
  const unsigned long a = va_arg(rest, unsigned long), b = va_arg(rest, unsigned long),
                      c = va_arg(rest, unsigned long), d = va_arg(rest, unsigned long);
  va_end(rest);
  GUARDED("prctl", -1, EINVAL, REAL(prctl)(what, a, b, c, d));
}
EXPORT long syscall(long number, ...) noexcept {
  va_list rest;
  va_start(rest, number);
  long word[6];
  for (long& each : word) each = va_arg(rest, long);
  va_end(rest);
  const char* const kind = number == SYS_futex   ? "futex"
                           : number == SYS_mbind ? "mbind"
                                                 : "syscall";
  GUARDED(kind, -1, ENOSYS,
          REAL(syscall)(number, word[0], word[1], word[2], word[3], word[4], word[5]));
}

// ---- exports to JavaScript ----------------------------------------------------------------------

namespace {

// A JavaScript function that takes one text, or none, and returns a text.
template <const char* (*F)(const char*)>
napi_value function(napi_env env, napi_callback_info info) {
  size_t count = 1, length = 0;
  napi_value argument = nullptr, out = nullptr;
  char text[64];
  napi_get_cb_info(env, info, &count, &argument, nullptr, nullptr);
  const bool given =
      count > 0 && napi_get_value_string_utf8(env, argument, text, sizeof text, &length) == 0;
  napi_create_string_utf8(env, F(given ? text : nullptr), size_t(-1), &out);
  return out;
}

}  // namespace

EXPORT napi_value napi_register_module_v1(napi_env env, napi_value exports) {
  const auto add = [&](const char* name, napi_callback function) {
    napi_value made = nullptr;
    napi_create_function(env, name, size_t(-1), function, nullptr, &made);
    napi_set_named_property(env, exports, name, made);
  };
  add("record", function<record>);
  add("sites", function<sites>);
  add("arm", function<arm>);
  add("struck", function<struck>);
  add("force", function<force>);
  return exports;
}
EXPORT int node_api_module_get_api_version_v1() { return 9; }
