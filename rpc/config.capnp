@0xd5e2a0b6c1f74a93;
# The machine config (v1alpha1): one YAML document that says what a node is. Keys, defaults and rules: spec
# machine-config.md §2-8. Field order is the order in which keys are written; common/config.h reads it and
# checks what a schema cannot say. A key that is not here yet is reported as a warning and ignored.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::config");
using A = import "annotations.capnp";

struct Config {
  version @0 :Text $A.keepEmpty $A.doc("Version of this format; v1alpha1 is the only one.");
  debug @1 :Bool $A.keepEmpty $A.doc("Copy the logs of all system services to the console as well.");
  persist @2 :Bool $A.keepEmpty
      $A.doc("Keep this document on the machine's disk. Without it the document is fetched again at each boot.");
  machine @3 :Machine $A.required $A.doc("The machine itself: its role, identity, network and disks.");
  cluster @4 :Cluster $A.required $A.doc("The Kubernetes cluster that the machine belongs to.");
}

struct CertificateAndKey {
  crt @0 :Data $A.base64 $A.keepEmpty $A.doc("Certificate: PEM text, encoded in base64 once more.");
  key @1 :Data $A.base64 $A.secret $A.keepEmpty $A.doc("Its private key, encoded in the same way.");
}

# --- machine -----------------------------------------------------------------------------------------------

struct Machine {
  type @0 :MachineType $A.keepEmpty $A.default("worker")
      $A.doc("Role of the machine. A control-plane machine also runs etcd and the Kubernetes control plane; "
             "init is a control-plane machine that starts a new etcd cluster by itself.");
  token @1 :Text $A.secret $A.keepEmpty
      $A.doc("Shared secret with which machines ask the control plane to sign the certificate of their API: "
             "6 characters, a dot and 16 characters of a-z and 0-9.");
  ca @2 :CertificateAndKey
      $A.doc("Certificate authority of the machine API. Only control-plane machines have its key.");
  certSANs @3 :List(Text)
      $A.doc("More names and addresses for the certificate of the machine API, besides those of the machine.");
  kubelet @4 :Kubelet $A.doc("The kubelet of this machine.");
  network @5 :Network $A.doc("Host name, links, addresses, routes and resolvers.");
  install @6 :Install $A.doc("How the system is installed on a disk.");
  registries @7 :Registries $A.doc("Where container images are pulled from.");
}

enum MachineType {
  worker @0 $A.alias(["join", ""]);
  init @1;
  controlplane @2;
}

struct Kubelet {
  image @0 :Text $A.doc("Image of the kubelet.");
}

struct Network {
  hostname @0 :Text
      $A.doc("Name of the machine. What follows its first dot becomes the domain name.");
  interfaces @1 :List(Interface)
      $A.doc("Links to configure. A link may stand in several entries, whose settings add up.");
  nameservers @2 :List(Text) $A.default("1.1.1.1 and 8.8.8.8")
      $A.doc("IP addresses of DNS resolvers; the first three are used.");
}

struct Interface {
  interface @0 :Text $A.keepEmpty $A.doc("Name of the link.");
  cidr @1 :Text $A.doc("Static address with its prefix length. Excludes dhcp.");
  addresses @2 :List(Text) $A.since("v0.12") $A.doc("Further static addresses with prefix lengths.");
  routes @3 :List(Route) $A.doc("Static routes through this link.");
  mtu @4 :UInt32 $A.keepEmpty $A.default("what the link or its DHCP lease has")
      $A.doc("Largest packet in octets; 0 leaves it as it is.");
  dhcp @5 :Bool $A.doc("Get address, routes and resolvers by DHCP. Excludes cidr.");
  ignore @6 :Bool $A.doc("Leave this link alone.");
}

struct Route {
  network @0 :Text $A.keepEmpty $A.doc("Destination with its prefix length.");
  gateway @1 :Text $A.keepEmpty $A.doc("Address of the next hop.");
  metric @2 :UInt32 $A.default("10") $A.doc("Priority; the lowest wins.");
}

struct Install {
  disk @0 :Text $A.doc("Block device on which the system is installed.");
  image @1 :Text $A.doc("Image of the installer.");
  bootloader @2 :Bool = true $A.keepEmpty $A.default("true") $A.doc("Install a boot loader too.");
  wipe @3 :Bool $A.keepEmpty $A.doc("Overwrite the disk before it is partitioned.");
}

struct Registries {
  mirrors @0 :List(Mirror) $A.map
      $A.doc("Endpoints that are tried instead of a registry, by its host name; * stands for all others.");
  struct Mirror { key @0 :Text; value @1 :Endpoints; }
  struct Endpoints { endpoints @0 :List(Text) $A.keepEmpty $A.doc("URLs, tried in this order."); }
}

# --- cluster -----------------------------------------------------------------------------------------------

struct Cluster {
  controlPlane @0 :ControlPlane $A.required $A.doc("How the Kubernetes API is reached.");
  clusterName @1 :Text $A.doc("Name of the cluster, used in kubeconfig files.");
  network @2 :ClusterNetwork $A.doc("Networks and names inside of the cluster.");
  token @3 :Text $A.secret
      $A.doc("Token with which kubelets join the cluster: 6 characters, a dot and 16 characters of a-z and 0-9.");
  aescbcEncryptionSecret @4 :Text $A.secret
      $A.doc("Key with which Kubernetes encrypts secrets in etcd: 32 octets in base64.");
  ca @5 :CertificateAndKey $A.doc("Certificate authority of Kubernetes. Workers have its certificate only.");
  aggregatorCA @6 :CertificateAndKey
      $A.doc("Certificate authority of the aggregation layer (front proxy) of the Kubernetes API.");
  serviceAccount @7 :ServiceAccount $A.doc("Service accounts.");
  apiServer @8 :ApiServer $A.doc("The Kubernetes API server.");
  controllerManager @9 :Component $A.doc("The Kubernetes controller manager.");
  proxy @10 :Component $A.doc("kube-proxy.");
  scheduler @11 :Component $A.doc("The Kubernetes scheduler.");
  etcd @12 :Etcd $A.doc("etcd.");
}

struct ControlPlane {
  endpoint @0 :Text $A.required
      $A.doc("URL of the Kubernetes API, as machines and users reach it: https://host:port.");
  localAPIServerPort @1 :UInt16 = 6443 $A.default("6443")
      $A.doc("Port on which the API server of each control-plane machine listens.");
}

struct ClusterNetwork {
  dnsDomain @0 :Text $A.keepEmpty $A.doc("Domain of the names inside of the cluster.");
  podSubnets @1 :List(Text) $A.default("10.244.0.0/16") $A.doc("Subnets of pods.");
  serviceSubnets @2 :List(Text) $A.default("10.96.0.0/12") $A.doc("Subnets of services.");
}

struct ServiceAccount {
  key @0 :Data $A.base64 $A.secret
      $A.doc("Private key that signs the tokens of service accounts: PEM text, encoded in base64 once more.");
}

struct ApiServer {
  image @0 :Text $A.doc("Image of the API server.");
  certSANs @1 :List(Text) $A.doc("More names and addresses for the certificate of the API server.");
}

struct Component {
  image @0 :Text $A.doc("Image of the component.");
}

struct Etcd {
  image @0 :Text $A.doc("Image of etcd.");
  ca @1 :CertificateAndKey $A.doc("Certificate authority of etcd.");
}
