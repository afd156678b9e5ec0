// The connection to a cluster: one mutual-TLS connection to one endpoint, through which every node
// is reached. Connects lazily, reconnects after a disconnect, and never waits without a deadline.
//
// The endpoints are tried in a random order that stays the same for the life of the client. Each
// attempt begins some seconds after the previous attempt, or as soon as the previous attempt has
// failed; the first endpoint that answers is used. After an endpoint has fallen silent, the
// endpoints that follow it are tried first, and the silent endpoint last. If there are several
// endpoints, a connection alone does not count, only an answer: a machine that has just stopped
// still accepts connections. A name is resolved, and each of its addresses is tried for its share
// of the time. If no endpoint answers, the error names every endpoint and its error.
//
// An endpoint that is not on the loopback link is reached through the HTTP proxy of the
// environment, if there is one (http-proxy.h).
//
// The endpoint unix:<path> is machined's socket of a node in a container on this host, reached
// through /proc/<pid>/root. It gives this host's root access to the node without apid, in any state
// of the node's network and certificates.
//
// A call for another node goes only through a control-plane node, as proved by its certificate
// (common/tls/node-certificate.h): a worker would see the data sent to the other node.
//
// A node without a config (--insecure) is called directly and without certificates. The client
// compares the node's key with the user's fingerprints; without fingerprints, it shows the key's
// fingerprint to the user.
#pragma once

#include <kj/async.h>

#include "common/base/within.h"
#include "common/talosconfig/talosconfig.h"
#include "common/tls/tls.h"
#include "common/wire/rpc-server.h"
#include "rpc/node.capnp.h"
#include "talosctl/cli/command.h"
#include "talosctl/client/http-proxy.h"

namespace talos::talosctl {

// Addresses and identity of a call, from the talosconfig and the flags.
struct Target {
  kj::Vector<kj::String> endpoints;  // hosts, without a port; or a single unix:<path>
  kj::Vector<kj::String> nodes;      // nodes as the user named them
  Credentials credentials;
  bool insecure = false;
  bool local = false;                   // the endpoint is machined's socket
  kj::Vector<kj::String> fingerprints;  // accepted fingerprints of a machine without a config
};

constexpr kj::StringPtr kUnixEndpoint = "unix:"_kj;

// Declares --insecure and --cert-fingerprint.
void addInsecureFlags(Command& command);
// Returns true if the call goes to a machine without a config.
bool isInsecure(const Invocation& call);

// Reads the client configuration that the call's flags and environment name. Throws with file, line
// and column, or with the missing setting and how to set it. With --insecure it reads no file, and
// --nodes names exactly one node.
Target resolveTarget(Invocation& call);
// Returns every endpoint and node that the context and the flags name, each once. With a
// local endpoint the context may be missing.
kj::Vector<kj::String> namedHosts(Invocation& call);
// Returns the path of the client configuration: --talosconfig, $TALOSCONFIG, ~/.talos/config, or
// the configuration of a pod's service account.
kj::String configPath(Invocation& call);
// Reads that file. Throws NotFound, with what named the file, if it does not exist.
Talosconfig readTalosconfig(Invocation& call);

// Throws InvalidArgument if the text is not a valid host: empty, with a port, or with characters
// that no name has. `what` is "endpoint" or "node".
void checkHost(kj::StringPtr host, kj::StringPtr what);

// Returns "renamed talosconfig context "a" -> "a-1"".
kj::String renamedText(const Talosconfig::Rename& rename);
// Merges the contexts of one client configuration into another. Returns a line for each renamed
// context.
kj::Promise<kj::Array<kj::String>> mergeTalosconfigFile(kj::Timer& timer, kj::StringPtr from,
                                                        kj::StringPtr into);

class Client {
 public:
  Client(Dependencies& deps, Target target);
  ~Client() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(Client);

  // Resolves when a connection's endpoint answers; Unavailable if no endpoint answers within the
  // deadline. Replaces an open but silent connection as soon as another endpoint answers, because a
  // forwarder or a load balancer keeps a connection open after its machine is gone. If the old
  // endpoint soon speaks again, calls in flight on its connection are still answered.
  kj::Promise<void> connect(kj::Duration deadline);
  bool connected() const;

  // Returns a node reached through the connection; connect() first. Calls can be made at once
  // (pipelined). If the endpoint is a worker and `address` is another node, each call fails and
  // nothing is sent.
  rpc::Node::Client node(kj::StringPtr address);

  // The endpoint of the newest connection.
  kj::StringPtr endpoint() const { return current; }
  // Returns the fingerprint of a machine without a config, if the user gave none to compare it
  // with.
  kj::Maybe<kj::StringPtr> unknownFingerprint() const;
  bool insecure() const { return target.insecure; }
  // Returns the CAs by which the cluster is verified, PEM. Empty for the node's own socket and for
  // --insecure.
  kj::StringPtr authorities() const { return authority; }
  kj::ArrayPtr<const kj::String> nodes() const { return target.nodes; }
  kj::ArrayPtr<const kj::String> endpoints() const { return target.endpoints; }

  Dependencies& deps;

 private:
  Target target;
  kj::String authority;
  kj::Maybe<kj::Own<TlsEndpoint>> tls;  // nullptr if insecure or local
  kj::String fingerprint;
  kj::Maybe<kj::Own<Connection>> connection;
  // Certificate of the connection's endpoint; nullptr: not verified.
  kj::Maybe<pki::CertificateInfo> shown;
  struct Errors final : kj::TaskSet::ErrorHandler {
    void taskFailed(kj::Exception&&) override {}
  };
  Errors errors;
  kj::TaskSet retired{errors};  // tasks of the replaced connections
  kj::String current;
  bool dialling = false;
  kj::Maybe<kj::ForkedPromise<void>> connecting;

  kj::Promise<void> ensure(kj::Duration deadline);
  kj::Promise<void> endpointAnswers();
  struct Dialed {
    kj::Own<Connection> connection;
    kj::Maybe<pki::CertificateInfo> shown;
  };
  void replace(Dialed made, kj::StringPtr endpoint);
  kj::Promise<void> retire(kj::Own<Connection> old, kj::Promise<void> answer);
  // Tries the endpoints from `first` on, and after the last endpoint those before `first`.
  kj::Promise<void> dialAll(kj::TimePoint end, size_t first);
  // Returns a TLS wrapper that verifies the server and stores the server's certificate in `shown`.
  Secure secure(kj::StringPtr name, kj::Maybe<pki::CertificateInfo>& shown);
  kj::Promise<Dialed> dial(kj::StringPtr endpoint, kj::TimePoint end);
  kj::Promise<Dialed> dialAddress(kj::StringPtr address, kj::StringPtr name, kj::Duration share,
                                  bool answers);
  // Connects to an endpoint through the proxy, which resolves its name.
  kj::Promise<Dialed> dialThrough(HttpProxy proxy, kj::StringPtr name, bool answers);
  void requireForwarding(kj::StringPtr node) const;
  struct Race;
  kj::Promise<void> attempt(Race& race, size_t index, kj::Promise<void> turn);
};

// Returns the text for Console::waiting(): "waiting for 10.0.0.2, 10.0.0.3".
kj::String waitingFor(kj::ArrayPtr<const kj::String> nodes);

// A client for the call, which names at least one node. `deadline` is the deadline for connect().
struct Session {
  Session(Dependencies& deps, Target target, kj::Duration deadline)
      : client(deps, kj::mv(target)), deadline(deadline) {}
  Client client;
  kj::Duration deadline;
  // The streams have no end and may be quiet: after a node's first answer, the console shows no
  // wait.
  bool endless = false;
};
// Opens a session, connected. Its deadline is --timeout or the command's default, and at most
// `most`: for commands whose --timeout applies to a later step.
kj::Promise<kj::Own<Session>> openSession(Invocation& call, kj::Duration most = kj::maxValue);
// The same, but refuses more than one node.
kj::Promise<kj::Own<Session>> openSingle(Invocation& call);

kj::String noAnswerWithin(kj::Duration deadline);  // Returns "no answer within 30s".

// Returns `promise`, or DeadlineExceeded with the text of noAnswerWithin().
template <typename T>
kj::Promise<T> within(kj::Timer& timer, kj::Duration deadline, kj::Promise<T> promise) {
  return talos::within(timer, deadline, kj::mv(promise), noAnswerWithin(deadline));
}

}  // namespace talos::talosctl
