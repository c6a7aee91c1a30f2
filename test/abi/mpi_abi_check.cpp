// Compares our declarations of MPI with the header of the installed library: Open MPI, the MPICH
// family, or the standard ABI. -DNEGATIVE adds declarations that are wrong.
#include <mpi.h>

#include "ranks/abi.hpp"
#include "same.hpp"

namespace hotslot::ranks {

#if defined(OPEN_MPI)
using Ours = OpenMpi;
#elif defined(MPICH_VERSION)
using Ours = Mpich;
#else
using Ours = Standard;
#endif

#define SAME(entry, symbol, parameters)                                                        \
  static_assert(abi::same_function<decltype(Calls<Ours::Handle>::entry), decltype(&::symbol)>, \
                #symbol " is not Calls::" #entry);
HOTSLOT_MPI_CALLS(SAME, Ours::Handle)

static_assert(abi::same_value<Ours::Handle, MPI_Comm>() &&
                  abi::same_value<Ours::Handle, MPI_Request>() &&
                  abi::same_value<Ours::Handle, MPI_Datatype>() &&
                  abi::same_value<Ours::Handle, MPI_Errhandler>(),
              "Handle is not MPI's");

SAME_NUMBER(Ours::funneled, MPI_THREAD_FUNNELED);
SAME_NUMBER(Ours::serialized, MPI_THREAD_SERIALIZED);
SAME_NUMBER(Ours::tag_ub, MPI_TAG_UB);
static_assert(MPI_SUCCESS == 0 && MPI_MAX_LIBRARY_VERSION_STRING <= max_text &&
                  MPI_MAX_ERROR_STRING <= max_text,
              "max_text is too little");

// Returns the number in the text of a macro. An address made from a number is not a constant
// expression.
constexpr unsigned long long number_in(const char* text) {
  const char* last = text;
  for (const char* at = text; *at; ++at)
    if (*at >= '0' && *at <= '9' && (at == text || at[-1] == '(' || at[-1] == ')' || at[-1] == ' '))
      last = at;
  unsigned long long number = 0;
  const bool hex = last[0] == '0' && last[1] == 'x';
  for (const char* at = hex ? last + 2 : last; *at && *at != ')'; ++at)
    number = number * (hex ? 16 : 10) + (*at <= '9' ? *at - '0' : (*at | 32) - 'a' + 10);
  return number;
}
#define TEXT_OF(text) #text
#define TEXT(macro) TEXT_OF(macro)
#define SAME_HANDLE(ours, theirs) \
  static_assert((ours) == number_in(TEXT(theirs)), #ours " is not " #theirs)

SAME_HANDLE(Ours::status_ignore, MPI_STATUS_IGNORE);
SAME_HANDLE(Ours::statuses_ignore, MPI_STATUSES_IGNORE);
#if defined(OPEN_MPI)
// Open MPI's constants are addresses of these objects, and our declarations have their names.
template <class Address>
constexpr bool there = std::is_pointer_v<Address>;
static_assert(there<decltype(&ompi_mpi_comm_world)> && there<decltype(&ompi_mpi_byte)> &&
              there<decltype(&ompi_mpi_errors_return)>);
#else
SAME_HANDLE(Ours::world, MPI_COMM_WORLD);
SAME_HANDLE(Ours::byte, MPI_BYTE);
SAME_HANDLE(Ours::errors_return, MPI_ERRORS_RETURN);
#endif

#if defined(NEGATIVE)
static_assert(abi::same_function<int (*)(int*, char***, int), decltype(&::MPI_Init_thread)>,
              "wrong: a parameter too few");
static_assert(abi::same_function<int (*)(Ours::Handle, short*, int), decltype(&::MPI_Comm_rank)>,
              "wrong: a parameter too many");
SAME_NUMBER(Ours::tag_ub + 1, MPI_TAG_UB);
SAME_HANDLE(Ours::status_ignore + 2, MPI_STATUS_IGNORE);
#endif

}  // namespace hotslot::ranks
