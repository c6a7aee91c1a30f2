// Declares the stress of ranks_helpers.cpp, which ranks_harness.cpp runs.
#pragma once
void help();
