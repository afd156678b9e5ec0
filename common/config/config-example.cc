#include "common/config/config-example.h"

namespace talos::config {
namespace {

#define TALOS_EXAMPLE_MACHINE \
  R"(  token: abcdef.0123456789abcdef
  certSANs: [node.example.org, 10.5.0.100]
  kubelet:
    image: ghcr.io/talos-systems/kubelet:v1.20.6
    extraArgs: {feature-gates: ServerSideApply=true}
    extraMounts:
      - {destination: /var/local, type: bind, source: /var/local, options: [rbind, rshared, rw]}
    registerWithFQDN: true
  network:
    hostname: node-1.example.org
    interfaces:
      - interface: eth0
        cidr: 10.5.0.11/24
        mtu: 1500
        routes: [{network: 0.0.0.0/0, gateway: 10.5.0.1, metric: 1024}]
      - interface: eth1
        mtu: 1500
        dhcp: true
        dhcpOptions: {routeMetric: 2048, ipv4: true, ipv6: true}
    nameservers: [10.5.0.1, 1.1.1.1]
    extraHostEntries: [{ip: 10.5.0.20, aliases: [registry, registry.example.org]}]
  install:
    disk: /dev/sda
    extraKernelArgs: [console=ttyS1, panic=10]
  registries:
    mirrors: {docker.io: {endpoints: ["https://registry.example.org"]}}
    config: {registry.example.org: {auth: {username: robot, password: secret}}}
  disks:
    - {device: /dev/sdb, partitions: [{mountpoint: /var/mnt/extra, size: 100GB}]}
  files:
    - {content: "net.core.somaxconn = 1024\n", permissions: 0o644, path: /var/etc/example.conf, op: create}
  env: {http_proxy: "http://proxy.example.org:3128", no_proxy: "10.0.0.0/8"}
  time: {servers: [time.example.org]}
  sysctls: {net.ipv4.ip_forward: "1", kernel.domainname: example.org}
  kernel: {modules: [{name: ifb, parameters: [numifbs=1]}]}
  sysfs: {devices.system.cpu.cpu0.cpufreq.scaling_governor: performance}
  watchdog: {device: /dev/watchdog0, timeout: 1m}
  metrics: {port: 9100}
  logging: {destinations: [{endpoint: "tls://logs.example.org:6514", streams: [services, kernel], extraTags: {rack: r17}}]}
  systemDiskEncryption:
    state: {keys: [{nodeID: {}, slot: 0}]}
    ephemeral: {keys: [{nodeID: {}, slot: 0}]}
)"

constexpr kj::StringPtr kControlPlane = "machine:\n  type: worker\n" TALOS_EXAMPLE_MACHINE
                                        R"(cluster:
  controlPlane: {endpoint: "https://10.5.0.2:6443", localAPIServerPort: 7443}
  token: abcdef.0123456789abcdef
  network:
    dnsDomain: cluster.local
    cni: {name: custom, urls: ["https://example.org/cni.yaml"]}
  apiServer:
    image: k8s.gcr.io/kube-apiserver:v1.20.6
    extraArgs: {audit-log-maxage: "30"}
    extraVolumes: [{hostPath: /var/lib/audit, mountPath: /var/lib/audit, readonly: true}]
  controllerManager:
    image: k8s.gcr.io/kube-controller-manager:v1.20.6
    extraArgs: {terminated-pod-gc-threshold: "100"}
  proxy:
    image: k8s.gcr.io/kube-proxy:v1.20.6
    mode: ipvs
    extraArgs: {conntrack-max-per-core: "32768"}
  scheduler:
    image: k8s.gcr.io/kube-scheduler:v1.20.6
    extraArgs: {v: "2"}
  etcd:
    image: gcr.io/etcd-development/etcd:v3.4.15
    extraArgs: {election-timeout: "5000"}
  coreDNS: {image: "k8s.gcr.io/coredns:1.7.0"}
  extraManifests: ["https://example.org/manifest.yaml"]
  extraManifestHeaders: {Authorization: Bearer 0123456789}
  inlineManifests:
    - {name: namespace-ci, contents: "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: ci\n"}
  adminKubeconfig: {certLifetime: 24h}
  allowSchedulingOnMasters: true
  trustd: {endpoints: [10.5.0.3], certLifetime: 24h, anyAddress: true}
)"_kj;

constexpr kj::StringPtr kWorker = "machine:\n  type: worker\n" TALOS_EXAMPLE_MACHINE
                                  R"(cluster:
  controlPlane: {endpoint: "https://10.5.0.2:6443"}
  token: abcdef.0123456789abcdef
)"_kj;

#undef TALOS_EXAMPLE_MACHINE

}  // namespace

kj::StringPtr configExample(bool controlPlane) {
  return controlPlane ? kControlPlane : kWorker;
}

}  // namespace talos::config
