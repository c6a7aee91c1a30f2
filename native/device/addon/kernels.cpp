// Functions for JavaScript: lists and launches of the core's kernels, and kernels that a program
// brings.
#include "device/addon/arguments.hpp"
#include "device/addon/async.hpp"
#include "device/core/kernel_module.hpp"
#include "device/core/product_limits.hpp"

namespace hotslot {
namespace {

std::string text(const Napi::Object& of, const char* key) { return of.Get(key).As<Napi::String>(); }
int count(const Napi::Object& of, const char* key) {
  return of.Get(key).As<Napi::Number>().Int32Value();
}

// Returns the bytes of a typed array, or the text of a string. The latter is the path of an image.
std::string bytes_or_path(const Napi::Value& value) {
  if (value.IsString()) return value.As<Napi::String>();
  const Bytes bytes = bytes_of(value, "an image");
  return {reinterpret_cast<const char*>(bytes.data), bytes.size};
}

template <class T, class F>
std::vector<T> each(const Napi::Value& list, F&& make) {
  const auto array = list.As<Napi::Array>();
  std::vector<T> all;
  for (uint32_t i = 0; i < array.Length(); ++i)
    all.push_back(make(array.Get(i).As<Napi::Object>()));
  return all;
}

ModuleRequest request_of(const Napi::Object& given) {
  ModuleRequest request;
  request.name = text(given, "name");
  request.kernels = each<DeclaredKernel>(given.Get("kernels"), [](const Napi::Object& kernel) {
    DeclaredKernel declared{text(kernel, "name"), "", count(kernel, "wholes"),
                            count(kernel, "reals"), uint16_t(count(kernel, "outputsPerBlock"))};
    const auto codes = kernel.Get("codes").As<Napi::Array>();
    for (uint32_t i = 0; i < codes.Length(); ++i) {
      const ElementType* const type = element_type(number(codes.Get(i)));
      if (!type || i >= max_pointers)
        throw argument("kernel '", declared.name, "': no such tensor ", i);
      declared.types += type->letter;
    }
    if (declared.wholes < 0 || declared.wholes > max_wholes || declared.reals < 0 ||
        declared.reals > max_floats)
      throw argument("kernel '", declared.name, "' has too many numbers");
    return declared;
  });
  request.images = each<ModuleImage>(given.Get("images"), [](const Napi::Object& image) {
    return ModuleImage{text(image, "name"), bytes_or_path(image.Get("image"))};
  });
  request.file = text(given, "file");
  request.source = text(given, "source");
  request.headers =
      each<ModuleRequest::Header>(given.Get("headers"), [](const Napi::Object& header) {
        return ModuleRequest::Header{text(header, "name"), text(header, "text")};
      });
  return request;
}

// loadedKernels(device, key): returns the module's handle, or 0 if no module has the key.
double loaded_kernels(Info info) {
  return Core::instance().module(number(info, 0), info[1].As<Napi::String>());
}

// loadKernels(device, key, { name, kernels, images, file, source, headers }): loads the kernels on
// a thread of Node's pool. Returns a promise of the module's handle. See ModuleRequest.
Napi::Value load_kernels(Info info) {
  return Async<double>::start(info, [handle = number(info, 0), on = device(info, 0).ref(),
                                     key = std::string(info[1].As<Napi::String>()),
                                     request = request_of(info[2].As<Napi::Object>())] {
    return Core::instance().add_module(handle, key, on->load_kernels(request));
  });
}

// ---- all kernels --------------------------------------------------------------------------------

Napi::Value kernels(Info info) {
  auto list = Napi::Array::New(info.Env());
  uint32_t n = 0;
  for (auto& kernel : all_kernels()) {
    auto out = Napi::Object::New(info.Env());
    out.Set("name", kernel.name);
    out.Set("tensors", kernel.pointers);
    out.Set("wholes", kernel.wholes);
    out.Set("reals", kernel.reals);
    out.Set("writes", kernel.writes);
    out.Set("inPlace", kernel.in_place);
    list.Set(n++, out);
  }
  return list;
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

// Copies the whole numbers and then the reals of a launch from `at` to `args`.
void read_numbers(const Kernel& kernel, const double* at, KernelArgs& args) {
  for (int i = 0; i < kernel.wholes; ++i) args.whole[i] = int64_t(*at++);
  for (int i = 0; i < kernel.reals; ++i) args.real[i] = *at++;
}

// Launches a kernel on the stream info[0]. `given` is info[2]. info[3], info[4] and info[5] are the
// counts of its tensors, whole numbers and reals.
//
// `given` has six values for each tensor: handle, offset in bytes, bytes, number of the element
// type (gk.hpp), and `step` and `run` (see Rows). The whole numbers and then the reals follow.
void launch_kernel(Info info, const Kernel& kernel, const Bytes& given, Ref<Object> module) {
  const auto differ = [&](const char* what, double got, int want) {
    if (got != want)
      throw argument("kernel '", kernel.name, "' takes ", want, " ", what, ", got ", got);
  };
  differ("tensors", number(info, 3), kernel.pointers);
  differ("whole numbers", number(info, 4), kernel.wholes);
  differ("reals", number(info, 5), kernel.reals);
  constexpr int fields = 6;
  const auto* at = reinterpret_cast<const double*>(given.data);
  if (given.size < size_t(fields * kernel.pointers + kernel.wholes + kernel.reals) * sizeof *at)
    throw range("a launch of '", kernel.name, "' needs more than ", given.size,
                " bytes of numbers");
  Launch call;
  call.kernel = &kernel;
  call.module = std::move(module);
  call.spans.reserve(size_t(kernel.pointers));
  Rows rows[max_pointers];
  for (int i = 0; i < kernel.pointers; ++i, at += fields) {
    const char wanted = kernel.types[size_t(i)];
    const ElementType* type = element_type(at[3]);
    if (!type)
      throw argument("kernel '", kernel.name, "': tensor ", i, " has no element type ", at[3]);
    if (wanted && wanted != type->letter)
      throw argument("kernel '", kernel.name, "': tensor ", i, " must be ", name_of_type(wanted),
                     ", got ", type->name);
    call.spans.push_back(span(at[0], uint64_t(at[1]), uint64_t(at[2])));
    rows[i] = {int64_t(at[4]), uint64_t(at[5]), type};
  }
  read_numbers(kernel, at, call.args);
  check_launch(call, rows);
  stream(info, 0)->launch(std::move(call));
}

// launch(stream, kernel name, numbers, tensors, wholes, reals): launches one of the core's kernels.
// See launch_kernel().
void launch(Info info) {
  const Bytes given = bytes_of(info[2], "the numbers");
  const std::string name = info[1].As<Napi::String>();
  const Kernel* kernel = find_kernel(name.c_str());
  if (!kernel) throw argument("unknown kernel '", name, "'; the kernels are:", kernel_names());
  launch_kernel(info, *kernel, given, nullptr);
}

// launchBrought(stream, module, numbers, tensors, wholes, reals, index): launches a kernel that a
// program brought. `index` is its index in the module.
void launch_brought(Info info) {
  const Bytes given = bytes_of(info[2], "the numbers");
  const Pinned<KernelModule> module{number(info, 1), Kind::kernels, "kernel"};
  const auto to = stream(info, 0);
  const Kernel* kernel = module->kernel(size_t(number(info, 6)));
  if (!kernel) throw argument("kernels '", module->name, "' have none at ", number(info, 6));
  if (&to->device != &module->device)
    throw argument("kernel '", kernel->name, "' was loaded on ", module->device.family, ":",
                   module->device.index, ", the stream is of ", to->device.family, ":",
                   to->device.index, ": load it there too");
  launch_kernel(info, *kernel, given, module.ref());
}

// kernelReach(kernel name, numbers, wholes, reals): returns two values for each tensor of a launch
// with these numbers. The first is the number of bytes that the launch touches, counted from the
// tensor's start. The second is the bytes from row to row, or 0 if all bytes are contiguous.
//
// `numbers` has the whole numbers, then the reals. `wholes` and `reals` are their counts.
Napi::Value kernel_reach(Info info) {
  const Bytes given = bytes_of(info[1], "the numbers");
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
}

}  // namespace

namespace {

// Returns why the tensor's layout does not fit the launch, or an empty text if it fits.
std::string lies_elsewhere(const Reach& reach, const Rows& rows) {
  if (rows.step == Rows::dense) return {};
  if (reach.step == 0) {
    if (reach.bytes <= rows.run) return {};
    return sentence(" has ", rows.run, " contiguous bytes, ", reach.bytes,
                    " are needed: it is strided");
  }
  const uint64_t element = reach.type ? reach.type->bytes : 4, said = reach.step / element;
  const uint64_t row = (reach.bytes - 1) % reach.step + 1;
  if (rows.step == Rows::none)
    return sentence(" has rows at different distances, but ", reach.step_name, " is ", said);
  if (uint64_t(rows.step) != reach.step)
    return sentence("'s rows are ", rows.step, " bytes apart, but ", reach.step_name, " is ", said,
                    " elements of ", element, ": pass the tensor's own strides[0]");
  if (row > rows.run)
    return sentence("'s rows have ", rows.run, " contiguous bytes, ", row, " are needed");
  return {};
}

}  // namespace

void check_launch(const Launch& call, const Rows* rows) {
  const Kernel& kernel = *call.kernel;
  const auto which = [&](size_t i) { return sentence("kernel '", kernel.name, "': tensor ", i); };
  Reach reach[max_pointers];
  uintptr_t at[max_pointers];
  if (const char* wrong = kernel.need(call.args, reach))
    throw range("kernel '", kernel.name, "': ", wrong);
  for (size_t i = 0; i < call.spans.size(); ++i) {
    const Span& span = call.spans[i];
    const ElementType* const type = reach[i].type;
    if (rows && type && type != rows[i].type)
      throw argument(which(i), " is ", rows[i].type->name, ", but this launch takes ", type->name);
    if (rows)
      if (const std::string wrong = lies_elsewhere(reach[i], rows[i]); !wrong.empty())
        throw range(which(i), wrong);
    if (span.bytes < reach[i].bytes)
      throw range(which(i), " covers ", span.bytes, " bytes, ", reach[i].bytes, " are needed");
    at[i] = uintptr_t(span.address());
    if (const uint64_t unit = kernel.alignment(i, reach[i]); at[i] % unit != 0)
      throw range(which(i), " begins at byte ", span.offset, ", it must be a multiple of ", unit);
  }
  if (const auto [written, other] = clash(kernel, at, reach); written >= 0) {
    const bool in_place = (kernel.in_place >> std::max(written, other) & 1) != 0;
    throw range(which(size_t(written)), " is written and shares memory with tensor ", other,
                ": pass ", in_place ? "the same tensor for both, or " : "",
                "tensors without an element in common");
  }
}

void add_kernel_functions(Napi::Env env, Napi::Object exports) {
  static constexpr Exported kernel[] = {
      {"kernels", kernels},
      {"kernelReach", kernel_reach},
      {"launch", launch},
      {"launchBrought", launch_brought},
      {"loadedKernels", loaded_kernels},
      {"loadKernels", load_kernels},
  };
  const Napi::Object group = add_group(env, exports, "kernels");
  add_functions(env, group, kernel);
  group.Set("gemmProvider", gemm_provider());
  const ProductLimits limits = product_limits();
  auto cuda = Napi::Object::New(env);
  cuda.Set("multiplyAdds", double(limits.multiply_adds));
  cuda.Set("terms", double(limits.terms));
  auto by_family = Napi::Object::New(env);
  by_family.Set("cuda", cuda);
  group.Set("productLimits", by_family);
}

}  // namespace hotslot
