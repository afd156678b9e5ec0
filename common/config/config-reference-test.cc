#include <gtest/gtest.h>
#include <kj/encoding.h>

#include <fstream>
#include <iterator>
#include <string>

#include "common/config/config.h"
#include "common/config/test-config-reference.h"
#include "common/tls/pki.h"
#include "common/tls/public-key.h"

namespace talos::config {
namespace {

// Every key, with another value than its default; @PAIR, @CRT, @KEY and @RECIPIENT stand for PEM in
// base64.
constexpr const char* kExample = R"(version: v1alpha1
debug: true
persist: true
machine:
  type: controlplane
  token: abcdef.0123456789abcdef
  ca: @PAIR
  certSANs: [10.5.0.2, node.example.org]
  kubelet:
    image: ghcr.io/siderolabs/kubelet:v1.34.4
    extraArgs: {feature-gates: ServerSideApply=true}
    extraMounts:
      - destination: /var/local
        type: bind
        source: /var/local
        options: [rbind, rw]
        uidMappings: [{containerID: 1, hostID: 1000, size: 1}]
        gidMappings: [{containerID: 1, hostID: 1000, size: 1}]
    registerWithFQDN: true
    defaultRuntimeSeccompProfileEnabled: true
    disableManifestsDirectory: true
    skipNodeRegistration: true
    credentialProviderConfig:
      apiVersion: kubelet.config.k8s.io/v1
      kind: CredentialProviderConfig
      providers:
        - name: ecr-credential-provider
          matchImages: ["*.dkr.ecr.*.amazonaws.com"]
          defaultCacheDuration: 12h
          apiVersion: credentialprovider.kubelet.k8s.io/v1
          args: [get-credentials]
          env: [{name: AWS_PROFILE, value: images}]
          tokenAttributes: {requireServiceAccount: true}
    clusterDNS: [169.254.2.53]
    nodeIP: {validSubnets: [10.5.0.0/24, "!10.5.0.9/32"]}
    extraConfig:
      shutdownGracePeriodByPodPriority:
        - {priority: 1000, shutdownGracePeriodSeconds: 60}
        - {priority: 2000000000, shutdownGracePeriodSeconds: 20}
      evictionHard: {memory.available: 500Mi}
      maxPods: 200
  network:
    hostname: node.example.org
    nameservers: [10.5.0.1, 1.1.1.1]
    interfaces:
      - interface: eth0
        dhcp: true
        dhcpOptions: {routeMetric: 2048, ipv4: false, ipv6: true, duidv6: "00:03:00:01:52:54:00:12:34:56"}
        vip: {ip: 10.5.0.9, leaseTTL: 5s, hcloud: {apiToken: LRK9DAWQ1ZAEFSrCNEEz}}
      - interface: eth1
        cidr: 192.168.1.2/24
        addresses: [192.168.1.3/24]
        mtu: 9000
        routes:
          - {network: 10.0.0.0/8, gateway: 192.168.1.1, metric: 100, source: 192.168.1.3, mtu: 1400, onlink: true}
          - {network: 192.0.2.0/24, type: blackhole}
        vlans:
          - vlanId: 100
            cidr: 192.168.2.10/28
            addresses: ["2001:db8::10/64"]
            mtu: 8000
            routes:
              - {network: 0.0.0.0/0, gateway: 192.168.2.1, metric: 200, source: 192.168.2.10, mtu: 1300, onlink: true}
              - {network: 10.66.0.0/16, type: prohibit}
          - vlanId: 101
            dhcp: true
            dhcpOptions: {routeMetric: 2048, ipv4: false, ipv6: true, duidv6: "00:03:00:01:52:54:00:12:34:56"}
            vip: {ip: 10.6.0.9, leaseTTL: 5s, hcloud: {apiToken: LRK9DAWQ1ZAEFSrCNEEz}}
      - interface: eth2
        ignore: true
      - deviceSelector:
          busPath: "0000:00:*"
          hardwareAddr: 52:54:00:*
          permanentAddr: 52:54:00:00:00:01
          pciID: 1af4:*
          driver: virtio_net
          physical: true
        dhcp: true
      - interface: br0
        bridge:
          interfaces: [eth11, eth12]
          stp: {enabled: true}
          vlan: {vlanFiltering: true}
      - interface: eth15
        bridgePort: {master: br0}
      - interface: dummy0
        cidr: 10.9.0.1/32
        dummy: true
      - interface: bond0
        dhcp: true
        bond:
          mode: 802.3ad
          interfaces: [eth3, eth4]
          miimon: 100
          updelay: 200
          downdelay: 200
          useCarrier: false
          xmitHashPolicy: layer3+4
          allSlavesActive: 1
          minLinks: 1
          lacpRate: fast
          adSelect: bandwidth
          adActorSysPrio: 100
          adUserPortKey: 7
          adActorSystem: 02:00:00:00:00:01
      - interface: bond1
        bond:
          mode: active-backup
          interfaces: [eth5, eth6]
          arpInterval: 500
          arpIPTarget: [10.5.0.1]
          arpValidate: all
          arpAllTargets: all
          primary: eth5
          primaryReselect: better
          failOverMac: active
          resendIgmp: 2
          numPeerNotif: 2
      - interface: bond2
        bond: {mode: balance-rr, interfaces: [eth7, eth8], packetsPerSlave: 16}
      - interface: bond3
        bond: {mode: balance-tlb, interfaces: [eth9, eth10], lpInterval: 5, tlbDynamicLb: 0}
      - interface: bond4
        bond: {mode: active-backup, miimon: 100, deviceSelectors: [{busPath: "0000:01:*", hardwareAddr: "52:54:00:*", permanentAddr: "52:54:00:*", pciID: "8086:*", driver: ixgbe, physical: true}]}
      - interface: bond5
        bond: {mode: active-backup, interfaces: [eth13, eth14], miimon: 100, peerNotifyDelay: 200}
      - interface: wg0
        cidr: 192.168.88.1/24
        wireguard:
          privateKey: AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=
          listenPort: 51820
          firewallMark: 51820
          peers:
            - publicKey: AQECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=
              endpoint: 209.202.254.14:8172
              persistentKeepaliveInterval: 25s
              allowedIPs: [192.168.88.0/24]
    extraHostEntries: [{ip: 10.5.0.7, aliases: [registry.example.org]}]
    searchDomains: [example.org]
    disableSearchDomain: true
  caHash: @HASH
  acceptedCAs: [{crt: @CRT}]
  install:
    disk: /dev/sda
    image: ghcr.io/talos-systems/installer:v0.9.3
    bootloader: false
    wipe: true
    extraKernelArgs: [console=ttyS1]
    diskSelector: {size: ">= 100GB", name: sd*, model: WDC*, serial: "0001*", modalias: "scsi:*", uuid: 4c4c*, wwid: naa*, type: ssd, busPath: /pci0000:00/0000:00:17.0/*}
    imageKey: |
      -----BEGIN PUBLIC KEY-----
      MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=
      -----END PUBLIC KEY-----
  registries:
    mirrors: {docker.io: {endpoints: ["https://registry.example.org:5000"], overridePath: true, skipFallback: true}}
    config:
      registry.example.org:5000:
        tls: {clientIdentity: @PAIR, ca: @CRT, insecureSkipVerify: true}
        auth: {username: user, password: pass, auth: dXNlcjpwYXNz, identityToken: token}
  disks:
    - device: /dev/sdb
      partitions: [{size: 10GB, mountpoint: /var/lib/first}, {mountpoint: /var/lib/second}]
  files:
    - {content: "[metrics]\n", permissions: 0o600, path: /var/cri/conf.d/metrics.toml, op: overwrite}
  env: {https_proxy: "http://proxy.example.org:3128"}
  time: {disabled: true, servers: [time.example.org], bootTimeout: 2m}
  sysctls: {net.ipv4.ip_forward: 1}
  kernel: {modules: [{name: ifb, parameters: [numifbs=1]}]}
  sysfs: {devices.system.cpu.cpu0.cpufreq.scaling_governor: performance}
  udev: {rules: []}
  watchdog: {device: /dev/watchdog0, timeout: 30s}
  metrics: {port: 9100, token: 4sJwq8vGdd0uTq1p, pods: false}
  logging:
    destinations:
      - endpoint: tls://logs.example.org:6514
        format: rfc5424
        extraTags: {rack: r17}
        streams: [services, kernel, events, audit]
        ca: @CRT
        bufferSize: 64MiB
      - endpoint: https://otel.example.org:4318
        format: otlp
        headers: {Authorization: Bearer 0123456789}
        compression: gzip
  pods:
    - apiVersion: v1
      kind: Pod
      metadata: {name: proxy, namespace: kube-system}
      spec: {hostNetwork: true, containers: [{name: proxy, image: "registry.example.org/proxy:1"}]}
  seccompProfiles:
    - name: no-mkdir.json
      value:
        defaultAction: SCMP_ACT_ALLOW
        syscalls: [{names: [mkdir, mkdirat], action: SCMP_ACT_ERRNO}]
  baseRuntimeSpecOverrides:
    process:
      rlimits: [{type: RLIMIT_NOFILE, hard: 65536, soft: 4096}]
  nodeLabels: {example.org/rack: r17}
  nodeTaints: {example.org/gpu: "true:NoSchedule"}
  nodeAnnotations: {example.org/contact: "Jo Smith, room 17"}
  features:
    kubernetesTalosAPIAccess: {enabled: true, allowedRoles: [os:reader], allowedKubernetesNamespaces: [default]}
    podMetadataAccess: true
    kubePrism: {enabled: true, port: 7446}
    imageCache: {localEnabled: true}
    hostDNS: {enabled: true, forwardKubeDNSToHost: true, resolveMemberNames: true}
    stableHostname: true
  systemDiskEncryption:
    state:
      provider: luks2
      cipher: aes-xts-plain64
      keys: [{nodeID: {}, slot: 1}, {static: {passphrase: long and secret}, slot: 2}, {recovery: {}, slot: 3}, {tpm: {checkSecurebootStatusOnEnroll: true, options: {pcrs: [4, 7]}}, slot: 4}, {kms: {endpoint: "https://kms.example.org:4050"}, slot: 5}]
      keySize: 256
      blockSize: 4096
      options: [no_read_workqueue, same_cpu_crypt]
    ephemeral:
      provider: luks2
      cipher: aes-xts-plain64
      keys: [{static: {passphrase: long and secret}, slot: 1}, {nodeID: {}, slot: 2}, {recovery: {}, slot: 3}, {tpm: {checkSecurebootStatusOnEnroll: true, options: {pcrs: [4, 7]}}, slot: 4}, {kms: {endpoint: "https://kms.example.org:4050"}, slot: 5}]
      keySize: 256
      blockSize: 4096
      options: [no_write_workqueue]
  controlPlane: {controllerManager: {disabled: true}, scheduler: {disabled: true}}
cluster:
  controlPlane: {endpoint: "https://api.example.org:6443", localAPIServerPort: 7443}
  clusterName: example
  network:
    dnsDomain: cluster.local
    podSubnets: [10.244.0.0/16]
    serviceSubnets: [10.96.0.0/12]
    cni: {name: custom, urls: ["https://example.org/cni.yaml"], flannel: {extraArgs: [--iface=eth1]}}
  token: abcdef.0123456789abcdef
  aescbcEncryptionSecret: AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=
  ca: @PAIR
  acceptedCAs: [{crt: @CRT}]
  aggregatorCA: @PAIR
  serviceAccount: {key: @KEY}
  apiServer:
    image: registry.k8s.io/kube-apiserver:v1.34.4
    certSANs: [api.example.org]
    extraArgs: {audit-log-maxage: 30}
    extraVolumes: [{hostPath: /var/audit, mountPath: /audit, readonly: true}]
    disablePodSecurityPolicy: true
    auditPolicy:
      apiVersion: audit.k8s.io/v1
      kind: Policy
      metadata: {name: example}
      omitStages: [RequestReceived]
      omitManagedFields: true
      rules:
        - level: None
          users: [system:kube-proxy]
          userGroups: [system:nodes]
          verbs: [watch]
          resources: [{group: apps, resources: [deployments], resourceNames: [web]}]
          namespaces: [kube-system]
          omitStages: [ResponseStarted]
          omitManagedFields: false
        - {level: None, nonResourceURLs: [/healthz*]}
        - {level: Metadata}
    admissionControl:
      - name: PodSecurity
        configuration:
          apiVersion: pod-security.admission.config.k8s.io/v1
          kind: PodSecurityConfiguration
          defaults: {enforce: baseline, enforce-version: latest}
    authorizationConfig:
      - {type: RBAC, name: rbac}
      - type: Webhook
        name: office
        webhook:
          timeout: 3s
          failurePolicy: NoOpinion
          connectionInfo: {type: KubeConfigFile, kubeConfigFile: /audit/office.yaml}
    env: {HTTPS_PROXY: "http://proxy.example.org:3128"}
    resources: {requests: {cpu: 500m}, limits: {memory: 2Gi}}
  controllerManager:
    image: k8s.gcr.io/kube-controller-manager:v1.20.6
    extraArgs: {node-cidr-mask-size: 25}
    extraVolumes: [{hostPath: /var/controllers, mountPath: /controllers, readonly: true}]
    env: {GOGC: "50"}
    resources: {requests: {memory: 128Mi}, limits: {memory: 1Gi}}
  proxy:
    image: k8s.gcr.io/kube-proxy:v1.20.6
    disabled: true
    mode: ipvs
    extraArgs: {metrics-bind-address: "0.0.0.0:10249"}
  scheduler:
    image: k8s.gcr.io/kube-scheduler:v1.20.6
    extraArgs: {v: 4}
    extraVolumes: [{hostPath: /var/scheduler, mountPath: /scheduler, readonly: true}]
    env: {GOGC: "50"}
    resources: {requests: {cpu: 20m}, limits: {memory: 512Mi}}
    config:
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: KubeSchedulerConfiguration
      clientConnection: {qps: 100}
      profiles: [{schedulerName: default-scheduler}, {schedulerName: dense}]
  etcd:
    image: gcr.io/etcd-development/etcd:v3.4.15
    advertisedSubnets: [10.5.0.0/24]
    listenSubnets: [10.5.0.0/24]
    ca: @PAIR
    acceptedCAs: [{crt: @CRT}]
    extraArgs: {election-timeout: 5000}
    backup:
      endpoint: https://s3.example.org
      bucket: backups
      prefix: production/
      region: eu-central-1
      accessKey: AKIAIOSFODNN7EXAMPLE
      secretKey: wJalrXUtnFEMI/K7MDENG
      ca: @CRT
      every: 6h
      keep: 28
      encryptTo: @RECIPIENT
  podCheckpointer: {image: "unused:v1"}
  coreDNS: {image: "docker.io/coredns/coredns:1.8.0", disabled: true}
  externalCloudProvider: {enabled: true, manifests: ["https://example.org/cloud.yaml"]}
  extraManifests: ["https://example.org/more.yaml"]
  extraManifestHeaders: {X-Reason: bootstrap}
  inlineManifests: [{name: namespace, contents: "kind: Namespace\n"}]
  adminKubeconfig: {certLifetime: 24h}
  allowSchedulingOnMasters: true
  trustd: {endpoints: [10.5.0.3], certLifetime: 12h, anyAddress: true}
  secretboxEncryptionSecret: AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=
  acceptedServiceAccountKeys: [{key: @PUBLIC}]
  acceptedAggregatorCAs: [{crt: @CRT}]
  acceptedEncryptionSecrets: [AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=]
  kubernetesVersion: v1.34.4
  allowSchedulingOnControlPlanes: true
)";

// The one in the document; that of the example's authority is another one each time.
constexpr const char* kHash =
    "sha256:0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0";

std::string hashIn(const std::string& text) {
  const std::string key = "caHash: ";
  auto at = text.find(key + "sha256:");
  return at == std::string::npos ? std::string() : text.substr(at + key.size(), strlen(kHash));
}

std::string example() {
  auto authority = pki::makeAuthority({.organization = "example"});
  auto crt = std::string(kj::encodeBase64(authority.certificate.asBytes()).cStr());
  auto key = std::string(kj::encodeBase64(authority.key.bytes()).cStr());
  auto recipient =
      pki::makeAuthority({.commonName = "backup", .keyType = pki::KeyType::kEcdsaP256});
  std::string text = kExample;
  auto replace = [&](const std::string& from, const std::string& to) {
    for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
      text.replace(at, from.size(), to);
  };
  replace("@PAIR", "{crt: " + crt + ", key: " + key + "}");
  replace("@CRT", crt);
  replace("@KEY", key);
  auto account = pki::makeKey(pki::KeyType::kEcdsaP256);
  replace("@PUBLIC", kj::encodeBase64(pki::publicKeyOf(account).asBytes()).cStr());
  replace("@RECIPIENT", kj::encodeBase64(recipient.certificate.asBytes()).cStr());
  replace("@HASH", pki::authorityHash(authority.certificate).cStr());
  return text;
}

// Expects this text in a page below docs/. UPDATE_DOCS=1 writes it.
void expectPage(const std::string& page, const std::string& markdown) {
  auto path = TALOS_SOURCE_DIR "/docs/" + page;
  if (getenv("UPDATE_DOCS") != nullptr) std::ofstream(path) << markdown;
  std::ifstream file(path);
  std::string written((std::istreambuf_iterator<char>(file)), {});
  EXPECT_TRUE(markdown == written) << path << " is not up to date";
}

// Catches: a key that is accepted without an explanation or an example; a reference that differs
// from the schema. UPDATE_DOCS=1 writes the reference again.
TEST(ConfigReference, ExplainsEveryKey) {
  auto text = example();
  auto config = parse(kj::arrayPtr(text.data(), text.size()));
  // Some keys cause a warning, such as a passphrase for STATE.
  EXPECT_TRUE(config.good()) << render(config.problems()).cStr();
  auto made = reference(config.get());
  for (auto& path : made.missing) {
    // They contradict the token and the list of priorities, of which an example is.
    if (path == "machine.metrics.plain" ||
        path.startsWith("machine.kubelet.extraConfig.shutdownGracePeriod")) {
      continue;
    }
    ADD_FAILURE() << path.cStr() << " has no example";
  }
  std::string markdown(made.markdown.cStr());
  auto hash = hashIn(markdown);
  EXPECT_EQ(strlen(kHash), hash.size());
  for (size_t at = 0; (at = markdown.find(hash, at)) != std::string::npos; ++at)
    markdown.replace(at, hash.size(), kHash);
  EXPECT_EQ(std::string::npos, markdown.find("): \n")) << "a key has no explanation";
  for (auto secret : {"long and secret", "0123456789abcdef", "AAECAwQF", "PRIVATE"})
    EXPECT_EQ(std::string::npos, markdown.find(secret));

  expectPage("machine-config.md", markdown);
}

// Catches: a list of the keys and documents of later versions that is not the one that is used.
TEST(ConfigReference, ListsWhatLaterVersionsHave) {
  expectPage("evidence/later-versions.md", laterVersions().cStr());
}

}  // namespace
}  // namespace talos::config
