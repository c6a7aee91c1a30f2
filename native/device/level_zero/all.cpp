// Includes every source of this folder as one translation unit, because reading the headers takes
// longer than compiling the code.
#include "device/level_zero/device.cpp"
#include "device/level_zero/driver.cpp"
#include "device/level_zero/events.cpp"
#include "device/level_zero/find.cpp"
#include "device/level_zero/graph.cpp"
#include "device/level_zero/kernels.cpp"
#include "device/level_zero/memory.cpp"
#include "device/level_zero/queue.cpp"
#include "device/level_zero/replay.cpp"
#include "device/level_zero/stream.cpp"
