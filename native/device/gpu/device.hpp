// The part of Device that all devices with their own driver share. Such a device runs its work
// without help from threads, and rings no bell when work is done. revoke() waits for the work on
// lent host memory, then releases the memory.
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

  // Makes later work on the memory fail. Waits up to `ns` for the work that is enqueued already. If
  // that work takes longer, the memory's pages stay pinned until that work is done.
  void revoke(const Ref<Memory>& memory, uint64_t ns) override {
    memory->revoked.store(true);
    // After `patience_ns` the driver unpins the pages even if other work runs, and blocks until
    // that work is done. Otherwise the memory would stay pinned on a device that is never idle.
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
    // How long this thread queries the event before it sleeps between queries. With more than two
    // cores this time is longer, because a core is then left for each of the two busiest threads.
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
  // After all work that is enqueued so far, tries to release the memory. If that fails, tries again
  // after all work that is enqueued by then.
  void release_later(const Ref<Memory>& memory, Retired::Reservation place) {
    retired_.add(std::move(place), [this, memory](Retired::Reservation again) {
      if (!memory->release(true)) release_later(memory, std::move(again));
    });
  }
  Retired& retired_;
};

}  // namespace hotslot
