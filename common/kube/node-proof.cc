#include "common/kube/node-proof.h"

#include <kj/encoding.h>

#include "common/base/error.h"
#include "common/text/texts.h"
#include "common/tls/client-request.h"
#include "common/tls/public-key.h"
#include "common/tls/signature.h"

namespace talos::kube {
namespace {

// A text that nothing else of this system signs.
constexpr kj::StringPtr kPurpose = "talos.dev: the certificate request of my kubelet\n"_kj;

[[noreturn]] void refuse(kj::StringPtr error) {
  fail(ErrorKind::kInvalidArgument, error);
}

kj::String toBeSigned(kj::StringPtr request) {
  return kj::str(kPurpose, request);
}

// Returns the name in the request. Kubernetes' signer has the same requirements, so that every
// approved request is also signed.
kj::String nameIn(kj::StringPtr request) {
  auto info = pki::inspectRequest(request);
  if (info.organizations.size() != 1 || info.organizations[0] != kNodeGroup ||
      !info.commonName.startsWith(kNodeUser) || info.commonName.size() == kNodeUser.size()) {
    refuse("it is not for a user system:node:NAME of the group system:nodes");
  }
  if (info.dnsNames.size() + info.addresses.size() > 0) {
    refuse("it has names and addresses of a server");
  }
  pki::requireOneReading(request);
  return kj::str(info.commonName.slice(kNodeUser.size()));
}

void checkUsages(const Json& object) {
  bool client = false;
  for (auto usage : itemsAt(object, {"spec", "usages"})) {
    if (*usage == "client auth") {
      client = true;
    } else if (*usage != "digital signature" && *usage != "key encipherment") {
      refuse("it asks for more than the certificate of a client");
    }
  }
  if (!client) refuse("it is not for a certificate of a client");
}

bool isSignedWith(kj::StringPtr certificate, kj::StringPtr request, kj::StringPtr signature) {
  auto bytes = kj::decodeBase64(signature);
  if (bytes.hadErrors) return false;
  pki::VerifyKey key(pki::publicKeyOfCertificate(certificate));
  return key.verifies(toBeSigned(request).asBytes(), bytes);
}

}  // namespace

kj::Array<kj::byte> signRequestAsNode(kj::StringPtr keyPem, kj::StringPtr request) {
  return pki::sign(keyPem, toBeSigned(request).asBytes());
}

ProvenNode proveNode(const Json& object, kj::StringPtr machineCa, kj::Date now) {
  checkUsages(object);
  auto decoded = kj::decodeBase64(textAt(object, {"spec", "request"}));
  if (decoded.hadErrors) refuse("its text is not base64");
  auto request = kj::heapString(decoded.asChars());
  ProvenNode node{.name = nameIn(request), .addresses = {}};
  auto certificate = textAt(object, {"metadata", "annotations", kNodeCertificateAnnotation});
  if (certificate.size() == 0) {
    refuse("the node has not shown a certificate that trustd has signed");
  }
  KJ_IF_MAYBE (error, pki::serverCertificateError(certificate, machineCa, now)) {
    refuse(kj::str("the certificate that the node has shown is not valid: ", *error));
  }
  auto signature = textAt(object, {"metadata", "annotations", kNodeSignatureAnnotation});
  if (!isSignedWith(certificate, request, signature)) {
    refuse("it is not signed with the key of the certificate that the node has shown");
  }
  auto shown = pki::inspect(certificate);
  if (!contains(shown.dnsNames, node.name)) {
    refuse(kj::str("the certificate that the node has shown is for ",
                   kj::strArray(shown.dnsNames, ", "), ", not for ", node.name));
  }
  node.addresses = kj::mv(shown.addresses);
  return node;
}

}  // namespace talos::kube
