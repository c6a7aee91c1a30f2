/* Functions that Hotslot's objects and the static C++ library need. They are in glibc versions
   newer than 2.28, or in glibc's static part. Only prebuilt addons include them, and do not export
   them. See stubs.mjs. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* 2.32: true if the process never had a second thread, so that counts need no atomic operations.
   It is 0, because Node has threads from the start. */
char __libc_single_threaded = 0;

/* In glibc's static part: registers `f` to be called at exit, or when this addon is unloaded. */
extern int __cxa_atexit(void (*)(void*), void*, void*);
extern void* __dso_handle;
int atexit(void (*f)(void)) {
  return __cxa_atexit((void (*)(void*))(uintptr_t)f, 0, &__dso_handle);
}

/* 2.33: reads a file's properties. In older versions it is an inline function that calls another
   name. */
int fstat64(int fd, struct stat64* out) {
  return syscall(SYS_fstat, fd, out);
}

/* 2.36: returns a random word. std::random_device calls it. */
uint32_t arc4random(void) {
  uint32_t word = 0;
  while (getrandom(&word, sizeof word, 0) != sizeof word) {
  }
  return word;
}

/* 2.30: waits on a condition until a moment of the requested clock. If glibc lacks the function,
   this waits until the same moment of the realtime clock, as the C++ library itself does. A change
   of the clock does no harm, because every waiter checks its condition again. */
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const struct timespec* until) {
  typedef int Wait(pthread_cond_t*, pthread_mutex_t*, clockid_t, const struct timespec*);
  static Wait* own;
  static int looked;
  if (!__atomic_load_n(&looked, __ATOMIC_ACQUIRE)) {
    own = (Wait*)(uintptr_t)dlsym(RTLD_DEFAULT, "pthread_cond_clockwait");
    __atomic_store_n(&looked, 1, __ATOMIC_RELEASE);
  }
  if (own) return own(condition, mutex, clock, until);
  struct timespec now, day;
  if (clock_gettime(clock, &now) != 0 || clock_gettime(CLOCK_REALTIME, &day) != 0) return EINVAL;
  int64_t left = (until->tv_sec - now.tv_sec) * INT64_C(1000000000) + (until->tv_nsec - now.tv_nsec);
  if (left < 0) left = 0;
  int64_t nanoseconds = day.tv_nsec + left % 1000000000;
  day.tv_sec += left / 1000000000 + nanoseconds / 1000000000;
  day.tv_nsec = nanoseconds % 1000000000;
  return pthread_cond_timedwait(condition, mutex, &day);
}
