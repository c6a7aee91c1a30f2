// What the files of system.node export, one object for each subject.
#pragma once
#include <napi.h>

#include "device/addon/held.hpp"

namespace hotslot::system {

void add_core_functions(Napi::Env env, Napi::Object exports);
void add_file_functions(Napi::Env env, Napi::Object exports);
void add_process_functions(Napi::Env env, Napi::Object exports);

}  // namespace hotslot::system
