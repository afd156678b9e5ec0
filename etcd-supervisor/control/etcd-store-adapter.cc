#include "etcd-supervisor/control/etcd-store-adapter.h"

#include "common/base/error.h"
#include "common/base/log.h"

namespace talos::supervisor {
namespace {

constexpr kj::StringPtr kId = "etcd"_kj, kControlPlaneId = "control-plane"_kj;

kj::Vector<kj::String> textsOf(capnp::List<capnp::Text>::Reader list) {
  kj::Vector<kj::String> result;
  for (auto text : list) result.add(kj::str(text));
  return result;
}

kj::Vector<Argument> arguments(capnp::List<config::StringPair>::Reader list) {
  kj::Vector<Argument> result;
  for (auto argument : list) {
    result.add(Argument{kj::str(argument.getKey()), kj::str(argument.getValue())});
  }
  return result;
}

Config read(rpc::EtcdConfigSpec::Reader spec) {
  return {kj::str(spec.getName()),
          kj::str(spec.getImage()),
          arguments(spec.getExtraArgs()),
          textsOf(spec.getAddresses()),
          textsOf(spec.getListenAddresses()),
          textsOf(spec.getPeers()),
          textsOf(spec.getShared()),
          spec.getBootstraps()};
}

Wanted read(rpc::EtcdSpecSpec::Reader spec) {
  return {kj::str(spec.getWaitsFor()), kj::str(spec.getImage()), arguments(spec.getArguments()),
          kj::str(spec.getRecoverFrom()), spec.getSkipHashCheck()};
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
}

void setTexts(capnp::List<capnp::Text>::Builder out, kj::ArrayPtr<const kj::String> list) {
  for (auto i : kj::indices(list)) out.set(i, list[i]);
}

void fill(rpc::EtcdStatusSpec::Builder out, const Status& status) {
  out.setPhase(status.phase);
  out.setMember(status.member);
  out.setLeader(status.leader);
  out.setVoters(status.voters);
  out.setTolerates(status.tolerates);
  out.setMessage(status.message);
  setTexts(out.initAlarms(status.alarms.size()), status.alarms);
  out.setChanged(status.changed);
}

void fill(rpc::EtcdMemberSpec::Builder out, const etcd::Member& member) {
  out.setName(member.name);
  setTexts(out.initPeerUrls(member.peerUrls.size()), member.peerUrls);
  setTexts(out.initClientUrls(member.clientUrls.size()), member.clientUrls);
  out.setLearner(member.learner);
}

Credentials credentials(rpc::KeyPair::Reader pair, capnp::Data::Reader authorities) {
  return {kj::str(authorities.asChars()), kj::str(pair.getCrt().asChars()),
          pki::Pem(kj::str(pair.getKey().asChars()))};
}

}  // namespace

StoreBoard::StoreBoard(StoreClient& store, TlsEndpoint& member, TlsEndpoint& api,
                       kj::Function<void()> changedFunction)
    : store(store), member(member), api(api), changed(kj::mv(changedFunction)) {
  configs = store.watch<rpc::EtcdConfigSpec>([this] { configChanged(); }, kId);
  secrets = store.watch<rpc::EtcdSecretsSpec>([this] { secretsChanged(); }, kId);
  services = store.watch<rpc::ServiceSpec>([this] { changed(); }, kId);
  specs = store.watch<rpc::EtcdSpecSpec>([this] { specsChanged(); }, kId);
  vips = store.watch<rpc::VipStatusSpec>([this] { vipsChanged(); });
  members = store.watch<rpc::MemberSpec>([this] { changed(); });
}

StoreBoard::~StoreBoard() noexcept(false) = default;

void StoreBoard::configChanged() {
  config_ = configs.find(kId).map([](auto spec) { return read(spec); });
  changed();
}

void StoreBoard::secretsChanged() {
  KJ_IF_MAYBE (spec, secrets.find(kId)) {
    auto failure = kj::runCatchingExceptions([&] {
      member.replace(credentials(spec->getEtcdPeer(), spec->getCa()));
      api.replace(credentials(spec->getApi(), spec->getApiCa()));
    });
    KJ_IF_MAYBE (e, failure) {
      log::error("cannot use the certificates of etcd", {{"error", messageOf(*e)}});
    } else {
      hasSecrets = true;
    }
  }
  changed();
}

// Only of interest until something was wanted: what the one before us wanted.
void StoreBoard::specsChanged() {
  if (wanted_ == nullptr) wanted_ = specs.find(kId).map([](auto spec) { return read(spec); });
  changed();
}

kj::Maybe<const Config&> StoreBoard::config() {
  bool synced = configs.synced() && services.synced() && specs.synced();
  if (!synced || !hasSecrets) return nullptr;
  KJ_IF_MAYBE (config, config_) {
    if (!config->addresses.empty()) return *config;
  }
  return nullptr;
}

bool StoreBoard::running() {
  KJ_IF_MAYBE (service, services.find(kId)) return service->getRunning();
  return false;
}

// A holder tells its lease once a second, which is no reason to look at the cluster.
void StoreBoard::vipsChanged() {
  auto now = kj::strArray(sharedAddresses(), " ");
  if (now == shared) return;
  shared = kj::mv(now);
  changed();
}

// One that waits for its turn has a place among the others, too.
kj::Vector<kj::String> StoreBoard::sharedAddresses() {
  kj::Vector<kj::String> addresses;
  for (auto status : vips) {
    if (status.getState() != "idle") addresses.add(kj::str(status.id()));
  }
  return addresses;
}

kj::Vector<kj::String> StoreBoard::kubernetesNodes() {
  kj::Vector<kj::String> addresses;
  for (auto node : members) {
    if (node.getMachineType() != "controlplane") continue;
    for (auto address : node.getAddresses()) addresses.add(kj::str(address));
  }
  return addresses;
}

kj::Maybe<const Wanted&> StoreBoard::wanted() {
  KJ_IF_MAYBE (wanted, wanted_) return *wanted;
  return nullptr;
}

kj::Promise<void> StoreBoard::want(Wanted next) {
  auto message = kj::heap<capnp::MallocMessageBuilder>();
  fill(message->initRoot<rpc::EtcdSpecSpec>(), next);
  StoreClient::Wanted all;
  all.insert(kj::str(kId), kj::mv(message));
  co_await store.replaceAll<rpc::EtcdSpecSpec>(kj::mv(all));
  wanted_ = kj::mv(next);
  changed();
}

kj::Promise<void> StoreBoard::tell(const Status& status, kj::ArrayPtr<const etcd::Member> members) {
  StoreClient::Wanted all, statuses;
  for (auto& one : members) {
    auto message = kj::heap<capnp::MallocMessageBuilder>();
    fill(message->initRoot<rpc::EtcdMemberSpec>(), one);
    all.insert(hex(one.id), kj::mv(message));
  }
  auto message = kj::heap<capnp::MallocMessageBuilder>();
  fill(message->initRoot<rpc::EtcdStatusSpec>(), status);
  statuses.insert(kj::str(kId), kj::mv(message));
  co_await store.replaceAll<rpc::EtcdMemberSpec>(kj::mv(all));
  co_await store.replaceAll<rpc::EtcdStatusSpec>(kj::mv(statuses));
}

kj::Promise<void> StoreBoard::tellSelfHosted(bool selfHosted) {
  auto message = kj::heap<capnp::MallocMessageBuilder>();
  message->initRoot<rpc::BootstrapStatusSpec>().setSelfHostedControlPlane(selfHosted);
  StoreClient::Wanted all;
  all.insert(kj::str(kControlPlaneId), kj::mv(message));
  return store.replaceAll<rpc::BootstrapStatusSpec>(kj::mv(all));
}

}  // namespace talos::supervisor
