// The vocabulary of every kernel source (*.gk), with which one source compiles as host C++, CUDA
// C++, HIP and OpenCL C. A kernel uses a C subset without templates. Parameters are pointers, then
// gk_i64, then gk_real. On a device they have 8, 8 and 4 bytes. Grids and blocks have one dimension
// and any size. all.gk lists the kernels of a device image.
//
// Contraction to fused multiply-adds is off, and so is fast math. Only product.gk fuses, by the
// word gk_fma(a, b, c), which rounds a · b + c once on every family. In CUDA and HIP, +, −, ·, /
// and sqrt round as on the host. OpenCL promises the same for +, − and ·. A division may be off
// by 2.5 units in the last place, and a root by 3. The driver avoids this error if it builds the
// image with -cl-fp32-correctly-rounded-divide-sqrt. In OpenCL, subnormal numbers may count as
// zero.
#pragma once

#if defined(__OPENCL_C_VERSION__) || defined(__OPENCL_VERSION__)
#define GK_OPENCL 1
typedef char gk_i8;
typedef short gk_i16;
typedef int gk_i32;
typedef uchar gk_u8;
typedef ushort gk_u16;
typedef uint gk_u32;
typedef long gk_i64;
typedef ulong gk_u64;
typedef uint4 gk_u32x4;
#define gk_zero4 ((gk_u32x4)(0))
#define GK_KERNEL __kernel void
#define GK_FN static inline
// Declares a function that compilers must inline.
#define GK_INLINE static inline __attribute__((always_inline))
#define GK_G __global
#define GK_R restrict
#define GK_L __local
#define GK_SHARED __local
#define gk_sqrt(x) sqrt(x)
#define gk_bits(x) as_uint(x)
#define gk_from_bits(x) as_float(x)
#define gk_fma(a, b, c) fma(a, b, c)
#define GK_THREAD ((gk_i64)get_global_id(0))
#define GK_THREADS ((gk_i64)get_global_size(0))
#define GK_BLOCK ((gk_i64)get_group_id(0))
#define GK_BLOCKS ((gk_i64)get_num_groups(0))
#define GK_MEMBER ((gk_i32)get_local_id(0))
#define GK_MEMBERS ((gk_i32)get_local_size(0))
#define GK_BARRIER barrier(CLK_LOCAL_MEM_FENCE)

#elif defined(__CUDACC__) || defined(__CUDA__) || defined(__HIP__)
typedef signed char gk_i8;
typedef short gk_i16;
typedef int gk_i32;
typedef unsigned char gk_u8;
typedef unsigned short gk_u16;
typedef unsigned int gk_u32;
typedef long long gk_i64;
typedef unsigned long long gk_u64;
// Four words that one instruction loads or stores. The address is a multiple of 16 bytes.
#ifdef __clang__
typedef gk_u32 gk_u32x4 __attribute__((ext_vector_type(4)));
#define gk_zero4 ((gk_u32x4)(0))
#else
typedef uint4 gk_u32x4;
#define gk_zero4 make_uint4(0, 0, 0, 0)
#endif
#ifdef __clang__
// Clang needs no header of a vendor. These attributes stand for what the headers define.
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#endif
#if defined(__HIP__)
extern "C" __device__ float __ocml_sqrt_f32(float);
#define GK_THREAD                                                                    \
  ((gk_i64)__builtin_amdgcn_workgroup_id_x() * __builtin_amdgcn_workgroup_size_x() + \
   __builtin_amdgcn_workitem_id_x())
#define GK_THREADS ((gk_i64)__builtin_amdgcn_grid_size_x())
#define GK_BLOCK ((gk_i64)__builtin_amdgcn_workgroup_id_x())
#define GK_BLOCKS ((gk_i64)(__builtin_amdgcn_grid_size_x() / __builtin_amdgcn_workgroup_size_x()))
#define GK_MEMBER ((gk_i32)__builtin_amdgcn_workitem_id_x())
#define GK_MEMBERS ((gk_i32)__builtin_amdgcn_workgroup_size_x())
// The instruction s_barrier only waits for threads. The fences make their writes visible to the
// block.
#define GK_BARRIER                                         \
  do {                                                     \
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup"); \
    __builtin_amdgcn_s_barrier();                          \
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup"); \
  } while (0)
#define gk_sqrt(x) __ocml_sqrt_f32(x)
#elif defined(__clang__)
#define GK_CUDA 1
#define GK_THREAD                                                           \
  ((gk_i64)__nvvm_read_ptx_sreg_ctaid_x() * __nvvm_read_ptx_sreg_ntid_x() + \
   __nvvm_read_ptx_sreg_tid_x())
#define GK_THREADS ((gk_i64)__nvvm_read_ptx_sreg_nctaid_x() * __nvvm_read_ptx_sreg_ntid_x())
#define GK_BLOCK ((gk_i64)__nvvm_read_ptx_sreg_ctaid_x())
#define GK_BLOCKS ((gk_i64)__nvvm_read_ptx_sreg_nctaid_x())
#define GK_MEMBER ((gk_i32)__nvvm_read_ptx_sreg_tid_x())
#define GK_MEMBERS ((gk_i32)__nvvm_read_ptx_sreg_ntid_x())
#define GK_BARRIER __syncthreads()
#define gk_sqrt(x) __builtin_sqrtf(x)
#else
#define GK_CUDA 1
#define GK_THREAD ((gk_i64)blockIdx.x * blockDim.x + threadIdx.x)
#define GK_THREADS ((gk_i64)gridDim.x * blockDim.x)
#define GK_BLOCK ((gk_i64)blockIdx.x)
#define GK_BLOCKS ((gk_i64)gridDim.x)
#define GK_MEMBER ((gk_i32)threadIdx.x)
#define GK_MEMBERS ((gk_i32)blockDim.x)
#define GK_BARRIER __syncthreads()
#define gk_sqrt(x) sqrtf(x)
#endif
#ifdef __clang__
#define gk_fma(a, b, c) __builtin_fmaf(a, b, c)
#else
#define gk_fma(a, b, c) __fmaf_rn(a, b, c)
#endif
#define GK_KERNEL extern "C" __global__ void
#define GK_FN static __device__ inline
#define GK_INLINE static __device__ inline __attribute__((always_inline))
#define GK_G
#define GK_R __restrict__
#define GK_L
#define GK_SHARED __shared__

#else
#include <cmath>
#include <cstdint>
// Kernels do not read errno. As a pure function, sqrtf can be vectorized.
extern "C" __attribute__((const)) float sqrtf(float) noexcept;
typedef int8_t gk_i8;
typedef int16_t gk_i16;
typedef int32_t gk_i32;
typedef uint8_t gk_u8;
typedef uint16_t gk_u16;
typedef uint32_t gk_u32;
typedef int64_t gk_i64;
typedef uint64_t gk_u64;
#define GK_HOST 1
// The host form is compiled for several instruction sets. A resolver selects one when the library
// loads. Contraction is off in every form, so all forms compute the same bits. A resolver runs
// before sanitizers start, so sanitizer builds have the plain form.
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(GK_NO_CLONES)
#define GK_KERNEL __attribute__((target_clones("avx512f", "avx2", "default"))) void
#else
#define GK_KERNEL void
#endif
#define GK_FN static inline __attribute__((always_inline))
#define GK_INLINE GK_FN
#define GK_G
#define GK_R __restrict__
#define GK_L
#define GK_SHARED [[maybe_unused]]
#define gk_sqrt(x) sqrtf(x)
#define gk_fma(a, b, c) __builtin_fmaf(a, b, c)
#define GK_THREAD 0
#define GK_BARRIER (void)0
#define gk_fetch(at) __builtin_prefetch((at), 0, 2)
#define gk_copy_line(to, from) __builtin_memcpy((to), (from), 64)
#define gk_copy_words(to, from) __builtin_memcpy((to), (from), 16)
#endif
#ifndef GK_OPENCL
// gk_bits returns the bits of a float, and gk_from_bits returns the float with given bits.
#if defined(__CUDACC__) && !defined(__clang__)
#define gk_bits(x) __float_as_uint(x)
#define gk_from_bits(x) __uint_as_float(x)
#else
#define gk_bits(x) __builtin_bit_cast(gk_u32, (float)(x))
#define gk_from_bits(x) __builtin_bit_cast(float, (gk_u32)(x))
#endif
#endif
typedef float gk_real;
#define GK_NAN gk_from_bits(0x7fc00000u)

// GK_EACH and GK_EACH2 loop over indices. A device distributes them over the threads of the grid,
// and the host runs the whole range. An index goes to the same thread in every loop, so a loop may
// read at `i` what an earlier loop wrote there. Any other order within a kernel is undefined.
// Iterations must not depend on each other, even if a kernel works in place, because the host
// vectorizes them.
#ifdef GK_HOST
#define GK_EACH(i, n) _Pragma("GCC ivdep") for (gk_i64 i = 0; i < (n); ++i)
#define GK_EACH2(i, rows, j, columns) \
  for (gk_i64 i = 0; i < (rows); ++i) GK_EACH(j, columns)
#else
#define GK_EACH(i, n) for (gk_i64 i = GK_THREAD; i < (n); i += GK_THREADS)
#define GK_EACH2(i, rows, j, columns) \
  GK_EACH(gk_at, (rows) * (columns))  \
  for (gk_i64 i = gk_at / (columns), j = gk_at - i * (columns), gk_once = 1; gk_once; gk_once = 0)
#endif
// Unrolls a loop that waits for its own loads. The loads of four iterations overlap, and the sums
// keep their order. The macro is empty in OpenCL, because the SPIR-V translator would write a block
// that SPIR-V does not allow.
#if defined(GK_HOST) || defined(GK_OPENCL)
#define GK_UNROLL
#else
#define GK_UNROLL _Pragma("unroll 4")
#endif
#define GK_ALONE if (GK_THREAD == 0)

// The threads of a block work together with these words. GK_SHARED declares shared memory at the
// start of a kernel. GK_L marks pointers to shared memory. All threads of a block must reach each
// GK_BARRIER, and continue when all have reached it. The barrier orders accesses to shared memory.
// In OpenCL it does not order other memory: only the thread that writes an element of a tensor may
// read it. GK_EACH_TILE distributes tiles of `size` below n over the blocks. GK_EACH_PLACE
// distributes indices below n over the threads of a block, and an index goes to the same thread in
// every loop. Such a kernel is correct for any number of blocks and of threads per block. Its entry
// in registry.cpp gives the number of outputs of a block. On the host one thread is the block.
#ifdef GK_HOST
#define GK_EACH_TILE(first, n, size) for (gk_i64 first = 0; first < (n); first += (size))
#define GK_EACH_PLACE(t, n) _Pragma("GCC ivdep") for (gk_i32 t = 0; t < (n); ++t)
#else
#define GK_EACH_TILE(first, n, size) \
  for (gk_i64 first = GK_BLOCK * (size); first < (n); first += GK_BLOCKS * (size))
#define GK_EACH_PLACE(t, n) for (gk_i32 t = GK_MEMBER; t < (n); t += GK_MEMBERS)
#endif

// Sums have one order on every device family, for any grid. Eight numbers are added by pairs. A
// lane begins with +0.0 and adds its groups of eight in order. Lanes are added by halves. Missing
// elements count as +0.0. Lanes without elements may be left out without a change of bits, because
// a sum that began with +0.0 is never -0.0.
GK_FN float gk_eight(float a, float b, float c, float d, float e, float f, float g, float h) {
  return ((a + b) + (c + d)) + ((e + f) + (g + h));
}

// Adds lanes by halves. Lane l adds lane l + count / 2, then l + count / 4, until lane 0 has the
// sum. `count` is a power of two, and a lane has `width` numbers. After the last barrier, threads
// may write to the lanes again.
GK_FN void gk_fold(GK_L float* lanes, gk_i32 count, gk_i32 width) {
  GK_BARRIER;
  for (gk_i32 left = count / 2; left > 0; left /= 2) {
    GK_EACH_PLACE(t, left * width) lanes[t] += lanes[t + left * width];
    GK_BARRIER;
  }
}

#ifdef GK_HOST
// Zeros for missing rows, with the length of the longest tile row.
static const float gk_zeros[256] = {};
#else
// Returns element i, or +0.0 from n on. The read has no branch, so that the loads of eight elements
// overlap.
GK_FN float gk_below(GK_G const float* x, gk_i64 i, gk_i64 n, gk_i64 step) {
  const float value = x[(i < n ? i : n - 1) * step];
  return i < n ? value : 0.0f;
}
#endif

// Numbers of the element types, for kernels that take any type. src/base/dtype.ts has the same
// numbers.
#define GK_FLOAT32 0
#define GK_FLOAT64 1
#define GK_INT8 2
#define GK_UINT8 3
#define GK_INT16 4
#define GK_UINT16 5
#define GK_INT32 6
#define GK_UINT32 7
#define GK_INT64 8
#define GK_UINT64 9
#define GK_BOOL 10
#define GK_FLOAT16 11
#define GK_BFLOAT16 12

// Numbers of the activations. src/learn/activation.ts has the same numbers.
#define GK_ACT_NONE 0
#define GK_ACT_RELU 1
#define GK_ACT_TANH 2

// Returns tanh x by the continued fraction at x/4 and two doublings. All device families share this
// code, and compilers can vectorize it. Beyond 9.1 a float cannot represent the difference from 1.
// NaN stays NaN.
GK_FN float gk_tanh(float x) {
  float c = x > 9.1f ? 9.1f : x;
  c = c < -9.1f ? -9.1f : c;
  float y = 0.25f * c, s = y * y;
  float t = y * (135135.0f + s * (17325.0f + s * (378.0f + s))) /
            (135135.0f + s * (62370.0f + s * (3150.0f + s * 28.0f)));
  t = 2.0f * t / (1.0f + t * t);
  return 2.0f * t / (1.0f + t * t);
}
