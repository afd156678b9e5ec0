#include "machined/services/containers/containerd-connection.h"

#include <errno.h>
#include <kj/debug.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "machined/services/containers/grpc-health.pb.h"

namespace talos::machined {
namespace {

namespace health = ::grpc::health::v1;

// Pause between tries while containerd starts: 40 ms on a fast machine, 2 s on an emulated one.
constexpr auto kAgain = 50 * kj::MILLISECONDS;

kj::Promise<kj::Own<kj::AsyncIoStream>> dialSocket(kj::LowLevelAsyncIoProvider& lowLevel,
                                                   kj::StringPtr path) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  KJ_REQUIRE(path.size() < sizeof name.sun_path, "the path of a socket is too long", path);
  memcpy(name.sun_path, path.begin(), path.size());
  int fd;
  KJ_SYSCALL(fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  kj::AutoCloseFd owned(fd);
  auto failed = [&](int number) {
    return error(ErrorKind::kUnavailable,
                 kj::str("containerd does not run (", path, ": ", strerror(number), ")"));
  };
  if (connect(fd, reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) {
    return failed(errno);
  }
  return lowLevel.wrapSocketFd(kj::mv(owned));
}

}  // namespace

Containerd::Containerd(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer, kj::StringPtr path)
    : Containerd(timer,
                 [&lowLevel, path = kj::str(path)]() { return dialSocket(lowLevel, path); }) {}
Containerd::Containerd(kj::Timer& timer, grpc::Client::Dial dial)
    : timer(timer), client(timer, kj::str("containerd"), kj::mv(dial)) {}

kj::Promise<void> Containerd::serving() {
  for (;;) {
    kj::Maybe<kj::Exception> wrong;
    auto answer = co_await grpc::call<health::HealthCheckResponse>(
                      client, "/grpc.health.v1.Health/Check", nullptr, kDeadline,
                      health::HealthCheckRequest())
                      .catch_([&wrong](kj::Exception&& e) {
                        wrong = kj::mv(e);
                        return health::HealthCheckResponse();
                      });
    KJ_IF_MAYBE (e, wrong) {
      if (kindOf(*e) != ErrorKind::kUnavailable) kj::throwFatalException(kj::mv(*e));
    } else if (answer.status() == health::HealthCheckResponse::SERVING) {
      co_return;
    } else {
      fail(ErrorKind::kUnavailable,
           kj::str("containerd says that it does not serve (status ", int(answer.status()), ")"));
    }
    co_await timer.afterDelay(kAgain);
  }
}

}  // namespace talos::machined
