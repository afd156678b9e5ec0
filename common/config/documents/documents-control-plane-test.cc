// The documents of the control plane.
#include <gmock/gmock.h>

#include "common/config/documents/test-documents.h"

namespace talos::config {
namespace {

using testing::HasSubstr;

constexpr const char* kPolicy =
    "kind: KubeAuditPolicyConfig, configuration: {apiVersion: audit.k8s.io/v1, kind: Policy, "
    "rules: [{level: Request}]}";
constexpr const char* kPlugin =
    "kind: KubeAdmissionControlConfig, name: EventRateLimit, configuration: {kind: Configuration, "
    "limits: []}";
constexpr const char* kAuthorizer = "kind: KubeAuthorizerConfig, name: node, type: Node";
constexpr const char* kScheduler =
    "kind: KubeSchedulerConfig, image: 'r/s:v1.34.4', enabled: false, extraArgs: {v: 4}, env: {A: "
    "b}, resources: {limits: {cpu: 2}}, config: {profiles: []}";

// Catches: a document whose key does not reach the control plane, or reaches it under another name;
// an authorizer before those of the documents.
TEST(ControlPlaneDocuments, SetTheKeysOfTheComponents) {
  auto webhook = "kind: KubeAuthorizerConfig, name: office, type: Webhook, webhook: {timeout: 3s}";
  auto text = mainDocument() + oneDocument(kPolicy) + oneDocument(kPlugin) +
              oneDocument(kAuthorizer) + oneDocument(webhook) + oneDocument(kScheduler);
  EXPECT_EQ("", problemsIn(text));
  auto config = parsed(text);
  auto api = config.get().getCluster().getApiServer();
  EXPECT_EQ(AuditLevel::REQUEST, api.getAuditPolicy().getRules()[0].getLevel());
  ASSERT_EQ(1u, api.getAdmissionControl().size());
  auto plugin = api.getAdmissionControl()[0];
  EXPECT_STREQ("EventRateLimit", plugin.getName().cStr());
  EXPECT_STREQ("Configuration", plugin.getConfiguration().getKind().cStr());
  EXPECT_STREQ("limits", plugin.getConfiguration().getOthers()[0].getKey().cStr());
  ASSERT_EQ(2u, api.getAuthorizationConfig().size());
  EXPECT_STREQ("node", api.getAuthorizationConfig()[0].getName().cStr());
  EXPECT_STREQ("timeout", api.getAuthorizationConfig()[1].getWebhook()[0].getKey().cStr());
  EXPECT_TRUE(api.getOnlyGivenAuthorizers());
  auto scheduler = config.get().getCluster().getScheduler();
  EXPECT_STREQ("r/s:v1.34.4", scheduler.getImage().cStr());
  EXPECT_STREQ("v", scheduler.getExtraArgs()[0].getKey().cStr());
  EXPECT_STREQ("A", scheduler.getEnv()[0].getKey().cStr());
  EXPECT_STREQ("cpu", scheduler.getResources().getLimits()[0].getKey().cStr());
  EXPECT_STREQ("profiles", scheduler.getConfig().getOthers()[0].getKey().cStr());
  EXPECT_TRUE(config.get().getMachine().getControlPlane().getScheduler().getDisabled());
}

// Catches: two settings of one thing, of which one would be lost; a document of a control plane on
// a worker.
TEST(ControlPlaneDocuments, AreRefusedBesideTheirKeys) {
  struct Row {
    const char *key, *document, *problem;
  };
  const Row rows[] = {
      {"cluster: {apiServer: {auditPolicy: {apiVersion: audit.k8s.io/v1, kind: Policy, rules: "
       "[{level: None}]}}}\n",
       kPolicy, "KubeAuditPolicyConfig: cluster.apiServer.auditPolicy is set as well; remove one"},
      {"cluster: {apiServer: {admissionControl: [{name: A}]}}\n", kPlugin,
       "KubeAdmissionControlConfig[EventRateLimit]: cluster.apiServer.admissionControl is set as"},
      {"cluster: {apiServer: {authorizationConfig: [{name: rbac, type: RBAC}]}}\n", kAuthorizer,
       "KubeAuthorizerConfig[node]: cluster.apiServer.authorizationConfig is set as well"},
      {"cluster: {scheduler: {extraArgs: {v: 4}}}\n", kScheduler,
       "KubeSchedulerConfig: cluster.scheduler is set as well"},
      {"  controlPlane: {scheduler: {disabled: true}}\n", kScheduler,
       "KubeSchedulerConfig: machine.controlPlane.scheduler is set as well"},
  };
  for (auto& row : rows) {
    EXPECT_THAT(problemsIn(mainDocument() + row.key + oneDocument(row.document)),
                HasSubstr(row.problem));
  }
  for (auto document : {kPolicy, kPlugin, kAuthorizer, kScheduler}) {
    EXPECT_THAT(problemsIn(mainDocument("", "worker") + oneDocument(document)),
                HasSubstr("only control-plane nodes have such a document; remove it"));
  }
}

// Catches: a mistake that is reported in the main document, or not at all.
TEST(ControlPlaneDocuments, MistakesAreFoundInThem) {
  const std::pair<const char*, const char*> rows[] = {
      {"kind: KubeAuditPolicyConfig", "KubeAuditPolicyConfig.configuration: required key is"},
      {"kind: KubeAuditPolicyConfig, configuration: {apiVersion: audit.k8s.io/v1, kind: Policy, "
       "rules: []}",
       "KubeAuditPolicyConfig.configuration.rules: the policy has no rules"},
      {"kind: KubeAdmissionControlConfig", "KubeAdmissionControlConfig.name: required key"},
      {"kind: KubeAdmissionControlConfig, name: PodSecurity, configuration: {kind: A}",
       "KubeAdmissionControlConfig[PodSecurity].configuration.kind: \"A\" is not the kind"},
      {"kind: KubeAuthorizerConfig, name: a, type: Hook", "KubeAuthorizerConfig[a].type: \"Hook\""},
      {"kind: KubeAuthorizerConfig, name: a, type: Webhook",
       "KubeAuthorizerConfig[a].webhook: the settings of the webhook are missing"},
      {"kind: KubeSchedulerConfig", "KubeSchedulerConfig.image: required key is missing"},
      {"kind: KubeSchedulerConfig, image: a, resources: {limits: {gpu: 1}}",
       "KubeSchedulerConfig.resources.limits.gpu: \"gpu\" is not a resource"},
  };
  for (auto& [document, problem] : rows) {
    EXPECT_THAT(problemsIn(mainDocument() + "cluster: {}\n" + oneDocument(document)),
                HasSubstr(problem));
  }
}

}  // namespace
}  // namespace talos::config
