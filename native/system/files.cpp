// Locks on files, which processes hold against each other.
#include <fcntl.h>
#include <napi.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "system/exports.hpp"

namespace hotslot::system {
namespace {

// A file that this process has locked; the system lets go of it when the descriptor goes, however the process ends.
struct Lock {
  int fd;
  explicit Lock(int given) : fd(given) {}
  Lock(Lock&& other) noexcept : fd(std::exchange(other.fd, -1)) {}
  Lock& operator=(Lock&&) = delete;
  ~Lock() { release(); }
  void release() {
    if (fd >= 0) ::close(std::exchange(fd, -1));
  }
};

// (path, anything, whether others that share may have it too) → handle; null when another has it; else the system's
// words
Napi::Value lock_file(Info info) {
  const std::string path = info[0].As<Napi::String>().Utf8Value();
  const int how = info[2].ToBoolean().Value() ? LOCK_SH : LOCK_EX;
  Lock lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (lock.fd < 0) return Napi::String::New(info.Env(), std::strerror(errno));
  while (flock(lock.fd, how | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return info.Env().Null();
    if (errno != EINTR) return Napi::String::New(info.Env(), std::strerror(errno));
  }
  return hold(info, 1, std::move(lock));
}

void unlock_file(Info info) { held<Lock>(info, 0).release(); }

}  // namespace

void add_file_functions(Napi::Env env, Napi::Object exports) {
  static constexpr Exported all[] = {{"lockFile", lock_file}, {"unlockFile", unlock_file}};
  add_functions(env, add_group(env, exports, "files"), all);
}

}  // namespace hotslot::system
