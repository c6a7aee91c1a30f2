// The parts of `raw_cuda facts INDEX SECONDS [PART…]`: how this driver behaves where its documents
// do not say. Each part runs in a process that is ended after SECONDS, and each fact is a line of
// JSON. The table has a fact's name, then what an H100 answered on 27 November 2026
// (bench/results/h100/facts.jsonl: driver 580.159, CUDA 13.0; ms, µs or a status). The indented
// line below a fact says what in the library depends on it. test/drivers/cuda_card.hpp makes the
// software driver of CUDA 13 behave the same, and test/drivers/card-facts.long.test.ts compares
// them.
//
// loading        secondsOfContext secondsOfModuleLoad     1.2, 1.7; in later processes 0.7, 0.003
//                  The driver keeps compiled kernels, so Hotslot keeps none. All openers share one
//                  context (cuda/find.cpp).
//                usFirstReplay100 …AfterUpload            99, 2.5
//                  instantiate() and update() upload the graph: CudaExec::upload (cuda/graph.cpp).
//                bytesPerExec10 …Replayed …Destroyed      115,343 each: destroying an exec does not
//                                                         free its bytes at once
//                  Nothing depends on this, because a pipeline has only a few execs.
// firsts         msBeside_ msUntilDone_first…             0.01 to 0.09: no first call waits
//                  Other drivers may wait, so CudaDevice::prepare (cuda/device.cpp) makes each
//                  first call before there is work.
// waiting        msBeside_memFree freeHost hostUnregister 100: they wait for all work
//                  freeManaged                            100
//                  gpu/retired.hpp frees when no work is queued.
//                msBeside_memAlloc hostAlloc allocManaged 0.4, 32 for 64 MiB, 0.1
//                  hostAllocSmall msAlone_hostAlloc       not in the H100's record. Added to learn
//                                                         whether bytes or work take the time
//                  core/block_cache.hpp and gpu/memory.hpp keep freed memory for the next request.
//                msBeside_hostRegister memAdvise prefetch 1.0, 0.04, 0.2
//                  Hotslot calls these at opening, and never in the thread that enqueues ticks.
//                msBeside_moduleLoad moduleUnload         100, 100
//                  cuda/kernels.cpp loads at opening, and unloads when no work is queued.
//                msBeside_graphInstantiate graphLaunch    0.07, 0.04
//                  execUpdate execDestroy                 0.03, 0.06
//                  A pipeline may capture again while it runs.
//                msBeside_copyFromPageable …SameStream    0.2, 0.2: the call copies 1 MiB before it
//                                                         returns
//                  copyToPageable                         0.2 while another stream is busy
//                  Nothing depends on this. cuda/stream.cpp and addon/memory.cpp copy through
//                  pinned memory, because the documents promise less.
//                msWhileAnotherFrees_eventQuery streamQuery 0.03, 0.02: queries do not wait
//                  memset eventRecord                     80, 80: a free blocks other threads
//                  gpu/retired.hpp frees when no work is queued. Otherwise a free would block each
//                  thread that enqueues.
// products       msBeside_cublasCreate sgemmFirst         102, 154: loading waits
//                  sgemmTransposed sgemmLarge             113, 0.3: cuBLAS loads a kind of product
//                                                         at its first call
//                  CudaDevice::prepare opens cuBLAS. cuda/blas.cpp runs each product once before a
//                  capture contains it.
//                inCapture_ endCapture_sgemmNewShape      0, 0
//                  Nothing depends on this, because each product runs once before its capture.
// synchronizing  usOfMemsetAndSynchronize …Asking         25, 7
//                  gpu/device.hpp queries for a while before it sleeps.
// marks          usOfEventMadeRecordedDestroyed…          0.7, and 0.3 to record alone
//                usOfStreamQuery… EventQuery…             1.2, 1.2
//                usOfContextGet ContextSet ExchangeMode   0.04 each
//                  gpu/retired.hpp keeps its marks' events. A poll makes four such calls.
// events         eventQueryAfterGraphLaunch SecondLaunch  600, 600
//                waiterQueryAfter…                        600
//                  CudaDevice::learn_graph_events asks once. If the answer is 0, cuda/event.cpp
//                  queries the end of the graph instead.
// registering    registerOverlapping registerSamePageApart 712, 0: the driver compares bytes, not
//                                                         pages
//                  Hotslot registers the bytes that it is given, and reports a 712.
// capturing      inCapture_ endCapture_…                  900, 901 for memAlloc and queries; 0 in
//                                                         relaxed mode
//                  RelaxedCaptureMode (cuda/driver.hpp) surrounds each such call.
//                unjoined_… destroyed_…                   904, then 0 each: side streams are usable
//                  cuda/capture.cpp joins unjoined streams before the end.
//                elsewhere_endCapture …Again beginCapture not in the H100's record. The device
//                                                         contract got 908, then 401
//                  After a 401, cuda/capture.cpp tries to begin a capture, and gives the stream up
//                  if that fails.
// managed        smallAddressesApart                      512
//                preferredOf… prefetchedOf…               0 on the same 4 KiB page, -2 on the next
//                                                         page
//                  managed_grain (cuda/memory.cpp): allocations are multiples of 64 KiB.
//                msOfPrefetch_…                           0.3 of 0.32 until done: the call does the
//                                                         work itself
//                  The caller makes prefetches, and no actor does.
// holding        streamsHeldBesideAFreeOne …BehindThem    64, 31 with 32 connections
//                  cuda/find.cpp sets CUDA_DEVICE_MAX_CONNECTIONS to 32.
// losing         trap lost_…                              719 for each call, also for destroys and
//                                                         frees, but 0 for execDestroy
//                  loses_context (cuda/driver.hpp): all these calls throw the same error, and
//                  closing reports none.
#pragma once
#include <sys/mman.h>

#include "raw_cuda.hpp"

namespace raw {

void loading(const Rig&, Json&), firsts(const Rig&, Json&), waiting(const Rig&, Json&),
    products(const Rig&, Json&);
void synchronizing(const Rig&, Json&), marks(const Rig&, Json&), events(const Rig&, Json&),
    holding(const Rig&, Json&);
void registering(const Rig&, Json&), capturing(const Rig&, Json&), managed(const Rig&, Json&),
    losing(const Rig&, Json&);

constexpr unsigned as_hotslot_registers = host_register_portable | host_register_devicemap;

inline void* pages(size_t count) {
  void* at = mmap(nullptr, count * 4096, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (at == MAP_FAILED) fail("no memory");
  return at;
}

// Measures the time of a call while a stream is busy for 100 ms. A call that does not wait takes
// much less. Prints the call's status if it is an error.
constexpr long long busy_us = 100'000;
template <class F>
void beside_work(const Rig& rig, StreamHandle busy, Json& json, const std::string& what, F&& act) {
  rig.occupy(busy, busy_us);
  const double begin = now_us();
  const Status got = act();
  json.number(("msBeside_" + what).c_str(), (now_us() - begin) / 1000);
  if (got != status::success) json.number(("status_" + what).c_str(), got);
  rig.must(rig.call.stream_synchronize(busy), "cuStreamSynchronize");
}

// A graph of `nodes` kernels on one element each, captured as Hotslot captures.
struct SmallGraph {
  const Rig& rig;
  GraphHandle graph = nullptr;
  SmallGraph(const Rig& on, DevicePtr y, DevicePtr x, int nodes) : rig(on) {
    long long n = 1;
    float alpha = 1, beta = 1;
    void* arguments[] = {&y, &x, &n, &alpha, &beta};
    const Function axpby = rig.function("axpby");
    rig.must(rig.call.stream_begin_capture(rig.stream, capture_thread_local),
             "cuStreamBeginCapture");
    for (int i = 0; i < nodes; ++i)
      rig.must(rig.launch(axpby, arguments, rig.stream), "cuLaunchKernel");
    rig.must(rig.call.stream_end_capture(rig.stream, &graph), "cuStreamEndCapture");
  }
  ~SmallGraph() { rig.call.graph_destroy(graph); }
  GraphExecHandle instantiate() const {
    GraphExecHandle made = nullptr;
    rig.must(rig.call.graph_instantiate(&made, graph, 0), "cuGraphInstantiateWithFlags");
    return made;
  }
};

// Prefetches or places managed memory with the signature that the driver has. `to` is a device or
// device_cpu.
inline Status prefetch(const Rig& rig, DevicePtr at, size_t bytes, DeviceId to, StreamHandle on) {
  const Location place{to == device_cpu ? location_host : location_device,
                       to == device_cpu ? 0 : to};
  if (rig.call.mem_prefetch) return rig.call.mem_prefetch(at, bytes, place, 0, on);
  return rig.call.mem_prefetch_v1 ? rig.call.mem_prefetch_v1(at, bytes, to, on)
                                  : Status(status::not_supported);
}
inline Status prefer(const Rig& rig, DevicePtr at, size_t bytes, DeviceId to) {
  const Location place{to == device_cpu ? location_host : location_device,
                       to == device_cpu ? 0 : to};
  if (rig.call.mem_advise) return rig.call.mem_advise(at, bytes, advise_preferred_location, place);
  return rig.call.mem_advise_v1 ? rig.call.mem_advise_v1(at, bytes, advise_preferred_location, to)
                                : Status(status::not_supported);
}
inline bool has_managed(const Rig& rig) {
  int there = 0;
  return rig.call.mem_alloc_managed &&
         rig.call.device_get_attribute(&there, attribute_managed_memory, rig.device) ==
             status::success &&
         there;
}

}  // namespace raw
