#include "talosctl/upgrade-cluster/rolling-run.h"

#include "common/base/error.h"
#include "common/text/texts.h"
#include "talosctl/cli/cli-text.h"

namespace talos::talosctl {
namespace {

bool hasSettled(const NodeSurvey& node) {
  return node.silence == nullptr && node.upgrade != nullptr && node.stage != "booting" &&
         node.stage != "rebooting";
}

// Returns texts about missing parts that may come back soon.
kj::Vector<kj::String> whatIsMissing(const ClusterSurvey& state, const TargetImage& target) {
  kj::Vector<kj::String> missing;
  for (auto& node : state.nodes) {
    if (hasSettled(node)) continue;
    missing.add(kj::str(node.address, ": it is booting, or does not answer"));
  }
  for (auto& finding : judgeSurvey(state, target, {.ignoreBudgets = true})) {
    if (finding.kind != PreflightFinding::Kind::kStopsIfItStays) continue;
    bool known = false;
    for (auto& node : state.nodes)
      known = known || (node.address == finding.node && !hasSettled(node));
    if (known) continue;
    missing.add(kj::str(finding.node, finding.node.size() > 0 ? ": " : "", finding.text));
  }
  return missing;
}

kj::String before(const NodeSurvey& node) {
  // A system on trial becomes the confirmed system in the same boot.
  bool trial = KJ_ASSERT_NONNULL(node.upgrade).stage == "trying";
  return trial ? kj::String() : kj::str(node.bootId);
}

}  // namespace

// Repeats `attempt` until it returns no reason to wait.
kj::Promise<void> RollingRun::await(kj::StringPtr node, kj::String what, kj::Duration limit,
                                    Attempt attempt) {
  auto end = timer.now() + limit;
  for (;;) {
    auto reason = co_await attempt();
    KJ_IF_MAYBE (r, reason) {
      if (timer.now() >= end) {
        fail(ErrorKind::kDeadlineExceeded,
             kj::str(what, " timed out after ", durationText(limit), ": ", *r));
      }
      lines.progress(node, kj::str(what, ": ", *r));
    } else {
      co_return;
    }
    co_await timer.afterDelay(kSurveyPause);
  }
}

// --- before anything has changed

void RollingRun::refuse(const kj::Vector<PreflightFinding>& findings) {
  size_t stops = 0;
  for (auto& finding : findings) {
    lines.finding(finding);
    stops += finding.stops() ? 1 : 0;
  }
  if (stops == 0) return;
  fail(ErrorKind::kFailedPrecondition,
       kj::str("the cluster cannot be upgraded now, and nothing was changed: ",
               stops == 1 ? kj::str("the error above stops it")
                          : kj::str("the ", stops, " errors above stop it")));
}

// Surveys until the cluster has settled: a node that reboots in an upgrade of an earlier run comes
// back, and with it its kubelet, its etcd member, and Kubernetes if its API server is the one that
// is called.
kj::Promise<ClusterSurvey> RollingRun::settledSurvey() {
  auto end = timer.now() + kSettleLimit;
  kj::Vector<kj::String> noted;
  for (;;) {
    auto state = co_await cluster.survey();
    auto missing = whatIsMissing(state, target);
    if (missing.empty() || timer.now() >= end) co_return kj::mv(state);
    for (auto& text : missing) {
      bool known = false;
      for (auto& earlier : noted) known = known || earlier == text;
      if (known) continue;
      lines.note(kj::str("waiting up to ", durationText(kSettleLimit), ": ", text));
      noted.add(kj::mv(text));
    }
    co_await timer.afterDelay(kSurveyPause);
  }
}

void RollingRun::take(const FetchOutcome& fetched) {
  if (fetched.error.size() > 0 || fetched.unknown) return;
  if (target.digest.size() == 0) target.digest = kj::str(fetched.digest);
  target.version = kj::str(fetched.version);
}

kj::Promise<FetchOutcome> RollingRun::fetchOn(kj::String node) {
  lines.progress(node, "fetching the image");
  auto shown = [this, node = kj::str(node)](kj::StringPtr text) {
    lines.progress(node, kj::str("fetching the image: ", text));
  };
  auto fetched = co_await cluster.fetch(node, target, !options.dryRun, kj::mv(shown));
  if (fetched.error.size() == 0 && !fetched.unknown && target.digest.size() > 0 &&
      fetched.digest != target.digest) {
    fetched.error = kj::str("it got ", fetched.digest, " instead of ", target.digest);
  }
  if (fetched.error.size() > 0) {
    lines.progress(node, "failed");
  } else if (!fetched.unknown) {
    lines.progress(node, kj::str("has fetched and verified ", fetched.version,
                                 fetched.isSigned ? ", signed by the key of its config" : ""));
  }
  co_return kj::mv(fetched);
}

// Determines the image of the user's text: the first node that fetches it reports its digest.
kj::Promise<ClusterSurvey> RollingRun::resolve(ClusterSurvey state) {
  while (target.digest.size() == 0) {
    kj::Maybe<kj::String> idle;
    for (auto& node : state.nodes) {
      bool busy = KJ_ASSERT_NONNULL(node.upgrade).isUnderWay();
      if (!busy && idle == nullptr) idle = kj::str(node.address);
    }
    KJ_IF_MAYBE (node, idle) {
      auto one = co_await fetchOn(kj::mv(*node));
      refuse(judgeFetches(kj::arrayPtr(&one, 1), state));
      if (one.unknown) {
        fail(ErrorKind::kFailedPrecondition,
             kj::str(one.node, " cannot say which image ", target.text,
                     " is: its system is older than this command; name it by its digest"));
      }
      take(one);
      fetched.add(kj::mv(one.node));
      continue;
    }
    for (auto& node : state.nodes) co_await follow(node.address, before(node), "");
    state = co_await settledSurvey();
  }
  co_return kj::mv(state);
}

kj::Promise<void> RollingRun::fetchAll(const ClusterSurvey& state) {
  kj::Vector<kj::Promise<FetchOutcome>> fetching;
  for (auto& node : state.nodes) {
    if (contains(fetched, node.address)) continue;
    if (actionFor(node, target) != NodeAction::kUpgrade) continue;
    fetching.add(fetchOn(kj::str(node.address)));
  }
  auto outcomes = co_await kj::joinPromises(fetching.releaseAsArray());
  for (auto& one : outcomes) take(one);
  refuse(judgeFetches(outcomes, state));
}

// --- one node

void RollingRun::leave(kj::StringPtr node) {
  kj::Vector<kj::String> rest;
  for (auto& one : away) {
    if (one != node) rest.add(kj::mv(one));
  }
  away = kj::mv(rest);
}

// Waits until all nodes are healthy; with `itself`, including this node.
kj::Promise<ClusterSurvey> RollingRun::awaitWell(kj::StringPtr node, bool itself) {
  kj::Maybe<ClusterSurvey> last;
  auto attempt = [&]() -> kj::Promise<kj::Maybe<kj::String>> {
    auto state = co_await cluster.survey();
    kj::Vector<kj::StringPtr> others;
    for (auto& one : away) {
      if (!itself || one != node) others.add(one);
    }
    for (auto& one : state.nodes) {
      bool busy =
          one.upgrade.map([](const UpgradeState& u) { return u.isUnderWay(); }).orDefault(false);
      if (busy && (!itself || one.address != node)) others.add(one.address);
    }
    auto reason = reasonToWait(state, others);
    last = kj::mv(state);
    co_return kj::mv(reason);
  };
  co_await await(node, kj::str("waiting until the cluster is well"), kWellLimit, kj::mv(attempt));
  co_return kj::mv(KJ_ASSERT_NONNULL(last));
}

kj::Promise<void> RollingRun::awaitBudgets(kj::StringPtr node) {
  if (options.ignoreBudgets || options.live) return kj::READY_NOW;
  auto attempt = [this, node]() -> kj::Promise<kj::Maybe<kj::String>> {
    auto state = co_await cluster.survey();
    if (state.at(node) == nullptr) co_return kj::str("it is not listed any more");
    co_return reasonNotToDrain(state, node);
  };
  return await(node, kj::str("waiting until its pods may leave"), kBudgetLimit, kj::mv(attempt));
}

// A node that keeps the leadership is upgraded all the same: etcd then elects another leader.
kj::Promise<void> RollingRun::handOver(kj::StringPtr node) {
  lines.progress(node, "handing over the leadership of etcd");
  auto attempt = [this, node]() -> kj::Promise<kj::Maybe<kj::String>> {
    co_await cluster.forfeit(node);
    auto state = co_await cluster.survey();
    KJ_IF_MAYBE (current, state.at(node)) {
      if (state.leads(*current)) co_return kj::str("it still leads");
    }
    co_return nullptr;
  };
  co_await await(node, kj::str("handing over the leadership of etcd"), kHandOverLimit,
                 kj::mv(attempt))
      .catch_([this, node](kj::Exception&& e) {
        lines.progress(node, kj::str("keeps the leadership of etcd: ", messageOf(e)));
      });
}

kj::Promise<kj::String> RollingRun::request(kj::StringPtr node) {
  kj::Maybe<kj::Exception> lost;
  try {
    co_return co_await cluster.upgrade(node, target);
  } catch (...) {
    auto e = kj::getCaughtExceptionAsKj();
    if (kindOf(e) != ErrorKind::kNotFound) kj::throwFatalException(kj::mv(e));
    lost = kj::mv(e);
  }
  // The node has restarted since the file was sent to it.
  auto fetched = co_await fetchOn(kj::str(node));
  if (fetched.error.size() > 0 || fetched.unknown) {
    kj::throwFatalException(kj::mv(KJ_ASSERT_NONNULL(lost)));
  }
  co_return co_await cluster.upgrade(node, target);
}

// Returns the id of the boot that ends.
kj::Promise<kj::String> RollingRun::requestInTurn(kj::StringPtr node) {
  kj::String bootId;
  auto attempt = [this, node, &bootId]() -> kj::Promise<kj::Maybe<kj::String>> {
    kj::Maybe<kj::String> reason;
    bool other = false;
    try {
      bootId = co_await request(node);
    } catch (...) {
      auto e = kj::getCaughtExceptionAsKj();
      other = kindOf(e) == ErrorKind::kConflict;
      if (!other && kindOf(e) != ErrorKind::kUnavailable) kj::throwFatalException(kj::mv(e));
      reason = messageOf(e);
    }
    if (other) {
      // Another run has just requested the upgrade of this node.
      auto state = co_await cluster.survey();
      KJ_IF_MAYBE (current, state.at(node)) {
        if (current->silence == nullptr && current->upgrade != nullptr) {
          bootId = before(*current);
          co_return nullptr;
        }
      }
    }
    co_return kj::mv(reason);
  };
  lines.progress(node, "asking it to upgrade");
  co_await await(node, kj::str("waiting for its turn"), kTurnLimit, kj::mv(attempt));
  co_return kj::mv(bootId);
}

// Follows the node to the end of its upgrade, which must be to the image `wanted`, if that is
// known.
kj::Promise<void> RollingRun::follow(kj::StringPtr node, kj::String before, kj::StringPtr wanted) {
  auto limit = kRebootLimit + options.healthTimeout;
  auto end = timer.now() + limit;
  for (;;) {
    kj::Maybe<RollingCluster::Look> seen;
    kj::String text = kj::str("no answer");
    try {
      seen = co_await cluster.look(node, before);
    } catch (const kj::Exception&) {
      // The node is shutting down or booting.
    }
    KJ_IF_MAYBE (look, seen) {
      text = kj::str(look->judgement.text);
      if (look->judgement.verdict == Verdict::kFailed) {
        fail(ErrorKind::kFailedPrecondition, text);
      }
      if (look->judgement.verdict == Verdict::kDone) {
        if (wanted.size() == 0 || look->digest == wanted) {
          lines.progress(node, text);
          co_return;
        }
        fail(ErrorKind::kConflict, kj::str("it runs another image: ", look->digest));
      }
    }
    if (timer.now() >= end) {
      fail(ErrorKind::kDeadlineExceeded,
           kj::str("timed out after ", durationText(limit), "; last state: ", text));
    }
    lines.progress(node, text);
    co_await timer.afterDelay(kLookPause);
  }
}

kj::Promise<void> RollingRun::awaitReturn(kj::StringPtr node, bool wasCordoned) {
  co_await awaitWell(node, true).ignoreResult();
  if (wasCordoned) co_return;
  auto attempt = [this, node]() -> kj::Promise<kj::Maybe<kj::String>> {
    auto state = co_await cluster.survey();
    KJ_IF_MAYBE (current, state.at(node)) {
      KJ_IF_MAYBE (kubernetes, state.kubernetes) {
        KJ_IF_MAYBE (one, kubernetes->at(*current)) {
          if (one->unschedulable) co_return kj::str("it is still cordoned");
        }
      }
    }
    co_return nullptr;
  };
  co_await await(node, kj::str("waiting until it takes pods"), kWellLimit, kj::mv(attempt));
}

kj::Promise<void> RollingRun::step(kj::StringPtr node) {
  away.add(kj::str(node));
  auto state = co_await awaitWell(node, false);
  auto& found = KJ_REQUIRE_NONNULL(state.at(node), node);
  KJ_IF_MAYBE (why, found.silence) {
    fail(ErrorKind::kUnavailable, kj::str("it does not answer: ", *why));
  }
  auto action = actionFor(found, target);
  if (action == NodeAction::kNone) co_return leave(node);
  bool cordoned = false;
  KJ_IF_MAYBE (kubernetes, state.kubernetes) {
    KJ_IF_MAYBE (current, kubernetes->at(found)) cordoned = current->unschedulable;
  }
  auto boot = before(found);
  if (action == NodeAction::kUpgrade) {
    co_await awaitBudgets(node);
    if (state.leads(found) && !options.live) co_await handOver(node);
    boot = co_await requestInTurn(node);
  } else {
    cordoned = false;  // if the node was cordoned, then only by the drain of its upgrade
  }
  co_await follow(node, kj::mv(boot), target.digest);
  co_await awaitReturn(node, cordoned);
  leave(node);
  lines.progress(node, kj::str("upgraded to ", target.version));
}

// Upgrades the node and records the first failure.
kj::Promise<void> RollingRun::stepOrFail(kj::String node) {
  kj::StringPtr name = node;
  auto promise = step(name);
  co_await promise.catch_([this, name](kj::Exception&& e) {
    lines.progress(name, "failed");
    if (failure != nullptr) return;
    failedNode = kj::str(name);
    failure = kj::mv(e);
  });
}

// --- all of them

kj::Promise<void> RollingRun::controlPlane() {
  while (failure == nullptr) {
    auto state = co_await settledSurvey();
    auto next = nextControlPlaneNode(state, target);
    KJ_IF_MAYBE (node, next) {
      co_await stepOrFail(kj::str(*node));
    } else {
      for (auto& node : state.nodes) {
        KJ_IF_MAYBE (why, node.silence) {
          if (!node.controlPlane) continue;
          failedNode = kj::str(node.address);
          failure = error(ErrorKind::kUnavailable, kj::str("it does not answer: ", *why));
        }
      }
      co_return;
    }
  }
}

kj::Promise<void> RollingRun::worker(kj::ArrayPtr<const kj::String> queue, size_t& next) {
  while (failure == nullptr && next < queue.size()) co_await stepOrFail(kj::str(queue[next++]));
}

kj::Promise<void> RollingRun::workers() {
  if (failure != nullptr) co_return;
  auto state = co_await settledSurvey();
  auto plan = planRolling(state, target);
  kj::Vector<kj::String> queue;
  for (auto& node : plan.nodes) {
    if (!node.controlPlane && node.action != NodeAction::kNone) queue.add(kj::str(node.address));
  }
  size_t next = 0;
  kj::Vector<kj::Promise<void>> running;
  for (unsigned i = 0; i < kj::max(options.parallel, 1u); ++i) running.add(worker(queue, next));
  co_await kj::joinPromises(running.releaseAsArray());
}

kj::Promise<void> RollingRun::conclude(const RollingPlan& plan) {
  auto state = co_await cluster.survey();
  size_t running = 0;
  for (auto& planned : plan.nodes) {
    auto node = state.at(planned.address);
    kj::StringPtr version = planned.from;
    bool runs = false;
    KJ_IF_MAYBE (n, node) {
      if (n->silence == nullptr) {
        version = n->version;
        runs = actionFor(*n, target) == NodeAction::kNone;
      }
    }
    running += runs ? 1 : 0;
    bool failed = failure != nullptr && failedNode == planned.address;
    auto message = failed ? messageOf(KJ_ASSERT_NONNULL(failure)) : kj::String();
    auto result = failed                                ? "failed"_kj
                  : planned.action == NodeAction::kNone ? "unchanged"_kj
                  : runs                                ? "upgraded"_kj
                                                        : "left"_kj;
    lines.result(planned.address, version, result, message);
  }
  lines.end();
  KJ_IF_MAYBE (e, failure) {
    fail(kindOf(*e), kj::str("stopped at ", failedNode, ": ", messageOf(*e), "\n", running, " of ",
                             plan.nodes.size(), " nodes run ", target.version,
                             ", the others what they ran before; when ", failedNode,
                             " is well, run the same command again: it continues from there"));
  }
}

kj::Promise<bool> RollingRun::run() {
  auto state = co_await settledSurvey();
  lines.begin(state);
  SurveyOptions judging{.ignoreBudgets = options.ignoreBudgets, .live = options.live};
  refuse(judgeSurvey(state, target, judging));
  state = co_await resolve(kj::mv(state));
  refuse(judgeSurvey(state, target, judging));
  co_await fetchAll(state);
  auto plan = planRolling(state, target);
  lines.plan(plan, target, options.dryRun);
  if (plan.changes() == 0) {
    lines.note(kj::str("all nodes run ", target.version));
    if (options.dryRun) co_return true;
    co_await conclude(plan);
    co_return true;
  }
  lines.note(
      "the nodes keep their data; whether the new system understands their configs is not known "
      "before: one that does not reverts by itself, and the others stay as they are");
  if (options.dryRun) co_return true;
  auto question = kj::str("upgrade ", plan.changes(), plan.changes() == 1 ? " node" : " nodes",
                          " to ", target.version, "?");
  if (!co_await confirm(question)) co_return false;
  lines.begin(state);
  co_await controlPlane();
  co_await workers();
  co_await conclude(plan);
  co_return true;
}

}  // namespace talos::talosctl
