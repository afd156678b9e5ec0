// Faults that a test puts into a cluster of Kubernetes on purpose, and the words of `diagnose` that
// name each.
//
// Each illness is a single cause: it is made, `talosctl diagnose` names it first, another command
// shows it, and it is undone; then the cluster is well again. A Patient restores what it was asked
// to change; an illness has an `undo` of its own only for changes made past it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/harness/web.h"
#include "tests/kubernetes/kube-cluster.h"

namespace talos {

class Patient {
 public:
  explicit Patient(const KubeCluster& cluster);

  const KubeCluster& cluster;
  const KubeNode &master, &worker;  // the first and the last node

  harness::Result talosctl(const KubeNode& node, std::vector<std::string> arguments) const;
  harness::Result diagnose(const std::vector<std::string>& flags = {}) const;

  // --- changes that restore() takes back
  void patch(const KubeNode& node, const std::string& patch);
  void apply(const std::string& objects);
  void keep(const std::string& kind, const std::string& name);  // of kube-system, as it is now
  void service(const KubeNode& node, const std::string& id, bool runs);
  // A server at the gateway that answers so for every path.
  void serve(harness::Manner manner, const std::string& body);
  void power(const KubeNode& node, bool on);
  void kube(std::vector<std::string> arguments) const;
  void restore();

 private:
  struct Config {
    const KubeNode* node;
    std::string text;
  };
  std::vector<Config> configs;
  std::vector<std::string> objects, kept;
  std::vector<std::pair<const KubeNode*, std::string>> stopped;
  std::vector<const KubeNode*> off;
  std::vector<std::unique_ptr<harness::Web>> webs;

  std::string configPath(const KubeNode& node) const;
  Config& configOf(const KubeNode& node);
};

struct Illness {
  const char* name;
  std::function<void(Patient&)> make;
  const char* check;  // of the first cause
  const char* words;  // in it
  // talosctl, or kubectl if that is the first word, and what it says.
  std::vector<std::string> shownBy;
  const char* shown;
  std::function<void(Patient&)> undo = nullptr;
  bool always = false;                  // not with DIAGNOSE=all alone
  std::vector<std::string> flags = {};  // of diagnose
};

// Of a control plane and a worker.
std::vector<Illness> illnessesOfTwo();

}  // namespace talos
