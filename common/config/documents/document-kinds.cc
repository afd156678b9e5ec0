// The kinds of documents that act, apart from their readers: programs that need the names alone are
// linked without the readers.

#include "common/config/documents/documents.h"

namespace talos::config {

namespace {

constexpr kj::StringPtr kActingKinds[] = {
    "BlackholeRouteConfig"_kj,
    "BondConfig"_kj,
    "BridgeConfig"_kj,
    "CRIBaseRuntimeSpecConfig"_kj,
    "CRICustomizationConfig"_kj,
    "DHCPv4Config"_kj,
    "DHCPv6Config"_kj,
    "DummyLinkConfig"_kj,
    "EnvironmentConfig"_kj,
    "EtcFileConfig"_kj,
    "EthernetConfig"_kj,
    "EventSinkConfig"_kj,
    "ExistingVolumeConfig"_kj,
    "ExtensionServiceConfig"_kj,
    "FilesystemTrimConfig"_kj,
    "HCloudVIPConfig"_kj,
    "HTTPProbeConfig"_kj,
    "HostnameConfig"_kj,
    "KernelModuleConfig"_kj,
    "ImageCacheConfig"_kj,
    "KmsgLogConfig"_kj,
    "KubeAPIServerCAConfig"_kj,
    "KubeAPIServerConfig"_kj,
    "KubeAdmissionControlConfig"_kj,
    "KubeAggregatorCAConfig"_kj,
    "KubeAuditPolicyConfig"_kj,
    "KubeAuthenticationConfig"_kj,
    "KubeAuthorizerConfig"_kj,
    "KubeClusterConfig"_kj,
    "KubeControllerManagerConfig"_kj,
    "KubeCoreDNSConfig"_kj,
    "KubeCredentialProviderConfig"_kj,
    "KubeEtcdEncryptionConfig"_kj,
    "KubeExternalManifestConfig"_kj,
    "KubeFlannelCNIConfig"_kj,
    "KubeInlineManifestConfig"_kj,
    "KubeNetworkConfig"_kj,
    "KubeNodeConfig"_kj,
    "KubePrismConfig"_kj,
    "KubeProxyConfig"_kj,
    "KubeSchedulerConfig"_kj,
    "KubeServiceAccountConfig"_kj,
    "KubeStaticPodConfig"_kj,
    "KubeTalosAPIAccessConfig"_kj,
    "KubeletConfig"_kj,
    "Layer2VIPConfig"_kj,
    "LinkAliasConfig"_kj,
    "LinkConfig"_kj,
    "NetworkDefaultActionConfig"_kj,
    "NetworkRuleConfig"_kj,
    "OOMConfig"_kj,
    "PCIDriverRebindConfig"_kj,
    "RawVolumeConfig"_kj,
    "RegistryAuthConfig"_kj,
    "RegistryMirrorConfig"_kj,
    "RegistryTLSConfig"_kj,
    "ResolverConfig"_kj,
    "RoutingRuleConfig"_kj,
    "StaticHostConfig"_kj,
    "SwapVolumeConfig"_kj,
    "SysctlConfig"_kj,
    "SysfsConfig"_kj,
    "TCPProbeConfig"_kj,
    "TimeSyncConfig"_kj,
    "TrustedRootsConfig"_kj,
    "UdevRulesConfig"_kj,
    "UnattendedInstallConfig"_kj,
    "UserVolumeConfig"_kj,
    "VLANConfig"_kj,
    "VRFConfig"_kj,
    "VethConfig"_kj,
    "VolumeConfig"_kj,
    "WatchdogTimerConfig"_kj,
    "WireguardConfig"_kj,
    "ZswapConfig"_kj,
};

}  // namespace

kj::ArrayPtr<const kj::StringPtr> documentKinds() {
  return kActingKinds;
}

}  // namespace talos::config
