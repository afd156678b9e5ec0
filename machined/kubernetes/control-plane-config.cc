#include "machined/kubernetes/control-plane-config.h"

#include <algorithm>

#include "common/base/fill-list.h"
#include "common/config/config.h"
#include "common/config/kubernetes/cluster-networks.h"
#include "common/config/kubernetes/kubelet-configuration.h"
#include "common/net/ip.h"
#include "common/text/ascii.h"
#include "machined/kubernetes/component-files.h"
#include "machined/kubernetes/kube-versions.h"
#include "machined/kubernetes/secret-files.h"
#include "rpc/kubernetes-resources.capnp.h"

namespace talos::machined {
namespace {

using config::KubernetesPart;
using Spec = rpc::ControlPlaneConfigSpec;
using PairList = capnp::List<config::StringPair>::Reader;

constexpr size_t kMostVolumeName = 50;              // out of 63: a number may follow
constexpr kj::StringPtr kExternal = "external"_kj;  // a cloud provider that runs as a workload
constexpr kj::StringPtr kCniPriority = "05"_kj, kCloudPriority = "30"_kj, kExtraPriority = "99"_kj;

kj::String imageOr(kj::StringPtr image, KubernetesPart part) {
  return image.size() > 0 ? kj::str(image) : config::kubernetesImage(part);
}

void copySorted(capnp::List<config::StringPair>::Builder to, PairList from) {
  kj::Vector<config::StringPair::Reader> sorted;
  for (auto argument : from) sorted.add(argument);
  std::sort(sorted.begin(), sorted.end(), [](auto a, auto b) { return a.getKey() < b.getKey(); });
  for (auto i : kj::indices(sorted)) {
    to[i].setKey(sorted[i].getKey());
    to[i].setValue(sorted[i].getValue());
  }
}

// Returns the volume's name for a path, a DNS label (RFC 1123): /etc/audit_logs is etc-audit-logs.
kj::String volumeName(kj::StringPtr path) {
  kj::Vector<char> name;
  for (char c : lowerCase(path)) {
    bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (plain || !name.empty()) name.add(plain ? c : '-');
    if (name.size() == kMostVolumeName) break;
  }
  while (!name.empty() && name.back() == '-') name.removeLast();
  return name.empty() ? kj::str("root") : kj::heapString(name.asPtr());
}

// Names that are unique, and differ from the built-in volumes.
class VolumeNames {
 public:
  VolumeNames() {
    taken.add(kj::str("secrets"));
    taken.add(kj::str("audit"));
  }
  kj::String next(kj::StringPtr path) {
    auto plain = volumeName(path);
    auto name = kj::str(plain);
    for (unsigned number = 2; isTaken(name); ++number) name = kj::str(plain, "-", number);
    taken.add(kj::str(name));
    return name;
  }

 private:
  kj::Vector<kj::String> taken;
  bool isTaken(kj::StringPtr name) {
    for (auto& other : taken) {
      if (other == name) return true;
    }
    return false;
  }
};

void copyVolumes(capnp::List<rpc::ExtraVolume>::Builder to,
                 capnp::List<config::Volume>::Reader from) {
  VolumeNames names;
  for (auto i : kj::indices(from)) {
    to[i].setName(names.next(from[i].getMountPath()));
    to[i].setHostPath(from[i].getHostPath());
    to[i].setMountPath(from[i].getMountPath());
    to[i].setReadonly(from[i].getReadonly());
  }
}

// Copies what the pods of all components have in common.
template <typename To, typename From>
void copyPodSettings(To to, From from) {
  copyVolumes(to.initExtraVolumes(from.getExtraVolumes().size()), from.getExtraVolumes());
  // Keys that a record does not need are left out, as the users' documents print it.
  if (from.getEnv().size() > 0) {
    copySorted(to.initEnvironmentVariables(from.getEnv().size()), from.getEnv());
  }
  auto resources = from.getResources();
  auto requests = resources.getRequests(), limits = resources.getLimits();
  if (requests.size() + limits.size() == 0) return;
  copySorted(to.initResources().initRequests(requests.size()), requests);
  copySorted(to.getResources().initLimits(limits.size()), limits);
}

template <typename To, typename From>
void copyExtras(To to, From from) {
  copySorted(to.initExtraArgs(from.getExtraArgs().size()), from.getExtraArgs());
  copyPodSettings(to, from);
}

kj::StringPtr cloudProvider(config::Cluster::Reader cluster) {
  return cluster.getExternalCloudProvider().getEnabled() ? kExternal : ""_kj;
}

constexpr kj::StringPtr kKubeletCaArgument = "kubelet-certificate-authority"_kj;

// Returns true if the API server verifies kubelets by the CAs of the cluster: the kubelet of this
// node stands for all, because the keys that decide are for all nodes.
bool verifiesKubelets(config::Config::Reader config) {
  for (auto argument : config.getCluster().getApiServer().getExtraArgs()) {
    if (argument.getKey() == kKubeletCaArgument) return false;  // the user's file
  }
  return config::requestsServingCertificate(config);
}

// Adds the argument to those of the config, in whose order it is sorted.
void fillApiServerArguments(Spec::ApiServer::Builder out, config::Config::Reader config) {
  auto from = config.getCluster().getApiServer().getExtraArgs();
  if (!verifiesKubelets(config)) {
    return copySorted(out.initExtraArgs(from.size()), from);
  }
  capnp::MallocMessageBuilder scratch;
  auto all = scratch.initRoot<Spec::ApiServer>().initExtraArgs(from.size() + 1);
  for (auto i : kj::indices(from)) all.setWithCaveats(i, from[i]);
  all[from.size()].setKey(kKubeletCaArgument);
  all[from.size()].setValue(
      kj::str(kKubernetesSecretsFolder, "/", nameOf(Component::kApiServer), "/", kKubeletCaFile));
  copySorted(out.initExtraArgs(all.size()), all.asReader());
}

void fillApiServerFiles(Spec::ApiServer::Builder out, config::ApiServer::Reader api,
                        KubernetesVersion version) {
  auto policy = auditPolicyFile(api), admission = admissionFile(api),
       authorizers = authorizationFile(api, version);
  if (policy.size() > 0) out.setAuditPolicy(policy);
  if (admission.size() > 0) out.setAdmissionControl(admission);
  if (authorizers.size() > 0) out.setAuthorizationConfig(authorizers);
  auto plugins = configuredPlugins(api);
  if (plugins.empty()) return;
  fillTexts(out.initAdmissionPlugins(static_cast<unsigned>(plugins.size())), plugins);
}

void fillApiServer(Spec::ApiServer::Builder out, config::Config::Reader config) {
  auto cluster = config.getCluster();
  out.setCloudProvider(cloudProvider(cluster));
  out.setControlPlaneEndpoint(config::clusterEndpoint(cluster));
  out.initEtcdServers(1).set(0, "https://127.0.0.1:2379");
  out.setLocalPort(config::localApiServerPort(cluster));
  out.setServiceCIDR(kj::strArray(config::serviceSubnets(cluster), ","));
  fillApiServerArguments(out, config);
  copyPodSettings(out, cluster.getApiServer());
}

void fillControllerManager(Spec::ControllerManager::Builder out, config::Cluster::Reader cluster) {
  auto from = cluster.getControllerManager();
  out.setCloudProvider(cloudProvider(cluster));
  out.setPodCIDR(kj::strArray(config::podSubnets(cluster), ","));
  out.setServiceCIDR(kj::strArray(config::serviceSubnets(cluster), ","));
  copyExtras(out, from);
}

kj::StringPtr nameOf(config::ProxyMode mode) {
  switch (mode) {
    case config::ProxyMode::IPTABLES:
      return "iptables"_kj;
    case config::ProxyMode::IPVS:
      return "ipvs"_kj;
    case config::ProxyMode::USERSPACE:
      return "userspace"_kj;
    case config::ProxyMode::NFTABLES:
      return "nftables"_kj;
  }
  return "iptables"_kj;
}

// Takes one address of either family, or two: the first of each family.
void fillDns(Spec::SystemManifests::Builder out, config::Cluster::Reader cluster) {
  auto addresses = config::dnsServiceAddresses(cluster);
  if (addresses.size() == 1) return out.setDnsServiceIP(addresses[0]);
  for (auto& address : addresses) {
    bool v6 = address.findFirst(':') != nullptr;
    if (v6 && out.getDnsServiceIPv6().size() == 0) out.setDnsServiceIPv6(address);
    if (!v6 && out.getDnsServiceIP().size() == 0) out.setDnsServiceIP(address);
  }
}

void fillSystemManifests(Spec::SystemManifests::Builder out, config::Cluster::Reader cluster,
                         KubernetesVersion version) {
  out.setServer(config::clusterEndpoint(cluster));
  out.setClusterDomain(config::dnsDomain(cluster));
  auto pods = config::podSubnets(cluster);
  fillTexts(out.initPodCIDRs(static_cast<unsigned>(pods.size())), pods);
  out.setFirstPodCIDR(pods[0]);
  auto proxy = cluster.getProxy();
  out.setProxyEnabled(!proxy.getDisabled());
  out.setProxyImage(imageOr(proxy.getImage(), KubernetesPart::kProxy));
  out.setProxyMode(nameOf(proxy.getMode()));
  copySorted(out.initProxyExtraArgs(proxy.getExtraArgs().size()), proxy.getExtraArgs());
  auto coreDns = cluster.getCoreDNS().getImage();
  out.setCoreDNSImage(coreDns.size() > 0                        ? kj::StringPtr(coreDns)
                      : has(version, KubeFact::kEndpointSlices) ? config::kCoreDnsImage
                                                                : config::kOldCoreDnsImage);
  out.setCoreDNSEnabled(!cluster.getCoreDNS().getDisabled());
  fillDns(out, cluster);
  auto network = cluster.getNetwork();
  out.setFlannelEnabled(!network.hasCni() ||
                        network.getCni().getName() == config::CniName::FLANNEL);
  auto flannel = network.getCni().getFlannel().getExtraArgs();
  if (flannel.size() > 0) out.setFlannelExtraArgs(flannel);
  out.setFlannelImage(config::kFlannelImage);
  out.setFlannelCNIImage(config::kInstallCniImage);
  out.setKubernetesVersion(version.toString());
  out.setPodSecurityPolicyEnabled(has(version, KubeFact::kPodSecurityPolicies) &&
                                  !cluster.getApiServer().getDisablePodSecurityPolicy());
}

void fillExtraManifests(Spec::ExtraManifests::Builder out, config::Cluster::Reader cluster) {
  auto cni = cluster.getNetwork().getCni().getUrls();
  auto cloud = cluster.getExternalCloudProvider().getManifests();
  auto extra = cluster.getExtraManifests();
  auto lines = cluster.getInlineManifests();
  auto list = out.initExtraManifests(cni.size() + cloud.size() + extra.size() + lines.size());
  unsigned next = 0;
  auto add = [&](kj::StringPtr url, kj::StringPtr priority) {
    auto manifest = list[next++];
    manifest.setUrl(url);
    manifest.setPriority(priority);
    return manifest;
  };
  for (auto url : cni) add(url, kCniPriority);
  for (auto url : cloud) add(url, kCloudPriority);
  auto headers = cluster.getExtraManifestHeaders();
  for (auto url : extra) {
    copySorted(add(url, kExtraPriority).initExtraHeaders(headers.size()), headers);
  }
  for (auto manifest : lines) {
    add(manifest.getName(), kExtraPriority).setContents(manifest.getContents());
  }
}

}  // namespace

bool takesWorkloads(config::Cluster::Reader cluster) {
  return cluster.getAllowSchedulingOnMasters() || cluster.getAllowSchedulingOnControlPlanes();
}

kj::Vector<kj::String> planControlPlane(config::Config::Reader config, Outputs<Spec>& outputs) {
  auto cluster = config.getCluster();
  kj::Vector<kj::String> warnings;
  auto look = [&](kj::StringPtr image) {
    auto assumed = versionOf(image, cluster.getKubernetesVersion());
    KJ_IF_MAYBE (warning, assumed.warning) warnings.add(kj::mv(*warning));
    return assumed.version;
  };
  // Sets the image of a component, and returns its release.
  auto setImage = [&](auto out, kj::StringPtr image, KubernetesPart part) {
    out.setImage(imageOr(image, part));
    return look(out.getImage());
  };
  auto local = config.getMachine().getControlPlane();
  auto api = outputs.add(kApiServerId).initApiServer();
  auto version = setImage(api, cluster.getApiServer().getImage(), KubernetesPart::kApiServer);
  fillApiServer(api, config);
  fillApiServerFiles(api, cluster.getApiServer(), version);
  if (!local.getControllerManager().getDisabled()) {
    auto manager = outputs.add(kControllerManagerId).initControllerManager();
    setImage(manager, cluster.getControllerManager().getImage(),
             KubernetesPart::kControllerManager);
    fillControllerManager(manager, cluster);
  }
  if (!local.getScheduler().getDisabled()) {
    auto from = cluster.getScheduler();
    auto scheduler = outputs.add(kSchedulerId).initScheduler();
    auto release = setImage(scheduler, from.getImage(), KubernetesPart::kScheduler);
    copyExtras(scheduler, from);
    auto file = schedulerFile(from, release);
    if (file.size() > 0) scheduler.setConfig(file);
  }
  fillSystemManifests(outputs.add(kSystemManifestsId).initSystemManifests(), cluster, version);
  auto proxy = cluster.getProxy();
  if (!proxy.getDisabled()) {
    auto proxyVersion = look(imageOr(proxy.getImage(), KubernetesPart::kProxy));
    auto mode = proxy.getMode();
    bool lacks =
        (mode == config::ProxyMode::USERSPACE && !has(proxyVersion, KubeFact::kProxyUserspace)) ||
        (mode == config::ProxyMode::NFTABLES && !has(proxyVersion, KubeFact::kProxyNftables));
    if (lacks) {
      warnings.add(kj::str("cluster.proxy.mode: kube-proxy of Kubernetes ", proxyVersion.major, ".",
                           proxyVersion.minor, " has no mode ", nameOf(mode)));
    }
  }
  fillExtraManifests(outputs.add(kExtraManifestsId).initExtraManifests(), cluster);
  return warnings;
}

kj::Vector<ControlPlanePart> controlPlaneParts(config::Config::Reader config) {
  kj::Vector<ControlPlanePart> parts;
  if (!config::isControlPlane(config.getMachine().getType())) return parts;
  Outputs<Spec> outputs("");
  planControlPlane(config, outputs);
  for (auto id : {kApiServerId, kControllerManagerId, kSchedulerId}) {
    KJ_IF_MAYBE (spec, outputs.find(id)) {
      auto words = capnp::canonicalize(*spec);
      parts.add(ControlPlanePart{kj::str(id), kj::heapArray(words.asBytes())});
    }
  }
  return parts;
}

kj::Array<Controller::Input> ControlPlaneConfigController::inputs() const {
  return kj::arr(input<rpc::MachineConfigSpec>(kMachineConfigId));
}
kj::Array<kj::StringPtr> ControlPlaneConfigController::outputs() const {
  return typeNames<Spec>();
}

void ControlPlaneConfigController::logWarnings(kj::Vector<kj::String> warnings) {
  auto now = kj::strArray(warnings, "\n");
  if (now == lastLogged) return;
  for (auto& warning : warnings) deps.warn(warning);
  lastLogged = kj::mv(now);
}

kj::Promise<void> ControlPlaneConfigController::reconcile(Store& store) {
  Outputs<Spec> outputs(name());
  KJ_IF_MAYBE (config, deps.readConfig(store)) {
    if (config::isControlPlane(config->getMachine().getType())) {
      logWarnings(planControlPlane(*config, outputs));
    }
  }
  struct Counted {
    kj::String id;
    uint64_t version;
  };
  kj::Vector<Counted> counted;
  for (auto id : {kApiServerId, kControllerManagerId, kSchedulerId}) {
    KJ_IF_MAYBE (spec, outputs.find(id)) {
      auto words = capnp::canonicalize(*spec);
      counted.add(Counted{kj::str(id), co_await deps.kept.of(id, words.asBytes())});
    }
  }
  // A record that is new in the store continues with the version before the reboot.
  for (auto& one : counted) outputs.beginAt(one.id, one.version);
  outputs.apply(store);
}

}  // namespace talos::machined
