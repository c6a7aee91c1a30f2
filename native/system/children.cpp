// Child processes, each with two pipes. Reads and writes take a bounded time, so that a thread
// which waits for a silent child stays responsive.
//
// A child's handle owns the pipes. It also owns the child until childGone() is called. So the child
// is killed when the thread with the handle ends. A process can also make the system kill it when
// the thread that started it ends (endWithParent).
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

struct Child {
  Descriptor reads, writes;              // ends of this process, which never block
  Descriptor their_reads, their_writes;  // ends of the child, until it has started
  pid_t pid = 0;                         // the destructor kills it, 0 for none
  ~Child() {
    if (pid > 0) kill(pid, SIGKILL);
  }
};
Child& child(Info info) { return *held<std::unique_ptr<Child>>(info, 0); }

[[noreturn]] void failed(const char* what) {
  throw argument("system addon: ", what, ": ", std::strerror(errno));
}

// Returns the two ends of a pipe, which no other child inherits. The pipe has a capacity of `bytes`
// bytes if the system permits.
std::pair<Descriptor, Descriptor> pipe_of(uint64_t bytes) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) failed("a pipe could not be made");
  constexpr uint64_t most = 1 << 20;  // most that an unprivileged process may request
  fcntl(ends[1], F_SETPIPE_SZ, static_cast<int>(std::min(bytes, most)));
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

void never_block(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

// openChild(bytes that a pipe should store, out: two int32) → handle. Writes two descriptors to
// `out`: the one that the child reads from, then the one that it writes to.
Napi::Value open_child(Info info) {
  const uint64_t bytes = whole(info, 0);
  auto* out = reinterpret_cast<int32_t*>(require_bytes(info, 1, 8).data);
  auto [their_reads, writes] = pipe_of(bytes);
  auto [reads, their_writes] = pipe_of(bytes);
  never_block(reads.get());
  never_block(writes.get());
  out[0] = their_reads.get();
  out[1] = their_writes.get();
  return hold(info, 1,
              std::unique_ptr<Child>(new Child{std::move(reads), std::move(writes),
                                               std::move(their_reads), std::move(their_writes)}));
}

// childStarted(child, pid): closes this process's copies of the child's ends, so that each side
// sees when the other side ends.
void child_started(Info info) {
  Child& of = child(info);
  of.their_reads.close();
  of.their_writes.close();
  of.pid = static_cast<pid_t>(number(info, 1));
}

// childGone(child): forgets the child's process ID, so that the destructor does not kill it. The
// child has ended by itself, and another process may have this ID now.
void child_gone(Info info) { child(info).pid = 0; }

// endWriting(child): closes the child's input.
void end_writing(Info info) { child(info).writes.close(); }

void close_child(Info info) {
  Child& of = child(info);
  for (Descriptor* end : {&of.reads, &of.writes, &of.their_reads, &of.their_writes}) end->close();
}

// Calls `move` (read or write) for the bytes of the view from index `from` on, until no more can be
// moved now. Waits up to the given milliseconds for the first byte. Returns the number of bytes, 0
// if the time is over, or −1 if the other end is closed.
template <typename Move>
double moved(Info info, int fd, short events, Move move) {
  const Bytes bytes = require_bytes(info, 1, 0);
  const uint64_t from = whole(info, 2);
  if (from >= bytes.size) throw range("system addon: nothing to move");
  pollfd waits{fd, events, 0};
  if (poll(&waits, 1, static_cast<int>(u32(info, 3))) < 0 && errno != EINTR)
    failed("waiting for a child");
  uint64_t done = 0;
  while (from + done < bytes.size) {
    const ssize_t some = move(fd, bytes.data + from + done, bytes.size - from - done);
    if (some > 0) {
      done += static_cast<uint64_t>(some);
      continue;
    }
    if (some < 0 && errno == EINTR) continue;
    if (done > 0 || (some < 0 && errno == EAGAIN)) break;
    if (some < 0 && errno != EPIPE) failed("talking with a child");
    return -1;
  }
  return double(done);
}

// readChild(child, bytes, from, milliseconds) and writeChild(child, bytes, from, milliseconds)
// return the result of moved().
double read_child(Info info) { return moved(info, child(info).reads.get(), POLLIN, read); }
double write_child(Info info) { return moved(info, child(info).writes.get(), POLLOUT, write); }

// endWithParent(pid): makes the system kill this process when the thread that started it ends.
// Kills this process at once if its parent `pid` has already ended.
void end_with_parent(Info info) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (double(getppid()) != number(info, 0)) raise(SIGKILL);
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
