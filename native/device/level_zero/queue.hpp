// The implementation of a stream for Level Zero. It has one immediate command list for each engine
// that it uses. If the driver keeps no order within a list, each append waits for the point before
// it. If the driver keeps the order, points cost almost nothing.
#pragma once
#include <deque>

#include "device/level_zero/device.hpp"

namespace hotslot::level_zero {

struct GraphRun;

// A stream in the driver. After the stream object is closed, the queue exists until no capture
// refers to it and its last work is done.
class Queue {
 public:
  static Ref<Queue> open(XpuDevice& device, int priority);
  ~Queue();
  XpuDevice& device;

  // Throws the stream's error if the stream has failed.
  void check();
  void issue(const Work& work, const char* call);
  // Prefetches to this device, because Level Zero supports no other target.
  void prefetch(const Span& span);
  void advise(const void* at, size_t bytes, MemoryAdvice advice, DeviceHandle about);
  // Makes later work wait for the point, in addition to earlier waits.
  void wait(const Ref<Point>& point, bool order_only);
  // Returns a point after all work so far, or null if the stream never had work. With `timed`, the
  // point records the device's clock.
  Ref<Point> record(bool timed);
  // Returns whether all work is done. Throws if the stream failed.
  bool idle();
  // Enqueues one run of a graph after the points `earlier`. `over` becomes the point after the run.
  // `relays` receives a point for each event that the run records. If replay() throws, `over` and
  // `relays` contain the points of the work that was enqueued before.
  void replay(GraphRun& run, const std::vector<Memory*>& lent,
              const std::vector<Ref<Point>>& earlier, Ref<Point>& over,
              std::vector<Ref<Point>>& relays);
  void marks(Marks& marks);
  // Drops the references to points that are done.
  void tidy();
  // Frees the driver's objects of a closed stream. Returns true after all are freed, and false
  // while work runs or the driver uses an object.
  bool destroyed();
  bool failed();
  // For a closed stream: the next queue in the list of departed queues, or null.
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
  const bool moves_;  // whether copies and fills run on the copy engine (see engine_of)
  std::mutex lock_;   // guards the fields below; only Points' and kernels' locks are taken after it
  ListHandle lists_[engines]{};
  QueueHandle queue_ = nullptr;  // runs closed lists that cannot be appended
  Engine last_;
  Ref<Point> tail_, relay_tail_;  // after all work of the stream; after all work of its relay
  struct Ahead {
    Ref<Point> point;
    bool order_only;  // whether the point's failure does not affect this stream
  };
  std::vector<Ahead> pending_;           // the next append also waits for these points
  std::deque<Flight> flights_, relays_;  // in order; passed points are removed from the front
  Status failed_ = status::success;      // never reset after a failure
  bool reported_ = false;                // whether a failure to free an object was reported
};

}  // namespace hotslot::level_zero
