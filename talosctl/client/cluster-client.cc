#include "talosctl/client/cluster-client.h"

#include <stdlib.h>
#include <string.h>

#include <algorithm>

#include "common/base/error.h"
#include "common/net/dns-resolver.h"
#include "common/tls/node-certificate.h"
#include "rpc/local.capnp.h"
#include "talosctl/cli/cli-text.h"
#include "talosctl/client/tls-unverified.h"

namespace talos::talosctl {

namespace {

void shuffle(kj::Vector<kj::String>& list) {
  for (size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[arc4random_uniform(i)]);
}

// Delay between the attempts for two endpoints.
constexpr kj::Duration kStagger = 2 * kj::SECONDS;
// Time for one of several addresses of an endpoint; the last address has the rest of the time.
constexpr kj::Duration kOneAddress = 5 * kj::SECONDS;
// Silence after which an endpoint loses its connection to an endpoint that answers.
constexpr kj::Duration kSilence = 5 * kj::SECONDS;
// No call takes longer: an image is pulled within 20 minutes or not at all.
constexpr kj::Duration kLongestCall = 25 * kj::MINUTES;

}  // namespace

Client::Client(Dependencies& deps, Target targetParam) : deps(deps), target(kj::mv(targetParam)) {
  if (!target.insecure && !target.local) {
    authority = kj::str(target.credentials.authorities);
    tls = kj::heap<TlsEndpoint>(kj::mv(target.credentials));
  }
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
  if (dialling) {
    KJ_IF_MAYBE (already, connecting) {
      return already->addBranch();
    }
  }
  auto fork = ensure(deadline).fork();
  auto branch = fork.addBranch();
  connecting = kj::mv(fork);
  return branch;
}

kj::Promise<void> Client::ensure(kj::Duration deadline) {
  dialling = true;
  KJ_DEFER(dialling = false);
  auto& timer = deps.timer;
  auto end = timer.now() + deadline;
  if (!connected()) co_return co_await dialAll(end, 0);
  auto answer = endpointAnswers().fork();
  bool silent = false;
  co_await answer.addBranch().exclusiveJoin(
      timer.afterDelay(kj::min(deadline / 2, kSilence)).then([&silent]() { silent = true; }));
  if (!silent && connected()) co_return;
  // Tries the other endpoints first: the current endpoint may accept a connection again without
  // answering. The first to answer wins, including the current endpoint.
  auto& list = target.endpoints;
  auto first = std::find(list.begin(), list.end(), current) - list.begin() + 1;
  kj::Maybe<kj::Exception> failure;
  try {
    co_await dialAll(end, first)
        .exclusiveJoin(answer.addBranch().then([this]() -> kj::Promise<void> {
          if (connected()) return kj::READY_NOW;
          return kj::NEVER_DONE;
        }));
  } catch (const kj::Exception& e) {
    failure = kj::cp(e);
  }
  KJ_IF_MAYBE (e, failure) {
    // The current endpoint may be the only one that does not refuse.
    bool answered = false;
    co_await answer.addBranch().then([&]() { answered = true; }).exclusiveJoin(timer.atTime(end));
    if (!answered || !connected()) kj::throwFatalException(kj::mv(*e));
  }
}

// A refusal is an answer, too; so is the end of the connection.
kj::Promise<void> Client::endpointAnswers() {
  return node("").whenResolved().catch_([](kj::Exception&&) {});
}

void Client::replace(Dialed made, kj::StringPtr endpoint) {
  if (connected()) {
    auto answer = endpointAnswers();
    retired.add(retire(kj::mv(KJ_ASSERT_NONNULL(connection)), kj::mv(answer)));
  }
  connection = kj::mv(made.connection);
  shown = kj::mv(made.shown);
  current = kj::str(endpoint);
}

// An endpoint that was only slow still answers the calls in flight. TCP ends the connection to a
// dead endpoint within this time, unless a forwarder keeps it open.
kj::Promise<void> Client::retire(kj::Own<Connection> old, kj::Promise<void> answer) {
  bool silent = false;
  co_await answer.exclusiveJoin(
      deps.timer.afterDelay(kDialSilence).then([&silent]() { silent = true; }));
  if (silent || !old->alive()) co_return;
  co_await old->onDisconnect().exclusiveJoin(deps.timer.afterDelay(kLongestCall));
}

// Parallel attempts for all endpoints, of which one wins.
struct Client::Race {
  kj::TimePoint end;
  kj::Array<kj::Maybe<kj::String>> failures;         // errors by endpoint
  kj::Array<kj::PromiseFulfillerPair<void>> failed;  // failures by endpoint
  kj::PromiseFulfillerPair<void> decided = kj::newPromiseAndFulfiller<void>();
  size_t left;
  bool won = false;
};

// Tries one endpoint when its turn comes.
kj::Promise<void> Client::attempt(Race& race, size_t index, kj::Promise<void> turn) {
  co_await turn;
  auto& endpoint = target.endpoints[index];
  kj::Maybe<kj::Exception> failure;
  try {
    auto made = co_await dial(endpoint, race.end);
    if (race.won) co_return;  // another attempt won a moment ago
    race.won = true;
    replace(kj::mv(made), endpoint);
    race.decided.fulfiller->fulfill();
  } catch (const kj::Exception& e) {
    failure = kj::cp(e);
  }
  KJ_IF_MAYBE (e, failure) {
    race.failures[index] = kj::str("endpoint ", endpoint, ": ", messageOf(*e));
    race.failed[index].fulfiller->fulfill();
    if (--race.left == 0) race.decided.fulfiller->fulfill();
  }
}

kj::Promise<void> Client::dialAll(kj::TimePoint end, size_t first) {
  deps.console.waiting(kj::str("connecting to ", kj::strArray(target.endpoints, ", ")));
  KJ_DEFER(deps.console.waiting(waitingFor(target.nodes)));
  auto count = target.endpoints.size();
  auto failed = KJ_MAP(e, target.endpoints) {
    return kj::newPromiseAndFulfiller<void>();
  };
  Race race{.end = end,
            .failures = kj::heapArray<kj::Maybe<kj::String>>(count),
            .failed = kj::mv(failed),
            .left = count};
  auto left = kj::max(end - deps.timer.now(), 0 * kj::SECONDS);
  auto pause = kj::min(kStagger, left / kj::max(count, size_t(1)));
  kj::Vector<kj::Promise<void>> attempts;
  kj::Promise<void> turn = kj::READY_NOW;
  for (size_t i = 0; i < count; ++i) {
    auto index = (first + i) % count;
    attempts.add(attempt(race, index, kj::mv(turn)).eagerlyEvaluate(nullptr));
    turn = race.failed[index].promise.exclusiveJoin(deps.timer.afterDelay(pause * (i + 1)));
  }
  co_await race.decided.promise;
  if (race.won) co_return;
  auto failures = KJ_MAP(f, race.failures) {
    return kj::str(f.orDefault(nullptr));
  };
  fail(ErrorKind::kUnavailable,
       failures.size() == 1
           ? kj::str("cannot connect to ", failures[0])
           : kj::str("cannot connect to any endpoint:\n  ", kj::strArray(failures, "\n  ")));
}

// If there are several endpoints or addresses, requires an answer and not only a connection.
kj::Promise<Client::Dialed> Client::dialAddress(kj::StringPtr address, kj::StringPtr name,
                                                kj::Duration share, bool answers) {
  kj::Maybe<pki::CertificateInfo> certificate;
  // The caller's timeout ends this attempt first, so that the error has the text of all commands.
  auto made = co_await connectTcp(deps.lowLevel, deps.timer, address, deps.apiPort,
                                  secure(name, certificate), share + 1 * kj::SECONDS);
  if (answers) co_await made->bootstrap().whenResolved();
  co_return Dialed{kj::mv(made), kj::mv(certificate)};
}

kj::Promise<Client::Dialed> Client::dial(kj::StringPtr endpoint, kj::TimePoint end) {
  auto left = [this, end]() { return kj::max(end - deps.timer.now(), 0 * kj::SECONDS); };
  if (target.local) {
    co_return Dialed{co_await connectUnix(deps.lowLevel, deps.timer,
                                          endpoint.slice(kUnixEndpoint.size()), left()),
                     nullptr};
  }
  // The certificate must contain the endpoint's name as the user typed it.
  auto name = asAddress(endpoint).orDefault(kj::str(endpoint));
  KJ_IF_MAYBE (proxy, proxyFor(deps.environment, name, deps.apiPort)) {
    auto share = left();
    auto silence = kj::str("proxy ", proxy->address(), ": ", noAnswerWithin(share));
    bool answers = !target.insecure && target.endpoints.size() > 1;
    co_return co_await talos::within(deps.timer, share, dialThrough(kj::mv(*proxy), name, answers),
                                     kj::mv(silence));
  }
  auto addresses = co_await within(deps.timer, left(), resolve(deps.port, deps.timer, endpoint));
  kj::Vector<kj::String> failures;
  bool several = !target.insecure && (target.endpoints.size() > 1 || addresses.size() > 1);
  for (auto i : kj::indices(addresses)) {
    auto& address = addresses[i];
    auto behind = addresses.size() - i - 1;
    auto share = behind == 0 ? left() : kj::min(kOneAddress, left() / (behind + 1));
    auto silence = noAnswerWithin(share);
    if (addresses.size() > 1) silence = kj::str(address, ": ", silence);
    kj::Maybe<kj::Exception> failure;
    try {
      co_return co_await talos::within(deps.timer, share,
                                       dialAddress(address, name, share, several), kj::mv(silence));
    } catch (const kj::Exception& e) {
      failure = kj::cp(e);
    }
    KJ_IF_MAYBE (e, failure) {
      failures.add(messageOf(*e));
    }
  }
  fail(ErrorKind::kUnavailable, kj::strArray(failures, "; "));
}

kj::Promise<Client::Dialed> Client::dialThrough(HttpProxy proxy, kj::StringPtr name, bool answers) {
  DialDependencies dialing{deps.lowLevel, deps.port, deps.timer};
  auto tunnel = co_await dialByProxy(dialing, proxy, name, deps.apiPort);
  tuneTcp(*tunnel, kDialSilence);
  kj::Maybe<pki::CertificateInfo> certificate;
  auto where = kj::str("proxy ", proxy.address(), ": ", hostInUrl(name, deps.apiPort));
  auto securing = secure(name, certificate);
  auto secured = co_await securing(kj::mv(tunnel))
                     .catch_([where = kj::str(where)](
                                 kj::Exception&& e) -> kj::Promise<kj::Own<kj::AsyncIoStream>> {
                       return error(ErrorKind::kUnavailable, kj::str(where, ": ", messageOf(e)));
                     });
  auto made = connectOn(deps.timer, kj::mv(secured), where);
  if (answers) co_await made->bootstrap().whenResolved();
  co_return Dialed{kj::mv(made), kj::mv(certificate)};
}

Secure Client::secure(kj::StringPtr name, kj::Maybe<pki::CertificateInfo>& certificate) {
  KJ_IF_MAYBE (verified, tls) {
    return [&endpoint = **verified, &certificate,
            name = kj::str(name)](kj::Own<kj::AsyncIoStream> stream) {
      return endpoint.connectIdentified(kj::mv(stream), name)
          .then([&certificate](TlsEndpoint::Identified&& made) {
            certificate = kj::mv(made.certificate);
            return kj::mv(made.stream);
          });
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

// apid of a worker forwards nothing, but a compromised worker would claim to forward. So the
// certificate decides.
void Client::requireForwarding(kj::StringPtr node) const {
  KJ_IF_MAYBE (certificate, shown) {
    if (node.size() == 0 || node == current || isOfControlPlane(*certificate)) return;
    auto address = asAddress(node).orDefault(kj::str(node));
    for (auto& own : certificate->addresses) {
      if (own == address) return;
    }
    for (auto& own : certificate->dnsNames) {
      if (canonicalName(own) == canonicalName(node)) return;
    }
    fail(ErrorKind::kFailedPrecondition,
         kj::str("the endpoint ", current, " is a worker, which does not forward calls to ", node,
                 "; use a control-plane node as the endpoint (talosctl -e)"));
  }
}

rpc::Node::Client Client::node(kj::StringPtr address) {
  auto refusal = kj::runCatchingExceptions([&]() { requireForwarding(address); });
  KJ_IF_MAYBE (e, refusal) return kj::mv(*e);
  auto bootstrap = KJ_REQUIRE_NONNULL(connection, "not connected")->bootstrap();
  deps.requested = true;
  if (target.local) {
    auto request = bootstrap.castAs<rpc::Machined>().nodeRequest();
    request.setRequest(deps.requestId);
    return request.send().getNode();
  }
  auto request = bootstrap.castAs<rpc::Cluster>().nodeRequest();
  // A machine without a config may not know the address by which it is reached.
  if (!target.insecure) request.setAddress(address);
  request.setRequest(deps.requestId);
  return request.send().getNode();
}

namespace {

// Shows the node's fingerprint to the user, and checks that the node has no config before anything
// is sent: a node with a config closes the connection because the client has no certificate.
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
  // A command's timeout applies to its work and not to the connection, unless the user sets
  // --timeout.
  auto connection = call.given("timeout") ? session->deadline : kDeadline;
  co_await session->client.connect(kj::min(session->deadline, connection));
  if (session->client.insecure()) co_await greet(call, *session);
  co_return kj::mv(session);
}

namespace {

// Returns the command's path without the program: "etcd snapshot".
kj::String withoutProgram(const Command& command) {
  if (command.parent == nullptr || command.parent->parent == nullptr) return kj::str(command.name);
  return kj::str(withoutProgram(*command.parent), " ", command.name);
}

}  // namespace

kj::Promise<kj::Own<Session>> openSingle(Invocation& call) {
  auto target = resolveTarget(call);
  // Counts nodes as the user named them: a node that is named twice counts as two, as in the
  // original.
  kj::ArrayPtr<const kj::String> named = target.nodes;
  if (call.given("nodes")) named = call.list("nodes");
  if (named.size() > 1) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("command \"", withoutProgram(call.command),
                 "\" is not supported with multiple nodes (", kj::strArray(named, ", "),
                 "); name one with --nodes"));
  }
  return openSession(call);
}

kj::String waitingFor(kj::ArrayPtr<const kj::String> nodes) {
  if (nodes.size() == 0) return kj::str(kWaiting);
  return kj::str(kWaiting, " for ", kj::strArray(nodes, ", "));
}

kj::String noAnswerWithin(kj::Duration deadline) {
  return kj::str("no answer within ", durationText(deadline));
}

}  // namespace talos::talosctl
