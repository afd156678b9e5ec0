#include "kubed/nodes/node-drainer.h"

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/within.h"
#include "kubed/manifests/manifest-creation.h"
#include "kubed/manifests/manifest-reconciler.h"
#include "kubed/nodes/node-plan.h"

namespace talos::kubed {
namespace {

kube::Resource drainedNodes() {
  return kube::coreResource("nodes", "Node", false);
}
kube::Resource drainedPods() {
  return kube::coreResource("pods", "Pod");
}

}  // namespace

void NodeDrainer::report(kj::StringPtr state, kj::String message) {
  current.state = state;
  current.message = kj::mv(message);
  changed();
}

void NodeDrainer::refused(const kube::LeavingPod& pod, kj::StringPtr message) {
  if (current.message != message) report("draining", kj::str(message));
}

void NodeDrainer::gone(const kube::LeavingPod& pod) {
  auto id = pod.id();
  kj::Vector<kj::String> rest;
  for (auto& one : current.pods) {
    if (one != id) rest.add(kj::mv(one));
  }
  current.pods = kj::mv(rest);
  changed();
}

void NodeDrainer::failed(const kube::LeavingPod& pod, kj::StringPtr error) {
  auto line = kj::str("pod ", pod.id(), ": ", error);
  log::warn("cannot evict a pod", {{"error", line}});
  current.warnings.add(kj::mv(line));
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
  auto plan = kube::planCordon(node, kube::CordonBy::kNode);
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
  auto plan = kube::planDrain(pods.items);
  for (auto& pod : plan.stay)
    log::info("the pod stays", {{"pod", pod.id}, {"message", pod.reason}});
  for (auto& pod : plan.leave) current.pods.add(pod.id());
  report("draining", kj::str(plan.leave.size(), " pods are to leave"));
  kube::EvictionOptions options{.grace = kEvictionGrace, .goneTimeout = kGoneTimeout};
  co_await kube::evictPods(timer, **kubernetes, plan.leave, options, *this);
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

// Returns false if the caller must retry later.
kj::Promise<bool> NodeDrainer::uncordonIfReady(kj::StringPtr nodename) {
  auto kubernetes = requireClient();
  auto node = co_await (**kubernetes).get(drainedNodes(), "", nodename);
  auto plan = kube::planUncordon(node, kube::CordonBy::kNode);
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
