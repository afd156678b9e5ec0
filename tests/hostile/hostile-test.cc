// Ten thousand hostile sessions at each socket of a node: random bytes, random messages, right
// conversations cut and with bits flipped, and towards apid also bytes before its handshake. After
// each the honest client is answered; in the end nothing has grown. Pseudo-random with fixed seeds,
// so a failure comes again.
#include "tests/hostile/hostile.h"
#include "apid/gate/test-apid-node.h"
#include "common/wire/test-connect.h"
#include "tests/testbeds/cluster-conversation.h"
#include "tests/testbeds/machined-testbed.h"
#include "tests/testbeds/networkd-testbed.h"

namespace talos {
namespace {

struct Directory {
  kj::String path;
  Directory() {
    char name[] = "/tmp/hostile-XXXXXX";
    KJ_ASSERT(mkdtemp(name) != nullptr);
    path = kj::str(name);
  }
  ~Directory() noexcept(false) { removeTree(path); }
};

// Catches: a local daemon, or apid's process in foreign hands, that ends machined or makes it grow.
TEST_F(Hostile, Machined) {
  testbeds::MachinedTestbed machined(io, timer);
  Directory directory;
  auto path = kj::str(directory.path, "/machined.sock");
  auto serving =
      serveUnix(*io.lowLevelProvider, timer, listenUnix(path, 0600), [&](const UnixPeer&) {
        return machined.open();
      }).eagerlyEvaluate([](kj::Exception&& e) { ADD_FAILURE() << kj::str(e).cStr(); });
  attackUnix(
      path, machined.conversation(), 1, [&]() { machined.emptyStore(); },
      testbeds::MachinedTestbed::use);
}

// Catches: the same of networkd.
TEST_F(Hostile, Networkd) {
  testbeds::NetworkdTestbed networkd(timer);
  Directory directory;
  auto path = kj::str(directory.path, "/networkd.sock");
  auto serving =
      serveUnix(*io.lowLevelProvider, timer, listenUnix(path, 0600), [&](const UnixPeer&) {
        return networkd.open();
      }).eagerlyEvaluate([](kj::Exception&& e) { ADD_FAILURE() << kj::str(e).cStr(); });
  attackUnix(
      path, testbeds::NetworkdTestbed::conversation(), 2, []() {}, testbeds::NetworkdTestbed::use);
}

// Catches: anybody on the network that ends apid or makes it grow: before the handshake with random
// bytes and damaged ClientHellos, after it, with a reader's certificate, with damaged messages.
TEST_F(Hostile, Apid) {
  apid::testing::Authority authority;
  apid::testing::TestNode node(io, "10.0.0.1");
  node.certify(authority);
  node.startMachined();
  node.startApid();
  wait(node.identity.ready());
  TlsEndpoint client(authority.client("honest", {"os:reader"}));

  // The first flight of a right handshake.
  kj::byte hello[4096];
  size_t helloSize;
  {
    auto pipe = io.provider->newTwoWayPipe();
    auto connecting = client.connect(kj::mv(pipe.ends[0]), "10.0.0.1").eagerlyEvaluate(nullptr);
    helloSize = wait(pipe.ends[1]->tryRead(hello, 1, sizeof hello));
  }
  auto right = testbeds::clusterConversation();
  auto rightHello = kj::arrayPtr(hello, helloSize);
  auto address = kj::str("127.0.0.1:", node.port);

  auto connect = [&]() {
    return wait(
        connectTls(*io.lowLevelProvider, timer, client, "127.0.0.1", node.port, "10.0.0.1"));
  };
  auto use = [&](capnp::Capability::Client bootstrap) {
    auto there = bootstrap.castAs<rpc::Cluster>().nodeRequest().send().getNode();
    auto version = there.machineRequest().send().getMachine().versionRequest().send();
    EXPECT_EQ(wait(version.then([](auto&& r) { return kj::str(r.getTag()); })), "node 10.0.0.1"_kj);
  };
  Generator generator(3);
  auto held = connect();
  auto heldCapability = held->bootstrap();
  attack(
      [&](unsigned i) {
        auto input = generator.next();
        auto stream = dial(address);
        if (i % 4 != 0) {  // most of them have no certificate
          wait(converse(*stream, testbeds::hostileBytes(rightHello, input)));
          return 0u;
        }
        auto tls = wait(client.connect(kj::mv(stream), "10.0.0.1"));
        return testbeds::answersIn(wait(converse(*tls, testbeds::hostileBytes(right, input))))
            .results;
      },
      [&](bool fresh) {
        if (fresh) use(connect()->bootstrap());
        use(heldCapability);
      });
  EXPECT_GT(node.model.reads, 0u) << "nothing was read, so nobody can have been left behind";
  EXPECT_EQ(node.model.readers, 0u);
}

}  // namespace
}  // namespace talos
