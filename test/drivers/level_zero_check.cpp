// Calls the Level Zero software driver through the vendor's loader, correctly and with mistakes.
// Each process runs one scenario, which its argument names, because the loader and the driver read
// the environment once. Prints each failed check and returns 1.
#include "level_zero_check_kernels.hpp"
#include "level_zero_check_lists.hpp"
#include "level_zero_check_memory.hpp"
#include "level_zero_check_mistakes.hpp"
#include "level_zero_check_newer.hpp"
#include "level_zero_check_order.hpp"

namespace {

const Scenario scenarios[] = {
#define SCENARIO(name) \
  { #name, name }
    SCENARIO(basics),      SCENARIO(unordered), SCENARIO(lists),     SCENARIO(kernels),
    SCENARIO(validation),  SCENARIO(mistakes),  SCENARIO(injection), SCENARIO(peers),
    SCENARIO(storm),       SCENARIO(image),     SCENARIO(touch),     SCENARIO(strict),
    SCENARIO(modern),      SCENARIO(twice),     SCENARIO(imports),   SCENARIO(graphs),
    SCENARIO(listed_only), SCENARIO(shared),    SCENARIO(ordered),
};

}  // namespace

int main(int count, char** arguments) {
  // If a wake is lost, the process hangs. The alarm ends it.
  alarm(60);
  return run_scenario(scenarios, count > 1 ? arguments[1] : "");
}
