// reboot, shutdown
//
// Each node is followed over a connection of its own until it is known what became of it: after a
// reboot until it answers with another boot id and its services are up, after a shutdown until it
// is gone.
#include "common/error.h"
#include "talosctl/commands.h"
#include "talosctl/judge.h"
#include "talosctl/outcome.h"
#include "talosctl/output.h"
#include "talosctl/progress.h"
#include "talosctl/text.h"

namespace talos::talosctl {

namespace {

constexpr kj::Duration kWait =
    10 * kj::MINUTES;  // for the outcome, unless --timeout says otherwise
constexpr kj::Duration kAnswer = 5 * kj::SECONDS;  // of one question while following
constexpr kj::Duration kPause = 500 * kj::MILLISECONDS;

using RebootResults = rpc::Machine::RebootResults;
using ShutdownResults = rpc::Machine::ShutdownResults;

struct Task {
  Invocation& call;
  Outcome::Kind kind;
  kj::ArrayPtr<const kj::String> names;
  Progress progress;
  kj::Vector<Failure> failures;
  size_t good = 0;
};

// Until the verdict; the last state is in the error when the time is up.
kj::Promise<void> follow(Task& task, size_t index, kj::String bootId) {
  auto& timer = task.call.world.timer;
  kj::StringPtr name = task.names[index];
  auto start = timer.now();
  auto deadline = task.call.deadline(kWait);
  Outcome outcome(task.kind, bootId);
  kj::Maybe<kj::Own<Client>> client;
  for (;;) {
    kj::Maybe<kj::Exception> failure;
    kj::Maybe<Judgement> judgement;
    try {
      if (client == nullptr) client = kj::heap<Client>(task.call.world, resolveTarget(task.call));
      judgement = co_await within(timer, kAnswer,
                                  judge(*KJ_ASSERT_NONNULL(client), name, outcome, kAnswer));
    } catch (const kj::Exception& e) {
      failure = kj::cp(e);
    }
    KJ_IF_MAYBE (e, failure) {
      client = nullptr;  // a machine that is off leaves a connection behind that looks alive
      judgement = outcome.silent(messageOf(*e));
    }
    auto& j = KJ_ASSERT_NONNULL(judgement);
    if (j.verdict == Verdict::kFailed) fail(ErrorKind::kFailedPrecondition, j.text);
    if (j.verdict == Verdict::kDone) {
      task.progress.set(index,
                        kj::str(j.text, " after ",
                                durationText((timer.now() - start) / kj::SECONDS * kj::SECONDS)));
      co_return;
    }
    if (timer.now() - start > deadline) {
      fail(ErrorKind::kDeadlineExceeded,
           kj::str("no outcome within ", durationText(deadline), "; its last state: ", j.text));
    }
    task.progress.set(index, j.text);
    co_await timer.afterDelay(kPause);
  }
}

// One node from the request to its outcome; failures are kept, not thrown.
template <typename Results>
kj::Promise<void> takeDown(Task& task, size_t index, kj::Promise<capnp::Response<Results>> answer,
                           kj::Duration deadline) {
  kj::Maybe<kj::Exception> failure;
  try {
    kj::String bootId;
    {
      auto response = co_await within(task.call.world.timer, deadline, kj::mv(answer));
      bootId = kj::str(response.getBootId());
    }
    if (task.call.on("wait")) co_await follow(task, index, kj::mv(bootId));
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
kj::Promise<int> run(Invocation& call, Outcome::Kind kind,
                     capnp::RemotePromise<Results> (*request)(rpc::Machine::Client machine)) {
  // The deadline of the request itself; --timeout is that of the outcome when it is waited for.
  auto session = co_await openSession(call, kDeadline);
  auto names = session->client.nodes();
  Task task{.call = call,
            .kind = kind,
            .names = names,
            .progress = Progress(call.world.console, names),
            .failures = {}};
  auto waits = kj::heapArrayBuilder<kj::Promise<void>>(names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    auto machine = session->client.node(names[i]).machineRequest().send().getMachine();
    waits.add(takeDown<Results>(task, i, request(kj::mv(machine)), session->deadline));
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
  command.flag({.name = "wait", .fallback = "true", .help = "wait for the outcome and show it"});
  addStreamOutputFlag(command);
  command.details = details;
  command.run = run;
}

}  // namespace

void addLifecycleCommands(Command& root) {
  declare(root.add("reboot", "Reboot nodes"), runReboot,
          "Waits until each node is up again with its services, 10 minutes at most (--timeout); "
          "--wait=false does not.");
  declare(root.add("shutdown", "Switch nodes off"), runShutdown,
          "Waits until each node is gone, 10 minutes at most (--timeout); --wait=false does not.");
}

}  // namespace talos::talosctl
