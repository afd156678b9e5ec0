#include "machined/resources/store-server.h"

#include <capnp/rpc-twoparty.h>
#include <kj/async-io.h>

#include "common/base/node-layout.h"
#include "common/wire/rpc-server.h"
#include "machined/resources/test-store.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kCertificates = "ApiCertificates.secrets.talos.dev"_kj;
constexpr kj::StringPtr kRoots = "RootSecrets.secrets.talos.dev"_kj;

void set(rpc::Kind::Builder kind, kj::StringPtr type, kj::StringPtr ns = "") {
  kind.setType(type);
  kind.setNamespace(ns);
}

template <typename Client>
auto list(Client client, kj::StringPtr type) {
  auto request = client.listRequest();
  set(request.initKind(), type);
  return request.send();
}

auto write(rpc::Store::Client client, kj::StringPtr type, kj::StringPtr id) {
  auto request = client.putRequest();
  auto resource = request.initResource();
  resource.initMetadata().setType(type);
  resource.getMetadata().setId(id);
  resource.getSpec().initAs<rpc::HostnameSpecSpec>();
  return request.send();
}

// Secrets must not reach os:reader by any of the four ways.
TEST_F(StoreTest, SensitiveTypesNeedTheAdminCapability) {
  auto reader = serveResources(store, false, ClientCalls::alone()),
       admin = serveResources(store, true, ClientCalls::alone());
  RecordingSink::Received received;
  auto get = [&](rpc::Resources::Client client) {
    auto request = client.getRequest();
    set(request.initKind(), kCertificates);
    request.setId("api");
    return request.send().ignoreResult();
  };
  auto watch = [&](rpc::Resources::Client client) {
    auto request = client.watchRequest();
    set(request.initKind(), kCertificates);
    request.setSink(kj::heap<RecordingSink>(received));
    return request.send().ignoreResult();
  };
  EXPECT_EQ(kindOfFailure([&] { get(reader).wait(scope); }), "PermissionDenied");
  EXPECT_EQ(kindOfFailure([&] { list(reader, kCertificates).wait(scope); }), "PermissionDenied");
  EXPECT_EQ(kindOfFailure([&] { list(reader, "apicertificates").wait(scope); }),
            "PermissionDenied");
  EXPECT_EQ(kindOfFailure([&] { watch(reader).wait(scope); }), "PermissionDenied");
  EXPECT_EQ(received.snapshots, 0u);
  EXPECT_EQ(kindOfFailure([&] { get(admin).wait(scope); }), "NotFound");
  list(admin, kCertificates).wait(scope);
  list(reader, kHostnames).wait(scope);
}

TEST_F(StoreTest, ARefusalNamesTheRole) {
  auto e = kj::runCatchingExceptions(
      [&] { list(serveResources(store, false, ClientCalls::alone()), kCertificates).wait(scope); });
  EXPECT_EQ(messageOf(KJ_ASSERT_NONNULL(e)),
            "reading ApiCertificates.secrets.talos.dev needs the role os:admin");
}

// The table of resource-access.cc, from the outside: the actions that a compromised daemon must not
// be able to do.
TEST_F(StoreTest, DaemonsReachOnlyTheirOwnKinds) {
  struct Row {
    unsigned uid;
    kj::StringPtr type;
    bool reads, writes;
  } rows[] = {
      {0, kCertificates, true, true},
      {50, kCertificates, true, true},
      {50, "JoinSpecs.secrets.talos.dev"_kj, true, false},
      {50, "JoinStatuses.runtime.talos.dev"_kj, true, true},
      {50, "TimeStatuses.v1alpha1.talos.dev"_kj, true, false},
      {50, "NodeAddresses.net.talos.dev"_kj, true, false},
      {50, "MachineConfigs.config.talos.dev"_kj, false, false},
      {50, "RootSecrets.secrets.talos.dev"_kj, false, false},
      {52, kCertificates, false, false},
      {52, kHostnames, true, false},
      {52, "LinkStatuses.net.talos.dev"_kj, true, true},
      {52, "NodeAddresses.net.talos.dev"_kj, true, true},
      {52, "Namespaces.meta.cosi.dev"_kj, false, false},
      {51, kHostnames, true, false},
      {51, "NodeAddresses.net.talos.dev"_kj, true, false},
      {51, "IssuedCertificates.runtime.talos.dev"_kj, true, true},
      {51, kRoots, false, false},  // except the machine's CA, see below
      {51, kCertificates, false, false},
      {51, "MachineConfigs.config.talos.dev"_kj, false, false},
      {50, kRoots, false, false},
      {52, kRoots, false, false},
      {1000, kHostnames, false, false},
  };
  for (auto& row : rows) {
    auto client = serveStore(store, row.uid);
    EXPECT_EQ(kindOfFailure([&] { list(client, row.type).wait(scope); }),
              row.reads ? "ok" : "PermissionDenied")
        << row.uid << " reads " << row.type.cStr();
    EXPECT_EQ(kindOfFailure([&] { write(client, row.type, kj::str("by-", row.uid)).wait(scope); }),
              row.writes ? "ok" : "PermissionDenied")
        << row.uid << " writes " << row.type.cStr();
  }
}

// Catches: a key of the control plane that a daemon without need for it can read. Only trustd may
// read the machine's CA; no program outside machined may read the other CAs.
TEST_F(StoreTest, OnlyTrustdReadsTheAuthoritysKeyAndOnlyThat) {
  for (auto id : {"os"_kj, "k8s"_kj, "etcd"_kj})
    write(serveStore(store, 0), kRoots, id).wait(scope);
  struct Row {
    unsigned uid;
    kj::StringPtr id, outcome;
  } rows[] = {
      {51, "os"_kj, "ok"_kj},
      {51, "k8s"_kj, "PermissionDenied"_kj},
      {51, "etcd"_kj, "PermissionDenied"_kj},
      {50, "os"_kj, "PermissionDenied"_kj},
      {52, "os"_kj, "PermissionDenied"_kj},
      {1000, "os"_kj, "PermissionDenied"_kj},
  };
  for (auto& row : rows) {
    auto client = serveStore(store, row.uid);
    EXPECT_EQ(kindOfFailure([&] {
                auto request = client.getRequest();
                set(request.initKind(), kRoots);
                request.setId(row.id);
                request.send().wait(scope);
              }),
              row.outcome)
        << row.uid << " reads " << row.id.cStr();
    RecordingSink::Received received;
    auto request = client.watchRequest();
    set(request.initKind(), kRoots);
    request.setId(row.id);
    request.setSink(kj::heap<RecordingSink>(received));
    auto watching = request.send();
    EXPECT_EQ(watching.poll(scope), row.outcome != "ok") << row.uid << " watches " << row.id.cStr();
    EXPECT_EQ(received.snapshots, row.outcome == "ok" ? 1u : 0u) << row.uid;
  }
}

TEST_F(StoreTest, ListAndTypesAnswerWhatIsThere) {
  put("b", "y");
  put("a", "x");
  auto client = serveResources(store, false, ClientCalls::alone());
  auto response = list(client, "hostnamespec").wait(scope);
  ASSERT_EQ(response.getResources().size(), 2u);
  EXPECT_EQ(response.getResources()[0].getMetadata().getId(), "a");
  EXPECT_EQ(response.getResources()[0].getSpec().getAs<rpc::HostnameSpecSpec>().getHostname(), "x");
  EXPECT_EQ(client.typesRequest().send().wait(scope).getTypes().size(), registry.types().size());
}

// Catches: watches without end, each of which keeps changes for its reader.
TEST_F(StoreTest, WatchesOfAClientAreBounded) {
  auto calls = ClientCalls::alone();
  auto client = serveResources(store, false, kj::addRef(*calls));
  RecordingSink::Received received;
  auto watch = [&]() {
    auto request = client.watchRequest();
    set(request.initKind(), kHostnames);
    request.setSink(kj::heap<RecordingSink>(received));
    return request.send().ignoreResult();
  };
  kj::Vector<kj::Promise<void>> open;
  for (unsigned i = 0; i < limitOf(CallKind::kStream).perClient; ++i) {
    EXPECT_FALSE(open.add(watch()).poll(scope));
  }
  auto e = kj::runCatchingExceptions([&] { watch().wait(scope); });
  EXPECT_EQ(kindOf(KJ_ASSERT_NONNULL(e)), ErrorKind::kResourceExhausted)
      << messageOf(KJ_ASSERT_NONNULL(e)).cStr();
  open.removeLast();
  EXPECT_FALSE(watch().poll(scope));
}

// A watch that continues after its caller disconnected would keep changes without a reader.
TEST(StoreServerTest, ADroppedCallEndsItsWatch) {
  auto io = kj::setupAsyncIo();
  Registry registry;
  TestClock clock;
  Store store(registry, clock);
  auto pipe = io.provider->newTwoWayPipe();
  capnp::TwoPartyClient client(*pipe.ends[0]);
  capnp::TwoPartyClient server(*pipe.ends[1], serveResources(store, false, ClientCalls::alone()),
                               capnp::rpc::twoparty::Side::SERVER);
  auto resources = client.bootstrap().castAs<rpc::Resources>();
  // Messages are processed in order, so an answer shows that all earlier messages have been
  // processed.
  auto roundTrip = [&] { list(resources, kHostnames).wait(io.waitScope); };
  RecordingSink::Received received;
  {
    auto request = resources.watchRequest();
    set(request.initKind(), kHostnames);
    request.setSink(kj::heap<RecordingSink>(received));
    auto watching = request.send();
    roundTrip();
    StoreTest::put(store, "a", "x");
    roundTrip();
    roundTrip();
    EXPECT_EQ(received.changes, 1u);
  }
  roundTrip();
  StoreTest::put(store, "b", "x");
  roundTrip();
  roundTrip();
  EXPECT_EQ(received.snapshots, 1u);
  EXPECT_EQ(received.changes, 1u);
}

// The routes that networkd writes on a large machine.
kj::Promise<void> putRoute(rpc::Store::Client client, unsigned i, size_t padding = 0) {
  auto request = client.putRequest();
  auto resource = request.initResource();
  resource.initMetadata().setType(typeName<rpc::RouteStatusSpec>());
  resource.getMetadata().setId(kj::str("eth0/inet4/10.", i / 250, ".", i % 250, ".0/24/1024"));
  resource.getMetadata().setOwner("networkd");
  auto route = resource.getSpec().initAs<rpc::RouteStatusSpec>();
  route.setFamily("inet4");
  route.setDestination(kj::str("10.", i / 250, ".", i % 250, ".0/24"));
  route.setGateway("192.168.100.100");
  route.setLinkName("enp0s31f6");
  route.setScope("global");
  route.setProtocol("static");
  route.setSource(kj::str("192.168.100.101", kj::repeat(' ', padding)));
  route.setType("unicast");
  return request.send().ignoreResult();
}
kj::Promise<void> putLink(rpc::Store::Client client, unsigned i) {
  auto request = client.putRequest();
  auto resource = request.initResource();
  resource.initMetadata().setType(typeName<rpc::LinkStatusSpec>());
  resource.getMetadata().setId(kj::str("vethabcdef", i));
  resource.getMetadata().setOwner("networkd");
  auto link = resource.getSpec().initAs<rpc::LinkStatusSpec>();
  link.setType("ether");
  link.setKind("veth");
  link.setHardwareAddress("52:54:00:12:34:56");
  link.setBroadcastAddress("ff:ff:ff:ff:ff:ff");
  link.setPermanentAddress("52:54:00:12:34:56");
  link.setOperationalState("up");
  link.setQueueDiscipline("noqueue");
  link.setMemberKind("bridge");
  auto flags = link.initFlags(4);
  for (auto f : kj::indices(flags)) flags.set(f, "running");
  auto bond = link.initBondMember();
  bond.setState("active");
  bond.setPermanentAddress("52:54:00:12:34:56");
  return request.send().ignoreResult();
}

// Catches: a compromised daemon that fills the brain's memory; a quota that is too small for a
// large machine, or whose records exceed one message.
TEST_F(StoreTest, ADaemonHasAQuotaOfRecordsAndBytes) {
  auto networkd = serveStore(store, kNetworkdUid);
  for (unsigned i = 0; i < 10'000; ++i) putRoute(networkd, i).wait(scope);
  for (unsigned i = 0; i < 4000; ++i) putLink(networkd, i).wait(scope);
  for (auto type : {typeName<rpc::RouteStatusSpec>(), typeName<rpc::LinkStatusSpec>()}) {
    auto words = list(networkd, type).wait(scope).totalSize().wordCount;
    EXPECT_LT(words + 1000, ServerLimits().messageWords) << type.cStr();
    printf("%s: %zu bytes in one list\n", type.cStr(), size_t(words * sizeof(capnp::word)));
  }
  unsigned i = 10'000;
  auto fill = [&](size_t padding) {
    kj::StringPtr kind = "ok";
    for (auto end = i + 100'000; i < end && kind == "ok"; ++i) {
      kind = kindOfFailure([&] { putRoute(networkd, i, padding).wait(scope); });
    }
    return kind;
  };
  EXPECT_EQ(fill(0), "ResourceExhausted");
  EXPECT_LT(i, 20'000u);
  auto type = typeName<rpc::RouteStatusSpec>();
  EXPECT_LT(list(networkd, type).wait(scope).totalSize().wordCount, ServerLimits().messageWords);
  // An existing resource can be rewritten and removed, another type has a separate quota, and the
  // brain itself has no quota.
  auto destroy = networkd.destroyRequest();
  set(destroy.initKind(), type);
  destroy.setId("eth0/inet4/10.0.0.0/24/1024");
  destroy.setOwner("networkd");
  destroy.send().wait(scope);
  putRoute(networkd, 0).wait(scope);
  EXPECT_EQ(kindOfFailure([&] { putRoute(networkd, 70'000).wait(scope); }), "ResourceExhausted");
  EXPECT_EQ(kindOfFailure([&] { putLink(networkd, 4000).wait(scope); }), "ok");
  EXPECT_EQ(kindOfFailure([&] { putRoute(serveStore(store, 0), 80'000).wait(scope); }), "ok");
}

// Catches: few but large records, also those that were small when they were created, and those of
// another namespace.
TEST_F(StoreTest, AQuotaIsOfBytesToo) {
  auto networkd = serveStore(store, kNetworkdUid);
  kj::StringPtr kind = "ok";
  unsigned count = 0;
  for (; count < 100 && kind == "ok"; ++count) {
    kind = kindOfFailure([&] { putRoute(networkd, count, 1u << 20).wait(scope); });
  }
  EXPECT_EQ(kind, "ResourceExhausted");
  EXPECT_EQ(count, 7u);
  auto put = [&](kj::StringPtr ns, uint64_t version, size_t padding) {
    auto request = networkd.putRequest();
    auto resource = request.initResource();
    resource.initMetadata().setType(typeName<rpc::RouteStatusSpec>());
    resource.getMetadata().setNamespace(ns);
    resource.getMetadata().setId("grows");
    resource.getMetadata().setVersion(version);
    resource.getSpec().initAs<rpc::RouteStatusSpec>().setSource(kj::str(kj::repeat('x', padding)));
    return kindOfFailure([&] { request.send().wait(scope); });
  };
  EXPECT_EQ(put("", 0, 1), "ok");
  EXPECT_EQ(put("", 1, 2), "ok");
  EXPECT_EQ(put("", 2, 1u << 20), "ResourceExhausted");
  EXPECT_EQ(put("config", 0, 1u << 20), "ResourceExhausted");
}

}  // namespace
}  // namespace talos::machined
