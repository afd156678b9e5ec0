// Nodes whose identity is not verified: workers to which trustd has not given a certificate yet, or
// has not renewed it in time.
//
// Such a node has to be asked why, or nobody would ever know. Its own apid needs no exception: it
// shows a self-signed certificate (or the expired one) and admits clients with a certificate of the
// CA, as always. This side, another node's apid, connects although the identity is not verified and
// passes only calls that are marked $joining in rpc/; all others fail with FailedPrecondition and
// never leave this node.
//
// Whoever took over that address learns no secret. What is sent are method numbers, the caller's
// roles, name and address, and the proof that this node has the key of its own certificate, which
// is made for that one handshake (TLS 1.3 signs the transcript) and useless for any other. No
// $joining method has a secret parameter, and none takes a capability. The answers cannot be
// trusted: they are marked where a reader looks (the message of the service apid, the problems of
// the status, the tag of the version), and nothing acts on them.
#pragma once

#include "common/net/ip.h"
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

// Unavailable naming address, port and cause, as connectTcp(). `account`: whose what waits to be
// sent there is.
kj::Promise<Remote> dialMachine(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                                TlsEndpoint& tls, const Ip& address, uint16_t port,
                                kj::StringPtr expectedName, kj::Own<Budget::Account> account = {});

// On a machine that can show no certificate to others: FailedPrecondition saying whom to ask.
[[noreturn]] void refuseToForward();

// What a caller gets of a machine that is not proven.
rpc::Node::Client joiningNode(rpc::Node::Client remote, kj::String address, kj::String why);

}  // namespace talos::apid
