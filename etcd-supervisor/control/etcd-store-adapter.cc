#include "etcd-supervisor/control/etcd-store-adapter.h"

#include "common/base/error.h"
#include "common/base/fill-list.h"
#include "common/base/log.h"
#include "common/tls/pki.h"

namespace talos::supervisor {
namespace {

constexpr kj::StringPtr kId = "etcd"_kj, kControlPlaneId = "control-plane"_kj;

kj::Vector<Argument> arguments(capnp::List<config::StringPair>::Reader list) {
  kj::Vector<Argument> result;
  for (auto argument : list) {
    result.add(Argument{kj::str(argument.getKey()), kj::str(argument.getValue())});
  }
  return result;
}

Config read(ResourceOf<rpc::EtcdConfigSpec> spec) {
  return {.name = kj::str(spec.getName()),
          .image = kj::str(spec.getImage()),
          .extraArgs = arguments(spec.getExtraArgs()),
          .addresses = textsOf(spec.getAddresses()),
          .listenAddresses = textsOf(spec.getListenAddresses()),
          .peers = textsOf(spec.getPeers()),
          .shared = textsOf(spec.getShared()),
          .bootstraps = spec.getBootstraps(),
          .version = spec.version()};
}

Wanted read(rpc::EtcdSpecSpec::Reader spec) {
  return {.waitsFor = kj::str(spec.getWaitsFor()),
          .image = kj::str(spec.getImage()),
          .arguments = arguments(spec.getArguments()),
          .recoverFrom = kj::str(spec.getRecoverFrom()),
          .skipHashCheck = spec.getSkipHashCheck(),
          .configVersion = spec.getConfigVersion(),
          .formerAddresses = textsOf(spec.getFormerAddresses()),
          .proxy = kj::str(spec.getProxy())};
}

void fill(rpc::EtcdSpecSpec::Builder out, const Wanted& wanted) {
  out.setWaitsFor(wanted.waitsFor);
  out.setImage(wanted.image);
  auto list = out.initArguments(static_cast<unsigned>(wanted.arguments.size()));
  for (auto i : kj::indices(wanted.arguments)) {
    list[i].setKey(wanted.arguments[i].key);
    list[i].setValue(wanted.arguments[i].value);
  }
  out.setRecoverFrom(wanted.recoverFrom);
  out.setSkipHashCheck(wanted.skipHashCheck);
  out.setConfigVersion(wanted.configVersion);
  fillTexts(out.initFormerAddresses(static_cast<unsigned>(wanted.formerAddresses.size())),
            wanted.formerAddresses);
  out.setProxy(wanted.proxy);
}

void fill(rpc::EtcdStatusSpec::Builder out, const Status& status) {
  out.setPhase(status.phase);
  out.setMember(status.member);
  out.setLeader(status.leader);
  out.setVoters(status.voters);
  out.setTolerates(status.tolerates);
  out.setMessage(status.message);
  fillTexts(out.initAlarms(status.alarms.size()), status.alarms);
  out.setChanged(status.changed);
}

void fill(rpc::EtcdMemberSpec::Builder out, const etcd::Member& member) {
  out.setName(member.name);
  fillTexts(out.initPeerUrls(member.peerUrls.size()), member.peerUrls);
  fillTexts(out.initClientUrls(member.clientUrls.size()), member.clientUrls);
  out.setLearner(member.learner);
}

}  // namespace

StoreAdapter::StoreAdapter(StoreClient& store, TlsEndpoint& member, TlsEndpoint& api,
                           kj::Function<void()> changed)
    : store(store), member(member), api(api), inputs(store, kj::mv(changed)) {
  inputs.watch(configs, kId, [this] { configChanged(); });
  inputs.watch(secrets, kId, [this] { secretsChanged(); });
  inputs.watch(services, kId);
  inputs.watch(specs, kId, [this] { specsChanged(); });
  inputs.watch(vips, "", [this] { vipsChanged(); });
  inputs.watch(members);
  inputs.watch(addresses, "", [] {});  // read at each search
}

StoreAdapter::~StoreAdapter() noexcept(false) = default;

void StoreAdapter::configChanged() {
  config_ = configs.find(kId).map([](auto spec) { return read(spec); });
  inputs.announce();
}

void StoreAdapter::secretsChanged() {
  KJ_IF_MAYBE (spec, secrets.find(kId)) {
    auto failure = kj::runCatchingExceptions([&] {
      member.replace(credentialsOf(spec->getEtcdPeer(), spec->getCa()));
      api.replace(credentialsOf(spec->getApi(), spec->getApiCa()));
    });
    KJ_IF_MAYBE (e, failure) {
      log::error("cannot use the certificates of etcd", {{"error", messageOf(*e)}});
    } else {
      hasSecrets = true;
    }
  }
  inputs.announce();
}

kj::Array<kj::byte> StoreAdapter::sign(const SnapshotStatement& statement) {
  KJ_IF_MAYBE (spec, secrets.find(kId)) {
    auto member = spec->getEtcdPeer();
    pki::Pem key(kj::str(member.getKey().asChars()));
    return signSnapshot(statement, kj::str(member.getCrt().asChars()), key);
  }
  fail(ErrorKind::kUnavailable, "this node has no certificate of etcd");
}

// Reads the spec of the process before, until this process has written one.
void StoreAdapter::specsChanged() {
  if (wanted_ == nullptr) wanted_ = specs.find(kId).map([](auto spec) { return read(spec); });
  inputs.announce();
}

kj::Maybe<const Config&> StoreAdapter::config() {
  bool synced = configs.synced() && services.synced() && specs.synced();
  if (!synced || !hasSecrets) return nullptr;
  KJ_IF_MAYBE (config, config_) {
    if (!config->addresses.empty()) return *config;
  }
  return nullptr;
}

bool StoreAdapter::running() {
  KJ_IF_MAYBE (service, services.find(kId)) return service->getRunning();
  return false;
}

// Ignores changes of the holder's lease, which happen once a second and must not cause a probe of
// the cluster. A new holder causes one: the leadership of etcd may have to move away from it.
void StoreAdapter::vipsChanged() {
  kj::Vector<kj::String> states;
  for (auto status : vips) states.add(kj::str(status.id(), "=", status.getState()));
  auto now = kj::strArray(states, " ");
  if (now == shared) return;
  shared = kj::mv(now);
  inputs.announce();
}

// Returns the shared addresses, including an address that still waits for its election.
kj::Vector<kj::String> StoreAdapter::sharedAddresses() {
  kj::Vector<kj::String> addresses;
  for (auto status : vips) {
    if (status.getState() != "idle") addresses.add(kj::str(status.id()));
  }
  return addresses;
}

kj::Vector<kj::String> StoreAdapter::kubernetesNodes() {
  kj::Vector<kj::String> addresses;
  for (auto node : members) {
    if (node.getMachineType() != "controlplane") continue;
    for (auto address : node.getAddresses()) addresses.add(kj::str(address));
  }
  return addresses;
}

kj::Vector<Prefix> StoreAdapter::subnets() {
  kj::Vector<Prefix> result;
  for (auto status : addresses) {
    KJ_IF_MAYBE (prefix, Prefix::parse(status.getAddress())) result.add(*prefix);
  }
  return result;
}

kj::String StoreAdapter::authorities() {
  KJ_IF_MAYBE (spec, secrets.find(kId)) return kj::str(spec->getCa().asChars());
  return kj::String();
}

kj::Maybe<const Wanted&> StoreAdapter::wanted() {
  KJ_IF_MAYBE (wanted, wanted_) return *wanted;
  return nullptr;
}

kj::Promise<void> StoreAdapter::want(Wanted next) {
  co_await store.replaceAll<rpc::EtcdSpecSpec>(
      oneRecord<rpc::EtcdSpecSpec>(kId, [&](auto spec) { fill(spec, next); }));
  wanted_ = kj::mv(next);
  inputs.announce();
}

kj::Promise<void> StoreAdapter::publish(const Status& status,
                                        kj::ArrayPtr<const etcd::Member> members) {
  StoreClient::Wanted all;
  for (auto& one : members) {
    addRecord<rpc::EtcdMemberSpec>(all, hex(one.id), [&](auto spec) { fill(spec, one); });
  }
  auto statuses = oneRecord<rpc::EtcdStatusSpec>(kId, [&](auto spec) { fill(spec, status); });
  co_await store.replaceAll<rpc::EtcdMemberSpec>(kj::mv(all));
  co_await store.replaceAll<rpc::EtcdStatusSpec>(kj::mv(statuses));
}

kj::Promise<void> StoreAdapter::publishSelfHosted(bool selfHosted) {
  return store.replaceAll<rpc::BootstrapStatusSpec>(oneRecord<rpc::BootstrapStatusSpec>(
      kControlPlaneId, [&](auto spec) { spec.setSelfHostedControlPlane(selfHosted); }));
}

}  // namespace talos::supervisor
