// Plans the settings of this machine's kubelet from the config and the network. Pure, with the same
// bytes for the same input: a difference restarts the kubelet.
//
// References: the kubelet's configuration (kubelet.config.k8s.io/v1beta1) and its arguments
// (kubelet --help of 1.20 to 1.35).
#pragma once

#include <kj/one-of.h>
#include <kj/vector.h>

#include "machined/kubernetes/etcd/assigned-addresses.h"
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

// The id of the machine for Kubernetes (status.nodeInfo.machineID), which stays when it gets
// another name: 32 digits, on EPHEMERAL beside all else that the kubelet keeps.
constexpr kj::StringPtr kMachineId = "/var/lib/kubelet/machine-id"_kj;

// The facts of the node.
struct KubeletNodeContext {
  kj::String hostname, domainname;
  // Of the node, the default one first; shared addresses are left out.
  kj::Vector<kj::String> addresses;
  // Those of pods and tunnels count only if machine.kubelet.nodeIP.validSubnets asks for them.
  AssignedAddresses assigned;
  bool sharesDisk = false;  // with the host, and whatever else fills that: a node in a container
  // It may use a part of the machine's memory, which this file names instead of /proc/meminfo;
  // empty: all. So the scheduler does not give it pods for more.
  kj::StringPtr memoryFile;
};

// The missing input, as it follows "waiting for".
struct KubeletWaits {
  kj::String what;
};

// The name that the node registers itself under: lower case, the fully qualified one if the config
// wants that and there is a domain. Empty while the machine has no name.
kj::String nodename(kj::StringPtr hostname, kj::StringPtr domainname, bool qualified);

// One address, or one of each family where the subnets of the cluster have two, that of the first
// subnet first. The present ones stay as long as its links have them, with or without a carrier.
kj::Vector<kj::String> nodeAddresses(config::Config::Reader config, const KubeletNodeContext& at,
                                     kj::ArrayPtr<const kj::String> before);

// The labels of machine.nodeLabels that a worker's kubelet may not set itself: they are left out.
kj::Vector<kj::String> refusedLabels(config::Machine::Reader machine);

// Fills the spec, or returns the missing input. `before`: the addresses of the present spec.
kj::Maybe<KubeletWaits> planKubelet(config::Config::Reader config, const KubeletNodeContext& at,
                                    kj::ArrayPtr<const kj::String> before,
                                    rpc::KubeletSpecSpec::Builder out);

// The same of the files with which it joins the cluster.
kj::Maybe<KubeletWaits> planKubeletSecrets(config::Config::Reader config,
                                           rpc::KubeletSecretsSpec::Builder out);

// A warning when the release of the kubelet is not certain, with the assumption.
kj::Maybe<kj::String> assumedRelease(config::Config::Reader config);

// The container of the kubelet: arguments, mounts and rights. Without image, id and environment of
// the service.
ContainerSpec kubeletContainer(rpc::KubeletSpecSpec::Reader spec);

// The value of the first line of YAML with this key, at any depth: of a kubeconfig.
kj::String kubeconfigValue(kj::StringPtr kubeconfig, kj::StringPtr key);
// "https://…", of the first cluster in it.
kj::String serverOf(kj::StringPtr kubeconfig);

// A text that differs whenever the kubelet must be restarted: not for another bootstrap token,
// which it does not get.
kj::String kubeletDigest(rpc::KubeletSpecSpec::Reader spec,
                         rpc::KubeletSecretsSpec::Reader secrets);

}  // namespace talos::machined
