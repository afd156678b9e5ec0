// The files with which a kubelet begins, written before each start: /etc/kubernetes has
// kubelet.yaml and bootstrap-kubeconfig, which only root can read, the CA, and the folder of the
// manifests; sources of extraMounts are there.
//
// The certificate by which it is known to the API server is the kubelet's own, which it renews
// ("TLS bootstrapping" of Kubernetes' reference). The first one is there before it starts, and one
// in place of one that has expired: on a node that has the key of the CA, a control plane, it is
// signed here; any other makes a key and a request, for which a certificate is got with the
// bootstrap token. It is laid as the kubelet lays its own, in a file to which
// kubelet-client-current.pem links. A kubeconfig that leads elsewhere (another endpoint, CA or name
// of the node) is removed with its certificate, so that the node joins anew.
//
// Each file is replaced as a whole, and the kubeconfig comes after the certificate to which it
// leads: after a crash at any line the next start does the rest. Blocking.
#pragma once

#include <kj/time.h>

#include "common/tls/pki.h"
#include "machined/kubernetes/kubelet/kubelet-plan.h"

namespace talos::machined {

constexpr kj::StringPtr kKubeletService = "kubelet"_kj;

// The CA of Kubernetes, with its key.
struct KubeletIssuer {
  kj::String authority;  // PEM
  pki::Pem key;

  KubeletIssuer clone() const;
};
// What a node asks for that has not got that key.
struct KubeletRequest {
  pki::Pem key;
  kj::String text;  // PKCS#10, PEM
};

// Below `root`, "" but in tests. None: the kubelet has a certificate that is good now.
kj::Maybe<KubeletRequest> writeKubeletFiles(kj::StringPtr root, rpc::KubeletSpecSpec::Reader spec,
                                            rpc::KubeletSecretsSpec::Reader secrets,
                                            kj::Maybe<const KubeletIssuer&> issuer, kj::Date now);

// The answer to a request. InvalidArgument for one that is another's, or by another CA.
void keepKubeletCertificate(kj::StringPtr root, rpc::KubeletSpecSpec::Reader spec,
                            rpc::KubeletSecretsSpec::Reader secrets, const KubeletRequest& request,
                            kj::StringPtr certificate);

// Whether a kubeconfig that a kubelet wrote leads to this cluster as this node.
bool leadsHere(kj::StringPtr kubeconfig, kj::StringPtr bootstrapKubeconfig);

// "https://…", of the first cluster in it.
kj::String serverOf(kj::StringPtr kubeconfig);

}  // namespace talos::machined
