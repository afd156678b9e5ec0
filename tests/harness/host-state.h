// A snapshot of the state of the host that a node must not change: kernel parameters, addresses and
// routes, mounts, modules, limits of cgroups, the clock.
//
// Counters are left out. Only those parameters and limits are compared that exist before and after:
// other programs create and remove cgroups meanwhile.
#pragma once

#include <kj/common.h>

#include <map>
#include <string>
#include <vector>

namespace talos {

struct HostState {
  std::map<std::string, std::string> parameters;  // below /proc/sys, by path
  std::map<std::string, std::string> limits;      // of cgroups, by path
  std::vector<std::string> network;               // addresses and routes, of all tables
  std::vector<std::string> mounts;                // of this mount namespace, with their options
  std::vector<std::string> modules;
  double clockMinusUptime = 0;  // seconds: jumps when a program sets the clock
  long tick = 0;                // of the clock, as adjtimex(2) has it

  static HostState now();
};

// Returns a line for each difference; empty if nothing changed.
std::vector<std::string> differences(const HostState& before, const HostState& after);

// Fails the test at its end if the host has changed since its beginning. Modules are left out,
// because the host's kernel loads them for any cluster (talosctl/cluster/containers/host-check.h);
// limits of cgroups, too, because clusters of other tests set theirs.
class HostUnchanged {
 public:
  HostUnchanged() : before(HostState::now()) {}
  ~HostUnchanged();
  KJ_DISALLOW_COPY_AND_MOVE(HostUnchanged);

 private:
  HostState before;
};

}  // namespace talos
