// The implementation of a stream for Level Zero: one immediate command list per engine it uses. If
// the driver keeps no order within a list, each append waits for the point before it. If it does,
// points cost next to nothing.
#pragma once
#include <deque>

#include "device/level_zero/device.hpp"

namespace hotslot::level_zero {

struct GraphRun;

// A stream in the driver. It outlives the stream object while a capture holds it and until its own
// last work is done.
class Queue {
 public:
  static Ref<Queue> open(XpuDevice& device, int priority);
  ~Queue();
  XpuDevice& device;

  // Throws the error that made the stream fail, at any time after it.
  void check();
  void issue(const Work& work, const char* call);
  // Prefetches to this device, the only target that Level Zero supports.
  void prefetch(const Span& span);
  void advise(const void* at, size_t bytes, MemoryAdvice advice, DeviceHandle about);
  // Makes later work wait for the point too.
  void wait(const Ref<Point>& point, bool order_only);
  // Returns a point after all work so far, or null if there never was any. `timed`: with the
  // device's clock.
  Ref<Point> record(bool timed);
  // Returns whether all work is done. Throws if the stream failed.
  bool idle();
  // Enqueues one run of a graph after `earlier`. `over` becomes the point after it, and `relays`
  // gets one point per event that it records. If this throws, both hold the points of enqueued
  // work.
  void replay(GraphRun& run, const std::vector<Memory*>& lent,
              const std::vector<Ref<Point>>& earlier, Ref<Point>& over,
              std::vector<Ref<Point>>& relays);
  void marks(Marks& marks);
  // Forgets points that are done.
  void tidy();
  // Returns true when the driver has freed all objects, and false while work is running or the
  // driver still uses an object.
  bool destroyed();
  bool failed();
  // After its stream is closed: the next such queue, if there is one.
  std::unique_ptr<Queue> next_departed;

 private:
  enum Engine { compute, copies, relay, engines };
  struct Flight {
    Ref<Point> point;
    std::vector<Ref<Point>> waits;
  };
  Queue(XpuDevice& device, int priority);
  ListHandle list(Engine engine);
  Engine engine_of(const Work& work) const;
  std::vector<Ref<Point>> ahead(Engine engine);
  using Call =
      std::function<void(ListHandle list, EventHandle signal, uint32_t count, EventHandle* waits)>;
  Ref<Point> append(Engine engine, bool timed, std::vector<Ref<Point>> waits, EventHandle inner,
                    const Call& call);
  Ref<Point> barrier(Engine engine, bool timed, std::vector<Ref<Point>> waits,
                     EventHandle inner = nullptr);
  template <class F>
  void eventless(F&& call);
  Ref<Point> renew(GraphRun& run);
  void run_beside(GraphRun& run, Ref<Point>& over);
  void sweep(std::deque<Flight>& flights, size_t most);
  void check_locked();
  void note(Status status);
  template <class H>
  bool destroy(const char* call, Status (*function)(H), H& handle);

  const int priority_;
  const bool moves_;  // copies and fills run on the copy engine; see engine_of
  std::mutex lock_;   // guards the fields below; only Points' and kernels' locks are taken under it
  ListHandle lists_[engines]{};
  QueueHandle queue_ = nullptr;  // for closed lists if they cannot be appended
  Engine last_;
  Ref<Point> tail_, relay_tail_;  // after all work of the stream; of its relay
  struct Ahead {
    Ref<Point> point;
    bool order_only;  // its failure does not fail this stream
  };
  std::vector<Ahead> pending_;           // the next append waits for these too
  std::deque<Flight> flights_, relays_;  // in order; passed points are dropped from the front
  Status failed_ = status::success;      // sticky
  bool reported_ = false;                // a failure to free an object was reported
};

}  // namespace hotslot::level_zero
