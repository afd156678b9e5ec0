// A cluster on container nodes that runs Kubernetes from images of rootfs/kubernetes, and the
// untouched kubectl of the same release.
//
// Its host is a network namespace of this process, whose registry has the images under upstream's
// names; nodes pull through --registry-mirror, as a user's do. $KUBERNETES_IMAGES is the registry's
// storage, $KUBECTL the client: `make e2e` sets them.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/harness/cluster.h"
#include "tests/harness/registry.h"

namespace talos {

class KubeHost : public harness::RegistryHost {
 protected:
  ~KubeHost() noexcept override {}
  void SetUp() override;
  std::unique_ptr<harness::Registry> registry;
};

class KubeCluster {
 public:
  // `talosctl cluster create` with these many nodes, and the kubeconfig that it gives.
  KubeCluster(const std::string& name, unsigned masters, unsigned workers,
              const std::vector<std::string>& more = {});

  harness::Cluster talos;

  // A program on the first control plane's network, with --kubeconfig as its first argument.
  harness::Result onNode(std::vector<std::string> words, double deadlineSeconds) const;
  harness::Result kubectl(std::vector<std::string> arguments, double deadlineSeconds = 60) const;
  // Fails the test when the exit status is not 0; returns stdout.
  std::string ok(std::vector<std::string> arguments, double deadlineSeconds = 60) const;
  // `talosctl health` with these flags in the nodes' network, where the API's endpoint is.
  harness::Result inside(std::vector<std::string> flags) const;
  // What `kubectl get KIND -A -o jsonpath` gives for each object, a line each.
  std::vector<std::string> each(const std::string& kind, const std::string& path) const;
  void apply(const std::string& yaml) const;

  // Waits until so many nodes say that they are Ready; fails the test with what there is otherwise.
  void awaitReady(size_t nodes, double deadlineSeconds) const;
  // The same of the pods with this label: all of them, at least one, Running and ready.
  void awaitPods(const std::string& nameSpace, const std::string& label, size_t count,
                 double deadlineSeconds) const;
  // For messages: nodes, pods and the latest events.
  std::string overview() const;

 private:
  std::string name, kubeconfig;

  std::vector<std::string> onFirstNode() const;
};

}  // namespace talos
