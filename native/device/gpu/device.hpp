// The part that all devices with their own driver share: they need no help, ring no bell, and
// release lent memory when they can.
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

  // Makes later work on the memory fail. Work enqueued before has `ns` to end. After that the pages
  // stay pinned until it is done.
  void revoke(const Ref<Memory>& memory, uint64_t ns) override {
    memory->revoked.store(true);
    // On a device that is never idle the driver has to wait for running work.
    constexpr uint64_t patience_ns = 50'000'000;
    const uint64_t begin = now_ns();
    while (!memory->release(now_ns() - begin >= patience_ns)) {
      if (now_ns() - begin >= ns)
        if (auto place = Retired::Reservation::if_any())
          return release_later(memory, std::move(place));
      nap(200'000);
    }
  }

 protected:
  bool do_wait_event(Event& event, uint64_t ns) override {
    // If the process has more than two cores, for its two busiest threads, this may spin for
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
  // Tries to release the memory repeatedly, because new work may have been enqueued each time.
  void release_later(const Ref<Memory>& memory, Retired::Reservation place) {
    retired_.add(std::move(place), [this, memory](Retired::Reservation again) {
      if (!memory->release(true)) release_later(memory, std::move(again));
    });
  }
  Retired& retired_;
};

}  // namespace hotslot
