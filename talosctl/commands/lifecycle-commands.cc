// reboot, shutdown
#include <kj/debug.h>

#include "common/base/error.h"
#include "talosctl/client/answer-output.h"
#include "talosctl/client/follow-node.h"
#include "talosctl/commands/all-commands.h"

namespace talos::talosctl {

namespace {

using RebootResults = rpc::Machine::RebootResults;
using ShutdownResults = rpc::Machine::ShutdownResults;

struct TakeDown {
  Invocation& call;
  Outcome::Kind kind;
  kj::ArrayPtr<const kj::String> names;
  Progress progress;
  kj::Own<Turns> turns;
  kj::Vector<Failure> failures;
  size_t good = 0;
};

template <typename Results>
using Request = capnp::RemotePromise<Results> (*)(rpc::Machine::Client machine);

// One node from the request to its outcome; failures are kept, not thrown.
template <typename Results>
kj::Promise<void> takeDown(TakeDown& task, Session& session, size_t index,
                           Request<Results> request) {
  kj::Maybe<kj::Exception> failure;
  try {
    kj::String bootId;
    {
      KJ_DEFER(task.turns->answered(index));
      co_await task.turns->start(index);
      auto machine = session.client.node(task.names[index]).machineRequest().send().getMachine();
      kj::Promise<capnp::Response<Results>> answer = request(kj::mv(machine));
      auto response = co_await within(task.call.deps.timer, session.deadline, kj::mv(answer));
      bootId = kj::str(response.getBootId());
    }
    if (task.call.on("wait")) {
      co_await follow(task.call, task.kind, task.names[index], kj::mv(bootId), task.progress,
                      index);
    }
  } catch (const kj::Exception& e) {
    failure = kj::cp(e);
  }
  KJ_IF_MAYBE (e, failure) {
    if (task.call.on("wait")) task.progress.set(index, kj::str("failed: ", messageOf(*e)));
    task.failures.add(kj::str(task.names[index]), kj::mv(*e));
  } else {
    ++task.good;
    if (formatOf(task.call) == Format::kJson) {
      task.call.out(
          kj::str("{\"node\":", codec::jsonString(task.names[index]), ",\"done\":true}\n"));
    }
  }
}

template <typename Results>
kj::Promise<int> run(Invocation& call, Outcome::Kind kind, Request<Results> request) {
  // The deadline of the request itself; --timeout is that of the outcome when it is waited for.
  auto session = co_await openSession(call, kDeadline);
  auto names = session->client.nodes();
  auto turns = co_await takeTurns(*session, names);
  TakeDown task{.call = call,
                .kind = kind,
                .names = names,
                .progress = Progress(call.deps.console, names),
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

kj::Promise<int> runReboot(Invocation& call) {
  return run<RebootResults>(call, Outcome::Kind::kReboot, [](rpc::Machine::Client machine) {
    return machine.rebootRequest().send();
  });
}

kj::Promise<int> runShutdown(Invocation& call) {
  return run<ShutdownResults>(call, Outcome::Kind::kShutdown, [](rpc::Machine::Client machine) {
    return machine.shutdownRequest().send();
  });
}

void declare(Command& command, Run run, kj::StringPtr details) {
  addWaitFlag(command, true);
  addStreamOutputFlag(command);
  command.details = details;
  command.run = run;
}

}  // namespace

void addLifecycleCommands(Command& root) {
  declare(root.add("reboot", "Reboot nodes"), runReboot,
          "Waits until each node and its services are up again, at most 10 minutes (--timeout), "
          "unless --wait=false is given.");
  declare(root.add("shutdown", "Shut nodes down"), runShutdown,
          "Waits until each node is off, at most 10 minutes (--timeout), unless --wait=false is "
          "given.");
}

}  // namespace talos::talosctl
