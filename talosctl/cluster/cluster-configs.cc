#include "talosctl/cluster/cluster-configs.h"

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/zeroize.h"
#include "common/config/config.h"
#include "common/config/generate.h"
#include "talosctl/cluster/cluster-plan.h"

namespace talos::cluster {
namespace {

config::MachineType typeOf(kj::StringPtr name) {
  if (name == "init") return config::MachineType::INIT;
  if (name == "controlplane") return config::MachineType::CONTROLPLANE;
  return config::MachineType::WORKER;
}

kj::String patched(kj::StringPtr made, config::MachineType type, const ConfigOptions& options) {
  auto own = config::isControlPlane(type) ? options.controlPlanePatches : options.joinPatches;
  auto common = talosctl::applyPatches(made, "the generated config", options.patches);
  KJ_DEFER(zeroize(common));
  auto text = talosctl::applyPatches(common, "the generated config", own);
  auto parsed = config::parse(text, "the patched config");
  if (!parsed.good()) fail(ErrorKind::kInvalidArgument, render(parsed.problems()));
  return text;
}

}  // namespace

kj::String writeConfigs(rpc::LocalCluster::Reader cluster, kj::StringPtr stateFolder,
                        const ConfigOptions& options) {
  auto secrets = config::makeSecrets(options.generate);
  auto prefix = parseCidr(cluster.getCidr()).length;
  auto kubernetes = kj::str("https://", cluster.getNodes()[0].getAddress(), ":6443");
  auto timeServers = kj::arr(kj::str(cluster.getGateway()));
  kj::Vector<kj::String> endpoints, nodes, texts, controlPlane;
  for (auto node : cluster.getNodes()) {
    if (config::isControlPlane(typeOf(node.getType()))) {
      controlPlane.add(kj::str(node.getAddress()));
    }
  }
  for (auto node : cluster.getNodes()) {
    auto type = typeOf(node.getType());
    auto cidr = kj::str(node.getAddress(), "/", prefix);
    auto certSans = kj::arr(kj::str(node.getEndpoint()));
    config::NodeSettings settings;
    settings.hostname = node.getName();
    settings.cidr = cidr;
    settings.gateway = cluster.getGateway();
    settings.nameservers = options.nameservers;
    // trustd signs nothing for a worker but the address that it calls from.
    if (config::isControlPlane(type)) settings.certSans = certSans;
    settings.trustdEndpoints = controlPlane;
    settings.timeServers = timeServers;
    auto text = config::machineConfig(secrets, type, cluster.getName(), kubernetes,
                                      options.generate, settings);
    KJ_DEFER(zeroize(text));
    texts.add(patched(text, type, options));
  }
  for (size_t i = 0; i < texts.size(); ++i) {
    auto node = cluster.getNodes()[i];
    writeFileAtomically(kj::str(stateFolder, "/", node.getName(), ".yaml"), texts[i], 0600);
    zeroize(texts[i]);
    if (node.getType() == "join") continue;
    endpoints.add(kj::str(node.getEndpoint()));
    nodes.add(kj::str(node.getAddress()));
  }
  auto path = kj::str(stateFolder, "/talosconfig");
  config::adminConfig(secrets, cluster.getName(), endpoints, nodes).save(path);
  return path;
}

}  // namespace talos::cluster
