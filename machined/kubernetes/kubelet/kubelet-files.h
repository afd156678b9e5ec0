// Writes the files of the kubelet before each start: /etc/kubernetes has kubelet.yaml, which only
// root can read, the CA, and the folder of the manifests; missing sources of extraMounts are
// created. The machine's id for Kubernetes is made once. No file has the bootstrap token, so that
// reading the node's files does not allow requesting the certificate of a node.
//
// The kubelet renews its client certificate itself ("TLS bootstrapping" of Kubernetes' reference).
// The first certificate, and the replacement of an expired one, are written before it starts: a
// control-plane node, which has the key of the CA, signs it itself; any other node makes a key and
// a request, for which kubed gets a certificate with the bootstrap token. It is stored as the
// kubelet stores its own, in a file to which kubelet-client-current.pem links. A kubeconfig for
// another endpoint, CA or node name is removed with its certificate, so that the node joins again;
// to the balancer of the node and back, only the server in the kubeconfig changes.
//
// The kubelet requests its serving certificate itself when it runs, and serves no TLS without it.
// A serving certificate of another CA is removed before the kubelet starts, because the kubelet
// would keep it until it expires.
//
// Each file is replaced as a whole, and the kubeconfig is written after the certificate to which it
// refers: after a crash at any line the next start does the rest. Blocking.
#pragma once

#include <kj/time.h>

#include "common/tls/pki.h"
#include "machined/kubernetes/kubelet/kubelet-plan.h"

namespace talos::machined {

constexpr kj::StringPtr kKubeletService = "kubelet"_kj;
constexpr kj::StringPtr kKubeletServerPair = "/var/lib/kubelet/pki/kubelet-server-current.pem"_kj;

// Lifetime as in the controller manager (--cluster-signing-duration).
constexpr auto kKubeletLifetime = 365 * kj::DAYS;

// The CA of Kubernetes, with its key.
struct KubeletIssuer {
  kj::String authority;  // PEM
  pki::Pem key;
  kj::Duration lifetime = kKubeletLifetime;  // of issued certificates

  KubeletIssuer clone() const;
};
// The certificate request of a node without the CA's key.
struct KubeletRequest {
  pki::Pem key;
  kj::String text;  // PKCS#10, PEM
};

// Writes the CAs of the kubelet's clients, which the kubelet reads again when the file changes.
void writeClientCas(kj::StringPtr root, rpc::KubeletSecretsSpec::Reader secrets);

// Returns true if the kubelet has a serving certificate that none of these CAs has signed.
bool servesForAnotherCa(kj::StringPtr root, kj::StringPtr authorities);

// Writes the files below `root`, "" but in tests. Returns nullptr if the kubelet has a valid
// certificate.
kj::Maybe<KubeletRequest> writeKubeletFiles(kj::StringPtr root, rpc::KubeletSpecSpec::Reader spec,
                                            rpc::KubeletSecretsSpec::Reader secrets,
                                            kj::Maybe<const KubeletIssuer&> issuer, kj::Date now);

// Stores the answer to a request. InvalidArgument for another subject or another CA.
void keepKubeletCertificate(kj::StringPtr root, rpc::KubeletSpecSpec::Reader spec,
                            rpc::KubeletSecretsSpec::Reader secrets, const KubeletRequest& request,
                            kj::StringPtr certificate);

// Returns true if a kubeconfig that a kubelet wrote is for this cluster and this node.
bool leadsToThisNode(kj::StringPtr kubeconfig, kj::StringPtr bootstrapKubeconfig);

}  // namespace talos::machined
