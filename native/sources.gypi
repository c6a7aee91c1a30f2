{
  "variables": {
    "extra_cflags%": [],
    "extra_ldflags%": [],
    "device_sources": [
      "native/device/addon/all.cpp",
      "native/device/core/all.cpp",
      "native/device/cuda/all.cpp",
      "native/device/hip/find.cpp",
      "native/device/host/all.cpp",
      "native/device/level_zero/all.cpp",
      "native/kernels/blas.cpp",
      "native/kernels/gemm.cpp",
      "native/kernels/gemm_builtin.cpp",
      "native/kernels/halo.cpp",
      "native/kernels/images/images.cpp",
      "native/kernels/overlap.cpp",
      "native/kernels/registry.cpp",
      "native/kernels/test_kernels.cpp"
    ],
    "ranks_sources": [
      "native/ranks/binding.cpp",
      "native/ranks/halo.cpp",
      "native/ranks/mpi.cpp",
      "native/ranks/thread.cpp"
    ],
    "pack_sources": [
      "native/pack/binding.cpp",
      "native/rows/all.cpp"
    ],
    "submit_sources": [
      "native/submit/binding.cpp"
    ],
    "poll_sources": [
      "native/poll/binding.cpp"
    ],
    "replay_sources": [
      "native/replay/binding.cpp"
    ],
    "rows_sources": [
      "native/rows/binding.cpp",
      "native/rows/kept_binding.cpp",
      "native/rows/lanes_binding.cpp",
      "native/rows/layouts_binding.cpp",
      "native/rows/view_binding.cpp",
      "native/rows/words_binding.cpp",
      "native/rows/all.cpp"
    ],
    "system_sources": [
      "native/system/all.cpp"
    ]
  }
}
