// A cluster on container nodes that runs Kubernetes from images of rootfs/kubernetes, and the
// unmodified kubectl of the same release.
//
// Its host is a network namespace of this process, whose registry has the images under upstream's
// names; nodes pull through --registry-mirror, as a user's nodes do. $KUBERNETES_IMAGES is the
// registry's storage, $KUBECTL the client: `make e2e` sets them.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/testing/provided.h"
#include "tests/harness/cluster.h"
#include "tests/harness/registry.h"

namespace talos {

class KubeHost : public harness::RegistryHost {
 protected:
  static constexpr const char* kRegistryAddress = "127.0.0.1:5000";
  ~KubeHost() noexcept override {}
  void SetUp() override;
  // Returns true if the registry has this release, as "1.34.4". A test of a certain release begins
  // with TALOS_NEEDS_RELEASE.
  static bool hasRelease(const std::string& release);
  std::unique_ptr<harness::Registry> registry;
};

// Timeouts in seconds, from an empty store on a busy machine with two processors.
constexpr double kClusterUp = 420, kPodsUp = 240;

// Returns a URL: http://10.5.0.1:5000, http://[fd00::1]:5000
std::string httpUrl(const std::string& address, unsigned port);

// A node, one of at most eight: addresses are counted in decimal digits.
struct KubeNode {
  std::string name, address;
  bool controlPlane;
};

struct KubePod {
  std::string node;
  bool good = false;      // Running and ready
  bool over = false;      // Succeeded or Failed
  unsigned restarts = 0;  // of all its containers
};

class KubeCluster {
 public:
  // Runs `talosctl cluster create` with these numbers of nodes and gets the kubeconfig. All
  // deadlines are multiplied by `slowness`: emulated machines are slow.
  KubeCluster(const std::string& name, unsigned masters, unsigned workers,
              const std::vector<std::string>& more = {}, double slowness = 1);

  harness::Cluster talos;
  std::vector<KubeNode> nodes;  // control planes first

  // Runs a program on the first control plane's network, with --kubeconfig as its first argument.
  harness::Result onNode(std::vector<std::string> words, double deadlineSeconds) const;
  // Runs kubectl as a client at the nodes' segment.
  harness::Result kubectl(std::vector<std::string> arguments, double deadlineSeconds = 60) const;
  // Returns the words of this command, to run it as harness::Background in the namespace of
  // segment().
  std::vector<std::string> kubectlCommand(std::vector<std::string> arguments) const;
  // Returns an HTTP server's answer to a program in the process's namespace; empty if there is
  // none.
  std::string fetched(pid_t process, const std::string& address, unsigned port) const;
  // Fails the test if the exit status is not 0; returns stdout.
  std::string ok(std::vector<std::string> arguments, double deadlineSeconds = 60) const;
  // Runs `talosctl health` with these flags in the nodes' network, where the API's endpoint is.
  harness::Result inside(std::vector<std::string> flags) const;
  // Returns the output of `kubectl get KIND -A -o jsonpath`, a line for each object.
  std::vector<std::string> each(const std::string& kind, const std::string& path) const;
  void apply(const std::string& yaml) const;
  // Returns the pods of all namespaces, by "namespace/name"; empty if the API does not answer.
  std::map<std::string, KubePod> pods() const;
  // Runs another program in the namespace of a process: of a node, of the segment.
  harness::Result in(pid_t process, std::vector<std::string> words, double deadlineSeconds) const;
  pid_t segment() const { return supervisor; }
  const std::string& kubeconfigPath() const { return kubeconfig; }

  unsigned dnsPods = 2;  // that awaitSystem() expects

  // Waits for all programs that a cluster begins with, on each of its nodes, and the pods of its
  // network.
  void awaitSystem(const std::string& networkNamespace = "kube-system",
                   const std::string& networkLabel = "k8s-app=flannel") const;
  // Returns the arguments of talosctl for this node. A control-plane node is called directly, so
  // that no other has to be up; a worker is called through the control-plane nodes.
  std::vector<std::string> at(const KubeNode& node, std::vector<std::string> arguments) const;
  // Returns the ID of the node's boot; empty if the node does not answer.
  std::string bootId(const KubeNode& node) const;

  // Waits until `nodes` nodes are Ready; otherwise fails the test with an overview of the cluster.
  void awaitReady(size_t nodes, double deadlineSeconds) const;
  // Waits until `count` pods with this label are Running and ready; pods that have ended do not
  // count.
  void awaitPods(const std::string& nameSpace, const std::string& label, size_t count,
                 double deadlineSeconds) const;
  // Returns the nodes of the pods with this label, each followed by a blank.
  std::string placesOf(const std::string& label) const;
  // Describes nodes, pods and the latest events, for messages.
  std::string overview() const;

 private:
  std::string kubeconfig;
  pid_t supervisor;
  double slowness;
};

// Returns a Deployment of one pod that ends when it is told to, on that node as long as the node
// takes pods; and a PodDisruptionBudget of the same name, which requires the pod.
std::string guardedByABudget(const std::string& name, const std::string& node);

}  // namespace talos

// $PROVIDES of `make e2e` has the releases that it compiles: "kubernetes-1.34.4".
#define TALOS_NEEDS_RELEASE(release)                                       \
  TALOS_NEEDS(hasRelease(release), std::string("kubernetes-") + (release), \
              std::string("there are no images of ") + (release))
