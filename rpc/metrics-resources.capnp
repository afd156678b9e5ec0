@0xd3c86e5b71f2a94d;
# Resources of machine.metrics: what apid serves, whether it serves it, and when certificates of the node expire.
# Field order is the order in which `get` prints keys and columns.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");
using A = import "annotations.capnp";

struct MetricsEndpointSpec $A.resource((type = "MetricsEndpoints.runtime.talos.dev", namespace = "runtime", sensitive = true)) {
  # machine.metrics, for apid. Exists only while there is something to serve. The id is metrics.
  port @0 :UInt16 $A.column("Port");
  plain @1 :Bool $A.column("Plain");
  token @2 :Text $A.secret;                     # empty: only clients with a certificate
  pods @3 :Bool = true;                         # series of each pod and its containers
}
struct MetricsEndpointStatusSpec $A.resource((type = "MetricsEndpointStatuses.runtime.talos.dev", namespace = "runtime")) {
  # Written by apid. Exists only with a MetricsEndpoint. The id is metrics.
  listening @0 :Bool $A.column("Listening");
  endpoint @1 :Text $A.column("Endpoint");      # https://:50002/metrics
  problem @2 :Text $A.column("Problem");        # why it does not listen
}
struct CertificateStatusSpec $A.resource((type = "CertificateStatuses.runtime.talos.dev", namespace = "runtime", aliases = ["certs"])) {
  # A certificate of this node. The id says what it is for: api-server, etcd-peer …
  subject @0 :Text $A.column("Subject");        # its common name, or else its organization
  authority @1 :Bool $A.column("CA");
  notBefore @2 :Text;                           # RFC 3339
  notAfter @3 :Text $A.column("Valid until");
  problem @4 :Text $A.column("Problem");        # why it cannot be read
}
