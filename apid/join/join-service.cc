#include "apid/join/join-service.h"

#include "apid/join/trustd-client.h"
#include "common/base/date.h"
#include "common/base/error.h"
#include "common/base/log.h"
#include "common/memory/zeroize.h"
#include "common/net/ip.h"
#include "common/net/resolver.h"
#include "rpc/machine-resources.capnp.h"
#include "rpc/network-resources.capnp.h"
#include "rpc/secret-resources.capnp.h"

namespace talos::apid {
namespace {

constexpr kj::StringPtr kId = "api"_kj;

kj::Vector<kj::String> textsOf(capnp::List<capnp::Text>::Reader list) {
  kj::Vector<kj::String> result;
  for (auto text : list) result.add(kj::str(text));
  return result;
}

JoinWish wishOf(rpc::JoinSpec::Reader spec) {
  JoinWish wish;
  wish.endpoints = textsOf(spec.getEndpoints());
  wish.token = pki::Pem(kj::str(spec.getToken()));
  wish.authority = kj::str(spec.getCa().asChars());
  wish.authorityHash = kj::str(spec.getCaHash());
  wish.commonName = kj::str(spec.getCommonName());
  wish.dnsNames = textsOf(spec.getDnsNames());
  wish.addresses = textsOf(spec.getAddresses());
  return wish;
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
                         Trust& trust)
    : timer(io.provider->getTimer()), store(store), trust(trust), joiner(deps(io, clock)) {
  specs = store.watch<rpc::JoinSpec>([this]() { specChanged(); });
  certificates = store.watch<rpc::ApiCertificateSpec>([this]() { certificateChanged(); });
  times = store.watch<rpc::TimeStatusSpec>([this]() { timeChanged(); });
  addresses = store.watch<rpc::NodeAddressSpec>([this]() { addressesChanged(); });
}

JoinService::~JoinService() noexcept(false) {}

Joiner::Dependencies JoinService::deps(kj::AsyncIoContext& io, const kj::Clock& clock) {
  auto& port = io.unixEventPort;
  auto& lowLevel = *io.lowLevelProvider;
  return {timer,
          clock,
          [this]() { return std::uniform_real_distribution<double>(0, 1)(generator); },
          [this, &port](kj::StringPtr host) { return resolve(port, timer, host); },
          [this, &lowLevel](JoinQuestion question) {
            return askTrustd(lowLevel, timer, kj::mv(question));
          },
          [this](const Identity& identity) { return keep(identity); },
          [this](JoinReport report) { tell(kj::mv(report)); },
          [this]() { tell(nullptr); }};
}

void JoinService::specChanged() {
  KJ_IF_MAYBE (spec, specs.find(kId)) {
    auto wish = wishOf(*spec);
    trust.joins(wish.authority);
    joiner.want(kj::mv(wish));
  } else {
    trust.joins("");
    joiner.want(nullptr);
  }
}

void JoinService::certificateChanged() {
  KJ_IF_MAYBE (spec, certificates.find(kId)) {
    if (!spec->getMaintenance()) {
      auto server = spec->getServer();
      joiner.have(Identity{kj::str(spec->getCa().asChars()), kj::str(server.getCrt().asChars()),
                           pki::Pem(kj::str(server.getKey().asChars()))});
      return;
    }
  }
  joiner.have(nullptr);
}

void JoinService::timeChanged() {
  for (auto time : times) joiner.clockIs(time.getSynced(), time.getEpoch());
}

void JoinService::addressesChanged() {
  KJ_IF_MAYBE (current, addresses.find("current")) {
    kj::Vector<Ip> found;
    for (kj::StringPtr text : current->getAddresses()) {
      KJ_IF_MAYBE (prefix, Prefix::parse(text)) found.add(prefix->address.unmapped());
    }
    joiner.addressesAre(found);
  }
}

kj::Promise<void> JoinService::keep(const Identity& identity) {
  auto message = kj::heap<SecretMessage>();
  auto spec = message->initRoot<rpc::ApiCertificateSpec>();
  spec.setCa(identity.authority.asBytes());
  spec.initServer().setCrt(identity.certificate.asBytes());
  spec.getServer().setKey(identity.key.bytes());
  StoreClient::Wanted wanted;
  wanted.insert(kj::str(kId), kj::mv(message));
  return store.replaceAll<rpc::ApiCertificateSpec>(kj::mv(wanted));
}

void JoinService::tell(kj::Maybe<JoinReport> report) {
  untold = Untold{kj::mv(report)};
  somethingToTell.raise();
}

// The newest only: what was overtaken while the store was written is of no use any more.
kj::Promise<void> JoinService::tellTheStore() {
  for (;;) {
    while (untold == nullptr) co_await somethingToTell.wait();
    auto next = kj::mv(KJ_ASSERT_NONNULL(untold));
    untold = nullptr;
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
  return joiner.run().exclusiveJoin(tellTheStore());
}

}  // namespace talos::apid
