// Checks every rule of the software CUDA driver once, through the interface that Hotslot uses.
// Usage: cuda_check DRIVER GROUP. Prints each difference from the expected result and returns 1.
// The caller sets the driver's environment.
#include "cuda_check_contexts.hpp"
#include "cuda_check_graphs.hpp"
#include "cuda_check_memory.hpp"
#include "cuda_check_order.hpp"
#include "cuda_check_streams.hpp"
#include "cuda_check_told.hpp"
#include "cuda_check_waits.hpp"

namespace {

void order() {
  enter();
  order_check::Orders(cu, ptx).all();
}

const Scenario groups[] = {
    {"lookups", lookups},
    {"too-old", too_old},
    {"contexts", contexts},
    {"stale-handles", stale_handles},
    {"registrations", registrations},
    {"copies", copies},
    {"streams-and-events", streams_and_events},
    {"kernels", kernels},
    {"sticky", sticky},
    {"captures", captures},
    {"graphs", graphs},
    {"let-go", let_go},
    {"managed", managed},
    {"exclusive", exclusive},
    {"frees-wait", frees_wait},
    {"loads-wait", loads_wait},
    {"queues", queues},
    {"one-queue-each", one_queue_each},
    {"full-queue", full_queue},
    {"pageable", pageable},
    {"pages", pages},
    {"host-memory", host_memory_takes_time},
    {"forks", forks},
    {"slow", slow},
    {"hangs", hangs},
    {"two-devices", two_devices},
    {"limits", limits},
    {"no-device", no_device},
    {"misspelt", misspelt},
    {"injection", injection},
    {"strict", strict},
    {"threads", threads},
    {"order", order},
};

}  // namespace

int main(int count, char** words) {
  if (count != 3) return 2;
  open(words[1], strcmp(words[2], "too-old") != 0);
  return run_group(groups, words[2]);
}
