// The door with many clients: 1000 connections that are idle after one call, then 100 more that
// call without a pause. And a new connection to its first answer, beside the bare handshake of
// `openssl s_time` with the same apid. Three processes as in rpc-bench; the clients come from ten
// addresses of loopback.
//
//   apid-bench [CALLS]    prints one JSON object; CALLS of all busy clients together
//
// link: apid-gate apid-grpc machined-api machined-resources
#include <kj/io.h>
#include <sys/resource.h>

#include "apid/gate/test-apid-node.h"
#include "common/wire/test-connect.h"
#include "tests/bench/arguments.h"
#include "tests/bench/memory.h"
#include "tests/bench/processes.h"

namespace talos::apid {
namespace {

using namespace bench;
using testing::Authority;
using testing::Model;
using testing::ModelMachined;

constexpr unsigned kIdle = 1000, kBusy = 100, kAddresses = 10, kFresh = 300;
constexpr unsigned kOpenSslSeconds = 4;

void serveModel(const Authority& authority, int unixSocket) {
  auto io = kj::setupAsyncIo();
  Model model;
  model.tag = kj::str("v1");
  model.setCertificates(authority.forNode("127.0.0.1"));
  serveUnix(
      *io.lowLevelProvider, io.provider->getTimer(), kj::AutoCloseFd(unixSocket),
      [&](const UnixPeer&) -> capnp::Capability::Client { return kj::heap<ModelMachined>(model); },
      {.connections = 2048, .connectionsPerPeer = 2048})
      .wait(io.waitScope);
}

// Connections from a chosen address of loopback, as if from as many machines.
class FromAddress final : public kj::LowLevelAsyncIoProvider {
 public:
  explicit FromAddress(kj::LowLevelAsyncIoProvider& inner) : inner(inner) {}
  unsigned last = 1;  // 127.0.0.last

  kj::Own<kj::AsyncInputStream> wrapInputFd(Fd fd, kj::uint flags) override {
    return inner.wrapInputFd(fd, flags);
  }
  kj::Own<kj::AsyncOutputStream> wrapOutputFd(Fd fd, kj::uint flags) override {
    return inner.wrapOutputFd(fd, flags);
  }
  kj::Own<kj::AsyncIoStream> wrapSocketFd(Fd fd, kj::uint flags) override {
    return inner.wrapSocketFd(fd, flags);
  }
  kj::Promise<kj::Own<kj::AsyncIoStream>> wrapConnectingSocketFd(Fd fd, const sockaddr* address,
                                                                 kj::uint length,
                                                                 kj::uint flags) override {
    sockaddr_in from{};
    from.sin_family = AF_INET;
    from.sin_addr.s_addr = htonl(0x7f000000 + last);
    KJ_SYSCALL(bind(fd, reinterpret_cast<sockaddr*>(&from), sizeof from));
    return inner.wrapConnectingSocketFd(fd, address, length, flags);
  }
  kj::Own<kj::ConnectionReceiver> wrapListenSocketFd(Fd fd, NetworkFilter& filter,
                                                     kj::uint flags) override {
    return inner.wrapListenSocketFd(fd, filter, flags);
  }
  kj::Timer& getTimer() override { return inner.getTimer(); }

 private:
  kj::LowLevelAsyncIoProvider& inner;
};

struct Client {
  kj::Own<Connection> connection;
  rpc::Machine::Client machine;
};

struct GateBench {
  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::Timer& timer = io.provider->getTimer();
  FromAddress from{*io.lowLevelProvider};
  TlsEndpoint tls;
  uint16_t port;

  GateBench(const Authority& authority, uint16_t port)
      : tls(authority.client("bench", kj::arr("os:reader"_kj))), port(port) {}

  // Connected and answered once.
  kj::Promise<Client> client(unsigned number) {
    from.last = 1 + number % kAddresses;
    auto connection =
        co_await connectTls(from, timer, tls, "127.0.0.1", port, "127.0.0.1", 60 * kj::SECONDS);
    auto machine = connection->bootstrap()
                       .castAs<rpc::Cluster>()
                       .nodeRequest()
                       .send()
                       .getNode()
                       .machineRequest()
                       .send()
                       .getMachine();
    co_await machine.versionRequest().send().ignoreResult();
    co_return Client{kj::mv(connection), kj::mv(machine)};
  }
  kj::Vector<Client> clients(unsigned count) {
    kj::Vector<Client> result;
    for (unsigned i = 0; i < count; ++i) result.add(client(i).wait(io.waitScope));
    return result;
  }
  static kj::Promise<void> callOn(rpc::Machine::Client machine, unsigned calls,
                                  kj::Vector<uint64_t>& took) {
    for (unsigned i = 0; i < calls; ++i) {
      auto began = nanoseconds();
      co_await machine.versionRequest().send().ignoreResult();
      took.add(nanoseconds() - began);
    }
  }
  struct Load {
    Figure each;
    double perSecond;
  };
  Load load(kj::ArrayPtr<Client> busy, unsigned calls) {
    kj::Vector<uint64_t> took(calls);
    auto began = nanoseconds();
    kj::Vector<kj::Promise<void>> all;
    for (auto& one : busy) all.add(callOn(one.machine, calls / busy.size(), took));
    kj::joinPromises(all.releaseAsArray()).wait(io.waitScope);
    auto count = took.size();
    auto seconds = (nanoseconds() - began) / 1e9;
    return {figureOf(kj::mv(took)), count / seconds};
  }
};

// How long a handshake of `openssl s_time` takes, in microseconds.
double opensslHandshake(const Authority& authority, kj::StringPtr folder, uint16_t port) {
  auto identity = authority.client("openssl", kj::arr("os:reader"_kj));
  writeFileAtomically(kj::str(folder, "/ca"), identity.authorities, 0600);
  writeFileAtomically(kj::str(folder, "/crt"), identity.certificate, 0600);
  auto key = pki::toPkcs8(identity.key);
  writeFileAtomically(kj::str(folder, "/key"), kj::StringPtr(key), 0600);
  auto command = kj::str("openssl s_time -connect 127.0.0.1:", port,
                         " -new -tls1_3 -verify 2 -CAfile ", folder, "/ca -cert ", folder,
                         "/crt -key ", folder, "/key -time ", kOpenSslSeconds, " 2>/dev/null");
  auto began = nanoseconds();
  auto* pipe = popen(command.cStr(), "r");
  KJ_REQUIRE(pipe != nullptr);
  char line[512];
  unsigned long connections = 0;
  while (fgets(line, sizeof line, pipe) != nullptr) {
    unsigned long count;
    if (sscanf(line, "%lu connections in %*u real seconds", &count) == 1) connections = count;
  }
  auto status = pclose(pipe);
  auto took = (nanoseconds() - began) / 1e3;
  KJ_REQUIRE(status == 0 && connections > 0, "openssl s_time could not connect", status);
  return took / connections;
}

void run(unsigned calls) {
  rlimit files;
  KJ_SYSCALL(getrlimit(RLIMIT_NOFILE, &files));
  files.rlim_cur = files.rlim_max;
  KJ_SYSCALL(setrlimit(RLIMIT_NOFILE, &files));
  char name[] = "/tmp/apid-bench-XXXXXX";
  auto folder = kj::str(mkdtemp(name));
  KJ_DEFER(removeTree(folder));
  auto path = kj::str(folder, "/machined.sock");
  Authority authority;
  auto unixSocket = listenUnix(path, 0600), apidSocket = listenTcp("127.0.0.1", 0);
  auto port = portOf(apidSocket);
  auto model = child([&] { serveModel(authority, unixSocket); });
  auto apid = child([&] { execDaemon("apid", apidSocket, path); });
  KJ_DEFER({
    for (pid_t pid : {model, apid}) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  });
  GateBench bench(authority, port);
  {
    auto first = bench.clients(1);
  }

  kj::Vector<uint64_t> fresh;
  for (unsigned i = 0; i < kFresh; ++i) {
    auto began = nanoseconds();
    auto one = bench.clients(1);
    fresh.add(nanoseconds() - began);
  }
  double mean = 0;
  for (auto t : fresh) mean += t / 1e3 / kFresh;
  auto handshake = opensslHandshake(authority, folder, port);

  auto rest = memoryKiB(apid, "Pss");
  auto idle = bench.clients(kIdle);
  auto withIdle = memoryKiB(apid, "Pss");
  auto busy = bench.clients(kBusy);
  (void)bench.load(busy, calls / 10);  // warms up
  auto load = bench.load(busy, calls);
  auto withBusy = memoryKiB(apid, "Pss");
  printf(
      "{\"calls\":%u,\"pssRestKiB\":%lu,\"pssIdleKiB\":%lu,\"pssBusyKiB\":%lu,"
      "\"idleConnectionKiB\":%.1f,\"busy\":%s,\"callsPerSecond\":%.0f,"
      "\"firstAnswer\":%s,\"firstAnswerMeanUs\":%.1f,\"opensslHandshakeMeanUs\":%.1f}\n",
      calls, rest, withIdle, withBusy, double(withIdle - rest) / kIdle, json(load.each).cStr(),
      load.perSecond, json(figureOf(kj::mv(fresh))).cStr(), mean, handshake);
}

}  // namespace
}  // namespace talos::apid

int main(int argc, char** argv) {
  return talos::bench::runMain(argc, argv, "apid-bench", "[CALLS]", [](auto& arguments) {
    arguments.expect(0, 1);
    talos::apid::run(arguments.numberOr(100'000, 1, "CALLS", 1000, 100'000'000));
  });
}
