#include "talosctl/client/cluster-client.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/error.h"
#include "common/net/resolver.h"
#include "talosctl/cli/cli-text.h"
#include "talosctl/client/tls-unverified.h"

namespace talos::talosctl {

namespace {

void shuffle(kj::Vector<kj::String>& list) {
  for (size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[arc4random_uniform(i)]);
}

// At most this much of the deadline is spent on one endpoint, so that the others are tried too.
constexpr kj::Duration kAttempt = 10 * kj::SECONDS;

}  // namespace

Client::Client(Dependencies& deps, Target targetParam) : deps(deps), target(kj::mv(targetParam)) {
  if (!target.insecure) tls = kj::heap<TlsEndpoint>(kj::mv(target.credentials));
  shuffle(target.endpoints);
}

Client::~Client() noexcept(false) {}

bool Client::connected() const {
  KJ_IF_MAYBE (c, connection) {
    return (*c)->alive();
  }
  return false;
}

kj::Promise<void> Client::connect(kj::Duration deadline) {
  if (connected()) return kj::READY_NOW;
  if (dialling) {
    KJ_IF_MAYBE (already, connecting) {
      return already->addBranch();
    }
  }
  auto fork = dialAll(deadline).fork();
  auto branch = fork.addBranch();
  connecting = kj::mv(fork);
  return branch;
}

kj::Promise<void> Client::dialAll(kj::Duration deadline) {
  dialling = true;
  KJ_DEFER(dialling = false);
  kj::Vector<kj::String> failures;
  auto end = deps.timer.now() + deadline;
  for (size_t i = 0; i < target.endpoints.size(); ++i) {
    auto& endpoint = target.endpoints[i];
    auto left = end - deps.timer.now();
    if (left <= 0 * kj::SECONDS) {
      failures.add(kj::str(endpoint, ": not tried: timed out after ", durationText(deadline)));
      continue;
    }
    auto share = kj::min(kAttempt, left / (target.endpoints.size() - i));
    kj::Maybe<kj::Exception> failure;
    try {
      auto made = co_await within(deps.timer, share, dial(endpoint, share));
      connection = kj::mv(made);
    } catch (const kj::Exception& e) {
      failure = kj::cp(e);
    }
    KJ_IF_MAYBE (e, failure) {
      failures.add(kj::str("endpoint ", endpoint, ": ", messageOf(*e)));
      continue;
    }
    current = kj::str(endpoint);
    co_return;
  }
  fail(ErrorKind::kUnavailable,
       failures.size() == 1
           ? kj::str("cannot connect to ", failures[0])
           : kj::str("cannot connect to any endpoint:\n  ", kj::strArray(failures, "\n  ")));
}

kj::Promise<kj::Own<Connection>> Client::dial(kj::StringPtr endpoint, kj::Duration deadline) {
  auto addresses = co_await resolve(deps.port, deps.timer, endpoint);
  // The certificate must name the endpoint as the user does.
  auto name = asAddress(endpoint).orDefault(kj::str(endpoint));
  kj::Vector<kj::String> failures;
  for (auto& address : addresses) {
    kj::Maybe<kj::Exception> failure;
    try {
      co_return co_await connectTcp(deps.lowLevel, deps.timer, address, deps.apiPort, secure(name),
                                    deadline / addresses.size());
    } catch (const kj::Exception& e) {
      failure = kj::cp(e);
    }
    KJ_IF_MAYBE (e, failure) {
      failures.add(messageOf(*e));
    }
  }
  fail(ErrorKind::kUnavailable, kj::strArray(failures, "; "));
}

Secure Client::secure(kj::StringPtr name) {
  KJ_IF_MAYBE (verified, tls) {
    return [&endpoint = **verified, name = kj::str(name)](kj::Own<kj::AsyncIoStream> stream) {
      return endpoint.connect(kj::mv(stream), name);
    };
  }
  return [this](kj::Own<kj::AsyncIoStream> stream) {
    return connectUnverified(kj::mv(stream), target.fingerprints)
        .then([this](UnverifiedStream&& made) {
          fingerprint = kj::mv(made.fingerprint);
          return kj::mv(made.stream);
        });
  };
}

kj::Maybe<kj::StringPtr> Client::unknownFingerprint() const {
  if (fingerprint.size() == 0 || target.fingerprints.size() > 0) return nullptr;
  return kj::StringPtr(fingerprint);
}

rpc::Node::Client Client::node(kj::StringPtr address) {
  auto request = KJ_REQUIRE_NONNULL(connection, "not connected")
                     ->bootstrap()
                     .castAs<rpc::Cluster>()
                     .nodeRequest();
  // A machine without a config may not know the address that leads to it.
  if (!target.insecure) request.setAddress(address);
  return request.send().getNode();
}

namespace {

// Shows the user the node's fingerprint, and checks that it has no config, before anything is sent:
// a node with a config closes the connection because we have no certificate.
kj::Promise<void> greet(Invocation& call, Session& session) {
  auto& client = session.client;
  KJ_IF_MAYBE (fingerprint, client.unknownFingerprint()) {
    call.err(kj::str("WARNING: identity of ", client.endpoint(),
                     " is not verified; compare its fingerprint ", *fingerprint,
                     " with the one on its console, or use --cert-fingerprint\n"));
  }
  kj::Promise<void> answer = client.node("").whenResolved();
  auto failure = co_await within(call.deps.timer, session.deadline, kj::mv(answer))
                     .then([]() -> kj::Maybe<kj::Exception> { return nullptr; },
                           [](kj::Exception&& e) -> kj::Maybe<kj::Exception> { return kj::mv(e); });
  KJ_IF_MAYBE (e, failure) {
    if (strstr(e->getDescription().cStr(), "certificate required") == nullptr) {
      kj::throwFatalException(kj::mv(*e));
    }
    fail(ErrorKind::kFailedPrecondition,
         kj::str(client.endpoint(),
                 " already has a config and requires a client certificate; use the "
                 "cluster's talosconfig, without --insecure"));
  }
}

}  // namespace

kj::Promise<kj::Own<Session>> openSession(Invocation& call, kj::Duration most) {
  auto session = kj::heap<Session>(call.deps, resolveTarget(call), kj::min(call.deadline(), most));
  if (session->client.nodes().size() == 0) {
    fail(ErrorKind::kInvalidArgument,
         "no node given; use --nodes, or set the default of the context with \"talosctl config "
         "node\"");
  }
  co_await session->client.connect(session->deadline);
  if (session->client.insecure()) co_await greet(call, *session);
  co_return kj::mv(session);
}

kj::Promise<kj::Own<Session>> openSingle(Invocation& call) {
  auto target = resolveTarget(call);
  if (target.nodes.size() > 1) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("\"", call.command.path(), "\" accepts one node only, but ", target.nodes.size(),
                 " are given: ", kj::strArray(target.nodes, ", ")));
  }
  return openSession(call);
}

kj::String noAnswerWithin(kj::Duration deadline) {
  return kj::str("no answer within ", durationText(deadline));
}

}  // namespace talos::talosctl
