// The sockets of the resolver at one address: UDP and TCP.
//
// Limits keep a client from harming others: queries over UDP that are under way (beyond, they are
// dropped, and clients repeat them), connections, of these kMostOfPod from one pod, and the time
// that a connection takes to send a query, to take an answer and to be idle. Answers leave with a
// short IP lifetime, so that they do not get far; a machine on the same link can get one.
#pragma once

#include <kj/async-io.h>
#include <kj/async-unix.h>
#include <kj/timer.h>

#include <map>

#include "common/net/udp.h"
#include "networkd/dns/dns-resolver.h"

namespace talos::networkd::dns {

class Listener final : private kj::TaskSet::ErrorHandler {
 public:
  static constexpr unsigned kMostQueries = 1024, kMostConnections = 64, kMostOfPod = 16;
  static constexpr kj::Duration kReadLimit = 3 * kj::SECONDS, kWriteLimit = 5 * kj::SECONDS,
                                kIdleLimit = 10 * kj::SECONDS;

  // Opens the sockets, even if no link has the address yet. `hops` is the IP lifetime of answers.
  // Throws if a socket cannot be opened.
  Listener(kj::UnixEventPort& port, kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
           const Endpoint& address, unsigned hops, Resolver& resolver, Resolver::Client client);
  KJ_DISALLOW_COPY_AND_MOVE(Listener);

  // Rejects if a socket fails, else runs until dropped.
  kj::Promise<void> run();
  // Returns the address that the sockets have.
  Endpoint own() const { return udp->own(); }

 private:
  kj::Timer& timer;
  Resolver& resolver;
  Resolver::Client client;
  kj::Own<UdpSocket> udp;
  kj::Own<kj::ConnectionReceiver> tcp;
  unsigned queries = 0, connections = 0;  // under way
  std::map<Ip, unsigned> held;            // connections by peer
  kj::TaskSet tasks;

  kj::Promise<void> receive();
  kj::Promise<void> accept();
  kj::Promise<void> answer(Datagram datagram);
  bool mayConnect(const Ip& peer) const;
  kj::Promise<void> serve(kj::Own<kj::AsyncIoStream> stream, Ip peer);
  // Returns the next query of a connection; nullptr at its end, and if none comes in time.
  kj::Promise<kj::Maybe<kj::Array<kj::byte>>> nextQuery(kj::AsyncIoStream& stream,
                                                        kj::Duration limit);
  // Returns nullptr for a message that gets no answer.
  kj::Promise<kj::Maybe<kj::Array<kj::byte>>> answerTo(Bytes message, bool overUdp);
  void taskFailed(kj::Exception&& exception) override;
};

}  // namespace talos::networkd::dns
