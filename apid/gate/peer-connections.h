// Connections to the apids of other nodes: one per target, shared by all callers.
//
// A connection is opened when first needed and after it was lost, and closed when it was not used
// for `idle`. At most `targets` are open; the one that was unused longest makes room. A connection
// is in use while a call runs on it or anybody holds a capability that came over it. One client has
// at most `perClient` of them in use, since it names any address that it likes. A connection that
// is lost, or whose other side broke a limit (common/wire/bounded-stream.h), goes at once. One to a
// node whose identity is not verified (unproven-peers.h) is opened anew after `unproven`, as the
// node may have its certificate by then; of those there are at most `strangers`.
#pragma once

#include <kj/function.h>
#include <kj/map.h>
#include <kj/timer.h>

#include "apid/gate/unverified-peers.h"
#include "common/net/ip.h"
#include "rpc/node.capnp.h"

namespace talos::apid {

class Fleet {
 public:
  struct Limits {
    unsigned targets = 256;
    unsigned perClient = 192;  // it may ask all nodes of a large cluster; a quarter is for others
    unsigned strangers = 64;   // nodes that join at the same time; each may cost 256 KiB
    kj::Duration idle = 5 * kj::MINUTES, unproven = 200 * kj::MILLISECONDS;
  };
  // Has a deadline of its own, and errors that name the address.
  using Dial = kj::Function<kj::Promise<Remote>(const Ip&)>;
  Fleet(kj::Timer& timer, Dial dial, Limits limits);
  Fleet(kj::Timer& timer, Dial dial);
  ~Fleet() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(Fleet);

  // The other machine, for somebody with these roles and no others, who is named to it for its
  // audit log.
  struct Client {
    kj::String name, address;
    kj::Array<kj::String> roles;
  };
  kj::Promise<rpc::Node::Client> node(Ip address, Client client);

 private:
  class Line;
  class Lease;
  class KeepInUse;
  struct Tally;
  kj::Timer& timer;
  Dial dial;
  Limits limits;
  kj::Own<Tally> tally;
  kj::TreeMap<kj::String, kj::Own<Line>> lines;  // by address

  kj::Own<Line> lineTo(const Ip& address, kj::StringPtr client);
  void makeRoom();
};

}  // namespace talos::apid
