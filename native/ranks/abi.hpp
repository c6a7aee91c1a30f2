// The functions of MPI that Hotslot uses, and their types in three binary interfaces. Handles are
// addresses of objects in Open MPI, and numbers in MPICH and its relatives. In MPI-5's standard
// interface, handles are small numbers that are stored as addresses. This file needs no MPI
// headers, and test/abi compares it with the installed headers. No call requests a status, because
// every receive names its sender and its tag.
#pragma once
#include <cstdint>

namespace hotslot::ranks {

// Name of the entry, name of the function, and its parameters. Each function returns 0 or an error
// code.
#define HOTSLOT_MPI_CALLS(X, Handle)                                                 \
  X(init_thread, MPI_Init_thread, (int*, char***, int, int*))                        \
  X(initialized, MPI_Initialized, (int*))                                            \
  X(finalize, MPI_Finalize, ())                                                      \
  X(library_version, MPI_Get_library_version, (char*, int*))                         \
  X(error_string, MPI_Error_string, (int, char*, int*))                              \
  X(comm_rank, MPI_Comm_rank, (Handle, int*))                                        \
  X(comm_size, MPI_Comm_size, (Handle, int*))                                        \
  X(comm_dup, MPI_Comm_dup, (Handle, Handle*))                                       \
  X(comm_free, MPI_Comm_free, (Handle*))                                             \
  X(comm_set_errhandler, MPI_Comm_set_errhandler, (Handle, Handle))                  \
  X(comm_get_attr, MPI_Comm_get_attr, (Handle, int, void*, int*))                    \
  X(send_init, MPI_Send_init, (const void*, int, Handle, int, int, Handle, Handle*)) \
  X(recv_init, MPI_Recv_init, (void*, int, Handle, int, int, Handle, Handle*))       \
  X(isend, MPI_Isend, (const void*, int, Handle, int, int, Handle, Handle*))         \
  X(start, MPI_Start, (Handle*))                                                     \
  X(test, MPI_Test, (Handle*, int*, void*))                                          \
  X(testsome, MPI_Testsome, (int, Handle*, int*, int*, void*))                       \
  X(cancel, MPI_Cancel, (Handle*))                                                   \
  X(request_free, MPI_Request_free, (Handle*))                                       \
  X(iallgather, MPI_Iallgather, (const void*, int, Handle, void*, int, Handle, Handle, Handle*))

template <class Handle>
struct Calls {
#define HOTSLOT_MPI_ENTRY(entry, symbol, parameters) int(*entry) parameters = nullptr;
  HOTSLOT_MPI_CALLS(HOTSLOT_MPI_ENTRY, Handle)
#undef HOTSLOT_MPI_ENTRY
};

// Open MPI's handles are the addresses of these symbols.
struct OpenMpi {
  using Handle = void*;
  static constexpr const char *world = "ompi_mpi_comm_world", *byte = "ompi_mpi_byte",
                              *errors_return = "ompi_mpi_errors_return";
  static constexpr uintptr_t status_ignore = 0, statuses_ignore = 0;
  static constexpr int funneled = 1, serialized = 2, tag_ub = 0;
};

struct Mpich {
  using Handle = int;
  static constexpr int world = 0x44000000, byte = 0x4c00010d, errors_return = 0x54000001;
  static constexpr uintptr_t status_ignore = 1, statuses_ignore = 1;
  static constexpr int funneled = 1, serialized = 2, tag_ub = 0x64400001;
};

struct Standard {
  using Handle = void*;
  static constexpr uintptr_t world = 0x101, byte = 0x247, errors_return = 0x143;
  static constexpr uintptr_t status_ignore = 0, statuses_ignore = 0;
  static constexpr int funneled = 1024, serialized = 2048, tag_ub = 501;
};

// Most bytes of a version string or of an error's text.
constexpr int max_text = 8192;

}  // namespace hotslot::ranks
