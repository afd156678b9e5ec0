#include "machined/config/controllers/join-controller.h"

#include "machined/config/controllers/controller-parts.h"
#include "machined/config/controllers/stored-names.h"
#include "machined/resources/controller-outputs.h"

namespace talos::machined {
namespace {

// What reaches a machine from itself only; trustd signs it for nobody.
bool isLocal(kj::StringPtr name) {
  return name == "localhost" || name == "127.0.0.1" || name == "::1";
}

template <typename List>
void setList(List list, const kj::Vector<kj::String>& texts) {
  for (size_t i = 0; i < texts.size(); ++i) list.set(i, texts[i]);
}

kj::Vector<kj::String> withoutLocal(kj::Vector<kj::String> names) {
  kj::Vector<kj::String> result;
  for (auto& name : names) {
    if (!isLocal(name)) result.add(kj::mv(name));
  }
  return result;
}

void fill(rpc::JoinSpec::Builder out, const MachineConfigView& config, NodeNames names) {
  setList(out.initEndpoints(config.trustdEndpoints.size()), config.trustdEndpoints);
  out.setToken(kj::StringPtr(config.trust.token));
  out.setCa(config.authority.asBytes());
  out.setCaHash(config.authorityHash);
  out.setCommonName(names.commonName);
  auto dns = withoutLocal(kj::mv(names.dns)), addresses = withoutLocal(kj::mv(names.addresses));
  setList(out.initDnsNames(dns.size()), dns);
  setList(out.initAddresses(addresses.size()), addresses);
}

}  // namespace

JoinController::JoinController(ReadConfig readConfig) : readConfig(kj::mv(readConfig)) {}

kj::Array<Controller::Input> JoinController::inputs() const {
  return kj::arr(input<rpc::MachineConfigSpec>(kMachineConfigId), input<rpc::HostnameSpecSpec>());
}
kj::Array<kj::StringPtr> JoinController::outputs() const {
  return typeNames<rpc::JoinSpec>();
}

kj::Promise<void> JoinController::reconcile(Store& store) {
  Outputs<rpc::JoinSpec> outputs(name());
  auto config = readConfig(store);
  KJ_IF_MAYBE (c, config) {
    if (asksTrustd(*c)) {
      kj::StringPtr hostname, domain;
      for (auto spec : store.list<rpc::HostnameSpecSpec>()) {
        hostname = spec.getHostname();
        domain = spec.getDomainname();
      }
      // Of the machine's own addresses the certificate has the one that trustd sees.
      fill(outputs.add(kJoinId), *c, nodeNames(hostname, domain, nullptr, c->certSans));
    }
  }
  outputs.apply(store);
  return kj::READY_NOW;
}

bool asksTrustd(const MachineConfigView& config) {
  return kj::StringPtr(config.authorityKey).size() == 0;
}

kj::Maybe<kj::String> whyNotJoined(Store& store) {
  if (store.tryGet<rpc::JoinSpec>(kJoinId) == nullptr) return nullptr;
  KJ_IF_MAYBE (status, store.tryGet<rpc::JoinStatusSpec>(kJoinId)) {
    if (status->getReady()) return nullptr;
    return kj::str(status->getMessage());
  }
  return kj::str("has no certificate yet");
}

kj::Own<Controller> joinController(ControllerParts& parts) {
  return kj::heap<JoinController>(KJ_BIND_METHOD(parts.config, view));
}

}  // namespace talos::machined
