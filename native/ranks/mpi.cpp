// Implements Mpi by the functions of a library. The class template has an instance for each of the
// binary interfaces.
#include "ranks/mpi.hpp"

#include <algorithm>
#include <climits>
#include <cstring>
#include <type_traits>

#include "device/core/library.hpp"
#include "ranks/abi.hpp"

namespace hotslot::ranks {
namespace {

template <class Abi>
class MpiOf final : public Mpi {
  using Handle = typename Abi::Handle;

 public:
  MpiOf(const Library& library) {
    name_ = library.name;
#define HOTSLOT_MPI_FIND(entry, symbol, parameters) \
  calls_.entry = find<decltype(calls_.entry)>(library, #symbol);
    HOTSLOT_MPI_CALLS(HOTSLOT_MPI_FIND, Handle)
#undef HOTSLOT_MPI_FIND
    if constexpr (std::is_same_v<Abi, OpenMpi>) {
      world_ = find<void*>(library, Abi::world);
      byte_ = find<void*>(library, Abi::byte);
      errors_return_ = find<void*>(library, Abi::errors_return);
    } else if constexpr (std::is_same_v<Abi, Mpich>) {
      world_ = Abi::world, byte_ = Abi::byte, errors_return_ = Abi::errors_return;
    } else {
      world_ = reinterpret_cast<Handle>(Abi::world);
      byte_ = reinterpret_cast<Handle>(Abi::byte);
      errors_return_ = reinterpret_cast<Handle>(Abi::errors_return);
    }
  }

  void init() override {
    int before = 0;
    check("MPI_Initialized", calls_.initialized(&before));
    if (before) throw Failure("MPI was initialized by something else in this process");
    check("MPI_Init_thread", calls_.init_thread(nullptr, nullptr, Abi::serialized, &provided_));
    check("MPI_Comm_set_errhandler", calls_.comm_set_errhandler(world_, errors_return_));
    if (provided_ < Abi::funneled)
      throw Failure("this MPI does not support MPI_THREAD_FUNNELED, which Hotslot needs");
  }
  bool serialized() const override { return provided_ >= Abi::serialized; }
  void finalize() override { check("MPI_Finalize", calls_.finalize()); }
  std::string version() override {
    std::string text(max_text, '\0');
    int length = 0;
    check("MPI_Get_library_version", calls_.library_version(text.data(), &length));
    text.resize(std::strlen(text.c_str()));
    return text;
  }
  int rank() override {
    int rank = 0;
    check("MPI_Comm_rank", calls_.comm_rank(world_, &rank));
    return rank;
  }
  int size() override {
    int size = 0;
    check("MPI_Comm_size", calls_.comm_size(world_, &size));
    return size;
  }
  int max_tag() override {
    int* most = nullptr;
    int found = 0;
    check("MPI_Comm_get_attr", calls_.comm_get_attr(world_, Abi::tag_ub, &most, &found));
    return found ? *most : 32767;  // every MPI allows tags up to this one
  }
  Comm duplicate(const Comm* of) override {
    Handle made{};
    check("MPI_Comm_dup", calls_.comm_dup(of ? handle(*of) : world_, &made));
    check("MPI_Comm_set_errhandler", calls_.comm_set_errhandler(made, errors_return_));
    return {raw(made)};
  }
  void free(Comm& comm) override {
    Handle of = handle(comm);
    comm.is = 0;
    check("MPI_Comm_free", calls_.comm_free(&of));
  }

  Request send_init(const void* bytes, size_t count, int to, int tag, const Comm& comm) override {
    Handle made{};
    check("MPI_Send_init",
          calls_.send_init(bytes, size_of(count), byte_, to, tag, handle(comm), &made));
    return {raw(made)};
  }
  Request recv_init(void* bytes, size_t count, int from, int tag, const Comm& comm) override {
    Handle made{};
    check("MPI_Recv_init",
          calls_.recv_init(bytes, size_of(count), byte_, from, tag, handle(comm), &made));
    return {raw(made)};
  }
  void start(Request& request) override {
    Handle of = handle(request);
    check("MPI_Start", calls_.start(&of));
    request.is = raw(of);
  }
  Request send(const void* bytes, size_t count, int to, int tag, const Comm& comm) override {
    Handle made{};
    check("MPI_Isend", calls_.isend(bytes, size_of(count), byte_, to, tag, handle(comm), &made));
    return {raw(made)};
  }
  Request all_gather(const void* in, size_t count, void* out, const Comm& comm) override {
    Handle made{};
    const int n = size_of(count);
    check("MPI_Iallgather", calls_.iallgather(in, n, byte_, out, n, byte_, handle(comm), &made));
    return {raw(made)};
  }
  bool test(Request& request) override {
    Handle of = handle(request);
    int done = 0;
    check("MPI_Test", calls_.test(&of, &done, reinterpret_cast<void*>(Abi::status_ignore)));
    request.is = raw(of);
    return done != 0;
  }
  void test_some(const std::vector<Request*>& requests, std::vector<int>& over) override {
    handles_.clear();
    for (const Request* request : requests) handles_.push_back(handle(*request));
    over.resize(requests.size());
    int many = 0;
    check("MPI_Testsome", calls_.testsome(int(handles_.size()), handles_.data(), &many, over.data(),
                                          reinterpret_cast<void*>(Abi::statuses_ignore)));
    over.resize(size_t(std::max(many, 0)));  // `many` is MPI_UNDEFINED if no request is under way
    for (const int at : over) requests[size_t(at)]->is = raw(handles_[size_t(at)]);
  }
  void cancel(Request& request) override {
    Handle of = handle(request);
    check("MPI_Cancel", calls_.cancel(&of));
    request.is = raw(of);
    while (!test(request)) {}
    free(request);
  }
  void free(Request& request) override {
    Handle of = handle(request);
    request.is = 0;
    check("MPI_Request_free", calls_.request_free(&of));
  }

 private:
  template <class F>
  static F find(const Library& library, const char* symbol) {
    const F found = library.symbol<F>(symbol);
    if (!found) throw Failure(library.name + " has no " + symbol);
    return found;
  }
  template <class T>
  static Handle handle(const T& of) {
    Handle handle{};
    std::memcpy(&handle, &of.is, sizeof(Handle));
    return handle;
  }
  static uintptr_t raw(Handle handle) {
    uintptr_t is = 0;
    std::memcpy(&is, &handle, sizeof(Handle));
    return is;
  }
  static int size_of(size_t count) {
    if (count > INT_MAX)
      throw Failure("one message has 2 GiB at most, " + std::to_string(count) +
                    " bytes were asked for");
    return int(count);
  }
  void check(const char* call, int result) {
    if (result == 0) return;
    std::string text(max_text, '\0');
    int length = 0;
    if (calls_.error_string(result, text.data(), &length) != 0)
      text = "error " + std::to_string(result);
    throw Failure(std::string(call) + " failed: " + text.c_str());
  }

  Calls<Handle> calls_;
  Handle world_{}, byte_{}, errors_return_{};
  std::vector<Handle> handles_;
  int provided_ = 0;
};

bool standard(const std::string& name) { return name.find("mpi_abi") != std::string::npos; }

}  // namespace

std::unique_ptr<Mpi> Mpi::open(const std::vector<std::string>& names, std::string& why) {
  for (const std::string& each : names) {
    const Library library = Library::open({each.c_str()}, nullptr);
    std::string reason = library.reason;
    try {
      if (!library) throw Failure(reason);
      if (standard(each)) return std::make_unique<MpiOf<Standard>>(library);
      if (library.symbol<void*>(OpenMpi::world)) return std::make_unique<MpiOf<OpenMpi>>(library);
      return std::make_unique<MpiOf<Mpich>>(library);
    } catch (const Failure& failure) {
      if (!why.empty()) why += "; ";
      why += failure.what();
    }
  }
  return nullptr;
}

}  // namespace hotslot::ranks
