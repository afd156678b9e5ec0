// Connections to the apids of other nodes: one per address, shared by all callers.
//
// A connection is opened when first needed and after it was lost, and closed when it was not used
// for `idle`. At most `targets` are open; the one that was unused longest is closed for a new one.
// A connection is in use while a call runs on it or a capability obtained over it is held. One
// client has at most `perClient` of them in use, since it can name any address. A connection that
// is lost, or whose other side exceeded a limit (common/wire/bounded-stream.h), is closed at once.
// One to a node whose identity is not verified (unverified-peers.h) is opened again after
// `unverifiedFor`, as the node may have its certificate by then; there are at most `unverified` of
// those. A call by name is sent only to a node whose certificate has that name
// (identity/call-target.h); while no other call uses the connection, it is opened again as well.
// The calls of one client to a node are limited (forwarded-calls.h), over all addresses that lead
// to it: the node's certificate shows that they are the same.
#pragma once

#include <kj/function.h>
#include <kj/map.h>
#include <kj/timer.h>

#include "apid/gate/forwarded-calls.h"
#include "apid/gate/repeated-calls.h"
#include "apid/gate/unverified-peers.h"
#include "rpc/node.capnp.h"

namespace talos::apid {

class PeerConnections {
 public:
  struct Limits {
    unsigned targets = 256;
    unsigned perClient = 192;  // it may ask all nodes of a large cluster; a quarter is for others
    unsigned unverified = 64;  // nodes that join at the same time; each may cost 256 KiB
    kj::Duration idle = 5 * kj::MINUTES, unverifiedFor = 200 * kj::MILLISECONDS;
    ForwardingLimits forwarding = {};
  };
  // Dials a node, with a deadline of its own and errors that name the address.
  using Dial = kj::Function<kj::Promise<Remote>(const Ip&)>;
  PeerConnections(kj::Timer& timer, Dial dial, Limits limits);
  PeerConnections(kj::Timer& timer, Dial dial);
  ~PeerConnections() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(PeerConnections);

  // The other node, for a client with these roles and no others, which is named to it for its audit
  // log. The account is charged for what that node sends to the client's capabilities, and for its
  // answers. Calls that only read are made again when their connection ends (repeated-calls.h).
  struct Client {
    kj::String name, address;
    kj::Array<kj::String> roles;
    kj::String request;  // the id that the calls have there, too
    bool privileged = false;
    kj::Own<Budget::Account> account = {};  // or null

    Client clone();
  };
  // Rejects with FailedPrecondition if another node than the named one has the address.
  kj::Promise<rpc::Node::Client> node(OtherNode target, Client client);

 private:
  class Peer;
  class Lease;
  class KeepInUse;
  struct Usage;
  kj::Timer& timer;
  Dial dial;
  Limits limits;
  kj::Own<Usage> usage;
  kj::Own<RepeatableMethods> repeatable = kj::refcounted<RepeatableMethods>();
  kj::TreeMap<kj::String, kj::Own<Peer>> byAddress;

  kj::Promise<ConnectedNode> reach(OtherNode target, Client client);
  kj::Own<Peer> peerAt(const Ip& address, kj::StringPtr client);
  void countByNode(Peer& peer);
  void makeRoom();
};

}  // namespace talos::apid
