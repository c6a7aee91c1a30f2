/*
 * Preloaded into the process of a storm. It freezes a thread of the process, and moves its wall
 * clock. The process asks for that by unlinking names of files that do not exist.
 * "storm:freeze:TID:MS" sends the thread a signal whose handler sleeps, wherever the thread is.
 * "storm:clock:MS" sets by how many ms the wall clock is ahead. unlink() fails with EEXIST if that
 * was done, else with ENOENT.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static _Atomic long long ahead_ms;

static long long now_ms(void) {
  struct timespec at;
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &at);
  return at.tv_sec * 1000LL + at.tv_nsec / 1000000;
}

static void stand_still(int number, siginfo_t* told, void* context) {
  (void)number;
  (void)context;
  const int before = errno;
  for (const long long end = now_ms() + told->si_value.sival_int; now_ms() < end;) {
    const struct timespec piece = {0, 2000000};
    syscall(SYS_nanosleep, &piece, 0);
  }
  errno = before;
}

__attribute__((constructor)) static void listen_for_it(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = stand_still;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigaction(SIGRTMIN + 6, &action, 0);
}

static int freeze(long thread, int ms) {
  siginfo_t told;
  memset(&told, 0, sizeof told);
  told.si_signo = SIGRTMIN + 6;
  told.si_code = SI_QUEUE;
  told.si_pid = getpid();
  told.si_uid = getuid();
  told.si_value.sival_int = ms;
  return (int)syscall(SYS_rt_tgsigqueueinfo, getpid(), thread, SIGRTMIN + 6, &told);
}

int unlink(const char* path) {
  static int (*next)(const char*);
  long thread;
  int ms;
  long long ahead;
  const char* words = path ? strstr(path, "storm:") : 0;
  if (words && sscanf(words, "storm:freeze:%ld:%d", &thread, &ms) == 2) {
    errno = freeze(thread, ms) == 0 ? EEXIST : ENOENT;
    return -1;
  }
  if (words && sscanf(words, "storm:clock:%lld", &ahead) == 1) {
    ahead_ms = ahead;
    errno = EEXIST;
    return -1;
  }
  if (!next) next = (int (*)(const char*))dlsym(RTLD_NEXT, "unlink");
  return next(path);
}

static void move(struct timespec* at) {
  const long long ms = ahead_ms;
  at->tv_sec += ms / 1000;
  at->tv_nsec += ms % 1000 * 1000000;
  if (at->tv_nsec < 0) {
    at->tv_nsec += 1000000000;
    at->tv_sec--;
  } else if (at->tv_nsec >= 1000000000) {
    at->tv_nsec -= 1000000000;
    at->tv_sec++;
  }
}
int clock_gettime(clockid_t clock, struct timespec* at) {
  const int answer = (int)syscall(SYS_clock_gettime, clock, at);
  if (answer == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) move(at);
  return answer;
}
int gettimeofday(struct timeval* at, void* zone) {
  struct timespec now;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &now);
  at->tv_sec = now.tv_sec;
  at->tv_usec = now.tv_nsec / 1000;
  return 0;
}
time_t time(time_t* at) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (at) *at = now.tv_sec;
  return now.tv_sec;
}
