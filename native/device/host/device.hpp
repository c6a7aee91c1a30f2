// The CPU device: plain memory, streams that are queues (stream.hpp), and an executor that runs
// the queues' operations (executor.hpp).
#pragma once
#include "device/core/capture.hpp"

namespace hotslot::host {

inline constexpr char family_name[] = "host";

// The number of CPU devices, host:0 to host:7, on one machine. Each has its own memory. They share
// one executor.
constexpr int devices = 8;
std::string describe();
Ref<Device> open(int index);
// Loads kernels from a shared library, which kernels/library.h describes.
Ref<KernelModule> load_kernels(Device& device, const ModuleRequest& request);

}  // namespace hotslot::host
