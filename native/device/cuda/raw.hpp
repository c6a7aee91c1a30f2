// The driver's streams and events, and marks that show when they no longer touch memory. Our own
// capture rules (core/capture.hpp) come before the driver's. Retired memory is freed once no stream
// can touch it (gpu/retired.hpp).
#pragma once
#include "device/cuda/driver.hpp"

namespace hotslot::cuda {

// The driver's stream. It outlives our stream object until it is idle, or until a capture that
// holds it has ended.
class RawStream : public std::enable_shared_from_this<RawStream> {
 public:
  RawStream(CudaDevice& device, int priority);
  ~RawStream();
  RawStream(const RawStream&) = delete;
  // Destroys the stream early if its capture can only end with it. No call uses the stream
  // afterward.
  void destroy();
  CudaDevice& device;
  StreamHandle handle = nullptr;
  // A mark after the work that was enqueued when its capture began. Guarded by its membership's
  // lock.
  std::shared_ptr<Mark> before_capture;
  // A mark queries the stream itself, because no event could be made. Guarded likewise.
  bool irreplaceable = false;
  // Final status of the stream's work. Events share it, so they can read it after the stream is
  // destroyed. The atomic also publishes the work's writes.
  const Ref<std::atomic<Status>> final_status =
      std::make_shared<std::atomic<Status>>(status::success);
  // The driver did not end its capture, and enqueued work would vanish in it.
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

// Returns a mark after all work enqueued on the stream, or null if that work is done. Under its
// membership's lock, or when no other thread has the stream.
std::shared_ptr<Mark> mark(RawStream& raw);

}  // namespace hotslot::cuda
