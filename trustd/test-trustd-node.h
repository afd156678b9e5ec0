// For tests: a trustd in the test's process with a real socket, real TLS, a model of machined's
// store, and callers from any address of 10.0.0.0/8 and fd00::/16, in a network namespace of its
// own.
#pragma once

#include <capnp/rpc-twoparty.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "common/base/file.h"
#include "common/net/ip.h"
#include "common/testing/own-network.h"
#include "common/testing/test-port.h"
#include "rpc/local.capnp.h"
#include "rpc/trust.capnp.h"
#include "trustd/issuance-records.h"
#include "trustd/signing-secrets.h"
#include "trustd/trustd-server.h"

namespace talos::trustd::testing {

constexpr kj::StringPtr kToken = "abcdef.0123456789abcdef"_kj;

struct MovableClock final : kj::Clock {
  kj::Duration ahead = 0 * kj::SECONDS;  // of the real one
  kj::Date now() const override { return kj::systemPreciseCalendarClock().now() + ahead; }
};

// A model of machined's store, filled by the test.
struct ModelStore {
  pki::CertificateAndKey authority;
  uint64_t version = 1;
  kj::Duration lifetime = kDefaultLifetime;
  bool withSecrets = true, answersWrites = true, refusesWrites = false;
  bool losesAnswers = false;  // writes are stored, but not acknowledged
  bool refusesRemoval = false;
  kj::Function<kj::Promise<void>()> beforeWrite = [] { return kj::READY_NOW; };
  kj::Function<kj::Promise<void>()> beforeRemoval = [] { return kj::READY_NOW; };
  kj::String hostname = kj::str("cp1");
  unsigned destroyed = 0;  // refused ones too
  kj::TreeMap<kj::String, kj::Own<capnp::MallocMessageBuilder>> records;
  struct Watch {
    kj::String type;
    rpc::ResourceSink::Client sink;
  };
  kj::Vector<Watch> watches;

  void fill(rpc::ResourceSink::SnapshotParams::Builder out, kj::StringPtr type) {
    if (type == typeName<rpc::RootSecretSpec>()) {
      if (!withSecrets) return;
      auto resource = out.initResources(1)[0];
      resource.initMetadata().setId("os");
      resource.getMetadata().setVersion(version);
      auto os = resource.initSpec().initAs<rpc::RootSecretSpec>().initOs();
      os.initCa().setCrt(authority.certificate.asBytes());
      os.getCa().setKey(authority.key.bytes());
      os.setToken(kToken);
      auto reserved = os.initReserved(2);
      reserved.set(0, "10.9.9.1");
      reserved.set(1, "cp1");
      os.setDnsDomain("cluster.local");
      os.setCertLifetimeS(lifetime / kj::SECONDS);
      os.initCertSANs(1).set(0, "vip.example.org");
    } else if (type == typeName<rpc::NodeAddressSpec>()) {
      auto resource = out.initResources(1)[0];
      resource.initMetadata().setId("current");
      auto own = resource.initSpec().initAs<rpc::NodeAddressSpec>().initAddresses(2);
      own.set(0, "10.9.9.1");
      own.set(1, "fd00::9:1");
    } else if (type == typeName<rpc::HostnameSpecSpec>()) {
      auto resource = out.initResources(1)[0];
      resource.initMetadata().setId("hostname");
      resource.initSpec().initAs<rpc::HostnameSpecSpec>().setHostname(hostname);
    }
  }
};

class StoreServer final : public rpc::Store::Server {
 public:
  explicit StoreServer(ModelStore& model) : model(model) {}

 protected:
  kj::Promise<void> watch(WatchContext context) override {
    auto params = context.getParams();
    auto type = kj::str(params.getKind().getType());
    auto sink = params.getSink();
    model.watches.add(ModelStore::Watch{kj::str(type), sink});
    auto request = sink.snapshotRequest();
    model.fill(request, type);
    co_await request.send();
    co_await kj::Promise<void>(kj::NEVER_DONE);
  }
  kj::Promise<void> list(ListContext context) override {
    auto list = context.getResults().initResources(model.records.size());
    unsigned i = 0;
    for (auto& record : model.records) {
      list.setWithCaveats(i++, record.value->getRoot<rpc::Resource>().asReader());
    }
    return kj::READY_NOW;
  }
  kj::Promise<void> put(PutContext context) override {
    co_await model.beforeWrite();
    if (!model.answersWrites) co_await kj::Promise<void>(kj::NEVER_DONE);
    if (model.refusesWrites) fail(ErrorKind::kPermissionDenied, "not today");
    auto resource = context.getParams().getResource();
    auto message = kj::heap<capnp::MallocMessageBuilder>();
    message->setRoot(resource);
    model.records.insert(kj::str(resource.getMetadata().getId()), kj::mv(message));
    if (model.losesAnswers) co_await kj::Promise<void>(kj::NEVER_DONE);
  }
  kj::Promise<void> destroy(DestroyContext context) override {
    ++model.destroyed;
    if (model.refusesRemoval) fail(ErrorKind::kPermissionDenied, "not today");
    co_await model.beforeRemoval();
    if (!model.records.erase(kj::str(context.getParams().getId()))) {
      fail(ErrorKind::kNotFound, "there is no such record");
    }
  }

 private:
  ModelStore& model;
};

class MachinedServer final : public rpc::Machined::Server {
 public:
  explicit MachinedServer(ModelStore& model) : model(model) {}

 protected:
  kj::Promise<void> store(StoreContext context) override {
    context.getResults().setStore(kj::heap<StoreServer>(model));
    return kj::READY_NOW;
  }

 private:
  ModelStore& model;
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

// A socket that comes from this address, and where it is to go.
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
    // IPv6 needs it to bind to addresses that are local by a route only.
    KJ_SYSCALL(setsockopt(fd, IPPROTO_IP, IP_FREEBIND, &yes, sizeof yes));
    auto name = Endpoint{address}.socketName();
    KJ_SYSCALL(bind(fd, name.get(), name.size()), from);
  }
  kj::AutoCloseFd own;
  SocketName to;
};

// A TCP connection from this address.
inline kj::Promise<kj::Own<kj::AsyncIoStream>> dialFrom(kj::LowLevelAsyncIoProvider& lowLevel,
                                                        kj::StringPtr from, uint16_t port) {
  Dialling dialling(from, port);
  co_return co_await lowLevel.wrapConnectingSocketFd(kj::mv(dialling.own), dialling.to.get(),
                                                     dialling.to.size());
}

// A machine at one address: a connection that is kept.
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
    auto servers = KJ_MAP(server, answer.getServers()) {
      return kj::str(server);
    };
    co_return Proof{kj::heapArray<kj::byte>(answer.getProof()), kj::str(answer.getAddress()),
                    kj::strArray(servers, " ")};
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
        listening(listenTcp("::", 0, 4096)),
        machined(serveUnix(*io.lowLevelProvider, timer, listenUnix(socketPath, 0600),
                           [this](const UnixPeer&) -> capnp::Capability::Client {
                             return kj::heap<MachinedServer>(model);
                           })
                     .eagerlyEvaluate([](kj::Exception&& e) { KJ_LOG(FATAL, e); })) {
    model.authority = pki::makeAuthority({.organization = "talos"});
    port = portOf(listening);
  }
  ~TestTrustd() noexcept(false) {
    stop();
    machined = nullptr;
    removeTree(directory);
  }
  KJ_DISALLOW_COPY_AND_MOVE(TestTrustd);

  // Like main(); resolves when it serves.
  kj::Promise<void> start() {
    auto& p = program.emplace(*this);
    co_await p.secrets.ready();
    co_await p.records.load(p.issuer);
    int fd;
    KJ_SYSCALL(fd = dup(listening));
    p.serving = serveTls(
                    *io.lowLevelProvider, timer, kj::AutoCloseFd(fd), p.secrets.endpoint(),
                    [this, &p](const Peer& peer) {
                      return openSession(p.issuer, p.keep, timer, peer, idle);
                    },
                    limits)
                    .eagerlyEvaluate([](kj::Exception&& e) { KJ_LOG(FATAL, e); });
  }
  // Like a kill; the socket stays open.
  void stop() { program = nullptr; }

  // Publishes the store's content; resolves when trustd has processed it.
  kj::Promise<void> publish() {
    ++model.version;
    for (auto& watch : model.watches) {
      auto request = watch.sink.snapshotRequest();
      model.fill(request, watch.type);
      co_await request.send().catch_([](kj::Exception&&) {});
    }
    auto& secrets = KJ_ASSERT_NONNULL(program).secrets;
    auto expected = model.withSecrets ? model.version : 0;
    while (secrets.processedVersion() != expected) co_await timer.afterDelay(1 * kj::MILLISECONDS);
  }
  kj::Promise<Caller> call(kj::StringPtr from = "10.0.0.1") {
    TlsVerifier verifier(model.authority.certificate);
    co_return co_await Caller::connect(*io.lowLevelProvider, verifier, from, port);
  }

  kj::AsyncIoContext& io;
  kj::Timer& timer;
  MovableClock clock;
  ModelStore model;
  Expiry::Limits keeps;  // from the next start() on
  kj::Duration idle = kIdle;
  uint16_t port = 0;

 private:
  OwnNetwork network;
  ServerLimits limits;
  kj::String directory = makeDirectory();
  kj::String socketPath = kj::str(directory, "/machined.sock");
  kj::AutoCloseFd listening;
  kj::Promise<void> machined;
  struct Program {
    explicit Program(TestTrustd& t)
        : store(*t.io.lowLevelProvider, t.timer, t.socketPath, kj::str("trustd")),
          issuer(t.clock, kj::systemPreciseMonotonicClock()),
          secrets(store, t.timer, t.clock, issuer),
          records(store, t.timer, t.clock, t.keeps) {}
    StoreClient store;
    Issuer issuer;
    Secrets secrets;
    Records records;
    Keep keep = [this](Record record) { return records.keep(kj::mv(record)); };
    kj::Promise<void> serving = nullptr;
  };
  kj::Maybe<Program> program;

  static kj::String makeDirectory() {
    char name[] = "/tmp/trustd-test-XXXXXX";
    return kj::str(mkdtemp(name));
  }
};

}  // namespace talos::trustd::testing
