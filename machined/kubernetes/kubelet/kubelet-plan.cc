#include "machined/kubernetes/kubelet/kubelet-plan.h"

#include <algorithm>

#include "common/base/fill-list.h"
#include "common/base/lines.h"
#include "common/base/reserved-names.h"
#include "common/base/sha256.h"
#include "common/config/kubernetes/cluster-networks.h"
#include "common/config/kubernetes/endpoint.h"
#include "common/kube/kubeconfig.h"
#include "common/kube/node-roles.h"
#include "common/memory/zeroize.h"
#include "common/net/ip.h"
#include "common/text/texts.h"
#include "machined/config/trust/trust-config.h"
#include "machined/kubernetes/control-plane-config.h"
#include "machined/kubernetes/kube-versions.h"
#include "machined/kubernetes/kubelet/credential-providers.h"
#include "machined/kubernetes/kubelet/kubelet-yaml.h"
#include "machined/kubernetes/static-pods.h"
#include "machined/services/containers/containerd-connection.h"
#include "machined/system/credential-programs.h"

namespace talos::machined {
namespace {

// --- addresses
// ------------------------------------------------------------------------------------

bool inSubnets(const Ip& address, kj::ArrayPtr<const kj::String> subnets) {
  for (auto& text : subnets) {
    KJ_IF_MAYBE (subnet, Prefix::parse(text)) {
      if (subnet->contains(address)) return true;
    }
  }
  return false;
}

kj::Vector<Ip> candidates(config::Config::Reader config, const KubeletNodeContext& at,
                          kj::ArrayPtr<const kj::String> before) {
  config::SubnetFilter wanted(config.getMachine().getKubelet().getNodeIP().getValidSubnets());
  auto pods = config::podSubnets(config.getCluster()),
       services = config::serviceSubnets(config.getCluster());
  kj::Vector<Ip> result;
  kj::Vector<kj::StringPtr> own;
  for (auto& text : at.addresses) own.add(text);
  for (auto& text : before) {
    if (!contains(at.addresses, text) && contains(at.assigned.all, text)) own.add(text);
  }
  for (auto text : own) {
    KJ_IF_MAYBE (ip, Ip::parse(text)) {
      if (!ip->isUnicast() || ip->isLoopback() || ip->isLinkLocal()) continue;
      bool inner = contains(at.assigned.pods, text) || contains(at.assigned.tunnels, text) ||
                   inSubnets(*ip, pods) || inSubnets(*ip, services);
      if (wanted.selects(*ip, inner)) result.add(*ip);
    }
  }
  return result;
}

kj::Vector<int> familiesOf(config::Cluster::Reader cluster) {
  kj::Vector<int> families;
  auto subnets = config::serviceSubnets(cluster);
  for (auto& text : subnets) {
    KJ_IF_MAYBE (subnet, Prefix::parse(text)) {
      int family = subnet->address.family();
      if (families.empty() || families[0] != family) families.add(family);
    }
  }
  if (families.size() > 2) families.resize(2);
  return families;
}

kj::Maybe<kj::String> ofFamily(int family, kj::ArrayPtr<const Ip> own,
                               kj::ArrayPtr<const kj::String> before) {
  kj::Maybe<kj::String> first;
  for (auto& ip : own) {
    if (ip.family() != family) continue;
    auto text = ip.toString();
    if (contains(before, text)) return kj::mv(text);
    if (first == nullptr) first = kj::mv(text);
  }
  return first;
}

// --- arguments
// ------------------------------------------------------------------------------------

struct Argument {
  kj::String name, value;
};

// An argument of the config replaces the built-in one, unless the node requires its own.
void setArgument(kj::Vector<Argument>& arguments, kj::StringPtr name, kj::StringPtr value) {
  for (auto& argument : arguments) {
    if (argument.name == name) {
      argument.value = kj::str(value);
      return;
    }
  }
  arguments.add(Argument{kj::str(name), kj::str(value)});
}

bool isWorker(config::Machine::Reader machine) {
  return machine.getType() == config::MachineType::WORKER;
}

// Adds machine.nodeLabels and nodeTaints, which a node requests when it registers itself. On
// control-plane nodes kubed keeps both as in the config, and sets the labels; a taint from kubed
// alone would come after the first pods.
void addNodeSettings(config::Config::Reader config, KubernetesVersion version,
                     kj::Vector<Argument>& arguments) {
  auto machine = config.getMachine();
  kj::Vector<kj::String> labels, taints;
  if (isWorker(machine)) {
    for (auto label : machine.getNodeLabels()) {
      if (kube::kubeletMayLabel(label.getKey()))
        labels.add(kj::str(label.getKey(), "=", label.getValue()));
    }
  } else if (!takesWorkloads(config.getCluster())) {
    taints.add(kj::str(roleTaint(version), "=:NoSchedule"));
  }
  for (auto taint : machine.getNodeTaints()) {
    if (kube::reservedFor(kube::kReservedTaints, taint.getKey()) != nullptr) continue;
    // "VALUE:EFFECT", or the effect alone.
    auto value = taint.getValue();
    bool alone = value.findFirst(':') == nullptr;
    taints.add(kj::str(taint.getKey(), "=", alone ? ":" : "", value));
  }
  if (!labels.empty()) setArgument(arguments, "node-labels", kj::strArray(labels, ","));
  if (!taints.empty()) setArgument(arguments, "register-with-taints", kj::strArray(taints, ","));
}

kj::Vector<Argument> argumentsOf(config::Config::Reader config, kj::StringPtr name,
                                 kj::ArrayPtr<const kj::String> nodeIps,
                                 KubernetesVersion version) {
  kj::Vector<Argument> arguments;
  auto set = [&](kj::StringPtr key, kj::StringPtr value) { setArgument(arguments, key, value); };
  set("cert-dir", "/var/lib/kubelet/pki");
  set("config", kKubeletConfig);
  set("hostname-override", name);
  bool registered = !config.getMachine().getKubelet().getSkipNodeRegistration();
  if (registered) set("kubeconfig", kKubeletKubeconfig);
  size_t count = has(version, KubeFact::kKubeletNodeAddresses) ? nodeIps.size() : 1;
  set("node-ip", kj::strArray(nodeIps.slice(0, count), ","));
  auto ifHas = [&](KubeFact fact, kj::StringPtr key, kj::StringPtr value) {
    if (has(version, fact)) set(key, value);
  };
  ifHas(KubeFact::kKubeletCniFlags, "cni-conf-dir", "/etc/cni/net.d");
  ifHas(KubeFact::kKubeletDynamicConfig, "dynamic-config-dir", "/etc/kubernetes/kubelet");
  ifHas(KubeFact::kKubeletRemoteRuntimeFlag, "container-runtime", "remote");
  ifHas(KubeFact::kKubeletRuntimeEndpointFlag, "container-runtime-endpoint", kRuntimeEndpoint);
  // Until the cloud controller has initialized the node, nothing is scheduled to it.
  if (config.getCluster().getExternalCloudProvider().getEnabled())
    set("cloud-provider", "external");
  if (!credentialProviders(config.getMachine().getKubelet(), version).empty()) {
    set("image-credential-provider-bin-dir", kCredentialPrograms);
    set("image-credential-provider-config", kCredentialProviderConfig);
  }
  if (registered) addNodeSettings(config, version, arguments);
  for (auto extra : config.getMachine().getKubelet().getExtraArgs())
    set(extra.getKey(), extra.getValue());
  std::sort(arguments.begin(), arguments.end(),
            [](auto& a, auto& b) { return kj::StringPtr(a.name) < b.name; });
  return arguments;
}

// --- mounts
// ---------------------------------------------------------------------------------------

// Folders that the kubelet and the node share, including later mounts of either. No folder is below
// another one or a link in images: a mount on a shared folder is a mount in the node.
constexpr kj::StringPtr kShared[] = {"/dev"_kj,
                                     "/sys/fs/cgroup"_kj,
                                     "/etc/kubernetes"_kj,
                                     "/etc/cni"_kj,
                                     "/usr/libexec/kubernetes"_kj,
                                     "/run"_kj,
                                     "/var/lib/containerd"_kj,
                                     "/var/lib/kubelet"_kj,
                                     "/var/mnt"_kj,
                                     "/var/log/pods"_kj,
                                     "/var/log/containers"_kj};
// The kubelet mounts NFS volumes with the options of the node, which machine.files may have set.
constexpr kj::StringPtr kLookedAt[] = {"/lib/modules"_kj, "/etc/os-release"_kj,
                                       "/etc/nfsmount.conf"_kj};

ContainerMount mountWith(kj::StringPtr source, kj::StringPtr destination,
                         std::initializer_list<kj::StringPtr> options) {
  auto list = kj::heapArrayBuilder<kj::String>(options.size());
  for (auto option : options) list.add(kj::str(option));
  return ContainerMount{.source = kj::str(source),
                        .destination = kj::str(destination),
                        .type = kj::str("bind"),
                        .options = list.finish()};
}

// A bind mount needs the option as well.
kj::Array<kj::String> optionsOf(rpc::KubeletSpecSpec::Mount::Reader mount) {
  kj::Vector<kj::String> options;
  for (auto option : mount.getOptions()) options.add(kj::str(option));
  if (mount.getType() == "bind" && !contains(options, "bind") && !contains(options, "rbind")) {
    options.add(kj::str("rbind"));
  }
  return options.releaseAsArray();
}

// Returns false for mappings with which runc would not start the kubelet: a config that was kept
// from an earlier release may have them.
bool isMapped(config::Mount::Reader mount) {
  bool bind = mount.getType() == "bind" || mount.getType() == "";
  return bind && mount.getUidMappings().size() > 0 && mount.getGidMappings().size() > 0;
}

kj::Array<ContainerIds> idsOf(capnp::List<config::IdMapping>::Reader mappings) {
  return KJ_MAP(mapping, mappings) {
    return ContainerIds{mapping.getContainerID(), mapping.getHostID(), mapping.getSize()};
  };
}

kj::String imageOf(config::Kubelet::Reader kubelet) {
  return kubelet.getImage().size() > 0 ? kj::str(kubelet.getImage())
                                       : config::kubernetesImage(config::KubernetesPart::kKubelet);
}

bool complete(config::CertificateAndKey::Reader authority) {
  return authority.getCrt().size() > 0;
}

}  // namespace

kj::String nodename(kj::StringPtr hostname, kj::StringPtr domainname, bool qualified) {
  auto name = qualified && hostname.size() > 0 && domainname.size() > 0
                  ? kj::str(hostname, ".", domainname)
                  : kj::str(hostname);
  for (char& c : name.asArray()) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return name;
}

kj::Vector<kj::String> nodeAddresses(config::Config::Reader config, const KubeletNodeContext& at,
                                     kj::ArrayPtr<const kj::String> before) {
  auto own = candidates(config, at, before);
  kj::Vector<kj::String> chosen;
  for (int family : familiesOf(config.getCluster())) {
    KJ_IF_MAYBE (address, ofFamily(family, own, before)) chosen.add(kj::mv(*address));
  }
  return chosen;
}

namespace {

// Returns the missing first family of Services. Pods of the host's network use it, including the
// API server: without an address of this family their Services cannot reach them.
kj::Maybe<kj::String> lacking(config::Config::Reader config,
                              kj::ArrayPtr<const kj::String> addresses) {
  auto families = familiesOf(config.getCluster());
  bool six = families.size() > 0 && families[0] == AF_INET6;
  for (auto& address : addresses) {
    if ((address.findFirst(':') != nullptr) == six) return nullptr;
  }
  kj::StringPtr family = six ? "an IPv6 address"_kj : "an IPv4 address"_kj;
  return config.getMachine().getKubelet().getNodeIP().getValidSubnets().size() > 0
             ? kj::str(family, " in machine.kubelet.nodeIP.validSubnets")
             : kj::str(family, " of this node");
}

}  // namespace

kj::Vector<kj::String> refusedLabels(config::Machine::Reader machine) {
  kj::Vector<kj::String> refused;
  if (!isWorker(machine)) return refused;
  for (auto label : machine.getNodeLabels()) {
    bool reserved = kube::reservedFor(kube::kReservedLabels, label.getKey()) != nullptr;
    if (!reserved && !kube::kubeletMayLabel(label.getKey())) refused.add(kj::str(label.getKey()));
  }
  return refused;
}

kj::Maybe<kj::String> assumedRelease(config::Config::Reader config) {
  auto image = imageOf(config.getMachine().getKubelet());
  return versionOf(image, config.getCluster().getKubernetesVersion()).warning;
}

kj::Maybe<KubeletWaits> planKubelet(config::Config::Reader config, const KubeletNodeContext& at,
                                    kj::ArrayPtr<const kj::String> before,
                                    rpc::KubeletSpecSpec::Builder out) {
  auto kubelet = config.getMachine().getKubelet();
  auto name = nodename(at.hostname, at.domainname, kubelet.getRegisterWithFQDN());
  if (name.size() == 0) return KubeletWaits{kj::str("the host name")};
  auto addresses = nodeAddresses(config, at, before);
  KJ_IF_MAYBE (address, lacking(config, addresses)) return KubeletWaits{kj::mv(*address)};
  auto image = imageOf(kubelet);
  auto version = versionOf(image, config.getCluster().getKubernetesVersion()).version;
  out.setImage(image);
  out.setNodename(name);
  fillTexts(out.initNodeIPs(addresses.size()), addresses);
  auto arguments = argumentsOf(config, name, addresses, version);
  auto words = KJ_MAP(a, arguments) {
    return kj::str("--", a.name, "=", a.value);
  };
  fillTexts(out.initArguments(words.size()), words);
  auto providers = credentialProviders(kubelet, version);
  fillTexts(out.initCredentialProviders(providers.size()), providers);
  bool six = false;
  for (auto& address : addresses) six = six || address.findFirst(':') != nullptr;
  out.setStaticPodPath(kubelet.getDisableManifestsDirectory() ? kSystemManifestsFolder
                                                              : kManifestsFolder);
  out.setConfig(kubeletYaml(config, {.version = version,
                                     .six = six,
                                     .sharesDisk = at.sharesDisk,
                                     .staticPods = !isWorker(config.getMachine()),
                                     .staticPodPath = out.asReader().getStaticPodPath(),
                                     .clientCa = kKubeletCa}));
  auto shutdown = config::kubeletShutdown(kubelet.getExtraConfig(), version);
  constexpr auto kAlmostOne = 1 * kj::SECONDS - 1 * kj::NANOSECONDS;
  out.setShutdownSeconds(static_cast<uint32_t>((shutdown.asked + kAlmostOne) / kj::SECONDS));
  auto extra = kubelet.getExtraMounts();
  bool limited = at.memoryFile.size() > 0;
  auto mounts = out.initExtraMounts(extra.size() + (limited ? 1 : 0));
  for (auto i : kj::indices(extra)) {
    mounts[i].setDestination(extra[i].getDestination());
    mounts[i].setType(extra[i].getType().size() > 0 ? extra[i].getType() : "bind"_kj);
    mounts[i].setSource(extra[i].getSource());
    mounts[i].setOptions(extra[i].getOptions());
    if (!isMapped(extra[i])) continue;
    mounts[i].setUidMappings(extra[i].getUidMappings());
    mounts[i].setGidMappings(extra[i].getGidMappings());
  }
  if (limited) {
    auto mount = mounts[extra.size()];
    mount.setDestination("/proc/meminfo");
    mount.setType("bind");
    mount.setSource(at.memoryFile);
    auto options = mount.initOptions(2);
    options.set(0, "bind");
    options.set(1, "ro");
  }
  return nullptr;
}

kj::Maybe<KubeletWaits> planKubeletSecrets(config::Config::Reader config,
                                           rpc::KubeletSecretsSpec::Builder out) {
  auto cluster = config.getCluster();
  if (!complete(cluster.getCa())) return KubeletWaits{kj::str("cluster.ca of the config")};
  if (cluster.getToken().size() == 0) return KubeletWaits{kj::str("cluster.token of the config")};
  auto authority = cluster.getCa().getCrt();
  auto text = kj::str(authority.asChars());
  auto server = config::apiServerOfNode(config);
  auto balancer = config.getMachine().getFeatures().getKubePrism();
  auto tlsName =
      config::hasBalancer(config) ? kj::StringPtr(balancer.getTlsServerName()) : kj::StringPtr();
  auto written = kube::writeKubeconfig({.cluster = "local",
                                        .server = server,
                                        .tlsName = tlsName,
                                        .authority = text,
                                        .user = "kubelet",
                                        .credentials = kube::BearerToken{cluster.getToken()},
                                        .context = "local"});
  out.setCa(authority);
  out.setBootstrapKubeconfig(kj::StringPtr(written));
  out.setClientCAs(kubernetesAuthorities(config).trusted.asBytes());
  out.setMachineCa(apiAuthorities(config).trusted.asBytes());
  auto kubelet = config.getMachine().getKubelet();
  auto version = versionOf(imageOf(kubelet), cluster.getKubernetesVersion()).version;
  auto providers = credentialProviderYaml(kubelet, version);
  KJ_DEFER(zeroize(providers.asArray()));
  out.setCredentialProviders(providers);
  return nullptr;
}

bool isRegistered(rpc::KubeletSpecSpec::Reader spec) {
  for (auto argument : spec.getArguments()) {
    if (argument.startsWith("--kubeconfig=")) return true;
  }
  return false;
}

ContainerSpec kubeletContainer(rpc::KubeletSpecSpec::Reader spec) {
  ContainerSpec container;
  container.image = kj::str(spec.getImage());
  kj::Vector<kj::String> arguments;
  arguments.add(kj::str("/usr/local/bin/kubelet"));
  for (auto argument : spec.getArguments()) arguments.add(kj::str(argument));
  container.arguments = arguments.releaseAsArray();
  kj::Vector<ContainerMount> mounts;
  mounts.add(ContainerMount{
      .source = kj::str("sysfs"),
      .destination = kj::str("/sys"),
      .type = kj::str("sysfs"),
      .options = kj::arr(kj::str("nosuid"), kj::str("noexec"), kj::str("nodev"), kj::str("ro"))});
  for (auto path : kLookedAt) mounts.add(mountWith(path, path, {"bind", "ro"}));
  mounts.add(mountWith(kMachineId, "/etc/machine-id", {"bind", "ro"}));
  if (spec.getCredentialProviders().size() > 0) {
    mounts.add(mountWith(kCredentialPrograms, kCredentialPrograms, {"bind", "ro"}));
  }
  for (auto path : kShared) mounts.add(mountWith(path, path, {"rbind", "rshared", "rw"}));
  for (auto extra : spec.getExtraMounts()) {
    mounts.add(ContainerMount{.source = kj::str(extra.getSource()),
                              .destination = kj::str(extra.getDestination()),
                              .type = kj::str(extra.getType()),
                              .options = optionsOf(extra),
                              .uids = idsOf(extra.getUidMappings()),
                              .gids = idsOf(extra.getGidMappings())});
  }
  container.mounts = mounts.releaseAsArray();
  container.privileged = true;
  return container;
}

kj::String kubeconfigValue(kj::StringPtr kubeconfig, kj::StringPtr key) {
  auto wanted = kj::str(key, ": ");
  for (auto line : Lines(kubeconfig)) {
    while (line.size() > 0 && (line[0] == ' ' || line[0] == '-')) line = line.slice(1, line.size());
    if (line.size() < wanted.size() || line.slice(0, wanted.size()) != wanted.asArray()) continue;
    auto value = line.slice(wanted.size(), line.size());
    if (value.size() >= 2 && (value[0] == '"' || value[0] == '\'')) {
      value = value.slice(1, value.size() - 1);
    }
    return kj::heapString(value);
  }
  return kj::String();
}

kj::String serverOf(kj::StringPtr kubeconfig) {
  return kubeconfigValue(kubeconfig, "server");
}

kj::String tlsNameOf(kj::StringPtr kubeconfig) {
  return kubeconfigValue(kubeconfig, "tls-server-name");
}

// Arguments that a kubelet reads only when it registers its node; later kubed keeps the Node
// object.
constexpr kj::StringPtr kRegistrationArguments[] = {"--node-labels="_kj,
                                                    "--register-with-taints="_kj};

kj::String kubeletDigest(rpc::KubeletSpecSpec::Reader spec,
                         rpc::KubeletSecretsSpec::Reader secrets) {
  Sha256 digest;
  auto add = [&](kj::ArrayPtr<const kj::byte> bytes) {
    auto size = kj::str(bytes.size(), ":");
    digest.add(size.asBytes());
    digest.add(bytes);
  };
  add(spec.getImage().asBytes());
  add(spec.getConfig().asBytes());
  for (auto argument : spec.getArguments()) {
    bool registers = false;
    for (auto name : kRegistrationArguments) registers = registers || argument.startsWith(name);
    if (!registers) add(argument.asBytes());
  }
  for (auto mount : spec.getExtraMounts()) {
    for (auto text : {mount.getSource(), mount.getDestination(), mount.getType()}) {
      add(text.asBytes());
    }
    for (auto option : mount.getOptions()) add(option.asBytes());
    for (auto ids : {mount.getUidMappings(), mount.getGidMappings()}) {
      for (auto range : ids) {
        add(kj::str(range.getContainerID(), ":", range.getHostID(), ":", range.getSize())
                .asBytes());
      }
    }
  }
  add(secrets.getCa());
  add(serverOf(secrets.getBootstrapKubeconfig()).asBytes());
  auto tlsName = tlsNameOf(secrets.getBootstrapKubeconfig());
  if (tlsName.size() > 0) add(tlsName.asBytes());
  // Not without programs: kubelets that an earlier release has started run on.
  if (secrets.getCredentialProviders().size() > 0) add(secrets.getCredentialProviders().asBytes());
  return digest.hex();
}

}  // namespace talos::machined
