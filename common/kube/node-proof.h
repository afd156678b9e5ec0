// How a worker shows that a certificate request for its kubelet is its own, to control-plane nodes
// that see the request as an object of Kubernetes.
//
// trustd has signed a certificate with the worker's name and the address that it called from
// (trustd/signing-policy.h). The worker signs the request with the key of that certificate, and
// sends both with it. Whoever has the bootstrap token alone has no such certificate, and a worker
// has none with another's name. Neither is secret, and both are of no use for another request.
// Pure.
#pragma once

#include <kj/array.h>

#include "common/kube/json.h"
#include "common/tls/pki.h"

namespace talos::kube {

constexpr kj::StringPtr kNodeCertificateAnnotation = "talos.dev/node-certificate"_kj,
                        kNodeSignatureAnnotation = "talos.dev/node-signature"_kj;
constexpr kj::StringPtr kNodeUser = "system:node:"_kj, kNodeGroup = "system:nodes"_kj;

// With the key of the node's certificate. `request`: PKCS#10 in PEM.
kj::Array<kj::byte> signRequestAsNode(kj::StringPtr keyPem, kj::StringPtr request);

// The name and the addresses of the node whose request it is.
struct ProvenNode {
  kj::String name;
  kj::Vector<kj::String> addresses;
};
// Of a CertificateSigningRequest. InvalidArgument, with a sentence for an operator, when it is not
// the request of a kubelet, or when name and key are not shown by a certificate of `machineCa` that
// is valid now, or when Kubernetes could read another name in it. Foreign bytes.
ProvenNode proveNode(const Json& request, kj::StringPtr machineCa, kj::Date now);

}  // namespace talos::kube
