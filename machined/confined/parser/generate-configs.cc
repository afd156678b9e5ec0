#include "machined/confined/parser/generate-configs.h"

#include "common/base/error.h"
#include "common/config/config-generate.h"
#include "common/memory/zeroize.h"

namespace talos::parse {
namespace {

struct ClusterSettings {
  kj::String clusterName, endpoint, installDisk, installImage, kubernetesVersion, dnsDomain;
  kj::Vector<kj::String> additionalSans;

  explicit ClusterSettings(rpc::GenerateRequest::Reader request)
      : clusterName(kj::str(request.getClusterName())),
        endpoint(kj::str(request.getEndpoint())),
        installDisk(kj::str(request.getInstallDisk())),
        installImage(kj::str(request.getInstallImage())),
        kubernetesVersion(kj::str(request.getKubernetesVersion())),
        dnsDomain(kj::str(request.getDnsDomain())) {
    for (auto san : request.getAdditionalSans()) additionalSans.add(kj::str(san));
  }

  config::GenerateOptions options() const {
    config::GenerateOptions result;
    if (installDisk.size() > 0) result.installDisk = installDisk;
    result.installImage = installImage;
    result.kubernetesVersion = kubernetesVersion;
    if (dnsDomain.size() > 0) result.dnsDomain = dnsDomain;
    result.additionalSans = additionalSans;
    return result;
  }
};

config::Generated generateWith(const ClusterSettings& settings, const config::Secrets& secrets) {
  auto write = [&](config::MachineType type) {
    return config::machineConfig(secrets, type, settings.clusterName, settings.endpoint,
                                 settings.options());
  };
  return {write(config::MachineType::INIT), write(config::MachineType::CONTROLPLANE),
          write(config::MachineType::WORKER),
          config::adminConfig(secrets, settings.clusterName, nullptr).toYaml()};
}

}  // namespace

void answerGenerate(rpc::ParseRequest::Generate::Reader request, rpc::ParseAnswer::Builder out) {
  ClusterSettings settings(request.getRequest());
  kj::Maybe<config::Secrets> own;
  if (request.hasOwn()) {
    auto config = request.getOwn();
    own = config::secretsOf(config);
    auto cluster = config.getCluster();
    if (settings.clusterName.size() == 0) settings.clusterName = kj::str(cluster.getClusterName());
    if (settings.endpoint.size() == 0) {
      settings.endpoint = kj::str(cluster.getControlPlane().getEndpoint());
    }
  }
  config::checkEndpoint(settings.endpoint);
  config::Generated generated;
  KJ_IF_MAYBE (secrets, own) {
    generated = generateWith(settings, *secrets);
  } else {
    generated = generateWith(settings, config::makeSecrets(settings.options()));
  }
  struct File {
    kj::StringPtr name;
    kj::String& text;
  } files[] = {{"init.yaml"_kj, generated.init},
               {"controlplane.yaml"_kj, generated.controlplane},
               {"join.yaml"_kj, generated.join},
               {"talosconfig"_kj, generated.talosconfig}};
  auto documents = out.initGenerated(kj::size(files));
  for (auto i : kj::indices(files)) {
    documents[i].setName(files[i].name);
    documents[i].setContent(files[i].text.asBytes());
    zeroize(files[i].text);
  }
}

}  // namespace talos::parse
