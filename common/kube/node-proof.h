// Proof that a certificate request for a kubelet is its worker's, for control-plane nodes that see
// the request as an object of Kubernetes.
//
// trustd has signed a certificate with the worker's name and the address that it called from
// (trustd/signing-policy.h). The worker signs the request with the key of this certificate, and
// sends the signature and the certificate with it. A client that has only the bootstrap token has
// no such certificate, and a worker has none with another worker's name. Neither signature nor
// certificate is secret, and neither can be used for another request. Pure.
#pragma once

#include <kj/array.h>

#include "common/kube/json.h"
#include "common/tls/pki.h"

namespace talos::kube {

constexpr kj::StringPtr kNodeCertificateAnnotation = "talos.dev/node-certificate"_kj,
                        kNodeSignatureAnnotation = "talos.dev/node-signature"_kj;
constexpr kj::StringPtr kNodeUser = "system:node:"_kj, kNodeGroup = "system:nodes"_kj;

// Signs with the key of the node's certificate. `request`: PKCS#10 in PEM.
kj::Array<kj::byte> signRequestAsNode(kj::StringPtr keyPem, kj::StringPtr request);

// Name and addresses of the node that made the request.
struct ProvenNode {
  kj::String name;
  kj::Vector<kj::String> addresses;
};
// Verifies a CertificateSigningRequest. Throws InvalidArgument, with a sentence for an operator, if
// it is not the request of a kubelet, if no certificate of `machineCa` that is valid now proves
// name and key, or if Kubernetes could read another name in it. Foreign bytes.
ProvenNode proveNode(const Json& request, kj::StringPtr machineCa, kj::Date now);

}  // namespace talos::kube
