@0xd5e2a0b6c1f74a93;
# The machine config (v1alpha1): one YAML document that says what a node is. Keys, defaults and rules: spec
# machine-config.md §2-8. Field order is the order in which keys are written; common/config/config.h reads it and
# checks what a schema cannot say. A key that is not here is an error, or a warning where it is one of a later
# version. Where the kernel or a component has a default of its own, it is the field's default here, so that an
# absent key and that value mean the same.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::config");
using A = import "annotations.capnp";

struct Config {
  version @0 :Text $A.live $A.keepEmpty $A.doc("Version of this format; v1alpha1 is the only one.");
  debug @1 :Bool $A.live $A.keepEmpty $A.doc("Copy the logs of all system services to the console as well.");
  persist @2 :Bool $A.live $A.keepEmpty
      $A.doc("Keep this document on the machine's disk. Without it the document is fetched again at each boot.");
  machine @3 :Machine $A.required $A.doc("The machine itself: its role, identity, network and disks.");
  cluster @4 :Cluster $A.live $A.required $A.doc("The Kubernetes cluster that the machine belongs to.");
}

struct CertificateAndKey {
  crt @0 :Data $A.base64 $A.keepEmpty $A.doc("Certificate: PEM text, encoded in base64 once more.");
  key @1 :Data $A.base64 $A.secret $A.keepEmpty $A.doc("Its private key, encoded in the same way.");
}

struct StringPair { key @0 :Text; value @1 :Text; }

# --- machine -----------------------------------------------------------------------------------------------

struct Machine {
  type @0 :MachineType $A.keepEmpty $A.default("worker")
      $A.doc("Role of the machine. A control-plane machine also runs etcd and the Kubernetes control plane; "
             "init is a control-plane machine that starts a new etcd cluster by itself.");
  token @1 :Text $A.live $A.secret $A.keepEmpty
      $A.doc("Shared secret with which machines ask the control plane to sign the certificate of their API: "
             "6 characters, a dot and 16 characters of a-z and 0-9.");
  ca @2 :CertificateAndKey
      $A.doc("Certificate authority of the machine API. Only control-plane machines have its key.");
  certSANs @3 :List(Text) $A.live
      $A.doc("More names and addresses for the certificate of the machine API, besides those of the machine.");
  kubelet @4 :Kubelet $A.live $A.doc("The kubelet of this machine.");
  network @5 :Network $A.live $A.doc("Host name, links, addresses, routes and resolvers.");
  install @6 :Install $A.live $A.doc("How the system is installed on a disk.");
  registries @7 :Registries $A.doc("Where container images are pulled from, and with which credentials.");
  disks @8 :List(Disk)
      $A.doc("Further disks, which are partitioned, formatted and mounted if they are empty.");
  files @9 :List(File)
      $A.doc("Files that are written at each boot, in this order.");
  env @10 :List(StringPair) $A.map
      $A.doc("Environment variables of all services, as http_proxy, https_proxy and no_proxy.");
  time @11 :Time $A.live $A.doc("Where the machine gets the time from.");
  sysctls @12 :List(StringPair) $A.live $A.map
      $A.doc("Kernel parameters, by their name below /proc/sys with dots, as net.ipv4.ip_forward.");
  systemDiskEncryption @13 :SystemDiskEncryption
      $A.doc("Encryption of the partitions that the system keeps its data on.");
  caHash @14 :Text
      $A.doc("On workers, instead of the certificate in ca: sha256: and the hash of its public key in hexadecimal, "
             "as talosctl gen ca writes it. trustd has to show an authority with this hash.");
}

enum MachineType $A.noun("a machine type") {
  worker @0 $A.alias(["join", ""]);
  init @1;
  controlplane @2;
}

struct Kubelet {
  image @0 :Text $A.doc("Image of the kubelet.");
  extraArgs @1 :List(StringPair) $A.map
      $A.doc("Further arguments, without the leading dashes. The arguments that the system sets itself are refused.");
  extraMounts @2 :List(Mount) $A.doc("Further mounts in the kubelet's container.");
  registerWithFQDN @3 :Bool $A.default("false")
      $A.doc("Register the node under its host name with the domain, not under the host name alone.");
}

struct Mount {
  destination @0 :Text $A.required $A.doc("Absolute path in the container.");
  type @1 :Text $A.doc("Type of the mount, as bind or tmpfs.");
  source @2 :Text $A.doc("What is mounted: a path of the machine, created if it is missing.");
  options @3 :List(Text) $A.doc("Mount options, as rbind, rshared and rw.");
}

struct Time {
  disabled @0 :Bool $A.keepEmpty $A.default("false") $A.doc("Leave the clock alone.");
  servers @1 :List(Text) $A.default("pool.ntp.org")
      $A.doc("Names or addresses of NTP servers.");
}

struct Network {
  hostname @0 :Text
      $A.doc("Name of the machine. What follows its first dot becomes the domain name.");
  interfaces @1 :List(Interface)
      $A.doc("Links to configure. A link may stand in several entries, whose settings add up.");
  nameservers @2 :List(Text) $A.default("1.1.1.1 and 8.8.8.8")
      $A.doc("IP addresses of DNS resolvers; the first three are used.");
  extraHostEntries @3 :List(HostEntry) $A.doc("Further lines of /etc/hosts.");
}

struct HostEntry {
  ip @0 :Text $A.keepEmpty $A.doc("The address.");
  aliases @1 :List(Text) $A.keepEmpty $A.doc("The names that stand for it.");
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
  bond @7 :Bond $A.doc("Makes this link a bond of other links.");
  vlans @8 :List(Vlan) $A.doc("VLANs on top of this link (802.1Q); each is a link named LINK.ID.");
  dummy @9 :Bool $A.default("false") $A.doc("Create the link as a dummy if there is none of this name.");
  dhcpOptions @10 :DhcpOptions $A.doc("How DHCP is used; only together with dhcp.");
  wireguard @11 :Wireguard $A.doc("Makes this link a WireGuard tunnel.");
  vip @12 :Vip
      $A.doc("An address that one of the control-plane machines has at a time. Only for control-plane machines.");
  bridge @13 :Bridge $A.since("v1.3") $A.doc("Makes this link a bridge of other links.");
  deviceSelector @14 :DeviceSelector $A.since("v1.3")
      $A.doc("Chooses the link by its properties instead of interface; all that are given must hold, and exactly one "
             "link must have them.");
}

struct Bridge {
  interfaces @0 :List(Text) $A.keepEmpty $A.doc("Names of the links that are bridged.");
  stp @1 :Stp $A.doc("Spanning tree protocol.");
  vlan @2 :VlanFiltering $A.doc("VLANs inside of the bridge.");
  struct Stp { enabled @0 :Bool $A.default("false") $A.doc("Take part in it."); }
  struct VlanFiltering { vlanFiltering @0 :Bool $A.default("false") $A.doc("Look at VLAN tags when forwarding."); }
}

# In texts, * stands for any characters.
struct DeviceSelector {
  busPath @0 :Text $A.doc("Where the device is, as 0000:00:03.0 or 00:*.");
  hardwareAddr @1 :Text $A.doc("Its hardware address, as 52:54:00:*.");
  permanentAddr @2 :Text $A.doc("The hardware address that the device was made with.");
  pciID @3 :Text $A.doc("Vendor and product, as 1af4:1000.");
  driver @4 :Text $A.doc("Name of its driver, as virtio_net.");
  physical @5 :Bool $A.default("false") $A.doc("Only hardware, not links that were made.");
}

struct DhcpOptions {
  routeMetric @0 :UInt32 $A.keepEmpty $A.default("1024")
      $A.doc("Priority of the routes that DHCP gives; 0 stands for 1024.");
  ipv4 @1 :Bool = true $A.default("true") $A.doc("Ask for an IPv4 address.");
  ipv6 @2 :Bool $A.default("false") $A.doc("Ask for an IPv6 address.");
}

struct Vlan {
  vlanId @0 :UInt16 $A.keepEmpty $A.required $A.doc("Number of the VLAN, from 0 to 4094.");
  cidr @1 :Text $A.keepEmpty $A.doc("Static address with its prefix length.");
  dhcp @2 :Bool $A.keepEmpty $A.default("false") $A.doc("Get an IPv4 address by DHCP.");
  routes @3 :List(Route) $A.doc("Static routes through this VLAN.");
  addresses @4 :List(Text) $A.since("v0.12") $A.doc("Further static addresses with prefix lengths.");
  mtu @5 :UInt32 $A.since("v0.14") $A.default("that of the link below") $A.doc("Largest packet in octets.");
  dhcpOptions @6 :DhcpOptions $A.since("v1.2") $A.doc("How DHCP is used; only together with dhcp.");
}

struct Vip {
  ip @0 :Text $A.keepEmpty $A.doc("The shared address, without a prefix length.");
}

struct Wireguard {
  privateKey @0 :Text $A.secret $A.required
      $A.doc("Private key of this machine: 32 octets in base64, as wg genkey writes them.");
  listenPort @1 :UInt16 $A.default("a free port") $A.doc("UDP port; 0 lets the kernel choose one.");
  firewallMark @2 :UInt32 $A.doc("Mark of the outgoing packets; 0 sets none.");
  peers @3 :List(WireguardPeer) $A.doc("All peers of the tunnel.");
}

struct WireguardPeer {
  publicKey @0 :Text $A.required $A.doc("Public key of the peer: 32 octets in base64, as wg pubkey writes them.");
  endpoint @1 :Text $A.doc("host:port at which the peer is reached by UDP.");
  persistentKeepaliveInterval @2 :Text $A.default("0s, which is off")
      $A.doc("How often an empty packet keeps the path open, as 25s.");
  allowedIPs @3 :List(Text) $A.doc("Networks that are behind the peer.");
}

# Names, numbers and defaults are those of the kernel's driver (Documentation/networking/bonding.rst).
struct Bond {
  interfaces @0 :List(Text) $A.keepEmpty $A.doc("Names of the links that are bonded.");
  mode @1 :BondMode $A.keepEmpty $A.default("balance-rr") $A.doc("How the links share the traffic.");
  miimon @2 :UInt32 $A.default("0; 100 where the mode needs link monitoring")
      $A.doc("Milliseconds between looks at the carrier of the links; 0 does not look.");
  updelay @3 :UInt32 $A.default("0") $A.doc("Milliseconds that a link is up before it is used; a multiple of miimon.");
  downdelay @4 :UInt32 $A.default("0") $A.doc("Milliseconds that a link is down before it is left; a multiple of miimon.");
  useCarrier @5 :Bool = true $A.default("true") $A.doc("Ask for the carrier's state, not the driver's registers.");
  arpInterval @6 :UInt32 $A.default("0") $A.doc("Milliseconds between ARP requests that monitor the links; 0 sends none.");
  arpIPTarget @7 :List(Text) $A.doc("IPv4 addresses that ARP monitoring asks for, 16 at most.");
  arpValidate @8 :BondArpValidate $A.default("none") $A.doc("On which links ARP replies are checked.");
  arpAllTargets @9 :BondArpAllTargets $A.default("any") $A.doc("How many ARP targets must answer.");
  primary @10 :Text $A.doc("The link that is preferred.");
  primaryReselect @11 :BondPrimaryReselect $A.default("always") $A.doc("When the preferred link is used again.");
  failOverMac @12 :BondFailOverMac $A.default("none") $A.doc("Which MAC address the bond has after a change of links.");
  xmitHashPolicy @13 :BondXmitHashPolicy $A.default("layer2") $A.doc("What of a packet chooses its link.");
  resendIgmp @14 :UInt32 = 1 $A.default("1") $A.doc("Number of IGMP reports after a change of links, from 0 to 255.");
  numPeerNotif @15 :UInt8 = 1 $A.default("1") $A.doc("Number of notifications of peers after a change of links.");
  allSlavesActive @16 :UInt8 $A.default("0") $A.doc("1 accepts packets on links that are not active too.");
  minLinks @17 :UInt32 $A.default("0") $A.doc("Number of active links without which the bond has no carrier.");
  lpInterval @18 :UInt32 = 1 $A.default("1") $A.doc("Seconds between learning packets; 0 stands for 1.");
  packetsPerSlave @19 :UInt32 = 1 $A.default("1")
      $A.doc("Packets through one link before the next one is used, up to 65535; 0 chooses at random.");
  lacpRate @20 :BondLacpRate $A.default("slow") $A.doc("How often the partner is asked to send LACP packets.");
  adSelect @21 :BondAdSelect $A.default("stable") $A.doc("How an aggregator is chosen.");
  adActorSysPrio @22 :UInt16 = 65535 $A.default("65535") $A.doc("LACP priority of the system; 0 stands for 65535.");
  adUserPortKey @23 :UInt16 $A.default("0") $A.doc("Upper part of the LACP port key, up to 1023.");
  adActorSystem @24 :Text $A.doc("MAC address of the system in LACP packets.");
  tlbDynamicLb @25 :UInt8 = 1 $A.default("1") $A.doc("1 moves flows between links by their load.");
  peerNotifyDelay @26 :UInt32 $A.default("0")
      $A.doc("Milliseconds between notifications of peers; a multiple of miimon.");
}

enum BondMode $A.noun("a bonding mode") {
  balanceRr @0 $A.name("balance-rr") $A.alias([""]);
  activeBackup @1 $A.name("active-backup");
  balanceXor @2 $A.name("balance-xor");
  broadcast @3;
  lacp @4 $A.name("802.3ad");
  balanceTlb @5 $A.name("balance-tlb");
  balanceAlb @6 $A.name("balance-alb");
}
enum BondArpValidate $A.noun("a choice of links to check") {
  none @0 $A.alias([""]);
  active @1;
  backup @2;
  all @3;
}
enum BondArpAllTargets $A.noun("a choice of targets") {
  any @0 $A.alias([""]);
  all @1;
}
enum BondPrimaryReselect $A.noun("a rule for the preferred link") {
  always @0 $A.alias([""]);
  better @1;
  failure @2;
}
enum BondFailOverMac $A.noun("a rule for the MAC address") {
  none @0 $A.alias([""]);
  active @1;
  follow @2;
}
enum BondXmitHashPolicy $A.noun("a hash policy") {
  layer2 @0 $A.alias([""]);
  layer34 @1 $A.name("layer3+4");
  layer23 @2 $A.name("layer2+3");
  encap23 @3 $A.name("encap2+3");
  encap34 @4 $A.name("encap3+4");
}
enum BondLacpRate $A.noun("a LACP rate") {
  slow @0 $A.alias([""]);
  fast @1;
}
enum BondAdSelect $A.noun("a rule for aggregators") {
  stable @0 $A.alias([""]);
  bandwidth @1;
  count @2;
}

struct Route {
  network @0 :Text $A.keepEmpty $A.doc("Destination with its prefix length.");
  gateway @1 :Text $A.keepEmpty $A.doc("Address of the next hop.");
  metric @2 :UInt32 $A.default("10") $A.doc("Priority; the lowest wins.");
  source @3 :Text $A.since("v1.0") $A.doc("Address that packets of this machine have as their source.");
  mtu @4 :UInt32 $A.since("v1.5") $A.default("that of the link") $A.doc("Largest packet in octets on this route.");
  onlink @5 :Bool $A.default("false") $A.doc("The gateway is on this link, though no address of the link says so.");
  type @6 :RouteType $A.default("unicast") $A.doc("What becomes of packets for this destination.");
}

enum RouteType $A.noun("a type of route") {
  unicast @0 $A.alias([""]);
  blackhole @1;      # dropped
  unreachable @2;    # dropped, and the sender is told: host unreachable
  prohibit @3;       # dropped, and the sender is told: prohibited
}

struct Install {
  disk @0 :Text $A.doc("Block device on which the system is installed.");
  image @1 :Text $A.doc("Image of the installer.");
  bootloader @2 :Bool = true $A.keepEmpty $A.default("true") $A.doc("Install a boot loader too.");
  wipe @3 :Bool $A.keepEmpty $A.doc("Overwrite the disk before it is partitioned.");
  extraKernelArgs @4 :List(Text) $A.doc("Further arguments of the kernel's command line; console= replaces the built-in one.");
  diskSelector @5 :DiskSelector $A.since("v0.10")
      $A.doc("Chooses the disk by its properties instead of disk; all that are given must hold.");
}

struct DiskSelector {
  size @0 :Text $A.doc("Size, with >=, <=, >, < or == in front if it need not be exact, as >= 100GB.");
  name @1 :Text $A.doc("Name that the kernel gives; * stands for any text, here and in the following.");
  model @2 :Text $A.doc("Model.");
  serial @3 :Text $A.doc("Serial number.");
  modalias @4 :Text $A.doc("Name of the device for module loading.");
  uuid @5 :Text $A.doc("UUID.");
  wwid @6 :Text $A.doc("World wide identifier.");
  type @7 :DiskType $A.doc("Kind of disk.");
}

enum DiskType $A.noun("a kind of disk") {
  any @0 $A.alias([""]);
  ssd @1;
  hdd @2;
  nvme @3;
  sd @4;
}

struct Disk {
  device @0 :Text $A.required $A.doc("Path of the block device, as /dev/sdb.");
  partitions @1 :List(Partition) $A.doc("Its partitions, from the first one on.");
}

struct Partition {
  size @0 :Text $A.default("the rest of the disk")
      $A.doc("Size, as 10GB or 4GiB or in octets. Only the last partition can be without one.");
  mountpoint @1 :Text $A.required $A.doc("Directory below /var on which it is mounted.");
}

struct File {
  content @0 :Text $A.keepEmpty $A.doc("What is in the file, as it is.");
  permissions @1 :UInt32 = 420 $A.octal $A.keepEmpty $A.default("0644")
      $A.doc("Permissions in octal.");
  path @2 :Text $A.keepEmpty $A.required $A.doc("Absolute path of the file.");
  op @3 :FileOp $A.keepEmpty $A.required
      $A.doc("create writes a file below /var, overwrite replaces one that exists, append adds to its end.");
}

enum FileOp $A.noun("a way to write a file") {
  create @0;
  append @1;
  overwrite @2;
}

struct SystemDiskEncryption {
  state @0 :Encryption $A.doc("The partition with the machine's configuration and identity.");
  ephemeral @1 :Encryption $A.doc("The partition of /var.");
}

struct Encryption {
  provider @0 :Text = "luks2" $A.keepEmpty $A.default("luks2") $A.doc("Kind of encryption; luks2 is the only one.");
  cipher @1 :Text $A.default("aes-xts-plain64") $A.doc("Cipher; aes-xts-plain64 is the only one.");
  keys @2 :List(EncryptionKey) $A.keepEmpty $A.doc("Keys that open the partition; each of them is enough.");
}

struct EncryptionKey {
  static @0 :StaticKey $A.doc("A passphrase of this document.");
  nodeID @1 :NodeId $A.doc("A passphrase made of the machine's UUID and the partition's label; write {}.");
  slot @2 :UInt32 $A.keepEmpty $A.default("0") $A.doc("Number of the key's slot, from 0 to 31, each once.");
}
struct StaticKey {
  passphrase @0 :Text $A.secret $A.doc("The passphrase.");
}
struct NodeId {}

struct Registries {
  mirrors @0 :List(Mirror) $A.live $A.map
      $A.doc("Endpoints that are tried instead of a registry, by its host name; * stands for all others.");
  config @1 :List(RegistryEntry) $A.map
      $A.doc("TLS and credentials, by the host (and port) of an endpoint.");
  struct Mirror { key @0 :Text; value @1 :Endpoints; }
  struct Endpoints { endpoints @0 :List(Text) $A.keepEmpty $A.doc("URLs, tried in this order."); }
  struct RegistryEntry { key @0 :Text; value @1 :RegistryConfig; }
}

struct RegistryConfig {
  tls @0 :RegistryTls $A.live $A.doc("How the registry is authenticated, and this machine to it.");
  auth @1 :RegistryAuth $A.doc("Credentials, as in config.json of docker.");
}
struct RegistryTls {
  clientIdentity @0 :CertificateAndKey $A.doc("Certificate with which this machine authenticates itself.");
  ca @1 :Data $A.base64
      $A.doc("Certificate authority of the registry, instead of the public ones: PEM text, encoded in base64 once more.");
  insecureSkipVerify @2 :Bool $A.default("false") $A.doc("Accept every certificate.");
}
struct RegistryAuth {
  username @0 :Text $A.doc("User name.");
  password @1 :Text $A.secret $A.doc("Password.");
  auth @2 :Text $A.secret $A.doc("user:password in base64.");
  identityToken @3 :Text $A.secret $A.doc("Token that is exchanged for one that grants access.");
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
  controllerManager @9 :ControllerManager $A.doc("The Kubernetes controller manager.");
  proxy @10 :Proxy $A.doc("kube-proxy.");
  scheduler @11 :Scheduler $A.doc("The Kubernetes scheduler.");
  etcd @12 :Etcd $A.doc("etcd.");
  podCheckpointer @13 :PodCheckpointer $A.doc("Not used any more.");
  coreDNS @14 :CoreDns $A.doc("CoreDNS.");
  externalCloudProvider @15 :ExternalCloudProvider $A.since("v0.10")
      $A.doc("A cloud provider that runs as a workload of the cluster.");
  extraManifests @16 :List(Text) $A.doc("URLs of manifests that are applied when the cluster is bootstrapped.");
  extraManifestHeaders @17 :List(StringPair) $A.map $A.doc("HTTP headers for the requests of extraManifests.");
  inlineManifests @18 :List(InlineManifest) $A.since("v0.10")
      $A.doc("Manifests that are applied when the cluster is bootstrapped.");
  adminKubeconfig @19 :AdminKubeconfig $A.doc("The kubeconfig that talosctl kubeconfig gives.");
  allowSchedulingOnMasters @20 :Bool $A.default("false") $A.doc("Let workloads run on control-plane machines.");
  trustd @21 :Trustd $A.doc("How machines get the certificates of their API.");
}

struct Trustd {
  endpoints @0 :List(Text) $A.default("the host of controlPlane.endpoint")
      $A.doc("Names or addresses of control-plane machines that a worker asks, besides the host of "
             "controlPlane.endpoint.");
  certLifetime @1 :Text $A.default("24h")
      $A.doc("How long the certificates of machine APIs are valid, from 10s; they are renewed at half of it.");
  anyAddress @2 :Bool $A.default("false")
      $A.doc("Sign requests for addresses that they do not come from: for workers behind address translation. "
             "Whoever has machine.token can then have a certificate for any address but the control plane's.");
}

struct PodCheckpointer {
  image @0 :Text $A.doc("Not used any more.");
}
struct CoreDns {
  image @0 :Text $A.doc("Image of CoreDNS.");
}
struct ExternalCloudProvider {
  enabled @0 :Bool $A.default("false") $A.doc("Leave cloud matters to the external provider.");
  manifests @1 :List(Text) $A.doc("URLs of its manifests.");
}
struct InlineManifest {
  name @0 :Text $A.keepEmpty $A.doc("Name of the manifest, each once.");
  contents @1 :Text $A.keepEmpty $A.doc("The manifest.");
}
struct AdminKubeconfig {
  certLifetime @0 :Text $A.default("8760h, which is a year") $A.doc("How long its certificate is valid.");
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
  cni @3 :Cni $A.default("flannel") $A.doc("The network of pods.");
}

struct Cni {
  name @0 :CniName $A.keepEmpty $A.required $A.doc("flannel, custom (the manifests of urls), or none.");
  urls @1 :List(Text) $A.doc("URLs of the manifests of a custom one.");
}
enum CniName $A.noun("a name of a CNI") {
  flannel @0;
  custom @1;
  none @2 $A.since("v0.10");
}

struct ServiceAccount {
  key @0 :Data $A.base64 $A.secret
      $A.doc("Private key that signs the tokens of service accounts: PEM text, encoded in base64 once more.");
}

struct ApiServer {
  image @0 :Text $A.doc("Image of the API server.");
  certSANs @1 :List(Text) $A.doc("More names and addresses for the certificate of the API server.");
  extraArgs @2 :List(StringPair) $A.map
      $A.doc("Further arguments, without the leading dashes; they win over the built-in ones.");
  extraVolumes @3 :List(Volume) $A.doc("Directories of the machine that are mounted in the pod.");
}

struct ControllerManager {
  image @0 :Text $A.doc("Image of the controller manager.");
  extraArgs @1 :List(StringPair) $A.map
      $A.doc("Further arguments, without the leading dashes; they win over the built-in ones.");
  extraVolumes @2 :List(Volume) $A.doc("Directories of the machine that are mounted in the pod.");
}

struct Scheduler {
  image @0 :Text $A.doc("Image of the scheduler.");
  extraArgs @1 :List(StringPair) $A.map
      $A.doc("Further arguments, without the leading dashes; they win over the built-in ones.");
  extraVolumes @2 :List(Volume) $A.doc("Directories of the machine that are mounted in the pod.");
}

struct Volume {
  hostPath @0 :Text $A.keepEmpty $A.required $A.doc("Absolute path of the machine.");
  mountPath @1 :Text $A.keepEmpty $A.required $A.doc("Absolute path in the pod.");
  readonly @2 :Bool $A.default("false") $A.doc("Mount it without the right to write.");
}

struct Proxy {
  image @0 :Text $A.doc("Image of kube-proxy.");
  disabled @1 :Bool $A.default("false") $A.doc("Do not run kube-proxy.");
  mode @2 :ProxyMode $A.default("iptables") $A.doc("How services are implemented.");
  extraArgs @3 :List(StringPair) $A.map $A.doc("Further arguments, without the leading dashes.");
}
enum ProxyMode $A.noun("a mode of kube-proxy") {
  iptables @0 $A.alias([""]);
  ipvs @1;
  userspace @2;
  nftables @3;
}

struct Etcd {
  image @0 :Text $A.doc("Image of etcd.");
  ca @1 :CertificateAndKey $A.doc("Certificate authority of etcd.");
  extraArgs @2 :List(StringPair) $A.map
      $A.doc("Further arguments, without the leading dashes. The arguments that the system sets itself are refused.");
}
