#include "machined/config/trust/api-certificates.h"

#include <algorithm>

#include "common/base/error.h"
#include "common/wire/roles.h"
#include "machined/config/controllers/controller-dependencies.h"
#include "machined/config/trust/certificate-renewal.h"
#include "machined/config/trust/join-controller.h"
#include "machined/config/trust/kept-identity.h"
#include "machined/config/trust/stored-names.h"
#include "machined/config/trust/trust-config.h"
#include "machined/resources/controller-outputs.h"
#include "rpc/network-resources.capnp.h"

namespace talos::machined {
namespace {

struct Lives {
  pki::CertificateInfo server, client;
};
Lives inspectBoth(rpc::ApiCertificateSpec::Reader stored) {
  return {inspectPair(stored.getServer()), inspectPair(stored.getClient())};
}

}  // namespace

kj::Maybe<kj::StringPtr> whyIssue(rpc::ApiCertificateSpec::Reader stored,
                                  const pki::Authorities& authorities, const NodeNames& names,
                                  kj::Duration lifetime, kj::Date now) {
  auto sent = kj::str(stored.getServer().getCrt().asChars());
  if (stored.getCa() != authorities.trusted.asBytes() ||
      sent != pki::chainOf(sent, authorities.behind)) {
    return "the CA changed"_kj;
  }
  kj::Maybe<kj::StringPtr> reason;
  auto damaged = kj::runCatchingExceptions([&] {
    auto lives = inspectBoth(stored);
    reason = renewalCause(lives.server, names, lifetime, now);
    if (reason != nullptr) return;
    if (lives.client.organizations.size() != 1 ||
        lives.client.organizations[0] != kRoleImpersonator) {
      reason = "the role of the client changed"_kj;
      return;
    }
    reason = renewalCause(lives.client, lifetime, now);
  });
  if (damaged != nullptr) return "they are damaged"_kj;
  return reason;
}

kj::Date halfLife(rpc::ApiCertificateSpec::Reader stored) {
  auto lives = inspectBoth(stored);
  return std::min(talos::halfLife(lives.server), talos::halfLife(lives.client));
}

bool isGoodForMaintenance(rpc::ApiCertificateSpec::Reader stored, const NodeNames& names,
                          kj::Date now) {
  if (!stored.getMaintenance()) return false;
  bool good = false;
  auto damaged = kj::runCatchingExceptions([&] {
    auto info = inspectPair(stored.getServer());
    // The certificate has a common name even if the machine has no name.
    info.commonName = kj::str(names.commonName);
    good = renewalCause(info, names, kDefaultLifetime, now) == nullptr;
  });
  return damaged == nullptr && good;
}

kj::Date maintenanceHalfLife(rpc::ApiCertificateSpec::Reader stored) {
  return talos::halfLife(inspectPair(stored.getServer()));
}

namespace {

constexpr kj::StringPtr kMaintenanceName = "maintenance"_kj;

struct Issued {
  pki::CertificateAndKey server, client;
};

Issued issueBoth(kj::StringPtr authority, kj::StringPtr key, const NodeNames& names,
                 kj::Duration lifetime, kj::Date now) {
  auto client = clientOptions(names.commonName, lifetime, now);
  client.organizations = kj::arr(kj::str(kRoleImpersonator));
  return {pki::issue(authority, key, serverOptions(names, lifetime, now)),
          pki::issue(authority, key, kj::mv(client))};
}

}  // namespace

ApiController::ApiController(UvLoop& uv, kj::Timer& timer, const kj::Clock& clock,
                             ReadConfig readConfig, kj::Function<bool()> showsStateToAnybody)
    : uv(uv),
      clock(clock),
      readConfig(kj::mv(readConfig)),
      showsStateToAnybody(kj::mv(showsStateToAnybody)),
      renewal(timer, clock) {}

kj::Array<Controller::Input> ApiController::inputs() const {
  return kj::arr(input<rpc::MachineConfigSpec>(kMachineConfigId), input<rpc::NodeAddressSpec>(),
                 input<rpc::PlatformConfigSpec>(), input<rpc::HostnameSpecSpec>());
}
kj::Array<kj::StringPtr> ApiController::outputs() const {
  return typeNames<rpc::ApiCertificateSpec>();
}

kj::Promise<void> ApiController::reconcile(Store& store) {
  Outputs<rpc::ApiCertificateSpec> outputs(name());
  auto found = readConfig(store);
  if (found == nullptr) {
    if (showsStateToAnybody()) return maintain(store);
    outputs.apply(store);
    return kj::READY_NOW;
  }
  auto config = KJ_ASSERT_NONNULL(found);
  if (asksTrustd(config)) {
    outputs.apply(store);  // apid writes it from now on
    return kj::READY_NOW;
  }
  auto names = storedNames(store, apiCertSans(config));
  KJ_IF_MAYBE (stored, store.tryGet<rpc::ApiCertificateSpec>("api")) {
    if (whyIssue(*stored, apiAuthorities(config), names, apiCertLifetime(config), clock.now()) ==
        nullptr) {
      renewal.schedule(halfLife(*stored));
      return kj::READY_NOW;
    }
  }
  return renew(store, config, kj::mv(names));
}

// Makes one key operation, which does not need the thread pool.
kj::Promise<void> ApiController::maintain(Store& store) {
  auto names = storedNames(store, nullptr);
  pki::Pem key;
  KJ_IF_MAYBE (stored, store.tryGet<rpc::ApiCertificateSpec>("api")) {
    if (isGoodForMaintenance(*stored, names, clock.now())) {
      renewal.schedule(maintenanceHalfLife(*stored));
      return kj::READY_NOW;
    }
    if (stored->getMaintenance()) key = pki::Pem(kj::str(stored->getServer().getKey().asChars()));
  }
  if (kj::StringPtr(key).size() == 0) key = pki::makeKey(pki::KeyType::kEd25519);
  auto options = serverOptions(names, kDefaultLifetime, clock.now());
  if (names.commonName.size() == 0) options.commonName = kMaintenanceName;
  auto certificate = pki::selfSign(key, options);
  Outputs<rpc::ApiCertificateSpec> outputs(name());
  auto spec = outputs.add("api");
  spec.initServer().setCrt(certificate.asBytes());
  spec.getServer().setKey(key.bytes());
  spec.setMaintenance(true);
  renewal.schedule(maintenanceHalfLife(spec.asReader()));
  outputs.apply(store);
  return kj::READY_NOW;
}

kj::Promise<void> ApiController::renew(Store& store, config::Config::Reader config,
                                       NodeNames names) {
  auto ca = config.getMachine().getCa();
  auto authorities = apiAuthorities(config);
  auto authority = kj::str(ca.getCrt().asChars());
  pki::Pem key(kj::str(ca.getKey().asChars()));
  auto issued =
      co_await uv.blocking([authority = kj::mv(authority), key = kj::mv(key), names = kj::mv(names),
                            lifetime = apiCertLifetime(config), now = clock.now()] {
        return issueBoth(authority, key, names, lifetime, now);
      });
  // Clients that trust only an additional CA verify the server through it.
  issued.server.certificate = pki::chainOf(issued.server.certificate, authorities.behind);
  Outputs<rpc::ApiCertificateSpec> outputs(name());
  auto spec = outputs.add("api");
  spec.setCa(authorities.trusted.asBytes());
  fillPair(spec.initServer(), issued.server);
  fillPair(spec.initClient(), issued.client);
  renewal.schedule(halfLife(spec.asReader()));
  // The record of a node whose config had no key is apid's. A watcher may miss that it was away, so
  // the versions continue.
  KJ_IF_MAYBE (stored, store.tryGet<rpc::ApiCertificateSpec>("api")) {
    if (stored->metadata().getOwner() == kApidOwner) {
      outputs.beginAt("api", stored->version() + 1);
      store.destroy("", typeName<rpc::ApiCertificateSpec>(), "api", kApidOwner);
    }
  }
  outputs.apply(store);
}

kj::Own<Controller> apiController(ControllerDependencies& deps) {
  return kj::heap<ApiController>(deps.uv, deps.timer, deps.clock,
                                 KJ_BIND_METHOD(deps.config, tryConfig),
                                 [&deps]() { return deps.showsStateToAnybody(); });
}

}  // namespace talos::machined
