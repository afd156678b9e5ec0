#include "talosctl/client.h"

#include <stdlib.h>

#include "common/error.h"
#include "common/resolver.h"
#include "talosctl/text.h"

namespace talos::talosctl {

namespace {

void shuffle(kj::Vector<kj::String>& list) {
  for (size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[arc4random_uniform(i)]);
}

// One endpoint is given at most so much of the deadline, so that the others get their turn.
constexpr kj::Duration kAttempt = 10 * kj::SECONDS;

}  // namespace

Client::Client(World& world, Target targetParam)
    : world(world), target(kj::mv(targetParam)), tls(kj::mv(target.credentials)) {
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
  auto end = world.timer.now() + deadline;
  for (size_t i = 0; i < target.endpoints.size(); ++i) {
    auto& endpoint = target.endpoints[i];
    auto left = end - world.timer.now();
    if (left <= 0 * kj::SECONDS) {
      failures.add(kj::str(endpoint, ": not tried, the deadline of ", durationText(deadline),
                           " has passed"));
      continue;
    }
    auto share = kj::min(kAttempt, left / (target.endpoints.size() - i));
    kj::Maybe<kj::Exception> failure;
    try {
      auto made = co_await within(world.timer, share, dial(endpoint, share));
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
  auto addresses = co_await resolve(endpoint);
  // The certificate must name the endpoint as the user does.
  auto name = asAddress(endpoint).orDefault(kj::str(endpoint));
  kj::Vector<kj::String> failures;
  for (auto& address : addresses) {
    kj::Maybe<kj::Exception> failure;
    try {
      co_return co_await connectTls(world.lowLevel, world.timer, tls, address, world.apiPort, name,
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

rpc::Node::Client Client::node(kj::StringPtr address) {
  auto request = KJ_REQUIRE_NONNULL(connection, "not connected")
                     ->bootstrap()
                     .castAs<rpc::Cluster>()
                     .nodeRequest();
  request.setAddress(address);
  return request.send().getNode();
}

kj::Promise<kj::Own<Session>> openSession(Invocation& call, kj::Duration fallback) {
  auto session = kj::heap<Session>(call.world, resolveTarget(call), call.deadline(fallback));
  if (session->client.nodes().size() == 0) {
    fail(ErrorKind::kInvalidArgument,
         "no node is named: use --nodes, or set the context's default with \"talosctl config "
         "node\"");
  }
  co_await session->client.connect(session->deadline);
  co_return kj::mv(session);
}

kj::Promise<kj::Own<Session>> openSingle(Invocation& call, kj::Duration fallback) {
  auto target = resolveTarget(call);
  if (target.nodes.size() > 1) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("\"", call.command.path(), "\" works on one node, but ", target.nodes.size(),
                 " are named: ", kj::strArray(target.nodes, ", ")));
  }
  return openSession(call, fallback);
}

kj::Exception deadlineExceeded(kj::Duration deadline) {
  return error(ErrorKind::kDeadlineExceeded, kj::str("no answer within ", durationText(deadline)));
}

}  // namespace talos::talosctl
