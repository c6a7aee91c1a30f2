// Includes every source of this folder as one translation unit, because reading the headers takes
// longer than compiling the code.
#include "device/cuda/blas.cpp"
#include "device/cuda/capture.cpp"
#include "device/cuda/device.cpp"
#include "device/cuda/driver.cpp"
#include "device/cuda/event.cpp"
#include "device/cuda/find.cpp"
#include "device/cuda/graph.cpp"
#include "device/cuda/kernels.cpp"
#include "device/cuda/memory.cpp"
#include "device/cuda/raw.cpp"
#include "device/cuda/runtime_compiler.cpp"
#include "device/cuda/stream.cpp"
