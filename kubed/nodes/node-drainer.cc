#include "kubed/nodes/node-drainer.h"

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/within.h"
#include "kubed/manifests/manifest-creation.h"
#include "kubed/manifests/manifest-reconciler.h"
#include "kubed/nodes/node-plan.h"

namespace talos::kubed {
namespace {

constexpr unsigned kMostTries = 5;  // of an eviction that fails in other ways than by a refusal

kube::Resource drainedNodes() {
  return kube::coreResource("nodes", "Node", false);
}
kube::Resource drainedPods() {
  return kube::coreResource("pods", "Pod");
}

// True when the pod no longer exists.
kj::Promise<bool> isGone(SharedKube& kubernetes, const LeavingPod& pod) {
  bool gone = false;
  co_await (*kubernetes)
      .get(drainedPods(), pod.nameSpace, pod.name)
      .then([&](kube::Json found) { gone = kube::textAt(found, {"metadata", "uid"}) != pod.uid; },
            [&](kj::Exception&& e) {
              if (kindOf(e) != ErrorKind::kNotFound) kj::throwFatalException(kj::mv(e));
              gone = true;
            });
  co_return gone;
}

}  // namespace

void NodeDrainer::report(kj::StringPtr state, kj::String message) {
  current.state = state;
  current.message = kj::mv(message);
  changed();
}

void NodeDrainer::warn(kj::String line) {
  log::warn("cannot evict a pod", {{"error", line}});
  current.warnings.add(kj::mv(line));
  changed();
}

void NodeDrainer::removePod(kj::StringPtr id) {
  kj::Vector<kj::String> rest;
  for (auto& pod : current.pods) {
    if (pod != id) rest.add(kj::mv(pod));
  }
  current.pods = kj::mv(rest);
  changed();
}

kj::Own<SharedKube> NodeDrainer::requireClient() {
  auto found = client();
  KJ_IF_MAYBE (kubernetes, found.tryGet<kj::Own<SharedKube>>()) return kj::mv(*kubernetes);
  fail(ErrorKind::kUnavailable, found.get<kj::String>());
}

// Retries until it succeeds, at most for kCordonTimeout.
kj::Promise<void> NodeDrainer::retry(kj::Function<kj::Promise<void>()> attempt) {
  Backoff backoff(kRetryPace);
  auto end = timer.now() + kCordonTimeout;
  for (;;) {
    kj::Maybe<kj::Exception> wrong;
    auto tried =
        within(timer, kj::max(end - timer.now(), 0 * kj::SECONDS), kj::evalNow(attempt),
               kj::str("no answer from Kubernetes within ", kCordonTimeout / kj::SECONDS, " s"));
    co_await tried.catch_([&](kj::Exception&& e) { wrong = kj::mv(e); });
    KJ_IF_MAYBE (e, wrong) {
      auto kind = kindOf(*e);
      bool final = kind == ErrorKind::kNotFound || kind == ErrorKind::kPermissionDenied;
      auto pause = backoff.next(random());
      if (final || timer.now() + pause >= end) kj::throwFatalException(kj::mv(*e));
      co_await timer.afterDelay(pause);
    } else {
      co_return;
    }
  }
}

kj::Promise<void> NodeDrainer::cordon(kj::StringPtr nodename) {
  auto kubernetes = requireClient();
  auto node = co_await (**kubernetes).get(drainedNodes(), "", nodename);
  auto plan = planCordon(node);
  KJ_IF_MAYBE (patch, plan) {
    co_await (**kubernetes)
        .patch(kube::Patch::kMerge, drainedNodes(), "", nodename, *patch, kFieldManager)
        .ignoreResult();
    log::info("cordoned", {{"node", nodename}});
  }
}

kj::Promise<void> NodeDrainer::drain(kj::StringPtr nodename) {
  current = DrainProgress();
  report("cordoning", kj::str("cordoning the node"));
  kj::Maybe<kj::Exception> wrong;
  co_await retry([this, nodename]() { return cordon(nodename); })
      .then([&]() {
        return within(
            timer, kDrainTimeout,
            kj::evalNow([&]() { return evictAll(requireClient(), nodename); }),
            kj::str("not all pods have left within ", kDrainTimeout / kj::MINUTES, " minutes"));
      })
      .catch_([&](kj::Exception&& e) { wrong = kj::mv(e); });
  KJ_IF_MAYBE (e, wrong) {
    log::warn("cannot drain the node", {{"node", nodename}, {"error", messageOf(*e)}});
    report("failed", messageOf(*e));
  } else {
    report("done", current.warnings.empty()
                       ? kj::str("drained")
                       : kj::str("drained but for ", current.pods.size(), " pods"));
  }
}

kj::Promise<void> NodeDrainer::evictAll(kj::Own<SharedKube> kubernetes, kj::StringPtr nodename) {
  report("draining", kj::str("reading the pods of the node"));
  kube::KubeClient::Listed pods;
  co_await retry([&]() {
    auto field = kj::str("spec.nodeName=", nodename);
    return (**kubernetes)
        .list(drainedPods(), "", {.labels = "", .fields = field})
        .then([&](kube::KubeClient::Listed listed) { pods = kj::mv(listed); });
  });
  auto plan = planDrain(pods.items);
  for (auto& pod : plan.stay)
    log::info("the pod stays", {{"pod", pod.id}, {"message", pod.reason}});
  kj::Vector<kj::Promise<void>> leaving;
  for (auto& pod : plan.leave) current.pods.add(pod.id());
  report("draining", kj::str(plan.leave.size(), " pods are to leave"));
  for (auto& pod : plan.leave) {
    leaving.add(evict(*kubernetes, pod).catch_([this, &pod](kj::Exception&& e) {
      warn(kj::str("pod ", pod.id(), ": ", messageOf(e)));
    }));
  }
  co_await kj::joinPromises(leaving.releaseAsArray());
}

kj::Promise<void> NodeDrainer::evict(SharedKube& kubernetes, const LeavingPod& pod) {
  bool ending = pod.ending || co_await requestEviction(kubernetes, pod);
  if (ending) co_await awaitGone(kubernetes, pod);
  removePod(pod.id());
}

// False: the pod no longer exists.
kj::Promise<bool> NodeDrainer::requestEviction(SharedKube& kubernetes, const LeavingPod& pod) {
  using Outcome = kube::KubeClient::Eviction::Outcome;
  for (unsigned failures = 0;;) {
    kj::Maybe<kube::KubeClient::Eviction> answer;
    kj::Maybe<kj::Exception> wrong;
    co_await (*kubernetes)
        .evict(pod.nameSpace, pod.name, pod.uid, kEvictionGrace)
        .then([&](kube::KubeClient::Eviction got) { answer = kj::mv(got); },
              [&](kj::Exception&& e) { wrong = kj::mv(e); });
    KJ_IF_MAYBE (e, wrong) {
      auto kind = kindOf(*e);
      bool passes = kind == ErrorKind::kUnavailable || kind == ErrorKind::kDeadlineExceeded;
      if (!passes || ++failures == kMostTries) kj::throwFatalException(kj::mv(*e));
    } else KJ_IF_MAYBE (got, answer) {
      if (got->outcome == Outcome::kGoing) co_return true;
      if (got->outcome == Outcome::kGone) co_return false;
      if (current.message != got->message) report("draining", kj::mv(got->message));
    }
    co_await timer.afterDelay(kEvictionPause);
    if (co_await isGone(kubernetes, pod)) co_return false;
  }
}

kj::Promise<void> NodeDrainer::awaitGone(SharedKube& kubernetes, const LeavingPod& pod) {
  auto end = timer.now() + kGoneTimeout;
  for (;;) {
    if (co_await isGone(kubernetes, pod)) co_return;
    if (timer.now() >= end) {
      fail(ErrorKind::kDeadlineExceeded,
           kj::str("has not ended within ", kGoneTimeout / kj::SECONDS, " s"));
    }
    co_await timer.afterDelay(kGoneLook);
  }
}

kj::Promise<void> NodeDrainer::uncordon(kj::StringPtr nodename) {
  current = DrainProgress();
  report("uncordoning", kj::str("waiting until the node is Ready"));
  Backoff backoff(kRetryPace);
  for (;;) {
    bool done = false;
    co_await kj::evalNow([&]() { return uncordonIfReady(nodename); })
        .then([&](bool result) { done = result; },
              [&](kj::Exception&& e) { report("uncordoning", messageOf(e)); });
    if (done) co_return;
    co_await timer.afterDelay(backoff.next(random()));
  }
}

// False: retry later.
kj::Promise<bool> NodeDrainer::uncordonIfReady(kj::StringPtr nodename) {
  auto kubernetes = requireClient();
  auto node = co_await (**kubernetes).get(drainedNodes(), "", nodename);
  auto plan = planUncordon(node);
  KJ_IF_MAYBE (patch, plan) {
    if (!stateOf(node).ready) {
      report("uncordoning", kj::str("waiting until the node is Ready"));
      co_return false;
    }
    co_await (**kubernetes)
        .patch(kube::Patch::kMerge, drainedNodes(), "", nodename, *patch, kFieldManager)
        .ignoreResult();
    log::info("uncordoned", {{"node", nodename}});
    report("done", kj::str("uncordoned"));
  } else {
    report("done", kj::str("the node was not cordoned by a drain"));
  }
  co_return true;
}

}  // namespace talos::kubed
