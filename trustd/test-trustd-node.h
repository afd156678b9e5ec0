// A trustd for tests, in the test's process with a real socket, real TLS, a model of machined's
// store, and callers from any address of 10.0.0.0/8 and fd00::/16, in a separate network namespace.
#pragma once

#include <capnp/rpc-twoparty.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "common/net/ip.h"
#include "common/testing/own-network.h"
#include "common/testing/test-port.h"
#include "rpc/trust.capnp.h"
#include "tests/models/test-machined.h"
#include "trustd/issuance-records.h"
#include "trustd/signing-secrets.h"
#include "trustd/trustd-server.h"

namespace talos::trustd::testing {

constexpr kj::StringPtr kToken = "abcdef.0123456789abcdef"_kj;

struct MovableClock final : kj::Clock {
  kj::Duration ahead = 0 * kj::SECONDS;  // relative to the real clock
  kj::Date now() const override { return kj::systemPreciseCalendarClock().now() + ahead; }
};

// The content of the store for trustd, as the test sets it, and the faults of its writes.
struct Model {
  explicit Model(ModelMachined& machined) : machined(machined) {
    records.beforePut = [this]() -> kj::Promise<void> {
      co_await beforeWrite();
      if (!answersWrites) co_await kj::Promise<void>(kj::NEVER_DONE);
      if (refusesWrites) fail(ErrorKind::kPermissionDenied, "not today");
    };
    records.afterPut = [this]() -> kj::Promise<void> {
      if (losesAnswers) return kj::NEVER_DONE;
      return kj::READY_NOW;
    };
    records.beforeDestroy = [this]() -> kj::Promise<void> {
      if (refusesRemoval) fail(ErrorKind::kPermissionDenied, "not today");
      return beforeRemoval();
    };
  }

  ModelMachined& machined;
  ModelKind& records = machined.kind<rpc::IssuedCertificateSpec>();
  pki::CertificateAndKey authority;
  kj::Duration lifetime = kDefaultLifetime;
  bool anyAddress = false, controlPlaneKnown = true;
  bool withSecrets = true, answersWrites = true, refusesWrites = false;
  bool losesAnswers = false;  // writes are stored, but not acknowledged
  bool refusesRemoval = false;
  kj::Function<kj::Promise<void>()> beforeWrite = [] { return kj::READY_NOW; };
  kj::Function<kj::Promise<void>()> beforeRemoval = [] { return kj::READY_NOW; };
  kj::String hostname = kj::str("cp1");

  // Writes the content into the store. The CA then has a new version, even if it is the same.
  void store() {
    machined.kind<rpc::NodeAddressSpec>().set<rpc::NodeAddressSpec>(
        "current", "networkd", [](auto spec) {
          auto own = spec.initAddresses(2);
          own.set(0, "10.9.9.1");
          own.set(1, "fd00::9:1");
        });
    machined.kind<rpc::HostnameSpecSpec>().set<rpc::HostnameSpecSpec>(
        "hostname", "machined", [&](auto spec) { spec.setHostname(hostname); });
    auto& secrets = machined.kind<rpc::RootSecretSpec>();
    auto before = secrets.versionOf("os");
    if (!withSecrets) {
      if (before > 0) secrets.destroy("os");
      return;
    }
    secrets.set<rpc::RootSecretSpec>("os", "machined", [&](auto spec) { fill(spec.initOs()); });
    if (secrets.versionOf("os") != before) return;
    secrets.store.addFinalizer("", secrets.type, "os", "test");
    secrets.store.removeFinalizer("", secrets.type, "os", "test");
  }

 private:
  void fill(rpc::RootSecretSpec::OsRoot::Builder os) const {
    os.initCa().setCrt(authority.certificate.asBytes());
    os.getCa().setKey(authority.key.bytes());
    os.setToken(kToken);
    auto reserved = os.initReserved(2);
    reserved.set(0, "10.9.9.1");
    reserved.set(1, "cp1");
    os.setDnsDomain("cluster.local");
    os.setControlPlaneKnown(controlPlaneKnown);
    os.setAnyAddress(anyAddress);
    os.setCertLifetimeS(lifetime / kj::SECONDS);
    os.initCertSANs(1).set(0, "vip.example.org");
  }
};

// A certificate request and its key.
struct Asked {
  pki::Pem key;
  kj::String request;
};
inline Asked ask(std::initializer_list<kj::StringPtr> addresses,
                 std::initializer_list<kj::StringPtr> names = {},
                 pki::KeyType type = pki::KeyType::kEd25519) {
  auto key = pki::makeKey(type);
  pki::LeafOptions options;
  options.addresses = KJ_MAP(a, kj::arrayPtr(addresses.begin(), addresses.size())) {
    return kj::str(a);
  };
  options.dnsNames = KJ_MAP(n, kj::arrayPtr(names.begin(), names.size())) {
    return kj::str(n);
  };
  auto request = pki::makeRequest(key, options);
  return {kj::mv(key), kj::mv(request)};
}

// A socket bound to this address, and its destination.
struct Dialling {
  Dialling(kj::StringPtr from, uint16_t port) {
    auto address = Ip::require(from);
    auto loopback = address.family() == AF_INET6 ? "::1"_kj : "127.0.0.1"_kj;
    to = Endpoint{Ip::require(loopback), port}.socketName();
    int fd;
    KJ_SYSCALL(fd = socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    own = kj::AutoCloseFd(fd);
    int yes = 1;
    KJ_SYSCALL(setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &yes, sizeof yes));
    // IPv6 needs this option to bind to addresses that are local only by a route.
    KJ_SYSCALL(setsockopt(fd, IPPROTO_IP, IP_FREEBIND, &yes, sizeof yes));
    auto name = Endpoint{address}.socketName();
    KJ_SYSCALL(bind(fd, name.get(), name.size()), from);
  }
  kj::AutoCloseFd own;
  SocketName to;
};

// Opens a TCP connection from this address.
inline kj::Promise<kj::Own<kj::AsyncIoStream>> dialFrom(kj::LowLevelAsyncIoProvider& lowLevel,
                                                        kj::StringPtr from, uint16_t port) {
  Dialling dialling(from, port);
  co_return co_await lowLevel.wrapConnectingSocketFd(kj::mv(dialling.own), dialling.to.get(),
                                                     dialling.to.size());
}

// A machine at one address: a connection that stays open.
class Caller {
 public:
  Caller(kj::Own<kj::AsyncIoStream> stream)
      : stream(kj::mv(stream)), client(kj::heap<capnp::TwoPartyClient>(*this->stream)) {}

  static kj::Promise<Caller> connect(kj::LowLevelAsyncIoProvider& lowLevel, TlsVerifier& verifier,
                                     kj::StringPtr from, uint16_t port) {
    auto raw = co_await dialFrom(lowLevel, from, port);
    tuneTcp(*raw);
    co_return Caller(co_await verifier.connect(kj::mv(raw), "127.0.0.1"));
  }
  struct Answer {
    kj::String authority, certificate;
  };
  struct Proof {
    kj::Array<kj::byte> proof;
    kj::String address, servers;
  };
  kj::Promise<Proof> prove(kj::StringPtr token = kToken) {
    auto call = client->bootstrap().castAs<rpc::Trust>().proveRequest();
    call.setToken(token);
    auto answer = co_await call.send();
    co_return Proof{kj::heapArray<kj::byte>(answer.getProof()), kj::str(answer.getAddress()),
                    kj::strArray(answer.getServers(), " ")};
  }
  kj::Promise<Answer> certificate(kj::StringPtr request, kj::StringPtr token = kToken,
                                  kj::ArrayPtr<const kj::ArrayPtr<const kj::byte>> proofs = {}) {
    auto call = client->bootstrap().castAs<rpc::Trust>().certificateRequest();
    call.setRequest(request.asBytes());
    call.setToken(token);
    auto list = call.initProofs(proofs.size());
    for (auto i : kj::indices(proofs)) list.set(i, proofs[i]);
    auto answer = co_await call.send();
    co_return Answer{kj::heapString(answer.getCa().asChars()),
                     kj::heapString(answer.getCertificate().asChars())};
  }
  kj::Promise<void> onDisconnect() { return client->onDisconnect(); }

 private:
  kj::Own<kj::AsyncIoStream> stream;
  kj::Own<capnp::TwoPartyClient> client;
};

class TestTrustd {
 public:
  explicit TestTrustd(kj::AsyncIoContext& io, ServerLimits limits = kLimits)
      : io(io),
        timer(io.provider->getTimer()),
        limits(limits),
        listening(listenTcp("::", 0, 4096)) {
    model.authority = pki::makeAuthority({.organization = "talos"});
    port = portOf(listening);
    machined.start();
  }
  ~TestTrustd() noexcept(false) { stop(); }
  KJ_DISALLOW_COPY_AND_MOVE(TestTrustd);

  // Does the work of main(); resolves when trustd serves.
  kj::Promise<void> start() {
    model.store();
    auto& p = program.emplace(*this);
    co_await p.secrets.ready();
    co_await p.records.load(p.issuer);
    int fd;
    KJ_SYSCALL(fd = dup(listening));
    p.serving =
        serveTls(
            *io.lowLevelProvider, timer, kj::AutoCloseFd(fd), p.secrets.endpoint(),
            [this, &p](const Peer& peer) {
              JoinTokens& own = p.tokens;
              return openSession(p.issuer, tokens.orDefault(own), p.keep, timer, peer, idle);
            },
            limits)
            .eagerlyEvaluate([](kj::Exception&& e) { KJ_LOG(FATAL, e); });
  }
  // Acts as a kill; the socket stays open.
  void stop() { program = nullptr; }

  // Publishes the store's content; resolves when trustd has processed it.
  kj::Promise<void> publish() {
    model.store();
    auto& secrets = KJ_ASSERT_NONNULL(program).secrets;
    auto expected = machined.kind<rpc::RootSecretSpec>().versionOf("os");
    while (secrets.processedVersion() != expected) co_await timer.afterDelay(1 * kj::MILLISECONDS);
  }
  kj::Promise<Caller> call(kj::StringPtr from = "10.0.0.1") {
    TlsVerifier verifier(model.authority.certificate);
    co_return co_await Caller::connect(*io.lowLevelProvider, verifier, from, port);
  }

  kj::AsyncIoContext& io;
  kj::Timer& timer;
  MovableClock clock;
  ModelMachined machined{io, kTrustdUid};
  Model model{machined};
  IssuanceQuota::Limits keeps;  // limits from the next start() on
  kj::Duration idle = kIdle;
  kj::Maybe<JoinTokens&> tokens;  // instead of those of machined
  uint16_t port = 0;

 private:
  OwnNetwork network;
  ServerLimits limits;
  kj::AutoCloseFd listening;
  struct Program {
    explicit Program(TestTrustd& t)
        : store(*t.io.lowLevelProvider, t.timer, t.machined.socket(), kj::str("trustd")),
          issuer(t.clock, kj::systemPreciseMonotonicClock()),
          secrets(store, t.timer, t.clock, issuer),
          records(store, t.timer, t.clock, t.keeps),
          tokens(t.timer,
                 reconnecting(*t.io.lowLevelProvider, t.timer, kj::str(t.machined.socket()))
                     .castAs<rpc::Machined>()) {}
    StoreClient store;
    Issuer issuer;
    Secrets secrets;
    Records records;
    StoredJoinTokens tokens;
    Keep keep = [this](Record record) { return records.keep(kj::mv(record)); };
    kj::Promise<void> serving = nullptr;
  };
  kj::Maybe<Program> program;
};

}  // namespace talos::trustd::testing
