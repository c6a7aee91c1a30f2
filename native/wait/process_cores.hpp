// How many cores this process may use: those of its affinity, and no more than a limit of its control groups lets it
// use on average.
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

// Of the process's main thread; a thread may have been bound to fewer.
inline int cores_by_affinity() {
  for (size_t words = 16; words <= 1024; words *= 2) {
    std::vector<unsigned long> mask(words);
    const size_t bytes = words * sizeof mask[0];
    if (sched_getaffinity(getpid(), bytes, reinterpret_cast<cpu_set_t*>(mask.data())) != 0) continue;
    return std::max(CPU_COUNT_S(bytes, reinterpret_cast<cpu_set_t*>(mask.data())), 1);
  }
  return std::max(int(std::thread::hardware_concurrency()), 1);
}

// The whole cores in the smallest limit of the group that `listed` (/proc/self/cgroup) names and of those above it;
// 0: no limit. Version 2 has both numbers in cpu.max, version 1 has a file for each. In a container the root of
// `mounted` is the group itself, whatever path is listed.
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
    if (!controllers.empty() && ("," + controllers + ",").find(",cpu,") == std::string::npos) continue;
    for (std::string path = line.substr(second + 1);; path.resize(path.rfind('/'))) {
      const std::string group = mounted + (controllers.empty() ? "" : "/" + controllers) + path;
      double quota = 0, period = 0;
      if (std::ifstream(group + "/cpu.max") >> quota >> period) limit(quota, period);  // "max": there is none
      if (std::ifstream(group + "/cpu.cfs_quota_us") >> quota && std::ifstream(group + "/cpu.cfs_period_us") >> period)
        limit(quota, period);
      if (path.rfind('/') == std::string::npos) break;
    }
  }
  return least == 0 ? 0 : std::max(int(least), 1);
}

inline int process_cores() {
  const int all = cores_by_affinity(), some = cores_by_group("/proc/self/cgroup", "/sys/fs/cgroup");
  return some == 0 ? all : std::min(all, some);
}

}  // namespace hotslot
