// Runs the client of one link and one protocol (dhcp-operator4.h, dhcp-operator6.h): the link, the
// loop over its sockets and its deadline, and the file of its lease.
//
// The file is written when a lease is obtained or renewed, before that is reported, and removed
// when it ends; so after a kill at any line, the next process finds either the lease that the
// kernel and the store still show, or no lease; then it asks the server, which gives the same
// address again.
#pragma once

#include <kj/timer.h>

#include "common/base/error.h"
#include "common/base/signal.h"
#include "common/netlink/netlink.h"
#include "networkd/dhcp/dhcp-lease-cycle.h"
#include "networkd/dhcp/dhcp-lease.h"
#include "networkd/dhcp/dhcp-socket.h"
#include "networkd/dhcp/router-advertisement.h"

namespace talos::networkd::dhcp {

// The parts of the process that an operator needs.
struct Dependencies {
  kj::UnixEventPort& port;
  kj::Timer& timer;
  kj::StringPtr directory;  // Path of the folder for leases.
  kj::Function<uint64_t()>& random;
  bool asksForMtu = true;  // for DHCPv4 servers
};

class Operator {
 public:
  KJ_DISALLOW_COPY_AND_MOVE(Operator);
  virtual ~Operator() noexcept(false) = default;

  const LinkState& link() const { return state; }
  // Updates the link's state; index and hardware address stay.
  virtual void setRunning(bool running) = 0;
  // Ends the use of the lease; the lease has been released when the operator has ended().
  virtual void stop() = 0;
  virtual bool ended() const { return true; }
  // Returns true if the operator needs the kernel's addresses (see()).
  virtual bool watches() const { return false; }
  virtual void see(kj::ArrayPtr<const netlink::Address> addresses) {}

  // Returns the state as OperatorStatuses show it.
  virtual kj::StringPtr stateName() const = 0;
  // Family of the address that the operator requests; AF_UNSPEC: no address.
  virtual int family() const = 0;
  virtual kj::Maybe<const Lease&> lease() const = 0;
  virtual kj::Maybe<const Advertised&> advertised() const { return nullptr; }

 protected:
  // Log lines begin with `protocol`; the lease's file is <directory>/<file>-<name>. The operator
  // calls `changed` when the state or the lease has changed.
  Operator(Dependencies deps, kj::StringPtr protocol, kj::StringPtr file, kj::StringPtr name,
           LinkState link, kj::Function<void()> changed);

  const Dependencies deps;
  const kj::String name;
  LinkState state;
  kj::Function<void()> changed;

  // Closes the sockets that are not needed now, and returns the others.
  virtual kj::Vector<Listener*> sockets() = 0;
  // Opens the needed sockets that are not open.
  virtual void openSockets() = 0;
  // Processes the packets that wait in the sockets. Returns true if more may wait.
  virtual bool drain() = 0;
  virtual kj::Maybe<kj::TimePoint> deadline() const = 0;
  virtual void timeout() = 0;
  // Runs until dropped. The promise is the last member of the class that implements the functions
  // above.
  kj::Promise<void> run();
  // The set of sockets or the deadline has changed.
  void wake() { woken.raise(); }

  // Performs the client's actions by `each`, and reports a change of the client's state.
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
  // A failure to open a socket or to send counts as a lost packet: the client retries. Each failure
  // is logged once.
  template <typename F>
  void attempt(kj::StringPtr what, F&& f) {
    KJ_IF_MAYBE (e, kj::runCatchingExceptions(kj::fwd<F>(f))) {
      failed(kj::str(what, ": ", messageOf(*e)));
    } else {
      failed(kj::String());
    }
  }

  // Returns an empty array if there is no file.
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
