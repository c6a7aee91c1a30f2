// The driver's streams and events, and marks that tell when memory is free of them. Capture rules
// are ours (core/capture.hpp) and come before the driver's; memory that is let go is freed once no
// stream can touch it (gpu/retired.hpp).
#pragma once
#include "device/cuda/driver.hpp"

namespace hotslot::cuda {

// The driver's stream. It outlives our stream object until it is idle, or a capture that holds it
// is over.
class RawStream : public std::enable_shared_from_this<RawStream> {
 public:
  RawStream(CudaDevice& device, int priority);
  ~RawStream();
  RawStream(const RawStream&) = delete;
  // Before its end, when its capture can only go with it; nothing reaches the driver through it any
  // more.
  void destroy();
  CudaDevice& device;
  StreamHandle handle = nullptr;
  // Behind what the stream had been given when its capture began; guarded by its membership's lock.
  std::shared_ptr<Mark> before_capture;
  // A mark asks the stream itself, because no event was to be had; guarded likewise.
  bool irreplaceable = false;
  // Final status of the stream's work. Events share it, so they can read it after the stream is
  // destroyed; the atomic also publishes what the work wrote.
  const Ref<std::atomic<Status>> final_status =
      std::make_shared<std::atomic<Status>>(status::success);
  // The driver would not end its capture: what is enqueued would vanish in there.
  std::atomic<bool> capture_stuck{false};

 private:
  std::atomic<bool> destroyed_{false};
};

class RawEvent {
 public:
  RawEvent(CudaDevice& device, bool timing);
  ~RawEvent();
  RawEvent(const RawEvent&) = delete;
  CudaDevice& device;
  EventHandle handle = nullptr;
};

// A mark behind what the stream has been given; null when nothing of it runs any more. Under its
// membership's lock, or when no other thread knows the stream.
std::shared_ptr<Mark> mark(RawStream& raw);

}  // namespace hotslot::cuda
