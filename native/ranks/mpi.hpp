// An MPI library that was opened at run time, whatever its binary interface. One call at a time:
// from the thread that called init(), and where serialized() says so from others too. Every call
// throws a Failure with MPI's own words.
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

// Room for any library's handle; 0 until it was made.
struct Comm {
  uintptr_t is = 0;
};
struct Request {
  uintptr_t is = 0;
};

class Mpi {
 public:
  // The first of these that loads and is an MPI; null, and why, where there is none.
  static std::unique_ptr<Mpi> open(const std::vector<std::string>& names, std::string& why);
  virtual ~Mpi() = default;
  const std::string& name() const { return name_; }

  // Throws where something else in this process has called MPI.
  virtual void init() = 0;
  virtual bool serialized() const = 0;
  virtual void finalize() = 0;
  virtual std::string version() = 0;
  // Of the world, whose errors are returned from init() on.
  virtual int rank() = 0;
  virtual int size() = 0;
  virtual int max_tag() = 0;
  // Every rank calls it; the world's where it is made first.
  virtual Comm duplicate(const Comm* of) = 0;
  virtual void free(Comm& comm) = 0;

  // Persistent requests of plain bytes; start() orders one once.
  virtual Request send_init(const void* bytes, size_t count, int to, int tag, const Comm& comm) = 0;
  virtual Request recv_init(void* bytes, size_t count, int from, int tag, const Comm& comm) = 0;
  virtual void start(Request& request) = 0;
  virtual Request send(const void* bytes, size_t count, int to, int tag, const Comm& comm) = 0;
  // `count` bytes of every rank, in the order of ranks; in and out are apart.
  virtual Request all_gather(const void* in, size_t count, void* out, const Comm& comm) = 0;
  // Whether it is over; a request that is not persistent is gone then.
  virtual bool test(Request& request) = 0;
  // Which of these are over, by their places; of those that are under way. MPI moves on once,
  // however many they are.
  virtual void test_some(const std::vector<Request*>& requests, std::vector<int>& over) = 0;
  // A receive that was started and will never be answered, and its request.
  virtual void cancel(Request& request) = 0;
  virtual void free(Request& request) = 0;

 protected:
  std::string name_;
};

}  // namespace hotslot::ranks
