// The driver's streams and events, and marks that show when their work no longer touches memory.
// Our own capture rules (core/capture.hpp) apply before the driver's. Retired memory is freed once
// no stream can touch it (gpu/retired.hpp).
#pragma once
#include "device/cuda/driver.hpp"

namespace hotslot::cuda {

// The driver's stream. After our stream object is closed, it exists until it is idle and no capture
// refers to it.
class RawStream : public std::enable_shared_from_this<RawStream> {
 public:
  RawStream(CudaDevice& device, int priority);
  ~RawStream();
  RawStream(const RawStream&) = delete;
  // Destroys the driver's stream while this object still exists. Only this ends a capture that the
  // driver failed to end. The caller ensures that no call uses the stream afterward.
  void destroy();
  CudaDevice& device;
  StreamHandle handle = nullptr;
  // A mark after the work that was enqueued before the stream's capture began. The lock of the
  // stream's membership guards it.
  std::shared_ptr<Mark> before_capture;
  // True if a mark queries the stream itself, because the driver could not create an event. The
  // lock of the stream's membership guards this member.
  bool irreplaceable = false;
  // The final status of the stream's work. Events share this status, so they can read it after the
  // stream is destroyed. The atomic also publishes the work's writes.
  const Ref<std::atomic<Status>> final_status =
      std::make_shared<std::atomic<Status>>(status::success);
  // True if the driver failed to end the stream's capture. The driver would record later work of
  // the stream into that capture, and never run it. So the stream then rejects work.
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

// Returns a mark after all work that is enqueued on the stream, or null if that work is done. The
// caller holds the lock of the stream's membership, or no other thread uses the stream.
std::shared_ptr<Mark> mark(RawStream& raw);

}  // namespace hotslot::cuda
