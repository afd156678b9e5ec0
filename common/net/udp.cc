#include "common/net/udp.h"

#include <errno.h>
#include <kj/debug.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "common/base/error.h"

namespace talos {
namespace {

constexpr size_t kMostBytes = 4096;

kj::AutoCloseFd open(int family) {
  int raw, on = 1;
  KJ_SYSCALL(raw = socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  kj::AutoCloseFd fd(raw);
  KJ_SYSCALL(setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on));
  return fd;
}

kj::Date dateOf(const struct timespec& t) {
  return kj::UNIX_EPOCH + t.tv_sec * kj::SECONDS + t.tv_nsec * kj::NANOSECONDS;
}

kj::Date now() {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return dateOf(t);
}

kj::Date stampOf(struct msghdr& header) {
  for (auto* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
    if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_TIMESTAMPNS) {
      struct timespec t;
      memcpy(&t, CMSG_DATA(c), sizeof t);
      return dateOf(t);
    }
  }
  return now();
}

}  // namespace

kj::Own<UdpSocket> UdpSocket::bound(kj::UnixEventPort& port, const Endpoint& own) {
  auto name = own.socketName();
  auto fd = open(name.family());
  KJ_SYSCALL(bind(fd, name.get(), name.size()), own.toString());
  return kj::heap<UdpSocket>(port, kj::mv(fd));
}

kj::Own<UdpSocket> UdpSocket::connected(kj::UnixEventPort& port, const Endpoint& peer) {
  auto name = peer.socketName();
  auto fd = open(name.family());
  if (connect(fd, name.get(), name.size()) != 0) fail(ErrorKind::kUnavailable, strerror(errno));
  return kj::heap<UdpSocket>(port, kj::mv(fd));
}

UdpSocket::UdpSocket(kj::UnixEventPort& port, kj::AutoCloseFd fdParam)
    : fd(kj::mv(fdParam)), observer(port, fd.get(), kj::UnixEventPort::FdObserver::OBSERVE_READ) {}

kj::Maybe<Datagram> UdpSocket::tryReceive() {
  kj::byte buffer[kMostBytes];
  alignas(struct cmsghdr) char control[128];
  Datagram d{nullptr, kj::UNIX_EPOCH, {}, 0};
  struct iovec part = {buffer, sizeof buffer};
  struct msghdr header = {};
  header.msg_name = &d.from;
  header.msg_namelen = sizeof d.from;
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  ssize_t n;
  do {
    n = recvmsg(fd, &header, MSG_DONTWAIT);
  } while (n < 0 && errno == EINTR);
  if (n < 0) {
    if (errno == EAGAIN) return nullptr;
    fail(ErrorKind::kUnavailable, strerror(errno));
  }
  d.bytes = kj::heapArray<kj::byte>(kj::arrayPtr(buffer, size_t(n)));
  d.fromSize = header.msg_namelen;
  d.received = stampOf(header);
  return d;
}

kj::Promise<Datagram> UdpSocket::receive() {
  for (;;) {
    auto ready = observer.whenBecomesReadable();  // before the look: the observer is edge-triggered
    auto found = tryReceive();
    KJ_IF_MAYBE (d, found) co_return kj::mv(*d);
    co_await ready;
  }
}

void UdpSocket::send(kj::ArrayPtr<const kj::byte> bytes) {
  if (::send(fd, bytes.begin(), bytes.size(), MSG_NOSIGNAL) < 0) {
    fail(ErrorKind::kUnavailable, strerror(errno));
  }
}

void UdpSocket::answer(const Datagram& to, kj::ArrayPtr<const kj::byte> bytes) {
  auto ignored = sendto(fd, bytes.begin(), bytes.size(), MSG_NOSIGNAL,
                        reinterpret_cast<const sockaddr*>(&to.from), to.fromSize);
  (void)ignored;
}

Endpoint UdpSocket::own() const {
  sockaddr_storage name{};
  socklen_t size = sizeof name;
  KJ_SYSCALL(getsockname(fd, reinterpret_cast<sockaddr*>(&name), &size));
  return KJ_ASSERT_NONNULL(Endpoint::of(name));
}

}  // namespace talos
