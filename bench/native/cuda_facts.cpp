// Runs the parts of cuda_facts.hpp. Each runs in a process that opens the driver itself. So a crash
// or the loss of the device in one part does not affect the others.
#include "cuda_facts.hpp"

#include <sys/wait.h>
#include <unistd.h>

namespace raw {
namespace {

struct Part {
  const char* name;
  void (*tell)(const Rig&, Json&);
};

// The part that loses the device is the last.
constexpr Part parts[] = {
    {"loading", loading},
    {"firsts", firsts},
    {"waiting", waiting},
    {"products", products},
    {"synchronizing", synchronizing},
    {"marks", marks},
    {"events", events},
    {"registering", registering},
    {"capturing", capturing},
    {"managed", managed},
    {"holding", holding},
    {"losing", losing},
};

std::string end_of(int how) {
  if (WIFSIGNALED(how)) return "signal " + std::to_string(WTERMSIG(how));
  return WEXITSTATUS(how) == 0 ? "ok" : "status " + std::to_string(WEXITSTATUS(how));
}

}  // namespace

// Runs the chosen parts, or all if `chosen` is empty. Ends a part after `seconds`, or never if that
// is 0. Returns how many parts did not end normally.
int facts(int index, unsigned seconds, const std::vector<std::string>& chosen) {
  for (const std::string& each : chosen)
    if (std::none_of(std::begin(parts), std::end(parts),
                     [&](const Part& part) { return each == part.name; }))
      fail("there is no part " + each);
  const char* connections = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  Json("setting").text("CUDA_DEVICE_MAX_CONNECTIONS", connections ? connections : "");
  int lost = 0;
  for (const Part& part : parts) {
    if (!chosen.empty() && std::find(chosen.begin(), chosen.end(), part.name) == chosen.end())
      continue;
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child < 0) fail("no process for a part");
    if (child == 0) {
      alarm(seconds);
      const Rig rig{index};
      Json json(part.name);
      json.text("device", rig.name).number("cuda", rig.version);
      part.tell(rig, json);
      std::fflush(nullptr);
      // Skips the driver's exit handlers, which may hang after the context was lost.
      _exit(0);
    }
    int how = 0;
    waitpid(child, &how, 0);
    Json(part.name).text("end", end_of(how));
    lost += end_of(how) != "ok";
  }
  return lost;
}

}  // namespace raw
