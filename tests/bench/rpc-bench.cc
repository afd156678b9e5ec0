// Round trip of a call with 32 bytes each way, one after the other: to a daemon over its Unix
// socket, and through apid over mutual TLS. Three processes: this one calls, one is a model of
// machined (its answer is an echo), one is the apid that was built beside this program.
//
//   rpc-bench [CALLS]     prints {"calls":N,"unix":{"p50us":…,"p99us":…},"tls":…,"apid":…}
//
// "tls" is the model itself behind TLS, without apid between: what the door adds is apid minus tls.
//
// link: apid-lib
#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "apid/test-node.h"

namespace talos::apid {
namespace {

using testing::Authority;
using testing::Model;

class Echo final : public rpc::Services::Server {
 protected:
  kj::Promise<void> start(StartContext context) override {
    context.getResults().setResponse(context.getParams().getId());
    return kj::READY_NOW;
  }
};
class EchoNode final : public rpc::Node::Server {
 protected:
  kj::Promise<void> services(ServicesContext context) override {
    context.getResults().setServices(kj::heap<Echo>());
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
    context.getResults().setStore(kj::heap<testing::ModelStore>(model));
    return kj::READY_NOW;
  }

 private:
  Model& model;
};

// A child that goes with this process; its exit is an error of the measurement.
template <typename F>
pid_t child(F&& run) {
  pid_t parent = getpid();
  pid_t pid;
  KJ_SYSCALL(pid = fork());
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    KJ_IF_MAYBE (e, kj::runCatchingExceptions(run)) {
      fprintf(stderr, "%s\n", kj::str(*e).cStr());
    }
    _exit(1);
  }
  return pid;
}

void serveModel(const Authority& authority, int unixSocket, int tlsSocket) {
  auto io = kj::setupAsyncIo();
  auto& timer = io.provider->getTimer();
  Model model;
  model.certificates = authority.forNode("127.0.0.1");
  model.version = 1;
  auto leaf = authority.issue("", nullptr, {"127.0.0.1"_kj});
  TlsEndpoint tls(
      {kj::str(authority.pair.certificate), kj::mv(leaf.certificate), kj::mv(leaf.key)});
  auto plain = serveUnix(
      *io.lowLevelProvider, timer, kj::AutoCloseFd(unixSocket),
      [&](const UnixPeer&) -> capnp::Capability::Client { return kj::heap<EchoMachined>(model); });
  auto secured =
      serveTls(*io.lowLevelProvider, timer, kj::AutoCloseFd(tlsSocket), tls,
               [&](const Peer&) -> capnp::Capability::Client { return kj::heap<EchoNode>(); });
  plain.exclusiveJoin(kj::mv(secured)).wait(io.waitScope);
}

void execApid(int tcpSocket, kj::StringPtr socketPath) {
  char self[4096];
  ssize_t length;
  KJ_SYSCALL(length = readlink("/proc/self/exe", self, sizeof self - 1));
  self[length] = '\0';
  auto program = kj::str(kj::heapString(self, strrchr(self, '/') - self), "/apid");
  KJ_SYSCALL(fcntl(tcpSocket, F_SETFD, 0));
  setenv("TALOS_LISTEN_TCP_FD", kj::str(tcpSocket).cStr(), 1);
  setenv("TALOS_STORE", socketPath.cStr(), 1);
  int null;
  KJ_SYSCALL(null = open("/dev/null", O_WRONLY));
  dup2(null, STDERR_FILENO);
  execl(program.cStr(), "apid", nullptr);
  KJ_FAIL_SYSCALL("execl", errno, program);
}

uint64_t nanoseconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000ull + now.tv_nsec;
}

struct Figure {
  double p50, p99;
};

Figure measure(rpc::Services::Client services, unsigned calls, kj::WaitScope& scope) {
  auto text = kj::str(kj::repeat('x', 32));
  kj::Vector<uint64_t> took;
  for (unsigned i = 0; i < calls + 1000; ++i) {  // the first thousand warm up
    auto began = nanoseconds();
    auto request = services.startRequest();
    request.setId(text);
    auto response = request.send().wait(scope);
    KJ_ASSERT(response.getResponse().size() == 32);
    if (i >= 1000) took.add(nanoseconds() - began);
  }
  std::sort(took.begin(), took.end());
  return {took[took.size() / 2] / 1e3, took[took.size() * 99 / 100] / 1e3};
}

uint16_t portOf(int fd) {
  sockaddr_in name{};
  socklen_t length = sizeof name;
  KJ_SYSCALL(getsockname(fd, reinterpret_cast<sockaddr*>(&name), &length));
  return ntohs(name.sin_port);
}

kj::String json(const Figure& figure) {
  char text[96];
  snprintf(text, sizeof text, "{\"p50us\":%.1f,\"p99us\":%.1f}", figure.p50, figure.p99);
  return kj::str(text);
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
  auto apid = child([&] { execApid(apidSocket, path); });
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
  auto services = [](rpc::Node::Client node) {
    return node.servicesRequest().send().getServices();
  };

  auto plain = measure(services(machined.nodeRequest().send().getNode()), calls, io.waitScope);
  auto secured = measure(services(node), calls, io.waitScope);
  auto door = measure(services(cluster.nodeRequest().send().getNode()), calls, io.waitScope);
  printf("{\"calls\":%u,\"unix\":%s,\"tls\":%s,\"apid\":%s}\n", calls, json(plain).cStr(),
         json(secured).cStr(), json(door).cStr());
}

}  // namespace
}  // namespace talos::apid

int main(int argc, char** argv) {
  unsigned calls = argc > 1 ? atoi(argv[1]) : 20'000;
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { talos::apid::run(calls); })) {
    fprintf(stderr, "rpc-bench: %s\n", kj::str(*e).cStr());
    return 1;
  }
  return 0;
}
