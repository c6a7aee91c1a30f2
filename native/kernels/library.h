/*
 * The interface of a shared library of kernels for CPU devices. `images: { host: 'path' }` of
 * device.loadKernels() names such a library. The library exports const hotslot_kernel
 * hotslot_kernels_1[], which has an entry per kernel and ends with an entry without a name. The
 * interface is plain C, so that any language can implement it. `npx hotslot kernels my.gk` compiles
 * a .gk source to such a library.
 */
#pragma once
#include <stdint.h>

/* The arguments of a launch: the addresses of its tensors' first elements, its whole numbers and
 * its reals. */
typedef struct hotslot_kernel_args {
  void* pointer[12];
  int64_t whole[12];
  double real[8];
} hotslot_kernel_args;

typedef struct hotslot_kernel {
  const char* name;
  /*
   * One letter per tensor: f float32, d float64, b int8, B uint8 and bool, h int16, H uint16,
   * float16 and bfloat16, i int32, I uint32, l int64, L uint64.
   */
  const char* tensors;
  int wholes, reals;
  /*
   * Runs the kernel. A thread of the device calls it, and several launches may run at once. It
   * returns null, or a sentence that says why the work failed. The sentence becomes the stream's
   * error, and must stay valid.
   */
  const char* (*run)(const hotslot_kernel_args* args);
} hotslot_kernel;
