// A self-hosted control plane, as bootkube made it for Talos 0.8, and made in the same way.
//
// Like those of v0.8, configs have neither an aggregator CA nor a key of service accounts; their
// CAs are ECDSA, not RSA, whose keys take minutes on a busy machine. A temporary control plane of
// static pods on the first node lets DaemonSets of kube-apiserver, kube-controller-manager and
// kube-scheduler be created, beside flannel, kube-proxy, CoreDNS and pod-checkpointer; then it is
// removed, and the DaemonSets take over. The key `initialized` of etcd says so.
//
// pod-checkpointer is this test's own program, in a shell. For a conversion it is enough that each
// of its pods keeps a copy of itself as a static pod with the annotation checkpoint-of, which goes
// some time after its pod. It does not revive other pods after a reboot.
#pragma once

#include <string>
#include <vector>

#include "tests/kubernetes/kube-cluster.h"

namespace talos {

constexpr const char* kSelfHostedRelease = "1.20.6";
// Seconds after which a copy whose pod is gone is removed; 5 minutes in Talos.
constexpr unsigned kCheckpointGrace = 30;

class SelfHosted {
 public:
  SelfHosted(const std::string& name, unsigned masters, unsigned workers);

  KubeCluster cluster;
  // Returns the key as base64 of the PEM, as the Secret has it.
  std::string serviceAccountKey() const;
  // Returns "true" or "false", or an empty text if the node does not answer.
  std::string selfHosted(const KubeNode& node) const;
  std::vector<KubeNode> masters() const;
  // Returns the names of files in the folder of static pods that the node itself has written.
  std::vector<std::string> ownStaticPods(const KubeNode& node) const;

 private:
  std::string folder;  // of files that are made for it
  std::string config;  // of the first node
  std::string bootstrapToken;

  harness::Result etcdctl(const KubeNode& node, std::vector<std::string> arguments) const;
  std::string rootOf(const KubeNode& node) const;
  void makeSecrets();
  void write(const std::string& path, const std::string& content) const;
  void startTemporary() const;
  void createObjects() const;
  void removeTemporary() const;
  void awaitHandedOver() const;
};

}  // namespace talos
