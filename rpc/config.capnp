@0xd5e2a0b6c1f74a93;
# The machine config (v1alpha1): one YAML document that defines a node. Keys, defaults and rules:
# docs/machine-config.md. Field order is the order in which keys are written; common/config/config.h reads it and
# checks what a schema cannot express. A key that is not here is an error, or a warning if it is one of a later
# version. If the kernel or a component has a default of its own, it is the field's default here, so that an
# absent key and that value mean the same.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::config");
using A = import "annotations.capnp";
using Monitoring = import "config-monitoring.capnp";

struct Config {
  version @0 :Text $A.live $A.keepEmpty $A.doc("Version of the config format. The only valid version is v1alpha1.");
  debug @1 :Bool $A.live $A.keepEmpty $A.doc("Copy the logs of all services to the console.");
  persist @2 :Bool $A.live $A.keepEmpty
      $A.doc("Keep this config on the node's disk; otherwise it is fetched again at each boot.");
  machine @3 :Machine $A.required $A.doc("The machine: its role, identity, network and disks.");
  cluster @4 :Cluster $A.live $A.required $A.doc("The Kubernetes cluster of the machine.");
}

struct CertificateAndKey {
  crt @0 :Data $A.base64 $A.keepEmpty $A.doc("Certificate in PEM format, encoded in base64.");
  key @1 :Data $A.base64 $A.secret $A.keepEmpty $A.doc("Private key in PEM format, encoded in base64.");
}

struct StringPair { key @0 :Text; value @1 :Text; }

# --- machine -----------------------------------------------------------------------------------------------

struct Machine {
  type @0 :MachineType $A.keepEmpty $A.default("worker")
      $A.doc("Role of the machine. A control-plane node also runs etcd and the Kubernetes control plane; "
             "init is a control-plane node that bootstraps a new etcd cluster by itself.");
  token @1 :Text $A.live $A.secret $A.keepEmpty
      $A.doc("Shared secret with which nodes request their API certificate from the control plane. gen config makes "
             "6 characters, a dot and 16 characters, all of a-z and 0-9.");
  ca @2 :CertificateAndKey
      $A.doc("CA of the machine API. Only control-plane nodes have its key.");
  certSANs @3 :List(Text) $A.live
      $A.doc("Additional names and addresses for the certificate of the machine API, besides those of the machine.");
  kubelet @4 :Kubelet $A.live $A.doc("The kubelet.");
  network @5 :Network $A.live $A.doc("Host name, links, addresses, routes and resolvers.");
  install @6 :Install $A.live $A.doc("Installation of the system on a disk.");
  registries @7 :Registries $A.doc("Mirrors and credentials for pulling container images.");
  disks @8 :List(Disk)
      $A.doc("Additional disks; they are partitioned and formatted if they are empty, and mounted.");
  files @9 :List(File)
      $A.doc("Files to write at each boot, in this order.");
  env @10 :List(StringPair) $A.map
      $A.doc("Environment variables of all services, such as http_proxy, https_proxy and no_proxy.");
  time @11 :Time $A.live $A.doc("Time synchronisation.");
  sysctls @12 :List(StringPair) $A.live $A.map
      $A.doc("Kernel parameters by their sysctl name, such as net.ipv4.ip_forward.");
  systemDiskEncryption @13 :SystemDiskEncryption
      $A.doc("Encryption of the system partitions.");
  caHash @14 :Text
      $A.doc("On workers, instead of the certificate in ca: sha256: and the hash of the CA's public key in "
             "hexadecimal, as talosctl gen ca writes it. The CA of trustd must have this hash.");
  nodeLabels @15 :List(StringPair) $A.live $A.map $A.since("v1.3")
      $A.doc("Labels of the node in Kubernetes.");
  nodeTaints @16 :List(StringPair) $A.live $A.map $A.since("v1.6")
      $A.doc("Taints of the node in Kubernetes; the value is VALUE:EFFECT or EFFECT, such as NoSchedule.");
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
}

struct Time {
  disabled @0 :Bool $A.keepEmpty $A.default("false") $A.doc("Do not synchronise the clock.");
  servers @1 :List(Text) $A.default("pool.ntp.org")
      $A.doc("Names or addresses of NTP servers.");
}

struct Network {
  hostname @0 :Text
      $A.doc("Host name. The part after the first dot becomes the domain name.");
  interfaces @1 :List(Interface)
      $A.doc("Links to configure. Several entries for one link are combined.");
  nameservers @2 :List(Text) $A.default("1.1.1.1 and 8.8.8.8")
      $A.doc("IP addresses of DNS servers; the first three are used.");
  extraHostEntries @3 :List(HostEntry) $A.doc("Additional entries in /etc/hosts.");
}

struct HostEntry {
  ip @0 :Text $A.keepEmpty $A.doc("IP address.");
  aliases @1 :List(Text) $A.keepEmpty $A.doc("Names of this address.");
}

struct Interface {
  interface @0 :Text $A.keepEmpty $A.doc("Name of the link.");
  cidr @1 :Text $A.doc("Static address with prefix length. Cannot be used with dhcp.");
  addresses @2 :List(Text) $A.since("v0.12") $A.doc("Additional static addresses with prefix lengths.");
  routes @3 :List(Route) $A.doc("Static routes through this link.");
  mtu @4 :UInt32 $A.keepEmpty $A.default("that of the link or its DHCP lease")
      $A.doc("MTU in bytes; 0 does not change it.");
  dhcp @5 :Bool $A.doc("Use DHCP for address, routes and DNS servers. Cannot be used with cidr.");
  ignore @6 :Bool $A.doc("Do not configure this link.");
  bond @7 :Bond $A.doc("Make this link a bond of other links.");
  vlans @8 :List(Vlan) $A.doc("VLANs on this link (802.1Q); each is a link named LINK.ID.");
  dummy @9 :Bool $A.default("false") $A.doc("Create a dummy link if no link has this name.");
  dhcpOptions @10 :DhcpOptions $A.doc("DHCP options; only with dhcp.");
  wireguard @11 :Wireguard $A.doc("Make this link a WireGuard tunnel.");
  vip @12 :Vip
      $A.doc("Address shared by the control-plane nodes; one of them has it at a time. Only for control-plane nodes.");
  bridge @13 :Bridge $A.since("v1.2") $A.doc("Make this link a bridge of other links.");
  deviceSelector @14 :DeviceSelector $A.since("v1.1")
      $A.doc("Select the link by its properties instead of its name. All given properties must match, and exactly one "
             "link must match.");
}

struct Bridge {
  interfaces @0 :List(Text) $A.keepEmpty $A.doc("Names of the ports of the bridge.");
  stp @1 :Stp $A.doc("Spanning tree protocol (STP).");
  vlan @2 :VlanFiltering $A.since("v1.8") $A.doc("VLANs inside the bridge.");
  struct Stp { enabled @0 :Bool $A.default("false") $A.doc("Enable STP."); }
  struct VlanFiltering { vlanFiltering @0 :Bool $A.default("false") $A.doc("Filter by VLAN tags when forwarding."); }
}

# In strings, * matches any characters.
struct DeviceSelector {
  busPath @0 :Text $A.doc("Bus path of the device, such as 0000:00:03.0 or 00:*.");
  hardwareAddr @1 :Text $A.doc("Hardware address, such as 52:54:00:*.");
  permanentAddr @2 :Text $A.since("v1.9") $A.doc("Permanent hardware address of the device.");
  pciID @3 :Text $A.doc("PCI vendor and product id, such as 1af4:1000.");
  driver @4 :Text $A.doc("Name of the driver, such as virtio_net.");
  physical @5 :Bool $A.default("false") $A.since("v1.7") $A.doc("Match hardware only, not virtual links.");
}

struct DhcpOptions {
  routeMetric @0 :UInt32 $A.keepEmpty $A.default("1024")
      $A.doc("Metric of the routes from DHCP; 0 means 1024.");
  ipv4 @1 :Bool = true $A.default("true") $A.doc("Request an IPv4 address.");
  ipv6 @2 :Bool $A.default("false") $A.doc("Request an IPv6 address.");
}

struct Vlan {
  vlanId @0 :UInt16 $A.keepEmpty $A.required $A.doc("VLAN id, 0 to 4094.");
  cidr @1 :Text $A.keepEmpty $A.doc("Static address with prefix length.");
  dhcp @2 :Bool $A.keepEmpty $A.default("false") $A.doc("Use DHCP for an IPv4 address.");
  routes @3 :List(Route) $A.doc("Static routes through this VLAN.");
  addresses @4 :List(Text) $A.since("v0.12") $A.doc("Additional static addresses with prefix lengths.");
  mtu @5 :UInt32 $A.since("v0.14") $A.default("that of the link below") $A.doc("MTU in bytes.");
  dhcpOptions @6 :DhcpOptions $A.since("v1.2") $A.doc("DHCP options; only with dhcp.");
  vip @7 :Vip $A.since("v0.14")
      $A.doc("Address shared by the control-plane nodes; one of them has it at a time. Only for control-plane nodes.");
}

struct Vip {
  ip @0 :Text $A.keepEmpty $A.doc("Shared address, without a prefix length.");
  leaseTTL @1 :Text $A.default("2s")
      $A.doc("How long a node that does not answer keeps the address, 2s to 60s; the same on all nodes. etcd raises it to one "
             "and a half of its election timeout.");
}

struct Wireguard {
  privateKey @0 :Text $A.secret $A.required
      $A.doc("Private key of this machine: 32 bytes in base64, as written by wg genkey.");
  listenPort @1 :UInt16 $A.default("a free port") $A.doc("UDP port; 0 lets the kernel choose a free one.");
  firewallMark @2 :UInt32 $A.doc("Mark (fwmark) of outgoing packets; 0 sets none.");
  peers @3 :List(WireguardPeer) $A.doc("Peers of the tunnel.");
}

struct WireguardPeer {
  publicKey @0 :Text $A.required $A.doc("Public key of the peer: 32 bytes in base64, as written by wg pubkey.");
  endpoint @1 :Text $A.doc("UDP endpoint of the peer as host:port.");
  persistentKeepaliveInterval @2 :Text $A.default("0s (off)")
      $A.doc("Interval of keepalive packets, such as 25s.");
  allowedIPs @3 :List(Text) $A.doc("Networks behind the peer.");
}

# Names, numbers and defaults are those of the kernel's driver (Documentation/networking/bonding.rst).
struct Bond {
  interfaces @0 :List(Text) $A.keepEmpty $A.doc("Names of the members of the bond.");
  mode @1 :BondMode $A.keepEmpty $A.default("balance-rr") $A.doc("Bonding mode: how the members share the traffic.");
  miimon @2 :UInt32 $A.default("0; 100 if the mode needs link monitoring")
      $A.doc("Interval of carrier checks in milliseconds; 0 disables them.");
  updelay @3 :UInt32 $A.default("0") $A.doc("Delay before a member that is up is used, in milliseconds; a multiple of miimon.");
  downdelay @4 :UInt32 $A.default("0") $A.doc("Delay before a member that is down is no longer used, in milliseconds; a multiple of miimon.");
  useCarrier @5 :Bool = true $A.default("true") $A.doc("Use the carrier state instead of the driver's MII registers.");
  arpInterval @6 :UInt32 $A.default("0") $A.doc("Interval of the ARP requests that monitor the members, in milliseconds; 0 disables them.");
  arpIPTarget @7 :List(Text) $A.doc("IPv4 addresses that ARP monitoring requests, at most 16.");
  arpValidate @8 :BondArpValidate $A.default("none") $A.doc("Members on which ARP replies are validated.");
  arpAllTargets @9 :BondArpAllTargets $A.default("any") $A.doc("Whether any or all of the ARP targets must answer.");
  primary @10 :Text $A.doc("Preferred member.");
  primaryReselect @11 :BondPrimaryReselect $A.default("always") $A.doc("When the preferred member is used again.");
  failOverMac @12 :BondFailOverMac $A.default("none") $A.doc("MAC address of the bond after a failover.");
  xmitHashPolicy @13 :BondXmitHashPolicy $A.default("layer2") $A.doc("Headers of a packet that select its member.");
  resendIgmp @14 :UInt32 = 1 $A.default("1") $A.doc("Number of IGMP reports after a failover, 0 to 255.");
  numPeerNotif @15 :UInt8 = 1 $A.default("1") $A.doc("Number of peer notifications after a failover.");
  allSlavesActive @16 :UInt8 $A.default("0") $A.doc("1 accepts packets on inactive members too.");
  minLinks @17 :UInt32 $A.default("0") $A.doc("Minimum number of active members for the bond to have a carrier.");
  lpInterval @18 :UInt32 = 1 $A.default("1") $A.doc("Interval of learning packets in seconds; 0 means 1.");
  packetsPerSlave @19 :UInt32 = 1 $A.default("1")
      $A.doc("Number of packets sent through one member before the next one is used, at most 65535; 0 selects at random.");
  lacpRate @20 :BondLacpRate $A.default("slow") $A.doc("Rate at which the partner is asked to send LACP packets.");
  adSelect @21 :BondAdSelect $A.default("stable") $A.doc("How the aggregator is selected.");
  adActorSysPrio @22 :UInt16 = 65535 $A.default("65535") $A.doc("LACP system priority; 0 means 65535.");
  adUserPortKey @23 :UInt16 $A.default("0") $A.doc("Upper part of the LACP port key, at most 1023.");
  adActorSystem @24 :Text $A.doc("System MAC address in LACP packets.");
  tlbDynamicLb @25 :UInt8 = 1 $A.default("1") $A.doc("1 moves flows between members by their load.");
  peerNotifyDelay @26 :UInt32 $A.default("0")
      $A.doc("Interval of peer notifications in milliseconds; a multiple of miimon.");
  deviceSelectors @27 :List(DeviceSelector) $A.since("v1.4")
      $A.doc("Select members by their properties instead of their names: all hardware links that one of these matches.");
}

enum BondMode $A.noun("bonding mode") {
  balanceRr @0 $A.name("balance-rr") $A.alias([""]);
  activeBackup @1 $A.name("active-backup");
  balanceXor @2 $A.name("balance-xor");
  broadcast @3;
  lacp @4 $A.name("802.3ad");
  balanceTlb @5 $A.name("balance-tlb");
  balanceAlb @6 $A.name("balance-alb");
}
enum BondArpValidate $A.noun("ARP validation mode") {
  none @0 $A.alias([""]);
  active @1;
  backup @2;
  all @3;
}
enum BondArpAllTargets $A.noun("ARP target mode") {
  any @0 $A.alias([""]);
  all @1;
}
enum BondPrimaryReselect $A.noun("primary reselection policy") {
  always @0 $A.alias([""]);
  better @1;
  failure @2;
}
enum BondFailOverMac $A.noun("failover MAC policy") {
  none @0 $A.alias([""]);
  active @1;
  follow @2;
}
enum BondXmitHashPolicy $A.noun("hash policy") {
  layer2 @0 $A.alias([""]);
  layer34 @1 $A.name("layer3+4");
  layer23 @2 $A.name("layer2+3");
  encap23 @3 $A.name("encap2+3");
  encap34 @4 $A.name("encap3+4");
}
enum BondLacpRate $A.noun("LACP rate") {
  slow @0 $A.alias([""]);
  fast @1;
}
enum BondAdSelect $A.noun("aggregator selection policy") {
  stable @0 $A.alias([""]);
  bandwidth @1;
  count @2;
}

struct Route {
  network @0 :Text $A.keepEmpty $A.doc("Destination with prefix length.");
  gateway @1 :Text $A.keepEmpty $A.doc("Address of the gateway.");
  metric @2 :UInt32 $A.default("10") $A.doc("Metric; the route with the lowest one is used.");
  source @3 :Text $A.since("v0.12") $A.doc("Source address of packets from this machine.");
  mtu @4 :UInt32 $A.since("v1.3") $A.default("that of the link") $A.doc("MTU of this route in bytes.");
  onlink @5 :Bool $A.default("false") $A.doc("Use the gateway on this link even if no address of the link covers it.");
  type @6 :RouteType $A.default("unicast") $A.doc("What happens to packets for this destination.");
}

enum RouteType $A.noun("route type") {
  unicast @0 $A.alias([""]);
  blackhole @1;      # dropped
  unreachable @2;    # dropped; the sender gets "host unreachable"
  prohibit @3;       # dropped; the sender gets "prohibited"
}

struct Install {
  disk @0 :Text $A.doc("Block device to install on.");
  image @1 :Text $A.doc("Container image of the installer.");
  bootloader @2 :Bool = true $A.keepEmpty $A.default("true") $A.doc("Install a boot loader.");
  wipe @3 :Bool $A.keepEmpty $A.doc("Wipe the disk before partitioning it.");
  extraKernelArgs @4 :List(Text) $A.doc("Additional kernel arguments; console= replaces the built-in one.");
  diskSelector @5 :DiskSelector $A.since("v0.10")
      $A.doc("Select the disk by its properties instead of its path. All given properties must match.");
  imageKey @6 :Text $A.doc("Public key in PEM, ECDSA P-256 or Ed25519. An image that the node is upgraded to must have a signature that it verifies.");
}

struct DiskSelector {
  size @0 :Text $A.doc("Size, optionally with >=, <=, >, < or == in front, such as >= 100GB.");
  name @1 :Text $A.doc("Name of the device in the kernel. Here and in the following keys, * matches any characters.");
  model @2 :Text $A.doc("Model.");
  serial @3 :Text $A.doc("Serial number.");
  modalias @4 :Text $A.doc("Modalias of the device.");
  uuid @5 :Text $A.doc("UUID.");
  wwid @6 :Text $A.doc("World Wide Identifier (WWID).");
  type @7 :DiskType $A.doc("Kind of disk.");
  busPath @8 :Text $A.since("v1.0")
      $A.doc("Path of the device below /sys/devices, as talosctl disks -o yaml shows it, with or without the / at its end.");
}

enum DiskType $A.noun("disk type") {
  any @0 $A.alias([""]);
  ssd @1;
  hdd @2;
  nvme @3;
  sd @4;
}

struct Disk {
  device @0 :Text $A.required $A.doc("Path of the block device, such as /dev/sdb.");
  partitions @1 :List(Partition) $A.doc("Partitions in their order on the disk.");
}

struct Partition {
  size @0 :Text $A.default("the rest of the disk")
      $A.doc("Size, such as 10GB, 4GiB, or a number of bytes. Only the last partition may be without one.");
  mountpoint @1 :Text $A.required $A.doc("Mount point, a directory below /var.");
}

struct File {
  content @0 :Text $A.keepEmpty $A.doc("Content of the file.");
  permissions @1 :UInt32 = 420 $A.octal $A.keepEmpty $A.default("0644")
      $A.doc("Permissions of the file, in octal.");
  path @2 :Text $A.keepEmpty $A.required $A.doc("Absolute path of the file.");
  op @3 :FileOp $A.keepEmpty $A.required
      $A.doc("create writes a new file below /var; overwrite replaces an existing file; append adds to its end.");
}

enum FileOp $A.noun("file operation") {
  create @0;
  append @1;
  overwrite @2;
}

struct SystemDiskEncryption {
  state @0 :Encryption $A.doc("The STATE partition, which has the node's config and identity.");
  ephemeral @1 :Encryption $A.doc("The EPHEMERAL partition, mounted at /var.");
}

struct Encryption {
  provider @0 :Text = "luks2" $A.live $A.keepEmpty $A.default("luks2") $A.doc("Type of encryption. The only valid type is luks2.");
  cipher @1 :Text $A.live $A.default("aes-xts-plain64") $A.doc("Cipher. The only valid cipher is aes-xts-plain64.");
  keys @2 :List(EncryptionKey) $A.live $A.keepEmpty $A.doc("Keys of the partition; each of them can open it.");
  keySize @3 :UInt32 $A.since("v0.12") $A.default("512")
      $A.doc("Size of the volume's own key in bits, 256 or 512. Takes effect when the partition is formatted: stage the change, then reset the partition.");
  blockSize @4 :UInt32 $A.since("v0.12") $A.default("512")
      $A.doc("Encrypted sectors are of this many bytes, 512, 1024, 2048 or 4096. Takes effect when the partition is formatted, as keySize does.");
  options @5 :List(Text) $A.since("v0.12")
      $A.doc("How the kernel works on it: no_read_workqueue, no_write_workqueue and same_cpu_crypt. And, of STATE only, "
             "readable_in_meta: static keys are stored in META too, which is not encrypted, so that they open STATE at each "
             "boot; whoever has the disk can read them. Without this, STATE needs a key with nodeID besides.");
}

struct EncryptionKey {
  static @0 :StaticKey $A.doc("A passphrase in this config.");
  nodeID @1 :NodeId $A.doc("A passphrase derived from the machine's UUID and the partition's label; use {}.");
  slot @2 :UInt32 $A.keepEmpty $A.default("0") $A.doc("LUKS key slot, 0 to 31, different for each key.");
  recovery @3 :RecoveryKey
      $A.doc("A passphrase that the node does not have: talosctl encryption recovery-key makes one and shows it once; use {}.");
}
struct StaticKey {
  passphrase @0 :Text $A.secret $A.doc("Passphrase.");
}
struct NodeId {}
struct RecoveryKey {}

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
}

struct ControllerManager {
  image @0 :Text $A.doc("Container image of the controller manager.");
  extraArgs @1 :List(StringPair) $A.map
      $A.doc("Additional arguments, without the leading dashes; they take precedence over the built-in ones.");
  extraVolumes @2 :List(Volume) $A.doc("Directories of the machine that are mounted in the pod.");
}

struct Scheduler {
  image @0 :Text $A.doc("Container image of the scheduler.");
  extraArgs @1 :List(StringPair) $A.map
      $A.doc("Additional arguments, without the leading dashes; they take precedence over the built-in ones.");
  extraVolumes @2 :List(Volume) $A.doc("Directories of the machine that are mounted in the pod.");
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
      $A.doc("Subnets of the address that other nodes reach etcd at.");
  listenSubnets @4 :List(Text) $A.since("v1.2") $A.default("every address")
      $A.doc("Subnets of the addresses that etcd listens on, in addition to 127.0.0.1.");
}
