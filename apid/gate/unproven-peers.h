// Machines that cannot prove yet who they are: a worker to which trustd has not given a
// certificate, or no new one in time.
//
// Such a machine has to be asked why, or nobody ever learns it. Its own side needs no exception: it
// shows a certificate that it signed itself (or the one that has expired), and lets in who has a
// certificate of the authority, as always. This side, another machine's apid, dials it although it
// is not proven and lets only the calls through that are marked $joining in rpc/; everything else
// is FailedPrecondition and never leaves this machine.
//
// Whoever took that address over learns nothing secret by it. What goes there are method numbers,
// the caller's roles, name and address, and the proof that this machine has the key of its own
// certificate, which is made for that one handshake (TLS 1.3 signs the transcript) and good for no
// other. No $joining
// method has a parameter with a secret in it, and none takes a capability. What comes back is a
// stranger's word: it says so where a reader looks (the message of the service apid, the problems
// of the status, the tag of the version), and nothing acts on it.
#pragma once

#include "common/net/address.h"
#include "common/tls/tls.h"
#include "common/wire/rpc-server.h"
#include "rpc/node.capnp.h"

namespace talos::apid {

// A connection to another machine's apid.
struct Remote {
  Remote(kj::Own<Connection> connection, kj::Maybe<kj::String> unproven = nullptr)
      : connection(kj::mv(connection)), unproven(kj::mv(unproven)) {}
  kj::Own<Connection> connection;
  kj::Maybe<kj::String> unproven;  // why it is not known who is at the other end
};

// Unavailable naming address, port and cause, as connectTcp().
kj::Promise<Remote> dialMachine(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                                TlsEndpoint& tls, const Address& address, uint16_t port,
                                kj::StringPtr expectedName);

// On a machine that can show no certificate to others: FailedPrecondition saying whom to ask.
[[noreturn]] void refuseToForward();

// What a caller gets of a machine that is not proven.
rpc::Node::Client joiningNode(rpc::Node::Client remote, kj::String address, kj::String why);

}  // namespace talos::apid
