#include "machined/resources/store-server.h"

#include <capnp/rpc-twoparty.h>
#include <kj/async-io.h>

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
  RecordingSink::Seen seen;
  auto get = [&](rpc::Resources::Client client) {
    auto request = client.getRequest();
    set(request.initKind(), kCertificates);
    request.setId("api");
    return request.send().ignoreResult();
  };
  auto watch = [&](rpc::Resources::Client client) {
    auto request = client.watchRequest();
    set(request.initKind(), kCertificates);
    request.setSink(kj::heap<RecordingSink>(seen));
    return request.send().ignoreResult();
  };
  EXPECT_EQ(kindOfFailure([&] { get(reader).wait(scope); }), "PermissionDenied");
  EXPECT_EQ(kindOfFailure([&] { list(reader, kCertificates).wait(scope); }), "PermissionDenied");
  EXPECT_EQ(kindOfFailure([&] { list(reader, "apicertificates").wait(scope); }),
            "PermissionDenied");
  EXPECT_EQ(kindOfFailure([&] { watch(reader).wait(scope); }), "PermissionDenied");
  EXPECT_EQ(seen.snapshots, 0u);
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

// The table of resource-access.cc, from the outside: what a broken daemon must not be able to do.
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
      {51, kRoots, false, false},  // but the one of the machine's authority, see below
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

// Catches: a key of the control plane in the hands of a daemon that has no use for it. The
// machine's authority is trustd's, the others' are nobody's outside machined.
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
    RecordingSink::Seen seen;
    auto request = client.watchRequest();
    set(request.initKind(), kRoots);
    request.setId(row.id);
    request.setSink(kj::heap<RecordingSink>(seen));
    auto watching = request.send();
    EXPECT_EQ(watching.poll(scope), row.outcome != "ok") << row.uid << " watches " << row.id.cStr();
    EXPECT_EQ(seen.snapshots, row.outcome == "ok" ? 1u : 0u) << row.uid;
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
  RecordingSink::Seen seen;
  auto watch = [&]() {
    auto request = client.watchRequest();
    set(request.initKind(), kHostnames);
    request.setSink(kj::heap<RecordingSink>(seen));
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

// A watch that goes on after its caller went away would keep changes for nobody.
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
  // Messages are processed in order, so an answer tells that all before it has been.
  auto roundTrip = [&] { list(resources, kHostnames).wait(io.waitScope); };
  RecordingSink::Seen seen;
  {
    auto request = resources.watchRequest();
    set(request.initKind(), kHostnames);
    request.setSink(kj::heap<RecordingSink>(seen));
    auto watching = request.send();
    roundTrip();
    StoreTest::put(store, "a", "x");
    roundTrip();
    roundTrip();
    EXPECT_EQ(seen.changes, 1u);
  }
  roundTrip();
  StoreTest::put(store, "b", "x");
  roundTrip();
  roundTrip();
  EXPECT_EQ(seen.snapshots, 1u);
  EXPECT_EQ(seen.changes, 1u);
}

}  // namespace
}  // namespace talos::machined
