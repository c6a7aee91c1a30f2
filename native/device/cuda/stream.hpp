// CUDA's and ROCm's streams and events.
#pragma once
#include "device/cuda/device.hpp"
#include "device/cuda/raw.hpp"

namespace hotslot::cuda {

class CudaEvent final : public Event {
 public:
  CudaEvent(CudaDevice& device, bool timing) : Event(device, timing), raw_(device, timing) {}

 protected:
  bool do_query() override;
  std::optional<double> do_elapsed_ms(Event& start) override;

 private:
  friend class CudaStream;
  friend class CudaExec;
  // Notes that the event was recorded on this stream, outside captures or by a replay. The caller
  // holds the lock of `capture_mark`.
  //
  // `behind` is null, or the event after the replay. If it is not null, queries and waits use
  // `behind`, because the driver reports events of graphs too early.
  void note(const Ref<RawStream>& stream, std::shared_ptr<RawEvent> behind = nullptr);
  // The stream of the last record. If it is destroyed, it was idle, so the record is done. `done_`
  // is true after a query has found the record done. The lock of `capture_mark` guards these
  // members.
  std::weak_ptr<RawStream> on_;
  Ref<std::atomic<Status>> final_status_;
  bool done_ = false;
  std::shared_ptr<RawEvent> behind_;
  RawEvent raw_;
};

class CudaStream final : public Stream {
 public:
  CudaStream(CudaDevice& device, int priority);
  ~CudaStream() override;
  StreamHandle handle() const { return raw_->handle; }
  const Ref<RawStream>& raw() const { return raw_; }

 protected:
  void do_prepare(Work& work, const char* call) override;
  void do_prepare_capture() override;
  void do_check(const char* call) override;
  void do_work(Work&& work, const char* call) override;
  void do_record(Event& event) override;
  void do_wait(Event& event, bool order_only) override;
  void do_replay(const Ref<Exec>& exec) override;
  void do_prefetch(const Span& span, int device) override;
  bool do_query() override;
  void do_captured_work(const Work& work, const char* call) override;
  void do_captured_record(Event& event) override;
  void do_captured_wait(Event& event, bool joins) override;
  void do_begin_capture(Capture& capture) override;
  Ref<Graph> do_end_capture(const Ref<Capture>& capture,
                            const std::vector<Ref<CaptureMembership>>& unjoined) override;
  void do_capture_over() override;

 private:
  CudaStream(CudaDevice& device, const Ref<RawStream>& raw);
  void require_reachable(const Span& span, const char* call) const;
  void stage(Work& work);
  void issue(const Work& work);
  void issue_copy(const Span& to, const Span& from);
  void issue_fill(const Work& work);
  void issue_kernel(const Work& work);
  // The kinds of memory for which the driver has different copy functions.
  enum class Side : uint8_t { here, peer, host, managed };
  Side side_of(const Span& span) const;
  Ref<Memory> workspace();
  void run(const Kernel& kernel, const KernelArgs& args, const std::vector<DevicePtr>& pointers,
           const Reach& output);

  CudaDevice& device_;
  Driver& driver_;
  Ref<RawStream> raw_;
  std::mutex workspace_lock_;
  Ref<Memory> workspace_, captured_workspace_;
  std::weak_ptr<Capture> workspace_of_;
};

}  // namespace hotslot::cuda
