// A cluster in the test's own process: one endpoint on loopback with real TLS, which forwards to
// nodes that answer, fail or hang. The client under test runs its whole path: flags, talosconfig,
// TLS, RPC, output.
#pragma once

#include <gtest/gtest.h>
#include <kj/encoding.h>
#include <stdlib.h>

#include <string>

#include "common/base/file.h"
#include "common/testing/test-port.h"
#include "common/wire/rpc-server.h"
#include "talosctl/cli/run-command.h"
#include "talosctl/cli/test-console.h"
#include "talosctl/commands/all-commands.h"
#include "talosctl/commands/test-node.h"

namespace talos::talosctl {

class FakeClusterServer final : public rpc::Cluster::Server {
 public:
  explicit FakeClusterServer(kj::TreeMap<kj::String, FakeNode>& nodes) : nodes(nodes) {}
  kj::Promise<void> node(NodeContext context) override {
    auto address = context.getParams().getAddress();
    if (address.size() == 0) address = "127.0.0.1";  // the endpoint itself
    KJ_IF_MAYBE (n, nodes.find(address)) {
      if (!n->off) {
        context.getResults().setNode(kj::heap<FakeNodeServer>(*n));
        return kj::READY_NOW;
      }
    }
    fail(ErrorKind::kUnavailable, kj::str(address, ":50000: connection refused"));
  }

 private:
  kj::TreeMap<kj::String, FakeNode>& nodes;
};

// A cluster that listens on 127.0.0.1 and 127.0.0.2; nothing listens on 127.0.0.3.
struct TestCluster {
  ConsoleFixture test;
  kj::TreeMap<kj::String, FakeNode> nodes;
  pki::CertificateAndKey authority = pki::makeAuthority({.organization = "talos"});
  TlsEndpoint tls{serverCredentials()};
  kj::TimerImpl clock{
      kj::origin<kj::TimePoint>()};  // The client's clock, advanced when nothing else happens.
  kj::Vector<kj::Promise<void>> serving;
  // Number of times that the loop runs empty, a millisecond apart, before nothing is expected.
  static constexpr int kLooks = 20;
  // Returns the capability with which a session begins; a test with its own nodes replaces this
  // function.
  kj::Function<capnp::Capability::Client()> bootstrap = [this]() -> capnp::Capability::Client {
    return kj::heap<FakeClusterServer>(nodes);
  };
  kj::String folder;
  kj::Own<Command> root = newRoot();
  uint16_t port = freePort();  // tests listen at other addresses, too
  kj::Own<Dependencies> deps;

  TestCluster() {
    char path[] = "/tmp/talosctl-test-XXXXXX";
    folder = kj::str(mkdtemp(path));
    addCommands(*root);
    addAbsentCommands(*root);
    listen();
    deps = kj::heap<Dependencies>(
        Dependencies{.lowLevel = test.deps.lowLevel,
                     .port = test.deps.port,
                     .timer = clock,
                     .clock = test.clock,
                     .console = test.console,
                     .environment = [this](kj::StringPtr name) -> kj::Maybe<kj::String> {
                       KJ_IF_MAYBE (value, test.environment.find(name)) return kj::str(*value);
                       return nullptr;
                     },
                     .apiPort = port});
    writeConfig(authority);
  }
  ~TestCluster() noexcept {
    serving.clear();
    removeTree(folder);
  }

  Credentials serverCredentials() {
    auto leaf = pki::issue(
        authority.certificate, authority.key,
        {.addresses = kj::arr(kj::str("127.0.0.1"), kj::str("127.0.0.2")), .client = false});
    return {kj::str(authority.certificate), kj::mv(leaf.certificate), kj::mv(leaf.key)};
  }

  void listen() {
    for (kj::StringPtr address : {"127.0.0.1", "127.0.0.2"}) {
      serving.add(serveTls(test.deps.lowLevel, test.deps.timer, listenTcp(address, port), tls,
                           [this](const Peer&) { return SessionParams{.bootstrap = bootstrap()}; })
                      .eagerlyEvaluate(nullptr));
    }
  }
  // Drops the listeners and every connection, as a restart of apid does.
  void restart() {
    serving.clear();
    listen();
  }

  static kj::String base64(kj::StringPtr text) { return kj::encodeBase64(text.asBytes()); }
  kj::String configPath() { return kj::str(folder, "/talosconfig"); }
  // Writes a client configuration with a certificate by `signer`, which also is the trusted CA.
  void writeConfig(const pki::CertificateAndKey& signer, kj::StringPtr endpoints = "[127.0.0.1]") {
    writeConfig(signer,
                pki::issue(signer.certificate, signer.key,
                           {.organizations = kj::arr(kj::str("os:admin")), .server = false}),
                endpoints);
  }
  void writeConfig(const pki::CertificateAndKey& signer, const pki::CertificateAndKey& leaf,
                   kj::StringPtr endpoints = "[127.0.0.1]") {
    writeFileAtomically(
        configPath(),
        kj::str("context: test\ncontexts:\n    test:\n        endpoints: ", endpoints,
                "\n        ca: ", base64(signer.certificate), "\n        crt: ",
                base64(leaf.certificate), "\n        key: ", base64(leaf.key), "\n"),
        0600);
  }

  // Starts a run; settle() and finish() advance it to its exit status.
  kj::Promise<int> start(kj::ArrayPtr<const kj::StringPtr> words,
                         kj::Promise<void> interrupt = kj::NEVER_DONE) {
    test.environment.upsert(kj::str("TALOSCONFIG"), configPath(), [](auto&, auto&&) {});
    auto list = kj::heapArray<kj::StringPtr>(words);
    auto promise = talosctl::run(*deps, *root, list, kj::mv(interrupt));
    return promise.attach(kj::mv(list));
  }
  kj::Promise<int> start(std::initializer_list<kj::StringPtr> words,
                         kj::Promise<void> interrupt = kj::NEVER_DONE) {
    return start(kj::arrayPtr(words.begin(), words.size()), kj::mv(interrupt));
  }

  // Runs the event loop until nothing happens any more. Client and server share the loop, so no
  // message is then on its way between them.
  void settle() {
    for (int i = 0; i < 2 * kLooks; ++i)
      test.deps.timer.afterDelay(1 * kj::MILLISECONDS).wait(test.io.waitScope);
  }
  // Runs to the end; the client's clock jumps to its next timer whenever nothing else happens.
  int finish(kj::Promise<int> run, int mostRounds = 400) {
    auto& scope = test.io.waitScope;
    for (int round = 0; round < mostRounds; ++round) {
      for (int i = 0; i < kLooks; ++i) {
        test.deps.timer.afterDelay(1 * kj::MILLISECONDS).wait(scope);
        if (run.poll(scope)) return run.wait(scope);
      }
      KJ_IF_MAYBE (next, clock.nextEvent()) clock.advanceTo(kj::max(*next, clock.now()));
    }
    return -1;  // did not end
  }
  int run(std::initializer_list<kj::StringPtr> words) { return finish(start(words)); }
};

// Returns the number of bytes that this process has read from files and sockets.
inline uint64_t bytesRead() {
  auto text = readFile("/proc/self/io"_kj);
  auto number = KJ_ASSERT_NONNULL(text.findFirst(' '));  // rchar: 123
  return strtoull(text.cStr() + number, nullptr, 10);
}

// Runs on a cluster that begins with two nodes. Any other node exists once a test names it.
struct ClusterTest : public ::testing::Test {
  TestCluster c;
  ~ClusterTest() noexcept override {}
  ClusterTest() {
    node("10.0.0.2");
    node("10.0.0.3");
  }
  FakeNode& node(kj::StringPtr address) {
    return c.nodes.findOrCreate(address, [&]() -> kj::TreeMap<kj::String, FakeNode>::Entry {
      FakeNode fresh;
      fresh.serviceIds.add(kj::str("apid"));
      return {kj::str(address), kj::mv(fresh)};
    });
  }
  // Returns the output since the last call.
  std::string out() { return c.test.console.takeOut().cStr(); }
  std::string err() { return c.test.console.takeErr().cStr(); }
};

}  // namespace talos::talosctl
