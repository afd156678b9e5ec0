// What the kubelet of this machine is run with, computed of its config and of what is known of its
// network. Pure, and the same bytes for the same input: a difference means another kubelet.
//
// Facts: spec of the kubelet's configuration (kubelet.config.k8s.io/v1beta1) and of its arguments
// (kubelet --help of 1.20 to 1.35).
#pragma once

#include <kj/one-of.h>
#include <kj/vector.h>

#include "machined/services/containers/container-run.h"
#include "rpc/config.capnp.h"
#include "rpc/kubernetes-resources.capnp.h"
#include "rpc/secret-resources.capnp.h"

namespace talos::machined {

constexpr kj::StringPtr kKubeletId = "kubelet"_kj, kNodenameId = "nodename"_kj;

constexpr kj::StringPtr kKubeletConfig = "/etc/kubernetes/kubelet.yaml"_kj,
                        kKubeletCa = "/etc/kubernetes/pki/ca.crt"_kj,
                        kKubeletBootstrap = "/etc/kubernetes/bootstrap-kubeconfig"_kj,
                        kKubeletKubeconfig = "/etc/kubernetes/kubeconfig-kubelet"_kj;

// What the controller has found.
struct KubeletNodeContext {
  kj::String hostname, domainname;
  // Of the node, those that it is known by first; none of them is shared with other nodes.
  kj::Vector<kj::String> addresses;
  // Of the links of WireGuard and of pods: a node has them, and is not known by them unless
  // machine.kubelet.nodeIP.validSubnets asks for it.
  kj::Vector<kj::String> inner;
  // All that its links have, those without a carrier too.
  kj::Vector<kj::String> assigned;
};

// What it waits for, in words that follow "waiting for".
struct KubeletWaits {
  kj::String what;
};

// The name that the node registers itself under: lower case, the fully qualified one if the config
// wants that and there is a domain. Empty while the machine has no name.
kj::String nodename(kj::StringPtr hostname, kj::StringPtr domainname, bool qualified);

// One address, or one of each family where the subnets of the cluster have two, that of the first
// subnet first. Those that the node is known by already stay as long as its links have them, with a
// carrier or without.
kj::Vector<kj::String> nodeAddresses(config::Config::Reader config, const KubeletNodeContext& at,
                                     kj::ArrayPtr<const kj::String> before);

// Of machine.nodeLabels of a worker, those that no kubelet may give itself: they are left out.
kj::Vector<kj::String> refusedLabels(config::Machine::Reader machine);

// Fills the spec, or says what is missing. `before`: the addresses of the spec that is there.
kj::Maybe<KubeletWaits> planKubelet(config::Config::Reader config, const KubeletNodeContext& at,
                                    kj::ArrayPtr<const kj::String> before,
                                    rpc::KubeletSpecSpec::Builder out);

// The same of the files with which it joins the cluster.
kj::Maybe<KubeletWaits> planKubeletSecrets(config::Config::Reader config,
                                           rpc::KubeletSecretsSpec::Builder out);

// Why it is not certain which release of the kubelet that is, and what was assumed.
kj::Maybe<kj::String> assumedRelease(config::Config::Reader config);

// What it runs as: arguments, mounts and rights. Without image, id and environment of the service.
ContainerSpec kubeletContainer(rpc::KubeletSpecSpec::Reader spec);

// A text that differs whenever a kubelet has to be started anew for the difference.
kj::String kubeletDigest(rpc::KubeletSpecSpec::Reader spec,
                         rpc::KubeletSecretsSpec::Reader secrets);

}  // namespace talos::machined
