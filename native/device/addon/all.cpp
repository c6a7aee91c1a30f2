// Includes every source of this folder as one translation unit, because reading the headers takes
// longer than compiling the code.
#include "device/addon/device.cpp"
#include "device/addon/graph.cpp"
#include "device/addon/halo.cpp"
#include "device/addon/kernels.cpp"
#include "device/addon/memory.cpp"
#include "device/addon/shared.cpp"
#include "device/addon/stream.cpp"
