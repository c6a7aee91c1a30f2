/*
 * A library that is preloaded into a process under test. It counts the calls that change files
 * below $FAULT_FOLDER. At a given call it lets the process die, or lets the call fail. The process
 * controls the library by unlinking names that do not exist. "fault:MODE:N" arms it for the Nth
 * call from then on. "fault:over" disarms it, and fails with EEXIST if the fault has happened.
 *
 * A process that dies loses what it has not flushed, as in a loss of power: the bytes of files and,
 * by mode, new names.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { LONGEST = 4096, MOST = 512 };
enum Mode {
  off,
  /* the process dies after the call */
  kill_bytes,  /* bytes that were not flushed are lost */
  kill_names,  /* also names whose folder was not flushed */
  kill_others, /* also such names, except the manifest's: a disk may write names in any order */
  kill_half,   /* the process dies within a write */
  /* the call fails */
  fail_io,       /* once, with EIO */
  fail_full,     /* this and later calls that need room, with ENOSPC */
  fail_read_only /* this and all later calls, with EROFS */
};
static const char* const modes[] = {"off",       "kill-bytes", "kill-names", "kill-others",
                                    "kill-half", "fail-io",    "fail-full",  "fail-read-only"};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static enum Mode mode = off;
static long left; /* number of calls before the fault */
static int struck;
static __thread int half; /* whether the process dies within this write. Writes of other threads stay whole */
static ino_t dirty[MOST]; /* files that were written and not flushed afterwards */
static int dirty_count;
static struct {
  char from[LONGEST], to[LONGEST], before[LONGEST]; /* before: a copy of the replaced `to`, or "" */
} renames[64];                                      /* renames after the latest flush of the folder */
static int rename_count;

#define REAL(name) ((__typeof__(&name))real(#name))
static void* real(const char* name) { return dlsym(RTLD_NEXT, name); }

static int below(const char* path) {
  const char* folder = getenv("FAULT_FOLDER");
  const size_t length = folder ? strlen(folder) : 0;
  return length > 0 && path && strncmp(path, folder, length) == 0 && (path[length] == '/' || path[length] == 0);
}
static int path_of(int fd, char* path) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, LONGEST - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return below(path);
}
static int ours(int fd) {
  char path[LONGEST];
  return path_of(fd, path);
}

static int dirty_at(ino_t inode) {
  for (int i = 0; i < dirty_count; i++)
    if (dirty[i] == inode) return i;
  return -1;
}
static void soil(int fd) {
  struct stat facts;
  if (fstat(fd, &facts) == 0 && dirty_at(facts.st_ino) < 0 && dirty_count < MOST) dirty[dirty_count++] = facts.st_ino;
}
static void flushed(int fd) {
  struct stat facts;
  if (fstat(fd, &facts) != 0) return;
  const int at = dirty_at(facts.st_ino);
  if (at >= 0) dirty[at] = dirty[--dirty_count];
  if (!S_ISDIR(facts.st_mode)) return;
  for (int i = 0; i < rename_count; i++)
    if (renames[i].before[0]) REAL(unlink)(renames[i].before);
  rename_count = 0;
}

/* Truncates the files of a folder and of its subfolders that were written and not flushed. */
static void lose_bytes(const char* folder) {
  DIR* all = opendir(folder);
  for (struct dirent* each; all && (each = readdir(all));) {
    char path[LONGEST];
    struct stat facts;
    snprintf(path, sizeof path, "%s/%s", folder, each->d_name);
    if (each->d_name[0] == '.' || lstat(path, &facts) != 0) continue;
    if (S_ISDIR(facts.st_mode))
      lose_bytes(path);
    else if (dirty_at(facts.st_ino) >= 0 && truncate(path, 0) != 0)
      perror(path), abort();
  }
  if (all) closedir(all);
}
static void lose_names(int manifests) {
  for (int i = rename_count - 1; i >= 0; i--) {
    const char* name = strrchr(renames[i].to, '/');
    if (!manifests && strcmp(name, "/checkpoint.json") == 0) continue;
    REAL(rename)(renames[i].to, renames[i].from);
    if (renames[i].before[0]) REAL(rename)(renames[i].before, renames[i].to);
  }
}
static void die(void) {
  if (mode == kill_names || mode == kill_others) lose_names(mode == kill_names);
  lose_bytes(getenv("FAULT_FOLDER"));
  /* Removes the saved copies of replaced files. */
  for (int i = 0; i < rename_count; i++)
    if (renames[i].before[0]) REAL(unlink)(renames[i].before);
  kill(getpid(), SIGKILL);
}

enum Kind { creates, writes, flushes, renames_it, removes };

/*
 * Counts a call, and returns an error number if this call is to fail, else 0. Holds the lock until
 * over().
 */
static int last; /* whether the process dies after this call */
static int counted(enum Kind kind) {
  pthread_mutex_lock(&lock);
  if (mode == off || (mode == kill_half && kind != writes)) return 0;
  if (mode == fail_full && kind != creates && kind != writes) return 0;
  if (mode == fail_io && struck) return 0;
  if (left > 0) {
    left--;
    return 0;
  }
  struck = 1;
  if (mode == fail_io) return EIO;
  if (mode == fail_full) return ENOSPC;
  if (mode == fail_read_only) return EROFS;
  half = mode == kill_half;
  last = 1;
  return 0;
}
static void over(void) {
  if (last) die();
  pthread_mutex_unlock(&lock);
}

static int command(const char* path) {
  const char* words = strstr(path, "fault:");
  if (!words) return 0;
  pthread_mutex_lock(&lock);
  errno = ENOENT;
  if (strcmp(words, "fault:over") == 0) {
    mode = off;
    if (struck) errno = EEXIST;
  } else {
    char name[32] = "";
    mode = off;
    if (sscanf(words, "fault:%31[a-z-]:%ld", name, &left) != 2) abort();
    for (int i = 1; i < (int)(sizeof modes / sizeof *modes); i++)
      if (strcmp(name, modes[i]) == 0) mode = (enum Mode)i;
    if (mode == off) abort();
    struck = 0;
  }
  pthread_mutex_unlock(&lock);
  return 1;
}

/*
 * Runs `call` and then `after` if `applies` is true, with the lock held and the fault applied.
 * Otherwise only runs `call`.
 */
#define GUARDED(type, kind, applies, call, after) \
  if (!(applies)) return call;                    \
  const int error = counted(kind);                \
  const type result = error ? -1 : (call);        \
  const int code = error ? error : errno;         \
  if (result >= 0) {                              \
    after;                                        \
  }                                               \
  over();                                         \
  errno = code;                                   \
  return result;

ssize_t write(int fd, const void* bytes, size_t size){
    GUARDED(ssize_t, writes, ours(fd), REAL(write)(fd, bytes, half ? size / 2 : size), soil(fd))} ssize_t
    pwrite(int fd, const void* bytes, size_t size, off_t at){
        GUARDED(ssize_t, writes, ours(fd), REAL(pwrite)(fd, bytes, half ? size / 2 : size, at), soil(fd))} ssize_t
    pwrite64(int fd, const void* bytes, size_t size, off64_t at){
        GUARDED(ssize_t, writes, ours(fd), REAL(pwrite64)(fd, bytes, half ? size / 2 : size, at), soil(fd))}
/* A half write of several pieces writes the first piece. */
ssize_t writev(int fd, const struct iovec* pieces, int count){
    GUARDED(ssize_t, writes, ours(fd), REAL(writev)(fd, pieces, half ? 1 : count), soil(fd))} ssize_t
    pwritev64(int fd, const struct iovec* pieces, int count, off64_t at) {
  GUARDED(ssize_t, writes, ours(fd), REAL(pwritev64)(fd, pieces, half ? 1 : count, at), soil(fd))
}
int fsync(int fd) { GUARDED(int, flushes, ours(fd), REAL(fsync)(fd), flushed(fd)) }
int fdatasync(int fd) { GUARDED(int, flushes, ours(fd), REAL(fdatasync)(fd), flushed(fd)) }
int ftruncate64(int fd, off64_t size) { GUARDED(int, writes, ours(fd), REAL(ftruncate64)(fd, size), soil(fd)) }

static void keep_before(const char* to, char* before) {
  static int kept;
  const char* folder = getenv("FAULT_FOLDER");
  snprintf(before, LONGEST, "%s.before.%d", folder, kept++);
  if (link(to, before) != 0) before[0] = 0;
}
static void renamed(const char* from, const char* to, const char* before) {
  if (mode != kill_names && mode != kill_others) return;
  strcpy(renames[rename_count].from, from);
  strcpy(renames[rename_count].to, to);
  strcpy(renames[rename_count++].before, before);
}
int rename(const char* from, const char* to) {
  char before[LONGEST] = "";
  if (mode == kill_names || mode == kill_others) keep_before(to, before);
  GUARDED(int, renames_it, below(from) || below(to), REAL(rename)(from, to), renamed(from, to, before))
}
int unlink(const char* path) {
  if (command(path)) return -1;
  GUARDED(int, removes, below(path), REAL(unlink)(path), )
}
int open64(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t rights = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  GUARDED(int, creates, (flags & O_CREAT) && below(path), REAL(open64)(path, flags, rights), )
}
