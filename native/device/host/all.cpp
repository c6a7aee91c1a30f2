// Includes every source of this folder as one translation unit, because reading the headers takes
// longer than compiling the code.
#include "device/host/device.cpp"
#include "device/host/executor.cpp"
#include "device/host/find.cpp"
#include "device/host/graph.cpp"
#include "device/host/kernels.cpp"
#include "device/host/managed.cpp"
#include "device/host/op.cpp"
#include "device/host/run.cpp"
#include "device/host/stream.cpp"
