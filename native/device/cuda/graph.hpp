// CUDA's and ROCm's graphs: the driver's graph, and the capture, which keeps the memory alive that
// the graph touches.
#pragma once
#include "device/cuda/stream.hpp"

namespace hotslot::cuda {

// A driver's graph. Several threads must not use it at once, so a thread that reads it holds
// `lock`.
class RawGraph {
 public:
  RawGraph(CudaDevice& device, GraphHandle handle) : device(device), handle(handle) {}
  ~RawGraph() {
    if (handle) device.give_back(device.driver.call.graph_destroy, handle);
  }
  RawGraph(const RawGraph&) = delete;
  CudaDevice& device;
  const GraphHandle handle;
  std::mutex lock;
};

class RawExec {
 public:
  // The caller holds the graph's lock.
  explicit RawExec(const RawGraph& graph) : device(graph.device) {
    const Driver& driver = device.driver;
    const Enter enter(driver, device.context);
    const RelaxedCaptureMode relaxed(driver);
    driver.check(driver.call.graph_instantiate, &handle, graph.handle, 0ull);
  }
  ~RawExec() { device.give_back(device.driver.call.graph_exec_destroy, handle); }
  RawExec(const RawExec&) = delete;
  CudaDevice& device;
  GraphExecHandle handle = nullptr;
};

class CudaGraph final : public Graph {
 public:
  CudaGraph(CudaDevice& device, GraphHandle handle, Ref<Capture> capture)
      : Graph(device, std::move(capture)), raw(device, handle) {}
  Ref<Exec> instantiate() override;
  RawGraph raw;
};

// Throws if the memory was revoked because the thread that lent it has ended.
void refuse_revoked(const Memory& memory, const char* call);

class CudaExec final : public Exec {
 public:
  CudaExec(CudaDevice& device, Ref<RawExec> raw, Ref<Capture> capture)
      : Exec(device),
        device_(device),
        raw_(std::move(raw)),
        capture_(std::move(capture)),
        lent_(capture_->lent()) {
    upload();
  }
  ~CudaExec() override;
  void launch(const Ref<RawStream>& stream);

 protected:
  bool do_update(const Ref<Graph>& graph) override;

 private:
  bool pending() const;
  // Makes `stream` wait for the exec's last replay, so that replays run one at a time, also on
  // different streams. The driver orders only replays of the same driver exec, and an update may
  // have created another one.
  //
  // Does nothing if `stream` ran the last replay itself, or if the stream that ran it was
  // destroyed, because that stream was idle. Also does nothing if the last replay failed, so its
  // error does not affect `stream`.
  void wait_for_last(const Ref<RawStream>& stream);
  // Copies the graph to the device. Otherwise the first replay would copy the graph, which takes
  // 120 µs on an H100. The next replay waits for this copy as it would wait for an earlier replay.
  //
  // Does nothing if the driver cannot upload, or while a capture is open. If the upload fails, the
  // first replay copies the graph. The caller holds `lock_`.
  void upload();

  CudaDevice& device_;
  std::mutex lock_;
  // The event that is recorded after each replay and each upload.
  const std::shared_ptr<RawEvent> last_ = std::make_shared<RawEvent>(device_, false);
  std::weak_ptr<RawStream> last_on_;
  Ref<RawExec> raw_;
  Ref<Capture> capture_;
  std::vector<Memory*> lent_;
  Retired::Reservation place_;
};

}  // namespace hotslot::cuda
