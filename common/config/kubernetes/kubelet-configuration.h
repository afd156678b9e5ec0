// machine.kubelet.extraConfig: the fields of the kubelet's configuration that a user may set, and
// their effect on the shutdown of a node and on the kubelet's serving certificate. Pure. Both the
// checks of the config and the node use it, so they agree: a node that has kept a config leaves out
// what the checks refuse.
//
// References: kubelet.config.k8s.io/v1beta1; the kubelet does not start with values that its own
// validation refuses (pkg/kubelet/apis/config/validation), and waits as in
// pkg/kubelet/nodeshutdown.
#pragma once

#include <kj/time.h>
#include <kj/vector.h>

#include "common/config/kubernetes/kubernetes-images.h"
#include "rpc/config.capnp.h"

namespace talos::config {

struct OwnKubeletField {
  kj::StringPtr name;
  kj::StringPtr reason;
  kj::StringPtr instead = "remove it"_kj;
};

// Fields that the node sets itself, and the parts that depend on each. The user may set all others.
constexpr OwnKubeletField kOwnKubeletFields[] = {
    // The file itself.
    {"apiVersion"_kj, "it writes the file in this version"_kj},
    {"kind"_kj, "it writes the file"_kj},
    // The clients of the kubelet. Without these fields every client can run commands in pods.
    {"authentication"_kj, "clients have a certificate or a token of the cluster"_kj},
    {"authorization"_kj, "the API server decides what a client may do"_kj},
    {"readOnlyPort"_kj, "that port asks nobody who they are"_kj,
     "remove it; port 10250 has the same for a token"_kj},
    // The address of the kubelet for the API server, kubed and the health check of the service.
    {"address"_kj, "it follows the addresses of the node"_kj,
     "remove it; machine.kubelet.nodeIP chooses the address that the node registers"_kj},
    {"port"_kj, "API servers and kubed call port 10250"_kj},
    {"enableServer"_kj, "API servers and kubed call it"_kj},
    {"healthzPort"_kj, "machined asks port 10248 whether the kubelet is healthy"_kj},
    {"healthzBindAddress"_kj, "machined asks 127.0.0.1 whether the kubelet is healthy"_kj},
    // Static pods, which machined writes.
    {"staticPodPath"_kj, "machined writes the control plane's pods there"_kj,
     "remove it; machine.pods has static pods"_kj},
    {"staticPodURL"_kj, "machined writes static pods into a folder"_kj,
     "remove it; machine.pods has static pods"_kj},
    {"staticPodURLHeader"_kj, "machined writes static pods into a folder"_kj,
     "remove it; machine.pods has static pods"_kj},
    // containerd, which machined runs for pods.
    {"containerRuntimeEndpoint"_kj, "machined runs containerd there"_kj},
    {"imageServiceEndpoint"_kj, "containerd has the images"_kj},
    {"podLogsDir"_kj, "the node and the kubelet's container share /var/log/pods"_kj},
    // Control groups: machined makes those of services, and those of pods beside them.
    {"cgroupDriver"_kj, "containerd has the same one, cgroupfs"_kj},
    {"cgroupRoot"_kj, "machined makes the control groups"_kj},
    {"cgroupsPerQOS"_kj, "the use of pods is read from these groups"_kj},
    {"kubeletCgroups"_kj, "machined makes the control groups"_kj},
    {"systemCgroups"_kj, "machined makes the control groups"_kj},
    {"kubeReservedCgroup"_kj, "machined makes the control groups"_kj,
     "remove it; kubeReserved works without a group"_kj},
    {"systemReservedCgroup"_kj, "machined makes the control groups"_kj,
     "remove it; systemReserved works without a group"_kj},
    // Facts that other programs read from the same keys.
    {"clusterDNS"_kj, "it has a key of its own"_kj, "use machine.kubelet.clusterDNS"_kj},
    {"clusterDomain"_kj, "certificates and CoreDNS have the same"_kj,
     "use cluster.network.dnsDomain"_kj},
    {"resolvConf"_kj, "networkd writes that file"_kj, "use machine.network.nameservers"_kj},
    // Joining, and the Node object, which kubed maintains.
    {"rotateCertificates"_kj, "it joins and stays by certificates of its own"_kj},
    {"registerNode"_kj, "kubed keeps the Node object"_kj,
     "use machine.kubelet.skipNodeRegistration"_kj},
    {"registerWithTaints"_kj, "it registers with the taints of the config"_kj,
     "use machine.nodeTaints"_kj},
};

kj::Maybe<const OwnKubeletField&> ownKubeletField(kj::StringPtr name);

// Returns the release from the tag of the kubelet's image, or else cluster.kubernetesVersion, or
// else the default.
KubernetesVersion kubeletRelease(Config::Reader config);

// Returns true if the kubelet requests its serving certificate from the CA of the cluster, so that
// API servers can verify it: by default, unless a cloud's controller names the node's addresses,
// for which the node has no proof, or the node does not register. machine.kubelet decides otherwise
// by serverTLSBootstrap or rotate-server-certificates, or by files with a certificate of the
// user's.
bool requestsServingCertificate(Config::Reader config);

// How the kubelet ends pods when the node shuts down.
struct KubeletShutdown {
  enum class By { kNothing, kPeriods, kPriorities };
  By by = By::kPeriods;
  // Periods for kPeriods; the second is a part of the first.
  kj::Duration total = 0 * kj::SECONDS, critical = 0 * kj::SECONDS;
  // Delay that the kubelet requests from login1.
  kj::Duration asked = 0 * kj::SECONDS;

  struct Mistake {
    kj::String path;  // below extraConfig
    kj::String message, hint;
  };
  // If there are any, the other fields are as without extraConfig.
  kj::Vector<Mistake> mistakes;
};
KubeletShutdown kubeletShutdown(KubeletConfiguration::Reader extra, KubernetesVersion release);

}  // namespace talos::config
