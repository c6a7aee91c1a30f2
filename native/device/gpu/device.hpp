// What devices with a driver of their own do alike: they need no help, ring no bell, and let go of
// lent memory when they can.
#pragma once
#include <time.h>

#include "device/gpu/retired.hpp"
#include "wait/idle_cores.hpp"

namespace hotslot {

class GpuDevice : public Device {
 public:
  GpuDevice(const char* family, int index, Retired& retired)
      : Device(family, index), retired_(retired) {}
  bool help(uint64_t) override { return false; }
  void attend(Bell*) override {}
  void dismiss(Bell*) override {}

  // What is enqueued from now on is refused. What was before has this long; after that the pages
  // stay pinned until it is done.
  void revoke(const Ref<Memory>& memory, uint64_t ns) override {
    memory->revoked.store(true);
    // On a device that is never idle the driver has to wait for what runs.
    constexpr uint64_t patience_ns = 50'000'000;
    const uint64_t begin = now_ns();
    while (!memory->release(now_ns() - begin >= patience_ns)) {
      if (now_ns() - begin >= ns)
        if (auto place = Retired::Place::if_any()) return release_later(memory, std::move(place));
      nap(200'000);
    }
  }

 protected:
  bool do_wait_event(Event& event, uint64_t ns) override {
    // Where the process has cores beside its two busiest threads, one may look without pause for
    // longer.
    static const uint64_t spin_ns = IdleCores::cores() > 2 ? 200'000 : 20'000;
    sleep_exactly();
    const uint64_t begin = now_ns();
    for (;;) {
      if (event.query()) return true;
      const uint64_t waited = now_ns() - begin;
      if (waited >= ns) return false;
      if (waited >= spin_ns) nap(50'000);
    }
  }

 private:
  static void nap(long ns) {
    const timespec time{0, ns};
    nanosleep(&time, nullptr);
  }
  // Again and again: what stands behind it may be new each time.
  void release_later(const Ref<Memory>& memory, Retired::Place place) {
    retired_.add(std::move(place), [this, memory](Retired::Place again) {
      if (!memory->release(true)) release_later(memory, std::move(again));
    });
  }
  Retired& retired_;
};

}  // namespace hotslot
