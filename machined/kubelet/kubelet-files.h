// The files with which a kubelet begins, written before each start: /etc/kubernetes has
// kubelet.yaml and bootstrap-kubeconfig, which only root can read, the CA, and the folder of the
// manifests; sources of extraMounts are there.
//
// The certificate by which it is known to the API server is the kubelet's own: it asks for it with
// the bootstrap token, and renews it ("TLS bootstrapping" of Kubernetes' reference). A kubeconfig
// that it has got for itself and that leads elsewhere (another endpoint, CA or name of the node) is
// removed with its certificate, so that it joins anew. On a node that has the key of the CA, a
// control plane, nobody need be asked: the first certificate is signed here, and one in place of
// one that has expired, and laid as the kubelet lays its own, in a file to which
// kubelet-client-current.pem links.
//
// Each file is replaced as a whole, and the kubeconfig comes after the certificate to which it
// leads: after a crash at any line the next start does the rest. Blocking.
#pragma once

#include <kj/time.h>

#include "common/tls/pki.h"
#include "machined/kubelet/kubelet-plan.h"

namespace talos::machined {

constexpr kj::StringPtr kKubeletService = "kubelet"_kj;

// The CA of Kubernetes, with its key.
struct KubeletIssuer {
  kj::String authority;  // PEM
  pki::Pem key;

  KubeletIssuer clone() const;
};

// Below `root`, "" but in tests. Whether the kubelet has a certificate that is good now; if not, it
// needs an API server that takes its token.
bool writeKubeletFiles(kj::StringPtr root, rpc::KubeletSpecSpec::Reader spec,
                       rpc::KubeletSecretsSpec::Reader secrets,
                       kj::Maybe<const KubeletIssuer&> issuer, kj::Date now);

// Whether a kubeconfig that a kubelet wrote leads to this cluster as this node.
bool leadsHere(kj::StringPtr kubeconfig, kj::StringPtr bootstrapKubeconfig);

// "https://…", of the first cluster in it.
kj::String serverOf(kj::StringPtr kubeconfig);

}  // namespace talos::machined
