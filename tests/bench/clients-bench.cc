// Both protocols of apid beside each other: calls of our own client's library, and the same by a
// client in Go by gRPC (tests/clients, TestFigures), in turn with the same apid. machined is a
// model with a real store, 1000 routes and a log of 100 MB.
//
//   clients-bench PROGRAM [CALLS]    prints one JSON object; PROGRAM is made by
//   tests/clients/make.sh
//
// A dashboard is a separately named client with the open calls of Talos' dashboard:
// eighteen watches and the kernel's log, and ten short calls.
//
// link: apid-gate apid-grpc machined-resources machined-api
#include <fcntl.h>
#include <kj/encoding.h>
#include <sys/resource.h>

#include <string>

#include "apid/gate/test-apid-node.h"
#include "common/wire/test-connect.h"
#include "machined/process1/test-process1.h"
#include "machined/resources/store-server.h"
#include "tests/bench/arguments.h"
#include "tests/bench/memory.h"
#include "tests/bench/processes.h"

namespace talos::apid {
namespace {

using namespace bench;
using testing::Authority;
using testing::Model;

constexpr unsigned kRoutes = 1000, kNew = 200, kLists = 30, kLogs = 3, kDashboards = 100;
constexpr unsigned kWatches = 18, kShortCalls = 10;
constexpr size_t kLogBytes = 100u << 20, kLogChunk = 32u << 10;  // chunks as machined's
constexpr auto kType = "RouteStatuses.net.talos.dev"_kj;
constexpr auto kFirst = "0"_kj;  // of the clients' names: who makes all calls but the dashboards'

// --- the node ---

class BenchLogs final : public rpc::Logs::Server {
 protected:
  kj::Promise<void> read(ReadContext context) override {
    auto sink = context.getParams().getSink();
    context.releaseParams();
    auto chunk = kj::heapArray<kj::byte>(kLogChunk);
    memset(chunk.begin(), 'x', chunk.size());
    for (size_t sent = 0; sent < kLogBytes; sent += chunk.size()) {
      auto request = sink.writeRequest();
      request.setBytes(chunk);
      co_await request.send();
    }
  }
  kj::Promise<void> kernel(KernelContext) override { return kj::NEVER_DONE; }
};

class BenchNode final : public rpc::Node::Server {
 public:
  BenchNode(Model& model, machined::Store& store) : model(model), store(store) {}

 protected:
  kj::Promise<void> machine(MachineContext context) override {
    context.getResults().setMachine(kj::heap<testing::ModelMachine>(model));
    return kj::READY_NOW;
  }
  kj::Promise<void> logs(LogsContext context) override {
    context.getResults().setLogs(kj::heap<BenchLogs>());
    return kj::READY_NOW;
  }
  kj::Promise<void> resources(ResourcesContext context) override {
    context.getResults().setResources(
        machined::serveResources(store, false, machined::ClientCalls::alone()));
    return kj::READY_NOW;
  }

 private:
  Model& model;
  machined::Store& store;
};

class BenchMachined final : public rpc::Machined::Server {
 public:
  BenchMachined(Model& model, machined::Store& store) : model(model), routes(store) {}

 protected:
  kj::Promise<void> node(NodeContext context) override {
    context.getResults().setNode(kj::heap<BenchNode>(model, routes));
    return kj::READY_NOW;
  }
  kj::Promise<void> store(StoreContext context) override {
    context.getResults().setStore(model.store.serve(kApidUid));
    return kj::READY_NOW;
  }
  kj::Promise<void> audit(AuditContext) override { return kj::READY_NOW; }

 private:
  Model& model;
  machined::Store& routes;
};

void fill(machined::Store& store) {
  for (unsigned i = 0; i < kRoutes; ++i) {
    capnp::MallocMessageBuilder message;
    auto resource = message.initRoot<rpc::Resource>();
    auto metadata = resource.initMetadata();
    metadata.setType(kType);
    metadata.setId(kj::str("10.", i / 256, '.', i % 256, ".0/24 via 10.0.0.1"));
    metadata.setOwner("bench");
    auto spec = resource.initSpec().initAs<rpc::RouteStatusSpec>();
    spec.setFamily("inet4");
    spec.setDestination(kj::str("10.", i / 256, '.', i % 256, ".0/24"));
    spec.setGateway("10.0.0.1");
    spec.setLinkName("eth0");
    spec.setMetric(1024);
    spec.setScope("global");
    spec.setProtocol("static");
    spec.setType("unicast");
    store.put(resource.asReader());
  }
}

void serveNode(const Authority& authority, int unixSocket) {
  auto io = kj::setupAsyncIo();
  Model model;
  model.tag = kj::str("v1");
  model.setCertificates(authority.forNode("127.0.0.1"));
  Registry registry;
  machined::FakeMachine machine;
  machined::FakeProcess1 process1(machine);
  machined::Store store(registry, kj::systemPreciseCalendarClock());
  store.attachJournal(process1).wait(io.waitScope);
  fill(store);
  serveUnix(*io.lowLevelProvider, io.provider->getTimer(), kj::AutoCloseFd(unixSocket),
            [&](const UnixPeer&) -> capnp::Capability::Client {
              return kj::heap<BenchMachined>(model, store);
            },
            {.connections = 2048, .connectionsPerPeer = 2048})
      .wait(io.waitScope);
}

// The model and the real apid, new for each part of the measurement.
class Testbed {
 public:
  explicit Testbed(const Authority& authority) : unixSocket(listenUnix(path, 0600)) {
    model = child([&] { serveNode(authority, unixSocket); });
    apid = child([&] { execDaemon("apid", listener, path); });
  }
  ~Testbed() noexcept(false) {
    for (pid_t pid : {model, apid}) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
    removeTree(folder);
  }
  KJ_DISALLOW_COPY_AND_MOVE(Testbed);

  uint64_t pssKiB() const { return memoryKiB(apid, "Pss"); }

 private:
  kj::String folder = makeFolder();
  kj::String path = kj::str(folder, "/machined.sock");
  kj::AutoCloseFd unixSocket, listener = listenTcp("127.0.0.1", 0);
  pid_t model, apid;

  static kj::String makeFolder() {
    char name[] = "/tmp/clients-bench-XXXXXX";
    return kj::str(mkdtemp(name));
  }

 public:
  const uint16_t port = portOf(listener);
};

// --- our client ---

// Receives the bytes of a log and the records of a watch.
class Counting final : public rpc::LogSink::Server {
 public:
  explicit Counting(size_t& bytes) : bytes(bytes) {}

 protected:
  kj::Promise<void> write(WriteContext context) override {
    bytes += context.getParams().getBytes().size();
    return kj::READY_NOW;
  }

 private:
  size_t& bytes;
};
class Watching final : public rpc::ResourceSink::Server {
 public:
  explicit Watching(unsigned& snapshots) : snapshots(snapshots) {}

 protected:
  kj::Promise<void> snapshot(SnapshotContext) override {
    ++snapshots;
    return kj::READY_NOW;
  }
  kj::Promise<void> changes(ChangesContext) override { return kj::READY_NOW; }
  kj::Promise<void> lagged(LaggedContext) override { return kj::READY_NOW; }

 private:
  unsigned& snapshots;
};

struct OurClient {
  kj::AsyncIoContext io = kj::setupAsyncIo();
  const Authority& authority;
  const uint16_t port;

  struct Session {
    kj::Own<TlsEndpoint> tls;
    kj::Own<Connection> connection;
    rpc::Node::Client node = nullptr;
  };

  OurClient(const Authority& authority, uint16_t port) : authority(authority), port(port) {}

  kj::Own<TlsEndpoint> identity(kj::StringPtr name) const {
    return kj::heap<TlsEndpoint>(authority.client(name, kj::arr("os:admin"_kj)));
  }
  Session dial(kj::Own<TlsEndpoint> tls) {
    auto& timer = io.provider->getTimer();
    auto connection = connectTls(*io.lowLevelProvider, timer, *tls, "127.0.0.1", port, "127.0.0.1",
                                 60 * kj::SECONDS)
                          .wait(io.waitScope);
    auto node = connection->bootstrap().castAs<rpc::Cluster>().nodeRequest().send().getNode();
    return {kj::mv(tls), kj::mv(connection), kj::mv(node)};
  }
  void version(Session& session) {
    auto machine = session.node.machineRequest().send().getMachine();
    machine.versionRequest().send().ignoreResult().wait(io.waitScope);
  }
  double listMs(Session& session) {
    auto began = nanoseconds();
    auto request = session.node.resourcesRequest().send().getResources().listRequest();
    request.initKind().setType(kType);
    auto answer = request.send().wait(io.waitScope);
    KJ_REQUIRE(answer.getResources().size() == kRoutes);
    return (nanoseconds() - began) / 1e6;
  }
  double logsMiBs(Session& session) {
    size_t bytes = 0;
    auto began = nanoseconds();
    auto request = session.node.logsRequest().send().getLogs().readRequest();
    request.setId("x");
    request.setSink(kj::heap<Counting>(bytes));
    request.send().ignoreResult().wait(io.waitScope);
    KJ_REQUIRE(bytes == kLogBytes, bytes);
    return (bytes >> 20) / ((nanoseconds() - began) / 1e9);
  }
  // All of them stay as long as the object.
  struct Dashboards {
    kj::Vector<Session> sessions;
    kj::Vector<kj::Promise<void>> streams;
  };
  Dashboards dashboards() {
    Dashboards all;
    unsigned snapshots = 0;
    size_t bytes = 0;
    for (unsigned i = 0; i < kDashboards; ++i) {
      auto& session = all.sessions.add(dial(identity(kj::str(i))));
      for (unsigned k = 0; k < kWatches; ++k) {
        auto watch = session.node.resourcesRequest().send().getResources().watchRequest();
        watch.initKind().setType("HostnameSpecs.net.talos.dev");
        watch.setSink(kj::heap<Watching>(snapshots));
        all.streams.add(watch.send().ignoreResult().eagerlyEvaluate(nullptr));
      }
      auto log = session.node.logsRequest().send().getLogs().kernelRequest();
      log.setFollow(true);
      log.setSink(kj::heap<Counting>(bytes));
      all.streams.add(log.send().ignoreResult().eagerlyEvaluate(nullptr));
      for (unsigned k = 0; k < kShortCalls; ++k) version(session);
    }
    auto& timer = io.provider->getTimer();
    while (snapshots < kDashboards * kWatches) {
      timer.afterDelay(10 * kj::MILLISECONDS).wait(io.waitScope);
    }
    return all;
  }
};

double median(kj::Vector<double> all) {
  std::sort(all.begin(), all.end());
  return all[all.size() / 2];
}
template <typename F>
double medianOf(unsigned times, F&& one) {
  kj::Vector<double> all;
  for (unsigned i = 0; i < times; ++i) all.add(one());
  return median(kj::mv(all));
}

kj::String oursJson(const Authority& authority, uint16_t port, unsigned calls) {
  OurClient client(authority, port);
  auto session = client.dial(client.identity(kFirst));
  auto timed = [&](auto&& call) {
    auto began = nanoseconds();
    call();
    return (nanoseconds() - began) / 1e3;
  };
  for (unsigned i = 0; i < calls / 10; ++i) client.version(session);  // warms up
  auto kept = medianOf(calls, [&] { return timed([&] { client.version(session); }); });
  auto fresh = medianOf(kNew, [&] {
    auto tls = client.identity(kFirst);
    return timed([&] {
      auto one = client.dial(kj::mv(tls));
      client.version(one);
    });
  });
  auto list = medianOf(kLists, [&] { return client.listMs(session); });
  auto logs = medianOf(kLogs, [&] { return client.logsMiBs(session); });
  char text[256];
  snprintf(text, sizeof text, "{\"keptUs\":%.1f,\"newUs\":%.1f,\"listMs\":%.2f,\"logsMiBs\":%.0f}",
           kept, fresh, list, logs);
  return kj::str(text);
}

// --- the client in Go ---

// Prints one line, and exits when the other end of its input is closed.
class GoClient {
 public:
  GoClient(kj::StringPtr program, kj::StringPtr identities, uint16_t port, kj::StringPtr what,
           unsigned calls) {
    int in[2], out[2];
    KJ_SYSCALL(pipe2(in, O_CLOEXEC));
    KJ_SYSCALL(pipe2(out, O_CLOEXEC));
    auto endpoint = kj::str("127.0.0.1:", port), count = kj::str(calls);
    pid = child([&] {
      dup2(in[0], STDIN_FILENO);
      dup2(out[1], STDOUT_FILENO);
      setenv("NODE", "127.0.0.1", 1);
      setenv("ENDPOINT", endpoint.cStr(), 1);
      setenv("FIGURES", what.cStr(), 1);
      setenv("CALLS", count.cStr(), 1);
      setenv("IDENTITIES", identities.cStr(), 1);
      execl(program.cStr(), "clients", "-test.run", "^TestFigures$", nullptr);
      KJ_FAIL_SYSCALL("execl", errno, program);
    });
    close(in[0]);
    close(out[1]);
    input = kj::AutoCloseFd(in[1]);
    output = fdopen(out[0], "r");
  }
  ~GoClient() noexcept(false) {
    input = nullptr;
    fclose(output);
    waitpid(pid, nullptr, 0);
  }
  KJ_DISALLOW_COPY_AND_MOVE(GoClient);

  kj::String line() {
    char text[512] = "";
    KJ_REQUIRE(fgets(text, sizeof text, output) != nullptr && text[0] == '{',
               "the client in Go prints no figures", text);
    return kj::str(kj::StringPtr(text).slice(0, strcspn(text, "\n")));
  }

 private:
  pid_t pid;
  kj::AutoCloseFd input;
  FILE* output;
};

// One talosconfig for each client, with the number as its name.
void writeIdentities(const Authority& authority, kj::StringPtr folder) {
  for (unsigned i = 0; i < kDashboards; ++i) {
    auto identity = authority.client(kj::str(i), kj::arr("os:admin"_kj));
    auto key = pki::toPkcs8(identity.key);
    auto encoded = [](auto&& text) { return kj::encodeBase64(kj::StringPtr(text).asBytes()); };
    auto text =
        kj::str("context: x\ncontexts:\n  x:\n    ca: ", encoded(identity.authorities),
                "\n    crt: ", encoded(identity.certificate), "\n    key: ", encoded(key), "\n");
    writeFileAtomically(kj::str(folder, "/", i), kj::StringPtr(text), 0600);
  }
}

void run(kj::StringPtr program, unsigned calls) {
  rlimit files;
  KJ_SYSCALL(getrlimit(RLIMIT_NOFILE, &files));
  files.rlim_cur = files.rlim_max;
  KJ_SYSCALL(setrlimit(RLIMIT_NOFILE, &files));
  char name[] = "/tmp/clients-bench-XXXXXX";
  auto folder = kj::str(mkdtemp(name));
  KJ_DEFER(removeTree(folder));
  Authority authority;
  writeIdentities(authority, folder);
  kj::String ours, theirs;
  {
    Testbed testbed(authority);
    ours = oursJson(authority, testbed.port, calls);
    theirs = GoClient(program, folder, testbed.port, "calls", calls).line();
  }
  uint64_t rest, byOurs, byTheirs;
  {
    Testbed testbed(authority);
    OurClient client(authority, testbed.port);
    auto first = client.dial(client.identity(kFirst));
    client.version(first);
    rest = testbed.pssKiB();
    auto all = client.dashboards();
    byOurs = testbed.pssKiB();
  }
  {
    Testbed testbed(authority);
    GoClient client(program, folder, testbed.port, "dashboards", calls);
    client.line();
    byTheirs = testbed.pssKiB();
  }
  printf(
      "{\"ours\":%s,\"theirs\":%s,\"dashboards\":{\"count\":%u,\"restKiB\":%lu,\"oursKiB\":%lu,"
      "\"theirsKiB\":%lu}}\n",
      ours.cStr(), theirs.cStr(), kDashboards, rest, byOurs, byTheirs);
}

}  // namespace
}  // namespace talos::apid

int main(int argc, char** argv) {
  return talos::bench::runMain(argc, argv, "clients-bench", "PROGRAM [CALLS]", [](auto& arguments) {
    arguments.expect(1, 2);
    talos::apid::run(arguments.text(1), arguments.numberOr(5000, 2, "CALLS", 100, 1'000'000));
  });
}
