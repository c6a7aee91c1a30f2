// An MPI library that was opened at run time, with any of the binary interfaces. Make all calls
// from the thread that called init(), unless serialized() is true. Then any thread may call, one at
// a time. A call that fails throws a Failure with MPI's own text.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace hotslot::ranks {

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Memory for a handle of any library. The handle is 0 until it is created.
struct Comm {
  uintptr_t is = 0;
};
struct Request {
  uintptr_t is = 0;
};

class Mpi {
 public:
  // Opens the first of these libraries that loads and is an MPI. If all fail, returns null and
  // writes the reasons to `why`.
  static std::unique_ptr<Mpi> open(const std::vector<std::string>& names, std::string& why);
  virtual ~Mpi() = default;
  const std::string& name() const { return name_; }

  // Initializes MPI. Throws if something else in this process has initialized it.
  virtual void init() = 0;
  virtual bool serialized() const = 0;
  virtual void finalize() = 0;
  virtual std::string version() = 0;
  // Properties of the world communicator. After init(), a failed call on it returns an error code
  // and does not end the process.
  virtual int rank() = 0;
  virtual int size() = 0;
  virtual int max_tag() = 0;
  // Duplicates `of`, or the world communicator if `of` is null. The call is collective: every rank
  // makes it.
  virtual Comm duplicate(const Comm* of) = 0;
  virtual void free(Comm& comm) = 0;

  // Create persistent requests that send or receive plain bytes. Each start() runs a request once.
  virtual Request send_init(const void* bytes, size_t count, int to, int tag, const Comm& comm) = 0;
  virtual Request recv_init(void* bytes, size_t count, int from, int tag, const Comm& comm) = 0;
  virtual void start(Request& request) = 0;
  virtual Request send(const void* bytes, size_t count, int to, int tag, const Comm& comm) = 0;
  // Gathers `count` bytes of every rank, in the order of ranks. `in` and `out` do not overlap.
  virtual Request all_gather(const void* in, size_t count, void* out, const Comm& comm) = 0;
  // Returns whether the request is over. If it is over and not persistent, the call frees it.
  virtual bool test(Request& request) = 0;
  // Writes the indices of the started requests that are over to `over`. MPI makes progress once per
  // call, for any number of requests.
  virtual void test_some(const std::vector<Request*>& requests, std::vector<int>& over) = 0;
  // Cancels a receive that was started and will never complete, and frees its request.
  virtual void cancel(Request& request) = 0;
  virtual void free(Request& request) = 0;

 protected:
  std::string name_;
};

}  // namespace hotslot::ranks
