// link: kubed-nodes
// Any bytes as answers of an API server of Kubernetes, as a kubeconfig and as a manifest.
#include <kj/debug.h>

#include "common/kube/disruption-budgets.h"
#include "common/kube/drain-plan.h"
#include "common/kube/json-yaml.h"
#include "common/kube/kube-access.h"
#include "common/kube/kube-api.h"
#include "common/kube/manifest-objects.h"
#include "common/kube/survey.h"
#include "kubed/nodes/client-server.h"
#include "kubed/nodes/node-plan.h"
#include "kubed/nodes/serving-request.h"
#include "kubed/nodes/token-survey.h"
#include "tests/fuzz/fuzz-target.h"

namespace {

// Not an exception, which would count as a refusal.
void must(bool holds) {
  if (!holds) __builtin_trap();
}

// An object as every part of a survey, and its items as each.
void surveyOf(const talos::kube::Json& value) {
  using namespace talos::kube;
  SurveyObjects objects;
  auto take = [&](const Json& one) {
    objects.addVersion(one);
    objects.addNode(one);
    objects.addWorkload("DaemonSet", one);
    objects.addWorkload("Deployment", one);
    objects.addPod(one);
    objects.addEvent(one);
    objects.addService(one);
    objects.addEndpoints(one);
    objects.addEndpointSlice(one);
  };
  take(value);
  for (auto item : itemsAt(value, {"items"})) take(*item);
  capnp::MallocMessageBuilder message;
  auto survey = message.initRoot<talos::rpc::Survey>();
  objects.fill(survey);
  for (auto pod : survey.getPods()) must(pod.getMessage().size() <= kMostSurveyText + 3);
}

// An object as everything that may have a token.
void tokensOf(const talos::kube::Json& value) {
  talos::kubed::TokenSurvey tokens("key", 1'764'000'000);
  auto take = [&](const talos::kube::Json& one) {
    tokens.addApiServer(one);
    tokens.addSecret(one);
    tokens.addPod(one);
    (void)talos::kubed::unavailableApi(one);
  };
  take(value);
  for (auto item : talos::kube::itemsAt(value, {"items"})) take(*item);
  must(tokens.pods().names.size() <= talos::kubed::kMostTokenHolders);
  must(tokens.pods().names.empty() == (tokens.until() == 0));
}

}  // namespace

FUZZ_TARGET(kube) {
  using namespace talos;
  auto text = kj::heapString(reinterpret_cast<const char*>(data), size);
  auto attempt = [](kj::FunctionParam<void()> work) {
    (void)kj::runCatchingExceptions(kj::mv(work));
  };
  attempt([&]() {
    auto access = kube::readAccess(text, "f");
    must(access.host.size() > 0 && access.port > 0 && access.authority.size() > 0);
  });
  attempt([&]() { kube::readWatchEvent(text); });
  (void)kubed::keyIdOf(text);
  auto e = kube::errorOf(size > 0 ? 400 + data[0] : 400, "text", text, "x");
  for (char c : e.getDescription()) must(c == '\n' || (c >= ' ' || c < 0));
  attempt([&]() {
    auto value = kube::readJson(text, "x");
    auto again = kube::writeJson(value);
    must(kube::writeJson(kube::readJson(again, "x")) == again);
    surveyOf(value);
    tokensOf(value);
    (void)kube::resourceOf(value, kube::readApiVersion("v1"), "Pod");
    capnp::MallocMessageBuilder message;
    auto wanted = message.initRoot<rpc::NodeSpecSpec>();
    auto plan = kubed::planNode(wanted, value);
    KJ_IF_MAYBE (patch, plan.patch) {
      value.merge_patch(*patch);
      must(kubed::planNode(wanted, value).patch == nullptr);
    }
  });
  attempt([&]() {
    auto request = kubed::readServingRequest(kube::readJson(text, "x"));
    must(request.node.size() > 0 && !request.addresses.empty());
    must(request.addresses.size() <= kubed::kMostServingAddresses);
  });
  attempt([&]() {
    auto value = kube::readJson(text, "x");
    (void)kube::evictionVersionOf(value);
    kube::DrainPolicy policy{.daemonSets = kube::Choice::kRefuse, .finishedLeave = true};
    (void)kube::planDrain(kj::arrayPtr(&value, 1));
    (void)kube::planDrain(kj::arrayPtr(&value, 1), policy);
    (void)kube::appliesTo(value, "v1", value);
    for (auto by : {kube::CordonBy::kNode, kube::CordonBy::kUser}) {
      auto cordon = kube::planCordon(value, by);
      KJ_IF_MAYBE (patch, cordon) {
        value.merge_patch(*patch);
        must(kube::planCordon(value, by) == nullptr);
        must(kube::cordonedByItself(value) == (by == kube::CordonBy::kNode));
        value.merge_patch(KJ_ASSERT_NONNULL(kube::planUncordon(value, by)));
        must(kube::planUncordon(value, by) == nullptr);
      }
    }
  });
  attempt([&]() {
    kj::Vector<kube::ManifestText> manifests;
    manifests.add(kube::ManifestText{"05-x", text});
    for (auto& one : kube::objectsOf(kj::mv(manifests), "secret")) {
      auto yaml = kube::writeYaml(one.object);
      must(kube::writeJson(kube::readYaml(yaml, "x")[0]) == kube::writeJson(one.object));
    }
  });
  return 0;
}
