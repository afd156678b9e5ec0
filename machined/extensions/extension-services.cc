#include "machined/extensions/extension-services.h"

#include <capnp/message.h>
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/extension/extension-names.h"
#include "machined/services/service-container.h"
#include "rpc/machine-resources.capnp.h"
#include "rpc/network-resources.capnp.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kRuntime = "cri"_kj;
constexpr int kScore = -600;
constexpr size_t kMostEnvironment = 1u << 20;
constexpr kj::StringPtr kSearchPath =
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"_kj;

kj::String serviceOf(kj::StringPtr name) {
  return kj::str(extension::kServicePrefix, name);
}

class When final : public Condition {
 public:
  When(kj::String text, kj::ConstFunction<bool()> test) : text(kj::mv(text)), test(kj::mv(test)) {}
  kj::String description() const override { return kj::str(text); }
  bool met() const override { return test(); }

 private:
  kj::String text;
  kj::ConstFunction<bool()> test;
};

bool isNetworkIn(Store& store, extension::NetworkState state) {
  KJ_IF_MAYBE (status, store.tryGet<rpc::NetworkStatusSpec>("status")) {
    switch (state) {
      case extension::NetworkState::ADDRESSES:
        return status->getAddressReady();
      case extension::NetworkState::CONNECTIVITY:
        return status->getConnectivityReady();
      case extension::NetworkState::HOSTNAME:
        return status->getHostnameReady();
      case extension::NetworkState::ETCFILES:
        return access("/etc/hosts", F_OK) == 0 && access("/etc/resolv.conf", F_OK) == 0;
    }
  }
  return false;
}

kj::StringPtr textOfState(extension::NetworkState state) {
  switch (state) {
    case extension::NetworkState::ADDRESSES:
      return "addresses"_kj;
    case extension::NetworkState::CONNECTIVITY:
      return "connectivity"_kj;
    case extension::NetworkState::HOSTNAME:
      return "hostname"_kj;
    case extension::NetworkState::ETCFILES:
      return "etcfiles"_kj;
  }
  return "a state that this version does not know"_kj;
}

kj::Own<Condition> fileExists(kj::StringPtr path) {
  return kj::heap<When>(kj::str("file \"", path, "\" to exist"),
                        [path = kj::str(path)]() { return access(path.cStr(), F_OK) == 0; });
}

bool isTimeSet(Store& store) {
  KJ_IF_MAYBE (status, store.tryGet<rpc::TimeStatusSpec>("node")) {
    return status->getSynced() || status->getSyncDisabled();
  }
  return false;
}

ServiceRestart restartOf(extension::Restart restart) {
  switch (restart) {
    case extension::Restart::ALWAYS:
      return ServiceRestart::kAlways;
    case extension::Restart::NEVER:
      return ServiceRestart::kNever;
    case extension::Restart::UNTIL_SUCCESS:
      return ServiceRestart::kUntilSuccess;
  }
  return ServiceRestart::kAlways;
}

// Sources of bind mounts that do not exist become folders; on a read-only file system the runtime
// reports what is missing.
void makeSources(const ContainerSpec& spec) {
  constexpr mode_t kMode = 0700;
  for (auto& mount : spec.mounts) {
    bool isBind = mount.type == nullptr || mount.type == "bind";
    if (!isBind || access(mount.source.cStr(), F_OK) == 0) continue;
    (void)kj::runCatchingExceptions([&] { makeDirectories(mount.source, kMode); });
  }
}

}  // namespace

void ExtensionServices::load() {
  for (auto service : deps.image.services()) {
    if (!extension::isExtensionName(service.getName())) continue;  // of another builder
    auto id = serviceOf(service.getName());
    deps.supervisor.load(definitionOf(service));
    capnp::MallocMessageBuilder scratch;
    auto state = scratch.initRoot<rpc::Service>();
    deps.supervisor.fill(id, state);
    // A service that a user stopped before machined restarted stays stopped.
    if (state.getState() == rpc::ServiceState::INITIALIZED) deps.supervisor.start(id);
  }
}

ServiceDefinition ExtensionServices::definitionOf(extension::ServiceFile::Reader service) {
  ServiceDefinition d;
  d.id = serviceOf(service.getName());
  d.command = kj::str("container ", d.id);
  d.cgroup = kj::str("system/", d.id);
  d.environment = kj::arr(kj::str(kSearchPath));
  d.awaited = false;
  d.restart = restartOf(service.getRestart());
  d.dependsOn.add(kj::str(kRuntime));
  for (auto dependency : service.getDepends()) {
    if (dependency.hasService()) d.dependsOn.add(kj::str(dependency.getService()));
    if (dependency.hasPath()) d.conditions.add(fileExists(dependency.getPath()));
    for (auto state : dependency.getNetwork()) {
      d.conditions.add(
          kj::heap<When>(kj::str("the network's ", textOfState(state)),
                         [&store = deps.store, state]() { return isNetworkIn(store, state); }));
    }
    if (dependency.getTime()) {
      d.conditions.add(kj::heap<When>(kj::str("the time to be synced"),
                                      [&store = deps.store]() { return isTimeSet(store); }));
    }
    if (dependency.getConfiguration()) {
      d.conditions.add(kj::heap<When>(
          kj::str("a document ExtensionServiceConfig \"", service.getName(), "\""),
          [this, name = kj::str(service.getName())]() { return configOf(name) != nullptr; }));
    }
  }
  auto container = service.getContainer();
  if (container.hasEnvironmentFile()) {
    d.conditions.add(fileExists(container.getEnvironmentFile()));
  }
  // A container that is started before the config is known would be restarted soon after.
  d.conditions.add(kj::heap<When>(kj::str("the machine config"), [this]() { return configured; }));
  d.body = kj::heap<ContainerBody>(deps.containerd, d.id,
                                   [this, service]() { return containerOf(service); });
  return d;
}

// Called before each start.
ContainerSpec ExtensionServices::containerOf(extension::ServiceFile::Reader service) {
  kj::Vector<kj::String> variables;
  auto container = service.getContainer();
  if (container.hasEnvironmentFile()) {
    KJ_IF_MAYBE (text, tryReadFile(container.getEnvironmentFile(), kMostEnvironment)) {
      variables = variablesOf(*text);
    }
  }
  auto spec =
      extensionContainer(service, variables, configOf(service.getName()), deps.configFolder);
  auto id = serviceOf(service.getName());
  spec.cgroup = kj::str("system/", id);
  spec.oomScore = deps.allowedScore(kScore);
  spec.capabilities = grantableCapabilities();
  writeFiles(service.getName());  // they are sources of mounts
  makeSources(spec);
  return spec;
}

kj::Maybe<const ExtensionConfig&> ExtensionServices::configOf(kj::StringPtr name) const {
  auto found = configs.find(name);
  if (found == configs.end()) return nullptr;
  return found->second;
}

kj::String ExtensionServices::digestFile(kj::StringPtr name) const {
  return kj::str(deps.configFolder, "/", name, "/.digest");
}

void ExtensionServices::writeFiles(kj::StringPtr name) {
  constexpr mode_t kFolderMode = 0700, kFileMode = 0600;
  auto folder = kj::str(deps.configFolder, "/", name);
  auto config = configOf(name);
  if (config == nullptr && access(folder.cStr(), F_OK) != 0) return;
  makeDirectories(folder, kFolderMode);
  KJ_IF_MAYBE (given, config) {
    for (auto& file : given->files) {
      auto path = extensionConfigPath(deps.configFolder, name, file.mountPath);
      writeFileAtomically(path, file.content, kFileMode);
    }
  }
  writeFileAtomically(digestFile(name), digestOfConfig(config), kFileMode);
}

bool ExtensionServices::runs(kj::StringPtr id) const {
  capnp::MallocMessageBuilder scratch;
  auto service = scratch.initRoot<rpc::Service>();
  deps.supervisor.fill(id, service);
  return service.getState() == rpc::ServiceState::RUNNING ||
         service.getState() == rpc::ServiceState::PREPARING;
}

bool ExtensionServices::has(kj::StringPtr name) const {
  for (auto service : deps.image.services()) {
    if (service.getName() == name) return true;
  }
  return false;
}

kj::Promise<void> ExtensionServices::configure(kj::Vector<ExtensionConfig> given) {
  configs.clear();
  for (auto& config : given) {
    kj::StringPtr name = config.name;
    configs.insert_or_assign(name, kj::mv(config));
  }
  configured = true;
  for (auto service : deps.image.services()) {
    if (!extension::isExtensionName(service.getName())) continue;
    auto id = serviceOf(service.getName());
    auto digest = tryReadFile(digestFile(service.getName())).orDefault(kj::String());
    if (digest == digestOfConfig(configOf(service.getName())) || !runs(id)) continue;
    co_await deps.supervisor.restart(id);
  }
}

}  // namespace talos::machined
