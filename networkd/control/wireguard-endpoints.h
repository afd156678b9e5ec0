// Resolves the names of WireGuard peers to addresses, again and again, because a peer's address may
// change and the kernel knows only addresses.
//
// A name that cannot be resolved is a problem of its peer alone: the tunnel and the other peers
// work, and an address that was found before stays. Nothing here is kept over a crash: what the
// kernel has is taken as it is while it works (networkd/plan/plan-wireguard.cc).
#pragma once

#include <kj/async.h>
#include <kj/function.h>
#include <kj/map.h>
#include <kj/timer.h>

#include "networkd/plan/network-plan.h"

namespace talos::networkd {

class Endpoints {
 public:
  // The addresses of a host, best first, asked of these servers ("10.0.0.1,[fd00::1]"; empty: those
  // of the machine). Rejects when there are none.
  using Resolve =
      kj::Function<kj::Promise<kj::Array<kj::String>>(kj::String host, kj::String servers)>;
  // `changed` is called when a name has become another address; not within fill().
  Endpoints(kj::Timer& timer, Resolve resolve, kj::Function<void()> changed);
  ~Endpoints() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(Endpoints);

  // Fills in `resolved` and `moved` of every peer, as far as is known now; begins to look up names
  // that are new, ends with those that are not wanted any more, adds problems. What is no address
  // among the servers does not count; with other servers, names that are not known yet are asked
  // for at once.
  void fill(Wanted& wanted, kj::ArrayPtr<const kj::String> servers);
  // Fills in `resolved` from what is known, and begins nothing.
  void fillKnown(Wanted& wanted) const;
  // The kernel has the addresses of fill().
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
