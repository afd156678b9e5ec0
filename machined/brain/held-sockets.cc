#include "machined/brain/held-sockets.h"

#include <sys/socket.h>

#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/node-layout.h"
#include "common/wire/rpc-server.h"
#include "machined/boot/node-environment.h"

namespace talos::machined {

namespace {

// If another descriptor were held under a socket's name, each brain that accepts from it would
// crash.
bool listens(int fd) {
  int listening = 0;
  socklen_t size = sizeof listening;
  return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) == 0 && listening != 0;
}

bool hasOption(int fd, int option, int wanted) {
  int value = 0;
  socklen_t size = sizeof value;
  return getsockopt(fd, SOL_SOCKET, option, &value, &size) == 0 && value == wanted;
}

bool isOfPair(int fd) {
  return hasOption(fd, SO_DOMAIN, AF_UNIX) && hasOption(fd, SO_TYPE, SOCK_SEQPACKET);
}

}  // namespace

kj::Promise<kj::AutoCloseFd> heldSocket(Process1& process1, kj::StringPtr service,
                                        kj::Function<kj::AutoCloseFd()> make) {
  auto name = kj::str("listen/", service);
  KJ_IF_MAYBE (held, process1.takeHeld(name)) {
    if (listens(held->get())) co_return kj::mv(*held);
    log::error("the held descriptor is not a listening socket; making a new one",
               {{"service", service}});
  }
  auto made = make();
  co_await process1.hold(name, made.get());
  co_return kj::mv(made);
}

kj::Promise<KeptPair> keptPair(Process1& process1, kj::StringPtr service) {
  auto keeping = kj::str("keeping/", service), kept = kj::str("kept/", service);
  KJ_IF_MAYBE (first, process1.takeHeld(kept)) {
    KJ_IF_MAYBE (second, process1.takeHeld(keeping)) {
      if (isOfPair(*first) && isOfPair(*second))
        co_return KeptPair{kj::mv(*second), kj::mv(*first)};
      log::error("the held descriptors are not a pair of sockets; making a new one",
                 {{"service", service}});
    }
  }
  int ends[2];
  KJ_SYSCALL(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
  KeptPair made{kj::AutoCloseFd(ends[0]), kj::AutoCloseFd(ends[1])};
  co_await process1.drop(keeping);
  co_await process1.hold(kept, made.kept.get());
  co_await process1.hold(keeping, made.keeping.get());
  co_return kj::mv(made);
}

kj::Promise<kj::AutoCloseFd> openMachinedSocket(Process1& process1) {
  makeDirectories(kRunFolder, 0755);
  return heldSocket(process1, "machined",
                    [] { return listenUnix(kMachinedSocket, kMachinedSocketMode); });
}

kj::Promise<kj::AutoCloseFd> openDaemonSocket(Process1& process1, const Daemon& daemon) {
  return heldSocket(process1, daemon.id, [&listen = daemon.listen]() {
    if (listen.port != 0) {
      return listenTcp(listen.loopback ? "127.0.0.1"_kj : anyAddress(), listen.port, listen.queue);
    }
    return listenUnix(listen.socket, listen.mode, listen.owner);
  });
}

}  // namespace talos::machined
