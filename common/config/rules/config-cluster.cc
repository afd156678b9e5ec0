// cluster: endpoint, networks, secrets, components and manifests.

#include <set>
#include <string>

#include "common/base/node-layout.h"
#include "common/config/kubernetes/endpoint.h"
#include "common/config/kubernetes/kubernetes-images.h"
#include "common/config/rules/config-check.h"
#include "common/net/ip.h"
#include "common/net/text-values.h"
#include "common/tls/node-certificate.h"

namespace talos::config {
namespace {

constexpr kj::StringPtr kEtcdArguments[] = {
    "name"_kj,
    "data-dir"_kj,
    "listen-peer-urls"_kj,
    "listen-client-urls"_kj,
    "cert-file"_kj,
    "key-file"_kj,
    "trusted-ca-file"_kj,
    "client-cert-auth"_kj,
    "auto-tls"_kj,
    "peer-client-cert-auth"_kj,
    "peer-cert-file"_kj,
    "peer-trusted-ca-file"_kj,
    "peer-key-file"_kj,
    "peer-auto-tls"_kj,
};

// Arguments of etcd that would create a second cluster, remove this node from its own, or move etcd
// off the node. A name that ends in * is a prefix.
struct Refused {
  kj::StringPtr name, problem, hint;
};
constexpr auto kDecidedTogether =
    "the control-plane nodes decide together how etcd starts; another start would make a second "
    "cluster"_kj;
constexpr auto kBootstrap = "remove it; talosctl bootstrap makes a cluster"_kj;
constexpr Refused kRefusedEtcdArguments[] = {
    {"force-new-cluster"_kj,
     "the member would forget all others at each start, and be a cluster of its own"_kj,
     "remove it; talosctl bootstrap --recover-from makes a new cluster of a snapshot"_kj},
    {"initial-cluster"_kj, kDecidedTogether, kBootstrap},
    {"initial-cluster-state"_kj, kDecidedTogether, kBootstrap},
    {"initial-cluster-token"_kj, kDecidedTogether, kBootstrap},
    {"initial-advertise-peer-urls"_kj, kDecidedTogether,
     "remove it; use cluster.etcd.advertisedSubnets"_kj},
    {"discovery*"_kj, kDecidedTogether, kBootstrap},
    {"proxy*"_kj, "it would make etcd a proxy, which is no member of the cluster"_kj,
     "remove it"_kj},
    {"config-file"_kj, "etcd would read its arguments from the file and ignore the node's"_kj,
     "remove it"_kj},
    {"wal-dir"_kj,
     "the node expects etcd's log in its data directory, and would consider it lost"_kj,
     "remove it"_kj},
    {"strict-reconfig-check"_kj, "etcd refuses changes of members that cost the quorum"_kj,
     "remove it"_kj},
};

void checkEtcdArguments(Report& report, kj::StringPtr path,
                        capnp::List<StringPair>::Reader arguments) {
  for (auto argument : arguments) {
    kj::StringPtr name = argument.getKey();
    for (auto& refused : kRefusedEtcdArguments) {
      bool several = refused.name.endsWith("*");
      auto prefix = kj::str(refused.name.slice(0, refused.name.size() - (several ? 1 : 0)));
      if (several ? !name.startsWith(prefix) : name != prefix) continue;
      report.error(keyPath(path, name), kj::str(refused.problem), refused.hint);
    }
  }
}

void checkControlPlane(Report& report, ControlPlane::Reader controlPlane) {
  constexpr auto kPath = "cluster.controlPlane.endpoint"_kj;
  auto endpoint = controlPlane.getEndpoint();
  if (endpoint.size() > 0) {
    auto result = parseEndpoint(endpoint);
    if (result.problem.size() > 0) {
      report.error(kPath, kj::mv(result.problem),
                   "use https://host:port, for example https://10.5.0.2:6443");
    } else if (result.value.scheme != "https") {
      report.warn(kPath, kj::str("the Kubernetes API is served over https only"));
    }
  } else if (report.has(kPath)) {
    report.error(kPath, kj::str("the URL is empty"),
                 "use https://host:port, for example https://10.5.0.2:6443");
  }
}

void checkCni(Report& report, Cni::Reader cni) {
  auto urls = cni.getUrls();
  if (!report.has("cluster.network.cni.name")) {
    report.error("cluster.network.cni.name", kj::str("the name is missing"),
                 "use flannel, custom or none");
  }
  if (cni.getName() == CniName::CUSTOM) {
    if (urls.size() == 0)
      report.warn("cluster.network.cni.urls",
                  kj::str("a custom CNI needs URLs of manifests; none is set"));
  } else if (urls.size() > 0 && report.has("cluster.network.cni.name")) {
    report.error("cluster.network.cni.urls", kj::str("only a custom CNI has URLs of manifests"),
                 "set name to custom, or remove urls");
  }
  size_t i = 0;
  for (auto url : urls) report.url(kj::str("cluster.network.cni.urls[", i++, "]"), url);
}

void checkClusterNetwork(Report& report, Cluster::Reader cluster, bool controlPlane) {
  auto network = cluster.getNetwork();
  if (!isDnsName(network.getDnsDomain())) {
    report.error("cluster.network.dnsDomain",
                 kj::str("\"", network.getDnsDomain(), "\" is not a DNS name"),
                 "for example cluster.local");
  }
  checkClusterSubnets(report, cluster, controlPlane);
  if (controlPlane && network.hasCni()) checkCni(report, network.getCni());
}

void checkSecrets(Report& report, Cluster::Reader cluster, Report::Key keys) {
  if (cluster.getToken().size() == 0) {
    report.warn("cluster.token", kj::str("token is missing"));
  } else if (!isVisible(cluster.getToken())) {
    report.error("cluster.token", kj::str("must be visible ASCII characters"), kTokenForm);
  } else if (!isToken(cluster.getToken())) {
    report.warn("cluster.token", kj::str(kTokenOfAnotherForm), kTokenForm);
  } else {
    report.strength("cluster.token", cluster.getToken());
  }
  report.aescbcKey("cluster.aescbcEncryptionSecret", cluster.getAescbcEncryptionSecret());
  report.secretboxKey("cluster.secretboxEncryptionSecret", cluster.getSecretboxEncryptionSecret());
  auto accepted = cluster.getAcceptedEncryptionSecrets();
  for (auto i : kj::indices(accepted)) {
    report.acceptedKey(kj::str("cluster.acceptedEncryptionSecrets[", i, "]"), accepted[i]);
  }
  report.authority("cluster.ca", cluster.getCa(), keys);
  report.accepted("cluster.acceptedCAs", cluster.getAcceptedCAs());
  report.authority("cluster.aggregatorCA", cluster.getAggregatorCA(), keys);
  report.accepted("cluster.acceptedAggregatorCAs", cluster.getAcceptedAggregatorCAs());
  report.accepted("cluster.acceptedServiceAccountKeys", cluster.getAcceptedServiceAccountKeys());
  report.authority("cluster.etcd.ca", cluster.getEtcd().getCa(), keys);
  report.accepted("cluster.etcd.acceptedCAs", cluster.getEtcd().getAcceptedCAs());
  if (keys != Report::Key::kNeeded) {
    auto ca = cluster.getCa();
    bool none = ca.getCrt().size() + ca.getKey().size() == 0;
    bool refused = report.has("cluster.ca.crt") && !report.isRead("cluster.ca.crt");
    if (keys == Report::Key::kUnwanted && none && !refused) {
      report.warn("cluster.ca",
                  kj::str("the CA of Kubernetes is missing; the kubelet cannot start without it"),
                  "set ca.crt, without the key");
    }
    return;
  }
  auto need = [&](kj::StringPtr path, bool present) {
    if (!present) {
      report.warn(path, kj::str("the Kubernetes control plane cannot start without it"));
    }
  };
  need("cluster.ca", cluster.hasCa());
  need("cluster.aggregatorCA", cluster.hasAggregatorCA());
  need("cluster.etcd.ca", cluster.getEtcd().hasCa());
  need("cluster.serviceAccount.key", cluster.getServiceAccount().getKey().size() > 0);
}

void checkVolumes(Report& report, kj::StringPtr component, capnp::List<Volume>::Reader volumes) {
  std::set<std::string> mounts;
  size_t i = 0;
  for (auto volume : volumes) {
    auto path = kj::str(component, ".extraVolumes[", i++, "]");
    report.absolutePath(kj::str(path, ".hostPath"), volume.getHostPath());
    report.absolutePath(kj::str(path, ".mountPath"), volume.getMountPath());
    if (volume.getMountPath().size() > 0 && !mounts.insert(volume.getMountPath().cStr()).second)
      report.error(kj::str(path, ".mountPath"),
                   kj::str("duplicate path: another volume is mounted here too"));
  }
}

void checkComponents(Report& report, Cluster::Reader cluster) {
  auto version = cluster.getKubernetesVersion();
  if (version.size() > 0 && parseKubernetesVersion(version) == nullptr) {
    report.error("cluster.kubernetesVersion",
                 kj::str("\"", version, "\" is not a valid version of Kubernetes"),
                 "for example v1.34.4");
  }
  report.image("cluster.apiServer.image", cluster.getApiServer().getImage());
  report.image("cluster.controllerManager.image", cluster.getControllerManager().getImage());
  report.image("cluster.scheduler.image", cluster.getScheduler().getImage());
  report.image("cluster.proxy.image", cluster.getProxy().getImage());
  report.image("cluster.coreDNS.image", cluster.getCoreDNS().getImage());
  report.image("cluster.etcd.image", cluster.getEtcd().getImage());
  auto api = cluster.getApiServer();
  report.hosts("cluster.apiServer.certSANs", api.getCertSANs());
  report.arguments("cluster.apiServer.extraArgs", api.getExtraArgs());
  checkVolumes(report, "cluster.apiServer", api.getExtraVolumes());
  auto manager = cluster.getControllerManager();
  report.arguments("cluster.controllerManager.extraArgs", manager.getExtraArgs());
  checkVolumes(report, "cluster.controllerManager", manager.getExtraVolumes());
  auto scheduler = cluster.getScheduler();
  report.arguments("cluster.scheduler.extraArgs", scheduler.getExtraArgs());
  checkVolumes(report, "cluster.scheduler", scheduler.getExtraVolumes());
  report.arguments("cluster.proxy.extraArgs", cluster.getProxy().getExtraArgs());
  auto etcd = cluster.getEtcd();
  report.arguments("cluster.etcd.extraArgs", etcd.getExtraArgs(), kEtcdArguments);
  checkEtcdArguments(report, "cluster.etcd.extraArgs", etcd.getExtraArgs());
  report.subnets("cluster.etcd.advertisedSubnets", etcd.getAdvertisedSubnets());
  report.subnets("cluster.etcd.listenSubnets", etcd.getListenSubnets());
  if (etcd.hasBackup()) checkEtcdBackup(report, etcd.getBackup());
}

void checkManifests(Report& report, Cluster::Reader cluster) {
  auto cloud = cluster.getExternalCloudProvider();
  if (!cloud.getEnabled() && cloud.getManifests().size() > 0) {
    report.error("cluster.externalCloudProvider.manifests",
                 kj::str("the external cloud provider is not enabled"),
                 "set enabled to true, or remove manifests");
  }
  size_t i = 0;
  for (auto url : cloud.getManifests())
    report.url(kj::str("cluster.externalCloudProvider.manifests[", i++, "]"), url);
  i = 0;
  for (auto url : cluster.getExtraManifests())
    report.url(kj::str("cluster.extraManifests[", i++, "]"), url);
  std::set<std::string> names;
  i = 0;
  for (auto manifest : cluster.getInlineManifests()) {
    auto path = kj::str("cluster.inlineManifests[", i++, "].name");
    bool blank = true;
    for (char c : manifest.getName()) blank = blank && c == ' ';
    if (blank) {
      report.error(path, kj::str("the manifest has no name"));
    } else if (!names.insert(manifest.getName().cStr()).second) {
      report.error(
          path, kj::str("duplicate name: another manifest is called \"", manifest.getName(), "\""));
    }
  }
}

void checkTrustd(Report& report, Trustd::Reader trustd) {
  size_t i = 0;
  for (auto host : trustd.getEndpoints()) {
    if (!isHost(host)) {
      report.error(kj::str("cluster.trustd.endpoints[", i, "]"),
                   kj::str("\"", host, "\" is neither an IP address nor a DNS name"),
                   kj::str("leave out the port; trustd listens on ", kTrustdPort));
    }
    ++i;
  }
  report.duration("cluster.trustd.certLifetime", trustd.getCertLifetime(), kShortestLifetime,
                  "must be at least 10s", "for example 24h");
}

// A shorter lifetime is used as an hour (machined/kubernetes/admin-kubeconfig.cc).
constexpr auto kShortestAdmin = 1 * kj::HOURS;

void checkAdminKubeconfig(Report& report, kj::StringPtr lifetime) {
  constexpr auto kPath = "cluster.adminKubeconfig.certLifetime"_kj;
  report.duration(kPath, lifetime, 1 * kj::NANOSECONDS, "must be more than 0s",
                  "for example 8760h");
  KJ_IF_MAYBE (given, parseDuration(lifetime)) {
    if (*given <= 0 * kj::NANOSECONDS || *given >= kShortestAdmin) return;
    report.warn(kPath, kj::str("less than an hour; the certificate is valid for an hour"),
                "use 1h or more");
  }
}

}  // namespace

void checkCluster(Report& report, Cluster::Reader cluster, MachineType type) {
  bool controlPlane = isControlPlane(type);
  checkControlPlane(report, cluster.getControlPlane());
  if (cluster.hasNetwork()) checkClusterNetwork(report, cluster, controlPlane);
  checkSecrets(report, cluster, keysOf(report, type));
  checkComponents(report, cluster);
  checkComponentSettings(report, cluster);
  checkManifests(report, cluster);
  checkAdminKubeconfig(report, cluster.getAdminKubeconfig().getCertLifetime());
  checkTrustd(report, cluster.getTrustd());
}

}  // namespace talos::config
