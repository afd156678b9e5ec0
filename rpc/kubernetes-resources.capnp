@0xe7e250a0b7790ffa;
# Resources of Kubernetes: static pods, manifests, the kubelet and the Node object.
# Field order is the order in which `get` prints keys and columns.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");
using A = import "annotations.capnp";
using Config = import "config.capnp";

struct ComponentResources { requests @0 :List(Config.StringPair) $A.map; limits @1 :List(Config.StringPair) $A.map; }
struct ExtraVolume { name @0 :Text; hostPath @1 :Text; mountPath @2 :Text; readonly @3 :Bool; }
struct ControlPlaneConfigSpec $A.resource((type = "KubernetesControlPlaneConfigs.config.talos.dev", namespace = "config",
    sensitive = true)) $A.inline {
  union {
    apiServer @0 :ApiServer;
    controllerManager @1 :ControllerManager;
    scheduler @2 :Scheduler;
    systemManifests @3 :SystemManifests;
    extraManifests @4 :ExtraManifests;
  }
  struct ApiServer {
    image @0 :Text; cloudProvider @1 :Text; controlPlaneEndpoint @2 :Text; etcdServers @3 :List(Text);
    localPort @4 :UInt16; serviceCIDR @5 :Text; extraArgs @6 :List(Config.StringPair) $A.map; extraVolumes @7 :List(ExtraVolume);
    environmentVariables @8 :List(Config.StringPair) $A.map $A.ifGiven; resources @9 :ComponentResources $A.ifGiven;
    # Files that it reads; without a policy it reads the usual one.
    auditPolicy @10 :Text $A.raw $A.ifGiven; admissionControl @11 :Text $A.raw $A.ifGiven;
    authorizationConfig @12 :Text $A.raw $A.ifGiven;
    admissionPlugins @13 :List(Text) $A.ifGiven;  # to be enabled, besides the usual ones
  }
  struct ControllerManager {
    image @0 :Text; cloudProvider @1 :Text; podCIDR @2 :Text; serviceCIDR @3 :Text;
    extraArgs @4 :List(Config.StringPair) $A.map; extraVolumes @5 :List(ExtraVolume);
    environmentVariables @6 :List(Config.StringPair) $A.map $A.ifGiven; resources @7 :ComponentResources $A.ifGiven;
  }
  struct Scheduler {
    image @0 :Text; extraArgs @1 :List(Config.StringPair) $A.map; extraVolumes @2 :List(ExtraVolume);
    environmentVariables @3 :List(Config.StringPair) $A.map $A.ifGiven; resources @4 :ComponentResources $A.ifGiven;
    config @5 :Text $A.raw $A.ifGiven;          # file that it reads
  }
  struct SystemManifests {
    server @0 :Text; clusterDomain @1 :Text; podCIDRs @2 :List(Text); firstPodCIDR @3 :Text; proxyEnabled @4 :Bool;
    proxyImage @5 :Text; proxyMode @6 :Text; proxyExtraArgs @7 :List(Config.StringPair) $A.map; coreDNSImage @8 :Text;
    dnsServiceIP @9 :Text; dnsServiceIPv6 @10 :Text; flannelEnabled @11 :Bool; flannelImage @12 :Text; flannelCNIImage @13 :Text;
    kubernetesVersion @14 :Text;                # 1.34.4: the version of the manifests
    podSecurityPolicyEnabled @15 :Bool;
    coreDNSEnabled @16 :Bool; flannelExtraArgs @17 :List(Text) $A.ifGiven;
  }
  struct ExtraManifests {
    extraManifests @0 :List(Manifest);
    struct Manifest { url @0 :Text; priority @1 :Text; extraHeaders @2 :List(Config.StringPair) $A.map;
      contents @3 :Text; }                      # of an inline manifest, whose URL is its name
  }
}
struct SecretStatusSpec $A.resource((type = "SecretStatuses.kubernetes.talos.dev", namespace = "controlplane")) {
  ready @0 :Bool $A.column("Ready");
  version @1 :Text $A.column("Secrets Version");
  encryptionKeys @2 :List(Text);   # prefixes in etcd, of kube-apiserver's keys: of the key that writes, then of others
  serviceAccountKeys @3 :List(Text); # their ids, as tokens name them (kid): first of the key that signs, then of others
  aggregatorCAs @4 :List(Text);    # of kube-apiserver, as sha256: and hex of the key: its own first, then accepted ones
  etcdCAs @5 :List(Text);          # in the same form, sorted: CAs by which etcd is verified
  configVersion @6 :UInt64;        # version of the KubernetesControlPlaneConfig whose files are written; 0: none
}
struct StaticPodSpec $A.resource((type = "StaticPods.kubernetes.talos.dev", namespace = "controlplane")) $A.inline {
  pod @0 :Text $A.raw;
}
struct StaticPodStatusSpec $A.resource((type = "StaticPodStatuses.kubernetes.talos.dev", namespace = "controlplane",
    aliases = ["podstatus"])) $A.inline {
  status @0 :Text $A.raw $A.column("Ready");    # the column shows the condition Ready only
}
struct ManifestSpec $A.resource((type = "Manifests.kubernetes.talos.dev", namespace = "controlplane", sensitive = true))
    $A.inline {
  objects @0 :Text $A.raw;
}
struct ManifestStatusSpec $A.resource((type = "ManifestStatuses.kubernetes.talos.dev", namespace = "controlplane", aliases = ["ms"])) {
  manifestsApplied @0 :List(Text);
  message @1 :Text $A.column("Message");        # what it waits for, or the error
}
struct MemberSpec $A.resource((type = "Members.cluster.talos.dev", namespace = "cluster")) {
  # A node of the cluster, as Kubernetes has it. The id is its name there, to which its kubelet's certificate is bound.
  hostname @0 :Text $A.column("Hostname");        # the same: a host name that the node reports proves nothing
  machineType @1 :Text $A.column("Machine Type"); # controlplane or worker
  operatingSystem @2 :Text $A.column("OS");
  addresses @3 :List(Text) $A.column("Addresses"); # InternalIP, which the node reports itself
}
struct ApiEndpointsSpec $A.resource((type = "Endpoints.kubernetes.talos.dev", namespace = "controlplane")) {
  # The addresses at which Kubernetes reaches its API servers: those of control-plane nodes. The id is kube-apiserver.
  addresses @0 :List(Text) $A.column("Addresses");
  port @1 :UInt32;                              # their port; 0: unknown
}
struct NodeSpecSpec $A.resource((type = "NodeSpecs.kubernetes.talos.dev", namespace = "controlplane")) {
  # The desired state of this node's Node object in Kubernetes, from the config. The id is node.
  nodename @0 :Text $A.column("Nodename");
  controlPlane @1 :Bool $A.column("Control Plane");
  schedulable @2 :Bool $A.column("Schedulable"); # for workloads, on a control-plane node
  labels @3 :List(Config.StringPair) $A.map;
  taints @4 :List(Config.StringPair) $A.map;             # value:Effect
  annotations @5 :List(Config.StringPair) $A.map;
  leftOut @6 :List(Text);       # settings of the config that are not in this record, each with its key and the cause
  unregistered @7 :Bool;        # the kubelet does not register: there is no Node object, and kubed writes no NodeStatus
}
struct NodeStatusSpec $A.resource((type = "NodeStatuses.kubernetes.talos.dev", namespace = "controlplane")) {
  # The observed state of this node's Node object. The id is node.
  nodename @0 :Text $A.column("Nodename");
  ready @1 :Bool $A.column("Ready");
  unschedulable @2 :Bool $A.column("Unschedulable");
  applied @3 :Bool $A.column("Applied");        # the object matches the config
  message @4 :Text $A.column("Message");        # what it waits for, or the error
  notApplied @5 :List(Text);    # settings of the config that are not in effect, each with its key and the cause
  specVersion @6 :UInt64;       # version of the NodeSpec with which the object was compared; 0: with none
}
struct NodenameSpec $A.resource((type = "Nodenames.kubernetes.talos.dev", namespace = "controlplane")) {
  # The name of this node in Kubernetes. The id is nodename.
  nodename @0 :Text $A.column("Nodename");
  hostname @1 :Text;                            # host name that it was made from
}
struct NodeDrainSpec $A.resource((type = "NodeDrains.kubernetes.talos.dev", namespace = "controlplane")) {
  # A request of machined to drain this node before it reboots or shuts down, or to uncordon it afterwards. kubed
  # carries it out. The id is node.
  action @0 :Text $A.column("Action");          # drain (and cordon first), or uncordon if this system has cordoned it
  nodename @1 :Text $A.column("Nodename");
  number @2 :UInt64;                            # of the request: each one has its own
}
struct NodeDrainStatusSpec $A.resource((type = "NodeDrainStatuses.kubernetes.talos.dev", namespace = "controlplane")) {
  # The progress of kubed with a NodeDrain. The id is node.
  state @0 :Text $A.column("State");            # waiting, cordoning, draining, uncordoning, done or failed
  message @1 :Text $A.column("Message");        # the current step, what it waits for, or the error
  pods @2 :List(Text) $A.column("Pods");        # that have not left yet, namespace/name
  warnings @3 :List(Text);                      # failures that did not stop the drain
  number @4 :UInt64;                            # of the request
}
struct KubeletJoinSpec $A.resource((type = "KubeletJoins.kubernetes.talos.dev", namespace = "controlplane")) {
  # Exists while the kubelet of this node has no certificate and the node cannot sign one: kubed requests it from the
  # API server. The id is kubelet.
  number @0 :UInt64;                            # of the request: each one has its own
  request @1 :Text;                             # PKCS#10, PEM
  nodeCertificate @2 :Text;                     # PEM: the certificate of this node's API, which trustd has signed
  nodeSignature @3 :Data $A.base64;             # of the request, with the key of that certificate
}
struct KubeletJoinStatusSpec $A.resource((type = "KubeletJoinStatuses.kubernetes.talos.dev", namespace = "controlplane")) {
  # The progress of kubed with a KubeletJoin. The id is kubelet.
  state @0 :Text $A.column("State");            # waiting or issued
  message @1 :Text $A.column("Message");        # why the API server refused the request, or what it waits for
  number @2 :UInt64;                            # of the request
  certificate @3 :Text;                         # PEM, once it is issued
}
struct LocalApiStatusSpec $A.resource((type = "LocalApiStatuses.kubernetes.talos.dev", namespace = "controlplane")) {
  # The readiness of kube-apiserver on this node (/readyz), written by kubed. The id is kube-apiserver.
  ready @0 :Bool $A.column("Ready");            # changes after a few equal answers in a row
  everReady @1 :Bool $A.column("Ever ready");   # since the node was started
  message @2 :Text $A.column("Message");        # why it is not ready
  since @3 :Text $A.column("Since");            # RFC 3339: of `ready`
}
struct KubeletSpecSpec $A.resource((type = "KubeletSpecs.kubernetes.talos.dev", namespace = "controlplane")) {
  # The arguments, config and mounts of the kubelet. The id is kubelet.
  image @0 :Text $A.column("Image");
  nodename @1 :Text $A.column("Nodename");
  nodeIPs @2 :List(Text) $A.column("Node IPs");
  arguments @3 :List(Text);
  config @4 :Text $A.raw;                       # kubelet.yaml
  extraMounts @5 :List(Mount);
  struct Mount { destination @0 :Text; type @1 :Text; source @2 :Text; options @3 :List(Text);
    uidMappings @4 :List(Config.IdMapping); gidMappings @5 :List(Config.IdMapping); }
  shutdownSeconds @6 :UInt32;                   # seconds to end pods before the node reboots or shuts down
  staticPodPath @7 :Text;                       # folder of static pods
  credentialProviders @8 :List(Text);           # names of the programs that give the kubelet credentials
}
