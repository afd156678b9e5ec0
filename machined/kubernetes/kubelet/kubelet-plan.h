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

// Path of the machine's id for Kubernetes (status.nodeInfo.machineID), which stays when the machine
// gets another name: 32 digits, on EPHEMERAL beside all other data of the kubelet.
constexpr kj::StringPtr kMachineId = "/var/lib/kubelet/machine-id"_kj;

// The facts of the node.
struct KubeletNodeContext {
  kj::String hostname, domainname;
  // Addresses of the node, the default one first, without shared ones.
  kj::Vector<kj::String> addresses;
  // Addresses of pods and tunnels count only if machine.kubelet.nodeIP.validSubnets includes them.
  AssignedAddresses assigned;
  bool sharesDisk = false;  // with the host and its other users: a node in a container
  // File with the part of the machine's memory that the node may use, in place of /proc/meminfo;
  // empty: all of it. So the scheduler does not give the node pods for more.
  kj::StringPtr memoryFile;
};

// The missing input, for a message after "waiting for".
struct KubeletWaits {
  kj::String what;
};

// Returns the name that the node registers: lower case; the fully qualified one if the config wants
// it and there is a domain. Empty while the machine has no name.
kj::String nodename(kj::StringPtr hostname, kj::StringPtr domainname, bool qualified);

// Returns one address, or, if the cluster's subnets have two families, one of each, that of the
// first subnet first. Present addresses stay as long as the links have them, with or without a
// carrier.
kj::Vector<kj::String> nodeAddresses(config::Config::Reader config, const KubeletNodeContext& at,
                                     kj::ArrayPtr<const kj::String> before);

// Returns the labels of machine.nodeLabels that a worker's kubelet may not set itself and an
// administrator may, so without reserved names; they are left out.
kj::Vector<kj::String> refusedLabels(config::Machine::Reader machine);

// Fills the spec, or returns the missing input. `before`: the addresses of the present spec.
kj::Maybe<KubeletWaits> planKubelet(config::Config::Reader config, const KubeletNodeContext& at,
                                    kj::ArrayPtr<const kj::String> before,
                                    rpc::KubeletSpecSpec::Builder out);

// The same for the secrets with which the kubelet joins the cluster.
kj::Maybe<KubeletWaits> planKubeletSecrets(config::Config::Reader config,
                                           rpc::KubeletSecretsSpec::Builder out);

// Returns a warning with the assumption if the release of the kubelet is not certain.
kj::Maybe<kj::String> assumedRelease(config::Config::Reader config);

// Returns false with machine.kubelet.skipNodeRegistration: then the kubelet does not know the API
// server (it is in standalone mode) and needs no certificate. A kubelet that knows the API server
// runs no pods until its node is registered.
bool isRegistered(rpc::KubeletSpecSpec::Reader spec);

// Returns the container of the kubelet: arguments, mounts and rights, without image, id and
// environment of the service.
ContainerSpec kubeletContainer(rpc::KubeletSpecSpec::Reader spec);

// Returns the value of the first YAML line of a kubeconfig with this key, at any depth.
kj::String kubeconfigValue(kj::StringPtr kubeconfig, kj::StringPtr key);
// Returns "https://…" of the kubeconfig's first cluster.
kj::String serverOf(kj::StringPtr kubeconfig);
// Returns the name that the server's certificate must have; empty if that is the server's host.
kj::String tlsNameOf(kj::StringPtr kubeconfig);

// Returns a text that changes whenever the kubelet must be restarted: not with the bootstrap token,
// which the kubelet does not get, and not with the labels and taints of its registration, which
// kubed keeps on the Node object.
kj::String kubeletDigest(rpc::KubeletSpecSpec::Reader spec,
                         rpc::KubeletSecretsSpec::Reader secrets);

}  // namespace talos::machined
