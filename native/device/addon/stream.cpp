// The core's face to JavaScript: streams and events, and what is enqueued on them.
#include "device/addon/arguments.hpp"
#include "device/addon/async.hpp"
#include "device/core/kernel_module.hpp"

namespace hotslot {
namespace {

// A wait on the thread pool is given back after this long, so that leaving a thread is never held up.
constexpr uint64_t wait_slice_ns = 40'000'000;

Napi::Value create_stream(Info info) {
  return guard(info,
               [&] { return own(info).make(device(info, 0)->create_stream(info[1].As<Napi::Number>().Int32Value())); });
}
Napi::Value create_event(Info info) {
  return guard(info,
               [&] { return own(info).make(device(info, 0)->create_event(info[1].As<Napi::Boolean>().Value())); });
}
Napi::Value record(Info info) {
  return guard(info, [&] {
    stream(info, 0)->record(event(info, 1).ref(), info[2].ToBoolean().Value());
    return true;
  });
}
Napi::Value wait(Info info) {
  return guard(info, [&] { stream(info, 0)->wait(event(info, 1).ref(), info[2].ToBoolean().Value()); });
}

// copy(stream, to, toOffset, from, fromOffset, bytes)
Napi::Value copy(Info info) {
  return guard(info, [&] {
    const uint64_t bytes = whole(info, 5);
    stream(info, 0)->copy(span(number(info, 1), whole(info, 2), bytes), span(number(info, 3), whole(info, 4), bytes));
    return true;
  });
}

// fill(stream, to, offset, bytes, pattern: Uint8Array of 1, 2, 4 or 8 bytes)
Napi::Value fill(Info info) {
  const Bytes pattern = bytes_of(info[4], "the pattern");
  return guard(info, [&] {
    stream(info, 0)->fill(span(number(info, 1), whole(info, 2), whole(info, 3)), pattern.data, pattern.size);
  });
}

std::string kernel_names() {
  std::string names;
  for (auto& kernel : all_kernels()) names += std::string(" ") + kernel.name;
  return names;
}

const char* name_of_type(char letter) {
  for (auto& type : element_types)
    if (type.letter == letter) return type.name;
  return "";
}

// The whole numbers of a launch, then its reals.
void read_numbers(const Kernel& kernel, const double* at, KernelArgs& args) {
  for (int i = 0; i < kernel.wholes; ++i) args.whole[i] = int64_t(*at++);
  for (int i = 0; i < kernel.reals; ++i) args.real[i] = *at++;
}

// numbers, tensors, wholes, reals from info[2] on: per tensor handle, offset, bytes, element type by gk.hpp's number,
// step and run as in Rows; then the whole numbers, then the reals. The last three count them.
void launch_kernel(Info info, const Kernel& kernel, const Bytes& given, Ref<Object> module) {
  const auto differ = [&](const char* what, double got, int want) {
    if (got != want) throw argument("kernel '", kernel.name, "' takes ", want, " ", what, ", got ", got);
  };
  differ("tensors", number(info, 3), kernel.pointers);
  differ("whole numbers", number(info, 4), kernel.wholes);
  differ("reals", number(info, 5), kernel.reals);
  constexpr int fields = 6;
  const auto* at = reinterpret_cast<const double*>(given.data);
  if (given.size < size_t(fields * kernel.pointers + kernel.wholes + kernel.reals) * sizeof *at)
    throw range("a launch of '", kernel.name, "' needs more than ", given.size, " bytes of numbers");
  Launch call;
  call.kernel = &kernel;
  call.module = std::move(module);
  call.spans.reserve(size_t(kernel.pointers));
  Rows rows[max_pointers];
  for (int i = 0; i < kernel.pointers; ++i, at += fields) {
    const char wanted = kernel.types[size_t(i)];
    const ElementType* type = element_type(at[3]);
    if (!type) throw argument("kernel '", kernel.name, "': tensor ", i, " has no element type ", at[3]);
    if (wanted && wanted != type->letter)
      throw argument("kernel '", kernel.name, "': tensor ", i, " must be ", name_of_type(wanted), ", got ", type->name);
    call.spans.push_back(span(at[0], uint64_t(at[1]), uint64_t(at[2])));
    rows[i] = {int64_t(at[4]), uint64_t(at[5]), type};
  }
  read_numbers(kernel, at, call.args);
  check_launch(call, rows);
  stream(info, 0)->launch(std::move(call));
}

// launch(stream, kernel name, numbers, tensors, wholes, reals)
Napi::Value launch(Info info) {
  const Bytes given = bytes_of(info[2], "the numbers");
  return guard(info, [&] {
    const std::string name = info[1].As<Napi::String>();
    const Kernel* kernel = find_kernel(name.c_str());
    if (!kernel) throw argument("there is no kernel '", name, "'; there are:", kernel_names());
    launch_kernel(info, *kernel, given, nullptr);
  });
}

// launchBrought(stream, module, numbers, tensors, wholes, reals, index)
Napi::Value launch_brought(Info info) {
  const Bytes given = bytes_of(info[2], "the numbers");
  return guard(info, [&] {
    const Pinned<KernelModule> module{number(info, 1), Kind::kernels, "kernel"};
    const auto to = stream(info, 0);
    const Kernel* kernel = module->kernel(size_t(number(info, 6)));
    if (!kernel) throw argument("kernels '", module->name, "' have none at ", number(info, 6));
    if (&to->device != &module->device)
      throw argument("kernel '", kernel->name, "' was loaded on ", module->device.family, ":", module->device.index,
                     ", the stream is of ", to->device.family, ":", to->device.index, ": load it there too");
    launch_kernel(info, *kernel, given, module.ref());
  });
}

// kernelReach(kernel name, numbers, wholes, reals): per tensor the bytes that such a launch touches from its start, and
// the bytes from row to row (0: one run). The numbers are the whole ones, then the reals.
Napi::Value kernel_reach(Info info) {
  const Bytes given = bytes_of(info[1], "the numbers");
  return guard(info, [&] {
    const std::string name = info[0].As<Napi::String>();
    const Kernel* kernel = find_kernel(name.c_str());
    if (!kernel || number(info, 2) != kernel->wholes || number(info, 3) != kernel->reals ||
        given.size < size_t(kernel->wholes + kernel->reals) * sizeof(double))
      throw argument("'", name, "' is no kernel that takes such numbers");
    KernelArgs args{};
    read_numbers(*kernel, reinterpret_cast<const double*>(given.data), args);
    Reach reach[max_pointers];
    if (const char* wrong = kernel->need(args, reach)) throw range("kernel '", name, "': ", wrong);
    auto out = Napi::Array::New(info.Env());
    for (int i = 0; i < kernel->pointers; ++i) {
      out.Set(uint32_t(2 * i), double(reach[i].bytes));
      out.Set(uint32_t(2 * i + 1), double(reach[i].step));
    }
    return out;
  });
}

Napi::Value stream_query(Info info) {
  return guard(info, [&] { return stream(info, 0)->query(); });
}
Napi::Value event_query(Info info) {
  return guard(info, [&] { return event(info, 0)->query(); });
}
Napi::Value elapsed_ms(Info info) {
  return guard(info, [&] { return event(info, 1)->elapsed_ms(*event(info, 0)); });
}

// ---- waiting --------------------------------------------------------------------------------------------------------

// Blocks this thread for at most `ms`, helping the device meanwhile; true when the event is done.
Napi::Value wait_event(Info info) {
  return guard(info, [&] { return device(info, 0)->wait_event(*event(info, 1), uint64_t(number(info, 2) * 1e6)); });
}

// The same on a thread of Node's pool; resolves to true when done.
Napi::Value wait_event_async(Info info) {
  return guard(info, [&] {
    return Async<bool>::start(info, [on = device(info, 0).ref(), awaited = event(info, 1).ref()] {
      return on->wait_event(*awaited, wait_slice_ns);
    });
  });
}

}  // namespace

namespace {

// Whatever is wrong with how the tensor lies, for what the launch takes of it; '' when nothing is.
std::string lies_elsewhere(const Reach& reach, const Rows& rows) {
  if (rows.step == Rows::dense) return {};
  if (reach.step == 0) {
    if (reach.bytes <= rows.run) return {};
    return sentence(" has ", rows.run, " bytes side by side, ", reach.bytes, " are needed: it is strided");
  }
  const uint64_t element = reach.type ? reach.type->bytes : 4, said = reach.step / element;
  const uint64_t row = (reach.bytes - 1) % reach.step + 1;
  if (rows.step == Rows::none) return sentence(" has no rows at one distance, ", reach.step_name, " says ", said);
  if (uint64_t(rows.step) != reach.step)
    return sentence("'s rows lie ", rows.step, " bytes apart, ", reach.step_name, " says ", said, " elements of ",
                    element, ": pass the tensor's own strides[0]");
  if (row > rows.run) return sentence("'s rows have ", rows.run, " bytes side by side, ", row, " are needed");
  return {};
}

}  // namespace

void check_launch(const Launch& call, const Rows* rows) {
  const Kernel& kernel = *call.kernel;
  const auto which = [&](size_t i) { return sentence("kernel '", kernel.name, "': tensor ", i); };
  Reach reach[max_pointers];
  uintptr_t at[max_pointers];
  if (const char* wrong = kernel.need(call.args, reach)) throw range("kernel '", kernel.name, "': ", wrong);
  for (size_t i = 0; i < call.spans.size(); ++i) {
    const Span& span = call.spans[i];
    const ElementType* const type = reach[i].type;
    if (rows && type && type != rows[i].type)
      throw argument(which(i), " is ", rows[i].type->name, ", its number of a dtype says ", type->name);
    if (rows)
      if (const std::string wrong = lies_elsewhere(reach[i], rows[i]); !wrong.empty()) throw range(which(i), wrong);
    if (span.bytes < reach[i].bytes)
      throw range(which(i), " covers ", span.bytes, " bytes, ", reach[i].bytes, " are needed");
    at[i] = uintptr_t(span.address());
    if (const uint64_t unit = kernel.alignment(i, reach[i]); at[i] % unit != 0)
      throw range(which(i), " begins at byte ", span.offset, ", it must be a multiple of ", unit);
  }
  if (const auto [written, other] = clash(kernel, at, reach); written >= 0) {
    const bool in_place = (kernel.in_place >> std::max(written, other) & 1) != 0;
    throw range(which(size_t(written)), " is written and shares memory with tensor ", other, ": pass ",
                in_place ? "the same tensor for both, or " : "", "tensors without an element in common");
  }
}

void add_stream_functions(Napi::Env env, Napi::Object exports) {
  static constexpr Exported all[] = {
      {"createStream", create_stream},
      {"createEvent", create_event},
      {"record", record},
      {"wait", wait},
      {"copy", copy},
      {"fill", fill},
      {"launch", launch},
      {"launchBrought", launch_brought},
      {"kernelReach", kernel_reach},
      {"streamQuery", stream_query},
      {"eventQuery", event_query},
      {"elapsedMs", elapsed_ms},
      {"waitEvent", wait_event},
      {"waitEventAsync", wait_event_async},
  };
  add_functions(env, exports, all);
}

}  // namespace hotslot
