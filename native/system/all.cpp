// The room in one piece, as the build compiles it: reading the headers takes longer than compiling
// the code.
#include "system/children.cpp"
#include "system/cores.cpp"
#include "system/files.cpp"
#include "system/system.cpp"
#include "system/threads.cpp"
