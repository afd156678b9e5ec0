@0xd3a1c05b7e9f4126;
# Access of pods to the machine API: how kubed, which has no key of a CA, gets their certificates.
# Field order is the order in which `get` prints keys and columns.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");
using A = import "annotations.capnp";

struct PodCertificateRequestSpec $A.resource((type = "PodCertificateRequests.secrets.talos.dev", namespace = "secrets")) {
  # A request of kubed for a ServiceAccount of talos.dev; machined answers with a PodCertificate of the same id.
  # The certificate names the client system:serviceaccount:NAMESPACE:NAME, whatever the request says.
  number @0 :UInt64;                            # of the request: each one has its own
  account @1 :Text $A.column("Account");        # NAMESPACE/NAME
  kubernetesNamespace @2 :Text;
  roles @3 :List(Text) $A.column("Roles");
  request @4 :Text;                             # PKCS#10, PEM
}
struct PodCertificateSpec $A.resource((type = "PodCertificates.secrets.talos.dev", namespace = "secrets")) {
  # The answer to a PodCertificateRequest, as long as that exists. Holds no key.
  number @0 :UInt64;                            # of the request
  error @1 :Text $A.column("Error");            # why it was refused; empty: it was signed
  ca @2 :Data $A.base64;                        # PEM
  certificate @3 :Data $A.base64;               # PEM
  notAfter @4 :Text $A.column("Valid until");   # RFC 3339
}
