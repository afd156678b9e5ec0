// A whole node as apid sees it, in one process, for tests and measurements: a model of machined on
// a real Unix socket, and a real apid in front of it, with certificates from the store and TLS on a
// real loopback port.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include "apid/gate/gate.h"
#include "apid/grpc/grpc-api.h"
#include "apid/identity/node-identity.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/testing/test-port.h"
#include "common/wire/rpc-server.h"
#include "rpc/local.capnp.h"
#include "rpc/network-resources.capnp.h"
#include "rpc/secret-resources.capnp.h"
#include "tests/models/test-machined.h"

namespace talos::apid::testing {

// The calls that the model received, and its content.
struct Model {
  kj::String tag;
  unsigned versions = 0, reboots = 0;
  unsigned visits = 0;                           // requests for the node of maintenance mode
  unsigned applies = 0;                          // configs that were applied
  kj::Maybe<kj::ForkedPromise<void>> applyGate;  // An apply is answered when this resolves.
  unsigned sent = 0;                             // lines that a log's reader received
  unsigned reads = 0;                            // log reads so far
  unsigned readers = 0;                          // current log readers
  unsigned connections = 0;                      // to machined, apid's connection for the store
                                                 // among them
  ModelStore store;
  kj::Vector<kj::String> callers;   // client of each connection
  kj::Vector<kj::String> requests;  // ids of the first hundred requested Nodes
  kj::Vector<kj::String> recorded;  // id of each audit record
  kj::Vector<kj::String> audited;   // "someone@127.0.0.1 via 10.0.0.2 [os:admin] call: outcome"
  bool refuseAudit = false;

  void setAddress(kj::StringPtr address) {
    store.kind<rpc::NodeAddressSpec>().set<rpc::NodeAddressSpec>(
        "current", "networkd", [&](auto spec) { spec.initAddresses(1).set(0, address); });
  }
  // Sets the node's certificates; the message's root is an ApiCertificateSpec.
  void setCertificates(kj::Own<capnp::MallocMessageBuilder> message) {
    store.kind<rpc::ApiCertificateSpec>().copy<rpc::ApiCertificateSpec>(
        "api", "machined", message->getRoot<rpc::ApiCertificateSpec>().asReader());
  }
  bool inMaintenance() {
    KJ_IF_MAYBE (found, store.kind<rpc::ApiCertificateSpec>().find("api")) {
      return found->getSpec().getAs<rpc::ApiCertificateSpec>().getMaintenance();
    }
    return false;
  }
};

class ModelMachine final : public rpc::Machine::Server {
 public:
  explicit ModelMachine(Model& model) : model(model) {}

 protected:
  kj::Promise<void> version(VersionContext context) override {
    ++model.versions;
    context.getResults().setTag(model.tag);
    context.getResults().setSha(model.tag);
    return kj::READY_NOW;
  }
  kj::Promise<void> reboot(RebootContext context) override {
    ++model.reboots;
    return kj::READY_NOW;
  }

 private:
  Model& model;
};

class ModelLogs final : public rpc::Logs::Server {
 public:
  explicit ModelLogs(Model& model) : model(model) {}

 protected:
  kj::Promise<void> read(ReadContext context) override {
    auto sink = context.getParams().getSink();
    context.releaseParams();
    ++model.reads;
    ++model.readers;
    KJ_DEFER(--model.readers);
    auto line = kj::heapArray<kj::byte>(16384);
    for (;;) {
      auto request = sink.writeRequest();
      request.setBytes(line);
      co_await request.send();
      ++model.sent;
    }
  }

 private:
  Model& model;
};

class ModelConfiguration final : public rpc::Configuration::Server {
 public:
  explicit ModelConfiguration(Model& model) : model(model) {}

 protected:
  kj::Promise<void> apply(ApplyContext context) override {
    ++model.applies;
    context.getResults().initResult().setBootId("this boot");
    KJ_IF_MAYBE (gate, model.applyGate) return gate->addBranch();
    return kj::READY_NOW;
  }

 private:
  Model& model;
};

class ModelNode final : public rpc::Node::Server {
 public:
  explicit ModelNode(Model& model) : model(model) {}

 protected:
  kj::Promise<void> configuration(ConfigurationContext context) override {
    context.getResults().setConfiguration(kj::heap<ModelConfiguration>(model));
    return kj::READY_NOW;
  }
  kj::Promise<void> machine(MachineContext context) override {
    context.getResults().setMachine(kj::heap<ModelMachine>(model));
    return kj::READY_NOW;
  }
  kj::Promise<void> logs(LogsContext context) override {
    context.getResults().setLogs(kj::heap<ModelLogs>(model));
    return kj::READY_NOW;
  }
  // Parts of which tests call only denied methods. Each part must exist: without it, the client's
  // pipelined calls fail before they reach the gate.
  kj::Promise<void> services(ServicesContext context) override {
    context.getResults().setServices(kj::heap<rpc::Services::Server>());
    return kj::READY_NOW;
  }
  kj::Promise<void> files(FilesContext context) override {
    context.getResults().setFiles(kj::heap<rpc::Files::Server>());
    return kj::READY_NOW;
  }
  kj::Promise<void> storage(StorageContext context) override {
    context.getResults().setStorage(kj::heap<rpc::Storage::Server>());
    return kj::READY_NOW;
  }
  kj::Promise<void> upgrades(UpgradesContext context) override {
    context.getResults().setUpgrades(kj::heap<rpc::Upgrades::Server>());
    return kj::READY_NOW;
  }
  kj::Promise<void> etcd(EtcdContext context) override {
    context.getResults().setEtcd(kj::heap<rpc::Etcd::Server>());
    return kj::READY_NOW;
  }

 private:
  Model& model;
};

// machined's server for apid, with the model's node and its counts.
class ModelMachined final : public rpc::Machined::Server {
 public:
  explicit ModelMachined(Model& model) : model(model), real(serve(model)) { ++model.connections; }
  ~ModelMachined() noexcept(false) { --model.connections; }

 protected:
  kj::Promise<void> node(NodeContext context) override {
    auto request = real.nodeRequest();
    request.setClient(context.getParams().getClient());
    request.setRequest(context.getParams().getRequest());
    return context.tailCall(kj::mv(request));
  }
  kj::Promise<void> store(StoreContext context) override {
    return context.tailCall(real.storeRequest());
  }
  kj::Promise<void> audit(AuditContext context) override {
    auto request = real.auditRequest();
    request.setRecord(context.getParams().getRecord());
    return context.tailCall(kj::mv(request));
  }
  kj::Promise<void> maintenanceNode(MaintenanceNodeContext context) override {
    ++model.visits;
    auto request = real.maintenanceNodeRequest();
    request.setRequest(context.getParams().getRequest());
    return context.tailCall(kj::mv(request));
  }

 private:
  Model& model;
  Rules rules{capnp::Schema::from<rpc::Node>()};
  rpc::Machined::Client real;

  rpc::Machined::Client serve(Model& model) {
    rpc::Node::Client node = kj::heap<ModelNode>(model);
    auto maintenance =
        machined::serveMaintenance(rules, node, [&model] { return model.inMaintenance(); });
    auto audit = [&model](rpc::AuditRecord::Reader record) {
      if (model.refuseAudit) fail(ErrorKind::kInternal, "no room");
      model.recorded.add(kj::str(record.getRequest()));
      model.audited.add(kj::str(record.getClient(), '@', record.getAddress(),
                                record.getVia().size() > 0 ? " via " : "", record.getVia(), " [",
                                kj::strArray(record.getRoles(), ","), "] ", record.getCall(), ": ",
                                record.getOutcome()));
    };
    return machined::serveMachined(
        UnixPeer{1, kApidUid, kApidUid}, node, maintenance, model.store.serve(kApidUid),
        kj::mv(audit),
        [&model, known = false](kj::StringPtr client) mutable {
          if (!known) model.callers.add(kj::str(client));
          known = true;
        },
        nullptr, recording(model, node), recording(model, maintenance));
  }
  static machined::NodeOfRequest recording(Model& model, rpc::Node::Client node) {
    return [&model, node = kj::mv(node)](kj::StringPtr request) mutable {
      constexpr size_t kMost = 100;  // A test of many sessions measures the heap.
      if (model.requests.size() < kMost) model.requests.add(kj::str(request));
      return node;
    };
  }
};

// Returns the node's IPv6 address: fd00::2 for 10.0.0.2.
inline kj::String secondAddressOf(kj::StringPtr address) {
  return kj::str("fd00::", address.slice(KJ_ASSERT_NONNULL(address.findLast('.')) + 1));
}

struct Authority {
  pki::CertificateAndKey pair = pki::makeAuthority({.organization = "talos"});

  pki::CertificateAndKey issue(kj::StringPtr name, kj::ArrayPtr<const kj::StringPtr> organizations,
                               kj::ArrayPtr<const kj::StringPtr> addresses,
                               kj::ArrayPtr<const kj::StringPtr> names = nullptr) const {
    pki::LeafOptions options;
    options.commonName = name;
    options.organizations = KJ_MAP(o, organizations) {
      return kj::str(o);
    };
    options.addresses = KJ_MAP(a, addresses) {
      return kj::str(a);
    };
    options.dnsNames = KJ_MAP(n, names) {
      return kj::str(n);
    };
    return pki::issue(pair.certificate, pair.key, kj::mv(options));
  }
  // Makes the certificates in a node's store: as a server, and as a client of other nodes.
  kj::Own<capnp::MallocMessageBuilder> forNode(
      kj::StringPtr address, kj::ArrayPtr<const kj::StringPtr> names = nullptr) const {
    auto message = kj::heap<capnp::MallocMessageBuilder>();
    auto spec = message->initRoot<rpc::ApiCertificateSpec>();
    spec.setCa(pair.certificate.asBytes());
    auto fill = [](rpc::KeyPair::Builder to, const pki::CertificateAndKey& from) {
      to.setCrt(from.certificate.asBytes());
      to.setKey(from.key.bytes());
    };
    fill(spec.initServer(),
         issue("", nullptr, {address, "127.0.0.1"_kj, secondAddressOf(address)}, names));
    fill(spec.initClient(), issue("", {kRoleImpersonator}, {address}));
    return message;
  }
  // Makes the certificate that trustd gives to a worker: a server's, for this address alone.
  kj::Own<capnp::MallocMessageBuilder> forWorker(kj::StringPtr address,
                                                 kj::ArrayPtr<const kj::StringPtr> names) const {
    auto message = forNode(address);
    auto spec = message->getRoot<rpc::ApiCertificateSpec>();
    spec.disownClient();
    auto issued = issue("", nullptr, {address}, names);
    spec.getServer().setCrt(issued.certificate.asBytes());
    spec.getServer().setKey(issued.key.bytes());
    return message;
  }
  // Makes the credentials of a client.
  Credentials client(kj::StringPtr name, kj::ArrayPtr<const kj::StringPtr> organizations) const {
    auto leaf = issue(name, organizations, nullptr);
    return {kj::str(pair.certificate), kj::mv(leaf.certificate), kj::mv(leaf.key)};
  }
};

class TestNode {
 public:
  // `address` is the node's address in the store; the node listens on loopback.
  TestNode(kj::AsyncIoContext& io, kj::StringPtr address, PeerConnections::Dial dial = refuse())
      : io(io),
        timer(io.provider->getTimer()),
        address(kj::str(address)),
        listening(listenTcp("127.0.0.1", 0)),
        machinedListening(listenUnix(socketPath, 0600)),
        peers(timer, kj::mv(dial)),
        gate(
            timer,
            [this](kj::Own<Budget::Account> account, kj::StringPtr client) {
              return localNode(*this->io.lowLevelProvider, timer, socketPath, kj::mv(account),
                               client);
            },
            peers, budget, audit, ids, identity.self(), maintenance, calls) {
    model.tag = kj::str("node ", address);
    model.setAddress(address);
    port = portOf(listening);
  }
  ~TestNode() noexcept(false) {
    serving = nullptr;
    machinedServing = nullptr;
    removeTree(directory);
  }
  KJ_DISALLOW_COPY_AND_MOVE(TestNode);

  // Starts machined, with its previous socket.
  void startMachined() {
    int fd;
    KJ_SYSCALL(fd = dup(machinedListening));
    machinedServing = serveUnix(*io.lowLevelProvider, timer, kj::AutoCloseFd(fd),
                                [this](const UnixPeer&) -> capnp::Capability::Client {
                                  return kj::heap<ModelMachined>(model);
                                })
                          .eagerlyEvaluate([](kj::Exception&& e) { KJ_LOG(FATAL, e); });
  }
  // Makes a machine without a config: with the throw-away certificate of `authority`.
  void maintain(const Authority& authority) {
    auto message = kj::heap<capnp::MallocMessageBuilder>();
    auto spec = message->initRoot<rpc::ApiCertificateSpec>();
    auto issued = authority.issue("", nullptr, {address});
    spec.initServer().setCrt(issued.certificate.asBytes());
    spec.getServer().setKey(issued.key.bytes());
    spec.setMaintenance(true);
    publish(kj::mv(message));
  }
  void stopMachined() { machinedServing = nullptr; }
  // Puts certificates, signed by this authority, into the store.
  void certify(const Authority& authority) { publish(authority.forNode(address)); }
  void publish(kj::Own<capnp::MallocMessageBuilder> message) {
    model.setCertificates(kj::mv(message));
    awaitWatches();
  }
  // Removes the certificates from the store.
  void withdraw() {
    model.store.kind<rpc::ApiCertificateSpec>().destroy("api");
    awaitWatches();
  }
  // Starts apid, which serves once it has certificates.
  void startApid(ServerLimits limits = {}) {
    serving = serveWhenReady(limits).eagerlyEvaluate([](kj::Exception&& e) { KJ_LOG(FATAL, e); });
  }
  // Stops apid, which closes its connections; clients that connect wait until it starts.
  void stopApid() { serving = nullptr; }

  kj::AsyncIoContext& io;
  kj::Timer& timer;
  kj::String address;
  Model model;
  kj::String directory = makeDirectory();
  kj::String socketPath = kj::str(directory, "/machined.sock");
  uint16_t port = 0;
  // How long anonymous clients stay connected after maintenance mode.
  kj::Function<kj::Promise<void>()> notice = [] { return kj::Promise<void>(kj::READY_NOW); };

 private:
  kj::AutoCloseFd listening, machinedListening;
  kj::Maybe<kj::Promise<void>> machinedServing;
  StoreClient store{*io.lowLevelProvider, timer, socketPath, kj::str("apid")};

 public:
  NodeIdentity identity{store, "test-node"};

 private:
  Budget budget{kClientBudget};
  PeerConnections peers;
  AuditLog audit{timer, machinedOf(*io.lowLevelProvider, timer, socketPath)};
  struct TestMaintenance final : MaintenanceMode {
    explicit TestMaintenance(TestNode& node) : test(node) {}
    TestNode& test;
    bool active() override { return test.identity.inMaintenance(); }
    kj::Promise<void> ended() override {
      return test.identity.maintenanceEnded().then([this] { return test.notice(); });
    }
    NodeOfRequest node(kj::Own<Budget::Account> account) override {
      return maintenanceNode(*test.io.lowLevelProvider, test.timer, test.socketPath,
                             kj::mv(account));
    }
  } maintenance{*this};
  Rules rules{capnp::Schema::from<rpc::Cluster>()};

 public:
  CallCounts calls{rules};

 private:
  RequestIds ids{0xa91d};
  Gate gate;
  grpcapi::GrpcApi grpcApi;
  kj::Maybe<kj::Promise<void>> serving;

  // Waits until apid, if it watches, has read the changes so far.
  void awaitWatches() {
    if (model.store.kind<rpc::ApiCertificateSpec>().watching == 0) return;
    store.visit<rpc::ApiCertificateSpec>([](auto) {}).wait(io.waitScope);
  }
  kj::Promise<void> serveWhenReady(ServerLimits limits) {
    co_await identity.ready();
    identity.server().enableHttp2();
    int fd;
    KJ_SYSCALL(fd = dup(listening));
    co_await serveTls(
        *io.lowLevelProvider, timer, kj::AutoCloseFd(fd), identity.server(),
        [this](const Peer& peer) { return gate.open(peer); }, limits, kj::NEVER_DONE,
        grpcapi::grpcProtocol(timer, grpcApi));
  }
  static kj::String makeDirectory() {
    char name[] = "/tmp/apid-test-XXXXXX";
    return kj::str(mkdtemp(name));
  }
  static PeerConnections::Dial refuse() {
    return [](const Ip& address) -> kj::Promise<Remote> {
      return error(ErrorKind::kUnavailable, kj::str(address.toString(), ": no route"));
    };
  }
};

}  // namespace talos::apid::testing
