@0xb3a97d1c5e08f264;
# Documents beside the main one of a machine config (config.capnp), by their key `kind`. common/config/documents/documents.h reads
# them into the same view as the main document. Keys, defaults and rules: docs/config-documents.md.
# Texts that are "" in the schema's default are absent keys.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::config::document");
using A = import "annotations.capnp";
using Config = import "config.capnp";
using Network = import "config-network.capnp";

struct HostnameConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  hostname @2 :Text $A.doc("Host name. The part after the first dot becomes the domain name.");
  auto @3 :Text $A.doc("stable: a node without a host name is named after its identity, as with "
                            "machine.features.stableHostname. off: it is named after its first address.");
}

struct ResolverConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  nameservers @2 :List(Nameserver);
  searchDomains @3 :SearchDomains;
  hostDNS @4 :HostDns;
  struct Nameserver {
    address @0 :Text $A.required;
    protocol @1 :Text;
    tlsServerName @2 :Text;
  }
  struct SearchDomains { domains @0 :List(Text); disableDefault @1 :Bool; }
  struct HostDns { enabled @0 :Bool; forwardKubeDNSToHost @1 :Bool; resolveMemberNames @2 :Bool; }
}

struct TimeSyncConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  enabled @2 :Bool = true;
  bootTimeout @3 :Text;
  ntp @4 :Ntp;
  ptp @5 :Ptp;
  struct Ntp { servers @0 :List(Text); useNTS @1 :Bool; }
  struct Ptp { devices @0 :List(Text); }
}

struct StaticHostConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  name @2 :Text $A.required;
  hostnames @3 :List(Text) $A.required;
}

# --- links: the keys from `up` to `routes` are the same in all ------------------------------------------------

struct LinkAddress {
  address @0 :Text $A.required;
  routePriority @1 :UInt32;
}
struct LinkRoute {
  destination @0 :Text;
  gateway @1 :Text;
  source @2 :Text;
  metric @3 :UInt32 = 1024;
  mtu @4 :UInt32;
  table @5 :Text;
}

struct LinkConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  name @2 :Text $A.required;
  up @3 :Bool = true;
  mtu @4 :UInt32;
  multicast @5 :Bool;
  addresses @6 :List(LinkAddress);
  routes @7 :List(LinkRoute);
}

struct LinkAliasConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  name @2 :Text $A.required;
  selector @3 :Selector $A.required;
  struct Selector { match @0 :Text $A.required; }
}

struct DummyLinkConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  name @2 :Text $A.required;
  up @3 :Bool = true;
  mtu @4 :UInt32;
  multicast @5 :Bool;
  addresses @6 :List(LinkAddress);
  routes @7 :List(LinkRoute);
  hardwareAddr @8 :Text;
}

struct VLANConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  name @2 :Text $A.required;
  up @3 :Bool = true;
  mtu @4 :UInt32;
  multicast @5 :Bool;
  addresses @6 :List(LinkAddress);
  routes @7 :List(LinkRoute);
  vlanID @8 :UInt16 $A.required;
  vlanMode @9 :Text;
  parent @10 :Text $A.required;
}

struct BridgeConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  name @2 :Text $A.required;
  up @3 :Bool = true;
  mtu @4 :UInt32;
  multicast @5 :Bool;
  addresses @6 :List(LinkAddress);
  routes @7 :List(LinkRoute);
  hardwareAddr @8 :Text;
  links @9 :List(Text);
  stp @10 :Stp;
  vlan @11 :VlanFiltering;
  struct Stp { enabled @0 :Bool; }
  struct VlanFiltering { filtering @0 :Bool; }
}

struct BondConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  name @2 :Text $A.required;
  up @3 :Bool = true;
  mtu @4 :UInt32;
  multicast @5 :Bool;
  addresses @6 :List(LinkAddress);
  routes @7 :List(LinkRoute);
  hardwareAddr @8 :Text;
  links @9 :List(Text) $A.required;
  bondMode @10 :Network.BondMode $A.required;
  miimon @11 :UInt32;
  updelay @12 :UInt32;
  downdelay @13 :UInt32;
  useCarrier @14 :Bool = true;
  xmitHashPolicy @15 :Network.BondXmitHashPolicy;
  arpInterval @16 :UInt32;
  arpIpTargets @17 :List(Text);
  nsIp6Targets @18 :List(Text);
  arpValidate @19 :Network.BondArpValidate;
  arpAllTargets @20 :Network.BondArpAllTargets;
  lacpRate @21 :Network.BondLacpRate;
  failOverMac @22 :Network.BondFailOverMac;
  adSelect @23 :Network.BondAdSelect;
  adActorSysPrio @24 :UInt16 = 65535;
  adUserPortKey @25 :UInt16;
  adLACPActive @26 :Text;
  primaryReselect @27 :Network.BondPrimaryReselect;
  resendIGMP @28 :UInt32 = 1;
  minLinks @29 :UInt32;
  lpInterval @30 :UInt32 = 1;
  packetsPerSlave @31 :UInt32 = 1;
  numPeerNotif @32 :UInt8 = 1;
  tlbLogicalLb @33 :UInt8 = 1;
  allSlavesActive @34 :UInt8;
  peerNotifDelay @35 :UInt32;
  missedMax @36 :UInt8;
}

struct VRFConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  name @2 :Text $A.required;
  up @3 :Bool = true;
  mtu @4 :UInt32;
  multicast @5 :Bool;
  addresses @6 :List(LinkAddress);
  routes @7 :List(LinkRoute);
  hardwareAddr @8 :Text;
  links @9 :List(Text);
  table @10 :Text $A.required;
}

struct VethConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  name @2 :Text $A.required;
  up @3 :Bool = true;
  mtu @4 :UInt32;
  multicast @5 :Bool;
  addresses @6 :List(LinkAddress);
  routes @7 :List(LinkRoute);
  peer @8 :Peer $A.required;
  struct Peer {
    name @0 :Text $A.required;
    up @1 :Bool = true;
    mtu @2 :UInt32;
    multicast @3 :Bool;
    addresses @4 :List(LinkAddress);
    routes @5 :List(LinkRoute);
  }
}

struct WireguardConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  name @2 :Text $A.required;
  up @3 :Bool = true;
  mtu @4 :UInt32;
  multicast @5 :Bool;
  addresses @6 :List(LinkAddress);
  routes @7 :List(LinkRoute);
  privateKey @8 :Text $A.secret $A.required;
  listenPort @9 :UInt16;
  firewallMark @10 :UInt32;
  peers @11 :List(Peer);
  struct Peer {
    publicKey @0 :Text $A.required;
    presharedKey @1 :Text $A.secret;
    endpoint @2 :Text;
    persistentKeepaliveInterval @3 :Text;
    allowedIPs @4 :List(Text);
  }
}

struct DHCPv4Config {
  apiVersion @0 :Text;
  kind @1 :Text;
  name @2 :Text $A.required;
  routeMetric @3 :UInt32 = 1024;
  ignoreHostname @4 :Bool;
  ignoreRoutes @5 :Bool;
  clientIdentifier @6 :Text;
  duidRaw @7 :Text;
}
struct DHCPv6Config {
  apiVersion @0 :Text;
  kind @1 :Text;
  name @2 :Text $A.required;
  routeMetric @3 :UInt32 = 1024;
  ignoreHostname @4 :Bool;
  clientIdentifier @5 :Text;
  duidRaw @6 :Text;
}

struct EthernetConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  name @2 :Text $A.required;
  rings @3 :Rings;
  channels @4 :Channels;
  features @5 :List(Network.EthernetFeature) $A.map;
  wakeOnLan @6 :List(Text);
  struct Rings {
    rx @0 :UInt32;
    tx @1 :UInt32;
    rxMini @2 :UInt32 $A.name("rx-mini");
    rxJumbo @3 :UInt32 $A.name("rx-jumbo");
    rxBufLen @4 :UInt32 $A.name("rx-buf-len");
    cqeSize @5 :UInt32 $A.name("cqe-size");
    txPushBufLen @6 :UInt32 $A.name("tx-push-buf-len");
    txPush @7 :Bool $A.name("tx-push");
    rxPush @8 :Bool $A.name("rx-push");
    tcpDataSplit @9 :Bool $A.name("tcp-data-split");
  }
  struct Channels { rx @0 :UInt32; tx @1 :UInt32; other @2 :UInt32; combined @3 :UInt32; }
}

# --- rules and routes of no link ------------------------------------------------------------------------------

struct RoutingRuleConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  name @2 :Text $A.required;            # the priority
  src @3 :Text;
  dst @4 :Text;
  table @5 :Text;
  action @6 :Network.RuleAction;
  iifName @7 :Text;
  oifName @8 :Text;
  fwMark @9 :UInt32;
  fwMask @10 :UInt32;
}

struct BlackholeRouteConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  name @2 :Text $A.required;            # the destination
  metric @3 :UInt32 = 1024;
}

# --- shared addresses, the firewall ---------------------------------------------------------------------------

struct HCloudVIPConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  name @2 :Text $A.required;
  link @3 :Text $A.required;
  apiToken @4 :Text $A.required $A.secret;
}
struct Layer2VIPConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  name @2 :Text $A.required;
  link @3 :Text $A.required;
}

struct NetworkDefaultActionConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  ingress @2 :Text;
}
struct NetworkRuleConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  name @2 :Text $A.required;
  portSelector @3 :PortSelector $A.required;
  ingress @4 :List(Source);
  struct PortSelector { ports @0 :List(Text) $A.required; protocol @1 :Text $A.required; }
  struct Source { subnet @0 :Text $A.required; except @1 :Text; }
}

# --- registries, logs, the rest -------------------------------------------------------------------------------

struct RegistryMirrorConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  name @2 :Text $A.required;
  endpoints @3 :List(Endpoint);
  skipFallback @4 :Bool;
  struct Endpoint { url @0 :Text $A.required; overridePath @1 :Bool; }
}
struct RegistryAuthConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  name @2 :Text $A.required;
  username @3 :Text;
  password @4 :Text $A.secret;
  auth @5 :Text $A.secret;
  identityToken @6 :Text $A.secret;
}
struct RegistryTLSConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  name @2 :Text $A.required;
  ca @3 :Text;
  clientIdentity @4 :ClientIdentity;
  insecureSkipVerify @5 :Bool;
  struct ClientIdentity { cert @0 :Text; key @1 :Text $A.secret; }
}

struct KmsgLogConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  name @2 :Text $A.required;
  url @3 :Text $A.required;
}

struct ExtensionServiceConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  name @2 :Text $A.required;
  configFiles @3 :List(ConfigFile);
  environment @4 :List(Text) $A.secret;   # K=V
  struct ConfigFile {
    content @0 :Text $A.required $A.secret;
    mountPath @1 :Text $A.required;
  }
}

struct EventSinkConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  endpoint @2 :Text $A.required;
}

struct EnvironmentConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  variables @2 :List(Variable) $A.map $A.secret;
  struct Variable { key @0 :Text; value @1 :Text; }
}

struct TCPProbeConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  name @2 :Text $A.required;
  interval @3 :Text;
  failureThreshold @4 :UInt32;
  timeout @5 :Text;
  endpoint @6 :Text $A.required;
}

struct HTTPProbeConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  name @2 :Text $A.required;
  interval @3 :Text;
  failureThreshold @4 :UInt32;
  timeout @5 :Text;
  url @6 :Text $A.required;
}

struct WatchdogTimerConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  device @2 :Text $A.required;
  timeout @3 :Text;
}

# --- the kernel, and the trusted CAs --------------------------------------------------------------------------

struct Setting { key @0 :Text; value @1 :Text; }

struct SysctlConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  params @2 :List(Setting) $A.map;
}
struct SysfsConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  params @2 :List(Setting) $A.map;
}

struct KernelModuleConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  name @2 :Text $A.required;
  parameters @3 :List(Text);
}

struct UdevRulesConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  rules @2 :List(Text);
}

struct PCIDriverRebindConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  name @2 :Text $A.required;
  targetDriver @3 :Text $A.required;
}

struct OOMConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  triggerExpression @2 :Text;
  cgroupRankingExpression @3 :Text;
  strictCgroupClassOrdering @4 :Bool = true;
  sampleInterval @5 :Text;
}

struct EtcFileConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  name @2 :Text $A.required;
  mode @3 :UInt32 = 420 $A.octal;
  contents @4 :Text $A.secret;
}

struct TrustedRootsConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  name @2 :Text $A.required;
  certificates @3 :Text $A.required;
}

# --- volumes --------------------------------------------------------------------------------------------------

struct VolumeProvisioning {
  diskSelector @0 :VolumeSelector;
  grow @1 :Bool;
  minSize @2 :Text;
  maxSize @3 :Text;
}
struct VolumeSelector { match @0 :Text $A.required; }
struct VolumeFilesystem { type @0 :Text; projectQuotaSupport @1 :Bool; xfs @2 :List(RawSetting) $A.map; }
struct VolumeMount { secure @0 :Bool = true; disableAccessTime @1 :Bool; readOnly @2 :Bool; }
struct FilesystemTrim { enabled @0 :Bool = true; interval @1 :Text; }
struct VolumeEncryption {
  provider @0 :Text $A.required;
  keys @1 :List(Key) $A.required;
  cipher @2 :Text;
  keySize @3 :UInt32;
  blockSize @4 :UInt32;
  options @5 :List(Text);
  allowDiscards @6 :Bool;
  struct Key {
    slot @0 :UInt32;
    static @1 :StaticKey;
    nodeID @2 :List(RawSetting) $A.map;
    kms @3 :KmsKey;
    tpm @4 :TpmKey;
    lockToState @5 :Bool;
  }
  struct KmsKey { endpoint @0 :Text $A.required; }
  struct TpmKey { checkSecurebootStatusOnEnroll @0 :Bool; options @1 :TpmOptions; }
  struct TpmOptions { pcrs @0 :List(UInt32); }
  struct StaticKey { passphrase @0 :Text $A.secret; }
}

struct VolumeConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  name @2 :Text $A.required;
  provisioning @3 :VolumeProvisioning;
  encryption @4 :VolumeEncryption;
  filesystem @5 :VolumeFilesystem;
  mount @6 :VolumeMount;
  trim @7 :FilesystemTrim;
  scrub @8 :List(RawSetting) $A.map;
}
struct UserVolumeConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  name @2 :Text $A.required;
  volumeType @3 :Text;
  provisioning @4 :VolumeProvisioning;
  filesystem @5 :VolumeFilesystem;
  encryption @6 :VolumeEncryption;
  mount @7 :VolumeMount;
  trim @8 :FilesystemTrim;
  scrub @9 :List(RawSetting) $A.map;
}
struct RawVolumeConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  name @2 :Text $A.required;
  provisioning @3 :VolumeProvisioning;
  encryption @4 :VolumeEncryption;
}
struct SwapVolumeConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  name @2 :Text $A.required;
  provisioning @3 :VolumeProvisioning;
  encryption @4 :VolumeEncryption;
}
struct ExistingVolumeConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  name @2 :Text $A.required;
  discovery @3 :Discovery $A.required;
  mount @4 :VolumeMount;
  encryption @5 :VolumeEncryption;
  trim @6 :FilesystemTrim;
  scrub @7 :List(RawSetting) $A.map;
  struct Discovery { volumeSelector @0 :VolumeSelector $A.required; }
}
struct UnattendedInstallConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  installer @2 :Installer;
  provisioning @3 :Provisioning $A.required;
  reboot @4 :Bool;
  struct Installer { image @0 :Text; }
  struct Provisioning { diskSelector @0 :VolumeSelector $A.required; wipe @1 :Bool = true; }
}
struct FilesystemTrimConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  interval @2 :Text;
}
struct ZswapConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  maxPoolPercent @2 :UInt32 = 20;
  shrinkerEnabled @3 :Bool;
}

# --- containers and pods --------------------------------------------------------------------------------------

struct RawSetting { key @0 :Text; value @1 :Text $A.raw; }

struct CRIBaseRuntimeSpecConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  overrides @2 :List(RawSetting) $A.map $A.required;
}
struct CRICustomizationConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  name @2 :Text $A.required;
  content @3 :Text $A.secret $A.required;
}
struct ImageCacheConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  local @2 :Local;
  struct Local { enabled @0 :Bool; }
}
