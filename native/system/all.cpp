// Includes every source of this folder as one translation unit, because reading the headers takes
// longer than compiling the code.
#include "system/children.cpp"
#include "system/cores.cpp"
#include "system/files.cpp"
#include "system/system.cpp"
#include "system/threads.cpp"
