// Level Zero's kernels: modules built from SPIR-V (Hotslot's own and those that a program brings),
// and their launches.
#include <algorithm>
#include <cstring>

#include "device/core/kernel_module.hpp"
#include "device/level_zero/device.hpp"
#include "kernels/images.hpp"

namespace hotslot::level_zero {
namespace {

// These flags allow buffers that are larger than 4 GiB, and make division and square roots round as
// on the host.
constexpr const char* build_flags =
    "-ze-opt-greater-than-4GB-buffer-required -cl-fp32-correctly-rounded-divide-sqrt";

// Loaded kernels of a program. They are freed after all work that was enqueued before the
// destructor.
class XpuKernels final : public KernelModule {
 public:
  XpuKernels(XpuDevice& device, const ModuleRequest& request)
      : KernelModule(device, request), device_(device) {
    const ModuleImage& image = request.images.front();
    module_ = device.build_module(image.bytes.data(), image.bytes.size());
    try {
      uint32_t count = 0;
      HOTSLOT_ZE(zeModuleGetKernelNames, module_, &count, nullptr);
      std::vector<const char*> names(count);
      if (count > 0) HOTSLOT_ZE(zeModuleGetKernelNames, module_, &count, names.data());
      for (auto& declared : request.kernels) {
        if (std::none_of(names.begin(), names.end(),
                         [&](const char* each) { return declared.name == each; }))
          throw argument("kernels '", request.name, "': ", image.name, " has no kernel '",
                         declared.name, "'");
        loaded_.push_back(device.load_kernel(module_, declared.name));
        KernelProperties properties{};
        properties.type = Type::kernel_properties;
        HOTSLOT_ZE(zeKernelGetProperties, loaded_.back()->handle, &properties);
        if (properties.arguments !=
            declared.types.size() + size_t(declared.wholes + declared.reals))
          refuse_declaration(request, declared, image.name,
                             sentence(properties.arguments, " parameters"));
      }
    } catch (...) {
      give_back(device_, module_, loaded_);
      throw;
    }
  }
  ~XpuKernels() override {
    device_.driver.retired.add(std::move(place_),
                               [&device = device_, module = module_, loaded = std::move(loaded_)] {
                                 give_back(device, module, loaded);
                               });
  }
  LoadedKernel& loaded(const Kernel& kernel) const { return *loaded_[kernel.index]; }

 private:
  using Loaded = std::vector<std::unique_ptr<LoadedKernel>>;
  static void give_back(XpuDevice& device, ModuleHandle module, const Loaded& loaded) {
    for (auto& each : loaded)
      device.driver.take_back("zeKernelDestroy", ze().zeKernelDestroy, each->handle);
    device.driver.take_back("zeModuleDestroy", ze().zeModuleDestroy, module);
  }
  XpuDevice& device_;
  ModuleHandle module_ = nullptr;
  Loaded loaded_;
  Retired::Reservation place_;
};

}  // namespace

ModuleHandle XpuDevice::build_module(const void* image, size_t bytes) {
  ModuleDesc desc{
      Type::module_desc, nullptr, ModuleFormat::spirv, bytes, static_cast<const uint8_t*>(image),
      build_flags,       nullptr};
  ModuleHandle module = nullptr;
  std::string said;
  Status got = status::success;
  for (const char* flags : {build_flags, ""}) {  // "" in case the driver lacks one of the flags
    LogHandle log = nullptr;
    desc.build_flags = flags;
    got = ze().zeModuleCreate(driver.context(), handle, &desc, &module, &log);
    size_t size = 0;
    if (got != status::success && log &&
        ze().zeModuleBuildLogGetString(log, &size, nullptr) == status::success && size > 0) {
      said.resize(size);
      if (ze().zeModuleBuildLogGetString(log, &size, said.data()) != status::success) said.clear();
      said.resize(std::strlen(said.c_str()));
    }
    if (log) driver.take_back("zeModuleBuildLogDestroy", ze().zeModuleBuildLogDestroy, log);
    if (got != status::module_build_failure) break;
  }
  if (got != status::success) fail("zeModuleCreate", got, said);
  return module;
}

std::unique_ptr<LoadedKernel> XpuDevice::load_kernel(ModuleHandle module, const std::string& name) {
  auto loaded = std::make_unique<LoadedKernel>();
  const KernelDesc desc{Type::kernel_desc, nullptr, 0, name.c_str()};
  const Status got = ze().zeKernelCreate(module, &desc, &loaded->handle);
  if (got != status::success) fail("zeKernelCreate", got, "kernel '" + name + "'");
  // A kernel that needs many resources of the device only fits in a smaller group, so this tries
  // smaller groups.
  Status set = status::invalid_group_size_dimension;
  for (uint32_t size = std::min(group_size, largest_group_);
       size > 0 && set == status::invalid_group_size_dimension; size /= 2) {
    loaded->group = size;
    set = ze().zeKernelSetGroupSize(loaded->handle, size, 1, 1);
  }
  if (set != status::success) {
    driver.take_back("zeKernelDestroy", ze().zeKernelDestroy, loaded->handle);
    fail("zeKernelSetGroupSize", set, "kernel '" + name + "'");
  }
  return loaded;
}

LoadedKernel& XpuDevice::loaded(const Kernel& kernel) {
  if (kernel.module) return static_cast<const XpuKernels*>(kernel.module)->loaded(kernel);
  std::lock_guard guard(load_lock_);
  auto& known = kernels_[kernel.name];
  if (known) return *known;
  if (!module_) {
    const KernelImage* image = kernel_image("spirv");
    if (!image)
      fail("zeModuleCreate", status::invalid_native_binary,
           "this build of Hotslot has no SPIR-V kernels");
    module_ = build_module(image->data, image->bytes);
  }
  known = load_kernel(module_, kernel.name);
  return *known;
}

Ref<KernelModule> XpuDevice::do_load_kernels(const ModuleRequest& request) {
  return std::make_shared<XpuKernels>(*this, request);
}

// Launches a kernel. Its arguments are pointers, then whole numbers, then reals.
void XpuDevice::launch(ListHandle list, const Kernel& kernel, const Arguments& arguments,
                       EventHandle signal, uint32_t count, EventHandle* waits) {
  LoadedKernel& loaded = this->loaded(kernel);
  std::lock_guard guard(loaded.lock);
  uint32_t at = 0;
  for (auto& pointer : arguments.pointers)
    HOTSLOT_ZE(zeKernelSetArgumentValue, loaded.handle, at++, sizeof pointer, &pointer);
  for (auto& whole : arguments.wholes)
    HOTSLOT_ZE(zeKernelSetArgumentValue, loaded.handle, at++, sizeof whole, &whole);
  for (auto& real : arguments.reals)
    HOTSLOT_ZE(zeKernelSetArgumentValue, loaded.handle, at++, sizeof real, &real);
  const GroupCount size{
      uint32_t(kernel.blocks(arguments.output, arguments.wholes.data(), loaded.group, max_groups_)),
      1, 1};
  HOTSLOT_ZE(zeCommandListAppendLaunchKernel, list, loaded.handle, &size, signal, count, waits);
}

void XpuDevice::append(ListHandle list, const Work& work, EventHandle signal, uint32_t count,
                       EventHandle* waits) {
  const bool nothing = (work.type == Work::copy || work.type == Work::fill) && work.to.bytes == 0;
  if (nothing || work.type == Work::record)
    return HOTSLOT_ZE(zeCommandListAppendBarrier, list, signal, count, waits);
  if (work.type == Work::copy)
    return HOTSLOT_ZE(zeCommandListAppendMemoryCopy, list, work.to.address(), work.from.address(),
                      work.to.bytes, signal, count, waits);
  Arguments arguments;
  if (work.type == Work::fill) {
    // The queue group that runs a fill supports patterns of this size (see engine_of). A kernel
    // fills larger patterns.
    if (work.pattern_bytes <= std::max(compute.max_fill_pattern, size_t(4)))
      return HOTSLOT_ZE(zeCommandListAppendMemoryFill, list, work.to.address(), &work.pattern,
                        size_t(work.pattern_bytes), work.to.bytes, signal, count, waits);
    arguments.output.bytes = work.to.bytes;
    arguments.pointers = {work.to.address()};
    arguments.wholes = {int64_t(work.to.bytes / work.pattern_bytes), int64_t(work.pattern)};
    return launch(list, *find_kernel("fill"), arguments, signal, count, waits);
  }
  const Kernel& kernel = *work.launch.kernel;
  const KernelArgs& args = work.launch.args;
  for (auto& span : work.launch.spans) arguments.pointers.push_back(span.address());
  arguments.wholes.assign(args.whole, args.whole + kernel.wholes);
  arguments.reals.assign(args.real, args.real + kernel.reals);
  arguments.output = work.launch.output();
  launch(list, kernel, arguments, signal, count, waits);
}

}  // namespace hotslot::level_zero
