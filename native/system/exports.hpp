// The data that system.node keeps for each thread, and the functions that add its exports. Each
// file adds one object per subject.
#pragma once
#include <napi.h>
#include <unistd.h>

#include <memory>
#include <utility>
#include <vector>

#include "device/addon/napi.hpp"

namespace hotslot::system {

// An open file or an end of a pipe. The destructor closes it.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() { close(); }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

class Thread;

// A word that shows whether its thread lives (watchThread).
struct Watch {
  Thread& owner;
  int32_t* word;
  int32_t from, to;
  // Keeps the memory of the word alive until the hook has run.
  Napi::Reference<Napi::TypedArray> words;
};

// The environment of one thread that runs the library's code. While the environment exists, the
// pool of system.node counts the thread (IdleCores::Thread).
class Thread : public Environment {
 public:
  // The watches of this thread's words. Their hooks run before this object is destroyed.
  std::vector<std::unique_ptr<Watch>> watches;

 private:
  IdleCores::Thread counted_;
};
inline Thread& here(Info info) { return static_cast<Thread&>(environment(info.Env())); }

void add_core_functions(Napi::Env env, Napi::Object exports);
void add_file_functions(Napi::Env env, Napi::Object exports);
void add_process_functions(Napi::Env env, Napi::Object exports);
void add_thread_functions(Napi::Env env, Napi::Object exports);

}  // namespace hotslot::system
