// A further network namespace beside that of a test's Node, and sockets by their address.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>

#include "tests/network/node.h"

namespace talos {

inline kj::AutoCloseFd openNamespace(kj::StringPtr path) {
  int fd;
  KJ_SYSCALL(fd = open(path.cStr(), O_RDONLY | O_CLOEXEC), path);
  return kj::AutoCloseFd(fd);
}

// A network namespace, with a process that does nothing else than to be in it.
class Place {
 public:
  // Runs it on this thread, in this namespace.
  template <typename F>
  auto within(F&& body) {
    auto home = openNamespace("/proc/thread-self/ns/net");
    KJ_SYSCALL(setns(fd, CLONE_NEWNET));
    KJ_DEFER(KJ_SYSCALL(setns(home, CLONE_NEWNET)));
    return body();
  }
  Place() {
    int ends[2];
    KJ_SYSCALL(pipe2(ends, O_CLOEXEC));
    kj::AutoCloseFd there(ends[0]), done(ends[1]);
    KJ_SYSCALL(pid = fork());
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (unshare(CLONE_NEWNET) < 0 || ::write(done, "x", 1) != 1) _exit(1);
      for (;;) pause();
    }
    done = nullptr;
    char byte;
    KJ_REQUIRE(::read(there, &byte, 1) == 1, "these tests need root");
    fd = openNamespace(kj::str("/proc/", pid, "/ns/net"));
    kernel = within([] { return netlink::openKernel(); });
    netlink::setUp(*kernel, netlink::indexOf(*kernel, "lo"));
  }
  ~Place() noexcept(false) {
    ::kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }

  void address(kj::StringPtr link, kj::StringPtr prefix) {
    netlink::change(*kernel,
                    netlink::AddAddress{{.link = netlink::indexOf(*kernel, link),
                                         .prefix = KJ_ASSERT_NONNULL(Prefix::parse(prefix)),
                                         .flags = IFA_F_NODAD}});
  }
  void route(kj::StringPtr to, kj::StringPtr gateway, kj::StringPtr link) {
    netlink::change(*kernel, netlink::AddRoute{{.destination = KJ_ASSERT_NONNULL(Prefix::parse(to)),
                                                .gateway = Ip::require(gateway),
                                                .link = netlink::indexOf(*kernel, link)}});
  }

  pid_t pid = 0;
  kj::AutoCloseFd fd;
  kj::Own<netlink::Kernel> kernel;
};

struct Name {
  sockaddr_storage storage{};
  socklen_t size = 0;
  Name(const Ip& ip, uint16_t port) {
    if (ip.family() == AF_INET) {
      auto& out = reinterpret_cast<sockaddr_in&>(storage);
      memcpy(&out.sin_addr, ip.bytes().begin(), 4);
      out.sin_port = htons(port);
      size = sizeof(sockaddr_in);
    } else {
      auto& out = reinterpret_cast<sockaddr_in6&>(storage);
      memcpy(&out.sin6_addr, ip.bytes().begin(), 16);
      out.sin6_port = htons(port);
      size = sizeof(sockaddr_in6);
    }
    storage.ss_family = static_cast<sa_family_t>(ip.family());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

inline kj::AutoCloseFd openSocket(const Ip& ip, int type) {
  int fd;
  KJ_SYSCALL(fd = socket(ip.family(), type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return kj::AutoCloseFd(fd);
}
inline kj::AutoCloseFd boundSocket(const Ip& ip, uint16_t port, int type) {
  auto fd = openSocket(ip, type);
  Name name(ip, port);
  KJ_SYSCALL(bind(fd, name.get(), name.size), ip, port);
  if (type == SOCK_STREAM) {
    KJ_SYSCALL(listen(fd, 8));
  }
  return fd;
}

// A request over a new connection, which makes progress at each call of a method.
class Request {
 public:
  Request(const Ip& to, uint16_t port, kj::StringPtr text, kj::Maybe<Ip> from = nullptr)
      : socket(openSocket(to, SOCK_STREAM)), text(kj::str(text)) {
    KJ_IF_MAYBE (ip, from) {
      Name name(*ip, 0);
      KJ_SYSCALL(bind(socket, name.get(), name.size), *ip);
    }
    Name name(to, port);
    if (connect(socket, name.get(), name.size) < 0) {
      KJ_REQUIRE(errno == EINPROGRESS, errno);
    }
  }
  bool connected() {
    pollfd ready{socket, POLLOUT, 0};
    if (established || ::poll(&ready, 1, 0) <= 0) return established;
    int error = 0;
    socklen_t size = sizeof error;
    KJ_SYSCALL(getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size));
    KJ_REQUIRE(error == 0, "the connection failed", strerror(error));
    established = true;
    KJ_REQUIRE(::send(socket, text.begin(), text.size(), MSG_NOSIGNAL) == ssize_t(text.size()));
    return true;
  }
  bool answered() {
    if (!connected()) return false;
    char part[4096];
    for (;;) {
      auto size = ::recv(socket, part, sizeof part, 0);
      if (size < 0) return false;
      if (size == 0) return true;
      answer.append(part, static_cast<size_t>(size));
    }
  }
  std::string answer;

 private:
  kj::AutoCloseFd socket;
  kj::String text;
  bool established = false;
};

}  // namespace talos
