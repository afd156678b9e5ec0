// Nodes whose identity is not verified: workers to which trustd has not given a certificate yet, or
// that could not renew it in time.
//
// Operators must be able to query the status of such a node. Its apid needs no exception: it shows
// a self-signed certificate (or the expired one) and admits clients with a certificate of the CA,
// as always. This side, another node's apid, connects although the identity is not verified and
// passes only calls that are marked $joining in rpc/; all other calls fail with FailedPrecondition
// and are not sent.
//
// A host that took over the address learns no secret. It gets method numbers, the caller's roles,
// name and address, and the proof that this node has the key of its certificate, which is made for
// that one handshake (TLS 1.3 signs the transcript) and useless for any other. No $joining method
// has a secret parameter, and none takes a capability. The answers cannot be trusted: they are
// marked where readers look (the message of the service apid, the problems of the status, the tag
// of the version), and no code acts on them.
#pragma once

#include "apid/identity/call-target.h"
#include "common/tls/tls.h"
#include "common/wire/rpc-server.h"
#include "rpc/node.capnp.h"

namespace talos::apid {

// A connection to another machine's apid.
struct Remote {
  Remote(kj::Own<Connection> connection, ShownCertificate shown = {}, kj::String serial = {})
      : connection(kj::mv(connection)), shown(kj::mv(shown)), serial(kj::mv(serial)) {}
  kj::Own<Connection> connection;
  ShownCertificate shown;
  kj::String serial;  // serial of its certificate, the same at all its addresses; empty: not
                      // verified
};

// Rejects with Unavailable and address, port and cause, as connectTcp() does. The budget has an
// account for each node, which is charged for bytes that wait to be sent.
kj::Promise<Remote> dialMachine(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                                TlsEndpoint& tls, const Ip& address, uint16_t port,
                                kj::StringPtr expectedName, kj::Maybe<Budget&> budget = nullptr);

// Throws FailedPrecondition that names other endpoints, for a node without a client certificate.
[[noreturn]] void refuseToForward();

// Returns the part of an unverified node that callers may use.
rpc::Node::Client joiningNode(rpc::Node::Client remote, kj::String address,
                              kj::String verificationError);

}  // namespace talos::apid
