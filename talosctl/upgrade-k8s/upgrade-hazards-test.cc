#include "talosctl/upgrade-k8s/upgrade-hazards.h"

#include <gmock/gmock.h>

namespace talos::talosctl {
namespace {

using kube::readJson;
using testing::HasSubstr;

kj::Vector<DeprecatedApi> requestedOf(kj::StringPtr metrics) {
  kj::Vector<DeprecatedApi> apis;
  addRequested(apis, metrics, "10.5.0.2");
  return apis;
}

// Catches: another metric that is taken for this one; a count of zero; a version that no release
// removes; an API server that is named twice; a line that ends in the middle.
TEST(UpgradeK8sHazards, RequestsOfDeprecatedApis) {
  auto metrics = R"(# HELP apiserver_requested_deprecated_apis [STABLE] Gauge of deprecated APIs
# TYPE apiserver_requested_deprecated_apis gauge
apiserver_requested_deprecated_apis{group="apps",removed_release="1.16",resource="deployments",subresource="scale",version="v1beta1"} 1
apiserver_requested_deprecated_apis{group="",removed_release="",resource="endpoints",subresource="",version="v1"} 1
apiserver_requested_deprecated_apis{group="policy",removed_release="1.25",resource="podsecuritypolicies",subresource="",version="v1beta1"} 0
apiserver_requested_deprecated_apis{group="a\"b",removed_release="1.40",resource="things",subresource="",version="v1"} 1
apiserver_request_total{group="apps",removed_release="1.16",resource="x",version="v1"} 1
)"_kj;
  auto apis = requestedOf(metrics);
  addRequested(apis, metrics, "10.5.0.4");
  addRequested(apis, metrics, "10.5.0.4");
  ASSERT_EQ(apis.size(), 2u);
  EXPECT_EQ(apis[0].name(), "deployments/scale of apps/v1beta1"_kj);
  EXPECT_EQ(kj::strArray(apis[0].servers, " "), "10.5.0.2 10.5.0.4"_kj);
  EXPECT_EQ(apis[0].removedIn.minor, 16u);
  EXPECT_EQ(apis[1].name(), "things of a\"b/v1"_kj);
  auto line = kj::heapString(metrics.slice(KJ_ASSERT_NONNULL(metrics.findFirst('\n')) + 1));
  for (size_t size = 0; size < line.size(); ++size) {
    EXPECT_LE(requestedOf(kj::heapString(line.slice(0, size))).size(), 2u);
  }
}

// Catches: objects that are listed although they were written in another version.
TEST(UpgradeK8sHazards, WritersOfAnObject) {
  auto object = readJson(R"({"metadata": {"name": "web", "namespace": "default", "managedFields": [
    {"manager": "kubectl", "apiVersion": "extensions/v1beta1"},
    {"manager": "helm", "apiVersion": "extensions/v1beta1"},
    {"manager": "kubectl", "apiVersion": "extensions/v1beta1", "subresource": "status"},
    {"manager": "argo", "apiVersion": "networking.k8s.io/v1"}, 7]}})"_kj,
                         "the test");
  auto in = kube::readApiVersion("extensions/v1beta1");
  EXPECT_EQ(kj::strArray(writersOf(object, in), " "), "kubectl helm"_kj);
  EXPECT_EQ(writersOf(object, kube::readApiVersion("v1")).size(), 0u);
}

struct WebhookCase {
  const char* name;
  const char* webhook;
  bool needed;
};
const WebhookCase kWebhooks[] = {
    {"all", R"("rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"],
      "resources": ["*/*"]}])",
     true},
    {"pods", R"("rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"],
      "resources": ["pods"], "scope": "Namespaced"}])",
     true},
    {"ignores its failures", R"("failurePolicy": "Ignore", "rules": [{"operations": ["*"],
      "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}])",
     false},
    {"another resource", R"("rules": [{"operations": ["*"], "apiGroups": [""],
      "apiVersions": ["v1"], "resources": ["secrets", "pods/exec"]}])",
     false},
    {"another operation", R"("rules": [{"operations": ["CONNECT"], "apiGroups": ["*"],
      "apiVersions": ["*"], "resources": ["*/*"]}])",
     false},
    {"not of kube-system", R"("namespaceSelector": {"matchExpressions": [{"operator": "NotIn",
      "key": "kubernetes.io/metadata.name", "values": ["kube-system"]}]}, "rules": [{
      "operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}])",
     false},
    {"of labelled namespaces", R"("namespaceSelector": {"matchLabels": {"guarded": "yes"}},
      "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"],
      "resources": ["pods"]}])",
     false},
    {"nodes, whatever the namespaces", R"("namespaceSelector": {"matchLabels": {"guarded": "yes"}},
      "rules": [{"operations": ["UPDATE"], "apiGroups": [""], "apiVersions": ["v1"],
      "resources": ["nodes/*"], "scope": "Cluster"}])",
     true},
    {"of some objects", R"("objectSelector": {"matchLabels": {"a": "b"}}, "rules": [{
      "operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}])",
     false},
    {"daemonsets", R"("objectSelector": {}, "rules": [{"operations": ["UPDATE"],
      "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["daemonsets"]}])",
     true},
    {"no rules", R"("rules": "none")", false},
};

// Catches: an upgrade that is refused for a webhook which it does not call; an upgrade that runs
// into a webhook which it does call.
TEST(UpgradeK8sHazards, WebhooksThatAnUpgradeNeeds) {
  auto labels = readJson(R"({"kubernetes.io/metadata.name": "kube-system"})"_kj, "the test");
  for (auto& one : kWebhooks) {
    auto text = kj::str(R"({"metadata": {"name": "policy"}, "webhooks": [{"name": "w.io",)",
                        R"("clientConfig": {"service": {"namespace": "guard", "name": "web"}},)",
                        one.webhook, "}]}");
    auto found = neededWebhooks(readJson(text, one.name), labels);
    EXPECT_EQ(found.size(), one.needed ? 1u : 0u) << one.name;
    if (found.empty()) continue;
    EXPECT_EQ(kj::str(found[0].configuration, " ", found[0].name, " ", found[0].nameSpace, " ",
                      found[0].service),
              "policy w.io guard web"_kj);
  }
  auto byUrl = readJson(R"({"webhooks": [{"clientConfig": {"url": "https://x"}, "rules": [{
    "operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}]}]})"_kj,
                        "the test");
  EXPECT_EQ(neededWebhooks(byUrl, labels).size(), 0u);
}

// Catches: a Service with only unready pods that counts as one that answers.
TEST(UpgradeK8sHazards, EndpointsThatAreReady) {
  auto ready = [](kj::StringPtr text) { return hasReadyEndpoint(readJson(text, "the test")); };
  EXPECT_TRUE(ready(R"({"subsets": [{}, {"addresses": [{"ip": "10.244.1.2"}]}]})"));
  EXPECT_FALSE(ready(R"({"subsets": [{"notReadyAddresses": [{"ip": "10.244.1.2"}]}]})"));
  EXPECT_FALSE(ready(R"({"metadata": {}})"));
}

// Catches: an upgrade that is refused for the removals of a later release; an upgrade that is not
// refused for its own removals.
TEST(UpgradeK8sHazards, TheReleaseThatRemovesAnApiIsTheOneThatIsRefused) {
  UpgradeHazards hazards;
  addRequested(hazards.apis,
               "apiserver_requested_deprecated_apis{group=\"policy\",removed_release=\"1.25\","
               "resource=\"podsecuritypolicies\",subresource=\"\",version=\"v1beta1\"} 1\n",
               "10.5.0.2");
  hazards.apis[0].objects.add(kj::str("web by kubectl"));
  hazards.notes.add(kj::str("10.5.0.4 was not asked"));
  auto later = describe(hazards, readRelease("1.24.9", "to"));
  EXPECT_TRUE(later.refusal == nullptr);
  ASSERT_EQ(later.notes.size(), 2u);
  EXPECT_EQ(later.notes[0],
            "for a later upgrade: podsecuritypolicies of policy/v1beta1, which Kubernetes 1.25 "
            "removes (requested of 10.5.0.2); written in it: web by kubectl"_kj);
  auto now = describe(hazards, readRelease("1.25.0", "to"));
  EXPECT_THAT(KJ_ASSERT_NONNULL(now.refusal).cStr(), HasSubstr("removes (requested of 10.5.0.2)"));
  EXPECT_EQ(now.notes.size(), 1u);
}

// Catches: a failed check that counts as a check without findings, or that hides the findings of
// another check.
TEST(UpgradeK8sHazards, WhatIsNotKnownIsRefusedToo) {
  UpgradeHazards hazards;
  hazards.unknown.add(kj::str("no API server says so"));
  auto refusalOf = [&] {
    return KJ_ASSERT_NONNULL(describe(hazards, readRelease("1.25.0", "to")).refusal);
  };
  EXPECT_EQ(refusalOf(),
            "Kubernetes 1.25.0 may break this cluster: no API server says so; nothing was changed, "
            "and --force goes on all the same"_kj);
  hazards.webhooks.add(SilentWebhook{kj::str("p"), kj::str("w"), kj::str("a"), kj::str("b")});
  auto both = refusalOf();
  EXPECT_THAT(both.cStr(), HasSubstr("would break this cluster: the webhook w of p"));
  EXPECT_THAT(both.cStr(), HasSubstr("; no API server says so; nothing was changed"));
}

}  // namespace
}  // namespace talos::talosctl
