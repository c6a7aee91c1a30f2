// Level Zero's streams and events.
#pragma once
#include "device/level_zero/queue.hpp"

namespace hotslot::level_zero {

class XpuEvent final : public Event {
 public:
  XpuEvent(XpuDevice& device, bool timing) : Event(device, timing), device_(device) {}

 protected:
  bool do_query() override;
  std::optional<double> do_elapsed_ms(Event& start) override;

 private:
  friend class XpuStream;
  Ref<Point> latest();
  XpuDevice& device_;
  Ref<Point> latest_;  // guarded by the mark's lock; null: the event counts as done
};

class XpuStream final : public Stream {
 public:
  XpuStream(XpuDevice& device, int priority) : XpuStream(device, Queue::open(device, priority)) {}

 protected:
  void do_prepare(Work& work, const char* call) override;
  void do_check(const char* call) override;
  void do_work(Work&& work, const char* call) override;
  void do_record(Event& event) override;
  void do_wait(Event& event, bool order_only) override;
  void do_replay(const Ref<Exec>& exec) override;
  void do_prefetch(const Span& span, int device) override;
  bool do_query() override;
  Ref<Graph> do_end_capture(const Ref<Capture>& capture,
                            const std::vector<Ref<CaptureMembership>>& unjoined) override;

 private:
  XpuStream(XpuDevice& device, const Ref<Queue>& queue)
      : Stream(device, queue), device_(device), queue_(queue) {}
  XpuDevice& device_;
  const Ref<Queue> queue_;
};

}  // namespace hotslot::level_zero
