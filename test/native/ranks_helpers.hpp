// The stress of ranks_helpers.cpp, for ranks_harness.cpp.
#pragma once
void help();
