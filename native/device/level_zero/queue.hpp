// What a stream is to Level Zero: one immediate command list per engine it uses. Where the driver
// keeps no order within a list, each append waits for the point before it; where it does, points
// cost next to nothing.
#pragma once
#include <deque>

#include "device/level_zero/device.hpp"

namespace hotslot::level_zero {

struct GraphRun;

// What a stream is to the driver. It outlives the stream object while a capture holds it, and its
// own last work.
class Queue {
 public:
  static Ref<Queue> open(XpuDevice& device, int priority);
  ~Queue();
  XpuDevice& device;

  // Throws what made the stream fail, however long ago.
  void check();
  void issue(const Work& work, const char* call);
  // To this device, which is all there is.
  void prefetch(const Span& span);
  void advise(const void* at, size_t bytes, MemoryAdvice advice, DeviceHandle about);
  // What comes after waits for it too.
  void wait(const Ref<Point>& point, bool order_only);
  // Behind everything so far; null when there never was anything. `timed`: with the device's clock.
  Ref<Point> record(bool timed);
  // Everything is done; throws when the stream failed.
  bool idle();
  // One run of a graph after `earlier`. `over` becomes the point behind it, `relays` gets one per
  // event that it records; both say what is under way when this throws.
  void replay(GraphRun& run, const std::vector<Memory*>& lent,
              const std::vector<Ref<Point>>& earlier, Ref<Point>& over,
              std::vector<Ref<Point>>& relays);
  void marks(Marks& marks);
  // Forgets what is over.
  void tidy();
  // The driver let go of everything. False: work is still on its way, or the driver says so.
  bool destroyed();
  bool failed();
  // When its stream is gone: another such queue, if there is one.
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
  const bool moves_;  // copies and fills run on an engine of their own; see engine_of
  std::mutex lock_;   // guards what follows; only Points' and kernels' locks are taken under it
  ListHandle lists_[engines]{};
  QueueHandle queue_ = nullptr;  // for closed lists where they cannot be appended
  Engine last_;
  Ref<Point> tail_, relay_tail_;  // behind everything given to the stream; to its relay
  struct Ahead {
    Ref<Point> point;
    bool order_only;  // its failure is nothing to this stream
  };
  std::vector<Ahead> pending_;           // the next append waits for these too
  std::deque<Flight> flights_, relays_;  // in order; what is passed is dropped from the front
  Status failed_ = status::success;      // sticky
  bool told_ = false;                    // that something could not be given back
};

}  // namespace hotslot::level_zero
