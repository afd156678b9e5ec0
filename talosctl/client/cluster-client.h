// The connection to a cluster: one mutual-TLS connection to one endpoint, through which every node
// is reached. Dials lazily, again after a disconnect, and never waits without a deadline.
//
// The endpoints are tried in a random order that is fixed for the life of the client, each some
// seconds after the one before it, or as soon as that has failed; the first that answers is taken.
// One that has fallen silent comes last, and those behind it first. Of several, an answer is more
// than a connection: one whose machine has just stopped still has those. A name is resolved and
// each of its addresses tried, for its share of the time. When no endpoint answers, the error names
// every one and why.
//
// The endpoint unix:<path> is machined's socket of a node in a container of this host, seen through
// /proc/<pid>/root: its node without apid, for this host's root, whatever state its network and its
// certificates are in.
//
// A call for another node goes through a control-plane node only, which its certificate proves
// (common/tls/node-certificate.h): a worker would see what the other node is sent.
//
// A node without a config (--insecure) is called directly and without certificates: its key is
// compared with the fingerprints from the user, or shown to the user when there is none.
#pragma once

#include <kj/async.h>

#include "common/base/within.h"
#include "common/config/talosconfig.h"
#include "common/tls/tls.h"
#include "common/wire/rpc-server.h"
#include "rpc/node.capnp.h"
#include "talosctl/cli/command.h"

namespace talos::talosctl {

// Addresses and identity of a call; from the talosconfig and the flags.
struct Target {
  kj::Vector<kj::String> endpoints;  // hosts, without a port; or one unix:<path>
  kj::Vector<kj::String> nodes;      // as the user named them
  Credentials credentials;
  bool insecure = false;
  bool local = false;                   // the endpoint is machined's socket
  kj::Vector<kj::String> fingerprints;  // of a machine without a config; any of them
};

constexpr kj::StringPtr kUnixEndpoint = "unix:"_kj;

// Declares --insecure and --cert-fingerprint.
void addInsecureFlags(Command& command);
// True when the call goes to a machine without a config.
bool isInsecure(const Invocation& call);

// Reads the client configuration that the call's flags and environment name. Throws with file, line
// and column, or with what is missing and how to set it. With --insecure no file is read, and
// exactly one node is named by --nodes.
Target resolveTarget(Invocation& call);
// Every endpoint and node that the context and the flags name, each once.
kj::Vector<kj::String> namedHosts(Invocation& call);
// Of the client configuration: --talosconfig, $TALOSCONFIG, ~/.talos/config, or that of the account
// of a pod.
kj::String configPath(Invocation& call);

// Throws InvalidArgument when the text is not a valid host: empty, with a port, or with characters
// that no name has. `what` is "endpoint" or "node".
void checkHost(kj::StringPtr host, kj::StringPtr what);

// "renamed talosconfig context "a" -> "a-1""
kj::String renamedText(const Talosconfig::Rename& rename);
// Merges the contexts of one client configuration into another. Returns one line for each context
// that was renamed.
kj::Promise<kj::Array<kj::String>> mergeTalosconfigFile(kj::Timer& timer, kj::StringPtr from,
                                                        kj::StringPtr into);

class Client {
 public:
  Client(Dependencies& deps, Target target);
  ~Client() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(Client);

  // Resolves when there is a connection whose endpoint answers; Unavailable when there is none
  // within the deadline. One that stands and is silent is replaced as soon as there is another: a
  // forwarder or a load balancer keeps it open when the machine behind it is gone. Calls in flight
  // on the one replaced are still answered if it speaks again before long.
  kj::Promise<void> connect(kj::Duration deadline);
  bool connected() const;

  // A node through the connection; connect() first. Calls on it can be made at once (pipelined).
  // Each of them fails, and nothing is sent, if the endpoint is a worker and another node is named.
  rpc::Node::Client node(kj::StringPtr address);

  // The endpoint of the newest connection.
  kj::StringPtr endpoint() const { return current; }
  // Of a machine without a config, when the user gave none to compare it with.
  kj::Maybe<kj::StringPtr> unknownFingerprint() const;
  bool insecure() const { return target.insecure; }
  // The CAs by which the cluster is verified, PEM; empty: the node's own socket, or --insecure.
  kj::StringPtr authorities() const { return authority; }
  kj::ArrayPtr<const kj::String> nodes() const { return target.nodes; }
  kj::ArrayPtr<const kj::String> endpoints() const { return target.endpoints; }

  Dependencies& deps;

 private:
  Target target;
  kj::String authority;
  kj::Maybe<kj::Own<TlsEndpoint>> tls;  // none when insecure or local
  kj::String fingerprint;
  kj::Maybe<kj::Own<Connection>> connection;
  kj::Maybe<pki::CertificateInfo> shown;  // by the endpoint of `connection`; none: not verified
  struct Errors final : kj::TaskSet::ErrorHandler {
    void taskFailed(kj::Exception&&) override {}
  };
  Errors errors;
  kj::TaskSet retired{errors};  // a task for each connection that was replaced
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
  // Begins with this endpoint, and with the first again after the last.
  kj::Promise<void> dialAll(kj::TimePoint end, size_t first);
  // Verifies the server, and writes down the certificate that it has shown.
  Secure secure(kj::StringPtr name, kj::Maybe<pki::CertificateInfo>& shown);
  kj::Promise<Dialed> dial(kj::StringPtr endpoint, kj::TimePoint end);
  kj::Promise<Dialed> dialAddress(kj::StringPtr address, kj::StringPtr name, kj::Duration share,
                                  bool answers);
  void requireForwarding(kj::StringPtr node) const;
  struct Race;
  kj::Promise<void> attempt(Race& race, size_t index, kj::Promise<void> turn);
};

// For Console::waiting(): "waiting for 10.0.0.2, 10.0.0.3".
kj::String waitingFor(kj::ArrayPtr<const kj::String> nodes);

// A client for the call; at least one node is named. `deadline` is kept for connect().
struct Session {
  Session(Dependencies& deps, Target target, kj::Duration deadline)
      : client(deps, kj::mv(target)), deadline(deadline) {}
  Client client;
  kj::Duration deadline;
  // Its streams have no end and may be quiet: once a node has answered, nothing is waited for.
  bool endless = false;
};
// Connected already. Its deadline is --timeout or the command's own, and never more than `most`:
// for commands whose --timeout is that of something later.
kj::Promise<kj::Own<Session>> openSession(Invocation& call, kj::Duration most = kj::maxValue);
// The same, refusing more than one node.
kj::Promise<kj::Own<Session>> openSingle(Invocation& call);

kj::String noAnswerWithin(kj::Duration deadline);  // "no answer within 30s"

// `promise`, or DeadlineExceeded with that.
template <typename T>
kj::Promise<T> within(kj::Timer& timer, kj::Duration deadline, kj::Promise<T> promise) {
  return talos::within(timer, deadline, kj::mv(promise), noAnswerWithin(deadline));
}

}  // namespace talos::talosctl
