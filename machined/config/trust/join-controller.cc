#include "machined/config/trust/join-controller.h"

#include "common/base/fill-list.h"
#include "common/base/join-token.h"
#include "common/text/texts.h"
#include "machined/config/controllers/controller-dependencies.h"
#include "machined/config/trust/stored-names.h"
#include "machined/config/trust/trust-config.h"
#include "machined/resources/controller-outputs.h"
#include "rpc/kubernetes-resources.capnp.h"
#include "rpc/network-resources.capnp.h"
#include "rpc/secret-resources.capnp.h"
#include "rpc/storage-resources.capnp.h"

namespace talos::machined {
namespace {

// Returns true for names that reach a machine only from itself: trustd refuses to sign them.
bool isLocal(kj::StringPtr name) {
  return name == "localhost" || name == "127.0.0.1" || name == "::1";
}

kj::Vector<kj::String> withoutLocal(kj::Vector<kj::String> names) {
  kj::Vector<kj::String> result;
  for (auto& name : names) {
    if (!isLocal(name)) result.add(kj::mv(name));
  }
  return result;
}

void fill(rpc::JoinSpec::Builder out, config::Config::Reader config,
          const kj::Vector<kj::String>& endpoints, NodeNames names) {
  auto machine = config.getMachine();
  fillTexts(out.initEndpoints(endpoints.size()), endpoints);
  out.setToken(machine.getToken());
  out.setCa(machine.getCa().getCrt());
  out.setAcceptedCAs(acceptedCas(machine.getAcceptedCAs()).asBytes());
  out.setCaHash(machine.getCaHash());
  out.setCommonName(names.commonName);
  auto dns = withoutLocal(kj::mv(names.dns)), addresses = withoutLocal(kj::mv(names.addresses));
  fillTexts(out.initDnsNames(dns.size()), dns);
  fillTexts(out.initAddresses(addresses.size()), addresses);
}

// Returns the config's hosts first: the others are from a cluster that was reached before.
kj::Vector<kj::String> trustdHosts(Store& store, config::Config::Reader config) {
  auto hosts = trustdEndpoints(config);
  for (auto endpoints : store.list<rpc::ApiEndpointsSpec>()) {
    for (auto address : endpoints.getAddresses()) addOnce(hosts, kj::str(address));
  }
  for (auto member : store.list<rpc::MemberSpec>()) {
    if (!isControlPlaneMember(member)) continue;
    for (auto address : member.getAddresses()) addOnce(hosts, kj::str(address));
  }
  return hosts;
}

}  // namespace

JoinController::JoinController(ReadConfig readConfig, kj::Maybe<kj::Own<JoinKey>> key)
    : readConfig(kj::mv(readConfig)), key(kj::mv(key)) {}

kj::Array<Controller::Input> JoinController::inputs() const {
  return kj::arr(input<rpc::MachineConfigSpec>(kMachineConfigId), input<rpc::HostnameSpecSpec>(),
                 input<rpc::ApiEndpointsSpec>(), input<rpc::MemberSpec>(),
                 input<rpc::MountStatusSpec>());
}
kj::Array<kj::StringPtr> JoinController::outputs() const {
  return typeNames<rpc::JoinSpec>();
}

// Returns empty without a join token, and while STATE is not mounted yet.
kj::Promise<pki::Pem> JoinController::keyFor(Store& store, kj::StringPtr token) {
  KJ_IF_MAYBE (k, key) {
    if (isJoinTokenLike(token)) {
      pki::Pem known;
      KJ_IF_MAYBE (stored, store.tryGet<rpc::JoinSpec>(kJoinId)) {
        known = pki::Pem(kj::heapString(stored->getKey().asChars()));
      }
      co_return pki::Pem(kj::str(co_await (*k)->get(known)));
    }
    co_await (*k)->remove();
  }
  co_return pki::Pem();
}

kj::Promise<void> JoinController::reconcile(Store& store) {
  pki::Pem requestKey;
  // A boot that has not read its config yet knows no token, and must not forget the key.
  KJ_IF_MAYBE (c, readConfig(store)) {
    pki::Pem token;
    if (asksTrustd(*c)) token = pki::Pem(kj::str(c->getMachine().getToken()));
    requestKey = co_await keyFor(store, token);
  }
  Outputs<rpc::JoinSpec> outputs(name());
  auto config = readConfig(store);
  KJ_IF_MAYBE (c, config) {
    if (asksTrustd(*c)) {
      kj::StringPtr hostname, domain;
      for (auto spec : store.list<rpc::HostnameSpecSpec>()) {
        hostname = spec.getHostname();
        domain = spec.getDomainname();
      }
      // trustd adds the address of the machine from which the request comes.
      auto out = outputs.add(kJoinId);
      fill(out, *c, trustdHosts(store, *c), nodeNames(hostname, domain, nullptr, apiCertSans(*c)));
      out.setKey(requestKey.bytes());
    }
  }
  outputs.apply(store);
}

bool asksTrustd(config::Config::Reader config) {
  return config.getMachine().getCa().getKey().size() == 0;
}

kj::Maybe<kj::String> whyNotJoined(Store& store) {
  if (store.tryGet<rpc::JoinSpec>(kJoinId) == nullptr) return nullptr;
  KJ_IF_MAYBE (status, store.tryGet<rpc::JoinStatusSpec>(kJoinId)) {
    if (status->getReady()) return nullptr;
    return kj::str(status->getMessage());
  }
  return kj::str("has no certificate yet");
}

kj::Own<Controller> joinController(ControllerDependencies& deps) {
  return kj::heap<JoinController>(KJ_BIND_METHOD(deps.config, tryConfig),
                                  kj::heap<JoinKey>(JoinKey::Dependencies{
                                      .uv = deps.uv,
                                      .isMounted = [&deps] { return deps.isStateMounted(); },
                                      .isStateToCome = [&deps] { return deps.isStateToCome(); }}));
}

}  // namespace talos::machined
