// What a node in a container must not change of its host, as it is at one moment: kernel
// parameters, mounts, modules, limits of cgroups, the clock.
//
// Left out is what changes by itself (counters) and what others make and remove meanwhile (their
// cgroups): only what was there before and after is compared.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace talos {

struct HostState {
  std::map<std::string, std::string> parameters;  // below /proc/sys, by path
  std::map<std::string, std::string> limits;      // of cgroups, by path
  std::vector<std::string> mounts;                // of this mount namespace, with their options
  std::vector<std::string> modules;
  double clockMinusUptime = 0;  // seconds: jumps when somebody sets the clock
  long tick = 0;                // of the clock, as adjtimex(2) has it

  static HostState now();
};

// One line for each thing that is not as it was; empty when nothing changed.
std::vector<std::string> differences(const HostState& before, const HostState& after);

}  // namespace talos
