// Changes of a node's config, harmful and good, with parameters that are drawn from a seed, and how
// to tell what became of them.
//
// A harmful change has the reasons with which the node may go back: the duty that fails. A good one
// has a command that shows its effect. Where a change is made: a node in a container has the kernel
// of its host, without bonds, VLANs, disks and boot entries, so kinds that need them are for
// machines alone.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tests/harness/draw.h"

namespace talos::changes {

// The parameters of one change.
using harness::Draw;

struct Place {
  std::string address, client;      // the client's address, as the node sees it
  std::vector<std::string> others;  // addresses of the other members of etcd
};

struct Change {
  std::string patch;                 // as `talosctl patch mc -p` takes it; empty: the first config
  bool onFirst = false;              // made on the first config: others may change its meaning
  bool reboots = false;              // takes effect with a reboot
  bool cutsOff = false;              // only a client that calls notices the harm
  std::vector<std::string> reasons;  // of a harmful one: one of them is in the reason
  std::vector<std::string> shows;    // of a good one: a command of talosctl
  std::string shown;                 // and what it prints
};

// The nodes on which a kind of change is made.
enum Nodes : unsigned {
  kLone = 1,     // the only control-plane node
  kTrio = 2,     // one of three control-plane nodes
  kWorker = 4,   // a worker without Kubernetes
  kMachine = 8,  // a virtual machine
  kKube = 16,    // the only control-plane node, with Kubernetes
  kKubeWorker = 32,
};

struct Kind {
  const char* name;
  unsigned on;  // Nodes
  Change (*draw)(Draw& draw, const Place& place);
};
std::span<const Kind> harmfulKinds();
std::span<const Kind> goodKinds();
// Returns the kinds that can be made on one of these nodes.
std::vector<const Kind*> kindsOn(unsigned nodes, bool harmful);

// Parts of patches: a document; an entry of the link that the launcher of a container has
// configured, and that its first config ignores; an argument of etcd; a firewall that is closed but
// for these rules, and a rule.
std::string document(const std::string& kind, const std::string& rest);
std::string ofLink(const Place& place, const std::string& rest);
std::string ofEtcd(const std::string& argument, const std::string& value);
std::string blocked(const std::string& rules);
std::string rule(const std::string& name, const std::string& ports, const std::string& from);

// How a change is applied.
struct Way {
  std::string mode;  // no-reboot, auto, reboot, staged (which a reboot follows)
  bool wait = false;
};
Way drawWay(Draw& draw, const Change& change);

}  // namespace talos::changes
