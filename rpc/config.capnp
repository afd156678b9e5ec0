@0xd5e2a0b6c1f74a93;
# The machine config (v1alpha1): one YAML document that defines a node. Keys, defaults and rules:
# docs/machine-config.md. Field order is the order in which keys are written; common/config/config.h reads the document
# and checks what a schema cannot express. A key that this schema lacks is an error, or a warning if a later version has
# it. If the kernel or a component has its own default, the field has the same default here, so that an absent key means
# the same as this value.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::config");
using A = import "annotations.capnp";
using AuditPolicy = import "config-audit.capnp".AuditPolicy;
using Disks = import "config-disks.capnp";
using Monitoring = import "config-monitoring.capnp";
using Network = import "config-network.capnp".Network;

struct Config {
  version @0 :Text $A.live $A.keepEmpty $A.doc("Version of the config format. The only valid version is v1alpha1.");
  debug @1 :Bool $A.live $A.keepEmpty $A.doc("Copy the logs of all services to the console.");
  persist @2 :Bool $A.live $A.keepEmpty
      $A.doc("Keep this config on the node's disk; otherwise it is fetched again at each boot.");
  machine @3 :Machine $A.required $A.doc("The machine: its role, identity, network and disks.");
  cluster @4 :Cluster $A.live $A.required $A.doc("The Kubernetes cluster of the machine.");
  documents @5 :List(Text) $A.live $A.hidden;   # kinds of the documents beside this one that gave values, sorted
}

struct CertificateAndKey {
  crt @0 :Data $A.base64 $A.keepEmpty $A.doc("Certificate in PEM format, encoded in base64.");
  key @1 :Data $A.base64 $A.secret $A.keepEmpty $A.doc("Private key in PEM format, encoded in base64.");
}

struct AcceptedKey {
  key @0 :Data $A.base64 $A.keepEmpty $A.doc("Public key in PEM format, encoded in base64.");
}
struct AcceptedCa {
  crt @0 :Data $A.base64 $A.keepEmpty $A.doc("Certificate in PEM format, encoded in base64.");
}

struct StringPair { key @0 :Text; value @1 :Text; }
struct RawPair { key @0 :Text; value @1 :Text $A.raw; }

# --- machine -----------------------------------------------------------------------------------------------

struct Machine {
  type @0 :MachineType $A.keepEmpty $A.default("worker")
      $A.doc("Role of the machine. A control-plane node also runs etcd and the Kubernetes control plane; "
             "init is a control-plane node that bootstraps a new etcd cluster by itself.");
  token @1 :Text $A.live $A.secret $A.keepEmpty
      $A.doc("Shared secret with which nodes request their API certificate from the control plane. gen config makes "
             "6 characters, a dot and 16 characters, all of a-z and 0-9. On a worker also a join token, as talosctl "
             "token create prints it, with which it joins once.");
  ca @2 :CertificateAndKey $A.live
      $A.doc("CA of the machine API. Only control-plane nodes have its key.");
  certSANs @3 :List(Text) $A.live
      $A.doc("Additional names and addresses for the certificate of the machine API, besides those of the machine.");
  kubelet @4 :Kubelet $A.live $A.doc("The kubelet.");
  network @5 :Network $A.live $A.doc("Host name, links, addresses, routes and resolvers.");
  install @6 :Disks.Install $A.live $A.doc("Installation of the system on a disk.");
  registries @7 :Registries $A.doc("Mirrors and credentials for pulling container images.");
  disks @8 :List(Disks.Disk)
      $A.doc("Additional disks; they are partitioned and formatted if they are empty, and mounted.");
  files @9 :List(File)
      $A.doc("Files to write at each boot, in this order.");
  env @10 :List(StringPair) $A.map $A.secret
      $A.doc("Environment variables of all services, such as http_proxy, https_proxy and no_proxy. Their values are secret.");
  time @11 :Time $A.live $A.doc("Time synchronisation.");
  sysctls @12 :List(StringPair) $A.live $A.map
      $A.doc("Kernel parameters by their sysctl name, such as net.ipv4.ip_forward.");
  systemDiskEncryption @13 :Disks.SystemDiskEncryption
      $A.doc("Encryption of the system partitions.");
  caHash @14 :Text $A.live
      $A.doc("On workers, instead of the certificate in ca: sha256: and the hash of the CA's public key in "
             "hexadecimal, as talosctl gen ca writes it. The CA of trustd must have this hash.");
  nodeLabels @15 :List(StringPair) $A.live $A.map $A.since("v1.3")
      $A.doc("Labels of the node in Kubernetes. On a worker, those of kubernetes.io and k8s.io that a kubelet may not set "
             "are for an administrator: kubectl label.");
  nodeTaints @16 :List(StringPair) $A.live $A.map $A.since("v1.6")
      $A.doc("Taints of the node in Kubernetes; the value is VALUE:EFFECT or EFFECT, such as NoSchedule. A worker sets them "
             "when it registers; later changes are for an administrator: kubectl taint.");
  features @17 :Features $A.live $A.since("v0.11") $A.doc("Features that are off unless they are enabled.");
  kernel @18 :KernelModules $A.live $A.since("v1.0") $A.doc("Modules of the kernel.");
  sysfs @19 :List(StringPair) $A.live $A.map $A.since("v1.0")
      $A.doc("Values of files in sysfs by their path below /sys, such as devices.system.cpu.cpu0.cpufreq.scaling_governor "
             "or, for names with dots, class/net/eth0.100/mtu.");
  udev @20 :Udev $A.live $A.since("v0.14")
      $A.doc("Refused: there is no udev. Use machine.network.interfaces[].deviceSelector to select links, "
             "machine.kernel.modules to load drivers, and machine.sysfs to set attributes of devices.");
  watchdog @21 :Watchdog $A.live
      $A.doc("Watchdog timer: hardware that resets the machine when the system no longer feeds it.");
  logging @22 :Monitoring.Logging $A.live $A.since("v0.14") $A.doc("Sends logs to other machines.");
  metrics @23 :Monitoring.Metrics $A.live $A.doc("Serves metrics of the node to Prometheus.");
  nodeAnnotations @24 :List(StringPair) $A.live $A.map $A.since("v1.8")
      $A.doc("Annotations of the node in Kubernetes.");
  acceptedCAs @25 :List(AcceptedCa) $A.live $A.since("v1.7")
      $A.doc("CAs of the machine API that are accepted beside ca, while it is replaced. A certificate for the key of ca "
             "that another CA signed is sent after the certificates of the node.");
  outOfMemory @26 :OutOfMemory $A.live $A.hidden;
  pciDrivers @27 :List(PciDriver) $A.live $A.hidden;
  trustedRoots @28 :List(StringPair) $A.live $A.hidden;   # the TrustedRootsConfigs: name, text of the bundle
  controlPlane @29 :LocalControlPlane $A.live $A.since("v0.14")
      $A.doc("Parts of the Kubernetes control plane that this node runs. Only on control-plane nodes.");
  pods @30 :List(StaticPod) $A.live $A.since("v1.0")
      $A.doc("Static pods, as Kubernetes documents them: apiVersion v1, kind Pod. The kubelet runs them without the API "
             "server. A change restarts the pod alone.");
  seccompProfiles @31 :List(SeccompProfile) $A.live $A.since("v1.2")
      $A.doc("Seccomp profiles for pods, of the type Localhost.");
  baseRuntimeSpecOverrides @32 :List(RawPair) $A.map $A.since("v1.9")
      $A.doc("Fields of the OCI runtime specification, merged into the specification with which containerd makes the containers "
             "of pods, such as process.rlimits.");
  baseRuntimeSpec @33 :Text $A.live $A.hidden;   # JSON: that specification with the overrides; "": containerd's own
  volumes @34 :List(Disks.StorageVolume) $A.live $A.hidden;    # the volumes of documents, in their order
  ephemeralSize @35 :Disks.VolumeSize $A.hidden;        # of the partition EPHEMERAL, by its VolumeConfig
  trims @36 :List(Disks.TrimRule) $A.live $A.hidden;    # which file systems are trimmed, by documents
}

struct LocalControlPlane {
  controllerManager @0 :LocalComponent $A.doc("The Kubernetes controller manager.");
  scheduler @1 :LocalComponent $A.doc("The Kubernetes scheduler.");
}
struct LocalComponent {
  disabled @0 :Bool $A.default("false") $A.doc("Do not run it on this node.");
}

# A static pod.
struct StaticPod $A.inline {
  pod @0 :Text $A.raw;
  id @1 :Text $A.hidden;               # of its resource: namespace-name
}

struct SeccompProfile {
  name @0 :Text $A.keepEmpty $A.required
      $A.doc("Name of the profile. A pod has it as localhostProfile: profiles/NAME.");
  value @1 :Text $A.raw $A.keepEmpty $A.required
      $A.doc("The profile, as the OCI runtime specification documents it: defaultAction, syscalls and other keys.");
  json @2 :Text $A.hidden;             # the value in JSON
}

# The handler that kills a cgroup before the node is out of memory, as the document OOMConfig sets it. Expressions are in CEL.
struct OutOfMemory {
  triggerExpression @0 :Text;          # "": the default
  rankingExpression @1 :Text;          # "": the default
  ignoresClasses @2 :Bool;             # a cgroup of a higher class may be killed before those of a lower one
  intervalMs @3 :UInt32 = 500;         # between two samples
}

# The driver of a device on PCI, instead of the one that the kernel chooses.
struct PciDriver {
  device @0 :Text;                     # 0000:04:00.0
  driver @1 :Text;
}

struct Watchdog {
  device @0 :Text $A.doc("Device, such as /dev/watchdog0. Required.");
  timeout @1 :Text $A.default("1m")
      $A.doc("Time after which the machine is reset, in whole seconds, from 10s to 18h. The system feeds the device each "
             "second, until machined has not worked for three minutes.");
}

struct KernelModules {
  modules @0 :List(KernelModule) $A.doc("Modules to load at boot, in this order, before sysfs and sysctls are set.");
}

struct KernelModule {
  name @0 :Text $A.doc("Name of the module.");
  parameters @1 :List(Text) $A.since("v1.3")
      $A.doc("Parameters, such as numifbs=1. They are set when the module is loaded and not changed afterwards.");
}

struct Udev {
  rules @0 :List(Text) $A.doc("Rules of udev. Must be empty.");
}

struct Features {
  kubernetesTalosAPIAccess @0 :PodApiAccess $A.since("v1.2")
      $A.doc("Access of pods to the machine API. Only on control-plane nodes; set it on all of them.");
  podMetadataAccess @1 :Bool $A.default("false")
      $A.doc("Let pods reach the metadata service of the platform, such as 169.254.169.254, as drivers of storage (CSI) and "
             "controllers of a cloud may need. Every pod can then read the user data of the machine. Otherwise the node drops "
             "what pods send to it, except queries of names and of time.");
  kubePrism @2 :KubePrism $A.since("v1.5")
      $A.doc("A balancer for the API servers of Kubernetes on the loopback interface of each node, for the kubelet, kubed and "
             "other programs of the node.");
  hostDNS @3 :HostDns $A.since("v1.7") $A.doc("A caching resolver of the node, at 127.0.0.53.");
  stableHostname @4 :Bool $A.since("v1.2") $A.default("false")
      $A.doc("Name a node without a host name talos-XXX-YYY, of letters and digits that are made from its identity and stay as "
             "long as it, instead of naming it after its first address.");
  imageCache @5 :ImageCache $A.since("v1.9")
      $A.doc("Images that the node has on a medium, for a node without a registry (`talosctl image cache-create`).");
}
struct ImageCache {
  localEnabled @0 :Bool $A.default("false") $A.doc("Take images from an attached medium with a cache, such as the ISO of `make iso IMAGE_CACHE=…`, before registries.");
}

struct KubePrism {
  enabled @0 :Bool $A.default("false")
      $A.doc("Run the balancer. The kubelet and, on a worker, kubed then reach the API by it instead of "
             "cluster.controlPlane.endpoint, which stays one of its servers.");
  port @1 :UInt16 = 7445 $A.default("7445") $A.doc("Port on 127.0.0.1, from 1024 on.");
  tlsServerName @2 :Text $A.hidden;    # name in the certificates of the API servers; "": 127.0.0.1
}

struct HostDns {
  enabled @0 :Bool $A.default("false")
      $A.doc("Run the resolver. The node asks it, and it asks the name servers of machine.network or of the platform.");
  forwardKubeDNSToHost @1 :Bool $A.default("false")
      $A.doc("Run it at 169.254.116.108 too, or at fd54:616c:6f73:0:204f:5320:444e:531 for pods with IPv6, and name this "
             "address to pods as the node's name server, so that CoreDNS asks it. Pods that run keep the name servers that "
             "they began with. Needs enabled.");
  resolveMemberNames @2 :Bool $A.default("false")
      $A.doc("Resolve names of nodes of the cluster, with and without their domain, as Kubernetes knows them. Needs enabled.");
}

struct PodApiAccess {
  enabled @0 :Bool $A.default("false")
      $A.doc("Give a client configuration to each ServiceAccount of talos.dev in the allowed namespaces, as a Secret "
             "of its name.");
  allowedRoles @1 :List(ApiRole) $A.doc("Roles that such an account may ask for.");
  allowedKubernetesNamespaces @2 :List(Text) $A.doc("Namespaces whose accounts are given access.");
}

enum ApiRole $A.noun("role") {
  admin @0 $A.name("os:admin");
  operator @1 $A.name("os:operator");
  reader @2 $A.name("os:reader");
  etcdBackup @3 $A.name("os:etcd:backup");
}

enum MachineType $A.noun("machine type") {
  worker @0 $A.alias(["join", ""]);
  init @1;
  controlplane @2;
}

struct Kubelet {
  image @0 :Text $A.doc("Container image of the kubelet.");
  extraArgs @1 :List(StringPair) $A.map
      $A.doc("Additional arguments, without the leading dashes. Arguments that the system sets itself are refused.");
  extraMounts @2 :List(Mount) $A.doc("Additional mounts in the kubelet's container.");
  registerWithFQDN @3 :Bool $A.default("false")
      $A.doc("Register the node under its fully qualified domain name instead of its host name.");
  clusterDNS @4 :List(Text) $A.since("v0.12") $A.default("the tenth address of each network of services")
      $A.doc("Addresses of the DNS servers of pods.");
  nodeIP @5 :NodeIp $A.since("v0.13") $A.doc("The address that the node registers with.");
  extraConfig @6 :KubeletConfiguration $A.since("v1.0")
      $A.doc("Fields of the kubelet's configuration (kubelet.config.k8s.io/v1beta1), merged into that of the node. Those that "
             "the node sets itself are refused.");
  defaultRuntimeSeccompProfileEnabled @7 :Bool $A.since("v1.2") $A.default("false")
      $A.doc("Run pods without a seccomp profile with the default profile of containerd, RuntimeDefault, instead of without a "
             "filter. From Kubernetes 1.25 on.");
  disableManifestsDirectory @8 :Bool $A.since("v1.3") $A.default("false")
      $A.doc("Do not run static pods from files in /etc/kubernetes/manifests, where privileged pods can write: only those of the "
             "control plane and of machine.pods. A change restarts them.");
  skipNodeRegistration @9 :Bool $A.since("v1.2") $A.default("false")
      $A.doc("Do not register the node in Kubernetes: the kubelet runs static pods only.");
  credentialProviderConfig @10 :CredentialProviderConfig $A.since("v1.6")
      $A.doc("Programs that give the kubelet the credentials of registries. The system must have them in "
             "/usr/local/lib/kubelet/credentialproviders. From Kubernetes 1.24 on.");
}

struct CredentialProviderConfig {
  apiVersion @0 :Text $A.default("the newest that the release has") $A.doc("kubelet.config.k8s.io and a version.");
  kind @1 :Text $A.default("CredentialProviderConfig") $A.doc("The only valid kind is CredentialProviderConfig.");
  providers @2 :List(CredentialProvider) $A.doc("The programs. Without any, the kubelet asks none.");
}

struct CredentialProvider {
  name @0 :Text $A.keepEmpty $A.required $A.doc("Name of the program, as its file.");
  matchImages @1 :List(Text) $A.required
      $A.doc("Images for which the kubelet calls the program: a registry, with or without a port and the beginning of a path. A * in the "
             "registry's name stands for one part of it, or for the rest of a part.");
  defaultCacheDuration @2 :Text $A.keepEmpty $A.required
      $A.doc("How long credentials are kept if the program does not say it, such as 12h; 0s: they are not kept.");
  apiVersion @3 :Text $A.default("the newest that the release has")
      $A.doc("Version of the call: credentialprovider.kubelet.k8s.io and a version.");
  args @4 :List(Text) $A.doc("Arguments of the program.");
  env @5 :List(ProviderVariable) $A.doc("Environment variables of the program, besides those of the kubelet.");
  others @6 :List(RawPair) $A.name("*") $A.map $A.others
      $A.doc("Any other key, as Kubernetes documents it, such as tokenAttributes. The kubelet checks it: talosctl logs kubelet.");
}

struct ProviderVariable {
  name @0 :Text $A.keepEmpty $A.required $A.doc("Name of the variable.");
  value @1 :Text $A.secret $A.keepEmpty $A.doc("Value of the variable.");
}

struct KubeletConfiguration {
  shutdownGracePeriod @0 :Text $A.default("30s")
      $A.doc("How long the kubelet ends pods before the node goes down, at most 5m; 0s: the node itself ends them. From "
             "Kubernetes 1.21 on, as the next key.");
  shutdownGracePeriodCriticalPods @1 :Text $A.default("10s, or a third of shutdownGracePeriod if that is less")
      $A.doc("The part of it, at its end, that is for pods of the priorities system-cluster-critical and "
             "system-node-critical.");
  shutdownGracePeriodByPodPriority @2 :List(PriorityPeriod)
      $A.doc("Instead of both: pods are ended by their priority, lowest first. From Kubernetes 1.24 on.");
  evictionHard @3 :List(StringPair) $A.map
      $A.doc("Signals and thresholds below which pods are evicted at once, such as memory.available: 100Mi.");
  others @4 :List(RawPair) $A.name("*") $A.map $A.others
      $A.doc("Any other field, as Kubernetes documents it, such as maxPods. The kubelet checks it: talosctl logs kubelet.");
}

struct PriorityPeriod {
  priority @0 :Int32 $A.required
      $A.doc("Pods of this priority, and of those between it and the next higher one of the list. Pods below all are with the lowest.");
  shutdownGracePeriodSeconds @1 :UInt32 $A.required $A.doc("How long these pods have to end; all together at most 300.");
}

struct NodeIp {
  validSubnets @0 :List(Text) $A.default("all, except shared addresses and those of pods and services")
      $A.doc("Subnets of the address, for IPv4 and IPv6. Those that begin with ! are excluded.");
}

struct Mount {
  destination @0 :Text $A.required $A.doc("Absolute path in the container.");
  type @1 :Text $A.doc("Type of the mount, such as bind or tmpfs.");
  source @2 :Text $A.doc("Path of the machine to mount; created if it is missing.");
  options @3 :List(Text) $A.doc("Mount options, such as rbind, rshared and rw.");
  uidMappings @4 :List(IdMapping) $A.since("v1.6")
      $A.doc("Other owners of the mounted files than on disk (an idmapped mount). Only for bind mounts, and together with "
             "gidMappings.");
  gidMappings @5 :List(IdMapping) $A.since("v1.6") $A.doc("The same for groups.");
}

struct IdMapping {
  containerID @0 :UInt32 $A.keepEmpty $A.doc("First id of the owners on disk.");
  hostID @1 :UInt32 $A.keepEmpty $A.doc("First id that they have in the mount.");
  size @2 :UInt32 $A.keepEmpty $A.required $A.doc("Number of ids, at least 1.");
}

struct Time {
  disabled @0 :Bool $A.keepEmpty $A.default("false") $A.doc("Do not synchronise the clock.");
  servers @1 :List(Text) $A.default("those of DHCP or the platform, else pool.ntp.org")
      $A.doc("Names or addresses of NTP servers.");
  bootTimeout @2 :Text $A.since("v0.13") $A.default("30s")
      $A.doc("How long etcd and the kubelet wait at boot, at most, until the clock is synchronised; then they start with the "
             "clock as it is. 0s means the default.");
}

struct File {
  content @0 :Text $A.secret $A.keepEmpty $A.doc("Content of the file.");
  permissions @1 :UInt32 = 420 $A.octal $A.keepEmpty $A.default("0644")
      $A.doc("Permissions of the file, in octal.");
  path @2 :Text $A.keepEmpty $A.required
      $A.doc("Absolute path of the file. /etc/cri/conf.d/20-customization.part is a part of the configuration of containerd.");
  op @3 :FileOp $A.keepEmpty $A.required
      $A.doc("create writes a new file below /var; overwrite replaces an existing file; append adds to its end.");
}

enum FileOp $A.noun("file operation") {
  create @0;
  append @1;
  overwrite @2;
}

struct Registries {
  mirrors @0 :List(Mirror) $A.live $A.map
      $A.doc("Mirrors by host name of the registry; * matches all other registries.");
  config @1 :List(RegistryEntry) $A.map
      $A.doc("TLS and credentials by host (and port) of the registry or mirror.");
  struct Mirror { key @0 :Text; value @1 :Endpoints; }
  struct Endpoints {
    endpoints @0 :List(Text) $A.keepEmpty $A.doc("URLs of the mirrors, tried in this order.");
    overridePath @1 :Bool $A.since("v1.3") $A.default("false")
        $A.doc("Use a URL without a path as it is; otherwise /v2 is added to it. A path is always used as it is.");
    skipFallback @2 :Bool $A.since("v1.9") $A.default("false")
        $A.doc("Do not pull from the registry itself if no endpoint has the image.");
  }
  struct RegistryEntry { key @0 :Text; value @1 :RegistryConfig; }
}

struct RegistryConfig {
  tls @0 :RegistryTls $A.live $A.doc("TLS of connections to the registry.");
  auth @1 :RegistryAuth $A.doc("Credentials, as in docker's config.json.");
}
struct RegistryTls {
  clientIdentity @0 :CertificateAndKey $A.doc("Client certificate of this machine.");
  ca @1 :Data $A.base64
      $A.doc("CA of the registry, in addition to the public CAs, in PEM format, encoded in base64.");
  insecureSkipVerify @2 :Bool $A.default("false") $A.doc("Accept any certificate.");
}
struct RegistryAuth {
  username @0 :Text $A.doc("User name.");
  password @1 :Text $A.secret $A.doc("Password.");
  auth @2 :Text $A.secret $A.doc("user:password in base64.");
  identityToken @3 :Text $A.secret $A.doc("Identity token, which is exchanged for an access token.");
}

# --- cluster -----------------------------------------------------------------------------------------------

struct Cluster {
  controlPlane @0 :ControlPlane $A.required $A.doc("The Kubernetes API.");
  clusterName @1 :Text $A.doc("Name of the cluster, for kubeconfig files.");
  network @2 :ClusterNetwork $A.doc("Networks and domain of the cluster.");
  token @3 :Text $A.secret
      $A.doc("Bootstrap token with which kubelets join the cluster: 6 characters, a dot and 16 characters, all of a-z and 0-9.");
  aescbcEncryptionSecret @4 :Text $A.secret
      $A.doc("Key with which Kubernetes encrypts secrets in etcd: 32, 24 or 16 bytes in base64.");
  ca @5 :CertificateAndKey $A.doc("CA of Kubernetes. Workers have its certificate only.");
  aggregatorCA @6 :CertificateAndKey
      $A.doc("CA of the aggregation layer (front proxy) of the Kubernetes API.");
  serviceAccount @7 :ServiceAccount $A.doc("Service accounts.");
  apiServer @8 :ApiServer $A.doc("The Kubernetes API server.");
  controllerManager @9 :ControllerManager $A.doc("The Kubernetes controller manager.");
  proxy @10 :Proxy $A.doc("kube-proxy, as a new cluster gets it. What a cluster has is changed with kubectl.");
  scheduler @11 :Scheduler $A.doc("The Kubernetes scheduler.");
  etcd @12 :Etcd $A.doc("etcd.");
  podCheckpointer @13 :PodCheckpointer $A.noEffect("remove it") $A.doc("Keeps static pods of a control plane that runs in pods, which this one does not.");
  coreDNS @14 :CoreDns $A.doc("CoreDNS, as a new cluster gets it. What a cluster has is changed with kubectl.");
  externalCloudProvider @15 :ExternalCloudProvider $A.since("v0.10")
      $A.doc("Cloud provider that runs as a workload of the cluster.");
  extraManifests @16 :List(Text) $A.doc("URLs of manifests whose objects are created in the cluster, where they are missing.");
  extraManifestHeaders @17 :List(StringPair) $A.map $A.secret $A.doc("HTTP headers for fetching extraManifests.");
  inlineManifests @18 :List(InlineManifest) $A.since("v0.10")
      $A.doc("Manifests whose objects are created in the cluster, where they are missing.");
  adminKubeconfig @19 :AdminKubeconfig $A.doc("The kubeconfig that talosctl kubeconfig generates.");
  allowSchedulingOnMasters @20 :Bool $A.default("false") $A.doc("Allow workloads on control-plane nodes.");
  trustd @21 :Trustd $A.doc("API certificates of workers.");
  secretboxEncryptionSecret @22 :Text $A.secret $A.since("v1.3")
      $A.doc("Key with which Kubernetes encrypts secrets in etcd, by secretbox: 32 bytes in base64. It takes precedence "
             "over aescbcEncryptionSecret, with which older secrets are still read.");
  kubernetesVersion @23 :Text $A.default("that of the image's tag")
      $A.doc("Version of Kubernetes, such as v1.34.4, of component images that are named without a tag (by a digest).");
  allowSchedulingOnControlPlanes @24 :Bool $A.default("false") $A.since("v1.2")
      $A.doc("The same as allowSchedulingOnMasters.");
  acceptedCAs @25 :List(AcceptedCa) $A.since("v1.7")
      $A.doc("CAs of Kubernetes whose clients are accepted beside those of ca, while it is replaced. A certificate for the "
             "key of ca that another CA signed is sent after the certificate of the API server.");
  acceptedEncryptionSecrets @26 :List(Text) $A.secret
      $A.doc("Keys like secretboxEncryptionSecret with which secrets are read, while that is replaced. When it is one of "
             "them, what is written with it has a name of its own in etcd.");
  acceptedServiceAccountKeys @27 :List(AcceptedKey)
      $A.doc("Keys whose service account tokens are accepted beside those of serviceAccount.key, while that is replaced.");
  acceptedAggregatorCAs @28 :List(AcceptedCa)
      $A.doc("CAs of the aggregation layer whose clients are accepted beside those of aggregatorCA, while it is replaced.");
}

struct Trustd {
  endpoints @0 :List(Text) $A.default("the host of controlPlane.endpoint")
      $A.doc("Names or addresses of control-plane nodes from which a worker requests its API certificate, in addition to "
             "the host of controlPlane.endpoint.");
  certLifetime @1 :Text $A.default("24h")
      $A.doc("Lifetime of the API certificates, at least 10s. They are renewed after half of it.");
  anyAddress @2 :Bool $A.default("false")
      $A.doc("Also sign requests for addresses that they do not come from, for workers behind NAT. Anyone who has "
             "machine.token can then get a certificate for any address except those of the control plane.");
}

struct PodCheckpointer {
  image @0 :Text $A.doc("Container image of the checkpointer.");
}
struct CoreDns {
  image @0 :Text $A.doc("Container image of CoreDNS.");
  disabled @1 :Bool $A.default("false") $A.since("v0.11") $A.doc("Do not create CoreDNS.");
}
struct ExternalCloudProvider {
  enabled @0 :Bool $A.default("false") $A.doc("Use an external cloud provider.");
  manifests @1 :List(Text) $A.doc("URLs of the manifests of the provider.");
}
struct InlineManifest {
  name @0 :Text $A.keepEmpty $A.doc("Name of the manifest; must be unique.");
  contents @1 :Text $A.secret $A.keepEmpty $A.doc("Content of the manifest.");
}
struct AdminKubeconfig {
  certLifetime @0 :Text $A.default("8760h (a year)") $A.doc("Lifetime of the certificate in the kubeconfig, at least 1h.");
}

struct ControlPlane {
  endpoint @0 :Text $A.required
      $A.doc("URL of the Kubernetes API for nodes and users: https://host:port.");
  localAPIServerPort @1 :UInt16 = 6443 $A.default("6443")
      $A.doc("Port of the API server on each control-plane node; 0 means 6443.");
}

struct ClusterNetwork {
  dnsDomain @0 :Text $A.keepEmpty $A.doc("DNS domain of the cluster.");
  podSubnets @1 :List(Text) $A.default("10.244.0.0/16") $A.doc("Subnets of pods: one of IPv4, one of IPv6, or one of each. The default of a cluster whose endpoint is an IPv6 address is fc00:db8:10::/56.");
  serviceSubnets @2 :List(Text) $A.default("10.96.0.0/12") $A.doc("Subnets of services, of the same families. The first one is that of the nodes' first addresses. The default with an IPv6 endpoint is fc00:db8:20::/112.");
  cni @3 :Cni $A.default("flannel") $A.doc("Network plugin (CNI) for pods, as a new cluster gets it. What a cluster has is changed with kubectl.");
}

struct Cni {
  name @0 :CniName $A.keepEmpty $A.doc("flannel, custom (uses the manifests in urls), or none; needed on control-plane nodes.");
  urls @1 :List(Text) $A.doc("URLs of the manifests of a custom CNI.");
  flannel @2 :Flannel $A.since("v1.6") $A.doc("Settings of flannel.");
}
struct Flannel {
  extraArgs @0 :List(Text) $A.doc("Arguments of flanneld, such as --iface=eth1, after those of the system.");
}
enum CniName $A.noun("CNI name") {
  flannel @0;
  custom @1;
  none @2 $A.since("v0.10");
}

struct ServiceAccount {
  key @0 :Data $A.base64 $A.secret
      $A.doc("Private key for signing service account tokens, in PEM format, encoded in base64.");
}

struct ApiServer {
  image @0 :Text $A.doc("Container image of the API server.");
  certSANs @1 :List(Text) $A.doc("Additional names and addresses for the certificate of the API server.");
  extraArgs @2 :List(StringPair) $A.map
      $A.doc("Additional arguments, without the leading dashes; they take precedence over the built-in ones.");
  extraVolumes @3 :List(Volume) $A.doc("Directories of the machine that are mounted in the pod.");
  disablePodSecurityPolicy @4 :Bool $A.default("false") $A.since("v0.12")
      $A.doc("Run without the admission plugin PodSecurityPolicy, which Kubernetes has up to v1.24, and without the policy of "
             "the system.");
  auditPolicy @5 :AuditPolicy $A.since("v1.3") $A.default("a policy with the metadata of every request except those about its health")
      $A.doc("Which requests the API server writes to its audit log, /var/log/audit/kube/kube-apiserver.log, as Kubernetes "
             "documents it.");
  admissionControl @6 :List(AdmissionPlugin) $A.since("v1.0") $A.doc("Configurations of admission plugins.");
  authorizationConfig @7 :List(Authorizer) $A.since("v1.9") $A.default("Node and RBAC")
      $A.doc("Authorizers in their order. Node and RBAC precede the list unless it has them. From Kubernetes 1.30 on.");
  onlyGivenAuthorizers @8 :Bool $A.hidden;      # of KubeAuthorizerConfig: nothing precedes them
  env @9 :List(StringPair) $A.map $A.since("v1.0")
      $A.doc("Environment variables. Everyone who may read pods of kube-system can read them.");
  resources @10 :Resources $A.since("v1.5") $A.doc("CPU and memory.");
}

struct AdmissionPlugin {
  name @0 :Text $A.keepEmpty $A.required $A.doc("Name of the plugin, such as PodSecurity. A plugin that is off by default is enabled.");
  configuration @1 :FreeObject $A.doc("Configuration of the plugin, as Kubernetes documents it.");
}

# A mapping whose keys a program of Kubernetes checks.
struct FreeObject {
  apiVersion @0 :Text $A.doc("Version of the API that defines the keys.");
  kind @1 :Text $A.doc("Kind of the object.");
  others @2 :List(RawPair) $A.name("*") $A.map $A.others $A.doc("Any other key.");
}

struct Authorizer {
  type @0 :AuthorizerType $A.keepEmpty $A.required $A.doc("Type of the authorizer.");
  name @1 :Text $A.keepEmpty $A.required $A.doc("Name of the authorizer in metrics and logs: node, rbac, or any other name of a Webhook.");
  webhook @2 :List(RawPair) $A.map
      $A.doc("Settings of a Webhook, as Kubernetes documents them. Files that they name, as connectionInfo.kubeConfigFile, are "
             "in directories of extraVolumes.");
}
enum AuthorizerType $A.noun("type of authorizers") {
  node @0 $A.name("Node");
  rbac @1 $A.name("RBAC");
  webhook @2 $A.name("Webhook");
}

struct Resources {
  requests @0 :List(StringPair) $A.map $A.default("cpu: 200m, memory: 512Mi for the API server; 50m, 256Mi for the controller manager; 10m, 64Mi for the scheduler")
      $A.doc("Quantities that are reserved: cpu and memory.");
  limits @1 :List(StringPair) $A.map $A.doc("Limits: cpu and memory. A component learns 95 % of its limit of memory as GOMEMLIMIT.");
}

struct ControllerManager {
  image @0 :Text $A.doc("Container image of the controller manager.");
  extraArgs @1 :List(StringPair) $A.map
      $A.doc("Additional arguments, without the leading dashes; they take precedence over the built-in ones.");
  extraVolumes @2 :List(Volume) $A.doc("Directories of the machine that are mounted in the pod.");
  env @3 :List(StringPair) $A.map $A.since("v1.0")
      $A.doc("Environment variables. Everyone who may read pods of kube-system can read them.");
  resources @4 :Resources $A.since("v1.5") $A.doc("CPU and memory.");
}

struct Scheduler {
  image @0 :Text $A.doc("Container image of the scheduler.");
  extraArgs @1 :List(StringPair) $A.map
      $A.doc("Additional arguments, without the leading dashes; they take precedence over the built-in ones.");
  extraVolumes @2 :List(Volume) $A.doc("Directories of the machine that are mounted in the pod.");
  env @3 :List(StringPair) $A.map $A.since("v1.0")
      $A.doc("Environment variables. Everyone who may read pods of kube-system can read them.");
  resources @4 :Resources $A.since("v1.5") $A.doc("CPU and memory.");
  config @5 :SchedulerConfiguration $A.since("v1.6")
      $A.doc("Configuration of the scheduler: a KubeSchedulerConfiguration, as Kubernetes documents it.");
}

struct SchedulerConfiguration {
  apiVersion @0 :Text $A.default("the newest that the release has") $A.doc("kubescheduler.config.k8s.io and a version.");
  kind @1 :Text $A.default("KubeSchedulerConfiguration") $A.doc("The only valid kind is KubeSchedulerConfiguration.");
  clientConnection @2 :List(RawPair) $A.map $A.doc("Connection to the API server. The node sets its kubeconfig.");
  others @3 :List(RawPair) $A.name("*") $A.map $A.others $A.doc("Any other key, such as profiles. The scheduler checks it.");
}

struct Volume {
  hostPath @0 :Text $A.keepEmpty $A.required $A.doc("Absolute path on the machine.");
  mountPath @1 :Text $A.keepEmpty $A.required $A.doc("Absolute path in the pod.");
  readonly @2 :Bool $A.default("false") $A.doc("Mount it read-only.");
}

struct Proxy {
  image @0 :Text $A.doc("Container image of kube-proxy.");
  disabled @1 :Bool $A.default("false") $A.doc("Do not run kube-proxy.");
  mode @2 :ProxyMode $A.default("iptables") $A.doc("Proxy mode: how services are implemented.");
  extraArgs @3 :List(StringPair) $A.map $A.doc("Additional arguments, without the leading dashes.");
}
enum ProxyMode $A.noun("kube-proxy mode") {
  iptables @0 $A.alias([""]);
  ipvs @1;
  userspace @2;
  nftables @3;
}

struct Etcd {
  image @0 :Text $A.reboot $A.doc("Container image of etcd.");
  ca @1 :CertificateAndKey $A.doc("CA of etcd.");
  extraArgs @2 :List(StringPair) $A.map
      $A.doc("Additional arguments, without the leading dashes. Arguments that the system sets itself are refused.");
  advertisedSubnets @3 :List(Text) $A.since("v1.2") $A.default("all, except shared addresses")
      $A.doc("Subnets of the address that other nodes reach etcd at. A subnet that begins with ! is excluded.");
  listenSubnets @4 :List(Text) $A.since("v1.2") $A.default("every address")
      $A.doc("Subnets of the addresses that etcd listens on, in addition to 127.0.0.1. A subnet that begins with ! is excluded.");
  backup @5 :EtcdBackup $A.doc("Encrypted snapshots at intervals, in a store with the API of S3.");
  acceptedCAs @6 :List(AcceptedCa)
      $A.doc("CAs whose certificates the members and clients of etcd accept beside those of ca, while it is replaced.");
}

struct EtcdBackup {
  endpoint @0 :Text $A.required $A.doc("Store: https:// or http://, host and port, such as https://s3.example.org.");
  bucket @1 :Text $A.required $A.doc("Bucket, which must exist.");
  prefix @2 :Text $A.doc("Text before the names of the snapshots, such as production/; each cluster needs its own.");
  region @3 :Text $A.default("us-east-1") $A.doc("Region that requests are signed for.");
  accessKey @4 :Text $A.required
      $A.doc("Access key id. It must be allowed to list the bucket, and to write and delete below the prefix.");
  secretKey @5 :Text $A.secret $A.required $A.doc("Secret access key.");
  ca @6 :Data $A.base64
      $A.doc("Certificates in PEM format, encoded in base64, of the authorities that the store is checked with. "
             "Without it: the public authorities of the image.");
  every @7 :Text $A.default("1h") $A.doc("Time between two snapshots: 10s to 168h.");
  keep @8 :UInt32 = 48 $A.default("48") $A.doc("Number of snapshots to keep, 1 to 900; older ones are deleted.");
  encryptTo @9 :Data $A.base64 $A.required
      $A.doc("Certificate in PEM format, encoded in base64, whose owner can read the snapshots: with an RSA key or one of "
             "a curve of NIST. Its key does not belong in the cluster.");
}
