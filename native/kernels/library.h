/* A shared library of kernels for host devices: what `images: { host: 'path' }` of
 * device.loadKernels() names. It exports const hotslot_kernel hotslot_kernels_1[] with an entry per
 * kernel and one without a name behind them. Plain C, so that any language can make one; from a .gk
 * source `npx hotslot kernels my.gk` does. */
#pragma once
#include <stdint.h>

/* What a launch passes: addresses of its tensors' first elements, whole numbers, reals. */
typedef struct hotslot_kernel_args {
  void* pointer[12];
  int64_t whole[12];
  double real[8];
} hotslot_kernel_args;

typedef struct hotslot_kernel {
  const char* name;
  /* A letter per tensor: f float32, d float64, b int8, B uint8 and bool, h int16, H uint16, float16
   * and bfloat16, i int32, I uint32, l int64, L uint64. */
  const char* tensors;
  int wholes, reals;
  /* Called in a thread of the device, for several launches at once. Null, or a sentence why the
   * work failed: it becomes the stream's error, and has to stay where it is. */
  const char* (*run)(const hotslot_kernel_args* args);
} hotslot_kernel;
