// The core's face to JavaScript: halos packed and unpacked in one call, on a device or in the calling thread.
#include "kernels/halo.hpp"
#include "device/addon/arguments.hpp"

namespace hotslot {
namespace {

// launchHalo(stream, behind, event, itemsize, spans, wholes): one launch of a halo kernel; behind what the stream
// `behind` (0: none) was given, unless all of that is done. Spans are handle, offset and bytes: the buffer, the table,
// arrays; arrays that are missing are never read.
Napi::Value launch_halo(Info info) {
  const Bytes spans = bytes_of(info[4], "the spans"), wholes = bytes_of(info[5], "the whole numbers");
  return guard(info, [&] {
    const Kernel* kernel = halo_kernel(int64_t(whole(info, 3)));
    const auto* numbers = reinterpret_cast<const double*>(spans.data);
    const int given = int(spans.size / (3 * sizeof(double)));
    if (given < 1 || int(wholes.size / sizeof(double)) < kernel->wholes)
      throw argument("a halo's arguments are incomplete");
    Launch call;
    call.kernel = kernel;
    for (int i = 0; i < kernel->wholes; ++i)
      call.args.whole[i] = int64_t(reinterpret_cast<const double*>(wholes.data)[i]);
    call.spans.reserve(size_t(kernel->pointers));
    for (int i = 0; i < kernel->pointers; ++i)
      call.spans.push_back(i < given ? span(numbers[3 * i], uint64_t(numbers[3 * i + 1]), uint64_t(numbers[3 * i + 2]))
                                     : call.spans[0]);
    check_launch(call);
    const auto on = stream(info, 0);
    if (number(info, 1) != 0) {
      const auto behind = stream(info, 1);
      if (thread_captures() || !behind->query()) {
        const auto mark = event(info, 2);
        behind->record(mark.ref(), false);
        on->wait(mark.ref());
      }
    }
    on->launch(std::move(call));
  });
}

// moveHalo(table, itemsize, buffer, arrays): see kernels/halo.hpp, on the processor and in the calling thread. True:
// done.
Napi::Value move_halo(Info info) {
  const Bytes table = bytes_of(info[0], "the table"), buffer = bytes_of(info[2], "the buffer");
  return guard(info, [&] {
    const int64_t itemsize = int64_t(whole(info, 1));
    if (itemsize < 1) throw argument("an element has a byte at least, got ", itemsize);
    uint32_t n = 0;
    if (napi_get_array_length(info.Env(), info[3], &n) != napi_ok)
      throw argument("the quantities' data must be an array");
    HaloArray few[16];
    std::vector<HaloArray> many(n > 16 ? n : 0);
    HaloArray* const arrays = n > 16 ? many.data() : few;
    for (uint32_t i = 0; i < n; ++i) {
      napi_value each = nullptr;
      napi_get_element(info.Env(), info[3], i, &each);
      const Bytes bytes = bytes_of(Napi::Value(info.Env(), each), "a quantity's data");
      arrays[i] = {bytes.data, int64_t(bytes.size) / itemsize};
    }
    const char* why = halo_move(reinterpret_cast<const HaloMove*>(table.data), int64_t(table.size / sizeof(HaloMove)),
                                itemsize, {buffer.data, int64_t(buffer.size) / itemsize}, arrays, n);
    if (why) throw range(why);
    return true;
  });
}

}  // namespace

void add_halo_functions(Napi::Env env, Napi::Object exports) {
  static constexpr Exported all[] = {{"launchHalo", launch_halo}, {"moveHalo", move_halo}};
  add_functions(env, exports, all);
}

}  // namespace hotslot
