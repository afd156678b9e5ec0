#include "apid/identity/node-identity.h"

#include <kj/debug.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/text/ascii.h"

namespace talos::apid {
namespace {

kj::String text(capnp::Data::Reader bytes) {
  return kj::heapString(bytes.asChars());
}

Credentials credentials(capnp::Data::Reader authorities, rpc::KeyPair::Reader pair) {
  return {text(authorities), text(pair.getCrt()), pki::Pem(text(pair.getKey()))};
}

}  // namespace

NodeIdentity::NodeIdentity(StoreClient& store, kj::StringPtr hostname)
    : hostname(lowerCase(hostname)), readiness(nullptr) {
  auto paf = kj::newPromiseAndFulfiller<void>();
  becameReady = kj::mv(paf.fulfiller);
  metricsEnd.makeClientsOptional();
  readiness = paf.promise.fork();
  certificates = store.watch<rpc::ApiCertificateSpec>([this]() { certificatesChanged(); });
  addresses = store.watch<rpc::NodeAddressSpec>([this]() { selfChanged(); });
  names = store.watch<rpc::HostnameSpecSpec>([this]() { selfChanged(); });
  members = store.watch<rpc::MemberSpec>([this]() { selfChanged(); });
}

NodeIdentity::~NodeIdentity() noexcept(false) {}

void NodeIdentity::certificatesChanged() {
  KJ_IF_MAYBE (stored, certificates.find("api")) {
    if (stored->version() == version) return;
    version = stored->version();
    if (!stored->getMaintenance()) endMaintenance();
    auto failure = kj::runCatchingExceptions([&]() { use(*stored); });
    KJ_IF_MAYBE (e, failure) {
      log::error("cannot use the API certificates; the previous ones stay",
                 {{"version", version}, {"error", messageOf(*e)}});
      return;
    }
    log::info(stored->getMaintenance() ? "maintenance mode: clients need no certificate"_kj
                                       : "API certificates loaded"_kj,
              {{"version", version}});
    becameReady->fulfill();
  } else {
    version = 0;
    endMaintenance();
    selfSignIfNeeded();
  }
}

void NodeIdentity::use(rpc::ApiCertificateSpec::Reader spec) {
  if (spec.getMaintenance()) {
    serverEnd.replaceAnonymous(text(spec.getServer().getCrt()),
                               credentials({}, spec.getServer()).key);
    clientEnd.close();
    metricsEnd.close();
    beginMaintenance();
    return;
  }
  TlsEndpoint check(credentials(spec.getCa(), spec.getServer()));  // both or neither
  forwards = spec.getClient().getCrt().size() > 0;
  if (forwards) {
    clientEnd.replace(credentials(spec.getCa(), spec.getClient()));
  } else {
    clientEnd.close();
  }
  serverEnd.replace(credentials(spec.getCa(), spec.getServer()));
  metricsEnd.replace(credentials(spec.getCa(), spec.getServer()));
  serves = true;
}

void NodeIdentity::setJoinAuthority(kj::StringPtr authority) {
  if (authority == joinAuthority) return;
  joinAuthority = kj::str(authority);
  selfSignIfNeeded();
}

void NodeIdentity::selfSignIfNeeded() {
  if (serves || maintenance != nullptr || joinAuthority.size() == 0) return;
  auto failure = kj::runCatchingExceptions([&]() { useSelfSigned(); });
  KJ_IF_MAYBE (e, failure) {
    log::error("cannot use machine.ca of the config", {{"error", messageOf(*e)}});
    return;
  }
  log::info("waiting for a certificate; clients can query the status");
  becameReady->fulfill();
}

// Peers cannot verify this certificate; its key is used for nothing else.
void NodeIdentity::useSelfSigned() {
  auto key = pki::makeKey(pki::KeyType::kEd25519);
  auto certificate = pki::selfSign(key, {.commonName = hostname});
  serverEnd.replace(Credentials{kj::str(joinAuthority), kj::mv(certificate), kj::mv(key)});
}

void NodeIdentity::beginMaintenance() {
  if (maintenance != nullptr) return;
  auto paf = kj::newPromiseAndFulfiller<void>();
  maintenance = Maintenance{kj::mv(paf.fulfiller), paf.promise.fork()};
}

void NodeIdentity::endMaintenance() {
  KJ_IF_MAYBE (m, maintenance) {
    auto ended = kj::mv(*m);
    maintenance = nullptr;
    serverEnd.close();
    metricsEnd.close();
    serves = false;
    ended.end->fulfill();
    log::info("maintenance mode ended");
  }
}

kj::Promise<void> NodeIdentity::maintenanceEnded() {
  KJ_IF_MAYBE (m, maintenance) return m->ended.addBranch();
  return kj::READY_NOW;
}

void NodeIdentity::selfChanged() {
  Self fresh;
  fresh.names.add(kj::str(hostname));
  for (auto spec : names) {
    auto name = lowerCase(spec.getHostname());
    if (name.size() == 0) continue;
    if (spec.getDomainname().size() > 0)
      fresh.names.add(kj::str(name, '.', lowerCase(spec.getDomainname())));
    fresh.names.add(kj::mv(name));
  }
  // Only current addresses: another node may have got a former one.
  KJ_IF_MAYBE (current, addresses.find("current")) {
    for (kj::StringPtr written : current->getAddresses()) {
      auto end = written.findFirst('/').orDefault(written.size());
      KJ_IF_MAYBE (address, Ip::parse(kj::heapString(written.slice(0, end)))) {
        fresh.addresses.add(address->unmapped());
      }
    }
  }
  for (auto spec : members) {
    KnownMember member{.name = lowerCase(spec.id()),
                       .controlPlane = spec.getMachineType() == "controlplane",
                       .addresses = {}};
    for (kj::StringPtr written : spec.getAddresses()) {
      KJ_IF_MAYBE (address, Ip::parse(written)) member.addresses.add(address->unmapped());
    }
    fresh.members.add(kj::mv(member));
  }
  known = kj::mv(fresh);
}

}  // namespace talos::apid
