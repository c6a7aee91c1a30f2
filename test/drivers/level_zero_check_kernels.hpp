// Scenarios of level_zero_check: kernels of a module that the program creates, and of Hotslot's
// module.
#pragma once
#include "level_zero_check_setup.hpp"

namespace {

void kernels() {
  Setup s;
  const std::map<std::string, std::string> odd{
      {"axpby", "ppiff"}, {"copy2d", "ppiiii"}, {"nobody", "p"}, {"adam", "ppi"}};
  Program program(s, odd);
  uint32_t count = 0;
  OK(zeModuleGetKernelNames(program.module, &count, nullptr));
  CHECK(count == 4);
  program.kernel("td_target", ZE_RESULT_ERROR_INVALID_KERNEL_NAME);
  program.kernel("nobody", ZE_RESULT_ERROR_UNSUPPORTED_FEATURE);
  program.kernel("adam", ZE_RESULT_ERROR_INVALID_ARGUMENT);
  auto kernel = program.kernel("axpby");
  auto list = s.immediate();
  auto* x = s.memory();
  auto* y = s.host();
  for (size_t i = 0; i < n; ++i) y[i] = float(i);
  const float half = 0.5f;
  OK(zeCommandListAppendMemoryFill(list, x, &half, 4, bytes, nullptr, 0, nullptr));
  s.finish(list);
  const auto launch = [&](ze_result_t expected, ze_group_count_t groups = one_group) {
    IS(expected, zeCommandListAppendLaunchKernel(list, kernel, &groups, nullptr, 0, nullptr));
  };
  launch(ZE_RESULT_ERROR_INVALID_ARGUMENT);
  CHECK(complained("never set"));
  argument(kernel, 0, y), argument(kernel, 1, x), argument(kernel, 2, int64_t(n)),
      argument(kernel, 3, 4.0f), argument(kernel, 4, 2.0f);
  launch(ZE_RESULT_SUCCESS);
  s.finish(list);
  for (size_t i = 0; i < n; ++i) CHECK(y[i] == 2 + 2 * float(i));
  argument(kernel, 3, 4.0, ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_SIZE);
  argument(kernel, 5, 4.0f, ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_INDEX);
  launch(ZE_RESULT_ERROR_INVALID_GROUP_SIZE_DIMENSION, {1, 2, 1});
  launch(ZE_RESULT_ERROR_INVALID_GROUP_SIZE_DIMENSION, {0, 1, 1});
  IS(ZE_RESULT_ERROR_INVALID_GROUP_SIZE_DIMENSION, zeKernelSetGroupSize(kernel, 2048, 1, 1));
  argument(kernel, 2, int64_t(n + 1));
  launch(ZE_RESULT_ERROR_INVALID_ARGUMENT);
  CHECK(complained("only partly"));
  argument(kernel, 2, int64_t(0));
  launch(ZE_RESULT_ERROR_INVALID_ARGUMENT);
  CHECK(complained("n must be at least 1"));
  std::vector<float> pageable(n);
  argument(kernel, 2, int64_t(n)), argument(kernel, 0, pageable.data());
  launch(ZE_RESULT_ERROR_INVALID_ARGUMENT);
  CHECK(complained("no live allocation"));
  argument(kernel, 0, y);
  auto copies = s.immediate(1);
  IS(ZE_RESULT_ERROR_INVALID_COMMAND_LIST_TYPE,
     zeCommandListAppendLaunchKernel(copies, kernel, &one_group, nullptr, 0, nullptr));

  // The build log of an invalid module contains the reason.
  for (const bool junk : {true, false}) {
    auto words = spirv({{"axpby", "ppidd"}});
    if (junk) words = {1, 2, 3};
    const ze_module_desc_t desc{ZE_STRUCTURE_TYPE_MODULE_DESC,
                                nullptr,
                                ZE_MODULE_FORMAT_IL_SPIRV,
                                words.size() * 4,
                                reinterpret_cast<const uint8_t*>(words.data()),
                                nullptr,
                                nullptr};
    ze_module_handle_t module{};
    ze_module_build_log_handle_t log{};
    IS(ZE_RESULT_ERROR_MODULE_BUILD_FAILURE,
       zeModuleCreate(s.context, s.device, &desc, &module, &log));
    size_t size = 0;
    OK(zeModuleBuildLogGetString(log, &size, nullptr));
    std::string said(size, ' ');
    OK(zeModuleBuildLogGetString(log, &size, said.data()));
    CHECK(said.find(junk ? "not SPIR-V" : "Float64") != std::string::npos);
    OK(zeModuleBuildLogDestroy(log));
  }

  // If a kernel fails, its list fails, and so do lists that wait for it. Other lists still work.
  auto failing = program.kernel("fail");
  auto after = s.event();
  auto doomed = s.immediate(), waiting = s.immediate();
  OK(zeCommandListAppendLaunchKernel(doomed, failing, &one_group, after, 0, nullptr));
  IS(ZE_RESULT_ERROR_DEVICE_LOST, zeEventHostSynchronize(after, soon));
  IS(ZE_RESULT_ERROR_DEVICE_LOST, zeEventQueryStatus(after));
  IS(ZE_RESULT_ERROR_DEVICE_LOST, zeCommandListAppendBarrier(doomed, nullptr, 0, nullptr));
  auto later = s.event();
  OK(zeCommandListAppendBarrier(waiting, later, 1, &after));
  IS(ZE_RESULT_ERROR_DEVICE_LOST, zeEventHostSynchronize(later, soon));
  CHECK(s.read(list, x) == 0.5f);
  auto queue = s.queue();
  auto regular = s.list();
  OK(zeCommandListAppendLaunchKernel(regular, failing, &one_group, nullptr, 0, nullptr));
  OK(zeCommandListClose(regular));
  OK(zeCommandQueueExecuteCommandLists(queue, 1, &regular, nullptr));
  IS(ZE_RESULT_ERROR_DEVICE_LOST, zeCommandQueueSynchronize(queue, soon));
  IS(ZE_RESULT_ERROR_DEVICE_LOST, zeCommandQueueExecuteCommandLists(queue, 1, &regular, nullptr));
  // A reset event no longer reports the failure.
  OK(zeEventHostReset(after));
  IS(ZE_RESULT_NOT_READY, zeEventQueryStatus(after));
}

// Loads Hotslot's own module. Every kernel of it must take the parameters of its host form.
void image() {
  Setup s;
  const auto* shipped = hotslot::spirv_images;
  CHECK(shipped->format != nullptr);
  const ze_module_desc_t desc{ZE_STRUCTURE_TYPE_MODULE_DESC,
                              nullptr,
                              ZE_MODULE_FORMAT_IL_SPIRV,
                              shipped->bytes,
                              static_cast<const uint8_t*>(shipped->data),
                              "-cl-fp32-correctly-rounded-divide-sqrt",
                              nullptr};
  Program program{};
  ze_module_build_log_handle_t log{};
  OK(zeModuleCreate(s.context, s.device, &desc, &program.module, &log));
  OK(zeModuleBuildLogDestroy(log));
  uint32_t count = 0;
  OK(zeModuleGetKernelNames(program.module, &count, nullptr));
  CHECK(count > 10);
  std::vector<const char*> names(count);
  OK(zeModuleGetKernelNames(program.module, &count, names.data()));
  for (auto* name : names) OK(zeKernelDestroy(program.kernel(name)));
  auto kernel = program.kernel("axpby");
  auto* y = s.host();
  auto* x = s.host();
  for (size_t i = 0; i < n; ++i) x[i] = float(i), y[i] = 1;
  argument(kernel, 0, y), argument(kernel, 1, x), argument(kernel, 2, int64_t(n)),
      argument(kernel, 3, 0.5f), argument(kernel, 4, 2.0f);
  auto list = s.immediate();
  OK(zeCommandListAppendLaunchKernel(list, kernel, &one_group, nullptr, 0, nullptr));
  s.finish(list);
  for (size_t i = 0; i < n; ++i) CHECK(y[i] == 2 + 0.5f * float(i));
  OK(zeKernelDestroy(kernel)), OK(zeModuleDestroy(program.module)), OK(zeCommandListDestroy(list));
  s.free(x), s.free(y);
  s.end();
}

}  // namespace
