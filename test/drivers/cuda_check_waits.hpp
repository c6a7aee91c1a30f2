// Groups of cuda_check: calls that block their callers as on a GPU (cuda_waits.hpp).
#pragma once
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda_check_setup.hpp"

namespace {

// Calls `act` in another thread, and returns whether it still blocks after 50 ms. Then opens the
// latch. Nothing but waiting shows that a call blocks.
template <class F>
bool held_up(F&& act, Latch& latch) {
  std::atomic<int> state{0};
  std::thread other([&] {
    OK(cu.context_set_current(context));
    state = 1;
    act();
    state = 2;
  });
  while (state == 0) std::this_thread::yield();
  for (int i = 0; i < 50 && state != 2; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const bool held = state != 2;
  latch.open();
  other.join();
  return held;
}

// Each free waits for unrelated work. Meanwhile no other call returns, except queries if the driver
// behaves like the H100.
void frees_wait() {
  enter();
  static unsigned char block[64];
  const EventHandle mark = event();
  const DevicePtr word = memory(4);
  const StreamHandle side = stream();
  const auto waits = [&](auto&& make, auto&& act) {
    const auto made = make();
    const StreamHandle busy = stream();
    Latch latch(busy);
    std::atomic<bool> freed{false}, asked{false};
    std::thread freeing([&] {
      OK(cu.context_set_current(context));
      act(made);
      freed = true;
    });
    const bool shut = held_up(
        [&] {
          std::this_thread::sleep_for(std::chrono::milliseconds(10));
          OK(cu.event_query(mark));
          OK(cu.stream_query(side));
          asked = as_the_card() && !freed;
          OK(cu.memset_d8_async(word, 1, 4, side));
        },
        latch);
    freeing.join();
    IS(true, shut), IS(true, freed.load()), IS(as_the_card(), asked.load());
    OK(cu.stream_synchronize(busy));
  };
  waits([] { return memory(64); }, [](DevicePtr at) { OK(cu.mem_free(at)); });
  waits(
      [] {
        void* at = nullptr;
        OK(cu.mem_host_alloc(&at, 64, 0));
        return at;
      },
      [](void* at) { OK(cu.mem_free_host(at)); });
  waits(
      [] {
        OK(cu.mem_host_register(block, 64, 3));
        return block;
      },
      [](void* at) { OK(cu.mem_host_unregister(at)); });
  Module module = nullptr;
  OK(cu.module_load_data(&module, ptx));
  waits([&] { return module; }, [](Module loaded) { OK(cu.module_unload(loaded)); });
  for (const char* call : {"cuMemFree", "cuMemFreeHost", "cuMemHostUnregister", "cuModuleUnload"})
    IS(true, kept(call, 20));
  IS(!as_the_card(), kept("cuEventQuery", 20));
  IS(as_the_card(), kept("cuMemsetD8Async", 20));
  // No work is queued, so nothing waits.
  const DevicePtr last = memory(64);
  OK(cu.mem_free(last));
  IS(0, violations());
}

void loads_wait() {
  enter();
  int version = 0;
  OK(driver_version(&version));
  const Kernels kernels;
  const Function add = kernels.get("axpby");
  Module second = nullptr;
  const DevicePtr y = memory(64);
  {
    const StreamHandle busy = stream();
    Latch latch(busy);
    IS(true, held_up([&] { OK(cu.module_load_data(&second, ptx)); }, latch));
  }
  // From 12.4 on, the first launch loads the kernel. Older drivers load it when it is requested by
  // name.
  const StreamHandle other = stream();
  {
    Latch latch(stream());
    IS(version < 12040, held_up(
                            [&] {
                              Function late = nullptr;
                              OK(cu.module_get_function(&late, second, "axpby"));
                            },
                            latch));
  }
  Function late = nullptr;
  OK(cu.module_get_function(&late, second, "axpby"));
  {
    Latch latch(stream());
    IS(version >= 12040, held_up([&] { OK(axpby(late, other, y, y, 4)); }, latch));
  }
  {
    Latch latch(stream());
    IS(false, held_up([&] { OK(axpby(add, other, y, y, 4)); }, latch));
  }
  IS(0, violations());
}

// Runs with CUDA_DEVICE_MAX_CONNECTIONS=2, so that the first and the third stream share a queue.
void queues() {
  enter();
  const DevicePtr at = memory(64);
  const StreamHandle first = stream(), second = stream(), third = stream();
  const auto runs = [&](StreamHandle on) {
    OK(cu.memset_d8_async(at, 1, 64, on));
    for (int i = 0; i < 50; ++i) {
      if (cu.stream_query(on) == 0) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  };
  Latch latch(first);
  // Running work blocks no other stream. Work that waits after it blocks the streams of the same
  // queue.
  IS(true, runs(third));
  OK(cu.memset_d8_async(at, 2, 64, first));
  IS(true, runs(second));
  IS(false, runs(third));
  latch.open();
  OK(cu.stream_synchronize(third));
  IS(0, violations());
}

// Runs with CUDA_DEVICE_MAX_CONNECTIONS=32, and uses 30 streams.
void one_queue_each() {
  enter();
  const DevicePtr at = memory(64);
  std::vector<StreamHandle> all;
  for (int i = 0; i < 30; ++i) all.push_back(stream());
  Latch latch(all[0]);
  OK(cu.memset_d8_async(at, 2, 64, all[0]));
  for (size_t i = 1; i < all.size(); ++i) {
    OK(cu.memset_d8_async(at, 1, 64, all[i]));
    OK(settled([&] { return cu.stream_query(all[i]); }));
  }
  latch.open();
  OK(cu.stream_synchronize(all[0]));
}

// Runs with depth=100.
void full_queue() {
  enter();
  const DevicePtr at = memory(64);
  const StreamHandle busy = stream(), other = stream();
  Latch latch(busy);
  for (int i = 0; i < 90; ++i) OK(cu.memset_d8_async(at, 1, 64, busy));
  IS(true, held_up(
               [&] {
                 for (int i = 0; i < 20; ++i) OK(cu.memset_d8_async(at, 1, 64, other));
                 for (int i = 0; i < 20; ++i) OK(cu.memset_d8_async(at, 1, 64, busy));
               },
               latch));
  OK(cu.stream_synchronize(busy));
  IS(true, kept("cuMemsetD8Async", 20));
  // Finished work makes room. A graph counts as many operations as it has nodes. A graph larger
  // than the queue runs when the queue is empty.
  for (int i = 0; i < 1000; ++i) {
    OK(cu.memset_d8_async(at, 1, 64, busy));
    if (i % 50 == 0) OK(cu.stream_synchronize(busy));
  }
  Parts p;
  OK(p.begin());
  for (int i = 0; i < 150; ++i) OK(p.fill());
  OK(p.end());
  GraphExecHandle exec = nullptr;
  OK(cu.graph_instantiate(&exec, p.graph, 0));
  OK(cu.graph_launch(exec, busy));
  OK(cu.graph_launch(exec, busy));
  OK(cu.stream_synchronize(busy));
  IS(0, violations());
}

void pageable() {
  enter();
  static unsigned char small[1 << 16], large[(1 << 16) + 1], most[1 << 20], more[(1 << 20) + 1];
  const DevicePtr at = memory(sizeof more);
  const auto held = [&](auto&& copy) {
    const StreamHandle busy = stream();
    Latch latch(busy);
    const bool held = held_up([&] { OK(copy(busy)); }, latch);
    OK(cu.stream_synchronize(busy));
    return held;
  };
  IS(false,
     held([&](StreamHandle on) { return cu.memcpy_htod_async(at, small, sizeof small, on); }));
  IS(!as_the_card(),
     held([&](StreamHandle on) { return cu.memcpy_htod_async(at, large, sizeof large, on); }));
  IS(!as_the_card(),
     held([&](StreamHandle on) { return cu.memcpy_htod_async(at, most, sizeof most, on); }));
  IS(true, held([&](StreamHandle on) { return cu.memcpy_htod_async(at, more, sizeof more, on); }));
  IS(true, held([&](StreamHandle on) { return cu.memcpy_dtoh_async(small, at, 4, on); }));
  // The copy blocks calls of other threads on its stream, but not on other streams.
  const StreamHandle busy = stream(), other = stream();
  Latch latch(busy);
  std::thread copying([&] {
    OK(cu.context_set_current(context));
    OK(cu.memcpy_dtoh_async(small, at, 4, busy));
  });
  while (!kept("cuMemcpyDtoHAsync", 1)) std::this_thread::yield();
  OK(cu.stream_query(other));
  IS(true, held_up(
               [&] {
                 std::this_thread::sleep_for(std::chrono::milliseconds(10));
                 OK(cu.memset_d8_async(at, 1, 4, busy));
               },
               latch));
  copying.join();
  OK(cu.stream_synchronize(busy));
  IS(0, violations());
}

// Small managed allocations share pages, and advice about a page applies to both. Runs with
// memory=64 MiB.
void pages() {
  enter();
  const StreamHandle s = stream();
  DevicePtr a = 0, b = 0;
  OK(cu.mem_alloc_managed(&a, 16, mem_attach_global));
  OK(cu.mem_alloc_managed(&b, 16, mem_attach_global));
  IS(as_the_card() ? 512 : 256, b - a);
  OK(cu.mem_advise_v1(a, 16, advise_preferred_location, 0));
  IS(0, attribute(range_preferred_location, b, 16));
  OK(cu.mem_prefetch_v1(a, 16, 0, s));
  // The stream was idle, so the pages moved before the call returned.
  IS(0, attribute(range_last_prefetch_location, b, 16));
  DevicePtr apart = 0;
  OK(cu.mem_alloc_managed(&apart, 8192, mem_attach_global));
  IS(device_invalid, attribute(range_last_prefetch_location, apart + 4096, 16));
  const DevicePtr some = memory(16);
  size_t free = 0, total = 0;
  OK(cu.mem_get_info(&free, &total));
  IS((64 << 20) - (2 << 20), free);
  for (const DevicePtr at : {a, b, apart, some}) OK(cu.mem_free(at));
  OK(cu.mem_get_info(&free, &total));
  IS(64 << 20, free);
  IS(0, violations());
}

void host_memory_takes_time() {
  enter();
  void* at = nullptr;
  OK(cu.mem_host_alloc(&at, 64, 0));
  IS(false, kept("cuMemHostAlloc", 20));
  OK(cu.mem_host_alloc(&at, 64 << 20, 0));
  IS(as_the_card(), kept("cuMemHostAlloc", 32));
  IS(0, violations());
}

void forks() {
  enter();
  const StreamHandle s = stream();
  constexpr size_t page = 4096;
  const auto value = [&](bool keep) {
    auto* const at = static_cast<unsigned char*>(
        mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    OK(cu.mem_host_register(at, page, 3));
    if (keep) OK(madvise(at, page, MADV_DONTFORK));
    const DevicePtr to = memory(page);
    memset(at, 1, page);
    const pid_t child = fork();
    if (child == 0) _exit(0);
    waitpid(child, nullptr, 0);
    memset(at, 2, page);
    OK(cu.memcpy_htod_async(to, at, page, s));
    unsigned char got[page];
    OK(cu.memcpy_dtoh_async(got, to, page, s));
    OK(cu.mem_host_unregister(at));
    return got[page - 1];
  };
  IS(1, value(false));
  IS(2, value(true));
}

// Runs with slow=50,exec_timeout=1.
void slow() {
  const auto begin = std::chrono::steady_clock::now();
  enter();
  const Kernels kernels;
  IS(true, std::chrono::steady_clock::now() - begin >= std::chrono::milliseconds(150));
  int timeout = 0;
  OK(cu.device_get_attribute(&timeout, attribute_kernel_exec_timeout, 0));
  IS(1, timeout);
}

}  // namespace
