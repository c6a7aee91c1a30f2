{
  "variables": {
    "extra_cflags%": [],
    "extra_ldflags%": [],
    "device_sources": [
      "native/device/belongings.cpp",
      "native/device/binding.cpp",
      "native/device/binding_halo.cpp",
      "native/device/binding_memory.cpp",
      "native/device/capture.cpp",
      "native/device/core.cpp",
      "native/device/cublas.cpp",
      "native/device/cuda.cpp",
      "native/device/cuda_device.cpp",
      "native/device/cuda_driver.cpp",
      "native/device/cuda_memory.cpp",
      "native/device/cuda_stream.cpp",
      "native/device/hip.cpp",
      "native/device/level_zero.cpp",
      "native/device/level_zero_device.cpp",
      "native/device/level_zero_events.cpp",
      "native/device/level_zero_graph.cpp",
      "native/device/level_zero_memory.cpp",
      "native/device/level_zero_stream.cpp",
      "native/device/pool.cpp",
      "native/device/host.cpp",
      "native/device/host_executor.cpp",
      "native/device/host_family.cpp",
      "native/device/host_managed.cpp",
      "native/kernels/blas.cpp",
      "native/kernels/gemm.cpp",
      "native/kernels/gemm_builtin.cpp",
      "native/kernels/halo.cpp",
      "native/kernels/generated/hsaco.cpp",
      "native/kernels/generated/ptx.cpp",
      "native/kernels/generated/spirv.cpp",
      "native/kernels/registry.cpp",
      "native/kernels/test_kernels.cpp"
    ],
    "pack_sources": [
      "native/pack/binding.cpp",
      "native/rows/rows.cpp",
      "native/rows/copy.cpp",
      "native/rows/sampler.cpp"
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
      "native/rows/rows.cpp",
      "native/rows/copy.cpp",
      "native/rows/sampler.cpp"
    ]
  }
}
