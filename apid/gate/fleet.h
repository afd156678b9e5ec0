// Connections to the apids of other machines: one for each target, shared by all callers.
//
// Dialled when first needed, dialled again after it was lost, closed when nobody has used it for
// `idle`; at most `targets` at once, of which the one that was unused longest makes room. A
// connection is in use as long as a call is under way on it or anybody holds a capability that came
// by it. One to a machine that is not proven (unproven-peers.h) is dialled anew after `unproven`: it may
// have its certificate by then.
#pragma once

#include <kj/function.h>
#include <kj/map.h>
#include <kj/timer.h>

#include "apid/gate/unproven-peers.h"
#include "common/net/address.h"
#include "rpc/node.capnp.h"

namespace talos::apid {

class Fleet {
 public:
  struct Limits {
    unsigned targets = 256;
    kj::Duration idle = 5 * kj::MINUTES, unproven = 2 * kj::SECONDS;
  };
  // Has a deadline of its own, and errors that name the address.
  using Dial = kj::Function<kj::Promise<Remote>(const Address&)>;
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
  kj::Promise<rpc::Node::Client> node(Address address, Client client);

 private:
  class Line;
  class Lease;
  class KeepInUse;
  kj::Timer& timer;
  Dial dial;
  Limits limits;
  kj::TreeMap<kj::String, kj::Own<Line>> lines;  // by address

  kj::Own<Line> lineTo(const Address& address);
  void makeRoom();
};

}  // namespace talos::apid
