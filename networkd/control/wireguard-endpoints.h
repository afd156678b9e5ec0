// Resolves the names of WireGuard peers to addresses, repeatedly, because a peer's address may
// change and the kernel knows only addresses.
//
// A name that cannot be resolved is a problem of its peer alone: the tunnel and the other peers
// work, and the last known address stays. Nothing is kept over a crash: an address in the kernel
// stays as long as it works (networkd/plan/plan-wireguard.cc).
#pragma once

#include <kj/async.h>
#include <kj/function.h>
#include <kj/map.h>
#include <kj/timer.h>

#include "networkd/plan/network-plan.h"

namespace talos::networkd {

class Endpoints {
 public:
  // Resolves a host name to its addresses, best first, through these servers ("10.0.0.1,[fd00::1]";
  // empty: the machine's servers). Rejects if the name has no address.
  using Resolve =
      kj::Function<kj::Promise<kj::Array<kj::String>>(kj::String host, kj::String servers)>;
  // `changed` is called when a name has a new address, but not within fill().
  Endpoints(kj::Timer& timer, Resolve resolve, kj::Function<void()> changed);
  ~Endpoints() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(Endpoints);

  // Fills in `resolved` and `moved` of every peer from the current knowledge; starts lookups of new
  // names, stops those of unwanted names, adds problems. Servers that are not addresses are
  // ignored; when the servers change, unknown names are looked up at once.
  void fill(Wanted& wanted, kj::ArrayPtr<const kj::String> servers);
  // Fills in `resolved` from the current knowledge, without starting a lookup.
  void fillKnown(Wanted& wanted) const;
  // The kernel now has the addresses of fill().
  void reached(const Wanted& wanted);

 private:
  struct Name {
    kj::String host;
    uint16_t port = 0;
    std::optional<Endpoint> found;
    kj::String problem;
    bool wanted = true;
    kj::Promise<void> looking = nullptr;
  };
  kj::Timer& timer;
  Resolve resolve;
  kj::Function<void()> changed;
  kj::String servers;
  kj::TreeMap<kj::String, kj::Own<Name>> names;  // by the endpoint's text
  kj::TreeMap<kj::String, Endpoint> reachedAt;   // by link and key

  Name& nameFor(kj::StringPtr text);
  void begin(Name& name);
  void setServers(kj::ArrayPtr<const kj::String> list);
  kj::Promise<void> keepLooking(Name& name);
  bool take(Name& name, kj::ArrayPtr<const kj::String> addresses);
};

}  // namespace talos::networkd
