#include "machined/config/configuration-server.h"

#include <string.h>

#include "common/base/error.h"
#include "common/base/fill-list.h"
#include "common/config/config.h"
#include "common/memory/zeroize.h"
#include "common/text/texts.h"

namespace talos::machined {
namespace {
constexpr auto kDeadline = 5 * kj::SECONDS;
}

kj::Promise<ConfigurationServer::NetworkPreview> previewNetwork(NetworkSpecs specs,
                                                                rpc::Networkd::Client networkd,
                                                                kj::Timer& timer) {
  auto request = networkd.planRequest();
  specs.fill(request.initSpecs(specs.size()));
  ConfigurationServer::NetworkPreview result;
  for (auto& problem : specs.problems()) result.problems.add(kj::str(problem));
  kj::Maybe<kj::String> failure;
  try {
    auto answer = co_await timer.timeoutAfter(kDeadline, request.send());
    for (auto step : answer.getSteps()) result.steps.add(kj::str(step));
    for (auto problem : answer.getProblems()) addOnce(result.problems, kj::str(problem));
  } catch (...) {
    failure = messageOf(kj::getCaughtExceptionAsKj());
  }
  KJ_IF_MAYBE (error, failure) {
    fail(ErrorKind::kUnavailable, kj::str("networkd does not respond: ", *error));
  }
  co_return kj::mv(result);
}

namespace {

// Limits keys that are generated at the same time: an RSA key keeps a CPU busy for seconds, and in
// maintenance mode anybody may request one.
constexpr unsigned kMostGenerated = 2;

// Returns true for changes that neither a boot nor an operation applies later.
bool actsAtOnce(const ConfigManager::Outcome& outcome) {
  bool atOnce = outcome.mode == rpc::ApplyMode::NO_REBOOT || outcome.mode == rpc::ApplyMode::TRY;
  return atOnce && outcome.operation == 0;
}

// Converts without overflow: a value out of range stays out of range.
kj::Duration trialLength(uint64_t milliseconds) {
  constexpr uint64_t kMost = 2 * (kLongestTrial / kj::MILLISECONDS);
  return static_cast<int64_t>(kj::min(milliseconds, kMost)) * kj::MILLISECONDS;
}

}  // namespace

ConfigurationServer::ConfigurationServer(ConfigManager& manager, MachineConfigReader& reader,
                                         Store& store, ForeignBytes& foreign,
                                         ConfigManager::Caller caller, kj::String bootId,
                                         PreviewNetwork preview, Effects effects,
                                         RenderManifests manifests, RunningParts parts)
    : manager(manager),
      reader(reader),
      store(store),
      foreign(foreign),
      caller(caller),
      bootId(kj::mv(bootId)),
      preview(kj::mv(preview)),
      effects(kj::mv(effects)),
      manifests(kj::mv(manifests)),
      parts(kj::mv(parts)) {}

// Returns nothing for changes that a boot applies, and for an operation that has not published the
// config yet. A dry run names what a boot does not apply either.
kj::Promise<kj::Array<kj::String>> ConfigurationServer::notInEffect(
    const ConfigManager::Outcome& outcome) {
  KJ_IF_MAYBE (wanted, outcome.wanted) {
    // The first boot with a config makes what it names.
    if (manager.inMaintenance()) return kj::Array<kj::String>();
    return effects.foreseen(outcome.changes, *wanted);
  }
  if (!actsAtOnce(outcome)) return kj::Array<kj::String>();
  return effects.missing(outcome.changes);
}

kj::Vector<ConfigurationServer::Part> ConfigurationServer::runningParts() {
  KJ_IF_MAYBE (running, reader.document(store)) return parts(*running);
  return {};
}

// Returns the names of the parts that ran before and run with another content now, or would.
kj::Vector<kj::String> ConfigurationServer::restarted(kj::ArrayPtr<const Part> before,
                                                      const ConfigManager::Outcome& outcome) {
  kj::Vector<kj::String> names;
  if (!actsAtOnce(outcome)) return names;
  kj::Vector<Part> after;
  KJ_IF_MAYBE (wanted, outcome.wanted) {
    after = parts(*wanted);
  } else {
    after = runningParts();
  }
  for (auto& was : before) {
    for (auto& is : after) {
      if (was.name == is.name && was.content != is.content) names.add(kj::str(is.name));
    }
  }
  return names;
}

// Returns nothing without a dry run, and while it is not known on which disk the system will be.
kj::Promise<kj::Vector<kj::String>> ConfigurationServer::volumePlan(
    ConfigManager::Outcome& outcome) {
  kj::Vector<kj::String> steps;
  if (manager.inMaintenance()) co_return kj::mv(steps);
  KJ_IF_MAYBE (wanted, outcome.wanted) {
    co_await kj::evalNow([&]() { return effects.volumePlan(*wanted); })
        .then(
            [&](kj::Vector<kj::String>&& plan) { steps = kj::mv(plan); },
            [&](kj::Exception&& e) {
              outcome.warnings.add(kj::str("cannot predict the changes of disks: ", messageOf(e)));
            });
  }
  co_return kj::mv(steps);
}

namespace {

ConfigManager::Request changeOf(rpc::ApplyRequest::Reader request, ConfigManager::Caller caller) {
  ConfigManager::Request change{.document = kj::heapArray(request.getDocument().asChars()),
                                .mode = request.getMode(),
                                .dryRun = request.getDryRun(),
                                .caller = caller,
                                .trial = trialLength(request.getTryTimeoutMs()),
                                .ifVersion = request.getIfVersion(),
                                .operation = request.getOperation(),
                                .noTrial = request.getNoTrial(),
                                .callsAgain = request.getCallsAgain()};
  auto changeTrialMs = request.getTrialTimeoutMs();
  if (changeTrialMs > 0) change.changeTrial = trialLength(changeTrialMs);
  return change;
}

}  // namespace

kj::Promise<void> ConfigurationServer::apply(ApplyContext context) {
  auto request = context.getParams().getRequest();
  auto change = changeOf(request, caller);
  auto trial = change.trial;
  bool wantsManifests = request.getManifests();
  zeroizeReceived(request.getDocument());
  context.releaseParams();
  auto before = runningParts();
  auto outcome = co_await manager.apply(kj::mv(change));
  auto restarts = restarted(before, outcome);
  NetworkPreview network;
  KJ_IF_MAYBE (wanted, outcome.wanted) {
    kj::Maybe<kj::String> unknown;
    try {
      network = co_await preview(*wanted);
    } catch (...) {
      unknown = messageOf(kj::getCaughtExceptionAsKj());
    }
    KJ_IF_MAYBE (error, unknown) {
      outcome.warnings.add(kj::str("cannot predict the changes of the network: ", *error));
    }
  }
  kj::Vector<Manifest> rendered;
  KJ_IF_MAYBE (wanted, outcome.wanted) {
    if (wantsManifests) rendered = manifests(*wanted);
  }
  auto volumes = co_await volumePlan(outcome);
  auto missing = co_await notInEffect(outcome);
  auto result = context.getResults().initResult();
  result.setMode(outcome.mode);
  fillTexts(result.initWarnings(outcome.warnings.size()), outcome.warnings);
  auto changes = result.initChanges(outcome.changes.size());
  for (auto i : kj::indices(outcome.changes)) {
    changes[i].setPath(outcome.changes[i].path);
    changes[i].setLive(outcome.changes[i].live);
  }
  result.setDiff(outcome.diff);
  fillTexts(result.initNetworkPlan(network.steps.size()), network.steps);
  fillTexts(result.initNetworkProblems(network.problems.size()), network.problems);
  fillTexts(result.initVolumePlan(volumes.size()), volumes);
  result.setOperation(outcome.operation);
  fillTexts(result.initNotInEffect(missing.size()), missing);
  result.setConfirmed(outcome.confirms);
  fillTexts(result.initRestarts(static_cast<unsigned>(restarts.size())), restarts);
  auto texts = result.initManifests(static_cast<unsigned>(rendered.size()));
  for (auto i : kj::indices(rendered)) {
    texts[i].setId(rendered[i].id);
    texts[i].setObjects(rendered[i].objects);
  }
  if (outcome.mode == rpc::ApplyMode::REBOOT || outcome.operation != 0) result.setBootId(bootId);
  if (outcome.mode == rpc::ApplyMode::TRY) result.setRevertsInMs(trial / kj::MILLISECONDS);
  KJ_IF_MAYBE (time, outcome.changeTrial) result.setTrialMs(*time / kj::MILLISECONDS);
  fillTexts(result.initTrialDuties(static_cast<unsigned>(outcome.trialDuties.size())),
            outcome.trialDuties);
}

kj::Promise<void> ConfigurationServer::generate(GenerateContext context) {
  kj::Maybe<config::Config::Reader> own;
  if (!manager.inMaintenance()) {
    if (caller == ConfigManager::Caller::kVisitor) manager.requireMaintenance();
    auto& running = KJ_UNWRAP_OR(
        reader.document(store),
        fail(ErrorKind::kFailedPrecondition, "this node is booting and has no config yet; retry"));
    if (!config::isControlPlane(running.get().getMachine().getType())) {
      fail(ErrorKind::kFailedPrecondition,
           "this node is a worker and does not have the secrets of the cluster; use a "
           "control-plane node");
    }
    own = running.get();
  }
  if (generating >= kMostGenerated) {
    fail(ErrorKind::kResourceExhausted,
         kj::str(generating, " clusters are being generated already; retry"));
  }
  ++generating;
  KJ_DEFER(--generating);
  auto files = co_await foreign.generate(context.getParams().getRequest(), own);
  auto documents = context.getResults().initDocuments(static_cast<unsigned>(files.size()));
  for (auto i : kj::indices(files)) {
    documents[i].setName(files[i].name);
    documents[i].setContent(files[i].content.asBytes());
    zeroize(files[i].content);
  }
}

}  // namespace talos::machined
