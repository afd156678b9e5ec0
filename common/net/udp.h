// UDP on the event loop, with the time at which each datagram arrived: the kernel's, so that a busy
// loop does not make a reply look late.
#pragma once

#include <kj/async-unix.h>
#include <kj/time.h>

#include "common/net/ip.h"

namespace talos {

struct Datagram {
  kj::Array<kj::byte> bytes;  // cut at 4 KiB
  kj::Date received;          // by the wall clock
  sockaddr_storage from;
  socklen_t fromSize;
};

class UdpSocket {
 public:
  // Returns a socket that receives from every peer.
  static kj::Own<UdpSocket> bound(kj::UnixEventPort& port, const Endpoint& own);
  // Returns a socket on a port that the kernel chooses; the kernel drops datagrams from other
  // peers. Throws Unavailable if there is no route to the peer.
  static kj::Own<UdpSocket> connected(kj::UnixEventPort& port, const Endpoint& peer);

  UdpSocket(kj::UnixEventPort& port, kj::AutoCloseFd fd);
  KJ_DISALLOW_COPY_AND_MOVE(UdpSocket);

  // One call at a time. Fails with Unavailable if the host of a connected socket's peer reports
  // that the port is closed.
  kj::Promise<Datagram> receive();

  void send(kj::ArrayPtr<const kj::byte> bytes);  // connected; Unavailable with the cause
  // Answers a datagram. If the kernel does not accept the answer, it is lost.
  void answer(const Datagram& to, kj::ArrayPtr<const kj::byte> bytes);

  Endpoint own() const;

 private:
  kj::AutoCloseFd fd;
  kj::UnixEventPort::FdObserver observer;

  kj::Maybe<Datagram> tryReceive();
};

}  // namespace talos
