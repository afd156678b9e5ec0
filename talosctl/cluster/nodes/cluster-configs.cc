#include "talosctl/cluster/nodes/cluster-configs.h"

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/config/config-generate.h"
#include "common/config/config.h"
#include "common/config/kubernetes/cluster-networks.h"
#include "common/memory/zeroize.h"
#include "talosctl/cluster/machines/qemu-arguments.h"
#include "talosctl/cluster/network/cluster-addresses.h"
#include "talosctl/cluster/nodes/cluster-plan.h"
#include "talosctl/cluster/nodes/node-patches.h"

namespace talos::cluster {
namespace {

config::MachineType typeOf(kj::StringPtr name) {
  if (name == "init") return config::MachineType::INIT;
  if (name == "controlplane") return config::MachineType::CONTROLPLANE;
  return config::MachineType::WORKER;
}

using talosctl::Patch;

constexpr kj::StringPtr kControlPlaneFile = "controlplane.yaml"_kj, kInitFile = "init.yaml"_kj,
                        kWorkerFile = "worker.yaml"_kj, kEarlierWorkerFile = "join.yaml"_kj;

// Returns the path of the workers' config in --input-dir. Throws if its two files differ, because
// the user may have changed either of them.
kj::String workerPath(kj::StringPtr folder) {
  auto path = kj::str(folder, "/", kWorkerFile), earlier = kj::str(folder, "/", kEarlierWorkerFile);
  auto text = tryReadFile(path), other = tryReadFile(earlier);
  KJ_DEFER({
    KJ_IF_MAYBE (t, text) zeroize(*t);
    KJ_IF_MAYBE (t, other) zeroize(*t);
  });
  KJ_IF_MAYBE (t, text) {
    KJ_IF_MAYBE (o, other) {
      if (*t != *o) {
        fail(ErrorKind::kConflict, kj::str(path, " and ", earlier,
                                           " are the config of the workers under two names, and "
                                           "differ; remove one of them"));
      }
    }
    return path;
  }
  return kj::mv(other == nullptr ? path : earlier);
}

// Reads the document and its type from --input-dir.
kj::String existing(kj::StringPtr folder, config::MachineType type) {
  auto path = type == config::MachineType::WORKER ? workerPath(folder)
              : type == config::MachineType::INIT ? kj::str(folder, "/", kInitFile)
                                                  : kj::str(folder, "/", kControlPlaneFile);
  auto text = readFile(path);
  auto parsed = config::parse(text, path);
  if (!parsed.good()) fail(ErrorKind::kInvalidArgument, render(parsed.problems()));
  if (parsed.get().getMachine().getType() != type) {
    fail(ErrorKind::kInvalidArgument,
         kj::str(path, ": machine.type does not match the name of the file"));
  }
  return text;
}

// Returns the 50th address of the network. InvalidArgument if it is outside, or if a node has it.
Ip sharedAddress(rpc::LocalCluster::Reader cluster) {
  constexpr kj::byte kPlace = 50;
  auto network = networksOf(cluster)[0];
  auto bytes = kj::heapArray<kj::byte>(network.address.bytes());
  bytes.back() |= kPlace;
  auto address = KJ_ASSERT_NONNULL(Ip::fromBytes(bytes));
  auto refuse = [](auto&&... error) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("--use-vip: the nodes share the 50th address of the network, ", error...));
  };
  if (!network.contains(address) || network.length + 6 > network.address.bits()) {
    refuse("and ", network, " has no room for it; use a larger --cidr");
  }
  for (auto node : cluster.getNodes()) {
    if (address != Ip::require(node.getAddress())) continue;
    refuse("and ", address, " is the address of ", node.getName(), "; use fewer than 49 nodes");
  }
  return address;
}

// Refuses nodes in Kubernetes' own networks: Kubernetes routes these networks itself, so it accepts
// no node address in them.
void checkSubnets(rpc::LocalCluster::Reader cluster, config::Cluster::Reader config) {
  auto check = [&](kj::ArrayPtr<const kj::String> subnets, kj::StringPtr what, kj::StringPtr key) {
    for (auto& text : subnets) {
      auto subnet = KJ_ASSERT_NONNULL(Prefix::parse(text));  // the config is valid
      for (auto& network : networksOf(cluster)) {
        if (!network.overlaps(subnet)) continue;
        fail(ErrorKind::kInvalidArgument,
             kj::str("the network of the nodes, ", network, ", overlaps that of ", what, ", ",
                     subnet, " (", key, "); use another --cidr"));
      }
    }
  };
  check(config::podSubnets(config), "pods", "cluster.network.podSubnets");
  check(config::serviceSubnets(config), "Services", "cluster.network.serviceSubnets");
}

class NodeConfigs {
 public:
  NodeConfigs(rpc::LocalCluster::Reader cluster, const ConfigOptions& options)
      : cluster(cluster), options(options), prefix(networksOf(cluster)[0].length) {
    if (options.inputFolder.size() == 0) secrets = config::makeSecrets(options.generate);
    if (options.wireguardCidr.size() > 0) {
      wireguard = wireguardPatches(cluster, options.wireguardCidr);
    }
    if (options.insecureRegistries.size() > 0) {
      common.add(insecureRegistries(options.insecureRegistries));
    }
    if (options.customCniUrl.size() > 0) common.add(customCni(options.customCniUrl));
    if (cluster.getWithMetrics()) common.add(metricsPatch());
    if (options.imageCache) common.add(imageCachePatch());
    for (auto node : cluster.getNodes()) {
      if (!config::isControlPlane(typeOf(node.getType()))) continue;
      controlPlane.add(kj::str(node.getAddress()));
      if (endpoints.size() == 0 || !options.firstNodeIsEndpoint) {
        endpoints.add(kj::str(node.getEndpoint()));
      }
    }
    if (options.endpoint.size() > 0) {
      endpoints.clear();
      endpoints.add(kj::str(options.endpoint));
    }
  }
  ~NodeConfigs() noexcept(false) {
    for (auto& patch : wireguard) zeroize(patch.text);
  }
  KJ_DISALLOW_COPY_AND_MOVE(NodeConfigs);

  kj::String of(size_t index) {
    auto node = cluster.getNodes()[index];
    auto type = typeOf(node.getType());
    auto text = made(node, type);
    auto step = [&](kj::ArrayPtr<const Patch> patches) {
      auto next = talosctl::applyPatches(text, "the generated config", patches,
                                         talosctl::Patched::kGenerated, options.warnings);
      zeroize(text);
      text = kj::mv(next);
    };
    KJ_ON_SCOPE_FAILURE(zeroize(text));
    if (wireguard.size() > 0) step(wireguard.slice(index, index + 1));
    step(common);
    bool encrypts = options.encryptState || options.encryptEphemeral;
    if (encrypts && !isContainer(node)) {
      step(kj::arr(encryption(options.encryptState, options.encryptEphemeral)));
    }
    if (!options.userDisks.empty() && !isContainer(node)) {
      step(kj::arr(userDisksPatch(node, options.userDisks)));
    }
    step(options.patches);
    step(config::isControlPlane(type) ? options.controlPlanePatches : options.joinPatches);
    auto parsed = config::parse(text, "the patched config");
    if (!parsed.good()) fail(ErrorKind::kInvalidArgument, render(parsed.problems()));
    if (options.warnings != nullptr) talosctl::addWarnings(*options.warnings, parsed.problems());
    checkSubnets(cluster, parsed.get().getCluster());
    return kj::mv(text);
  }

  Talosconfig client() {
    KJ_IF_MAYBE (own, secrets) {
      return config::adminConfig(*own, cluster.getName(), endpoints, controlPlane);
    }
    // Uses only the cluster's own context, because the file may contain all clusters of the user.
    auto theirs = Talosconfig::load(kj::str(options.inputFolder, "/talosconfig"));
    auto& context = theirs.resolve();
    context.endpoints.clear();
    context.nodes.clear();
    for (auto& endpoint : endpoints) context.endpoints.add(kj::str(endpoint));
    for (auto& node : controlPlane) context.nodes.add(kj::str(node));
    Talosconfig config;
    config.add(theirs.currentName(), kj::mv(context));
    return config;
  }

 private:
  rpc::LocalCluster::Reader cluster;
  const ConfigOptions& options;
  unsigned prefix;
  kj::Maybe<config::Secrets> secrets;  // nullptr: the configs exist
  kj::Vector<Patch> wireguard, common;
  kj::Vector<kj::String> controlPlane, endpoints;

  // Returns the config with the settings of the node, before any patch.
  kj::String made(rpc::LocalNode::Reader node, config::MachineType type) {
    auto cidr = kj::str(node.getAddress(), "/", prefix);
    auto networks = networksOf(cluster);
    auto cidr6 =
        networks.size() == 2 ? kj::str(node.getAddress6(), "/", networks[1].length) : kj::String();
    kj::Vector<kj::String> certSans;
    certSans.add(kj::str(node.getEndpoint()));
    if (options.endpoint.size() > 0) certSans.add(kj::str(options.endpoint));
    auto gateway = kj::arr(kj::str(cluster.getGateway()));
    bool ipv6Alone = networks[0].address.family() == AF_INET6;
    config::NodeSettings settings;
    settings.hostname = node.getName();
    // The launcher of a container has already configured its eth0.
    settings.ignoreInterface = isContainer(node);
    if (!settings.ignoreInterface) {
      settings.cidr = cidr;
      settings.gateway = cluster.getGateway();
      settings.cidr6 = cidr6;
      settings.gateway6 = cluster.getGateway6();
    }
    settings.nameservers = options.nameservers;
    // The gateway answers DNS at its IPv4 address, unless the nodes have no uplink.
    if (settings.nameservers.size() == 0 && !cluster.getWithoutUplink() && !ipv6Alone) {
      settings.nameservers = gateway;
    }
    auto vip = options.useVip ? sharedAddress(cluster).toString() : kj::String();
    if (config::isControlPlane(type)) settings.vip = vip;
    // For a worker, trustd signs only addresses from which the worker calls.
    if (config::isControlPlane(type)) settings.certSans = certSans;
    settings.timeServers = gateway;
    KJ_IF_MAYBE (own, secrets) {
      kj::StringPtr host =
          vip.size() > 0 ? kj::StringPtr(vip) : kj::StringPtr(cluster.getNodes()[0].getAddress());
      auto kubernetes = kj::str("https://", Endpoint{Ip::require(host), 6443}.toString());
      auto generate = options.generate;
      generate.dualStack = cluster.getCidr6().size() > 0;
      kj::String address;
      kj::Vector<kj::StringPtr> arguments;
      if (generate.installArguments.size() > 0) {
        // The same network as before the installation: a node that was reset waits there for its
        // config.
        address = addressArgument(cluster, node);
        arguments.addAll(generate.installArguments);
        arguments.add(address);
        generate.installArguments = arguments;
      }
      return config::machineConfig(*own, type, cluster.getName(), kubernetes, generate, settings);
    }
    auto text = existing(options.inputFolder, type);
    KJ_DEFER(zeroize(text));
    auto own = kj::arr(settingsPatch(settings));
    return talosctl::applyPatches(text, "the existing config", own);
  }
};

}  // namespace

kj::String writeConfigs(rpc::LocalCluster::Reader cluster, kj::StringPtr stateFolder,
                        const ConfigOptions& options) {
  NodeConfigs configs(cluster, options);
  if (options.warnings != nullptr) {
    KJ_IF_MAYBE (warning, config::unsupportedRelease(options.generate.kubernetesVersion)) {
      options.warnings->add(kj::mv(*warning));
    }
  }
  auto client = configs.client();
  kj::Vector<kj::String> texts;
  KJ_DEFER(for (auto& text : texts) zeroize(text));
  for (auto i : kj::indices(cluster.getNodes())) texts.add(configs.of(i));
  for (auto i : kj::indices(texts)) {
    auto node = cluster.getNodes()[i];
    writeFileAtomically(kj::str(stateFolder, "/", node.getName(), ".yaml"), texts[i], 0600);
  }
  auto path = kj::str(stateFolder, "/talosconfig");
  client.save(path);
  return path;
}

}  // namespace talos::cluster
