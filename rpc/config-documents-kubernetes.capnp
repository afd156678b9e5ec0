@0xe2b8f06c7d14a935;
# Documents of Kubernetes beside the main one of a machine config, as those of config-documents.capnp.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::config::document");
using A = import "annotations.capnp";
using Config = import "config.capnp";
using AuditPolicy = import "config-audit.capnp".AuditPolicy;
using RawSetting = import "config-documents.capnp".RawSetting;

# --- the control plane of Kubernetes --------------------------------------------------------------------------

struct KubeAuditPolicyConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  configuration @2 :AuditPolicy $A.required;
}
struct KubeAdmissionControlConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  name @2 :Text $A.required;
  configuration @3 :Config.FreeObject;
}
struct KubeAuthorizerConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  name @2 :Text $A.required;
  type @3 :Config.AuthorizerType $A.required;
  webhook @4 :List(Config.RawPair) $A.map;
}
struct KubeSchedulerConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  enabled @2 :Bool = true;
  image @3 :Text $A.required;
  extraArgs @4 :List(Config.StringPair) $A.map;
  env @5 :List(Config.StringPair) $A.map;
  resources @6 :Config.Resources;
  config @7 :Config.SchedulerConfiguration;
}

# --- the cluster of Kubernetes --------------------------------------------------------------------------------

struct KubeClusterConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  clusterName @2 :Text $A.required;
  endpoint @3 :Text $A.required;
}
struct KubeNetworkConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  dnsDomain @2 :Text = "cluster.local";
  podSubnets @3 :List(Text) $A.required;
  serviceSubnets @4 :List(Text) $A.required;
  nodeCIDRMaskSizeIPv4 @5 :UInt16 = 24;
  nodeCIDRMaskSizeIPv6 @6 :UInt16 = 64;
}
struct KubeFlannelCNIConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  backendType @2 :Text $A.required;
  backendPort @3 :UInt16 = 4789;
  backendMTU @4 :UInt32;
  backendExtraConfig @5 :List(RawSetting) $A.map;
  resources @6 :Config.Resources;
  extraArgs @7 :List(Text);
  kubeNetworkPoliciesEnabled @8 :Bool;
}

# PEM, not base64 of it as in the main document.
struct KubeIssuingCA { cert @0 :Text; key @1 :Text $A.secret; }
struct KubeAPIServerCAConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  issuingCA @2 :KubeIssuingCA;
  acceptedCAs @3 :List(Text);
}
struct KubeAggregatorCAConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  issuingCA @2 :KubeIssuingCA;
  acceptedCAs @3 :List(Text);
}
struct KubeServiceAccountConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  issuer @2 :Issuer $A.required;
  accepted @3 :Accepted;
  struct Issuer { privateKey @0 :Text $A.secret $A.required; issuerURL @1 :Text $A.required; }
  struct Accepted { publicKeys @0 :List(Text); issuers @1 :List(Text); audiences @2 :List(Text); }
}
struct KubeEtcdEncryptionConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  config @2 :Encryption $A.required;
  struct Encryption { resources @0 :List(Resource) $A.required; }
  struct Resource { resources @0 :List(Text) $A.required; providers @1 :List(Provider) $A.required; }
  struct Provider {
    secretbox @0 :Keys;
    aescbc @1 :Keys;
    identity @2 :List(RawSetting) $A.map;
    aesgcm @3 :Text $A.raw $A.secret;
    kms @4 :Text $A.raw $A.secret;
  }
  struct Keys { keys @0 :List(Key) $A.required; }
  struct Key { name @0 :Text $A.required; secret @1 :Text $A.secret $A.required; }
}

struct KubeInlineManifestConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  name @2 :Text $A.required;
  manifest @3 :Text $A.secret $A.required;
}
struct KubeExternalManifestConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  name @2 :Text $A.required;
  url @3 :Text $A.required;
  headers @4 :List(Config.StringPair) $A.map $A.secret;
}
struct KubeTalosAPIAccessConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  allowedRoles @2 :List(Config.ApiRole);
  allowedKubernetesNamespaces @3 :List(Text);
}

# --- the components of Kubernetes, and the node in it ---------------------------------------------------------

struct KubeAPIServerConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  image @2 :Text $A.required;
  extraArgs @3 :List(Config.StringPair) $A.map;
  env @4 :List(Config.StringPair) $A.map;
  resources @5 :Config.Resources;
  apiPort @6 :UInt16 = 6443;
  certExtraSANs @7 :List(Text);
  startupProbes @8 :Bool;
}
struct KubeAuthenticationConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  configuration @2 :Config.FreeObject;
}
struct KubeControllerManagerConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  enabled @2 :Bool = true;
  image @3 :Text $A.required;
  extraArgs @4 :List(Config.StringPair) $A.map;
  env @5 :List(Config.StringPair) $A.map;
  resources @6 :Config.Resources;
}
struct KubeProxyConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  enabled @2 :Bool = true;
  image @3 :Text $A.required;
  mode @4 :Config.ProxyMode = nftables;
  config @5 :List(RawSetting) $A.map;
  extraArgs @6 :List(Config.StringPair) $A.map;
  resources @7 :Config.Resources;
}
struct KubeCoreDNSConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  enabled @2 :Bool = true;
  image @3 :Text;
}
struct KubeletConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  image @2 :Text $A.required;
  config @3 :Config.KubeletConfiguration;
  extraArgs @4 :List(Config.StringPair) $A.map;
  clusterDNS @5 :List(Text);
  defaultRuntimeSeccompProfileEnabled @6 :Bool;
}
struct KubeCredentialProviderConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  configuration @2 :Config.CredentialProviderConfig $A.required;
}
struct KubeNodeConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  skipNodeRegistration @2 :Bool;
  registerWithFQDN @3 :Bool;
  nodeIP @4 :Config.NodeIp;
  labels @5 :List(Config.StringPair) $A.map;
  annotations @6 :List(Config.StringPair) $A.map;
  taints @7 :List(Config.StringPair) $A.map;
}

# --- pods, and the way to the API server -----------------------------------------------------------------------

struct KubeStaticPodConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  name @2 :Text $A.required;
  pod @3 :Text $A.raw $A.required;
}
struct KubePrismConfig {
  apiVersion @0 :Text;
  kind @1 :Text;
  port @2 :UInt16 $A.required;
  tlsServerName @3 :Text;
}
