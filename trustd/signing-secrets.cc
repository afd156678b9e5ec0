#include "trustd/signing-secrets.h"

#include "common/base/error.h"
#include "common/base/fill-list.h"
#include "common/base/log.h"
#include "common/base/node-layout.h"
#include "common/memory/process-memory.h"

namespace talos::trustd {
namespace {

// Interval of checks of the certificate, besides its due time: the wall clock may be set at any
// time.
constexpr size_t kMostServers = 16;  // limit of the list for callers
constexpr auto kSoonest = 1 * kj::SECONDS, kLatest = 10 * kj::SECONDS;

kj::String textOf(capnp::Data::Reader bytes) {
  return kj::heapString(bytes.asChars());
}

kj::Duration lifetimeOf(rpc::RootSecretSpec::OsRoot::Reader os) {
  return static_cast<int64_t>(os.getCertLifetimeS()) * kj::SECONDS;
}

Authority authorityOf(rpc::RootSecretSpec::OsRoot::Reader os) {
  Authority authority;
  authority.certificate = textOf(os.getCa().getCrt());
  authority.key = pki::Pem(textOf(os.getCa().getKey()));
  authority.token = pki::Pem(kj::str(os.getToken()));
  authority.reserved = reservedBy(textsOf(os.getReserved()), os.getDnsDomain());
  authority.controlPlaneKnown = os.getControlPlaneKnown();
  authority.anyAddress = os.getAnyAddress();
  authority.lifetime = lifetimeOf(os);
  return authority;
}

}  // namespace

Secrets::Secrets(StoreClient& store, kj::Timer& timer, const kj::Clock& clock, Issuer& issuer)
    : timer(timer), clock(clock), issuer(issuer), readiness(nullptr) {
  auto paf = kj::newPromiseAndFulfiller<void>();
  becameReady = kj::mv(paf.fulfiller);
  readiness = paf.promise.fork();
  secrets = store.watch<rpc::RootSecretSpec>([this]() { secretsChanged(); }, "os");
  addresses = store.watch<rpc::NodeAddressSpec>([this]() {
    setServers();
    certify();
  });
  names = store.watch<rpc::HostnameSpecSpec>([this]() { certify(); });
  renewal = certifyRegularly().eagerlyEvaluate(nullptr);
}

Secrets::~Secrets() noexcept(false) {}

kj::Maybe<rpc::RootSecretSpec::OsRoot::Reader> Secrets::find() const {
  KJ_IF_MAYBE (spec, secrets.find("os")) {
    if (spec->isOs()) return spec->getOs();
  }
  return nullptr;
}

void Secrets::secretsChanged() {
  KJ_IF_MAYBE (os, find()) {
    auto stored = KJ_ASSERT_NONNULL(secrets.find("os")).version();
    if (stored == version) return;
    version = stored;
    usable = false;
    if (!keepOffDisk(os->getCa().getKey()) || !keepOffDisk(os->getToken().asBytes())) {
      log::warn("cannot lock the memory of the CA key: RLIMIT_MEMLOCK is too low");
    }
    auto failure = kj::runCatchingExceptions([&]() {
      auto authority = authorityOf(*os);
      keepOffDisk(authority.key.bytes());
      keepOffDisk(authority.token.bytes());
      issuer.use(kj::mv(authority));
    });
    KJ_IF_MAYBE (e, failure) {
      log::error("cannot use the CA; the previous one stays",
                 {{"version", stored}, {"error", messageOf(*e)}});
      return;
    }
    usable = true;
    log::info("CA loaded", {{"version", stored}});
    certify();
  } else if (version != 0) {
    version = 0;
    usable = false;
    issuer.forgetAuthority();
    log::warn("the CA was removed; requests are refused");
  }
}

NodeNames Secrets::namesOf(rpc::RootSecretSpec::OsRoot::Reader os) const {
  kj::StringPtr hostname, domain;
  for (auto spec : names) {
    hostname = spec.getHostname();
    domain = spec.getDomainname();
  }
  kj::Vector<kj::String> own;
  for (auto spec : addresses) {
    for (auto address : spec.getAddresses()) own.add(kj::str(address));
  }
  return nodeNames(hostname, domain, own, textsOf(os.getCertSANs()));
}

void Secrets::setServers() {
  kj::Vector<Ip> own;
  KJ_IF_MAYBE (current, addresses.find("current")) {
    for (kj::StringPtr text : current->getAddresses()) {
      KJ_IF_MAYBE (address, Ip::parse(text)) {
        if (own.size() < kMostServers) own.add(address->unmapped());
      }
    }
  }
  issuer.setServers(own.releaseAsArray());
}

// Makes a certificate if the current one has to be renewed. Does nothing until all snapshots of the
// store have arrived: a certificate without all names would have to be replaced at once.
void Secrets::certify() {
  if (!usable || !addresses.synced() || !names.synced()) return;
  KJ_IF_MAYBE (os, find()) {
    auto named = namesOf(*os);
    kj::Maybe<kj::StringPtr> cause = "there is none yet"_kj;
    KJ_IF_MAYBE (info, serving) {
      cause = renewalCause(*info, named, lifetimeOf(*os), clock.now());
      if (servingFor != textOf(os->getCa().getCrt())) cause = "the CA changed"_kj;
    }
    KJ_IF_MAYBE (c, cause) {
      bool first = serving == nullptr;
      auto failure = kj::runCatchingExceptions([&]() { makeCertificate(*os, named); });
      KJ_IF_MAYBE (e, failure) {
        log::error(kj::str("cannot make a certificate for port ", kTrustdPort),
                   {{"error", messageOf(*e)}});
        return;
      }
      log::info(first ? kj::str("certificate of port ", kTrustdPort, " issued")
                      : kj::str("certificate of port ", kTrustdPort, " renewed: ", *c));
      becameReady->fulfill();
    }
  }
}

// The certificate's key is always on P-256: an RSA key takes seconds to make, and with Ed25519
// OpenSSL's handshakes are slower.
void Secrets::makeCertificate(rpc::RootSecretSpec::OsRoot::Reader os, const NodeNames& named) {
  auto authority = textOf(os.getCa().getCrt());
  pki::Pem authorityKey(textOf(os.getCa().getKey()));
  auto key = pki::makeKey(pki::KeyType::kEcdsaP256);
  auto certificate = pki::signRequest(authority, authorityKey, pki::makeRequest(key, {}),
                                      serverOptions(named, lifetimeOf(os), clock.now()));
  // Followed by the CA's certificate, for nodes that know only its hash.
  tls.replaceAnonymous(kj::str(certificate, authority), key);
  serving = pki::inspect(certificate);
  servingFor = kj::mv(authority);
}

kj::Promise<void> Secrets::certifyRegularly() {
  for (;;) {
    auto pause = kSoonest;
    KJ_IF_MAYBE (info, serving) {
      pause = kj::max(kSoonest, kj::min(kLatest, halfLife(*info) - clock.now()));
    }
    co_await timer.afterDelay(pause);
    certify();
  }
}

}  // namespace talos::trustd
