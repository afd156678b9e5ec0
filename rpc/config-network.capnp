@0x9d4c1f7be2a85036;
# The part of the machine config (config.capnp) that describes the network of a machine: its links, addresses, routes
# and resolvers. Types state their ids, because they keep the ids that they got in config.capnp, where they were before.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::config");
using A = import "annotations.capnp";

struct Network @0xf7d8850bfc4bc089 {
  hostname @0 :Text
      $A.doc("Host name. The part after the first dot becomes the domain name.");
  interfaces @1 :List(Interface)
      $A.doc("Links to configure. Several entries for one link are combined.");
  nameservers @2 :List(Text) $A.default("those of DHCP, the platform or ip=, else 1.1.1.1 and 8.8.8.8")
      $A.doc("IP addresses of DNS servers; the first three are used.");
  extraHostEntries @3 :List(HostEntry) $A.doc("Additional entries in /etc/hosts.");
  searchDomains @4 :List(Text) $A.since("v1.9") $A.default("those of DHCP")
      $A.doc("Search domains of the resolver, instead of those that DHCP states.");
  disableSearchDomain @5 :Bool $A.since("v1.1") $A.default("false")
      $A.doc("Do not search in the domain of the host name.");
  linkAliases @6 :List(LinkAlias) $A.hidden;
  onlyConfigured @7 :Bool $A.hidden;   # no DHCP on links that the config does not name
  firewall @8 :Firewall $A.hidden;
  ethernet @9 :List(Ethernet) $A.hidden;
  routingRules @10 :List(RoutingRule) $A.hidden;
  routes @11 :List(Route) $A.hidden;   # of no link: of another type than unicast
  probes @12 :List(Probe) $A.hidden;
}

# A host that the node asks again and again whether it answers.
struct Probe @0xb20f7ce6915ad438 {
  target @0 :Text;                     # host:port, or the URL
  http @1 :Bool;                       # a GET with an answer of 200 to 399; else a TCP connection
  intervalMs @2 :UInt64;
  timeoutMs @3 :UInt64;
  failures @4 :UInt32;                 # so many in a row are a failure; 0 is 1
}

# A rule selects the table for packets with all given properties, or says what happens to them.
struct RoutingRule @0xc81f6d27b3a0945e {
  priority @0 :UInt32;                 # the lowest is tried first
  source @1 :Text;                     # network; empty: any, as everywhere below
  destination @2 :Text;
  table @3 :UInt32;                    # of the action unicast
  action @4 :RuleAction;
  inLinkName @5 :Text;
  outLinkName @6 :Text;
  fwMark @7 :UInt32;
  fwMask @8 :UInt32;                   # 0: all bits of fwMark
}
enum RuleAction @0xa05b93e8d7146c2f $A.noun("action of a routing rule") {
  unicast @0 $A.alias([""]);           # the table decides
  blackhole @1;                        # dropped
  unreachable @2;                      # dropped; the sender gets "network unreachable"
  prohibit @3;                         # dropped; the sender gets "prohibited"
}

# Settings of a link's driver, by the names of the document EthernetConfig. Settings that are not given stay
# as they are.
struct Ethernet @0xd2b7e5a1c4936f08 {
  name @0 :Text;                       # the link's name in the kernel
  rings @1 :List(EthernetValue) $A.map;
  channels @2 :List(EthernetValue) $A.map;
  features @3 :List(EthernetFeature) $A.map;
  wakeOnLan @4 :List(Text);
  setsWakeOnLan @5 :Bool;              # then an empty list switches it off
}
struct EthernetValue @0x9c3f60ad81e7b254 { key @0 :Text; value @1 :UInt32; }
struct EthernetFeature @0xe81d4b90c75a362f { key @0 :Text; value @1 :Bool; }

# The packets to the node itself that are accepted.
struct Firewall @0xacb79dea64421a43 {
  block @0 :Bool;                      # only packets of the rules are accepted; else the rules close their ports to all others
  rules @1 :List(FirewallRule);
}
struct FirewallRule @0xe5e1ed58ddefedaa {
  name @0 :Text;
  protocol @1 :Text;                   # tcp, udp, icmp or icmpv6; the ports count for the first two
  ports @2 :List(Ports);
  subnets @3 :List(Text);              # sources are the addresses of these networks
  except @4 :List(Text);               # that are in none of these
  struct Ports @0xd1fc92f9af992f52 { first @0 :UInt16; last @1 :UInt16; }
}

# A name that documents use for a link: that of the one hardware link that any of the selectors matches.
struct LinkAlias @0xc2f0d4a6b81e9357 {
  name @0 :Text;
  selectors @1 :List(DeviceSelector);
}

struct HostEntry @0xa505f1b2889851ad {
  ip @0 :Text $A.keepEmpty $A.doc("IP address.");
  aliases @1 :List(Text) $A.keepEmpty $A.doc("Names of this address.");
}

struct Interface @0xaeffd19404a72dd9 {
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
  dummy @9 :Bool $A.default("false")
      $A.doc("Create a dummy link if no link has this name. Links named dummy0, dummy1 and so on are created without it.");
  dhcpOptions @10 :DhcpOptions $A.doc("DHCP options; only with dhcp.");
  wireguard @11 :Wireguard $A.doc("Make this link a WireGuard tunnel.");
  vip @12 :Vip
      $A.doc("Address shared by the control-plane nodes; one of them has it at a time. Only for control-plane nodes.");
  bridge @13 :Bridge $A.since("v1.2") $A.doc("Make this link a bridge of other links.");
  deviceSelector @14 :DeviceSelector $A.since("v1.1")
      $A.doc("Select the link by its properties instead of its name. All given properties must match, and exactly one "
             "link must match.");
  taggedOn @15 :TaggedOn $A.hidden;
  sharedOnly @16 :Bool $A.hidden;      # this entry adds `vip` to what configures the link otherwise
  bridgePort @17 :BridgePort $A.since("v1.9") $A.doc("Make this link a port of a bridge.");
  vrf @18 :Vrf $A.hidden;
  veth @19 :Veth $A.hidden;
}

struct BridgePort @0xe0a4c9f25d7b1836 {
  master @0 :Text $A.keepEmpty $A.doc("Name of the bridge, as if its bridge.interfaces named this link.");
}

# The kernel keeps the routes to the networks of the links in it in its table.
struct Vrf @0xb7d25e8f90c4a163 {
  interfaces @0 :List(Text);
  table @1 :UInt32;
}

# One end of a pair of links; the other end has an entry with this link as its peer.
struct Veth @0x9fe6031ab8d7c524 {
  peer @0 :Text;
}

# The tag of a VLAN whose name is not PARENT.ID.
struct TaggedOn @0xd87a3e915cb0f264 {
  parent @0 :Text;
  vlanId @1 :UInt16;
  protocol @2 :Text;                   # 802.1q or 802.1ad
}

struct Bridge @0xb60c175e49dd4d4a {
  interfaces @0 :List(Text) $A.keepEmpty $A.doc("Names of the ports of the bridge.");
  stp @1 :Stp $A.doc("Spanning tree protocol (STP).");
  vlan @2 :VlanFiltering $A.since("v1.8") $A.doc("VLANs inside the bridge.");
  struct Stp { enabled @0 :Bool $A.default("false") $A.doc("Enable STP."); }
  struct VlanFiltering { vlanFiltering @0 :Bool $A.default("false") $A.doc("Filter by VLAN tags when forwarding."); }
}

# In strings, * matches any characters.
struct DeviceSelector @0xf0a71719fc3ebc88 {
  busPath @0 :Text $A.doc("Bus path of the device, such as 0000:00:03.0 or 00:*.");
  hardwareAddr @1 :Text $A.doc("Hardware address, such as 52:54:00:*.");
  permanentAddr @2 :Text $A.since("v1.9") $A.doc("Permanent hardware address of the device.");
  pciID @3 :Text $A.doc("PCI vendor and product id, such as 1af4:1000.");
  driver @4 :Text $A.doc("Name of the driver, such as virtio_net.");
  physical @5 :Bool $A.default("false") $A.since("v1.7") $A.doc("Match hardware only, not virtual links.");
}

struct DhcpOptions @0x8153717c082e5f85 {
  routeMetric @0 :UInt32 $A.keepEmpty $A.default("1024")
      $A.doc("Metric of the routes from DHCP; 0 means 1024.");
  ipv4 @1 :Bool = true $A.default("true") $A.doc("Request an IPv4 address.");
  ipv6 @2 :Bool $A.default("false") $A.doc("Request an IPv6 address.");
  ignoreHostname @3 :Bool $A.hidden;
  duidv6 @4 :Text $A.since("v1.1") $A.default("a DUID-LL of the hardware address")
      $A.doc("DUID by which the node identifies itself to servers of DHCPv6: octets in hexadecimal, such as "
             "00:03:00:01:52:54:00:12:34:56.");
}

struct Vlan @0xf5973b941813d68f {
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

struct Vip @0xa8a74fae0dbb67c2 {
  ip @0 :Text $A.keepEmpty $A.doc("Shared address, without a prefix length.");
  leaseTTL @1 :Text $A.default("2s")
      $A.doc("How long a node that does not answer keeps the address, 2s to 60s; the same on all nodes. etcd raises it to one "
             "and a half of its election timeout.");
  hcloud @2 :HcloudVip $A.since("v0.13")
      $A.doc("Move the address by the API of Hetzner Cloud: a floating IP, or an alias IP of one of the server's networks.");
}

struct HcloudVip @0xb9647ae3860a591e {
  apiToken @0 :Text $A.keepEmpty $A.secret
      $A.doc("API token of the project of Hetzner Cloud that the servers are in, with permission to read and write.");
}

struct Wireguard @0x9216a1e291e460ae {
  privateKey @0 :Text $A.secret $A.required
      $A.doc("Private key of this machine: 32 bytes in base64, as written by wg genkey.");
  listenPort @1 :UInt16 $A.default("a free port") $A.doc("UDP port; 0 lets the kernel choose a free one.");
  firewallMark @2 :UInt32 $A.doc("Mark (fwmark) of outgoing packets; 0 sets none.");
  peers @3 :List(WireguardPeer) $A.doc("Peers of the tunnel.");
}

struct WireguardPeer @0xe149eb855c85ff44 {
  publicKey @0 :Text $A.required $A.doc("Public key of the peer: 32 bytes in base64, as written by wg pubkey.");
  endpoint @1 :Text $A.doc("UDP endpoint of the peer as host:port.");
  persistentKeepaliveInterval @2 :Text $A.default("0s (off)")
      $A.doc("Interval of keepalive packets, such as 25s.");
  allowedIPs @3 :List(Text) $A.doc("Networks reached through the peer.");
}

# Names, numbers and defaults as the kernel's driver has them (Documentation/networking/bonding.rst).
struct Bond @0xf4675fea95c0bdb5 {
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
  lacpRate @20 :BondLacpRate $A.default("slow") $A.doc("Rate of LACP packets that is requested from the partner.");
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

enum BondMode @0xbaad1f2ccb32f900 $A.noun("bonding mode") {
  balanceRr @0 $A.name("balance-rr") $A.alias([""]);
  activeBackup @1 $A.name("active-backup");
  balanceXor @2 $A.name("balance-xor");
  broadcast @3;
  lacp @4 $A.name("802.3ad");
  balanceTlb @5 $A.name("balance-tlb");
  balanceAlb @6 $A.name("balance-alb");
}
enum BondArpValidate @0xe8360f94306d4c92 $A.noun("ARP validation mode") {
  none @0 $A.alias([""]);
  active @1;
  backup @2;
  all @3;
}
enum BondArpAllTargets @0xf6dfc24363d9eb19 $A.noun("ARP target mode") {
  any @0 $A.alias([""]);
  all @1;
}
enum BondPrimaryReselect @0x91268c4d4543e4cd $A.noun("primary reselection policy") {
  always @0 $A.alias([""]);
  better @1;
  failure @2;
}
enum BondFailOverMac @0x9c7e3623e49d5c43 $A.noun("failover MAC policy") {
  none @0 $A.alias([""]);
  active @1;
  follow @2;
}
enum BondXmitHashPolicy @0xae10f878c47338d1 $A.noun("hash policy") {
  layer2 @0 $A.alias([""]);
  layer34 @1 $A.name("layer3+4");
  layer23 @2 $A.name("layer2+3");
  encap23 @3 $A.name("encap2+3");
  encap34 @4 $A.name("encap3+4");
}
enum BondLacpRate @0xee5fc64cb190864f $A.noun("LACP rate") {
  slow @0 $A.alias([""]);
  fast @1;
}
enum BondAdSelect @0xf4ee74a84b4920ce $A.noun("aggregator selection policy") {
  stable @0 $A.alias([""]);
  bandwidth @1;
  count @2;
}

struct Route @0xdcd2db5f34290f0a {
  network @0 :Text $A.keepEmpty $A.default("the default route of the gateway's family")
      $A.doc("Destination with prefix length.");
  gateway @1 :Text $A.keepEmpty $A.doc("Address of the gateway.");
  metric @2 :UInt32 $A.default("10") $A.doc("Metric; the route with the lowest one is used.");
  source @3 :Text $A.since("v0.12") $A.doc("Source address of packets from this machine.");
  mtu @4 :UInt32 $A.since("v1.3") $A.default("that of the link") $A.doc("MTU of this route in bytes.");
  onlink @5 :Bool $A.default("false") $A.doc("Use the gateway on this link even if no address of the link covers it.");
  type @6 :RouteType $A.default("unicast") $A.doc("What happens to packets for this destination.");
  table @7 :UInt32 $A.hidden;          # 0: main
}

enum RouteType @0x955d420986acfc9f $A.noun("route type") {
  unicast @0 $A.alias([""]);
  blackhole @1;      # dropped
  unreachable @2;    # dropped; the sender gets "host unreachable"
  prohibit @3;       # dropped; the sender gets "prohibited"
}
