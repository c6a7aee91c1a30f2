// Locks on files, which exclude other processes.
#include <fcntl.h>
#include <napi.h>
#include <sys/file.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "system/exports.hpp"

namespace hotslot::system {
namespace {

// lockFile(path, any view, whether the lock is shared): returns a handle, null if another process
// has a lock that excludes this one, or the system's error text. The system releases the lock when
// the descriptor is closed, however the process ends.
Napi::Value lock_file(Info info) {
  const std::string path = info[0].As<Napi::String>().Utf8Value();
  const int how = info[2].ToBoolean().Value() ? LOCK_SH : LOCK_EX;
  Descriptor lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (lock.get() < 0) return Napi::String::New(info.Env(), std::strerror(errno));
  while (flock(lock.get(), how | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return info.Env().Null();
    if (errno != EINTR) return Napi::String::New(info.Env(), std::strerror(errno));
  }
  return hold(info, 1, std::move(lock));
}

void unlock_file(Info info) { held<Descriptor>(info, 0).close(); }

}  // namespace

void add_file_functions(Napi::Env env, Napi::Object exports) {
  static constexpr Exported all[] = {{"lockFile", lock_file}, {"unlockFile", unlock_file}};
  add_functions(env, add_group(env, exports, "files"), all);
}

}  // namespace hotslot::system
