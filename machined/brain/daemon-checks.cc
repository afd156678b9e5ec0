#include "machined/brain/daemon-checks.h"

#include <ctype.h>
#include <kj/debug.h>
#include <sys/socket.h>

#include "common/base/error.h"
#include "common/base/node-layout.h"
#include "common/net/ip.h"
#include "machined/config/trust/join-controller.h"
#include "rpc/machine-resources.capnp.h"

namespace talos::machined {
namespace {

kj::Promise<kj::Own<kj::AsyncIoStream>> connectTo(DaemonDependencies& deps, uint16_t port) {
  auto server = Endpoint{Ip::require("127.0.0.1"), port}.socketName();
  int fd;
  KJ_SYSCALL(fd = socket(server.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  kj::AutoCloseFd owned(fd);
  co_return co_await deps.lowLevel.wrapConnectingSocketFd(kj::mv(owned), server.get(),
                                                          server.size());
}

// Connects, sends nothing and waits until the server closes the connection: a server does that only
// if it accepts and reads connections. A socket that process 1 holds takes connections even if no
// process accepts them.
kj::Promise<void> serverTakesConnections(DaemonDependencies& deps, uint16_t port) {
  auto stream = co_await connectTo(deps, port);
  stream->shutdownWrite();
  char byte;
  // A reset counts as an answer.
  co_await stream->tryRead(&byte, 1, 1).ignoreResult().catch_([](kj::Exception&&) {});
}

// Returns Talos' message, which scripts recognize: "dial tcp 127.0.0.1:10248: connect:
// connection refused".
kj::String dialFailure(uint16_t port, const kj::Exception& e) {
  auto cause = messageOf(e);
  constexpr kj::StringPtr kCall = "connect(): "_kj;
  if (cause.startsWith(kCall)) cause = kj::str(cause.slice(kCall.size()));
  if (cause.size() > 0) cause[0] = static_cast<char>(tolower(cause[0]));
  return kj::str("dial tcp 127.0.0.1:", port, ": connect: ", cause);
}

}  // namespace

// networkd answers when its first pass has finished.
kj::Promise<void> networkdIsReady(DaemonDependencies& deps) {
  return deps.networkd.readyRequest().send().ignoreResult();
}

kj::Promise<void> apidIsReady(DaemonDependencies& deps) {
  KJ_IF_MAYBE (reason, whyNotJoined(deps.store)) {
    return error(ErrorKind::kFailedPrecondition, *reason);
  }
  return serverTakesConnections(deps, kApidPort);
}

kj::Promise<void> trustdIsReady(DaemonDependencies& deps) {
  return serverTakesConnections(deps, kTrustdPort);
}

kj::Promise<void> registrydIsReady(DaemonDependencies& deps) {
  return serverTakesConnections(deps, kRegistrydPort);
}

kj::Promise<void> etcdSupervisorIsReady(DaemonDependencies& deps) {
  return deps.etcdSupervisor.readyRequest().send().ignoreResult();
}

kj::Promise<void> etcdIsHealthy(DaemonDependencies& deps) {
  return deps.etcdSupervisor.healthRequest().send().ignoreResult();
}

// Sends GET /healthz, and expects the status 200.
kj::Promise<void> kubeletIsHealthy(DaemonDependencies& deps) {
  auto stream = co_await connectTo(deps, kKubeletHealthPort)
                    .catch_([](kj::Exception&& e) -> kj::Own<kj::AsyncIoStream> {
                      fail(ErrorKind::kUnavailable,
                           kj::str("Get \"http://127.0.0.1:", kKubeletHealthPort,
                                   "/healthz\": ", dialFailure(kKubeletHealthPort, e)));
                    });
  constexpr kj::StringPtr kRequest = "GET /healthz HTTP/1.0\r\n\r\n"_kj;
  co_await stream->write(kRequest.begin(), kRequest.size());
  constexpr size_t kStatusLine = 12;  // HTTP/1.0 200
  char answer[kStatusLine];
  auto size = co_await stream->tryRead(answer, sizeof answer, sizeof answer);
  if (size == sizeof answer && kj::arrayPtr(answer + 9, 3) == "200"_kj.asArray()) co_return;
  fail(ErrorKind::kUnavailable, "the kubelet does not report itself healthy");
}

kj::Promise<void> containerdServes(DaemonDependencies& deps) {
  return deps.containerd.serving();
}

kj::Promise<void> login1Listens(DaemonDependencies& deps) {
  if (deps.store.tryGet<rpc::ShutdownDelaySpec>("node") != nullptr) return kj::READY_NOW;
  return error(ErrorKind::kUnavailable, "login1 does not listen on the bus yet");
}

}  // namespace talos::machined
