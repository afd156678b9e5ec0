@0xffa38880c4abfbd0;
# Resource types of features that few nodes have, or that this system lacks. Without the feature no resource of the type
# exists, and clients of Talos get an empty list instead of an error. Field order is the order in which `get`
# prints columns.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");
using A = import "annotations.capnp";
using Monitoring = import "config-monitoring.capnp";

# --- discovery, KubeSpan, SideroLink ---
struct AffiliateSpec $A.resource((type = "Affiliates.cluster.talos.dev", namespace = "cluster")) {
  hostname @0 :Text $A.column("Hostname");
  machineType @1 :Text $A.column("Machine Type");
  addresses @2 :List(Text) $A.column("Addresses");
}
struct IdentitySpec $A.resource((type = "Identities.cluster.talos.dev", namespace = "cluster")) {
  nodeId @0 :Text $A.column("ID");
}
struct KubeSpanConfigSpec $A.resource((type = "KubeSpanConfigs.kubespan.talos.dev", namespace = "config", sensitive = true)) {
  enabled @0 :Bool;
}
struct KubeSpanIdentitySpec $A.resource((type = "KubeSpanIdentities.kubespan.talos.dev", namespace = "kubespan", sensitive = true)) {
  address @0 :Text $A.column("Address");
  publicKey @1 :Text $A.column("PublicKey");
}
struct KubeSpanEndpointSpec $A.resource((type = "KubeSpanEndpoints.kubespan.talos.dev", namespace = "kubespan")) {
  endpoint @0 :Text $A.column("Endpoint");
  affiliateId @1 :Text $A.column("Affiliate ID") $A.name("affiliateID");
}
struct KubeSpanPeerSpecSpec $A.resource((type = "KubeSpanPeerSpecs.kubespan.talos.dev", namespace = "kubespan")) {
  label @0 :Text $A.column("Label");
  endpoints @1 :List(Text) $A.column("Endpoints");
}
struct KubeSpanPeerStatusSpec $A.resource((type = "KubeSpanPeerStatuses.kubespan.talos.dev", namespace = "kubespan")) {
  label @0 :Text $A.column("Label");
  endpoint @1 :Text $A.column("Endpoint");
  state @2 :Text $A.column("State");
  receiveBytes @3 :UInt64 $A.column("Rx");
  transmitBytes @4 :UInt64 $A.column("Tx");
}
struct SiderolinkConfigSpec $A.resource((type = "SiderolinkConfigs.siderolink.talos.dev", namespace = "config", sensitive = true)) {
  apiEndpoint @0 :Text $A.column("API Endpoint");
  tunnel @1 :Bool $A.column("Tunnel");
}
struct SiderolinkStatusSpec $A.resource((type = "SiderolinkStatuses.siderolink.talos.dev", namespace = "config")) {
  host @0 :Text $A.column("Host");
  connected @1 :Bool $A.column("Connected");
}
struct SiderolinkTunnelSpec $A.resource((type = "SiderolinkTunnels.siderolink.talos.dev", namespace = "config", sensitive = true)) {
  apiEndpoint @0 :Text;
}

# --- the machine ---
struct DiagnosticSpec $A.resource((type = "Diagnostics.runtime.talos.dev", namespace = "runtime")) {
  message @0 :Text $A.column("Message");
  details @1 :List(Text);
}
struct ExtensionStatusSpec $A.resource((type = "ExtensionStatuses.runtime.talos.dev", namespace = "runtime",
    aliases = ["extensions"])) {
  name @0 :Text $A.column("Name");
  version @1 :Text $A.column("Version");
}
struct ExtensionServiceConfigSpec $A.resource((type = "ExtensionServiceConfigs.runtime.talos.dev", namespace = "runtime")) {}
struct ExtensionServiceConfigStatusSpec
    $A.resource((type = "ExtensionServiceConfigStatuses.runtime.talos.dev", namespace = "runtime")) {}
struct WatchdogTimerConfigSpec $A.resource((type = "WatchdogTimerConfigs.runtime.talos.dev", namespace = "runtime")) {
  device @0 :Text $A.column("Device");
  timeout @1 :Text $A.column("Timeout");
}
struct WatchdogTimerStatusSpec $A.resource((type = "WatchdogTimerStatuses.runtime.talos.dev", namespace = "runtime")) {
  device @0 :Text $A.column("Device");
  timeout @1 :Text $A.column("Timeout");
  feedInterval @2 :Text;
}
struct EventSinkConfigSpec $A.resource((type = "EventSinkConfigs.runtime.talos.dev", namespace = "runtime")) {
  endpoint @0 :Text;
}
struct KmsgLogConfigSpec $A.resource((type = "KmsgLogConfigs.runtime.talos.dev", namespace = "runtime")) {
  destinations @0 :List(Text);
}
struct LogDestinationSpec $A.resource((type = "LogDestinations.runtime.talos.dev", namespace = "runtime")) {
  # A destination of machine.logging. The id is the endpoint.
  format @0 :Monitoring.LogFormat $A.column("Format") $A.keepEmpty;
  streams @1 :List(Monitoring.LogStream) $A.column("Streams");
  tags @2 :List(Monitoring.Tag) $A.map;
  authorities @3 :Text;                         # PEM; empty: the public CAs
  bufferBytes @4 :UInt64 $A.column("Buffer");
  compression @5 :Monitoring.LogCompression;
  headers @6 :List(Text);                       # names of the headers in LogDestinationCredentials
}
struct LogDestinationCredentialsSpec $A.resource((type = "LogDestinationCredentials.secrets.talos.dev", namespace = "secrets", sensitive = true)) {
  # The headers of a LogDestination, if it has any. The id is that of the LogDestination.
  headers @0 :List(Monitoring.Tag) $A.map $A.secret;
}
struct LogDestinationStatusSpec $A.resource((type = "LogDestinationStatuses.runtime.talos.dev", namespace = "runtime")) {
  # Written by logd. The id is the endpoint. Lines are counted since the destination was made.
  connected @0 :Bool $A.column("Connected");
  sentLines @1 :UInt64 $A.column("Sent lines"); # that the receiver has acknowledged, and its connection lived on
  waitingBytes @2 :UInt64 $A.column("Waiting bytes");
  droppedLines @3 :UInt64 $A.column("Dropped lines"); # the buffer was full
  missedBytes @4 :UInt64 $A.column("Missed bytes");   # overwritten before they reached the buffer
  missedRecords @9 :UInt64 $A.column("Missed records"); # of the kernel log: the same
  damagedBytes @10 :UInt64 $A.column("Damaged bytes"); # of the buffer, that the disk has damaged
  refusedLines @7 :UInt64 $A.column("Refused lines"); # of otlp: that the receiver will never accept
  repeatedLines @8 :UInt64 $A.column("Repeated lines");
  # sent again, with each attempt, because the connection broke before they counted as sent; of otlp: because the
  # receiver did not answer, or answered that it takes them later or in smaller requests
  since @5 :Text $A.column("Since");            # RFC 3339: of `connected`
  lastError @6 :Text $A.column("Last error");
}
struct UserDiskConfigStatusSpec $A.resource((type = "UserDiskConfigStatuses.block.talos.dev", namespace = "runtime")) {
  ready @0 :Bool $A.column("Ready");
}

# --- the network ---
struct NfTablesChainSpec $A.resource((type = "NfTablesChains.net.talos.dev", namespace = "network",
    aliases = ["chain", "chains"])) {
  type @0 :Text $A.column("Type");
  hook @1 :Text $A.column("Hook");
  priority @2 :Int32 $A.column("Priority");
  policy @3 :Text $A.column("Policy");
}
struct DnsResolveCacheSpec $A.resource((type = "DNSResolveCaches.net.talos.dev", namespace = "network")) {
  status @0 :Text $A.column("Status");
}
struct DnsUpstreamSpec $A.resource((type = "DNSUpstreams.net.talos.dev", namespace = "network")) {
  healthy @0 :Bool $A.column("Healthy");
  address @1 :Text $A.column("Address");
}
struct ProbeSpecSpec $A.resource((type = "ProbeSpecs.net.talos.dev", namespace = "network")) {
  # A host that the node asks. The id is tcp: or http:, and the endpoint or the URL.
  interval @0 :Text;
  failureThreshold @1 :UInt32;                  # so many failures in a row are reported; 0 is 1
  tcp @2 :Tcp $A.ifGiven;
  http @3 :Http $A.ifGiven;
  struct Tcp { endpoint @0 :Text; timeout @1 :Text; }
  struct Http { url @0 :Text; timeout @1 :Text; }
}
struct ProbeStatusSpec $A.resource((type = "ProbeStatuses.net.talos.dev", namespace = "network", aliases = ["probe", "probes"])) {
  # Written by probed after the first result. The id is that of the ProbeSpec.
  success @0 :Bool $A.column("Success");
  lastError @1 :Text;
}

# --- Kubernetes ---
struct KubePrismConfigSpec $A.resource((type = "KubePrismConfigs.kubernetes.talos.dev", namespace = "k8s")) {
  # The local balancer of the API servers. It exists while the config enables it. The id is k8s-loadbalancer-config.
  host @0 :Text $A.column("Host");
  port @1 :UInt32 $A.column("Port");
  endpoints @2 :List(KubePrismEndpoint);
}
struct KubePrismEndpoint {
  host @0 :Text;
  port @1 :UInt32;
}
struct KubePrismEndpointsSpec $A.resource((type = "KubePrismEndpoints.kubernetes.talos.dev", namespace = "k8s")) {
  # The API servers that the node knows. The id is k8s-cluster.
  hosts @0 :List(Text) $A.column("Hosts");
  endpoints @1 :List(KubePrismEndpoint);
}
struct KubePrismStatusSpec $A.resource((type = "KubePrismStatuses.kubernetes.talos.dev", namespace = "k8s")) {
  # The state of the balancer, from kubed. The id is k8s-loadbalancer.
  host @0 :Text $A.column("Host");
  healthy @1 :Bool $A.column("Healthy");        # it listens, and an API server is usable
  port @2 :UInt32;                              # at which it listens; 0: it does not
  message @3 :Text $A.column("Message");        # why it does not listen, or is not healthy
  endpoints @4 :List(Endpoint);
  struct Endpoint {
    endpoint @0 :Text;                          # host:port
    usable @1 :Bool;
    score @2 :Int32;                            # -3 to 3; from 0 on the server is usable
  }
}
