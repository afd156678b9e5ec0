#include "machined/config/configuration-server.h"

#include <string.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/zeroize.h"
#include "common/config/generate.h"

namespace talos::machined {
namespace {

pki::Pem secret(kj::StringPtr text) {
  return pki::Pem(kj::str(text));
}
pki::Pem secret(capnp::Data::Reader bytes) {
  return pki::Pem(kj::str(bytes.asChars()));
}
pki::CertificateAndKey pair(config::CertificateAndKey::Reader from) {
  return {kj::str(from.getCrt().asChars()), secret(from.getKey())};
}

// Those of the cluster that a control-plane machine belongs to.
config::Secrets secretsOf(config::Config::Reader config) {
  auto machine = config.getMachine();
  auto cluster = config.getCluster();
  config::Secrets secrets;
  secrets.machineAuthority = pair(machine.getCa());
  secrets.etcdAuthority = pair(cluster.getEtcd().getCa());
  secrets.kubernetesAuthority = pair(cluster.getCa());
  secrets.aggregatorAuthority = pair(cluster.getAggregatorCA());
  secrets.serviceAccountKey = secret(cluster.getServiceAccount().getKey());
  secrets.machineToken = secret(machine.getToken());
  secrets.clusterToken = secret(cluster.getToken());
  secrets.encryptionSecret = secret(cluster.getAescbcEncryptionSecret());
  return secrets;
}

void fillTexts(capnp::List<capnp::Text>::Builder out, kj::ArrayPtr<const kj::String> texts) {
  for (auto i : kj::indices(texts)) out.set(i, texts[i]);
}

// What is out of range stays so.
kj::Duration trialLength(uint64_t milliseconds) {
  constexpr uint64_t kMost = 2 * (kLongestTrial / kj::MILLISECONDS);
  return static_cast<int64_t>(kj::min(milliseconds, kMost)) * kj::MILLISECONDS;
}

struct Wish {
  kj::String clusterName, endpoint, installDisk, installImage, kubernetesVersion, dnsDomain;
  kj::Vector<kj::String> additionalSans;

  explicit Wish(rpc::GenerateRequest::Reader request)
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

config::Generated generateWith(const Wish& wish, const config::Secrets& secrets) {
  auto write = [&](config::MachineType type) {
    return config::machineConfig(secrets, type, wish.clusterName, wish.endpoint, wish.options());
  };
  auto endpoints = kj::arr(kj::str("127.0.0.1"));
  return {write(config::MachineType::INIT), write(config::MachineType::CONTROLPLANE),
          write(config::MachineType::WORKER),
          config::adminConfig(secrets, wish.clusterName, endpoints).toYaml()};
}

}  // namespace

ConfigurationServer::ConfigurationServer(ConfigKeeper& keeper, MachineConfigReader& reader,
                                         Store& store, UvLoop& uv, ConfigKeeper::Caller caller,
                                         kj::String bootId, PreviewNetwork preview)
    : keeper(keeper),
      reader(reader),
      store(store),
      uv(uv),
      caller(caller),
      bootId(kj::mv(bootId)),
      preview(kj::mv(preview)) {}

kj::Promise<void> ConfigurationServer::apply(ApplyContext context) {
  auto request = context.getParams().getRequest();
  ConfigKeeper::Request asked{.document = kj::heapArray(request.getDocument().asChars()),
                              .mode = request.getMode(),
                              .dryRun = request.getDryRun(),
                              .caller = caller,
                              .trial = trialLength(request.getTryTimeoutMs()),
                              .ifVersion = request.getIfVersion()};
  auto trial = asked.trial;
  zeroizeReceived(request.getDocument());
  context.releaseParams();
  auto outcome = co_await keeper.apply(kj::mv(asked));
  NetworkPreview network;
  KJ_IF_MAYBE (wanted, outcome.wanted) {
    kj::Maybe<kj::String> unknown;
    try {
      network = co_await preview(*wanted);
    } catch (...) {
      unknown = messageOf(kj::getCaughtExceptionAsKj());
    }
    KJ_IF_MAYBE (why, unknown) {
      outcome.warnings.add(kj::str("cannot predict the changes of the network: ", *why));
    }
  }
  auto result = context.getResults().initResult();
  result.setMode(outcome.mode);
  fillTexts(result.initWarnings(outcome.warnings.size()), outcome.warnings);
  auto changes = result.initChanges(outcome.changes.size());
  for (auto i : kj::indices(outcome.changes)) {
    changes[i].setPath(outcome.changes[i].path);
    changes[i].setLive(outcome.changes[i].live);
  }
  result.setDiff(outcome.diff);
  fillTexts(result.initNetworkPlan(network.steps.size()), network.steps);
  fillTexts(result.initNetworkProblems(network.problems.size()), network.problems);
  if (outcome.mode == rpc::ApplyMode::REBOOT) result.setBootId(bootId);
  if (outcome.mode == rpc::ApplyMode::TRY) result.setRevertsInMs(trial / kj::MILLISECONDS);
}

kj::Promise<void> ConfigurationServer::generate(GenerateContext context) {
  Wish wish(context.getParams().getRequest());
  kj::Maybe<config::Secrets> own;
  if (!keeper.inMaintenance()) {
    if (caller == ConfigKeeper::Caller::kVisitor) keeper.requireMaintenance();
    auto& running = KJ_UNWRAP_OR(
        reader.document(store),
        fail(ErrorKind::kFailedPrecondition, "this node is booting and has no config yet; retry"));
    auto config = running.get();
    if (!config::isControlPlane(config.getMachine().getType())) {
      fail(ErrorKind::kFailedPrecondition,
           "this node is a worker and does not have the secrets of the cluster; use a "
           "control-plane node");
    }
    own = secretsOf(config);
    if (wish.clusterName.size() == 0) {
      wish.clusterName = kj::str(config.getCluster().getClusterName());
    }
    if (wish.endpoint.size() == 0) {
      wish.endpoint = kj::str(config.getCluster().getControlPlane().getEndpoint());
    }
  }
  auto generated = co_await uv.blocking([wish = kj::mv(wish), own = kj::mv(own)]() {
    config::checkEndpoint(wish.endpoint);
    KJ_IF_MAYBE (secrets, own) return generateWith(wish, *secrets);
    return generateWith(wish, config::makeSecrets(wish.options()));
  });
  struct File {
    kj::StringPtr name;
    kj::String& text;
  } files[] = {{"init.yaml"_kj, generated.init},
               {"controlplane.yaml"_kj, generated.controlplane},
               {"join.yaml"_kj, generated.join},
               {"talosconfig"_kj, generated.talosconfig}};
  auto documents = context.getResults().initDocuments(kj::size(files));
  for (auto i : kj::indices(files)) {
    documents[i].setName(files[i].name);
    documents[i].setContent(files[i].text.asBytes());
    zeroize(files[i].text);
  }
}

}  // namespace talos::machined
