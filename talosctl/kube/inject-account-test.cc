#include "talosctl/kube/inject-account.h"

#include <gtest/gtest.h>

#include "common/base/error.h"
#include "common/kube/json-yaml.h"

namespace talos::talosctl {
namespace {

std::string injected(kj::StringPtr text,
                     std::initializer_list<kj::StringPtr> roles = {"os:reader"}) {
  auto list = KJ_MAP(role, roles) {
    return kj::str(role);
  };
  std::string all;
  auto failure = kj::runCatchingExceptions([&] {
    for (auto& document : injectAccounts(kube::readYaml(text, "test"), list).documents) {
      all += document.dump() + "\n";
    }
  });
  KJ_IF_MAYBE (e, failure) return messageOf(*e).cStr();
  return all;
}

constexpr const char* kAccount =
    R"({"apiVersion":"talos.dev/v1alpha1","kind":"ServiceAccount","metadata":)"
    R"({"name":"web-talos-secrets","namespace":"apps"},"spec":{"roles":["os:reader"]}})";
constexpr const char* kMounts =
    R"("volumeMounts":[{"mountPath":"/var/run/secrets/talos.dev","name":"talos-secrets"}])";
constexpr const char* kVolumes =
    R"("volumes":[{"name":"talos-secrets","secret":{"secretName":"web-talos-secrets"}}])";

// Catches: a container that does not find its client configuration, an account in another
// namespace, a second volume when the injection is repeated.
TEST(InjectAccounts, GivesEachContainerTheSecret) {
  auto once = injected(
      "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: apps}\n"
      "spec: {containers: [{name: a}, {name: b}], initContainers: [{name: c}]}\n");
  EXPECT_EQ(once, std::string(R"({"apiVersion":"v1","kind":"Pod","metadata":)"
                              R"({"name":"web","namespace":"apps"},"spec":{"containers":)"
                              R"([{"name":"a",)") +
                      kMounts + R"(},{"name":"b",)" + kMounts +
                      R"(}],"initContainers":[{"name":"c",)" + kMounts + "}]," + kVolumes + "}}\n" +
                      kAccount + "\n");
  auto object = once.substr(0, once.find('\n'));
  EXPECT_EQ(injected(object.c_str()), once);
}

// Catches: a kind that runs pods and is left out; another group's kind of the same name.
TEST(InjectAccounts, KnowsTheKindsThatRunPods) {
  auto count = [](kj::StringPtr version, kj::StringPtr kind, kj::StringPtr spec) {
    auto text = injected(kj::str("apiVersion: ", version, "\nkind: ", kind,
                                 "\nmetadata: {name: web, namespace: apps}\nspec: ", spec, "\n"));
    return text.find(kMounts) != std::string::npos && text.find(kAccount) != std::string::npos;
  };
  constexpr auto kTemplate = "{template: {spec: {containers: [{name: a}]}}}"_kj;
  for (auto kind : {"Deployment", "DaemonSet", "StatefulSet", "ReplicaSet"}) {
    EXPECT_TRUE(count("apps/v1", kind, kTemplate)) << kind;
  }
  EXPECT_TRUE(count("batch/v1", "Job", kTemplate));
  EXPECT_TRUE(count("batch/v1", "CronJob", kj::str("{jobTemplate: {spec: ", kTemplate, "}}")));
  EXPECT_FALSE(count("example.org/v1", "Deployment", kTemplate));
  EXPECT_FALSE(count("v1", "Service", "{ports: []}"));
  auto list = injected(
      "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: web, "
      "namespace: apps}, spec: {containers: [{name: a}]}}\n");
  EXPECT_NE(list.find(kAccount), std::string::npos) << list;
}

// Catches: a foreign volume that counts as the account's; an incomplete object.
TEST(InjectAccounts, RefusesWhatCannotHaveIt) {
  EXPECT_EQ(injected("apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers:\n"
                     "  - {name: a, volumeMounts: [{name: x, mountPath: "
                     "/var/run/secrets/talos.dev}]}\n"),
            "Pod web: the container a has another volume at /var/run/secrets/talos.dev");
  EXPECT_EQ(injected("apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n"
                     "spec: {containers: [], volumes: [{name: talos-secrets, emptyDir: {}}]}\n"),
            "Pod web: has another volume of the name talos-secrets");
  EXPECT_EQ(injected("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {}\n"),
            "Deployment web: has no \"template\" that describes its pods");
  EXPECT_EQ(injected("apiVersion: v1\nkind: Pod\nmetadata: {generateName: x}\n"
                     "spec: {containers: []}\n"),
            "Pod: has no metadata.name, after which the account is named");
  EXPECT_EQ(injected("- 1\n"), "a document is not an object of Kubernetes");
}

}  // namespace
}  // namespace talos::talosctl
