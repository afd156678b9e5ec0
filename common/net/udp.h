// UDP on the loop, with the moment at which each datagram came in: the kernel's, so that a busy
// loop does not make a reply look late.
#pragma once

#include <kj/async-unix.h>
#include <kj/time.h>

#include "common/net/ip.h"

namespace talos {

struct Datagram {
  kj::Array<kj::byte> bytes;  // cut at 1 KiB
  kj::Date received;          // by the wall clock
  sockaddr_storage from;
  socklen_t fromSize;
};

class UdpSocket {
 public:
  // Receives from anybody.
  static kj::Own<UdpSocket> bound(kj::UnixEventPort& port, const Endpoint& own);
  // From a port that the kernel chooses; whatever comes from elsewhere is dropped by the kernel.
  // Unavailable when there is no way there.
  static kj::Own<UdpSocket> connected(kj::UnixEventPort& port, const Endpoint& peer);

  UdpSocket(kj::UnixEventPort& port, kj::AutoCloseFd fd);
  KJ_DISALLOW_COPY_AND_MOVE(UdpSocket);

  // One at a time. Unavailable when the peer of a connected socket says that nobody listens.
  kj::Promise<Datagram> receive();

  void send(kj::ArrayPtr<const kj::byte> bytes);  // connected; Unavailable, saying why
  // A datagram that the kernel does not accept is lost.
  void answer(const Datagram& to, kj::ArrayPtr<const kj::byte> bytes);

  Endpoint own() const;

 private:
  kj::AutoCloseFd fd;
  kj::UnixEventPort::FdObserver observer;

  kj::Maybe<Datagram> tryReceive();
};

}  // namespace talos
