// Faults that a test puts into a cluster of Kubernetes on purpose, and the words of `diagnose` that
// name each.
//
// Each illness is a single cause: it is made, `talosctl diagnose` names it first, another command
// shows it, and it is cured by the remedy that `diagnose` prints, or undone; then the cluster is
// well again. A Patient restores its own changes; an illness has an `undo` only for changes that it
// makes without the Patient.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/harness/web.h"
#include "tests/kubernetes/first-cause.h"
#include "tests/kubernetes/kube-cluster.h"

namespace talos {

class Patient {
 public:
  // The cluster is well.
  explicit Patient(const KubeCluster& cluster);

  const KubeCluster& cluster;
  const KubeNode &master, &worker;  // the first and the last node
  const std::string release;        // of Kubernetes: "v1.34.4"

  harness::Result talosctl(const KubeNode& node, std::vector<std::string> arguments) const;
  // Runs talosctl with the talosconfig of useTalosconfig().
  harness::Result client(std::vector<std::string> arguments, double deadlineSeconds = 60) const;
  harness::Result diagnose(const std::vector<std::string>& flags = {}) const;
  // Runs a command line in a shell of an operator on the nodes' network, with talosctl, kubectl and
  // the cluster's configurations of both. `editor` is the program that an `edit` runs.
  harness::Result type(const std::string& line, const std::string& editor) const;
  // Returns the path of a file with the config that the node had when the cluster was well.
  std::string originalConfig(const KubeNode& node);
  std::string configText(const KubeNode& node) const;  // on the node's disk, as it is now
  std::string file(const std::string& name) const;     // path in the cluster's folder

  // --- changes that restore() takes back
  // Patches the machine config; in the mode "reboot", waits until the node answers again.
  void patch(const KubeNode& node, const std::string& patch, const std::string& mode = "no-reboot");
  void apply(const std::string& objects);
  void keep(const std::string& kind, const std::string& name);  // of kube-system, as it is now
  void stop(const KubeNode& node, const std::string& service);
  // Starts a server at the gateway that answers every path in this manner.
  void serve(harness::Manner manner, const std::string& body);
  void power(const KubeNode& node, bool on);
  // Cuts the node's power, replaces its config, and starts it; without a config if the text is
  // empty. A node that is not `joined` has lost the certificate that trustd has given it.
  void boot(const KubeNode& node, const std::string& config, bool joined = true);
  // Puts another machine, without data, in the node's place, and starts it with this config. It may
  // not answer the cluster.
  void replaceMachine(const KubeNode& node, const std::string& config);
  // Stops a program of the node by SIGSTOP: it keeps its connections and answers nothing.
  void freeze(const KubeNode& node, const std::string& program);
  // Lets restore() cut the node's power and start it, for changes that stay until then.
  void startAgain(const KubeNode& node);
  void useTalosconfig(const std::string& path);
  void kube(std::vector<std::string> arguments) const;
  void restore();

 private:
  struct Config {
    const KubeNode* node;
    std::string text;
    bool booted = false;    // the node may not accept a config from a client
    bool replaced = false;  // by another machine
  };
  struct Frozen {
    const KubeNode* node;
    std::string program;
    pid_t pid;
  };
  std::vector<Config> configs;
  std::vector<std::string> objects, kept;
  std::vector<std::pair<const KubeNode*, std::string>> stopped;
  std::vector<const KubeNode*> off, again;
  std::vector<Frozen> frozen;
  std::vector<std::unique_ptr<harness::Web>> webs;
  std::string talosconfig;  // empty: the cluster's

  std::string configPath(const KubeNode& node) const;
  Config& configOf(const KubeNode& node);
  void awaitAnswer(const KubeNode& node) const;
  void startWith(const KubeNode& node, const std::string& config, bool joined,
                 bool erased = false) const;
  void restoreConfigs();
  void restoreObjects();
};

struct Illness {
  const char* name;
  std::function<void(Patient&)> make;
  const char* check;  // of the first cause
  const char* words;  // in it
  // A talosctl command, or kubectl if this is the first word; `shown` is a part of its output.
  std::vector<std::string> shownBy;
  const char* shown;
  std::function<void(Patient&)> undo = nullptr;  // not called after a cure
  bool always = false;                           // not with DIAGNOSE=all alone
  std::vector<std::string> flags = {};           // of diagnose
  Cure cure = Cure::kUndone;
  std::function<Answers(Patient&)> answers = nullptr;
};

// Returns the illnesses of a cluster with one control plane and one worker.
std::vector<Illness> illnessesOfTwo();
// Returns the illnesses of a cluster with three control planes and one worker.
std::vector<Illness> illnessesOfThree();

}  // namespace talos
