@0xab95fe5e242dae0b;
# The specs of all resource types. Field order is the order in which `get` prints keys and columns.
# Types, ids and columns: spec resources.md §1.4-1.5; network: §6.1.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");
using A = import "annotations.capnp";
using Config = import "config.capnp";

struct NamespaceSpec $A.resource((type = "Namespaces.meta.cosi.dev", namespace = "meta", aliases = ["ns"])) {
  description @0 :Text $A.keepEmpty;
}
struct ResourceDefinitionSpec $A.resource((type = "ResourceDefinitions.meta.cosi.dev", namespace = "meta")) {
  type @0 :Text;
  displayType @1 :Text;
  aliases @2 :List(Text);
  printColumns @3 :List(PrintColumn);
  defaultNamespace @4 :Text;
  sensitive @5 :Bool;
  struct PrintColumn { name @0 :Text; jsonPath @1 :Text; }
}

# --- the machine -----------------------------------------------------------------------------------
struct ServiceSpec $A.resource((type = "Services.v1alpha1.talos.dev", namespace = "runtime", aliases = ["svc"])) {
  running @0 :Bool $A.column("Running");
  healthy @1 :Bool $A.column("Healthy");
}
struct BootstrapStatusSpec $A.resource((type = "BootstrapStatuses.v1alpha1.talos.dev", namespace = "runtime",
    aliases = ["bootstrapStatus", "bs"])) {
  selfHostedControlPlane @0 :Bool $A.column("Self Hosted");
}
struct TimeStatusSpec $A.resource((type = "TimeStatuses.v1alpha1.talos.dev", namespace = "runtime")) {
  synced @0 :Bool $A.column("Synced");
  epoch @1 :Int64;                              # how often the clock was stepped
  syncDisabled @2 :Bool;
  server @3 :Text $A.column("Server");          # that the clock follows: what the config names, and its address
  offset @4 :Text $A.column("Offset");          # of the newest measurement, as -1.25ms
  problem @5 :Text;                             # why it is not synced
}
struct MachineStatusSpec $A.resource((type = "MachineStatuses.runtime.talos.dev", namespace = "runtime")) {
  # Why a machine does not go on is here, on its console and in Machine.status().
  stage @0 :Text $A.column("Stage");
  ready @1 :Bool $A.column("Ready");
  problems @2 :List(Text);
  revertsAt @3 :Text;                           # RFC 3339: when the config that is on trial gives way. Empty: none is
}
struct BootRecordSpec $A.resource((type = "BootRecords.runtime.talos.dev", namespace = "runtime")) {
  # A boot whose logs and events are kept on STATE, this one included. The id is the boot id.
  number @0 :UInt64 $A.column("Number");        # counted on this STATE
  began @1 :Text $A.column("Began");            # RFC 3339, by the clock of that moment
  ended @2 :Text $A.column("Ended");            # when it was last heard of; empty: it is this one
  reason @3 :Text $A.column("Reason");          # why it ended, and who asked for that
  version @4 :Text $A.column("Version");
}
struct VolumeStatusSpec $A.resource((type = "VolumeStatuses.block.talos.dev", namespace = "runtime")) {
  # A partition of the system disk that the node has files on, or would have. The id is its label.
  phase @0 :Text $A.column("Phase");            # waiting (for a config), ready, failed or closed
  location @1 :Text $A.column("Location");      # /dev/vda5
  mountLocation @2 :Text $A.column("Mount Location");  # the device with the file system
  filesystem @3 :Text $A.column("File System");
  encryptionProvider @4 :Text $A.column("Encryption");  # luks2; empty: none
  encryptionSlots @5 :List(UInt32);             # in use
  encryptionSlot @6 :Text $A.column("Slot");    # whose key opened it
  errorMessage @7 :Text;
  encryptionKeys @8 :Text $A.column("Keys");    # slots in use with their kinds: 0 nodeID, 5 static
}
struct DiscoveredVolumeSpec $A.resource((type = "DiscoveredVolumes.block.talos.dev", namespace = "runtime")) {
  # A disk, a partition or an encrypted volume that is open, and what is on it. The id is the device's name.
  type @0 :Text $A.column("Type");              # disk, partition or cdrom; what is open is a disk
  devicePath @1 :Text;                          # /dev/vda5, /dev/mapper/vda6-encrypted
  parent @2 :Text;                              # the disk of a partition, the partition of what is open: vda, vda6
  size @3 :UInt64;                              # bytes
  prettySize @4 :Text $A.column("Size");
  name @5 :Text $A.column("Discovered");        # gpt, xfs, ext4, vfat, iso9660, luks; empty: nothing that is known
  label @6 :Text $A.column("Label");
  partitionLabel @7 :Text $A.column("PartitionLabel");
  offset @8 :UInt64;                            # of a partition on its disk, in bytes
  readOnly @9 :Bool;
  problem @10 :Text;                            # why it could not be read
}
struct MountStatusSpec $A.resource((type = "MountStatuses.runtime.talos.dev", namespace = "runtime")) {
  # A file system on a block device that the node has mounted, where it is mounted first. The id is the label of the
  # volume, or else the device's name.
  source @0 :Text $A.column("Source");          # /dev/vda5
  target @1 :Text $A.column("Target");
  filesystemType @2 :Text $A.column("Filesystem Type");
  options @3 :List(Text);
  encrypted @4 :Bool $A.column("Encrypted");
}
struct ShutdownRequestSpec $A.resource((type = "ShutdownRequests.runtime.talos.dev", namespace = "runtime")) {
  # The node goes down: login1 tells who has asked to be told, and waits for them. The id is node.
  kind @0 :Text $A.column("Kind");              # reboot or shutdown
  number @1 :UInt64;                            # of the request: another one has another number
}
struct ShutdownDelaySpec $A.resource((type = "ShutdownDelays.runtime.talos.dev", namespace = "runtime")) {
  # login1's answer to it. The id is node.
  state @0 :Text $A.column("State");            # waiting or over
  waitsFor @1 :List(Text) $A.column("Waits for");  # names of those who hold a lock
  message @2 :Text $A.column("Message");        # how it ended
  number @3 :UInt64;                            # of the request
}
struct InhibitorSpec $A.resource((type = "Inhibitors.runtime.talos.dev", namespace = "runtime")) {
  # A lock that delays a shutdown, as org.freedesktop.login1 has them. The id is its number.
  who @0 :Text $A.column("Who");
  what @1 :Text $A.column("What");
  why @2 :Text $A.column("Why");
  mode @3 :Text $A.column("Mode");
  uid @4 :UInt32 $A.column("UID");
  pid @5 :UInt32 $A.column("PID");
  since @6 :Text;                               # RFC 3339
}
struct OperationSpec $A.resource((type = "Operations.runtime.talos.dev", namespace = "runtime")) {
  # Work that goes on after the call that began it was answered. The id says whose: apply-config.
  what @0 :Text $A.column("What");
  state @1 :Text $A.column("State");            # running, done or failed
  step @2 :Text $A.column("Step");              # the newest one
  steps @3 :UInt32;                             # that were begun
  error @4 :Text $A.column("Error");
  number @5 :UInt64;                            # of the operation: another one has another number
}
struct UpgradeStatusSpec $A.resource((type = "UpgradeStatuses.runtime.talos.dev", namespace = "runtime")) {
  # The newest upgrade or rollback of an installed node. The id is node.
  stage @0 :Text $A.column("Stage");            # none, fetching, writing, rebooting, trying, done or failed
  slot @1 :Text $A.column("Slot");              # that runs
  version @2 :Text $A.column("Version");        # that runs
  image @3 :Text $A.column("Image");            # empty: a rollback
  digest @4 :Text;
  target @5 :Text;                              # the other slot, and the version in it: "B v0.9.0"
  began @6 :Text;                               # RFC 3339
  reason @7 :Text $A.column("Reason");          # why it failed; while it is tried, what it waits for; how far the fetch is
}
struct MachineConfigSpec $A.resource((type = "MachineConfigs.config.talos.dev", namespace = "config", sensitive = true))
    $A.inline {
  document @0 :Text $A.raw;                     # the source bytes, comments and all
}
struct MachineTypeSpec $A.resource((type = "MachineTypes.config.talos.dev", namespace = "config")) $A.inline {
  type @0 :MachineType $A.column("Type");
}
enum MachineType { unknown @0; init @1; controlplane @2; join @3; }

# --- the network (networkd is their reader or writer) -------------------------------------------------
struct LinkSpecSpec $A.resource((type = "LinkSpecs.net.talos.dev", namespace = "network")) {
  name @0 :Text;
  up @1 :Bool $A.column("Up");
  mtu @2 :UInt32 $A.column("Mtu");              # 0: leave it
  layer @3 :Text;                               # default, cmdline or configuration
  logical @4 :Bool;                             # networkd makes it, and removes it when it is not wanted any more
  kind @5 :Text $A.column("Kind");              # bond, bridge, dummy, vlan, wireguard; empty: hardware
  parentName @6 :Text $A.column("Parent");      # the link under a VLAN
  masterName @7 :Text $A.column("Master");      # the bond or bridge that it belongs to
  vlan @8 :VlanSpec $A.ifGiven;
  bondMaster @9 :Config.Bond $A.ifGiven;
  bridgeMaster @10 :BridgeSpec $A.ifGiven;
  wireguard @11 :WireguardSpec $A.ifGiven;                 # its private key: WireguardKeys/<link>
  problem @12 :Text;                            # why this means no link now (a deviceSelector); nothing is done for it
}
struct VlanSpec { vlanID @0 :UInt16; vlanProtocol @1 :Text = "802.1q"; }      # or 802.1ad
struct BridgeSpec { stp @0 :Bool; vlanFiltering @1 :Bool; }
struct WireguardSpec {
  publicKey @0 :Text;                           # of this machine
  listenPort @1 :UInt16;
  firewallMark @2 :UInt32;
  peers @3 :List(Peer);
  struct Peer {
    publicKey @0 :Text;
    endpoint @1 :Text;
    persistentKeepaliveInterval @2 :UInt32;     # s
    allowedIPs @3 :List(Text);
  }
}
struct WireguardKeySpec $A.resource((type = "WireguardKeys.secrets.talos.dev", namespace = "secrets", sensitive = true)) {
  privateKey @0 :Text $A.secret;                # base64
}
struct AddressSpecSpec $A.resource((type = "AddressSpecs.net.talos.dev", namespace = "network")) {
  address @0 :Text $A.column("Address");        # CIDR
  linkName @1 :Text $A.column("Link");
  family @2 :Text;                              # inet4 or inet6
  scope @3 :Text;
  layer @4 :Text;
  order @5 :UInt32;                             # of IPv4 addresses of one network the lowest is the primary
}
struct RouteSpecSpec $A.resource((type = "RouteSpecs.net.talos.dev", namespace = "network")) {
  family @0 :Text;
  destination @1 :Text $A.name("dst") $A.column("Destination");   # CIDR; empty: default route
  gateway @2 :Text $A.column("Gateway");
  linkName @3 :Text $A.name("outLinkName") $A.column("Link");
  metric @4 :UInt32 $A.name("priority") $A.column("Metric");
  layer @5 :Text;
  source @6 :Text;                              # address; empty: the kernel chooses
  mtu @7 :UInt32;                               # 0: that of the link
  onlink @8 :Bool;
  type @9 :Config.RouteType;                    # other than unicast: no link and no gateway
}
struct HostnameSpecSpec $A.resource((type = "HostnameSpecs.net.talos.dev", namespace = "network", aliases = ["hostname", "hostnames"])) {
  hostname @0 :Text $A.column("Hostname");
  domainname @1 :Text $A.column("Domainname");
  layer @2 :Text;
}
struct ResolverSpecSpec $A.resource((type = "ResolverSpecs.net.talos.dev", namespace = "network", aliases = ["resolver", "resolvers"])) {
  dnsServers @0 :List(Text) $A.column("Resolvers");
  layer @1 :Text;
  searchDomains @2 :List(Text);
}
struct TimeServerSpecSpec $A.resource((type = "TimeServerSpecs.net.talos.dev", namespace = "network",
    aliases = ["timeserver", "timeservers"])) {
  timeServers @0 :List(Text) $A.column("Timeservers");
  layer @1 :Text;
}
# What asks a network for its settings: networkd runs one for each spec, and tells by OperatorStatuses what
# it was given, from which machined makes specs of the layer `operator`.
struct OperatorSpecSpec $A.resource((type = "OperatorSpecs.net.talos.dev", namespace = "network")) {
  operator @0 :Text $A.column("Operator");      # dhcp4, dhcp6, ra
  linkName @1 :Text $A.column("Link");
  requireUp @2 :Bool;
  routeMetric @3 :UInt32;                       # of the routes that it gives
  hostname @4 :Text;                            # told to the server
  layer @5 :Text;
}
struct OperatorStatusSpec $A.resource((type = "OperatorStatuses.net.talos.dev", namespace = "network",
    aliases = ["lease", "leases"])) {
  operator @0 :Text;
  linkName @1 :Text $A.column("Link");
  state @2 :Text $A.column("State");
  addresses @3 :List(Text) $A.column("Addresses");    # CIDR
  server @4 :Text $A.column("Server");
  lease @5 :Text $A.column("Lease");            # for how long the address was given; "forever"
  routes @6 :List(Route);
  mtu @7 :UInt32;
  dnsServers @8 :List(Text);
  searchDomains @9 :List(Text);
  hostname @10 :Text;                           # stays when the lease has ended
  domainname @11 :Text;
  timeServers @12 :List(Text);
  struct Route { destination @0 :Text $A.name("dst"); gateway @1 :Text; }
}
struct LinkStatusSpec $A.resource((type = "LinkStatuses.net.talos.dev", namespace = "network", aliases = ["link", "links"])) {
  index @0 :UInt32;
  type @1 :Text $A.column("Type");              # ether, loopback …
  kind @2 :Text $A.column("Kind");              # empty, bond, vlan …
  hardwareAddress @3 :Text $A.name("hardwareAddr") $A.column("Hw Addr");
  mtu @4 :UInt32;
  flags @5 :List(Text);
  operationalState @6 :Text $A.column("Oper State");
  linkState @7 :Bool $A.column("Link State");   # carrier
  linkIndex @8 :UInt32;                         # of the link under a VLAN, or of the peer
  masterIndex @9 :UInt32;
  broadcastAddress @10 :Text $A.name("broadcastAddr");
  queueDiscipline @11 :Text $A.name("queueDisc");
  memberKind @12 :Text $A.name("slaveKind");
  vlan @13 :VlanSpec $A.ifGiven;
  bondMaster @14 :Config.Bond $A.ifGiven;
  bondMember @15 :BondMember $A.name("bondSlave") $A.ifGiven;
  bridgeMaster @16 :BridgeSpec $A.ifGiven;
  wireguard @17 :WireguardSpec $A.ifGiven;
  logical @18 :Bool;                            # networkd made it
  permanentAddress @19 :Text $A.name("permanentAddr");
  driver @20 :Text;                             # of hardware, as virtio_net
  busPath @21 :Text;                            # 0000:00:03.0
  pciID @22 :Text;                              # vendor:product, as 1af4:1000
  struct BondMember {
    state @0 :Text;                             # active or backup
    miiStatus @1 :Text;
    failures @2 :UInt32;
    permanentAddress @3 :Text $A.name("permanentAddr");
    aggregator @4 :UInt16;
    partner @5 :Text;                           # of LACP: its hardware address
  }
}
struct AddressStatusSpec $A.resource((type = "AddressStatuses.net.talos.dev", namespace = "network", aliases = ["address", "addresses"])) {
  address @0 :Text $A.column("Address");
  linkName @1 :Text $A.column("Link");
  linkIndex @2 :UInt32;
  family @3 :Text;
  scope @4 :Text;
  flags @5 :List(Text);                         # permanent, secondary, tentative, duplicate, deprecated
}
struct RouteStatusSpec $A.resource((type = "RouteStatuses.net.talos.dev", namespace = "network", aliases = ["route", "routes"])) {
  family @0 :Text;
  destination @1 :Text $A.name("dst") $A.column("Destination");
  gateway @2 :Text $A.column("Gateway");
  linkName @3 :Text $A.name("outLinkName") $A.column("Link");
  metric @4 :UInt32 $A.name("priority") $A.column("Metric");
  scope @5 :Text;
  protocol @6 :Text;
  source @7 :Text;
  mtu @8 :UInt32;
  type @9 :Text;                                # unicast, blackhole …
}
struct NeighbourStatusSpec $A.resource((type = "NeighbourStatuses.net.talos.dev", namespace = "network", aliases = ["neighbour", "neighbours", "neighbor", "neighbors"])) {
  # Who is on the links. At most 4096 are shown; one more record, "more", then says in `state` how many are not.
  linkName @0 :Text $A.column("Link");
  address @1 :Text $A.column("Address");
  hardwareAddress @2 :Text $A.name("hardwareAddr") $A.column("Hw Addr");   # empty: not known
  state @3 :Text $A.column("State");            # reachable, stale, delay, probe, failed, incomplete, permanent
  linkIndex @4 :UInt32;
  family @5 :Text;
  flags @6 :List(Text);                         # router, externallyLearned, managed …
  protocol @7 :Text;                            # who made it, if it was said
}
struct RuleStatusSpec $A.resource((type = "RuleStatuses.net.talos.dev", namespace = "network", aliases = ["rule", "rules"])) {
  # Which table is asked for a route, in the order of the priorities. At most 4096 are shown, as of neighbours;
  # the record "more" says it in `rule`.
  family @0 :Text $A.column("Family");
  priority @1 :UInt32 $A.column("Priority");
  rule @2 :Text $A.column("Rule");              # all of it, in the words of ip-rule
  source @3 :Text $A.name("src");               # empty: any, as everywhere below
  destination @4 :Text $A.name("dst");
  fwMark @5 :UInt32;
  fwMask @6 :UInt32;
  inLinkName @7 :Text;
  outLinkName @8 :Text;
  action @9 :Text;                              # lookup, goto, nop, blackhole, unreachable, prohibit
  table @10 :Text;                              # of lookup
  target @11 :UInt32;                           # of goto: a priority
  protocol @12 :Text;                           # who made it
}
struct NodeAddressSpec $A.resource((type = "NodeAddresses.net.talos.dev", namespace = "network")) {
  addresses @0 :List(Text) $A.column("Addresses");
}
struct VipSpecSpec $A.resource((type = "VipSpecs.net.talos.dev", namespace = "network")) {
  # An address that the control-plane nodes share. The id is the address.
  linkName @0 :Text $A.column("Link");
  leaseTtlMs @1 :UInt32;
}
struct VipStatusSpec $A.resource((type = "VipStatuses.net.talos.dev", namespace = "network")) {
  # By vipd. The id is the address.
  linkName @0 :Text $A.column("Link");
  state @1 :Text $A.column("State");            # holder, waiting or idle
  holder @2 :Text $A.column("Holder");          # name of the node that has it, as far as is known
  since @3 :Text $A.column("Since");            # RFC 3339: of the state
  leaseUntil @4 :Text $A.column("Lease until"); # RFC 3339; of the holder: when it ends unless it is renewed
  reason @5 :Text $A.column("Reason");          # of the last change, or what it waits for
  changes @6 :UInt64;                           # how often this node has become holder
}
struct NetworkStatusSpec $A.resource((type = "NetworkStatuses.net.talos.dev", namespace = "network", aliases = ["netstatus", "netstatuses"])) {
  addressReady @0 :Bool $A.column("Address");
  connectivityReady @1 :Bool $A.column("Connectivity");
  hostnameReady @2 :Bool $A.column("Hostname");
  applied @3 :UInt64;                           # sum of the versions of the specs that the kernel now has
  problems @4 :List(Text);                      # what could not be done, in the kernel's words
  overruns @5 :UInt64;                          # how often the kernel had more to tell than could be followed
  repairs @6 :UInt64;                           # how often what somebody else had changed was made good
  repaired @7 :List(Repair);                    # the newest 32 of them, oldest first
  struct Repair { number @0 :UInt64; link @1 :Text; what @2 :Text; }   # number: of `repairs`
}
struct LinkPlanSpec $A.resource((type = "LinkPlans.net.talos.dev", namespace = "network", aliases = ["linkplan", "linkplans"])) {
  # What networkd would do next: none while everything is as it is wanted.
  steps @0 :List(Text) $A.column("Steps");
  problems @1 :List(Text) $A.column("Problems");
  retry @2 :Text $A.column("Retry");            # when it tries again, as 1.5s
}

# --- secrets -------------------------------------------------------------------------------------------
struct KeyPair { crt @0 :Data $A.base64; key @1 :Data $A.base64 $A.secret; }      # PEM
struct ApiCertificateSpec $A.resource((type = "ApiCertificates.secrets.talos.dev", namespace = "secrets", sensitive = true)) {
  # What apid serves and dials with.
  ca @0 :Data $A.base64;                        # PEM, one or more certificates
  server @1 :KeyPair;                           # certificate of port 50000
  client @2 :KeyPair;                           # O = os:impersonator, towards other nodes
  maintenance @3 :Bool;
  # The machine has no config: `server` is a throw-away certificate, there is nothing else, and anybody may
  # call what is marked $maintenance.
}
struct RootSecretSpec $A.resource((type = "RootSecrets.secrets.talos.dev", namespace = "secrets", sensitive = true,
    aliases = ["rootSecret", "rootSecrets", "rs"])) $A.inline {
  union {
    etcd @0 :EtcdRoot;
    k8s @1 :KubernetesRoot;
    os @2 :OsRoot;
  }
  struct EtcdRoot { etcdCA @0 :KeyPair; }
  struct OsRoot {
    # For trustd, on nodes with the CA's key.
    ca @0 :KeyPair;
    token @1 :Text $A.secret;
    reserved @2 :List(Text);                    # names and addresses of the control plane: nobody else gets them
    dnsDomain @3 :Text;
    certLifetimeS @4 :UInt64;
    anyAddress @5 :Bool;
    certSANs @6 :List(Text);                    # names and addresses of this machine, for trustd's own certificate
  }
  struct KubernetesRoot {
    name @0 :Text; endpoint @1 :Text; certSANs @2 :List(Text); apiServerIPs @3 :List(Text); dnsDomain @4 :Text;
    ca @5 :KeyPair; serviceAccountKey @6 :Data $A.base64 $A.secret; aggregatorCA @7 :KeyPair;
    aesCBCEncryptionSecret @8 :Text $A.secret; bootstrapTokenID @9 :Text; bootstrapTokenSecret @10 :Text $A.secret;
    secretboxEncryptionSecret @11 :Text $A.secret;
  }
}
struct JoinSpec $A.resource((type = "JoinSpecs.secrets.talos.dev", namespace = "secrets", sensitive = true)) {
  # What apid asks trustd with, on a node without the CA's key.
  endpoints @0 :List(Text);                     # names or addresses, in the order in which they are asked
  token @1 :Text $A.secret;
  ca @2 :Data $A.base64;                        # PEM; empty: caHash, or whoever answers is believed
  caHash @3 :Text;                              # sha256: and hex
  commonName @4 :Text;
  dnsNames @5 :List(Text);
  addresses @6 :List(Text);                     # of machine.certSANs, beside the one that is called from
}
struct JoinStatusSpec $A.resource((type = "JoinStatuses.runtime.talos.dev", namespace = "runtime")) {
  # How it goes, by apid. Never the token.
  ready @0 :Bool $A.column("Ready");            # there is a certificate that is valid
  endpoint @1 :Text $A.column("Endpoint");      # that is being asked, or gave the certificate
  message @2 :Text $A.column("Message");        # what is under way, or why it failed and when the next try is
  failures @3 :UInt32;                          # in a row
  verified @4 :Text;                            # ca, hash or nothing: how trustd is known
  notBefore @5 :Text;                           # of the certificate, RFC 3339
  notAfter @6 :Text;
}
struct IssuedCertificateSpec $A.resource((type = "IssuedCertificates.runtime.talos.dev", namespace = "runtime")) {
  # What trustd of this machine has signed. The id is the serial number. Never changed; goes a day after its end.
  caller @0 :Text $A.column("Caller");          # the address that asked
  dnsNames @1 :List(Text) $A.column("Names");
  addresses @2 :List(Text) $A.column("Addresses");
  issued @3 :Text $A.column("Issued");          # RFC 3339, as the others
  notBefore @4 :Text;
  notAfter @5 :Text $A.column("Valid until");
  fingerprint @6 :Text;                         # base64 of SHA-256 over the public key
}
struct EtcdSecretsSpec $A.resource((type = "EtcdSecrets.secrets.talos.dev", namespace = "secrets", sensitive = true,
    aliases = ["es"])) {
  # etcd: of the member itself; files in /etc/kubernetes/pki/etcd. client: what other programs of the node speak to
  # etcd with, `client` and `ca` alone.
  etcdPeer @0 :KeyPair;                         # towards other members, from them, and as a client
  ca @1 :Data $A.base64;                        # PEM
  server @2 :KeyPair;                           # of port 2379
  client @3 :KeyPair;
  api @4 :KeyPair;                              # O = os:reader, towards apid of other control-plane nodes
  apiCa @5 :Data $A.base64;                     # PEM, one or more certificates
}
struct KubernetesSecretsSpec $A.resource((type = "KubernetesSecrets.secrets.talos.dev", namespace = "secrets", sensitive = true,
    aliases = ["ks"])) {
  apiServer @0 :KeyPair;
  apiServerKubeletClient @1 :KeyPair;
  frontProxy @2 :KeyPair;
  adminKubeconfig @3 :Text $A.secret;           # of the node itself: system:masters
  controllerManagerKubeconfig @4 :Text $A.secret;
  schedulerKubeconfig @5 :Text $A.secret;
}

# --- etcd ----------------------------------------------------------------------------------------------
struct EtcdConfigSpec $A.resource((type = "EtcdConfigs.etcd.talos.dev", namespace = "etcd")) {
  # What the config of a control-plane node says of etcd, and what follows from it. The id is etcd.
  name @0 :Text $A.column("Name");              # of the member: the host name
  image @1 :Text;                               # empty: etcd of the system
  extraArgs @2 :List(Argument) $A.map;
  addresses @3 :List(Text) $A.column("Addresses");  # of the node, shared ones excepted; the first is advertised
  listenAddresses @4 :List(Text);               # empty: every address
  peers @5 :List(Text);                         # names or addresses of the other control-plane nodes
  bootstraps @6 :Bool;                          # machine.type: init
  shared @7 :List(Text);                        # addresses that move between the control-plane nodes
}
struct EtcdSpecSpec $A.resource((type = "EtcdSpecs.etcd.talos.dev", namespace = "etcd")) {
  # How etcd is run here: by etcd-supervisor, for machined. The id is etcd.
  waitsFor @0 :Text $A.column("Waits for");     # why it is not to run; empty: it is to
  image @1 :Text;                               # empty: etcd of the system
  arguments @2 :List(Argument) $A.map;          # without dashes, sorted
  recoverFrom @3 :Text;                         # a snapshot, of which its data is made first; removed then
  skipHashCheck @4 :Bool;                       # of it
}
struct EtcdStatusSpec $A.resource((type = "EtcdStatuses.etcd.talos.dev", namespace = "etcd")) {
  # The id is etcd.
  phase @0 :Text $A.column("Phase");            # waiting, bootstrapping, joining, learner, member, leaving or left
  member @1 :Text $A.column("Member");          # its id, in hexadecimal
  leader @2 :Text $A.column("Leader");          # name of the leader
  voters @3 :UInt32 $A.column("Voters");        # of the whole cluster
  tolerates @4 :UInt32 $A.column("Tolerates");  # how many more of them may fail
  message @5 :Text $A.column("Message");        # what is under way, or waited for, and why
  alarms @6 :List(Text);                        # master-1: NOSPACE
  changed @7 :Text;                             # RFC 3339: when the phase began
}
struct EtcdMemberSpec $A.resource((type = "EtcdMembers.etcd.talos.dev", namespace = "etcd")) {
  # The id is the member's, in hexadecimal.
  name @0 :Text $A.column("Name");              # empty: it has not started yet
  peerUrls @1 :List(Text) $A.column("Peer URLs");
  clientUrls @2 :List(Text) $A.column("Client URLs");
  learner @3 :Bool $A.column("Learner");
}

# --- Kubernetes ----------------------------------------------------------------------------------------
struct Argument { key @0 :Text; value @1 :Text; }
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
    localPort @4 :UInt16; serviceCIDR @5 :Text; extraArgs @6 :List(Argument) $A.map; extraVolumes @7 :List(ExtraVolume);
  }
  struct ControllerManager {
    image @0 :Text; cloudProvider @1 :Text; podCIDR @2 :Text; serviceCIDR @3 :Text;
    extraArgs @4 :List(Argument) $A.map; extraVolumes @5 :List(ExtraVolume);
  }
  struct Scheduler { image @0 :Text; extraArgs @1 :List(Argument) $A.map; extraVolumes @2 :List(ExtraVolume); }
  struct SystemManifests {
    server @0 :Text; clusterDomain @1 :Text; podCIDRs @2 :List(Text); firstPodCIDR @3 :Text; proxyEnabled @4 :Bool;
    proxyImage @5 :Text; proxyMode @6 :Text; proxyExtraArgs @7 :List(Argument) $A.map; coreDNSImage @8 :Text;
    dnsServiceIP @9 :Text; dnsServiceIPv6 @10 :Text; flannelEnabled @11 :Bool; flannelImage @12 :Text; flannelCNIImage @13 :Text;
    kubernetesVersion @14 :Text;                # 1.34.4: that the manifests are for
    podSecurityPolicyEnabled @15 :Bool;
  }
  struct ExtraManifests {
    extraManifests @0 :List(Manifest);
    struct Manifest { url @0 :Text; priority @1 :Text; extraHeaders @2 :List(Argument) $A.map;
      contents @3 :Text; }                      # of an inline manifest, whose URL is its name
  }
}
struct SecretStatusSpec $A.resource((type = "SecretStatuses.kubernetes.talos.dev", namespace = "controlplane")) {
  ready @0 :Bool $A.column("Ready");
  version @1 :Text $A.column("Secrets Version");
}
struct StaticPodSpec $A.resource((type = "StaticPods.kubernetes.talos.dev", namespace = "controlplane")) $A.inline {
  pod @0 :Text $A.raw;
}
struct StaticPodStatusSpec $A.resource((type = "StaticPodStatuses.kubernetes.talos.dev", namespace = "controlplane",
    aliases = ["podstatus"])) $A.inline {
  status @0 :Text $A.raw $A.column("Ready");    # the column is the status of the Ready condition
}
struct ManifestSpec $A.resource((type = "Manifests.kubernetes.talos.dev", namespace = "controlplane", sensitive = true))
    $A.inline {
  objects @0 :Text $A.raw;
}
struct ManifestStatusSpec $A.resource((type = "ManifestStatuses.kubernetes.talos.dev", namespace = "controlplane", aliases = ["ms"])) {
  manifestsApplied @0 :List(Text);
  message @1 :Text $A.column("Message");        # what it waits for, or why it failed
}
struct MemberSpec $A.resource((type = "Members.cluster.talos.dev", namespace = "cluster")) {
  # A node of the cluster, as Kubernetes has it. The id is its name there.
  hostname @0 :Text $A.column("Hostname");
  machineType @1 :Text $A.column("Machine Type"); # controlplane or worker
  operatingSystem @2 :Text $A.column("OS");
  addresses @3 :List(Text) $A.column("Addresses");
}
struct NodeSpecSpec $A.resource((type = "NodeSpecs.kubernetes.talos.dev", namespace = "controlplane")) {
  # What the config wants of this node's object in Kubernetes. The id is node.
  nodename @0 :Text $A.column("Nodename");
  controlPlane @1 :Bool $A.column("Control Plane");
  schedulable @2 :Bool $A.column("Schedulable"); # for workloads, on a control-plane node
  labels @3 :List(Argument) $A.map;
  taints @4 :List(Argument) $A.map;             # value:Effect
}
struct NodeStatusSpec $A.resource((type = "NodeStatuses.kubernetes.talos.dev", namespace = "controlplane")) {
  # The node's object, as far as this node knows it. The id is node.
  nodename @0 :Text $A.column("Nodename");
  ready @1 :Bool $A.column("Ready");
  unschedulable @2 :Bool $A.column("Unschedulable");
  applied @3 :Bool $A.column("Applied");        # it is as the config wants it
  message @4 :Text $A.column("Message");        # what it waits for, or why it failed
}
struct NodenameSpec $A.resource((type = "Nodenames.kubernetes.talos.dev", namespace = "controlplane")) {
  # What this node is called in Kubernetes. The id is nodename.
  nodename @0 :Text $A.column("Nodename");
  hostname @1 :Text;                            # that it was made of
}
struct NodeDrainSpec $A.resource((type = "NodeDrains.kubernetes.talos.dev", namespace = "controlplane")) {
  # What machined wants of this node before it goes, and when it is back: kubed does it. The id is node.
  action @0 :Text $A.column("Action");          # drain: cordon first; or uncordon, if it was us who cordoned
  nodename @1 :Text $A.column("Nodename");
  number @2 :UInt64;                            # of the wish: another one has another number
}
struct NodeDrainStatusSpec $A.resource((type = "NodeDrainStatuses.kubernetes.talos.dev", namespace = "controlplane")) {
  # How far kubed is with it. The id is node.
  state @0 :Text $A.column("State");            # waiting, cordoning, draining, uncordoning, done or failed
  message @1 :Text $A.column("Message");        # what is under way or waited for, or why it failed
  pods @2 :List(Text) $A.column("Pods");        # that have not left yet, namespace/name
  warnings @3 :List(Text);                      # what did not go as it should
  number @4 :UInt64;                            # of the wish
}
struct KubeletClientSpec $A.resource((type = "KubeletClients.secrets.talos.dev", namespace = "secrets", sensitive = true)) {
  # With what the kubelet is known to the API server, while kubed needs it: for a drain, and on a worker
  # as long as the kubelet is healthy. The id is kubelet.
  kubeconfig @0 :Text $A.secret;
}
struct KubeletJoinSpec $A.resource((type = "KubeletJoins.kubernetes.talos.dev", namespace = "controlplane")) {
  # There while the kubelet of this node has no certificate and cannot sign one: kubed asks for it. The id is kubelet.
  number @0 :UInt64;                            # of the wish: another one has another number
  request @1 :Text;                             # PKCS#10, PEM
}
struct KubeletJoinStatusSpec $A.resource((type = "KubeletJoinStatuses.kubernetes.talos.dev", namespace = "controlplane")) {
  # How far kubed is with it. The id is kubelet.
  state @0 :Text $A.column("State");            # waiting or issued
  message @1 :Text $A.column("Message");        # why the API server does not take the request, or what that waits for
  number @2 :UInt64;                            # of the wish
  certificate @3 :Text;                         # PEM, when it is issued
}
struct LocalApiStatusSpec $A.resource((type = "LocalApiStatuses.kubernetes.talos.dev", namespace = "controlplane")) {
  # Whether kube-apiserver of this node answers /readyz, by kubed. The id is kube-apiserver.
  ready @0 :Bool $A.column("Ready");            # a few answers in a row, or failures, change it
  everReady @1 :Bool $A.column("Ever ready");   # since the node was started
  message @2 :Text $A.column("Message");        # why it is not ready
  since @3 :Text $A.column("Since");            # RFC 3339: of `ready`
}
struct KubeletSpecSpec $A.resource((type = "KubeletSpecs.kubernetes.talos.dev", namespace = "controlplane")) {
  # What the kubelet is run with. The id is kubelet.
  image @0 :Text $A.column("Image");
  nodename @1 :Text $A.column("Nodename");
  nodeIPs @2 :List(Text) $A.column("Node IPs");
  arguments @3 :List(Text);
  config @4 :Text $A.raw;                       # kubelet.yaml
  extraMounts @5 :List(Mount);
  struct Mount { destination @0 :Text; type @1 :Text; source @2 :Text; options @3 :List(Text); }
}
struct KubeletSecretsSpec $A.resource((type = "KubeletSecrets.secrets.talos.dev", namespace = "secrets", sensitive = true)) {
  # The id is kubelet.
  ca @0 :Data $A.base64;                        # of Kubernetes, PEM
  bootstrapKubeconfig @1 :Text $A.secret;       # with the bootstrap token
}
