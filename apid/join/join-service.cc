#include "apid/join/join-service.h"

#include "apid/join/trustd-client.h"
#include "common/base/date.h"
#include "common/base/error.h"
#include "common/base/fill-list.h"
#include "common/base/log.h"
#include "common/memory/zeroize.h"
#include "common/net/dns-resolver.h"
#include "common/net/ip.h"
#include "common/tls/authorities.h"
#include "rpc/machine-resources.capnp.h"
#include "rpc/network-resources.capnp.h"
#include "rpc/secret-resources.capnp.h"

namespace talos::apid {
namespace {

constexpr kj::StringPtr kId = "api"_kj;

JoinConfig configOf(rpc::JoinSpec::Reader spec) {
  JoinConfig config;
  config.endpoints = textsOf(spec.getEndpoints());
  config.token = pki::Pem(kj::str(spec.getToken()));
  config.key = pki::Pem(kj::str(spec.getKey().asChars()));
  config.authority = kj::str(spec.getCa().asChars());
  config.accepted = kj::str(spec.getAcceptedCAs().asChars());
  config.authorityHash = kj::str(spec.getCaHash());
  config.commonName = kj::str(spec.getCommonName());
  config.dnsNames = textsOf(spec.getDnsNames());
  config.addresses = textsOf(spec.getAddresses());
  return config;
}

void fill(rpc::JoinStatusSpec::Builder out, const JoinReport& report) {
  out.setReady(report.ready);
  out.setEndpoint(report.endpoint);
  out.setMessage(report.message);
  out.setFailures(report.failures);
  out.setVerified(report.verified);
  KJ_IF_MAYBE (date, report.notBefore) out.setNotBefore(dateText(*date));
  KJ_IF_MAYBE (date, report.notAfter) out.setNotAfter(dateText(*date));
}

}  // namespace

JoinService::JoinService(kj::AsyncIoContext& io, const kj::Clock& clock, StoreClient& store,
                         NodeIdentity& identity)
    : lowLevel(*io.lowLevelProvider),
      eventPort(io.unixEventPort),
      timer(io.provider->getTimer()),
      store(store),
      identity(identity),
      joiner(timer, clock, *this) {
  specs = store.watch<rpc::JoinSpec>([this]() { specChanged(); });
  certificates = store.watch<rpc::ApiCertificateSpec>([this]() { certificateChanged(); });
  times = store.watch<rpc::TimeStatusSpec>([this]() { timeChanged(); });
  addresses = store.watch<rpc::NodeAddressSpec>([this]() { addressesChanged(); });
}

JoinService::~JoinService() noexcept(false) {}

double JoinService::random() {
  return std::uniform_real_distribution<double>(0, 1)(generator);
}

kj::Promise<kj::Array<kj::String>> JoinService::resolve(kj::StringPtr host) {
  return talos::resolve(eventPort, timer, host);
}

kj::Promise<TrustdAnswer> JoinService::requestCertificate(TrustdRequest request) {
  return callTrustd(lowLevel, timer, kj::mv(request));
}

void JoinService::specChanged() {
  KJ_IF_MAYBE (spec, specs.find(kId)) {
    auto config = configOf(*spec);
    identity.setJoinAuthority(config.authority.size() > 0
                                  ? pki::authoritiesOf(config.authority, config.accepted).trusted
                                  : kj::str());
    joiner.setConfig(kj::mv(config));
  } else {
    identity.setJoinAuthority("");
    joiner.setConfig(nullptr);
  }
}

void JoinService::certificateChanged() {
  KJ_IF_MAYBE (spec, certificates.find(kId)) {
    if (!spec->getMaintenance()) {
      auto server = spec->getServer();
      joiner.setIdentity(Identity{kj::str(spec->getCa().asChars()),
                                  kj::str(server.getCrt().asChars()),
                                  pki::Pem(kj::str(server.getKey().asChars()))});
      return;
    }
  }
  joiner.setIdentity(nullptr);
}

void JoinService::timeChanged() {
  for (auto time : times) joiner.setClock(time.getSynced(), time.getEpoch());
}

void JoinService::addressesChanged() {
  KJ_IF_MAYBE (current, addresses.find("current")) {
    kj::Vector<Ip> found;
    for (kj::StringPtr text : current->getAddresses()) {
      KJ_IF_MAYBE (address, Ip::parse(text)) found.add(address->unmapped());
    }
    joiner.setAddresses(found);
  }
}

kj::Promise<void> JoinService::storeIdentity(const Identity& fresh) {
  auto message = kj::heap<SecretMessage>();
  auto spec = message->initRoot<rpc::ApiCertificateSpec>();
  spec.setCa(fresh.authority.asBytes());
  spec.initServer().setCrt(fresh.certificate.asBytes());
  spec.getServer().setKey(fresh.key.bytes());
  StoreClient::Wanted wanted;
  wanted.insert(kj::str(kId), kj::mv(message));
  return store.replaceAll<rpc::ApiCertificateSpec>(kj::mv(wanted));
}

void JoinService::report(JoinReport report) {
  pending = Pending{kj::mv(report)};
  reportChanged.raise();
}

void JoinService::clearReport() {
  pending = Pending{nullptr};
  reportChanged.raise();
}

// Stores only the newest report: older ones are obsolete by then.
kj::Promise<void> JoinService::storeReports() {
  for (;;) {
    while (pending == nullptr) co_await reportChanged.wait();
    auto next = kj::mv(KJ_ASSERT_NONNULL(pending));
    pending = nullptr;
    StoreClient::Wanted wanted;
    KJ_IF_MAYBE (report, next.report) {
      auto message = kj::heap<capnp::MallocMessageBuilder>();
      fill(message->initRoot<rpc::JoinStatusSpec>(), *report);
      wanted.insert(kj::str(kId), kj::mv(message));
    }
    co_await store.replaceAll<rpc::JoinStatusSpec>(kj::mv(wanted)).catch_([](kj::Exception&& e) {
      log::warn("cannot store the status of joining", {{"error", messageOf(e)}});
    });
  }
}

kj::Promise<void> JoinService::run() {
  return joiner.run().exclusiveJoin(storeReports());
}

}  // namespace talos::apid
