#include "tests/cluster/delayed-line.h"

#include <arpa/inet.h>
#include <kj/async-io.h>
#include <kj/debug.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace talos {
namespace {

constexpr uint16_t kPort = 50000;
constexpr size_t kPiece = 65536;

sockaddr_in socketAddress(const std::string& address) {
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(kPort);
  KJ_REQUIRE(inet_pton(AF_INET, address.c_str(), &name.sin_addr) == 1, address.c_str());
  return name;
}

class Line final : private kj::TaskSet::ErrorHandler {
 public:
  Line(kj::AsyncIoContext& io, sockaddr_in to, kj::Duration delay)
      : io(io), to(to), delay(delay), connections(*this) {}

  kj::Promise<void> accept(kj::Own<kj::ConnectionReceiver> receiver) {
    for (;;) connections.add(forward(co_await receiver->accept()));
  }

 private:
  kj::AsyncIoContext& io;
  sockaddr_in to;
  kj::Duration delay;
  kj::TaskSet connections;

  // A connection that one side has ended: both are gone.
  void taskFailed(kj::Exception&&) override {}

  kj::Promise<void> forward(kj::Own<kj::AsyncIoStream> client) {
    auto node = co_await io.provider->getNetwork().getSockaddr(&to, sizeof to)->connect();
    co_await kj::joinPromisesFailFast(kj::arr(carry(*client, *node), carry(*node, *client)));
  }

  kj::Promise<void> carry(kj::AsyncIoStream& in, kj::AsyncIoStream& out) {
    auto& timer = io.provider->getTimer();
    kj::Promise<void> written = kj::READY_NOW;
    for (;;) {
      auto piece = kj::heapArray<kj::byte>(kPiece);
      auto size = co_await in.tryRead(piece.begin(), 1, piece.size());
      auto due = timer.now() + delay;
      written = write(kj::mv(written), due, out, kj::heapArray(piece.slice(0, size)))
                    .eagerlyEvaluate(nullptr);
      if (size == 0) break;
    }
    co_await kj::mv(written);
  }

  // Nothing: the end.
  kj::Promise<void> write(kj::Promise<void> before, kj::TimePoint due, kj::AsyncIoStream& out,
                          kj::Array<kj::byte> piece) {
    co_await kj::mv(before);
    co_await io.provider->getTimer().atTime(due);
    if (piece.size() == 0) {
      out.shutdownWrite();
    } else {
      co_await out.write(piece.begin(), piece.size());
    }
  }
};

[[noreturn]] void serve(int listening, sockaddr_in to, kj::Duration delay) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    auto io = kj::setupAsyncIo();
    Line line(io, to, delay);
    line.accept(io.lowLevelProvider->wrapListenSocketFd(listening)).wait(io.waitScope);
  } catch (...) {  // the test sees that no program listens
  }
  _exit(1);
}

}  // namespace

DelayedLine::DelayedLine(const std::string& from, const std::string& to, unsigned milliseconds) {
  auto name = socketAddress(from), target = socketAddress(to);
  int raw, one = 1;
  KJ_SYSCALL(raw = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  kj::AutoCloseFd listening(raw);
  KJ_SYSCALL(setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one));
  KJ_SYSCALL(bind(listening, reinterpret_cast<sockaddr*>(&name), sizeof name), from.c_str());
  KJ_SYSCALL(listen(listening, 64));
  KJ_SYSCALL(pid = fork());
  if (pid == 0) serve(listening, target, milliseconds * kj::MILLISECONDS);
}

DelayedLine::~DelayedLine() {
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
}

}  // namespace talos
