// What networkd needs of the machine besides its links: the host name, the resolver file, a signal.
#pragma once

#include <kj/async-unix.h>
#include <kj/async.h>
#include <kj/string.h>

namespace talos::networkd {

class Host {
 public:
  virtual ~Host() noexcept(false) = default;
  virtual kj::String hostname() = 0;
  // Resolves at the next change of the host name.
  virtual kj::Promise<void> hostnameChanged() = 0;
  virtual bool ipv6() = 0;
  // Whole or not at all; writes nothing when the file has this content already.
  virtual void writeResolverFile(kj::StringPtr content) = 0;
};

// The machine, with resolv.conf in `directory` (which exists and may be written).
kj::Own<Host> openHost(kj::UnixEventPort& port, kj::StringPtr directory);

// Wakes one waiter; several set() before wait() are one.
class Signal {
 public:
  void set();
  kj::Promise<void> wait();  // by one caller at a time

 private:
  bool raised = false;
  kj::Maybe<kj::Own<kj::PromiseFulfiller<void>>> waiter;
};

}  // namespace talos::networkd
