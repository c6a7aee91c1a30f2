/*
 * The versioned table of C functions through which the other addons call the native core.
 * device.node contains the core and lends them the table. No C++ type or exception crosses it. A
 * call that fails returns a negative number, and last_error() then returns the reason.
 */
#pragma once
#include <stdint.h>

#define HOTSLOT_API_VERSION 2

enum {
  HOTSLOT_DEVICE = 1,
  HOTSLOT_MEMORY = 2,
  HOTSLOT_EVENT = 3,
  HOTSLOT_STREAM = 4,
  HOTSLOT_GRAPH = 5,
  HOTSLOT_EXEC = 6
};

typedef struct hotslot_error {
  const char* code; /* ERR_HOTSLOT_… */
  const char* text;
  const char* family; /* "" unless a driver's call failed */
  const char* call;
  const char* status_name;
  const char* advice;
  int status;
} hotslot_error;

typedef struct hotslot_api {
  uint32_t version;
  uint32_t bytes; /* sizeof(hotslot_api). An addon with another size rejects the table. */
  /* Returns the calling thread's last error. It is valid until the thread's next call. */
  const hotslot_error* (*last_error)(void);
  /*
   * Pins the object of a handle and returns it. A pinned object exists until it is unpinned, even
   * if another thread closes the handle. Returns null if the handle is stale or of another kind.
   */
  void* (*pin)(double handle, int kind);
  void (*unpin)(double handle);
  /*
   * Returns the address at which the device uses the memory. Stores the memory's size in `bytes`.
   */
  uint8_t* (*address)(void* memory, uint64_t* bytes);
  int (*copy)(void* stream, void* to, uint64_t to_offset, void* from, uint64_t from_offset,
              uint64_t bytes);
  int (*record)(void* stream, void* event);
  int (*wait)(void* stream, void* event);
  int (*replay)(void* stream, void* exec);
  int (*stream_query)(void* stream); /* 1: done, 0: not yet */
  int (*query)(void* event);         /* 1: done, 0: not yet */
  /*
   * Runs queued work of the device in the calling thread for about `ns`. Returns 1 if the thread
   * ran some work, else 0. See Device::help.
   */
  int (*help)(void* device, uint64_t ns);
  int (*attend)(void* device, void* bell);
  void (*dismiss)(void* device, void* bell);
} hotslot_api;
