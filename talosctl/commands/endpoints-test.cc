// The choice among several endpoints, on a clock that the test owns.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/net/dns-resolver.h"
#include "common/net/host-dial.h"
#include "common/testing/own-network.h"
#include "common/testing/test-namespace.h"
#include "common/testing/test-port.h"
#include "talosctl/commands/test-cluster.h"

namespace talos::talosctl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using Endpoints = ClusterTest;

// The order is random: with this many runs each endpoint comes first, except in one of 4096 test
// runs.
constexpr int kOften = 12;

// Catches: a silent endpoint that costs its whole share, or the whole timeout.
TEST_F(Endpoints, OneThatIsSilentCostsSomeSeconds) {
  auto silent = listenTcp("127.0.0.5", c.port);  // accepts no connection
  for (int i = 0; i < kOften; ++i) {
    auto begin = c.clock.now();
    EXPECT_EQ(c.run({"-e", "127.0.0.5,127.0.0.2", "-n", "10.0.0.2", "memory"}), 0) << err();
    EXPECT_LE(c.clock.now() - begin, 2 * kj::SECONDS);
  }
}

// Catches: an endpoint that counts as working although its machine has stopped and only its kernel
// answers.
TEST_F(Endpoints, OneThatConnectsAndSaysNothingIsNotTaken) {
  auto mute = pki::issue(c.authority.certificate, c.authority.key,
                         {.addresses = kj::arr(kj::str("127.0.0.6")), .client = false});
  TlsEndpoint tls({kj::str(c.authority.certificate), kj::mv(mute.certificate), kj::mv(mute.key)});
  auto serving =
      serveTls(c.test.deps.lowLevel, c.test.deps.timer, listenTcp("127.0.0.6", c.port), tls,
               [](const Peer&) {
                 return SessionParams{.bootstrap =
                                          kj::Promise<capnp::Capability::Client>(kj::NEVER_DONE)};
               })
          .eagerlyEvaluate(nullptr);
  for (int i = 0; i < kOften; ++i) {
    auto begin = c.clock.now();
    EXPECT_EQ(c.run({"-e", "127.0.0.6,127.0.0.2", "-n", "10.0.0.2", "memory"}), 0) << err();
    EXPECT_LE(c.clock.now() - begin, 2 * kj::SECONDS);
  }
  EXPECT_EQ(c.run({"-e", "127.0.0.6,127.0.0.3", "-n", "10.0.0.2", "memory"}), 1);
  EXPECT_THAT(err(), AllOf(HasSubstr("endpoint 127.0.0.6: no answer within"),
                           HasSubstr("endpoint 127.0.0.3: "), HasSubstr("refused")));
}

// apid of a compromised worker: it forwards, and records the target.
class ForwardsAll final : public rpc::Cluster::Server {
 public:
  ForwardsAll(FakeNode& behind, kj::Vector<kj::String>& named) : behind(behind), named(named) {}
  kj::Promise<void> node(NodeContext context) override {
    named.add(kj::str(context.getParams().getAddress()));
    context.getResults().setNode(kj::heap<FakeNodeServer>(behind));
    return kj::READY_NOW;
  }

 private:
  FakeNode& behind;
  kj::Vector<kj::String>& named;
};

// Catches: the config of another node, with its keys, sent through a worker that forwards although
// it should refuse; a worker that can no longer be its own endpoint.
TEST_F(Endpoints, AWorkerIsSentNothingThatIsForAnotherNode) {
  auto leaf = pki::issue(c.authority.certificate, c.authority.key,
                         {.dnsNames = kj::arr(kj::str("worker-1")),
                          .addresses = kj::arr(kj::str("127.0.0.6"), kj::str("10.0.0.2")),
                          .client = false});
  TlsEndpoint tls({kj::str(c.authority.certificate), kj::mv(leaf.certificate), kj::mv(leaf.key)});
  FakeNode node;
  kj::Vector<kj::String> named;
  auto serving =
      serveTls(c.test.deps.lowLevel, c.test.deps.timer, listenTcp("127.0.0.6", c.port), tls,
               [&](const Peer&) {
                 return SessionParams{.bootstrap = kj::heap<ForwardsAll>(node, named)};
               })
          .eagerlyEvaluate(nullptr);
  for (auto own : {"127.0.0.6", "10.0.0.2", "worker-1"}) {
    EXPECT_EQ(c.run({"-e", "127.0.0.6", "-n", own, "memory"}), 0) << err();
  }
  named.clear();
  for (kj::StringPtr other : {"10.0.0.9", "worker-2"}) {
    EXPECT_EQ(c.run({"-e", "127.0.0.6", "-n", other, "memory"}), 1);
    EXPECT_THAT(err(), HasSubstr(kj::str("the endpoint 127.0.0.6 is a worker, which does not "
                                         "forward calls to ",
                                         other, "; use a control-plane node as the endpoint")
                                     .cStr()));
  }
  for (auto& one : named) EXPECT_EQ(one, "") << "it was sent a call for " << one.cStr();
}

// Catches: an endpoint that is given up long before the timeout of the user or the help; a command
// with ten minutes for its work that spends them on a connection.
TEST_F(Endpoints, AConnectionHasTheTimeoutThatIsNamed) {
  auto silent = listenTcp("127.0.0.5", c.port);  // accepts no connection
  auto took = [&](std::initializer_list<kj::StringPtr> words) {
    auto begin = c.clock.now();
    EXPECT_EQ(c.run(words), 1) << out();
    return (c.clock.now() - begin) / kj::SECONDS;
  };
  EXPECT_EQ(took({"-e", "127.0.0.5", "-n", "10.0.0.2", "memory"}), 30);
  EXPECT_THAT(err(), HasSubstr("cannot connect to endpoint 127.0.0.5: no answer within 30s"));
  EXPECT_EQ(took({"-e", "127.0.0.5", "-n", "10.0.0.2", "memory", "--timeout", "45s"}), 45);
  EXPECT_THAT(err(), HasSubstr("no answer within 45s"));
  EXPECT_EQ(took({"-e", "127.0.0.5", "-n", "10.0.0.2", "bootstrap"}), 30);
  EXPECT_THAT(err(), HasSubstr("no answer within 30s"));
}

// Catches: an address of a name that connects, stays silent, and uses up the time of the other
// addresses.
TEST(Endpoint, OneSilentAddressOfANameLeavesTimeForTheNext) {
  onThread([] {
    OwnNetwork network;  // always has ::1, unlike the host
    TestCluster c;
    c.nodes.insert(kj::str("10.0.0.2"), FakeNode());
    constexpr auto kName = "node.localhost"_kj;
    auto addresses = resolve(c.deps->port, c.test.deps.timer, kName).wait(c.test.io.waitScope);
    ASSERT_EQ(addresses.size(), 2u);
    auto leaf = pki::issue(c.authority.certificate, c.authority.key,
                           {.dnsNames = kj::arr(kj::str(kName)),
                            .addresses = kj::arr(kj::str("127.0.0.1")),
                            .client = false});
    TlsEndpoint tls({kj::str(c.authority.certificate), kj::mv(leaf.certificate), kj::mv(leaf.key)});
    c.deps->apiPort = freePort();
    auto serve = [&](kj::StringPtr address, capnp::Capability::Client said) {
      return serveTls(c.test.deps.lowLevel, c.test.deps.timer, listenTcp(address, c.deps->apiPort),
                      tls, [said](const Peer&) mutable { return SessionParams{.bootstrap = said}; })
          .eagerlyEvaluate(nullptr);
    };
    auto mute = serve(addresses[0], kj::Promise<capnp::Capability::Client>(kj::NEVER_DONE));
    auto well = serve(addresses[1], kj::heap<FakeClusterServer>(c.nodes));
    auto begin = c.clock.now();
    EXPECT_EQ(c.run({"-e", kName, "-n", "10.0.0.2", "memory"}), 0)
        << c.test.console.takeErr().cStr();
    EXPECT_LE(c.clock.now() - begin, 5 * kj::SECONDS);
    mute = kj::Promise<void>(kj::READY_NOW), well = kj::Promise<void>(kj::READY_NOW);
    mute = serve(addresses[0], kj::Promise<capnp::Capability::Client>(kj::NEVER_DONE));
    EXPECT_EQ(c.run({"-e", kName, "-n", "10.0.0.2", "memory"}), 1);
    EXPECT_THAT(kj::str(c.test.console.takeErr()).cStr(),
                AllOf(HasSubstr(kj::str(addresses[0], ": no answer within 5s").cStr()),
                      HasSubstr("refused")));
    // The last address has all of the remaining time; the error of the first is still reported.
    mute = kj::Promise<void>(kj::READY_NOW);
    mute = serve(addresses[1], kj::Promise<capnp::Capability::Client>(kj::NEVER_DONE));
    EXPECT_EQ(c.run({"-e", kName, "-n", "10.0.0.2", "memory"}), 1);
    EXPECT_THAT(kj::str(c.test.console.takeErr()).cStr(),
                AllOf(HasSubstr(kj::str(addresses[1], ": no answer within 30s").cStr()),
                      HasSubstr("refused")));
  });
}

// Answers until `mute` is set, as a forwarder does whose machine has lost its power.
class Forwarded final : public rpc::Cluster::Server {
 public:
  struct State {
    bool used = false, mute = false;
    kj::PromiseFulfillerPair<void> back = kj::newPromiseAndFulfiller<void>();
    // Resolves when the endpoint answers again.
    kj::ForkedPromise<void> speaks = back.promise.fork();
  };
  Forwarded(kj::TreeMap<kj::String, FakeNode>& nodes, State& state)
      : behind(kj::heap<FakeClusterServer>(nodes)), state(state) {}
  kj::Promise<void> node(NodeContext context) override {
    state.used = true;
    if (!state.mute) return behind->node(kj::mv(context));
    return state.speaks.addBranch().then(
        [this, context]() mutable { return behind->node(kj::mv(context)); });
  }

 private:
  kj::Own<FakeClusterServer> behind;
  State& state;
};

struct ForwardedEndpoints : ClusterTest {
  ~ForwardedEndpoints() noexcept override {}
  pki::CertificateAndKey leaf = pki::issue(
      c.authority.certificate, c.authority.key,
      {.addresses = kj::arr(kj::str("127.0.0.1"), kj::str("127.0.0.6"), kj::str("127.0.0.7")),
       .client = false});
  TlsEndpoint tls{{kj::str(c.authority.certificate), kj::str(leaf.certificate), kj::mv(leaf.key)}};
  Forwarded::State six, seven;

  kj::Promise<void> serve(kj::StringPtr address, Forwarded::State& state,
                          ServerLimits limits = {}) {
    auto begin = [this, &state](const Peer&) {
      return SessionParams{.bootstrap = kj::heap<Forwarded>(c.nodes, state)};
    };
    return serveTls(c.test.deps.lowLevel, c.test.deps.timer, listenTcp(address, c.port), tls,
                    kj::mv(begin), limits)
        .eagerlyEvaluate(nullptr);
  }
  // Returns a connected client of these endpoints.
  kj::Own<Client> client(std::initializer_list<kj::StringPtr> endpoints) {
    auto own = pki::issue(c.authority.certificate, c.authority.key,
                          {.organizations = kj::arr(kj::str("os:admin")), .server = false});
    Target target{
        .endpoints = {},
        .nodes = {},
        .credentials = {kj::str(c.authority.certificate), kj::mv(own.certificate), kj::mv(own.key)},
        .fingerprints = {}};
    for (auto endpoint : endpoints) target.endpoints.add(kj::str(endpoint));
    auto made = kj::heap<Client>(*c.deps, kj::mv(target));
    EXPECT_EQ(end(made->connect(30 * kj::SECONDS)), "");
    return made;
  }
  // Advances the clock by `time`, event by event.
  void pass(kj::Duration time) {
    for (auto until = c.clock.now() + time;;) {
      c.settle();
      auto next = c.clock.nextEvent().orDefault(until);
      c.clock.advanceTo(kj::max(kj::min(next, until), c.clock.now()));
      if (next > until || c.clock.now() >= until) break;
    }
    c.settle();
  }
  // Returns the error of a promise, or nothing.
  std::string end(kj::Promise<void> promise) {
    std::string error;
    auto ended = promise.then([] { return 0; },
                              [&](kj::Exception&& e) {
                                error = messageOf(e).cStr();
                                return 1;
                              });
    EXPECT_NE(c.finish(kj::mv(ended)), -1) << "it never ended";
    return error;
  }
  static kj::Promise<void> memory(Client& client) {
    return client.node("10.0.0.2")
        .machineRequest()
        .send()
        .getMachine()
        .memoryRequest()
        .send()
        .ignoreResult();
  }
};

// Catches: a command that runs for days and keeps its endpoint, although this endpoint is silent
// and another one would answer.
TEST_F(ForwardedEndpoints, OneThatFallsSilentIsReplaced) {
  auto servingSix = serve("127.0.0.6", six), servingSeven = serve("127.0.0.7", seven);
  auto interrupt = kj::newPromiseAndFulfiller<void>();
  auto series = c.start({"-e", "127.0.0.6,127.0.0.7", "-n", "10.0.0.2", "--timeout", "10s", "etcd",
                         "snapshot", c.folder, "--every", "10s"},
                        kj::mv(interrupt.promise));
  auto saved = [&] {
    for (int round = 0; round < 60; ++round) {
      c.settle();
      if (series.poll(c.test.io.waitScope)) return false;
      if (c.test.console.takeOut().size() > 0) return true;
      KJ_IF_MAYBE (next, c.clock.nextEvent()) c.clock.advanceTo(kj::max(*next, c.clock.now()));
    }
    return false;
  };
  EXPECT_TRUE(saved()) << err();
  ASSERT_NE(six.used, seven.used);
  (six.used ? six : seven).mute = true;
  EXPECT_TRUE(saved()) << err();
  interrupt.fulfiller->fulfill();
  EXPECT_EQ(c.finish(kj::mv(series)), 0) << err();
}

// Catches: calls that are lost because their endpoint was silent for some seconds while another
// call connected; calls of a dead endpoint that never end.
TEST_F(ForwardedEndpoints, CallsInFlightOnTheOneReplacedAreAnswered) {
  auto servingSix = serve("127.0.0.6", six), servingSeven = serve("127.0.0.7", seven);
  for (bool speaks : {true, false}) {
    auto one = client({"127.0.0.6", "127.0.0.7"});
    auto first = kj::str(one->endpoint());
    auto& state = first == "127.0.0.6" ? six : seven;
    state.mute = true;
    auto early = memory(*one), late = memory(*one);
    auto again = one->connect(30 * kj::SECONDS);
    pass(6 * kj::SECONDS);
    EXPECT_EQ(end(kj::mv(again)), "");
    EXPECT_NE(one->endpoint(), first);
    if (speaks) state.back.fulfiller->fulfill();
    auto begin = c.clock.now();
    EXPECT_EQ(end(kj::mv(early)) == "", speaks);
    EXPECT_LE(c.clock.now() - begin, 16 * kj::SECONDS);
    if (speaks) pass(1 * kj::MINUTES);  // the connection is kept, for long calls
    EXPECT_EQ(end(kj::mv(late)) == "", speaks);
    state = Forwarded::State();
  }
}

// Catches: a slow endpoint that is given up because another connection to it was refused.
TEST_F(ForwardedEndpoints, OneThatIsSlowHasAllOfTheTimeWhenNoOtherAnswers) {
  auto serving = serve("127.0.0.6", six, {.connectionsPerPeer = 1});
  auto one = client({"127.0.0.6"});
  six.mute = true;
  auto again = one->connect(30 * kj::SECONDS);
  pass(8 * kj::SECONDS);
  six.back.fulfiller->fulfill();
  EXPECT_EQ(end(kj::mv(again)), "");
  six = Forwarded::State();
  six.mute = true;
  auto begin = c.clock.now();
  EXPECT_NE(end(one->connect(20 * kj::SECONDS)), "");
  EXPECT_EQ((c.clock.now() - begin) / kj::SECONDS, 20);
}

// Catches: a deadline that starts again when the connection ends during a request.
TEST_F(ForwardedEndpoints, OneThatEndsWhileItIsAskedCostsNoMoreTime) {
  auto serving = serve("127.0.0.6", six);
  auto one = client({"127.0.0.6"});
  six.mute = true;
  auto begin = c.clock.now();
  auto again = one->connect(20 * kj::SECONDS);
  pass(4 * kj::SECONDS);
  serving = kj::Promise<void>(kj::READY_NOW);
  auto silent = listenTcp("127.0.0.6", c.port);  // accepts no connection
  EXPECT_NE(end(kj::mv(again)), "");
  EXPECT_EQ((c.clock.now() - begin) / kj::SECONDS, 20);
}

// Catches: another order of the endpoints after one was silent.
TEST_F(ForwardedEndpoints, TheirOrderStays) {
  auto servingSix = serve("127.0.0.6", six), servingSeven = serve("127.0.0.7", seven);
  auto one = client({"127.0.0.6", "127.0.0.7", "127.0.0.3"});
  auto order = kj::strArray(one->endpoints(), " ");
  (one->endpoint() == "127.0.0.6" ? six : seven).mute = true;
  EXPECT_EQ(end(one->connect(30 * kj::SECONDS)), "");
  EXPECT_EQ(kj::strArray(one->endpoints(), " "), order);
}

// Catches: a command that waits 25 minutes for an answer of a node that has disappeared; a command
// that gives up a node which is only busy.
TEST_F(Endpoints, ALongCallEndsWhenItsNodeFallsSilent) {
  auto& one = node("10.0.0.2");
  one.upgrades.requestsHang = one.pullsHang = true;
  using Line = std::initializer_list<kj::StringPtr>;
  for (Line line :
       {Line{"-n", "10.0.0.2", "upgrade", "-i", "x/i:v2"},
        Line{"-n", "10.0.0.2", "upgrade-cluster", "-i", "x/i:v2", "--kubernetes=false", "--yes"},
        Line{"-n", "10.0.0.2", "bootstrap"}, Line{"-n", "10.0.0.2", "image", "pull", "x/i:v2"}}) {
    auto run = c.start(kj::arrayPtr(line.begin(), line.size()));
    c.settle();
    one.hangs = true;
    auto begin = c.clock.now();
    EXPECT_EQ(c.finish(kj::mv(run)), 1);
    EXPECT_LE(c.clock.now() - begin, 45 * kj::SECONDS);
    EXPECT_THAT(err(), HasSubstr("no answer for 39s"));
    one.hangs = false;
  }
  // Two of three requests are not answered.
  auto run = c.start({"-n", "10.0.0.2", "image", "pull", "x/i:v2", "--timeout", "2m"});
  auto begin = c.clock.now();
  for (int round = 0; round < 300 && !run.poll(c.test.io.waitScope); ++round) {
    c.settle();
    one.hangs = one.calls % 3 != 2;
    KJ_IF_MAYBE (next, c.clock.nextEvent()) c.clock.advanceTo(kj::max(*next, c.clock.now()));
  }
  EXPECT_EQ(c.finish(kj::mv(run)), 1);
  EXPECT_EQ(c.clock.now() - begin, 2 * kj::MINUTES);
  EXPECT_THAT(err(), HasSubstr("no answer within 2m"));
}

// Catches: attempts that are waited for although the first has long succeeded.
TEST_F(Endpoints, OneThatAnswersIsTakenAtOnce) {
  for (int i = 0; i < kOften; ++i) {
    auto begin = c.clock.now();
    EXPECT_EQ(c.run({"-e", "127.0.0.2,127.0.0.3", "-n", "10.0.0.2", "memory"}), 0) << err();
    EXPECT_EQ(c.clock.now(), begin);
  }
}

// A proxy on 127.0.0.1 that answers CONNECT, and leads every tunnel to one server.
class ConnectProxy {
 public:
  ConnectProxy(Dependencies& deps, kj::StringPtr server, uint16_t serverPort)
      : deps(deps),
        server(kj::str(server)),
        serverPort(serverPort),
        listening(listenTcp("127.0.0.1", 0)),
        receiver(deps.lowLevel.wrapListenSocketFd(listening.get(), 0)),
        tasks(errors) {
    tasks.add(accept());
  }
  KJ_DISALLOW_COPY_AND_MOVE(ConnectProxy);

  std::string answer = "HTTP/1.1 200 Connection established\r\n\r\n";
  std::vector<std::string> requests;
  uint16_t port() const { return portOf(listening.get()); }

 private:
  struct Errors final : kj::TaskSet::ErrorHandler {
    void taskFailed(kj::Exception&&) override {}  // the client closed the connection
  };
  Dependencies& deps;
  kj::String server;
  uint16_t serverPort;
  kj::AutoCloseFd listening;
  kj::Own<kj::ConnectionReceiver> receiver;
  Errors errors;
  kj::TaskSet tasks;

  kj::Promise<void> accept() {
    for (;;) {
      auto client = co_await receiver->accept();
      tasks.add(serve(kj::mv(client)));
    }
  }
  kj::Promise<void> serve(kj::Own<kj::AsyncIoStream> client) {
    std::string head;
    while (!head.ends_with("\r\n\r\n")) {
      char c;
      if (co_await client->tryRead(&c, 1, 1) == 0) co_return;
      head += c;
    }
    requests.push_back(head);
    co_await client->write(answer.data(), answer.size());
    if (answer.find(" 200 ") == std::string::npos) co_return;
    DialDependencies dialing{deps.lowLevel, deps.port, deps.timer};
    auto node = co_await dialHost(dialing, kj::str(server), serverPort);
    auto there = client->pumpTo(*node).ignoreResult();
    co_await there.exclusiveJoin(node->pumpTo(*client).ignoreResult());
  }
};

// Sets a variable of the environment of talosctl.
void setVariable(TestCluster& c, kj::StringPtr name, kj::StringPtr value) {
  c.test.environment.upsert(kj::str(name), kj::str(value),
                            [](kj::String& old, kj::String&& next) { old = kj::mv(next); });
}

struct ProxiedEndpoints : ClusterTest {
  ~ProxiedEndpoints() noexcept override {}
  pki::CertificateAndKey leaf = pki::issue(
      c.authority.certificate, c.authority.key,
      {.dnsNames = kj::arr(kj::str("node.example.test")),
       .addresses = kj::arr(kj::str("127.0.0.1"), kj::str("127.0.0.6"), kj::str("192.0.2.99")),
       .client = false});
  TlsEndpoint tls{{kj::str(c.authority.certificate), kj::str(leaf.certificate), kj::mv(leaf.key)}};
  kj::Promise<void> serving =
      serveTls(c.test.deps.lowLevel, c.test.deps.timer, listenTcp("127.0.0.6", c.port), tls,
               [this](const Peer&) {
                 return SessionParams{.bootstrap = kj::heap<FakeClusterServer>(c.nodes)};
               })
          .eagerlyEvaluate(nullptr);
  ConnectProxy proxy{c.test.deps, "127.0.0.6", c.port};
  kj::String address = kj::str("127.0.0.1:", proxy.port());
};

// Catches: a name that is resolved here, where only the proxy can resolve it; a password that the
// proxy does not get; another name than the user's in the check of the certificate.
TEST_F(ProxiedEndpoints, AreReachedByTheNameThatTheProxyResolves) {
  auto target = kj::str("node.example.test:", c.port);
  setVariable(c, "HTTPS_PROXY", kj::str("http://user:p%40ss@", address));
  EXPECT_EQ(c.run({"-e", "node.example.test", "-n", "10.0.0.2", "memory"}), 0) << err();
  ASSERT_EQ(proxy.requests.size(), 1u);
  EXPECT_EQ(proxy.requests[0],
            kj::str("CONNECT ", target, " HTTP/1.1\r\nHost: ", target,
                    "\r\nUser-Agent: talosctl\r\nProxy-Authorization: Basic dXNlcjpwQHNz\r\n\r\n")
                .cStr());
  EXPECT_EQ(c.run({"-e", "other.example.test", "-n", "10.0.0.2", "memory"}), 1);
  EXPECT_THAT(err(), HasSubstr(kj::str("endpoint other.example.test: proxy ", address,
                                       ": other.example.test:", c.port, ": ")
                                   .cStr()));
}

// Catches: an address that is called directly, the variable in lower case that is not read.
TEST_F(ProxiedEndpoints, AnAddressIsReachedThroughTheProxyToo) {
  setVariable(c, "https_proxy", address);
  EXPECT_EQ(c.run({"-e", "192.0.2.99", "-n", "10.0.0.2", "memory"}), 0) << err();
  ASSERT_EQ(proxy.requests.size(), 1u);
  EXPECT_EQ(proxy.requests[0],
            kj::str("CONNECT 192.0.2.99:", c.port, " HTTP/1.1\r\nHost: 192.0.2.99:", c.port,
                    "\r\nUser-Agent: talosctl\r\n\r\n")
                .cStr());
  EXPECT_EQ(c.run({"-e", "127.0.0.1", "-n", "10.0.0.2", "memory"}), 0) << err();
  EXPECT_EQ(proxy.requests.size(), 1u) << "a loopback address";
}

// Catches: a failure that does not name the proxy, or not its reason; a wait without a deadline.
TEST_F(ProxiedEndpoints, FailuresNameTheProxyAndItsReason) {
  auto silent = listenTcp("127.0.0.5", 0);  // accepts no connection
  auto mute = kj::str("127.0.0.5:", portOf(silent.get()));
  struct {
    kj::String variable;
    std::string answer;
    kj::String error;
  } table[] = {
      {kj::str("http://", address), "HTTP/1.1 403 Forbidden\r\n\r\n",
       kj::str("proxy ", address, ": it refuses a connection to node.example.test:", c.port,
               ": 403 Forbidden")},
      {kj::str("http://", address), "HTTP/1.1 407 Auth\r\n\r\n",
       kj::str("407 Auth; set a user and a password: HTTPS_PROXY=http://USER:PASSWORD@HOST:PORT")},
      {kj::str("http://u:secret@", address), "HTTP/1.1 407 Auth\r\n\r\n",
       kj::str("407 Auth; check the user and the password in HTTPS_PROXY")},
      {kj::str("http://", address), "SSH-2.0-x\r\n",
       kj::str("proxy ", address, ": its answer is not HTTP")},
      {kj::str("http://127.0.0.1:1"), "", kj::str("proxy 127.0.0.1:1: cannot connect: ")},
      {kj::str("http://", mute), "", kj::str("proxy ", mute, ": no answer within 30s")},
      {kj::str("socks5://", address), "",
       kj::str("HTTPS_PROXY: the scheme must be http; use http://HOST:PORT")},
  };
  for (auto& row : table) {
    proxy.answer = row.answer;
    setVariable(c, "HTTPS_PROXY", row.variable);
    EXPECT_EQ(c.run({"-e", "node.example.test", "-n", "10.0.0.2", "memory"}), 1);
    auto text = err();
    EXPECT_THAT(text, AllOf(HasSubstr("cannot connect to endpoint node.example.test: "),
                            HasSubstr(row.error.cStr()), Not(HasSubstr("secret"))));
  }
}

// Catches: a node of the private network that is called through the proxy although NO_PROXY has it.
TEST(Endpoint, AHostOfNoProxyIsCalledDirectly) {
  onThread([] {
    OwnNetwork network;  // in which 10.0.0.7 is a local address
    TestCluster c;
    c.nodes.insert(kj::str("10.0.0.2"), FakeNode());
    auto leaf = pki::issue(
        c.authority.certificate, c.authority.key,
        {.addresses = kj::arr(kj::str("127.0.0.1"), kj::str("10.0.0.7")), .client = false});
    TlsEndpoint tls({kj::str(c.authority.certificate), kj::mv(leaf.certificate), kj::mv(leaf.key)});
    auto serving =
        serveTls(c.test.deps.lowLevel, c.test.deps.timer, listenTcp("10.0.0.7", c.port), tls,
                 [&c](const Peer&) {
                   return SessionParams{.bootstrap = kj::heap<FakeClusterServer>(c.nodes)};
                 })
            .eagerlyEvaluate(nullptr);
    ConnectProxy proxy(c.test.deps, "10.0.0.7", c.port);
    setVariable(c, "HTTPS_PROXY", kj::str("http://127.0.0.1:", proxy.port()));
    struct {
      kj::String list;
      size_t requests;
    } table[] = {{kj::str(), 1},
                 {kj::str("10.0.0.0/8"), 0},
                 {kj::str("192.0.2.1, 10.0.0.7"), 0},
                 {kj::str("10.0.0.7:", c.port), 0},
                 {kj::str("10.0.0.7:1"), 1},
                 {kj::str("*"), 0},
                 {kj::str("example.org"), 1}};
    for (auto& row : table) {
      proxy.requests.clear();
      setVariable(c, "NO_PROXY", row.list);
      EXPECT_EQ(c.run({"-e", "10.0.0.7", "-n", "10.0.0.2", "memory"}), 0)
          << c.test.console.takeErr().cStr();
      EXPECT_EQ(proxy.requests.size(), row.requests) << row.list.cStr();
    }
  });
}

}  // namespace
}  // namespace talos::talosctl
