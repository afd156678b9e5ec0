// The sockets of rpc-server.h: made, inherited and tuned.
#include <fcntl.h>
#include <kj/debug.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/net/ip.h"
#include "common/wire/rpc-server.h"

namespace talos {
namespace {

template <typename T>
void setOption(kj::AsyncIoStream& stream, int level, int option, T value) {
  stream.setsockopt(level, option, &value, sizeof value);
}

}  // namespace

void tuneTcp(kj::AsyncIoStream& stream, kj::Duration silence) {
  constexpr int kProbes = 4;
  auto idle = silence / 2;
  setOption(stream, IPPROTO_TCP, TCP_NODELAY, int{1});
  setOption(stream, SOL_SOCKET, SO_KEEPALIVE, int{1});
  setOption(stream, IPPROTO_TCP, TCP_KEEPIDLE, static_cast<int>(idle / kj::SECONDS));
  setOption(stream, IPPROTO_TCP, TCP_KEEPINTVL,
            static_cast<int>((silence - idle) / kProbes / kj::SECONDS));
  setOption(stream, IPPROTO_TCP, TCP_KEEPCNT, kProbes);
  setOption(stream, IPPROTO_TCP, TCP_USER_TIMEOUT,
            static_cast<unsigned>(silence / kj::MILLISECONDS));
}

kj::AutoCloseFd inheritedSocket(kj::StringPtr variable) {
  auto value = getenv(variable.cStr());
  KJ_IF_MAYBE (fd, kj::StringPtr(value == nullptr ? "" : value).tryParseAs<int>()) {
    struct stat info;
    if (*fd > STDERR_FILENO && fstat(*fd, &info) == 0 && S_ISSOCK(info.st_mode)) {
      KJ_SYSCALL(fcntl(*fd, F_SETFD, FD_CLOEXEC));
      return kj::AutoCloseFd(*fd);
    }
  }
  fail(ErrorKind::kInvalidArgument, kj::str(variable, " must be the number of a listening socket"));
}

kj::AutoCloseFd listenUnix(kj::StringPtr path, mode_t mode, unsigned uid, unsigned gid) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  KJ_REQUIRE(path.size() < sizeof name.sun_path, "the path of a socket is too long", path);
  memcpy(name.sun_path, path.begin(), path.size());

  struct stat old;
  if (lstat(path.cStr(), &old) == 0) {
    KJ_REQUIRE(S_ISSOCK(old.st_mode), "the path of the socket is in use by another file", path);
    KJ_SYSCALL(unlink(path.cStr()), path);
  }
  int fd;
  KJ_SYSCALL(fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  kj::AutoCloseFd owned(fd);
  // Clients cannot connect before listen(), and by then mode and owner are right.
  KJ_SYSCALL(bind(fd, reinterpret_cast<sockaddr*>(&name), sizeof name), path);
  KJ_SYSCALL(chmod(path.cStr(), mode), path);
  KJ_SYSCALL(lchown(path.cStr(), uid, gid), path);
  KJ_SYSCALL(listen(fd, 512), path);
  return owned;
}

kj::AutoCloseFd listenTcp(kj::StringPtr address, uint16_t port, int backlog) {
  auto name = Endpoint{Ip::require(address), port}.socketName();
  int fd;
  KJ_SYSCALL(fd = socket(name.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  kj::AutoCloseFd owned(fd);
  int yes = 1, no = 0;
  KJ_SYSCALL(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes));
  if (name.family() == AF_INET6) {  // "::" takes IPv4 too
    KJ_SYSCALL(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no));
  }
  KJ_SYSCALL(bind(fd, name.get(), name.size()), address, port);
  KJ_SYSCALL(listen(fd, backlog), address, port);
  return owned;
}

}  // namespace talos
