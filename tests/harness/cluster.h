// A local cluster of virtual machines for tests: made by `talosctl cluster create`, removed with
// the object. All its files are in a separate folder below /tmp; the user's ~/.talos is not
// touched.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/harness/process.h"

namespace talos::harness {

// Seconds for a boot of a virtual machine in emulation beside any other load.
constexpr double kBoots = 480;

class Cluster {
 public:
  static constexpr const char* kFirst = "10.5.0.2";

  // Throws with talosctl's output and the ends of the consoles if the cluster does not come up.
  explicit Cluster(const std::string& name,
                   const std::vector<std::string>& createFlags = {"--masters", "1", "--workers",
                                                                  "0", "--memory", "512"},
                   double deadlineSeconds = 600);
  ~Cluster();
  Cluster(const Cluster&) = delete;

  // Runs talosctl with this cluster's configuration; without -n it calls the talosconfig's nodes.
  Result talosctl(std::vector<std::string> arguments, double deadlineSeconds = 60) const;
  std::vector<std::string> command(std::vector<std::string> arguments) const;
  // Fails the test if the exit status is not 0; returns stdout.
  std::string ok(std::vector<std::string> arguments, double deadlineSeconds = 60) const;

  // Returns true if this node (by default the first) has finished its boot sequence, in this boot.
  bool booted(const std::string& node = kFirst) const;

  const std::string& folder() const { return scratch; }
  std::string stateFolder() const { return scratch + "/clusters/" + name; }
  std::string talosconfig() const { return scratch + "/talosconfig"; }
  std::string console(const std::string& node) const;  // its output so far
  const Result& creation() const { return created; }

  // Returns the loopback address that leads to a node's port 50000.
  std::string endpoint(const std::string& node = kFirst) const;

  // Returns the process that owns the cluster's network namespace.
  pid_t supervisor() const;

  // Returns the main process of the node of this name: a container's process 1, or QEMU.
  pid_t process(const std::string& nodeName) const;

  // Returns the process of a node in a container whose program has this name ("vipd",
  // "kube-apiserver"), in any container of the node; 0 if none runs.
  pid_t program(const std::string& nodeName, const std::string& program) const;

  // Returns the address whose etcd reports that it leads; empty if none does.
  std::string etcdLeader(const std::vector<std::string>& addresses) const;

  // Deletes all data on EPHEMERAL of a node in a container, which must be off; its config stays.
  void erase(const std::string& nodeName) const;

  // Deletes STATE as well, so that the node starts as a new one.
  void eraseAll(const std::string& nodeName) const;

  // Sets machine.token in the config with which a node without STATE starts. Throws if the config
  // lacks the key.
  void setJoinToken(const std::string& nodeName, const std::string& token) const;

  // Returns for every service that the node lists its main process in the node; 0 if it does not
  // run.
  std::map<std::string, int> pidsOfServices(const std::string& node = kFirst) const;

  // Returns the main process of each service, 0 if it does not run; "machined" is the brain.
  std::map<std::string, int> servicePids(const std::string& node = kFirst) const;

 private:
  std::string name, scratch;
  Result created;
};

// Returns true if every service in a table of `talosctl services` is Running and healthy, or
// without a health check. An etcd that waits for its bootstrap, and a kubelet, whose image most
// tests do not have, count as up.
bool allServicesUp(const std::string& table);

// Returns the talosctl under test: $TALOSCTL, set by ctest.
std::string talosctlPath();

// Makes the files of `make symbols` for the build under test, by the script of this checkout, and
// returns their folder.
std::string madeSymbols(const std::string& checkout);

}  // namespace talos::harness
