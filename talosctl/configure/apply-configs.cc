#include "talosctl/configure/apply-configs.h"

#include <unistd.h>

#include "common/base/backoff.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/lines.h"
#include "common/base/resource.h"
#include "common/config/config.h"
#include "common/text/texts.h"
#include "common/tls/pki.h"
#include "common/wire/resource-registry.h"
#include "rpc/machine-resources.capnp.h"
#include "talosctl/cli/cli-text.h"
#include "talosctl/client/follow-node.h"
#include "talosctl/config/secrets-bundle.h"
#include "talosctl/configure/apply-outcome.h"
#include "talosctl/configure/follow-operation.h"
#include "talosctl/configure/follow-trial.h"

namespace talos::talosctl {

namespace {

using rpc::ApplyMode;
using ApplyResults = rpc::Configuration::ApplyResults;

struct ModeName {
  kj::StringPtr name;
  ApplyMode mode;
};
constexpr ModeName kModes[] = {{"auto"_kj, ApplyMode::AUTO},
                               {"no-reboot"_kj, ApplyMode::NO_REBOOT},
                               {"reboot"_kj, ApplyMode::REBOOT},
                               {"staged"_kj, ApplyMode::STAGED},
                               {"try"_kj, ApplyMode::TRY}};

// Returns how long the node may be silent after a call whose answer was lost: its network may still
// be changing, and it goes back unless it is called.
kj::Duration silenceAllowed(const Invocation& call, const ApplySettings& settings) {
  bool atOnce = settings.mode == ApplyMode::NO_REBOOT || settings.mode == ApplyMode::AUTO;
  if (!atOnce || settings.noTrial) return 0 * kj::SECONDS;
  return call.deadline(settings.changeTrial > 0 * kj::SECONDS ? settings.changeTrial : kUsualTrial);
}

// Returns an error that leaves the outcome open, which its text says.
kj::Exception withDoubt(const kj::Exception& e) {
  return error(kindOf(e),
               kj::str(messageOf(e), "; it is not known whether the node has applied the config"));
}

// Returns a random number, never 0, by which the node names this apply.
uint64_t newOperationNumber() {
  uint64_t number = 0;
  for (auto byte : pki::randomBytes(sizeof(number))) number = (number << 8) | byte;
  return kj::max(number, uint64_t(1));
}

kj::Promise<capnp::Response<ApplyResults>> send(rpc::Node::Client node, const Parcel& parcel,
                                                const ApplySettings& settings, uint64_t operation,
                                                bool again) {
  auto call =
      applyCall(kj::mv(node), parcel.document, parcel.version, settings.mode, settings.dryRun);
  call.getRequest().setTryTimeoutMs(settings.trial / kj::MILLISECONDS);
  call.getRequest().setOperation(operation);
  call.getRequest().setNoTrial(settings.noTrial);
  call.getRequest().setTrialTimeoutMs(settings.changeTrial / kj::MILLISECONDS);
  call.getRequest().setCallsAgain(again);
  return call.send();
}

// The state of one run that its nodes share.
struct Delivery {
  Invocation& call;
  ApplySettings settings;
  bool insecure;
  kj::String done;
  kj::Array<kj::String> names;
  Progress progress;
  Documents documents;
  kj::Own<Turns> turns;
  kj::Vector<Failure> failures;
  size_t good = 0;
  kj::Array<bool> lost;   // for each node: its answer was lost, and with it the time of the trial
  kj::Array<bool> taken;  // for each node: it has the config, whatever becomes of it

  Delivery(Invocation& call, ApplySettings settings, bool insecure, kj::String done,
           kj::Array<kj::String> namesParam)
      : call(call),
        settings(settings),
        insecure(insecure),
        done(kj::mv(done)),
        names(kj::mv(namesParam)),
        progress(call.deps.console, names),
        documents(call, formatOf(call)),
        turns(kj::heap<Turns>(names.size(), nullptr)),
        lost(kj::heapArray<bool>(names.size())),
        taken(kj::heapArray<bool>(names.size())) {
    for (auto i : kj::indices(names)) lost[i] = taken[i] = false;
  }

  void print(kj::StringPtr node, rpc::ApplyResult::Reader result, OperationEnd end) {
    call.err(renderWarnings(node, result));
    if (formatOf(call) != Format::kTable) {
      documents.answer(node, dynamic<rpc::ApplyResult>(result));
      return;
    }
    if (done.size() > 0 && !settings.dryRun && !isUnchanged(result))
      call.err(kj::str(done, " ", printable(node), "\n"));
    if (end == OperationEnd::kRebooted) {
      return call.err(
          kj::str(printable(node), ": applied: the node has rebooted with this config\n"));
    }
    bool colour = call.deps.console.drawsOnOut() &&
                  call.deps.environment("NO_COLOR").orDefault(kj::str()).size() == 0;
    auto text = renderOutcome(node, result, settings, insecure, colour);
    settings.dryRun ? call.out(text) : call.err(text);
    auto trial = describeTrial(result, settings.dryRun);
    if (trial.size() > 0) call.err(kj::str(printable(node), ": ", trial, "\n"));
  }
};

// Another client's change without a reboot takes about a second, so ten clients at once have their
// turns within these attempts. A refusal that lasts, such as that of a boot, is reported after
// them.
constexpr unsigned kMostAttempts = 12;
constexpr Backoff::Pace kPace{
    .first = 100 * kj::MILLISECONDS, .longest = 1 * kj::SECONDS, .chance0 = 0.5, .chance1 = 1.5};

using Result = kj::Own<rpc::ApplyResult::Reader>;
using ResultOrError = kj::OneOf<Result, kj::Exception>;

// Makes the answer that was lost. Its warnings and changes are not known.
Result lostAnswer(const BegunApply& begun, uint64_t number) {
  capnp::MallocMessageBuilder message;
  auto result = message.initRoot<rpc::ApplyResult>();
  for (auto& known : kModes) {
    if (known.name == begun.mode) result.setMode(known.mode);
  }
  result.setBootId(begun.bootId);
  result.setOperation(number);
  result.initWarnings(1).set(0, "the answer was lost, and with it the warnings of the node");
  return capnp::clone(result.asReader());
}

// Asks the node for the outcome of an apply that ended with this error. `silent`: how long it may
// be silent. Returns the error if the outcome stays open.
kj::Promise<ResultOrError> findOutcome(Delivery& task, size_t index, kj::StringPtr document,
                                       uint64_t number, kj::Duration silent, kj::Exception e) {
  // A trial has no record, and a node without a config takes no further call of this client.
  if (task.settings.mode == ApplyMode::TRY || task.insecure) co_return withDoubt(e);
  task.progress.set(index, kj::str(messageOf(e), "; asking the node what became of the config"));
  MovedNode node(task.call, task.names[index], document);
  auto found = co_await findOperation(task.call, node, number, silent);
  task.lost[index] = found != nullptr;
  KJ_IF_MAYBE (begun, found) co_return lostAnswer(*begun, number);
  co_return withDoubt(e);
}

// Sets `answers` when the node answers a call.
kj::Promise<void> noteAnswer(rpc::Node::Client node, bool& answers) {
  return node.machineRequest().send().getMachine().versionRequest().send().then(
      [&answers](auto&&) { answers = true; }, [](kj::Exception&&) {});
}

// Returns the answer to a document, or the node's error.
kj::Promise<ResultOrError> sendOnce(Delivery& task, Session& session, size_t index,
                                    const Parcel& parcel) {
  auto number = task.settings.dryRun ? 0 : newOperationNumber();
  auto silent = silenceAllowed(task.call, task.settings);
  // A node that was never reached has not taken the config, so nothing is worth a long wait.
  bool answers = false;
  kj::Promise<void> noting = kj::READY_NOW;
  if (silent > 0 * kj::SECONDS && !task.insecure && number != 0) {
    noting = noteAnswer(session.client.node(parcel.node), answers).eagerlyEvaluate(nullptr);
  }
  kj::Maybe<kj::Exception> failure;
  try {
    bool again = callsAgain(task.settings, session.client.endpoints());
    auto answer = send(session.client.node(parcel.node), parcel, task.settings, number, again);
    auto response = co_await within(task.call.deps.timer, session.deadline, kj::mv(answer));
    co_return capnp::clone(response.getResult());
  } catch (const kj::Exception& e) {
    failure = kj::cp(e);
  }
  auto& e = KJ_ASSERT_NONNULL(failure);
  if (task.settings.dryRun || !mayPass(e)) co_return kj::mv(e);
  if (!answers) silent = 0 * kj::SECONDS;
  co_return co_await findOutcome(task, index, parcel.document, number, silent, kj::mv(e));
}

// Makes the document again. Throws the node's refusal if the node's config cannot be read.
kj::Promise<kj::Maybe<Parcel>> remade(Remake& remake, const kj::Exception& refusal) {
  try {
    co_return co_await remake();
  } catch (const kj::Exception& e) {
    auto kind = kindOf(e);
    bool unread = kind == ErrorKind::kUnavailable || kind == ErrorKind::kDeadlineExceeded;
    kj::throwFatalException(kj::cp(unread ? refusal : e));
  }
}

// Sends a document until the node answers it or refuses it for good; nullptr if the document, made
// again, leaves nothing to send. `parcel` becomes the one that was sent last.
kj::Promise<kj::Maybe<Result>> sendUntilDecided(Delivery& task, Session& session, size_t index,
                                                Parcel& parcel) {
  Backoff backoff(kPace);
  for (;;) {
    auto outcome = co_await sendOnce(task, session, index, parcel);
    KJ_IF_MAYBE (answer, outcome.tryGet<Result>()) co_return kj::mv(*answer);
    auto& refusal = outcome.get<kj::Exception>();
    bool again = parcel.remake != nullptr && kindOf(refusal) == ErrorKind::kConflict;
    auto pause = backoff.next(pki::randomBytes(1)[0] / 256.0);
    if (!again || backoff.failures() == kMostAttempts) kj::throwFatalException(kj::mv(refusal));
    co_await task.call.deps.timer.afterDelay(pause);
    auto next = co_await remade(KJ_ASSERT_NONNULL(parcel.remake), refusal);
    KJ_IF_MAYBE (p, next) {
      parcel = *p;
    } else {
      co_return nullptr;
    }
  }
}

// Runs one node from the request to its outcome.
kj::Promise<void> deliver(Delivery& task, Session& session, size_t index, Parcel parcel) {
  auto& settings = task.settings;
  kj::StringPtr node = task.names[index];
  kj::Maybe<Result> answered;
  {
    KJ_DEFER(task.turns->answered(index));
    co_await task.turns->start(index);
    answered = co_await sendUntilDecided(task, session, index, parcel);
  }
  if (answered == nullptr) co_return printSkipped(task.call, node, "no changes detected");
  auto result = *KJ_ASSERT_NONNULL(answered);
  MovedNode moved(task.call, node, parcel.document);
  auto end = OperationEnd::kDone;
  if (result.getOperation() != 0) {
    NodeOperation operation{result.getOperation(), kj::str(result.getBootId())};
    end = co_await followOperation(task.call, moved, operation, parcel.document, task.progress,
                                   index);
  }
  task.taken[index] = true;
  task.print(node, result, end);
  AppliedConfig applied{settings, parcel.document, task.lost[index]};
  co_await followConfig(task.call, moved, node, applied, result, task.progress, index);
}

kj::Promise<void> deliverOrKeep(Delivery& task, Session& session, size_t index, Parcel parcel) {
  return deliver(task, session, index, parcel)
      .then([&task]() { ++task.good; },
            [&task, index](kj::Exception&& e) {
              task.failures.add(kj::str(task.names[index]), kj::mv(e));
            });
}

}  // namespace

void addApplyFlags(Command& command) {
  command.flag({.name = "mode",
                .letter = "m",
                .kind = FlagKind::kText,
                .fallback = "reboot",
                .help = "how the config takes effect; auto reboots only if a change needs it; try "
                        "applies it at once and reverts after --timeout (1m)",
                .choices = {"auto", "no-reboot", "reboot", "staged", "try"}});
  command.flag({.name = "immediate", .help = "the same as --mode=no-reboot"});
  command.flag({.name = "on-reboot", .help = "the same as --mode=staged"});
  command.flag({.name = "dry-run",
                .help =
                    "change nothing; show the problems, the diff, whether and why the node would "
                    "reboot, and the changes of its network and of volumes"});
  command.flag({.name = "no-trial",
                .help =
                    "keep the config even if the node cannot work or be reached with it; without "
                    "this flag the previous config comes back"});
  command.flag({.name = "trial-timeout",
                .kind = FlagKind::kDuration,
                .fallback = "10m",
                .help = "time in which the node has to do with the config what it did before"});
  addWaitFlag(command, false);
  addOutputFlag(command);
}

bool callsAgain(const ApplySettings& settings, kj::ArrayPtr<const kj::String> endpoints) {
  bool isLocal = endpoints.size() > 0 && endpoints[0].startsWith(kUnixEndpoint);
  bool atOnce = settings.mode == ApplyMode::NO_REBOOT || settings.mode == ApplyMode::AUTO;
  return !isLocal && (settings.wait || atOnce);
}

ApplySettings applySettings(const Invocation& call) {
  ApplySettings settings{.dryRun = call.on("dry-run"),
                         .wait = call.on("wait"),
                         .trial = call.deadline(1 * kj::MINUTES)};
  kj::Maybe<kj::String> chosenBy;
  auto choose = [&](kj::StringPtr flag, ApplyMode mode) {
    KJ_IF_MAYBE (other, chosenBy) {
      if (mode != settings.mode)
        failUsage(kj::str(*other, " and ", flag, " cannot be used together"));
    }
    settings.mode = mode;
    settings.byDefault = false;
    chosenBy = kj::str(flag);
  };
  if (call.given("mode")) {
    for (auto& known : kModes) {
      if (known.name == call.text("mode")) choose(kj::str("--mode=", known.name), known.mode);
    }
  }
  if (call.on("immediate")) choose("--immediate", ApplyMode::NO_REBOOT);
  if (call.on("on-reboot")) choose("--on-reboot", ApplyMode::STAGED);
  if (call.declared("no-reboot") && call.on("no-reboot")) choose("--no-reboot", ApplyMode::STAGED);
  settings.noTrial = call.on("no-trial");
  if (settings.noTrial && settings.mode == ApplyMode::TRY) {
    failUsage("--no-trial cannot be used with --mode=try, which always reverts");
  }
  if (call.given("trial-timeout")) {
    settings.changeTrial = call.duration("trial-timeout");
    if (settings.noTrial) failUsage("--no-trial and --trial-timeout cannot be used together");
    if (settings.mode == ApplyMode::TRY) {
      failUsage("--trial-timeout cannot be used with --mode=try, whose time is --timeout");
    }
  }
  if (isInsecure(call)) {
    if (settings.mode == ApplyMode::STAGED || settings.mode == ApplyMode::TRY) {
      failUsage(
          kj::str(KJ_ASSERT_NONNULL(chosenBy),
                  " cannot be used with --insecure: the machine boots with this config at once"));
    }
    if (settings.wait) {
      failUsage(
          "--wait cannot be used with --insecure: the node then requires a client "
          "certificate; use \"talosctl status\" with the cluster's talosconfig");
    }
  }
  return settings;
}

kj::Maybe<kj::String> mistakesOf(kj::ArrayPtr<const char> document, kj::StringPtr file) {
  auto parsed = config::parse(document, file);
  if (parsed.empty()) return kj::str(file, file.size() > 0 ? ": " : "", "contains no config");
  if (parsed.good()) return nullptr;
  return render(parsed.problems());
}

void requireGood(Invocation& call, kj::ArrayPtr<const char> document, kj::StringPtr file) {
  KJ_IF_MAYBE (mistakes, mistakesOf(document, file)) fail(ErrorKind::kInvalidArgument, *mistakes);
  auto parsed = config::parse(document, file);
  printWarnings(call, config::warningsOf(parsed.problems()));
}

void refuseExisting(Invocation& call, kj::StringPtr path) {
  if (call.on("force") || access(path.cStr(), F_OK) != 0) return;
  fail(ErrorKind::kConflict,
       kj::str("file \"", path, "\" already exists, use --force to overwrite"));
}

void writePrivateFile(kj::StringPtr path, kj::ArrayPtr<const char> content) {
  KJ_IF_MAYBE (slash, path.findLast('/')) {
    if (*slash > 0) makeDirectories(kj::heapString(path.slice(0, *slash)));
  }
  writeFileAtomically(path, content, 0600);
}

void printWarnings(Invocation& call, kj::ArrayPtr<const kj::String> warnings) {
  for (auto& warning : warnings) call.err(printableText(kj::str("WARNING: ", warning, "\n")));
}

kj::Promise<int> applyAll(Invocation& call, Session& session, kj::Array<Parcel> parcels,
                          ApplySettings settings, kj::String done) {
  auto names = KJ_MAP(p, parcels) {
    return kj::str(p.node);
  };
  Delivery task(call, settings, session.client.insecure(), kj::mv(done), kj::mv(names));
  bool mayReboot = settings.mode == ApplyMode::REBOOT || settings.mode == ApplyMode::AUTO;
  if (mayReboot && !settings.dryRun) task.turns = co_await takeTurns(session, task.names);
  auto waits = kj::heapArrayBuilder<kj::Promise<void>>(parcels.size());
  for (size_t i = 0; i < parcels.size(); ++i) {
    waits.add(deliverOrKeep(task, session, i, parcels[i]));
  }
  co_await kj::joinPromises(waits.finish());
  if (formatOf(call) != Format::kTable) {
    for (auto& f : task.failures) task.documents.failure(f);
  }
  co_return conclude(call, task.failures, task.good, Partial::kIsFailure);
}

kj::Promise<void> applyOne(Invocation& call, Session& session, Parcel parcel,
                           ApplySettings settings, bool& taken) {
  Delivery task(call, settings, session.client.insecure(), nullptr, kj::arr(kj::str(parcel.node)));
  KJ_DEFER(taken = task.taken[0]);
  co_await deliver(task, session, 0, parcel);
}

void declareConfigChange(Command& command) {
  command.arguments = "<type> [<id>]";
  command.least = 1, command.most = 2;
  command.argumentChoices = {{"machineconfig", "mc"}};
  command.flag({.name = "namespace", .kind = FlagKind::kText, .help = "namespace of the resource"});
  addApplyFlags(command);
}

ApplySettings configChangeSettings(const Invocation& call) {
  Registry registry;
  auto& type = registry.find(call.arguments[0]);
  if (type.name == typeName<rpc::MachineConfigSpec>()) return applySettings(call);
  fail(ErrorKind::kInvalidArgument,
       kj::str("\"", call.command.name, "\" works on machine configs (mc) only; ", type.name,
               " are written by the node itself"));
}

kj::StringPtr changedConfigId(const Invocation& call) {
  return call.arguments.size() > 1 ? call.arguments[1].asPtr() : kConfigId;
}

kj::Promise<RunningConfig> configToChange(Invocation& call, Session& session, kj::StringPtr node) {
  auto reading =
      runningConfig(session.client.node(node), call.text("namespace"), changedConfigId(call));
  return within(call.deps.timer, session.deadline, kj::mv(reading));
}

void printSkipped(Invocation& call, kj::StringPtr node, kj::StringPtr reason) {
  call.err(kj::str(printable(node), ": Apply was skipped: ", reason, ".\n"));
  if (formatOf(call) == Format::kTable) return;
  capnp::MallocMessageBuilder nothing;
  auto result = nothing.initRoot<rpc::ApplyResult>().asReader();
  Documents(call, formatOf(call)).answer(node, dynamic<rpc::ApplyResult>(result));
}

}  // namespace talos::talosctl
