// Runs calls that stop nodes, each node in its turn, and then follows the nodes unless --wait=false
// is given, and prints the outcome as --output requests. The command has both flags. If the nodes
// stay off and are followed, the endpoint goes down after the others, because they are observed
// through it.
#pragma once

#include "common/base/error.h"
#include "talosctl/client/answer-output.h"
#include "talosctl/client/follow-node.h"

namespace talos::talosctl {

// Work to do for each node with a good outcome, by its index; an error counts as the node's.
using AfterTakeDown = kj::Function<kj::Promise<void>(size_t index)>;

struct TakeDown {
  Invocation& call;
  Outcome::Kind kind;
  kj::ArrayPtr<const kj::String> names;
  kj::Maybe<AfterTakeDown&> after;
  Progress progress;
  kj::Maybe<size_t> endpoint;  // set if nodes stay off and are followed
  kj::Own<Turns> turns;
  kj::Vector<Failure> failures;
  size_t good = 0;
};

// Returns true if the node is followed until it is silent.
inline bool staysOff(Invocation& call, Outcome::Kind kind) {
  return call.on("wait") && (kind == Outcome::Kind::kShutdown || kind == Outcome::Kind::kReset);
}

// Runs one node from the request to its outcome; stores failures and does not throw.
template <typename Results, typename F>
kj::Promise<void> takeDown(TakeDown& task, Session& session, size_t index, F& request) {
  kj::Maybe<kj::Exception> failure;
  try {
    auto turn = kj::heap(kj::defer([&task, index]() { task.turns->answered(index); }));
    bool isEndpoint = task.endpoint.orDefault(kj::maxValue) == index;
    bool waits = isEndpoint && task.names.size() > 1;
    if (waits) task.progress.set(index, "waiting for its turn"_kj);
    co_await task.turns->start(index);
    if (waits) co_await session.client.connect(kDeadline);  // minutes may have passed
    auto machine = session.client.node(task.names[index]).machineRequest().send().getMachine();
    kj::Promise<capnp::Response<Results>> answer = request(kj::mv(machine));
    auto response = co_await within(task.call.deps.timer, session.deadline, kj::mv(answer));
    if (!staysOff(task.call, task.kind)) turn = nullptr;
    if (task.call.on("wait")) {
      co_await follow(task.call, task.kind, task.names[index], kj::str(response.getBootId()),
                      task.progress, index, isEndpoint);
    }
    KJ_IF_MAYBE (after, task.after) co_await (*after)(index);
  } catch (const kj::Exception& e) {
    failure = kj::cp(e);
  }
  KJ_IF_MAYBE (e, failure) {
    if (task.call.on("wait")) task.progress.set(index, kj::str("failed: ", messageOf(*e)));
    task.failures.add(kj::str(task.names[index]), kj::mv(*e));
  } else {
    ++task.good;
    if (formatOf(task.call) == Format::kJson) {
      task.call.out(jsonDone(task.names[index]));
    }
  }
}

// `request` makes the call on the rpc::Machine::Client passed to it; the answer has the boot id.
// `deadline` applies to the request; --timeout applies to the outcome if the command waits for it,
// otherwise to the request.
template <typename Results, typename F>
kj::Promise<int> takeDownAll(Invocation& call, Outcome::Kind kind, F request,
                             kj::Duration deadline = kDeadline,
                             kj::Maybe<AfterTakeDown&> after = nullptr) {
  auto session = co_await openSession(call, kDeadline);
  session->deadline = call.on("wait") ? deadline : call.deadline(deadline);
  auto names = session->client.nodes();
  kj::Maybe<size_t> endpoint;
  kj::Own<Turns> turns;
  if (staysOff(call, kind)) {
    endpoint = co_await findEndpoint(*session, names);
    turns = kj::heap<Turns>(names.size(), endpoint);
  } else {
    turns = co_await takeTurns(*session, names);
  }
  TakeDown task{.call = call,
                .kind = kind,
                .names = names,
                .after = after,
                .progress = Progress(call.deps.console, names),
                .endpoint = endpoint,
                .turns = kj::mv(turns),
                .failures = {}};
  auto waits = kj::heapArrayBuilder<kj::Promise<void>>(names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    waits.add(takeDown<Results>(task, *session, i, request));
  }
  co_await kj::joinPromises(waits.finish());
  if (formatOf(call) == Format::kJson) {
    for (auto& f : task.failures) call.out(jsonFailure(f, 0));
  }
  co_return conclude(call, task.failures, task.good, Partial::kIsFailure);
}

}  // namespace talos::talosctl
