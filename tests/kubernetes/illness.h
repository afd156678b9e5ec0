// Faults that a test puts into a cluster of Kubernetes on purpose, and the words of `diagnose` that
// name each.
//
// Each illness is a single cause: it is made, `talosctl diagnose` names it first, another command
// shows it, and it is undone; then the cluster is well again. A Patient restores its own changes;
// an illness has an `undo` only for changes that it makes without the Patient.
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
  // Starts a server at the gateway that answers every path in this manner.
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
  // A talosctl command, or kubectl if this is the first word; `shown` is a part of its output.
  std::vector<std::string> shownBy;
  const char* shown;
  std::function<void(Patient&)> undo = nullptr;
  bool always = false;                  // not with DIAGNOSE=all alone
  std::vector<std::string> flags = {};  // of diagnose
};

// Returns the illnesses of a cluster with one control plane and one worker.
std::vector<Illness> illnessesOfTwo();

}  // namespace talos
