// Runs the client of one link and one protocol (dhcp-operator4.h, dhcp-operator6.h): the link, the
// loop over its sockets and its deadline, and the file of its lease.
//
// The file is written when a lease is obtained or renewed, before that is reported, and removed
// when it ends; so a process that is killed at any line finds either the lease that the kernel and
// the store still show, or none, in which case it asks the server, which gives the same address
// again.
#pragma once

#include <kj/timer.h>

#include "common/base/error.h"
#include "common/base/signal.h"
#include "common/netlink/netlink.h"
#include "networkd/dhcp/dhcp-lease-cycle.h"
#include "networkd/dhcp/dhcp-lease.h"
#include "networkd/dhcp/dhcp-socket.h"
#include "networkd/dhcp/router-advertised.h"

namespace talos::networkd::dhcp {

// The parts of the process that an operator needs.
struct Dependencies {
  kj::UnixEventPort& port;
  kj::Timer& timer;
  kj::StringPtr directory;  // for leases
  kj::Function<uint64_t()>& random;
  bool asksForMtu = true;  // of DHCPv4 servers
};

class Operator {
 public:
  KJ_DISALLOW_COPY_AND_MOVE(Operator);
  virtual ~Operator() noexcept(false) = default;

  const LinkState& link() const { return state; }
  // The same link in another state: the index and the hardware address stay.
  virtual void setRunning(bool running) = 0;
  // Its lease is no longer wanted: given back when it has ended().
  virtual void stop() = 0;
  virtual bool ended() const { return true; }
  // True if the kernel's addresses are needed, which see() takes.
  virtual bool watches() const { return false; }
  virtual void see(kj::ArrayPtr<const netlink::Address> addresses) {}

  // Its state, as OperatorStatuses show it.
  virtual kj::StringPtr stateName() const = 0;
  // The family whose address it asks for; AF_UNSPEC: of none.
  virtual int family() const = 0;
  virtual kj::Maybe<const Lease&> lease() const = 0;
  virtual kj::Maybe<const Advertised&> advertised() const { return nullptr; }

 protected:
  // Logs begin with `protocol`; the lease's file is <directory>/<file>-<name>. `changed` is called
  // when the state or the lease has changed.
  Operator(Dependencies deps, kj::StringPtr protocol, kj::StringPtr file, kj::StringPtr name,
           LinkState link, kj::Function<void()> changed);

  const Dependencies deps;
  const kj::String name;
  LinkState state;
  kj::Function<void()> changed;

  // Closes the sockets that are not needed now, and returns the others.
  virtual kj::Vector<Listener*> sockets() = 0;
  // Opens those that are needed and not open.
  virtual void openSockets() = 0;
  // Processes the packets that wait in them. True: there may be more.
  virtual bool drain() = 0;
  virtual kj::Maybe<kj::TimePoint> deadline() const = 0;
  virtual void timeout() = 0;
  // Runs until dropped: the last member of the class that implements those above.
  kj::Promise<void> run();
  // Other sockets are open, or there is another deadline.
  void wake() { woken.raise(); }

  // Performs the actions of the client, `each` by itself, and reports a change of its state.
  template <typename Client, typename Each>
  void performAll(const Client& client, typename Client::Actions actions, Each&& each) {
    openSockets();
    for (auto& action : actions) each(action);
    if (actions.size() > 0 || client.state() != lastReported) report(client.state());
  }
  void obtained(Bytes file);
  void lost(kj::StringPtr cause);

  Moment moment() { return {deps.timer.now(), deps.random()}; }
  void open(kj::Maybe<kj::Own<Listener>>& socket, kj::FunctionParam<kj::AutoCloseFd()> opener);
  // A socket that cannot be opened, or sends nothing, is as a lost packet: it is tried again. A
  // failure is logged once.
  template <typename F>
  void attempt(kj::StringPtr what, F&& f) {
    KJ_IF_MAYBE (e, kj::runCatchingExceptions(kj::fwd<F>(f))) {
      failed(kj::str(what, ": ", messageOf(*e)));
    } else {
      failed(kj::String());
    }
  }

  // Empty when there is none.
  kj::Array<kj::byte> readFile();
  void removeFile();

 private:
  const kj::String protocol, path;
  kj::String lastFailure;  // empty: the last attempt was good
  LeaseState lastReported = LeaseState::kDown;
  Signal woken;

  void failed(kj::String error);
  void report(LeaseState now);
};

}  // namespace talos::networkd::dhcp
