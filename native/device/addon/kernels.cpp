// The core's face to JavaScript: kernels that a program brings.
#include "device/addon/arguments.hpp"
#include "device/addon/async.hpp"
#include "device/core/kernel_module.hpp"

namespace hotslot {
namespace {

std::string text(const Napi::Object& of, const char* key) { return of.Get(key).As<Napi::String>(); }
int count(const Napi::Object& of, const char* key) { return of.Get(key).As<Napi::Number>().Int32Value(); }

// An image's bytes, or where they are no bytes but a path, that.
std::string bytes_or_path(const Napi::Value& value) {
  if (value.IsString()) return value.As<Napi::String>();
  const Bytes bytes = bytes_of(value, "an image");
  return {reinterpret_cast<const char*>(bytes.data), bytes.size};
}

template <class T, class F>
std::vector<T> each(const Napi::Value& list, F&& make) {
  const auto array = list.As<Napi::Array>();
  std::vector<T> all;
  for (uint32_t i = 0; i < array.Length(); ++i) all.push_back(make(array.Get(i).As<Napi::Object>()));
  return all;
}

ModuleRequest request_of(const Napi::Object& given) {
  ModuleRequest request;
  request.name = text(given, "name");
  request.kernels = each<DeclaredKernel>(given.Get("kernels"), [](const Napi::Object& kernel) {
    DeclaredKernel declared{text(kernel, "name"), "", count(kernel, "wholes"), count(kernel, "reals"),
                            uint16_t(count(kernel, "outputsPerBlock"))};
    const auto codes = kernel.Get("codes").As<Napi::Array>();
    for (uint32_t i = 0; i < codes.Length(); ++i) {
      const ElementType* const type = element_type(number(codes.Get(i)));
      if (!type || i >= max_pointers) throw argument("kernel '", declared.name, "': no such tensor ", i);
      declared.types += type->letter;
    }
    if (declared.wholes < 0 || declared.wholes > max_wholes || declared.reals < 0 || declared.reals > max_floats)
      throw argument("kernel '", declared.name, "' has too many numbers");
    return declared;
  });
  request.images = each<ModuleImage>(given.Get("images"), [](const Napi::Object& image) {
    return ModuleImage{text(image, "name"), bytes_or_path(image.Get("image"))};
  });
  request.file = text(given, "file");
  request.source = text(given, "source");
  request.headers = each<ModuleRequest::Header>(given.Get("headers"), [](const Napi::Object& header) {
    return ModuleRequest::Header{text(header, "name"), text(header, "text")};
  });
  return request;
}

// loadedKernels(device, key): the module's handle, 0 where nothing is loaded under that key.
Napi::Value loaded_kernels(Info info) {
  return guard(info, [&] { return Core::instance().module(number(info, 0), info[1].As<Napi::String>()); });
}

// loadKernels(device, key, { name, kernels, images, file, source, headers }): a promise of the module's handle.
Napi::Value load_kernels(Info info) {
  return guard(info, [&] {
    return Async<double>::start(
        info, [handle = number(info, 0), on = device(info, 0).ref(), key = std::string(info[1].As<Napi::String>()),
               request = request_of(info[2].As<Napi::Object>())] {
          return Core::instance().add_module(handle, key, on->load_kernels(request));
        });
  });
}

}  // namespace

void add_kernel_functions(Napi::Env env, Napi::Object exports) {
  static constexpr Exported all[] = {{"loadedKernels", loaded_kernels}, {"loadKernels", load_kernels}};
  add_functions(env, exports, all);
}

}  // namespace hotslot
