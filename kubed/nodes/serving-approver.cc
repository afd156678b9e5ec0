#include "kubed/nodes/serving-approver.h"

#include <algorithm>
#include <vector>

#include "common/base/error.h"
#include "common/base/node-layout.h"
#include "common/base/within.h"
#include "kubed/manifests/manifest-creation.h"
#include "kubed/nodes/client-server.h"

namespace talos::kubed {
namespace {

constexpr size_t kMostOpen = 5000;  // as many as Kubernetes has nodes

}  // namespace

ShownAt shownByApi(DialDependencies dialing) {
  return [dialing](kj::String address) {
    return chainAt(dialing, kj::mv(address), kApidPort).then([](kj::Vector<kj::String> chain) {
      return chain.empty() ? kj::String() : kj::mv(chain[0]);
    });
  };
}

kj::Promise<void> ServingApprover::run() {
  return WatchReconciler::run().exclusiveJoin(decideAgainAndAgain());
}

kj::Promise<kj::Maybe<WatchReconciler::Selection>> ServingApprover::select() {
  open.clear();
  return CertificateApprover::select();
}

void ServingApprover::drop(kj::StringPtr name) {
  for (auto& entry : open) {
    if (entry.value.name != name) continue;
    auto key = kj::str(entry.key);
    open.erase(key);
    return;
  }
}

void ServingApprover::take(const kube::Json& request, bool deleted) {
  auto name = kube::nameOf(request);
  if (deleted || !awaitsServingApproval(request)) return drop(name);
  auto user = kube::textAt(request, {"spec", "username"});
  Open fresh{.name = kj::str(name),
             .uid = kj::str(kube::textAt(request, {"metadata", "uid"})),
             .version = kj::str(kube::textAt(request, {"metadata", "resourceVersion"})),
             .created = kj::str(kube::textAt(request, {"metadata", "creationTimestamp"})),
             .request = nullptr,
             .error = {},
             .due = timer.now()};
  KJ_IF_MAYBE (known, open.find(user)) {
    // Times of this form sort like their texts.
    if (known->name != name && fresh.created < known->created) return;
    fresh.due = kj::min(known->due, timer.now() + first);
    if (known->name == name) {
      fresh.error = kj::mv(known->error);
      fresh.reported = known->reported;
    }
  } else if (open.size() >= kMostOpen) {
    return;
  }
  auto failure = kj::runCatchingExceptions([&] { fresh.request = readServingRequest(request); });
  KJ_IF_MAYBE (e, failure) leave(fresh, user, messageOf(*e));
  open.upsert(kj::str(user), kj::mv(fresh),
              [](Open& there, Open&& replacement) { there = kj::mv(replacement); });
}

kj::Promise<void> ServingApprover::publish() {
  woken.raise();
  return kj::READY_NOW;
}

// Notes the cause, once, and when to check the request again.
void ServingApprover::leave(Open& request, kj::StringPtr user, kj::String error) {
  request.pause =
      request.pause == 0 * kj::SECONDS ? first : kj::min(request.pause * 2, kLongestProof);
  request.due = timer.now() + request.pause;
  if (request.error == error) return;
  lines.warn("the request of a kubelet for its serving certificate is not approved", user, user,
             kj::str(request.name, ": ", error));
  request.error = kj::mv(error);
  request.reported = false;
}

kj::Maybe<ServingApprover::Open&> ServingApprover::find(const Candidate& candidate) {
  KJ_IF_MAYBE (found, open.find(candidate.key)) {
    if (found->name == candidate.name && found->version == candidate.version) return *found;
  }
  return nullptr;
}

// Returns the requests that are checked next, those that have waited longest first.
kj::Vector<ServingApprover::Candidate> ServingApprover::takeDue() {
  auto now = timer.now();
  std::vector<kj::TreeMap<kj::String, Open>::Entry*> waiting;
  for (auto& entry : open) {
    if (entry.value.request != nullptr && entry.value.due <= now) waiting.push_back(&entry);
  }
  std::stable_sort(waiting.begin(), waiting.end(),
                   [](auto* one, auto* other) { return one->value.due < other->value.due; });
  kj::Vector<Candidate> due;
  size_t calls = 0;
  for (auto* entry : waiting) {
    auto& one = entry->value;
    auto& request = KJ_ASSERT_NONNULL(one.request);
    calls += request.addresses.size();
    if (calls > kMostCalled) break;
    one.due = now + first;  // also for a request that replaces this one during the calls
    due.add(
        Candidate{kj::str(entry->key), kj::str(one.name), kj::str(one.version), request.clone()});
  }
  return due;
}

// Returns the time until the next check of a request that can be approved.
kj::Duration ServingApprover::untilDue() const {
  auto next = kLongestProof;
  for (auto& entry : open) {
    if (entry.value.request == nullptr) continue;
    next = kj::min(next, kj::max(entry.value.due - timer.now(), 0 * kj::SECONDS));
  }
  return next;
}

kj::Promise<void> ServingApprover::decideAgainAndAgain() {
  for (;;) {
    auto change = woken.next();
    // The watch detects a server that cannot be reached, and lists the requests again.
    if (kubernetes.get() != nullptr) {
      co_await decideDue();
      co_await reportLeft();
    }
    co_await change.exclusiveJoin(
        timer.afterDelay(kubernetes.get() == nullptr ? kLongestProof : untilDue()));
  }
}

kj::Promise<kj::String> ServingApprover::proofErrorAt(kj::StringPtr node, kj::StringPtr address,
                                                      kj::StringPtr authority) {
  kj::String error;
  co_await within(timer, kProofLimit, shown(kj::str(address)),
                  kj::str("no answer within ", kProofLimit / kj::SECONDS, " s"))
      .then([&](kj::String certificate) {
        KJ_IF_MAYBE (e, servingProofError(node, address, certificate, authority, clock.now())) {
          error = kj::mv(*e);
        }
      })
      .catch_([&](kj::Exception&& e) {
        error = kj::str("the API at ", address, " proves nothing: ", messageOf(e));
      });
  co_return kj::mv(error);
}

// Returns the first error; empty if all addresses are the node's.
kj::Promise<kj::String> ServingApprover::proofError(const ServingRequest& request,
                                                    kj::StringPtr authority) {
  kj::Vector<kj::Promise<kj::String>> calls;
  for (auto& address : request.addresses) {
    calls.add(proofErrorAt(request.node, address, authority));
  }
  auto errors = co_await kj::joinPromises(calls.releaseAsArray());
  for (auto& error : errors) {
    if (error.size() > 0) co_return kj::mv(error);
  }
  co_return kj::String();
}

kj::Promise<void> ServingApprover::decideDue() {
  auto due = takeDue();
  if (due.empty()) co_return;
  auto server = kj::addRef(*kubernetes);
  auto authority = kj::str(machineCa);
  kj::Vector<kj::Promise<kj::String>> checks;
  for (auto& candidate : due) checks.add(proofError(candidate.request, authority));
  auto errors = co_await kj::joinPromises(checks.releaseAsArray());
  for (auto i : kj::indices(due)) {
    auto error = kj::mv(errors[i]);
    if (error.size() == 0) {
      co_await approve(*server, due[i]).catch_([&](kj::Exception&& e) { error = messageOf(e); });
    }
    KJ_IF_MAYBE (request, find(due[i])) {
      if (error.size() > 0) {
        leave(*request, due[i].key, kj::mv(error));
      } else {
        open.erase(due[i].key);
      }
    }
  }
}

kj::Promise<void> ServingApprover::approve(SharedKube& server, const Candidate& candidate) {
  auto addresses = kj::strArray(candidate.request.addresses, ", ");
  auto message =
      kj::str("the machine API at ", addresses, " has shown that it is ", candidate.request.node);
  bool done = co_await CertificateApprover::approve(server, candidate.name, candidate.version,
                                                    "ShownByMachineApi", message);
  if (done && lines.admits(candidate.key)) {
    log::info(
        "approved the request of a kubelet for its serving certificate",
        {{"node", candidate.request.node}, {"request", candidate.name}, {"address", addresses}});
  }
}

// Makes the Events of requests that were left. A first failure may pass, or another control-plane
// node may have approved the request meanwhile.
kj::Promise<void> ServingApprover::reportLeft() {
  // The inputs may have changed while addresses were called.
  if (kubernetes.get() == nullptr) co_return;
  auto server = kj::addRef(*kubernetes);
  kj::Vector<kube::Json> events;
  for (auto& entry : open) {
    auto& one = entry.value;
    bool lasts = one.request == nullptr || one.pause > first;
    if (one.error.size() == 0 || one.reported || !lasts || events.size() >= kMostCalled) continue;
    events.add(leftOpenEvent(one.name, one.uid, one.error, clock.now()));
    one.reported = true;
  }
  for (auto& event : events) {
    // The log has the cause as well, so an Event that cannot be made is left out.
    co_await (**server)
        .create(kube::coreResource("events", "Event"), "default", event, kFieldManager)
        .ignoreResult()
        .catch_([](kj::Exception&&) {});
  }
}

}  // namespace talos::kubed
