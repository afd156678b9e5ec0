// What the operators of both versions (dhcp-operator4.h, dhcp-operator6.h) have in common: their
// link, the loop over their sockets and their deadline, and the file of their lease.
//
// The file is written when a lease begins or is renewed, before it is told, and removed when it
// ends; so a process that is killed at any line finds either the lease that the kernel and the
// store still show, or none, in which case it asks the server, which gives the same address again.
#pragma once

#include <kj/timer.h>

#include "common/base/error.h"
#include "common/base/signal.h"
#include "networkd/dhcp/dhcp-client.h"
#include "networkd/dhcp/dhcp-socket.h"

namespace talos::networkd::dhcp {

// What an operator needs of the process.
struct Surroundings {
  kj::UnixEventPort& port;
  kj::Timer& timer;
  kj::StringPtr directory;  // for leases
  kj::Function<uint64_t()>& random;
};

class Operator {
 public:
  KJ_DISALLOW_COPY_AND_MOVE(Operator);
  const LinkState& link() const { return state; }

 protected:
  // Logs begin with `protocol`; the lease's file is <directory>/<file>-<name>. `changed` is called
  // when what the operator has to tell has changed.
  Operator(Surroundings around, kj::StringPtr protocol, kj::StringPtr file, kj::StringPtr name,
           LinkState link, kj::Function<void()> changed);
  ~Operator() noexcept(false) = default;

  const Surroundings around;
  const kj::String name;
  LinkState state;
  kj::Function<void()> changed;

  // Closes the sockets that are of no use now, and gives the others.
  virtual kj::Vector<Listener*> sockets() = 0;
  // Takes what waits in them. Whether there may be more.
  virtual bool drain() = 0;
  virtual kj::Maybe<kj::TimePoint> deadline() const = 0;
  virtual void timeout() = 0;
  // Runs until dropped: the last member of the class that implements those above.
  kj::Promise<void> run();
  // What run() waits for is another.
  void wake() { woken.raise(); }

  Moment moment() { return {around.timer.now(), around.random()}; }
  // A socket that cannot be opened, or sends nothing, is as a lost packet: it is tried again.
  // What failed is logged once.
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
  void writeFile(Bytes lease);
  void removeFile();
  // There is no lease any more.
  void leaseEnds(kj::StringPtr why);

 private:
  const kj::String protocol, path;
  kj::String lastFailure;  // empty: the last attempt was good
  Signal woken;

  void failed(kj::String why);
};

}  // namespace talos::networkd::dhcp
