// The room in one piece, as the build compiles it: reading the headers takes longer than compiling the code.
#include "rows/copy.cpp"
#include "rows/drawable.cpp"
#include "rows/lanes.cpp"
#include "rows/priority_tree.cpp"
#include "rows/rows.cpp"
#include "rows/sampler.cpp"
#include "rows/view.cpp"
