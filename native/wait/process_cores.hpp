// Computes the number of cores that this process may use. These are the cores of its affinity,
// limited to the average that its control groups allow.
#pragma once
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace hotslot {

// Calls use(bytes, mask) with the affinity of the process's main thread, because another thread may
// have been bound to fewer cores. Returns false if the system does not report the affinity.
template <class F>
bool with_affinity(F&& use) {
  for (size_t words = 16; words <= 1024; words *= 2) {
    std::vector<unsigned long> mask(words);
    const size_t bytes = words * sizeof mask[0];
    auto* const set = reinterpret_cast<cpu_set_t*>(mask.data());
    if (sched_getaffinity(getpid(), bytes, set) != 0) continue;
    use(bytes, set);
    return true;
  }
  return false;
}

inline int cores_by_affinity() {
  int cores = int(std::thread::hardware_concurrency());
  with_affinity([&cores](size_t bytes, cpu_set_t* set) { cores = CPU_COUNT_S(bytes, set); });
  return std::max(cores, 1);
}

// Allows the calling thread to run on all cores of the process.
inline void use_cores_of_process() {
  with_affinity([](size_t bytes, cpu_set_t* set) { sched_setaffinity(0, bytes, set); });
}

// Returns the smallest limit of a control group and its parents, rounded down to whole cores, or 0
// if there is no limit. `listed` (/proc/self/cgroup) names the group, and `mounted` is the root of
// all groups. In a container, `mounted` is the group itself, whatever path is listed.
//
// Version 2 of control groups has quota and period in cpu.max, and version 1 has a file for each.
inline int cores_by_group(const std::string& listed, const std::string& mounted) {
  double least = 0;
  const auto limit = [&least](double quota, double period) {
    if (quota > 0 && period > 0 && (least == 0 || quota / period < least)) least = quota / period;
  };
  std::ifstream lines(listed);
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (!controllers.empty() && ("," + controllers + ",").find(",cpu,") == std::string::npos)
      continue;
    for (std::string path = line.substr(second + 1);; path.resize(path.rfind('/'))) {
      double quota = 0, period = 0;
      if (controllers.empty()) {
        if (std::ifstream(mounted + path + "/cpu.max") >> quota >> period)
          limit(quota, period);  // "max" means no limit, and reading it as a number fails
      } else {
        // Version 1 names a folder after its controllers, in any order. Each controller also has a
        // link with its own name, so this tries both names.
        for (const std::string& name : {controllers, std::string("cpu")}) {
          const std::string group = mounted + "/" + name + path;
          if (std::ifstream(group + "/cpu.cfs_quota_us") >> quota &&
              std::ifstream(group + "/cpu.cfs_period_us") >> period)
            limit(quota, period);
        }
      }
      if (path.rfind('/') == std::string::npos) break;
    }
  }
  return least == 0 ? 0 : int(std::clamp(least, 1.0, 1e6));
}

inline int process_cores() {
  const int all = cores_by_affinity(), some = cores_by_group("/proc/self/cgroup", "/sys/fs/cgroup");
  return some == 0 ? all : std::min(all, some);
}

}  // namespace hotslot
