// CUDA's and ROCm's events.
#include "device/cuda/stream.hpp"

namespace hotslot::cuda {

void CudaEvent::note(const Ref<RawStream>& stream, std::shared_ptr<RawEvent> behind) {
  on_ = stream;
  behind_ = std::move(behind);
  final_status_ = stream->final_status;
  done_ = false;
}

bool CudaEvent::do_query() {
  if (done_) return true;
  const Driver& driver = raw_.device.driver;
  Status got = status::success;
  if (const auto on = on_.lock()) {
    if (!driver.may_poll()) return false;
    const Enter enter(driver, raw_.device.context);
    const RelaxedCaptureMode relaxed(driver);
    got = driver.call.event_query(behind_ ? behind_->handle : raw_.handle);
  } else {
    got = final_status_->load();
  }
  if (got == status::not_ready) return false;
  if (got != status::success) driver.refuse(driver.call.event_query.name, got);
  done_ = true;
  return true;
}

// Returns nullopt if the driver reports that one of the events is not done. The function does not
// query the events first, because queries are not always allowed (see may_poll).
std::optional<double> CudaEvent::do_elapsed_ms(Event& start) {
  const Driver& driver = raw_.device.driver;
  const Enter enter(driver, raw_.device.context);
  const RelaxedCaptureMode relaxed(driver);
  float ms = 0;
  const Status got =
      driver.call.event_elapsed_time(&ms, static_cast<CudaEvent&>(start).raw_.handle, raw_.handle);
  if (got == status::not_ready) return {};
  if (got != status::success) driver.refuse(driver.call.event_elapsed_time.name, got);
  return double(ms);
}

}  // namespace hotslot::cuda
