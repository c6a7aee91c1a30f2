// Includes every source of this folder as one translation unit, because reading the headers takes
// longer than compiling the code.
#include "device/core/api.cpp"
#include "device/core/capture.cpp"
#include "device/core/core.cpp"
#include "device/core/device.cpp"
#include "device/core/find.cpp"
#include "device/core/graph_pool.cpp"
#include "device/core/guard.cpp"
#include "device/core/kernel_module.cpp"
#include "device/core/open_device.cpp"
#include "device/core/stream.cpp"
