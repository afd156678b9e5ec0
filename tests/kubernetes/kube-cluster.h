// A cluster on container nodes that runs Kubernetes from images of rootfs/kubernetes, and the
// untouched kubectl of the same release.
//
// Its host is a network namespace of this process, whose registry has the images under upstream's
// names; nodes pull through --registry-mirror, as a user's do. $KUBERNETES_IMAGES is the registry's
// storage, $KUBECTL the client: `make e2e` sets them.
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
  // True when the registry has that release: "1.34.4". A test that is of a release begins with
  // TALOS_NEEDS_RELEASE.
  static bool hasRelease(const std::string& release);
  std::unique_ptr<harness::Registry> registry;
};

// Seconds, from an empty store on a busy machine with two processors.
constexpr double kClusterUp = 420, kPodsUp = 240;

// http://10.5.0.1:5000, http://[fd00::1]:5000
std::string httpUrl(const std::string& address, unsigned port);

// At most eight of them: addresses are counted in decimal digits.
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
  // `talosctl cluster create` with these many nodes, and the kubeconfig that it gives. All
  // deadlines are so many times longer: emulated machines are slow.
  KubeCluster(const std::string& name, unsigned masters, unsigned workers,
              const std::vector<std::string>& more = {}, double slowness = 1);

  harness::Cluster talos;
  std::vector<KubeNode> nodes;  // control planes first

  // A program on the first control plane's network, with --kubeconfig as its first argument.
  harness::Result onNode(std::vector<std::string> words, double deadlineSeconds) const;
  // As a client at the nodes' segment.
  harness::Result kubectl(std::vector<std::string> arguments, double deadlineSeconds = 60) const;
  // Its words, for who runs it otherwise: harness::Background, in the namespace of segment().
  std::vector<std::string> kubectlCommand(std::vector<std::string> arguments) const;
  // An HTTP server's answer to a program in that process's namespace; empty: nothing.
  std::string fetched(pid_t process, const std::string& address, unsigned port) const;
  // Fails the test when the exit status is not 0; returns stdout.
  std::string ok(std::vector<std::string> arguments, double deadlineSeconds = 60) const;
  // `talosctl health` with these flags in the nodes' network, where the API's endpoint is.
  harness::Result inside(std::vector<std::string> flags) const;
  // The output of `kubectl get KIND -A -o jsonpath` for each object, a line each.
  std::vector<std::string> each(const std::string& kind, const std::string& path) const;
  void apply(const std::string& yaml) const;
  // Of all namespaces, by "namespace/name"; empty when the API does not answer.
  std::map<std::string, KubePod> pods() const;
  // The output of another program in the namespace of that process: of a node, of the segment.
  harness::Result in(pid_t process, std::vector<std::string> words, double deadlineSeconds) const;
  pid_t segment() const { return supervisor; }
  const std::string& kubeconfigPath() const { return kubeconfig; }

  unsigned dnsPods = 2;  // that awaitSystem() expects

  // All that a cluster begins with, on each of its nodes, and the pods of its network.
  void awaitSystem(const std::string& networkNamespace = "kube-system",
                   const std::string& networkLabel = "k8s-app=flannel") const;
  // talosctl at that node. A control plane is asked itself, so that no other one has to be up; a
  // worker by way of them.
  std::vector<std::string> at(const KubeNode& node, std::vector<std::string> arguments) const;
  // Of the node's boot; empty when it does not answer.
  std::string bootId(const KubeNode& node) const;

  // Waits until so many nodes say that they are Ready; fails the test with what there is otherwise.
  void awaitReady(size_t nodes, double deadlineSeconds) const;
  // The same of the pods with this label, but those that have ended: so many, Running and ready.
  void awaitPods(const std::string& nameSpace, const std::string& label, size_t count,
                 double deadlineSeconds) const;
  // The nodes that the pods with this label are on, each with a blank behind it.
  std::string placesOf(const std::string& label) const;
  // For messages: nodes, pods and the latest events.
  std::string overview() const;

 private:
  std::string kubeconfig;
  pid_t supervisor;
  double slowness;
};

// A Deployment of one pod that ends when it is asked to, on that node as long as it takes pods; and
// a budget of the same name, which wants the pod to be there.
std::string guardedByABudget(const std::string& name, const std::string& node);

}  // namespace talos

// $PROVIDES of `make e2e` has the releases that it compiles: "kubernetes-1.34.4".
#define TALOS_NEEDS_RELEASE(release)                                       \
  TALOS_NEEDS(hasRelease(release), std::string("kubernetes-") + (release), \
              std::string("there are no images of ") + (release))
