// Calls of the Level Zero software driver on modules and kernels.
#pragma once
#include "forms.hpp"
#include "level_zero_append.hpp"

namespace software {
namespace {

// Returns a kernel that only tests launch, or null. No image has such kernels, so every module
// offers them.
const hotslot::Kernel* test_kernel(const std::string& name) {
  for (auto& kernel : hotslot::test_kernels())
    if (name == kernel.name) return &kernel;
  return nullptr;
}

ze_result_t zeModuleCreate(ze_context_handle_t context, ze_device_handle_t device,
                           const ze_module_desc_t* desc, ze_module_handle_t* out,
                           ze_module_build_log_handle_t* log) {
  return enter("zeModuleCreate", [&](auto&) {
    described(desc, ZE_STRUCTURE_TYPE_MODULE_DESC), pointer(out), pointer(desc->pInputModule);
    require(desc->format == ZE_MODULE_FORMAT_IL_SPIRV, ZE_RESULT_ERROR_INVALID_NATIVE_BINARY,
            "this driver takes SPIR-V alone");
    require(desc->inputSize > 0, invalid_size, "a module of no bytes");
    const auto owner = context_of(context);
    const auto target = device_of(device);
    Spirv spirv(desc->pInputModule, desc->inputSize);
    std::string said = spirv.error;
    for (auto& flag : split(desc->pBuildFlags ? desc->pBuildFlags : "", ' '))
      if (said.empty() && flag.rfind("-ze-", 0) != 0 && flag.rfind("-cl-", 0) != 0)
        said = "unknown build flag " + flag;
    if (said.empty() && spirv.float64 && !features().fp64)
      said = "this device has no double precision, and the module requires Float64";
    if (log) {
      auto built = std::make_shared<BuildLog>(said.empty() ? "" : "error: " + said);
      built->context = owner;
      give(log, built);
    }
    if (!said.empty()) refuse(ZE_RESULT_ERROR_MODULE_BUILD_FAILURE, said);
    auto module = std::make_shared<Module>(std::move(spirv));
    module->context = owner;
    module->device = target;
    give(out, module);
  });
}
Ref<Module> module_of(ze_module_handle_t handle) {
  return machine().find<Module>(handle, Sort::module);
}
ze_result_t zeModuleDestroy(ze_module_handle_t handle) {
  return enter("zeModuleDestroy", [&](auto&) {
    const auto module = module_of(handle);
    no_child(
        [&](const Object& object) {
          return object.sort == Sort::kernel && static_cast<const Kernel&>(object).module == module;
        },
        "the module still has kernels");
    machine().remove(module);
  });
}
ze_result_t zeModuleGetKernelNames(ze_module_handle_t handle, uint32_t* count, const char** names) {
  return enter("zeModuleGetKernelNames", [&](auto&) {
    const auto module = module_of(handle);
    pointer(count);
    auto& kernels = module->spirv.kernels;
    if (*count == 0 || *count > kernels.size() || !names) *count = uint32_t(kernels.size());
    if (!names) return;
    uint32_t i = 0;
    for (auto& [name, parameters] : kernels)
      if (i < *count) names[i++] = name.c_str();
  });
}
ze_result_t zeModuleGetProperties(ze_module_handle_t module, ze_module_properties_t* out) {
  return enter("zeModuleGetProperties", [&](auto&) {
    module_of(module), described(out, ZE_STRUCTURE_TYPE_MODULE_PROPERTIES), out->flags = 0;
  });
}
ze_result_t zeModuleBuildLogDestroy(ze_module_build_log_handle_t log) {
  return enter("zeModuleBuildLogDestroy",
               [&](auto&) { machine().remove(machine().find<BuildLog>(log, Sort::build_log)); });
}
ze_result_t zeModuleBuildLogGetString(ze_module_build_log_handle_t handle, size_t* bytes,
                                      char* text) {
  return enter("zeModuleBuildLogGetString", [&](auto&) {
    const auto log = machine().find<BuildLog>(handle, Sort::build_log);
    pointer(bytes);
    const size_t whole = log->text.size() + 1;
    if (text) std::snprintf(text, std::min(*bytes, whole), "%s", log->text.c_str());
    *bytes = text ? std::min(*bytes, whole) : whole;
  });
}

ze_result_t zeKernelCreate(ze_module_handle_t handle, const ze_kernel_desc_t* desc,
                           ze_kernel_handle_t* out) {
  return enter("zeKernelCreate", [&](auto&) {
    const auto module = module_of(handle);
    described(desc, ZE_STRUCTURE_TYPE_KERNEL_DESC), pointer(out), pointer(desc->pKernelName),
        flags(desc->flags, 0x3);
    auto kernel = std::make_shared<Kernel>();
    kernel->name = desc->pKernelName;
    kernel->module = module;
    kernel->context = module->context;
    const auto found = module->spirv.kernels.find(kernel->name);
    if (found != module->spirv.kernels.end()) {
      kernel->form = hotslot::software::form_of(desc->pKernelName);
      kernel->parameters = found->second;
      if (!kernel->form)
        refuse(unsupported_feature,
               "kernel " + kernel->name + " has no host form, so this driver cannot run it");
    } else if ((kernel->form = test_kernel(kernel->name))) {
      kernel->parameters.insert(kernel->parameters.end(), size_t(kernel->form->pointers), {'p', 8});
      kernel->parameters.insert(kernel->parameters.end(), size_t(kernel->form->wholes), {'i', 8});
      kernel->parameters.insert(kernel->parameters.end(), size_t(kernel->form->reals), {'f', 4});
    } else {
      refuse(ZE_RESULT_ERROR_INVALID_KERNEL_NAME, "the module has no kernel " + kernel->name);
    }
    std::string sorts;
    for (auto& parameter : kernel->parameters) sorts += parameter.sort;
    const std::string expected = std::string(size_t(kernel->form->pointers), 'p') +
                                 std::string(size_t(kernel->form->wholes), 'i') +
                                 std::string(size_t(kernel->form->reals), 'f');
    if (sorts != expected)
      refuse(invalid_argument, "kernel " + kernel->name + " takes " + sorts +
                                   " in the module and " + expected + " on the host");
    kernel->values.resize(sorts.size());
    kernel->set.resize(sorts.size());
    give(out, kernel);
  });
}
ze_result_t zeKernelDestroy(ze_kernel_handle_t handle) {
  return enter_alone("zeKernelDestroy", Alone(handle), [&](auto&) {
    const auto kernel = kernel_of(handle);
    unused(*kernel, "a kernel");
    machine().remove(kernel);
  });
}
ze_result_t zeKernelSetGroupSize(ze_kernel_handle_t handle, uint32_t x, uint32_t y, uint32_t z) {
  return enter_alone("zeKernelSetGroupSize", Alone(handle), [&](auto&) {
    const auto kernel = kernel_of(handle);
    require(x > 0 && y > 0 && z > 0 && uint64_t(x) * y * z <= largest_group,
            ZE_RESULT_ERROR_INVALID_GROUP_SIZE_DIMENSION,
            "a group size of nothing or of more than the device has");
    require(y == 1 && z == 1, ZE_RESULT_ERROR_INVALID_GROUP_SIZE_DIMENSION,
            "these kernels have one dimension: others repeat the work");
    kernel->group = x;
  });
}
ze_result_t zeKernelSuggestGroupSize(ze_kernel_handle_t handle, uint32_t x, uint32_t y, uint32_t z,
                                     uint32_t* gx, uint32_t* gy, uint32_t* gz) {
  return enter("zeKernelSuggestGroupSize", [&](auto&) {
    kernel_of(handle), pointer(gx), pointer(gy), pointer(gz);
    require(x > 0 && y > 0 && z > 0, ZE_RESULT_ERROR_INVALID_GLOBAL_WIDTH_DIMENSION,
            "a size of nothing");
    *gx = std::min(x, 256u), *gy = 1, *gz = 1;
  });
}
ze_result_t zeKernelSetArgumentValue(ze_kernel_handle_t handle, uint32_t index, size_t bytes,
                                     const void* value) {
  return enter_alone("zeKernelSetArgumentValue", Alone(handle), [&](auto&) {
    const auto kernel = kernel_of(handle);
    if (index >= kernel->parameters.size())
      refuse(ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_INDEX,
             kernel->name + " has " + std::to_string(kernel->parameters.size()) + " arguments, " +
                 std::to_string(index) + " is none of them");
    const Parameter parameter = kernel->parameters[index];
    if (bytes != parameter.bytes)
      refuse(ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_SIZE,
             "argument " + std::to_string(index) + " of " + kernel->name + " has " +
                 std::to_string(parameter.bytes) + " bytes, not " + std::to_string(bytes));
    require(value || parameter.sort == 'p', ZE_RESULT_ERROR_INVALID_NULL_POINTER,
            "an argument without a value");
    kernel->values[index] = 0;
    if (value) memcpy(&kernel->values[index], value, bytes);
    kernel->set[index] = true;
  });
}
ze_result_t zeKernelSetIndirectAccess(ze_kernel_handle_t kernel,
                                      ze_kernel_indirect_access_flags_t which) {
  return enter_alone("zeKernelSetIndirectAccess", Alone(kernel),
                     [&](auto&) { kernel_of(kernel), flags(which, 0x7); });
}
ze_result_t zeKernelSetCacheConfig(ze_kernel_handle_t kernel, ze_cache_config_flags_t which) {
  return enter_alone("zeKernelSetCacheConfig", Alone(kernel),
                     [&](auto&) { kernel_of(kernel), flags(which, 0x3); });
}
ze_result_t zeKernelGetProperties(ze_kernel_handle_t handle, ze_kernel_properties_t* out) {
  return enter("zeKernelGetProperties", [&](auto&) {
    const auto kernel = kernel_of(handle);
    described(out, ZE_STRUCTURE_TYPE_KERNEL_PROPERTIES);
    ze_kernel_properties_t values{};
    values.stype = out->stype;
    values.pNext = out->pNext;
    values.numKernelArgs = uint32_t(kernel->parameters.size());
    values.maxSubgroupSize = 32;
    values.maxNumSubgroups = largest_group / 16;
    *out = values;
  });
}
ze_result_t zeKernelGetName(ze_kernel_handle_t handle, size_t* bytes, char* name) {
  return enter("zeKernelGetName", [&](auto&) {
    const auto kernel = kernel_of(handle);
    pointer(bytes);
    const size_t whole = kernel->name.size() + 1;
    if (name) std::snprintf(name, std::min(*bytes, whole), "%s", kernel->name.c_str());
    *bytes = name ? std::min(*bytes, whole) : whole;
  });
}
ze_result_t zeCommandListAppendLaunchKernel(ze_command_list_handle_t handle,
                                            ze_kernel_handle_t kernel_handle,
                                            const ze_group_count_t* count, ze_event_handle_t signal,
                                            uint32_t wait_count, ze_event_handle_t* events) {
  // The kernel object stores the arguments, so no other thread may set one meanwhile.
  return enter_alone(
      "zeCommandListAppendLaunchKernel", Alone(handle, kernel_handle), [&](auto& held) {
        const auto list = appendable(handle);
        const auto kernel = kernel_of(kernel_handle);
        pointer(count);
        require(list->ordinal == compute_ordinal, ZE_RESULT_ERROR_INVALID_COMMAND_LIST_TYPE,
                "a kernel on a copy queue");
        require(kernel->module->device == list->device && kernel->context == list->context,
                invalid_argument, "a kernel of another device or context");
        require(kernel->group > 0, ZE_RESULT_ERROR_INVALID_GROUP_SIZE_DIMENSION,
                "a launch before the kernel's group size is set");
        require(count->groupCountX > 0 && count->groupCountY == 1 && count->groupCountZ == 1,
                ZE_RESULT_ERROR_INVALID_GROUP_SIZE_DIMENSION,
                "these kernels have one dimension, and no launch is empty");
        Work work;
        work.type = Work::kernel;
        work.form = kernel->form;
        work.launched = kernel;
        std::vector<const void*> pointers;
        size_t whole = 0, real = 0;
        for (size_t i = 0; i < kernel->parameters.size(); ++i) {
          if (!kernel->set[i])
            refuse(invalid_argument,
                   "argument " + std::to_string(i) + " of " + kernel->name + " was never set");
          const Parameter parameter = kernel->parameters[i];
          const uint64_t bits = kernel->values[i];
          if (parameter.sort == 'p') {
            pointers.push_back(reinterpret_cast<const void*>(bits));
          } else if (parameter.sort == 'i') {
            work.args.whole[whole++] =
                parameter.bytes == 4 ? int64_t(int32_t(bits)) : int64_t(bits);
          } else {
            float single;
            double wide;
            memcpy(&single, &bits, 4), memcpy(&wide, &bits, 8);
            work.args.real[real++] = parameter.bytes == 4 ? double(single) : wide;
          }
        }
        hotslot::Reach reach[hotslot::max_pointers];
        if (const char* wrong = work.form->need(work.args, reach))
          refuse(invalid_argument, kernel->name + ": " + wrong);
        // How much a program's own kernel touches is unknown. Only the first byte of each tensor is
        // checked.
        if (hotslot::software::brought(*work.form))
          for (size_t i = 0; i < pointers.size(); ++i) reach[i].bytes = 1;
        for (size_t i = 0; i < pointers.size(); ++i)
          work.ranges.push_back(
              machine().range(pointers[i], reach[i].bytes,
                              (kernel->name + "'s argument " + std::to_string(i)).c_str(), false));
        append(held, list, std::move(work), Waits(*list, signal, wait_count, events));
      });
}

}  // namespace
}  // namespace software
