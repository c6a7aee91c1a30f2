/*
 * The interface of a shared library of kernels for host devices, which `images: { host: 'path' }`
 * of device.loadKernels() names. It exports const hotslot_kernel hotslot_kernels_1[] with an entry
 * per kernel, followed by an entry without a name. It is plain C, so that any language can make
 * one. `npx hotslot kernels my.gk` makes one from a .gk source.
 */
#pragma once
#include <stdint.h>

/* The arguments of a launch: addresses of its tensors' first elements, whole numbers, reals. */
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
  /*
   * A thread of the device calls it, and several launches may run at once. It returns null, or a
   * sentence why the work failed. The sentence becomes the stream's error, and must stay valid.
   */
  const char* (*run)(const hotslot_kernel_args* args);
} hotslot_kernel;
