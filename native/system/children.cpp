// Child processes: two pipes to each, read and written for a bounded time, so that a thread which waits for a silent
// child is never out of reach. The handle owns the pipes and, until told that it is gone, the child: where the thread
// is ended, so is the child. A process may also ask to end with the thread that started it.
#include <fcntl.h>
#include <napi.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "system/exports.hpp"

namespace hotslot::system {
namespace {

// An end of a pipe; it closes when it goes.
class End {
 public:
  explicit End(int fd) : fd_(fd) {}
  End(End&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  End& operator=(End&&) = delete;
  ~End() { close(); }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

struct Child {
  End reads, writes;              // ours: they never block
  End their_reads, their_writes;  // theirs, until they have them
  pid_t pid = 0;                  // to be ended with this; 0: nothing is
  Child(End a, End b, End c, End d)
      : reads(std::move(a)), writes(std::move(b)), their_reads(std::move(c)), their_writes(std::move(d)) {}
  Child(Child&& other) noexcept
      : reads(std::move(other.reads)),
        writes(std::move(other.writes)),
        their_reads(std::move(other.their_reads)),
        their_writes(std::move(other.their_writes)),
        pid(std::exchange(other.pid, 0)) {}
  ~Child() {
    if (pid > 0) kill(pid, SIGKILL);
  }
};

[[noreturn]] void failed(Info info, const char* what) {
  throw_js(info.Env(), argument("system addon: ", what, ": ", std::strerror(errno)));
}

// A pipe of two ends that no other child inherits; room for so many bytes where the system grants it.
std::pair<End, End> pipe_of(Info info, uint64_t bytes) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) failed(info, "a pipe could not be made");
  constexpr uint64_t most = 1 << 20;  // what a process may have without privileges
  fcntl(ends[1], F_SETPIPE_SZ, static_cast<int>(std::min(bytes, most)));
  return {End(ends[0]), End(ends[1])};
}

void never_block(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

// (bytes the pipes should hold, out of two int32) → handle; out: what the child reads from, and writes to
Napi::Value open_child(Info info) {
  const uint64_t bytes = whole(info, 0);
  auto* out = reinterpret_cast<int32_t*>(require_bytes(info, 1, 8).data);
  auto [their_reads, writes] = pipe_of(info, bytes);
  auto [reads, their_writes] = pipe_of(info, bytes);
  never_block(reads.get());
  never_block(writes.get());
  out[0] = their_reads.get();
  out[1] = their_writes.get();
  return hold(info, 1, Child(std::move(reads), std::move(writes), std::move(their_reads), std::move(their_writes)));
}

// (child, pid): the child has its ends now, and ours of them go: so each side sees when the other one is gone
void child_started(Info info) {
  auto& child = held<Child>(info, 0);
  child.their_reads.close();
  child.their_writes.close();
  child.pid = static_cast<pid_t>(number(info, 1));
}

// (child): it is gone by itself, and its number may be another's
void child_gone(Info info) { held<Child>(info, 0).pid = 0; }

// (child): what it reads from has ended
void end_writing(Info info) { held<Child>(info, 0).writes.close(); }

void close_child(Info info) {
  auto& child = held<Child>(info, 0);
  for (End* end : {&child.reads, &child.writes, &child.their_reads, &child.their_writes}) end->close();
}

// Moves what it can of `size` bytes, waiting so many milliseconds for the first: how many, 0 when the time is over, −1
// when the other end is closed.
template <typename Move>
Napi::Value moved(Info info, int fd, short events, Move move) {
  const Bytes bytes = require_bytes(info, 1, 0);
  const uint64_t from = whole(info, 2);
  if (from >= bytes.size) throw_js(info.Env(), range("system addon: nothing to move"));
  pollfd waits{fd, events, 0};
  if (poll(&waits, 1, static_cast<int>(u32(info, 3))) < 0 && errno != EINTR) failed(info, "waiting for a child");
  uint64_t done = 0;
  while (from + done < bytes.size) {
    const ssize_t some = move(fd, bytes.data + from + done, bytes.size - from - done);
    if (some > 0) {
      done += static_cast<uint64_t>(some);
      continue;
    }
    if (some < 0 && errno == EINTR) continue;
    if (done > 0 || (some < 0 && errno == EAGAIN)) break;
    if (some < 0 && errno != EPIPE) failed(info, "talking with a child");
    return Napi::Number::New(info.Env(), -1);
  }
  return Napi::Number::New(info.Env(), static_cast<double>(done));
}

// (child, bytes, from, milliseconds)
Napi::Value read_child(Info info) { return moved(info, held<Child>(info, 0).reads.get(), POLLIN, read); }
Napi::Value write_child(Info info) { return moved(info, held<Child>(info, 0).writes.get(), POLLOUT, write); }

// endWithParent(pid): this process is killed when the thread that started it ends; at once when that has happened
// already.
Napi::Value end_with_parent(Info info) {
  return guard(info, [&] {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (double(getppid()) != number(info, 0)) raise(SIGKILL);
  });
}

}  // namespace

void add_process_functions(Napi::Env env, Napi::Object exports) {
  static constexpr Exported all[] = {
      {"openChild", open_child},   {"childStarted", child_started},    {"childGone", child_gone},
      {"endWriting", end_writing}, {"closeChild", close_child},        {"readChild", read_child},
      {"writeChild", write_child}, {"endWithParent", end_with_parent},
  };
  add_functions(env, add_group(env, exports, "processes"), all);
}

}  // namespace hotslot::system
