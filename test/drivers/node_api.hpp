// Declares the functions of Node-API that the tests' libraries need. The symbols are weak, so that
// the libraries also load in programs without Node.
#pragma once
#include <cstddef>

extern "C" {
typedef struct napi_env__* napi_env;
typedef struct napi_value__* napi_value;
typedef struct napi_callback_info__* napi_callback_info;
typedef napi_value (*napi_callback)(napi_env, napi_callback_info);
#define WEAK __attribute__((weak))
WEAK int napi_get_cb_info(napi_env, napi_callback_info, size_t*, napi_value*, napi_value*, void**);
WEAK int napi_get_value_string_utf8(napi_env, napi_value, char*, size_t, size_t*);
WEAK int napi_create_string_utf8(napi_env, const char*, size_t, napi_value*);
WEAK int napi_create_function(napi_env, const char*, size_t, napi_callback, void*, napi_value*);
WEAK int napi_set_named_property(napi_env, napi_value, const char*, napi_value);
#undef WEAK
}
