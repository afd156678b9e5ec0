// DHCPv4 on one link: runs the state machine (dhcp-client4.h) with sockets, a timer and the lease's
// file.
//
// The file (<directory>/dhcp4-<link>) is written when a lease begins or is renewed, before it is
// told, and removed when it ends; so a process that is killed at any line finds either the lease
// that the kernel and the store still show, or none, in which case it asks the server, which gives
// the same address again. It is kept when the operator is dropped (the process ends) and removed by
// stop() (it is no longer wanted), which tells the server that gave it. That goes out as a packet
// of our own to the machine that its acknowledgement came from, or, when that was heard by a
// process that has ended, to all: the kernel may have lost the address and the routes by then.
#pragma once

#include <kj/timer.h>

#include "networkd/dhcp/dhcp-client4.h"
#include "networkd/dhcp/dhcp-socket.h"

namespace talos::networkd::dhcp {

// What an operator needs of the process.
constexpr size_t kLargestLease = 16 << 10;  // as a file

struct Surroundings {
  kj::UnixEventPort& port;
  kj::Timer& timer;
  kj::StringPtr directory;  // for leases
  kj::Function<uint64_t()>& random;
};

class Operator4 {
 public:
  // `link` has an Ethernet address. `changed` is called when lease() or state() has changed.
  Operator4(Surroundings around, kj::StringPtr name, LinkState link, kj::StringPtr hostname,
            kj::Function<void()> changed);

  // The same link in another state: the index and the hardware address stay.
  void setRunning(bool running);
  void stop();
  // Its state in a word.
  kj::StringPtr word() const { return nameOf(machine.state()); }
  const Client4& client() const { return machine; }
  const LinkState& link() const { return state; }

 private:
  Surroundings around;
  kj::String name, path;
  LinkState state;
  kj::Function<void()> changed;
  Client4 machine;
  Client4::State told = Client4::State::kDown;
  kj::Maybe<kj::Own<Listener>> packets, arp;
  kj::Maybe<kj::AutoCloseFd> unicast;  // kept open so that the kernel does not refuse the answer
  kj::Array<kj::byte> server;  // hardware address of who acknowledged the lease; empty: not known
  kj::String lastFailure;      // logged once
  kj::Own<kj::PromiseFulfiller<void>> wake;
  kj::Promise<void> running = nullptr;

  kj::Promise<void> run();
  bool drain();
  void hear(const Message4& message, Bytes sender);
  void perform(Client4::Actions actions);
  void perform(const Action& action);
  void openSockets();
  void save();
  Moment moment();
  kj::Maybe<Lease4> load() const;
  template <typename F>
  void attempt(kj::StringPtr what, F&& f);
};

}  // namespace talos::networkd::dhcp
