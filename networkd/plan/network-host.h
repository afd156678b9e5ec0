// What networkd needs of the machine besides its links: the host name, files, what hardware is, a
// signal.
#pragma once

#include <kj/async-unix.h>
#include <kj/async.h>
#include <kj/string.h>

#include "common/netlink/netlink.h"

namespace talos::networkd {

struct Hardware {
  kj::String driver;   // virtio_net
  kj::String busPath;  // 0000:00:03.0
  kj::String pciId;    // 1af4:1000
};

class Host {
 public:
  virtual ~Host() noexcept(false) = default;
  virtual kj::String hostname() = 0;
  // Resolves at the next change of the host name.
  virtual kj::Promise<void> hostnameChanged() = 0;
  virtual bool ipv6() = 0;
  // Whole or not at all; writes nothing when the file has this content already.
  virtual void writeResolverFile(kj::StringPtr content) = 0;
  // What hardware says of itself; empty for links that are made, and for what it does not say.
  virtual Hardware hardware(const netlink::Link& link) = 0;
  // A small file of ours beside the resolver file, written whole or not at all; empty before.
  virtual kj::String readFirstMtus() = 0;
  virtual void writeFirstMtus(kj::StringPtr content) = 0;
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
