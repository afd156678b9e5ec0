// Round trip of a call with 32 bytes each way, one after the other: to a daemon over its Unix
// socket, and through apid over mutual TLS. Three processes: this one calls, one is a model of
// machined (its answer is an echo), one is the apid that was built beside this program.
//
//   rpc-bench [CALLS]     prints {"calls":N,"unix":{"p50us":…,"p99us":…},"tls":…,"apid":…}
//
// "tls" is the model itself with TLS, without apid: the cost of apid is "apid" minus "tls".
//
// link: apid-gate apid-grpc machined-api machined-resources
#include "apid/gate/test-apid-node.h"
#include "common/wire/test-connect.h"
#include "tests/bench/arguments.h"
#include "tests/bench/processes.h"

namespace talos::apid {
namespace {

using testing::Authority;
using testing::Model;
using namespace bench;

// An echo of a text, by a method that changes nothing: a call that changes something is also
// recorded.
class Echo final : public rpc::Machine::Server {
 protected:
  kj::Promise<void> time(TimeContext context) override {
    context.getResults().initAnswer().setServer(context.getParams().getServer());
    return kj::READY_NOW;
  }
};
class EchoNode final : public rpc::Node::Server {
 protected:
  kj::Promise<void> machine(MachineContext context) override {
    context.getResults().setMachine(kj::heap<Echo>());
    return kj::READY_NOW;
  }
};
class EchoMachined final : public rpc::Machined::Server {
 public:
  explicit EchoMachined(Model& model) : model(model) {}

 protected:
  kj::Promise<void> node(NodeContext context) override {
    context.getResults().setNode(kj::heap<EchoNode>());
    return kj::READY_NOW;
  }
  kj::Promise<void> store(StoreContext context) override {
    context.getResults().setStore(model.store.serve(kApidUid));
    return kj::READY_NOW;
  }

 private:
  Model& model;
};

void serveModel(const Authority& authority, int unixSocket, int tlsSocket) {
  auto io = kj::setupAsyncIo();
  auto& timer = io.provider->getTimer();
  Model model;
  model.setCertificates(authority.forNode("127.0.0.1"));
  auto leaf = authority.issue("", nullptr, {"127.0.0.1"_kj});
  TlsEndpoint tls(
      {kj::str(authority.pair.certificate), kj::mv(leaf.certificate), kj::mv(leaf.key)});
  auto plain = serveUnix(
      *io.lowLevelProvider, timer, kj::AutoCloseFd(unixSocket),
      [&](const UnixPeer&) -> capnp::Capability::Client { return kj::heap<EchoMachined>(model); });
  auto secured =
      serveTls(*io.lowLevelProvider, timer, kj::AutoCloseFd(tlsSocket), tls,
               [&](const Peer&) { return SessionParams{.bootstrap = kj::heap<EchoNode>()}; });
  plain.exclusiveJoin(kj::mv(secured)).wait(io.waitScope);
}

Figure measure(rpc::Machine::Client machine, unsigned calls, kj::WaitScope& scope) {
  auto text = kj::str(kj::repeat('x', 32));
  kj::Vector<uint64_t> took;
  for (unsigned i = 0; i < calls + 1000; ++i) {  // the first thousand warm up
    auto began = nanoseconds();
    auto request = machine.timeRequest();
    request.setServer(text);
    auto response = request.send().wait(scope);
    KJ_ASSERT(response.getAnswer().getServer().size() == 32);
    if (i >= 1000) took.add(nanoseconds() - began);
  }
  return figureOf(kj::mv(took));
}

void run(unsigned calls) {
  char name[] = "/tmp/rpc-bench-XXXXXX";
  auto directory = kj::str(mkdtemp(name));
  KJ_DEFER(removeTree(directory));
  auto path = kj::str(directory, "/machined.sock");
  Authority authority;
  auto unixSocket = listenUnix(path, 0600), tlsSocket = listenTcp("127.0.0.1", 0),
       apidSocket = listenTcp("127.0.0.1", 0);
  auto model = child([&] { serveModel(authority, unixSocket, tlsSocket); });
  auto apid = child([&] { execDaemon("apid", apidSocket, path); });
  KJ_DEFER({
    for (pid_t pid : {model, apid}) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  });

  auto io = kj::setupAsyncIo();
  auto& timer = io.provider->getTimer();
  kj::StringPtr admin[] = {"os:admin"_kj};
  TlsEndpoint tls(authority.client("bench", admin));
  auto direct = connectUnix(*io.lowLevelProvider, timer, path).wait(io.waitScope);
  auto overTls =
      connectTls(*io.lowLevelProvider, timer, tls, "127.0.0.1", portOf(tlsSocket), "127.0.0.1")
          .wait(io.waitScope);
  auto overApid =
      connectTls(*io.lowLevelProvider, timer, tls, "127.0.0.1", portOf(apidSocket), "127.0.0.1")
          .wait(io.waitScope);
  auto machined = direct->bootstrap().castAs<rpc::Machined>();
  auto node = overTls->bootstrap().castAs<rpc::Node>();
  auto cluster = overApid->bootstrap().castAs<rpc::Cluster>();
  auto machine = [](rpc::Node::Client node) { return node.machineRequest().send().getMachine(); };

  auto plain = measure(machine(machined.nodeRequest().send().getNode()), calls, io.waitScope);
  auto secured = measure(machine(node), calls, io.waitScope);
  auto forwarded = measure(machine(cluster.nodeRequest().send().getNode()), calls, io.waitScope);
  printf("{\"calls\":%u,\"unix\":%s,\"tls\":%s,\"apid\":%s}\n", calls, json(plain).cStr(),
         json(secured).cStr(), json(forwarded).cStr());
}

}  // namespace
}  // namespace talos::apid

int main(int argc, char** argv) {
  return talos::bench::runMain(argc, argv, "rpc-bench", "[CALLS]", [](auto& arguments) {
    arguments.expect(0, 1);
    talos::apid::run(arguments.numberOr(20'000, 1, "CALLS", 1, 100'000'000));
  });
}
