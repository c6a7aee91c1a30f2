// The host device: its own plain memory, streams as queues (stream.hpp), and the executor that
// drains them (executor.hpp).
#pragma once
#include "device/core/capture.hpp"

namespace hotslot::host {

inline constexpr char family_name[] = "host";

// host:0, host:1, …: separate devices of one machine, each with its own memory. They share one
// executor.
constexpr int devices = 8;
std::string describe();
Ref<Device> open(int index);
// Loads a shared library, as kernels/library.h describes it.
Ref<KernelModule> load_kernels(Device& device, const ModuleRequest& request);

}  // namespace hotslot::host
