// A local cluster of virtual machines for tests: made by `talosctl cluster create`, gone with the
// object. All its files are in a folder of its own below /tmp; the user's ~/.talos is not touched.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/harness/process.h"

namespace talos::harness {

// Seconds, of a boot of a virtual machine in emulation beside whatever else runs.
constexpr double kBoots = 480;

class Cluster {
 public:
  static constexpr const char* kFirst = "10.5.0.2";

  // Throws with talosctl's output and the ends of the consoles when the cluster does not come up.
  explicit Cluster(const std::string& name,
                   const std::vector<std::string>& createFlags = {"--masters", "1", "--workers",
                                                                  "0", "--memory", "512"},
                   double deadlineSeconds = 600);
  ~Cluster();
  Cluster(const Cluster&) = delete;

  // talosctl with this cluster's configuration; no -n means the nodes of the talosconfig.
  Result talosctl(std::vector<std::string> arguments, double deadlineSeconds = 60) const;
  std::vector<std::string> command(std::vector<std::string> arguments) const;
  // Fails the test when the exit status is not 0; returns stdout.
  std::string ok(std::vector<std::string> arguments, double deadlineSeconds = 60) const;

  // True when this node (by default the first one) has finished its boot sequence, in this boot.
  bool booted(const std::string& node = kFirst) const;

  const std::string& folder() const { return scratch; }
  std::string stateFolder() const { return scratch + "/clusters/" + name; }
  std::string talosconfig() const { return scratch + "/talosconfig"; }
  std::string console(const std::string& node) const;  // what it wrote so far
  const Result& creation() const { return created; }

  // The loopback address that leads to a node's port 50000.
  std::string endpoint(const std::string& node = kFirst) const;

  // The process that owns the cluster's network namespace.
  pid_t supervisor() const;

  // The main process of the node of this name: a container's process 1, or QEMU.
  pid_t process(const std::string& nodeName) const;

  // The process of a node in a container whose program has this name ("vipd", "kube-apiserver"),
  // whatever container of the node it is in; 0 when none runs.
  pid_t program(const std::string& nodeName, const std::string& program) const;

  // The one of these addresses whose etcd reports that it leads; empty: none is known.
  std::string etcdLeader(const std::vector<std::string>& addresses) const;

  // All that a node in a container has on EPHEMERAL, while it is off; its config stays.
  void erase(const std::string& nodeName) const;

  // Of every service that the node lists, its main process in the node; 0: it does not run.
  std::map<std::string, int> pidsOfServices(const std::string& node = kFirst) const;

  // Main process of a service, 0 when it does not run; "machined" is the brain.
  std::map<std::string, int> servicePids(const std::string& node = kFirst) const;

 private:
  std::string name, scratch;
  Result created;
};

// True when every service in a table of `talosctl services` is Running and healthy, or without a
// health check. An etcd that waits for its bootstrap, and a kubelet, whose image most tests do not
// have, count as up.
bool allServicesUp(const std::string& table);

// The talosctl under test: $TALOSCTL, set by ctest.
std::string talosctlPath();

// The folder with what `make symbols` makes of the build under test, by the script of this
// checkout.
std::string madeSymbols(const std::string& checkout);

}  // namespace talos::harness
