// Groups of cuda_check: captures and graphs.
#pragma once
#include "cuda_check_setup.hpp"

namespace {

void captures() {
  enter();
  const Kernels kernels;
  DevicePtr at = 0;
  void* host = nullptr;
  static char block[64];
  Module module = nullptr;
  int late_loads = 0;
  // For each mode of the thread: which calls this thread's own capture bars. The capture is
  // thread-local. A relaxed thread may make most calls.
  for (const CaptureMode thread_mode : {capture_global, capture_thread_local, capture_relaxed}) {
    const bool barred = thread_mode != capture_relaxed;
    OK(exchange(thread_mode));
    const auto bars = [&](bool even_relaxed, auto&& call) {
      Parts p;
      OK(exchange(capture_relaxed));
      OK(cu.event_record(p.join, p.side));
      OK(settled([&] { return cu.event_query(p.join); }));
      OK(exchange(thread_mode));
      OK(p.begin());
      OK(p.fill());
      IS(barred || even_relaxed ? status::capture_unsupported : 0, call(p));
      if (barred || even_relaxed) return p.broken();
      OK(p.fill());
      OK(p.end());
    };
    bars(false, [&](Parts&) { return cu.mem_alloc(&at, 16); });
    bars(false, [&](Parts&) { return cu.mem_host_alloc(&host, 16, 0); });
    bars(false, [&](Parts&) {
      const Status status = cu.mem_host_register(block, 64, 1);
      if (status == 0) cu.mem_host_unregister(block);
      return status;
    });
    bars(false, [&](Parts& p) { return cu.event_query(p.join); });
    bars(false, [&](Parts& p) { return cu.stream_query(p.side); });
    bars(false, [&](Parts& p) { return cu.stream_synchronize(p.side); });
    bars(false, [&](Parts&) {
      const Status status = cu.module_load_data(&module, ptx);
      late_loads += status == 0;
      return status;
    });
    bars(true, [&](Parts& p) { return cu.stream_query(p.origin); });
    bars(true, [&](Parts& p) { return cu.stream_synchronize(p.origin); });
  }
  OK(exchange(capture_global));
  IS(status::invalid_value, exchange(CaptureMode(3)));

  // Which captures of other threads bar a call: only global captures bar global threads.
  for (const CaptureMode capture_mode : {capture_global, capture_thread_local, capture_relaxed}) {
    for (const CaptureMode thread_mode : {capture_global, capture_thread_local, capture_relaxed}) {
      Parts p;
      OK(p.begin(capture_mode));
      const bool barred = capture_mode == capture_global && thread_mode == capture_global;
      IS(barred ? status::capture_unsupported : 0, elsewhere([&] {
           OK(exchange(thread_mode));
           return cu.event_query(p.join);
         }));
      if (barred)
        p.broken();
      else
        OK(p.end());
    }
  }
  // Each thread has its own mode.
  CaptureMode mode = capture_relaxed;
  OK(cu.exchange_capture_mode(&mode));
  IS(capture_global, mode);
  IS(capture_global, elsewhere([] {
       CaptureMode theirs = capture_relaxed;
       OK(cu.exchange_capture_mode(&theirs));
       return int(theirs);
     }));
  OK(exchange(capture_thread_local));

  Parts p;
  IS(401, p.end());
  OK(p.begin());
  IS(401, p.begin());
  IS(status::capture_wrong_thread, elsewhere([&] { return p.end(); }));
  if (as_the_card()) {
    // The call failed, but it ended the capture.
    IS(401, p.end());
    OK(p.begin());
  }
  OK(p.fill());
  OK(p.end());
  OK(p.begin(capture_relaxed));
  OK(elsewhere([&] { return p.end(); }));
  // 905, 902 and 903 break the capture, and further calls return 901. Ending it returns 904 if a
  // stream did not join. An event that was last recorded in a capture returns 907.
  OK(cu.event_record(p.join, p.side));
  OK(p.begin());
  IS(status::capture_isolation, cu.stream_wait_event(p.origin, p.join, 0));
  p.broken();
  OK(p.begin());
  OK(cu.stream_begin_capture(p.side, capture_thread_local));
  OK(cu.event_record(p.fork, p.origin));
  IS(status::capture_merge, cu.stream_wait_event(p.side, p.fork, 0));
  IS(status::capture_invalidated, cu.stream_end_capture(p.side, &p.graph));
  p.broken();
  OK(p.begin());
  OK(cu.event_record(p.fork, p.origin));
  OK(cu.stream_wait_event(p.side, p.fork, 0));
  IS(status::capture_unmatched, cu.stream_end_capture(p.side, &p.graph));
  p.broken();
  OK(p.begin());
  OK(cu.event_record(p.fork, p.origin));
  OK(cu.stream_wait_event(p.side, p.fork, 0));
  OK(cu.memset_d8_async(p.a, 1, 1, p.side));
  IS(status::capture_unjoined, p.end());
  p.usable();
  OK(settled([&] { return cu.stream_query(p.side); }));
  IS(status::captured_event, cu.event_query(p.fork));
  IS(status::captured_event, cu.stream_wait_event(p.side, p.fork, 0));
  OK(exchange(capture_relaxed));
  IS(status::captured_event, cu.event_query(p.fork));  // also in a relaxed thread
  OK(exchange(capture_thread_local));
  OK(cu.event_record(p.fork, p.side));
  OK(settled([&] { return cu.event_query(p.fork); }));
  // Destroying the origin ends the capture, and the joined stream leaves it.
  OK(p.begin());
  OK(cu.event_record(p.fork, p.origin));
  OK(cu.stream_wait_event(p.side, p.fork, 0));
  OK(cu.stream_destroy(p.origin));
  OK(settled([&] { return cu.stream_query(p.side); }));
  // A graph launch cannot be captured.
  Parts q;
  OK(q.begin());
  OK(q.fill());
  OK(q.end());
  GraphExecHandle exec = nullptr;
  OK(cu.graph_instantiate(&exec, q.graph, 0));
  OK(q.begin());
  IS(status::capture_unsupported, cu.graph_launch(exec, q.origin));
  q.broken();
  // A relaxed thread may load a module during a capture, and the driver complains about each load.
  IS(late_loads, violations());
}

void graphs() {
  enter();
  const Kernels kernels;
  const Function add = kernels.get("axpby");
  Parts p;
  const DevicePtr y = memory(64), x = memory(64);
  OK(cu.memset_d8_async(y, 0, 64, p.origin));
  OK(cu.memset_d32_async(x, 0x3f800000, 16, p.origin));
  OK(cu.stream_synchronize(
      p.origin));  // the stream `side`, which also launches the graph, has no order with this one
  const auto capture = [&](auto&& work) {
    OK(p.begin());
    work();
    OK(p.end());
    return p.graph;
  };
  unsigned char to[64], from[64] = {7};
  const GraphHandle one = capture([&] {
    OK(axpby(add, p.origin, y, x, 16));
    OK(cu.memcpy_dtoh_async(to, y, 64, p.origin));      // pageable: written at each replay
    OK(cu.memcpy_htod_async(p.a, from, 64, p.origin));  // read at each replay
  });
  size_t count = 0;
  OK(cu.graph_get_nodes(one, nullptr, &count));
  IS(3, count);
  GraphNode nodes[5] = {};
  count = 5;
  OK(cu.graph_get_nodes(one, nodes, &count));
  IS(3, count), IS(true, nodes[0] && nodes[2] && !nodes[3]);
  GraphExecHandle exec = nullptr;
  IS(status::invalid_value, cu.graph_instantiate(&exec, one, 16));
  OK(cu.graph_instantiate(&exec, one, 0));
  if (cu.graph_upload) OK(cu.graph_upload(exec, p.side));
  OK(cu.graph_destroy(one));
  IS(status::invalid_handle, cu.graph_destroy(one));
  from[0] = 8;
  for (int i = 0; i < 3; ++i) OK(cu.graph_launch(exec, i % 2 ? p.origin : p.side));
  OK(cu.stream_synchronize(p.origin));
  OK(cu.stream_synchronize(p.side));
  float sum = 0;
  memcpy(&sum, to, 4);
  IS(3, sum);
  OK(cu.memcpy_dtoh_async(to, p.a, 64, p.side));
  IS(8, to[0]);

  // An update takes the same nodes in the same order, with other arguments.
  ExecUpdateResult info{-1, nullptr, nullptr};
  const GraphHandle same = capture([&] {
    OK(axpby(add, p.origin, y, x, 16, 10, 1));
    OK(cu.memcpy_dtoh_async(to, y, 64, p.origin));
    OK(cu.memcpy_htod_async(p.a, from, 64, p.origin));
  });
  OK(cu.graph_exec_update(exec, same, &info));
  IS(0, info.result);
  OK(cu.graph_launch(exec, p.side));
  OK(cu.stream_synchronize(p.side));
  memcpy(&sum, to, 4);
  IS(13, sum);
  const GraphHandle shorter = capture([&] { OK(axpby(add, p.origin, y, x, 16)); });
  IS(status::graph_exec_update_failure, cu.graph_exec_update(exec, shorter, &info));
  IS(2, info.result);
  const GraphHandle other = capture([&] {
    OK(axpby(add, p.origin, y, x, 16));
    OK(p.fill());
    OK(p.fill());
  });
  IS(status::graph_exec_update_failure, cu.graph_exec_update(exec, other, &info));
  IS(3, info.result);
  const GraphHandle directions = capture([&] {
    OK(axpby(add, p.origin, y, x, 16));
    OK(cu.memcpy_dtod_async(p.a, y, 64, p.origin));
    OK(cu.memcpy_htod_async(p.a, from, 64, p.origin));
  });
  IS(status::graph_exec_update_failure, cu.graph_exec_update(exec, directions, &info));
  IS(5, info.result);
  IS(status::invalid_handle, cu.graph_exec_update(exec, one, &info));
  OK(cu.graph_launch(exec, p.side));
  OK(cu.stream_synchronize(p.side));
  for (const GraphHandle graph : {same, shorter, other, directions}) OK(cu.graph_destroy(graph));

  if (cu.event_record_with_flags) {
    // A record can be a node. Every launch records the event again, and the host can query and time
    // the event.
    const EventHandle begun = event(event_default), over = event(event_default);
    const GraphHandle timed = capture([&] {
      OK(cu.event_record_with_flags(begun, p.origin, event_record_external));
      OK(p.fill());
      OK(cu.event_record_with_flags(over, p.origin, event_record_external));
    });
    OK(cu.graph_get_nodes(timed, nullptr, &count));
    IS(3, count);
    GraphExecHandle timer = nullptr;
    OK(cu.graph_instantiate(&timer, timed, 0));
    OK(cu.event_query(over));
    float ms = -1;
    Latch latch(p.side);
    OK(cu.graph_launch(timer, p.side));
    IS(status::not_ready, cu.event_query(over));
    latch.open();
    OK(settled([&] { return cu.event_query(over); }));
    OK(cu.event_elapsed_time(&ms, begun, over));
    IS(true, ms >= 0);
    OK(cu.graph_exec_destroy(timer));
    OK(cu.graph_destroy(timed));
  }
  // A graph that is destroyed during its run finishes the run.
  {
    Latch latch(p.side);
    OK(cu.graph_launch(exec, p.side));
    OK(cu.graph_exec_destroy(exec));
    latch.open();
    OK(cu.stream_synchronize(p.side));
    memcpy(&sum, to, 4);
    IS(33, sum);
  }
  IS(status::invalid_handle, cu.graph_launch(exec, p.side));
  IS(0, violations());
  IS(0, live("graphs")), IS(0, live("execs"));

  // An invalid address in a graph makes the launching stream fail.
  const GraphHandle illegal = capture([&] { OK(axpby(add, p.origin, y, x, 17)); });
  OK(cu.graph_instantiate(&exec, illegal, 0));
  const StreamHandle bad = stream();
  OK(cu.graph_launch(exec, bad));
  IS(status::illegal_address, settled([&] { return cu.stream_query(bad); }));
  OK(settled([&] { return cu.stream_query(p.origin); }));
  IS(0, violations());
}

}  // namespace
