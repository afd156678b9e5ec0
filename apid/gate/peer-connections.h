// Connections to the apids of other nodes: one per address, shared by all callers.
//
// A connection is opened when first needed and after a loss, and closed when it was not used for
// `idle`. At most `targets` are open; for a new connection the longest unused one is closed. A
// connection is in use while a call runs on it or a capability obtained over it is held. One client
// has at most `perClient` of them in use, since it can name any address. A connection that is lost,
// or whose other side exceeded a limit (common/wire/bounded-stream.h), is closed at once.
//
// A connection to a node whose identity is not verified (unverified-peers.h) is opened again after
// `unverifiedFor`, because the node may have its certificate by then; at most `unverified` of these
// are open. A call by name is sent only to a node whose certificate has this name
// (identity/call-target.h). If the certificate lacks the name and no other call uses the
// connection, it is opened again as well. The calls of one client to a node are limited
// (forwarded-calls.h) over all addresses that lead to the node: its certificate shows that they are
// the same node.
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
    unsigned perClient = 192;  // a client may call all nodes of a large cluster; a quarter is for
                               // others
    unsigned unverified = 64;  // nodes that join at the same time; each may cost 256 KiB
    kj::Duration idle = 5 * kj::MINUTES, unverifiedFor = 200 * kj::MILLISECONDS;
    ForwardingLimits forwarding = {};
  };
  // Dials a node, with its own deadline and errors that name the address.
  using Dial = kj::Function<kj::Promise<Remote>(const Ip&)>;
  PeerConnections(kj::Timer& timer, Dial dial, Limits limits);
  PeerConnections(kj::Timer& timer, Dial dial);
  ~PeerConnections() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(PeerConnections);

  // A client as another node sees it: with these roles and no others, and its name for the audit
  // log. The account is charged for the data that the node sends to the client's capabilities, and
  // for its answers. Read-only calls are retried when their connection ends (repeated-calls.h).
  struct Client {
    kj::String name, address;
    kj::Array<kj::String> roles;
    kj::String request;  // id of the calls on the other node
    bool privileged = false;
    kj::Own<Budget::Account> account = {};  // nullptr: not charged

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
