@0xab95fe5e242dae0b;
# Resources of the network. machined writes the specs from the config; networkd and vipd carry them out and write the
# observed state.
# Field order is the order in which `get` prints keys and columns.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");
using A = import "annotations.capnp";
using Config = import "config-network.capnp";

struct LinkSpecSpec $A.resource((type = "LinkSpecs.net.talos.dev", namespace = "network")) {
  name @0 :Text;
  up @1 :Bool $A.column("Up");
  mtu @2 :UInt32 $A.column("Mtu");              # 0: unchanged
  layer @3 :Text;                               # default, cmdline or configuration
  logical @4 :Bool;                             # networkd creates it, and removes it together with its spec
  kind @5 :Text $A.column("Kind");              # bond, bridge, dummy, veth, vlan, vrf, wireguard; empty: hardware
  parentName @6 :Text $A.column("Parent");      # the link under a VLAN
  masterName @7 :Text $A.column("Master");      # the bond, bridge or VRF that it belongs to
  vlan @8 :VlanSpec $A.ifGiven;
  bondMaster @9 :Config.Bond $A.ifGiven;
  bridgeMaster @10 :BridgeSpec $A.ifGiven;
  wireguard @11 :WireguardSpec $A.ifGiven;                 # its private key: WireguardKeys/<link>
  problem @12 :Text;                            # why a deviceSelector matches no link; the spec is ignored meanwhile
  vrfMaster @13 :VrfSpec $A.ifGiven;
  veth @14 :VethSpec $A.ifGiven;
}
struct VrfSpec { table @0 :Text; }
struct VethSpec { peerName @0 :Text; }
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
  order @5 :UInt32;                             # the address with the lowest is the primary IPv4 address of its network
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
  table @10 :Text;                              # main, or a number; empty: main
}
struct RoutingRuleSpecSpec $A.resource((type = "RoutingRuleSpecs.net.talos.dev", namespace = "network")) {
  # A rule that selects the table for a packet; RuleStatuses are the rules of the kernel.
  family @0 :Text $A.column("Family");
  priority @1 :UInt32 $A.column("Priority");
  source @2 :Text $A.name("src") $A.column("Source");   # CIDR; empty: any, as everywhere below
  destination @3 :Text $A.name("dst") $A.column("Destination");
  table @4 :Text $A.column("Table");            # of the action unicast: main, or a number
  action @5 :Config.RuleAction $A.column("Action");
  inLinkName @6 :Text;
  outLinkName @7 :Text;
  fwMark @8 :UInt32;
  fwMask @9 :UInt32;                            # 0: all bits of fwMark
  layer @10 :Text;
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
# An operator requests a network's settings, by DHCP or router advertisements. networkd runs one for each spec and
# reports its lease as an OperatorStatus, from which machined makes specs of the layer `operator`.
struct OperatorSpecSpec $A.resource((type = "OperatorSpecs.net.talos.dev", namespace = "network")) {
  operator @0 :Text $A.column("Operator");      # dhcp4, dhcp6, ra
  linkName @1 :Text $A.column("Link");
  requireUp @2 :Bool;
  routeMetric @3 :UInt32;                       # of the routes in its leases
  hostname @4 :Text;                            # sent to the server
  layer @5 :Text;
  duid @6 :Text;                                # for servers of DHCPv6, as 00:03:00:01:…; empty: made of the hardware address
}
struct OperatorStatusSpec $A.resource((type = "OperatorStatuses.net.talos.dev", namespace = "network",
    aliases = ["lease", "leases"])) {
  operator @0 :Text;
  linkName @1 :Text $A.column("Link");
  state @2 :Text $A.column("State");
  addresses @3 :List(Text) $A.column("Addresses");    # CIDR
  server @4 :Text $A.column("Server");
  lease @5 :Text $A.column("Lease");            # the lifetime of the address, or "forever"
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
  vrfMaster @23 :VrfSpec $A.ifGiven;
  veth @24 :VethSpec $A.ifGiven;
  struct BondMember {
    state @0 :Text;                             # active or backup
    miiStatus @1 :Text;
    failures @2 :UInt32;
    permanentAddress @3 :Text $A.name("permanentAddr");
    aggregator @4 :UInt16;
    partner @5 :Text;                           # of LACP: its hardware address
  }
}
struct PlatformConfigSpec $A.resource((type = "PlatformConfigs.net.talos.dev", namespace = "network")) {
  # The network as the platform of the machine states it. The id is platform; it exists once the platform's service has
  # answered.
  network @0 :Config.Network;
  timeServers @1 :List(Text);
  externalIPs @2 :List(Text);                   # addresses that reach the machine from outside, on no link of it
  problems @3 :List(Text);                      # values of its documents that are left out
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
  table @10 :Text;                              # main, or a number
}
struct NeighbourStatusSpec $A.resource((type = "NeighbourStatuses.net.talos.dev", namespace = "network", aliases = ["neighbour", "neighbours", "neighbor", "neighbors"])) {
  # The neighbour tables of the links. At most 4096 entries are shown; one more record, "more", then has in `state`
  # how many are left out.
  linkName @0 :Text $A.column("Link");
  address @1 :Text $A.column("Address");
  hardwareAddress @2 :Text $A.name("hardwareAddr") $A.column("Hw Addr");   # empty: not known
  state @3 :Text $A.column("State");            # reachable, stale, delay, probe, failed, incomplete, permanent
  linkIndex @4 :UInt32;
  family @5 :Text;
  flags @6 :List(Text);                         # router, externallyLearned, managed …
  protocol @7 :Text;                            # of the program that made it, if known
}
struct RuleStatusSpec $A.resource((type = "RuleStatuses.net.talos.dev", namespace = "network", aliases = ["rule", "rules"])) {
  # Routing rules, in the order of their priorities: they select the table for a packet. At most 4096 are shown, as for
  # neighbours; the record "more" has the number left out in `rule`.
  family @0 :Text $A.column("Family");
  priority @1 :UInt32 $A.column("Priority");
  rule @2 :Text $A.column("Rule");              # all of it, as ip-rule(8) prints it
  source @3 :Text $A.name("src");               # empty: any, as everywhere below
  destination @4 :Text $A.name("dst");
  fwMark @5 :UInt32;
  fwMask @6 :UInt32;
  inLinkName @7 :Text;
  outLinkName @8 :Text;
  action @9 :Text;                              # lookup, goto, nop, blackhole, unreachable, prohibit
  table @10 :Text;                              # of lookup
  target @11 :UInt32;                           # of goto: a priority
  protocol @12 :Text;                           # of the program that made it
}
struct MetadataBlockSpecSpec $A.resource((type = "MetadataBlockSpecs.net.talos.dev", namespace = "network")) {
  # The metadata service of the platform, which pods must not reach. The id is the platform's name. Does not exist on a
  # platform without such a service, or with machine.features.podMetadataAccess.
  addresses @0 :List(Text) $A.column("Addresses");
}
struct MetadataBlockStatusSpec $A.resource((type = "MetadataBlockStatuses.net.talos.dev", namespace = "network",
    aliases = ["metadatablock", "metadatablocks"])) {
  # Written by networkd. The id is that of the MetadataBlockSpec.
  addresses @0 :List(Text) $A.column("Addresses");    # the kernel now drops packets from pods to them
  dropped @1 :UInt64 $A.column("Dropped");      # packets, since the kernel has the rules; at most a minute old
  problem @2 :Text $A.column("Problem");        # why the kernel does not have the rules that it should
}
struct FirewallSpecSpec $A.resource((type = "FirewallSpecs.net.talos.dev", namespace = "network")) {
  # The packets to the node itself that are accepted. The id is firewall. Exists only if the config blocks by default,
  # or has a rule.
  block @0 :Bool $A.column("Block");            # packets of no rule; else each rule closes its ports to other sources
  rules @1 :List(Config.FirewallRule);
  podSubnets @2 :List(Text);
  serviceSubnets @3 :List(Text);
  hostDnsAddresses @4 :List(Text);              # at which pods reach the resolver of the node
}
struct FirewallStatusSpec $A.resource((type = "FirewallStatuses.net.talos.dev", namespace = "network",
    aliases = ["firewall", "firewalls"])) {
  # Written by networkd. The id is that of the FirewallSpec.
  ingress @0 :Text $A.column("Ingress");        # what the kernel now does by default: accept or block
  rules @1 :UInt32 $A.column("Rules");          # of the config, that the kernel now has
  dropped @2 :UInt64 $A.column("Dropped");      # packets, since the kernel has the rules; at most a minute old
  problem @3 :Text $A.column("Problem");        # why the kernel does not have the rules that it should
  specVersion @4 :UInt64;                       # of the FirewallSpec that this status is about
}
struct EthernetSpecSpec $A.resource((type = "EthernetSpecs.net.talos.dev", namespace = "network")) {
  # Settings of a link's driver. The id is the name of the link. Settings that are not given stay as they are.
  rings @0 :List(Config.EthernetValue) $A.map;
  channels @1 :List(Config.EthernetValue) $A.map;
  features @2 :List(Config.EthernetFeature) $A.map;
  wakeOnLan @3 :List(Text);
  setsWakeOnLan @4 :Bool;                       # then an empty list switches it off
}
struct EthernetStatusSpec $A.resource((type = "EthernetStatuses.net.talos.dev", namespace = "network",
    aliases = ["ethernet", "ethernets"])) {
  # The settings that a driver has. Written by networkd for each card, and for each link with an EthernetSpec. The id is
  # the name of the link.
  rings @0 :List(Config.EthernetValue) $A.map;  # rx, rx-max …; 0 or 1 for those that are on or off
  channels @1 :List(Config.EthernetValue) $A.map;
  features @2 :List(Text);                      # "tx-scatter-gather: on", "tx-lockless: on [fixed]"
  wakeOnLan @3 :List(Text);                     # kinds of packets and events that wake the machine
  wakeOnLanSupported @4 :List(Text);            # those that could
  problems @5 :List(Text) $A.column("Problems");  # settings of the EthernetSpec that the driver does not have, and why
  specVersion @6 :UInt64;                       # version of the EthernetSpec that the problems are about; 0 without a spec
}
struct HostDnsStatusSpec $A.resource((type = "HostDNSStatuses.net.talos.dev", namespace = "network",
    aliases = ["hostdns"])) {
  # Written by networkd while host DNS is enabled. The id is status.
  listening @0 :List(Text) $A.column("Listening");    # addresses of HostDNSConfigs at which it answers by UDP and TCP
  upstreams @1 :List(Text) $A.column("Upstreams");    # in the order in which they get a query
  hits @2 :UInt64 $A.column("Hits");            # answers from the cache; all counts are a minute old at most
  misses @3 :UInt64 $A.column("Misses");        # answers of upstreams
  failures @4 :UInt64 $A.column("Failures");    # queries that no upstream answered
  problem @5 :Text $A.column("Problem");        # why it does not answer everywhere, or leaves out an upstream
  nameserver @6 :Text;                          # the local address in resolv.conf; empty: that has the upstreams
  podNameservers @7 :List(Text);                # the local addresses in the file for pods; empty: that has the upstreams
  specVersion @8 :UInt64;                       # of the HostDNSConfig that this status is about
}
struct NodeAddressSpec $A.resource((type = "NodeAddresses.net.talos.dev", namespace = "network")) {
  addresses @0 :List(Text) $A.column("Addresses");
}
struct VipSpecSpec $A.resource((type = "VipSpecs.net.talos.dev", namespace = "network")) {
  # An address that the control-plane nodes share. The id is the address.
  linkName @0 :Text $A.column("Link");
  leaseTtlMs @1 :UInt32;
  provider @2 :Text;                            # hcloud: vipd moves it by the API of Hetzner Cloud, too; empty: by ARP and NDP alone
}
struct VipCredentialsSpec $A.resource((type = "VipCredentials.secrets.talos.dev", namespace = "secrets", sensitive = true)) {
  # For the API of the VipSpec's provider. The id is that of the VipSpec.
  apiToken @0 :Text $A.secret;
}
struct VipStatusSpec $A.resource((type = "VipStatuses.net.talos.dev", namespace = "network")) {
  # Written by vipd. The id is the address.
  linkName @0 :Text $A.column("Link");
  state @1 :Text $A.column("State");            # holder, waiting or idle
  holder @2 :Text $A.column("Holder");          # name of the node that has it; empty: unknown
  since @3 :Text $A.column("Since");            # RFC 3339: of the state
  leaseUntil @4 :Text $A.column("Lease until"); # RFC 3339; of the holder: when it ends unless it is renewed
  reason @5 :Text $A.column("Reason");          # of the last change, or of waiting
  changes @6 :UInt64;                           # how often this node has become holder
}
struct NetworkStatusSpec $A.resource((type = "NetworkStatuses.net.talos.dev", namespace = "network", aliases = ["netstatus", "netstatuses"])) {
  addressReady @0 :Bool $A.column("Address");
  connectivityReady @1 :Bool $A.column("Connectivity");
  hostnameReady @2 :Bool $A.column("Hostname");
  applied @3 :UInt64;                           # sum of the versions of the specs that the kernel now has
  problems @4 :List(Text);                      # failed steps, with the kernel's error
  overruns @5 :UInt64;                          # how often the kernel dropped notifications: networkd was too slow
  repairs @6 :UInt64;                           # how often a change by another program was repaired
  repaired @7 :List(Repair);                    # the newest 32 of them, oldest first
  struct Repair { number @0 :UInt64; link @1 :Text; what @2 :Text; }   # number: of `repairs`
}
struct LinkPlanSpec $A.resource((type = "LinkPlans.net.talos.dev", namespace = "network", aliases = ["linkplan", "linkplans"])) {
  # The next steps of networkd; empty while the kernel has what the specs say.
  steps @0 :List(Text) $A.column("Steps");
  problems @1 :List(Text) $A.column("Problems");
  retry @2 :Text $A.column("Retry");            # time until the next attempt, as 1.5s
}
