#include "talosctl/upgrade-k8s/manifest-change.h"

#include <gmock/gmock.h>

#include "common/base/error.h"
#include "common/kube/test-kube-server.h"

namespace talos::talosctl {
namespace {

using kube::Json, kube::ModelKube;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr kj::StringPtr kPath = "/apis/apps/v1/namespaces/kube-system/daemonsets/web"_kj;

Json object(const char* text) {
  return kube::readJson(kj::StringPtr(text), "the test");
}

// Returns the object afterwards; "no" if the field was not found.
std::string without(const char* text, kj::StringPtr path) {
  auto value = object(text);
  return removeField(value, path) ? value.dump() : "no";
}

// Catches: a field of another manager that is overwritten, or a wrong field that is left out,
// because a path was not parsed as the API server writes it.
TEST(ManifestChange, FieldsAreLeftOutByTheirPaths) {
  EXPECT_EQ(without(R"({"a":{"b":1,"c":2}})", ".a.b"), R"({"a":{"c":2}})");
  EXPECT_EQ(without(R"({"l":[{"name":"x","v":1},{"name":"y","v":2}]})", ".l[name=\"y\"].v"),
            R"({"l":[{"name":"x","v":1},{"name":"y"}]})");
  EXPECT_EQ(without(R"({"l":[{"name":"x"},{"name":"y]"}]})", ".l[name=\"y]\"]"),
            R"({"l":[{"name":"x"}]})");
  EXPECT_EQ(without(R"({"p":[{"port":53,"protocol":"UDP"},{"port":53,"protocol":"TCP"}]})",
                    ".p[port=53,protocol=\"TCP\"].port"),
            R"({"p":[{"port":53,"protocol":"UDP"},{"protocol":"TCP"}]})");
  // A name with dots, and another name that is its beginning.
  EXPECT_EQ(without(R"({"m":{"a":{"io/x":1},"a.io/x":2}})", ".m.a.io/x"),
            R"({"m":{"a":{"io/x":1}}})");
  EXPECT_EQ(without(R"({"m":{"a.io/x":2,"a":{"io/x":1}}})", ".m.a.io/x"),
            R"({"m":{"a":{"io/x":1}}})");
  EXPECT_EQ(without(R"({"m":{"ab":1}})", ".m.a"), "no");
  for (auto path : {"", "a", ".b", ".a.c", ".a[0]", ".l[name=\"x\"", ".l[name=\"z\"]", ".l[x]",
                    ".l[=\"x\"]", "[", ".", ".l[name=\"x\"]x"}) {
    EXPECT_EQ(without(R"({"a":{"b":1},"l":[{"name":"x"}]})", path), "no") << path;
  }
}

// Catches: an upgrade that ends while pods of the earlier template run; an upgrade that waits
// forever for pods that the object does not request.
TEST(ManifestChange, ARolloutIsCompleteWhenAllPodsAreNew) {
  auto missing = [](const char* text) {
    return std::string(missingOfRollout(object(text)).cStr());
  };
  EXPECT_EQ(missing(R"({"kind":"ConfigMap"})"), "");
  EXPECT_EQ(missing(R"({"kind":"Deployment","metadata":{"generation":3},"spec":{"replicas":2},
      "status":{"observedGeneration":2,"replicas":2,"updatedReplicas":2,"availableReplicas":2}})"),
            "its controller has not seen the change");
  EXPECT_EQ(missing(R"({"kind":"Deployment","metadata":{"generation":3},"spec":{"replicas":2},
      "status":{"observedGeneration":3,"replicas":3,"updatedReplicas":2,"availableReplicas":2}})"),
            "2 of 2 pods are updated, 2 available");
  EXPECT_EQ(missing(R"({"kind":"Deployment","metadata":{"generation":3},"spec":{"replicas":0},
      "status":{"observedGeneration":3}})"),
            "");
  EXPECT_EQ(missing(R"({"kind":"DaemonSet","metadata":{"generation":1},"status":{
      "observedGeneration":1,"desiredNumberScheduled":3,"currentNumberScheduled":3,
      "updatedNumberScheduled":1,"numberAvailable":3}})"),
            "1 of 3 pods are updated, 3 available");
}

class ChangeObject : public testing::Test {
 protected:
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  ModelKube model{timer};
  kube::KubeClient client{timer, [] { return 0.5; }, model.dialer(), ModelKube::access()};

  ChangeObject() {
    model.addUsualKinds();
    model.put(kPath, object(R"({"apiVersion":"apps/v1","kind":"DaemonSet",
        "metadata":{"name":"web","namespace":"kube-system","generation":4,"managedFields":[{}]},
        "spec":{"image":"a","replicas":3},"status":{"ready":1}})"));
  }
  ~ChangeObject() noexcept override {}

  static kube::ManifestObject wanted(const char* spec, const char* name = "web") {
    Json one{{"apiVersion", "apps/v1"},
             {"kind", "DaemonSet"},
             {"metadata", {{"name", name}, {"namespace", "kube-system"}}},
             {"spec", object(spec)}};
    return {kj::str("11-x"), kj::mv(one)};
  }
  ObjectChange change(const kube::ManifestObject& one, bool rehearsal) {
    return changeObject(client, one, rehearsal).wait(scope);
  }
  std::vector<std::string> patches() {
    std::vector<std::string> all;
    for (auto& one : model.asked) {
      if (one.method != "PATCH") continue;
      EXPECT_EQ(one.contentType, "application/apply-patch+yaml");
      all.push_back(one.path.substr(one.path.find('?')) + " " + one.body["spec"].dump());
    }
    model.asked.clear();
    return all;
  }
  // Answers an apply without `force` with this conflict.
  void conflictAt(const char* manager, const char* field) {
    Json cause{{"reason", "FieldManagerConflict"},
               {"message", std::string("conflict with \"") + manager + "\" using apps/v1"},
               {"field", field}};
    Json status{{"kind", "Status"},
                {"status", "Failure"},
                {"reason", "Conflict"},
                {"code", 409},
                {"message", "Apply failed with 1 conflict"},
                {"details", {{"causes", Json::array({cause})}}}};
    model.instead = [body = status.dump()](auto& asked) -> kj::Maybe<ModelKube::Reply> {
      if (asked.method != "PATCH" || asked.path.find("force") != std::string::npos) return nullptr;
      return ModelKube::Reply{409, body, ""};
    };
  }
};

// Catches: an object that is written although nothing would change; a rehearsal that writes; a
// difference that consists only of the API server's own data.
TEST_F(ChangeObject, IsAppliedOnlyWhenItDiffers) {
  auto same = wanted(R"({"image":"a"})");
  EXPECT_FALSE(change(same, false).changes);
  EXPECT_THAT(patches(), ElementsAre("?fieldManager=talos&dryRun=All {\"image\":\"a\"}"));
  auto other = wanted(R"({"image":"b"})");
  auto rehearsed = change(other, true);
  EXPECT_EQ(rehearsed.object, "DaemonSet kube-system/web"_kj);
  EXPECT_TRUE(rehearsed.changes);
  EXPECT_THAT(rehearsed.diff.cStr(), HasSubstr("-  image: a\n+  image: b\n"));
  for (auto own : {"generation", "managedFields", "resourceVersion", "ready"}) {
    EXPECT_THAT(rehearsed.diff.cStr(), Not(HasSubstr(own)));
  }
  EXPECT_EQ(patches().size(), 1u);
  EXPECT_TRUE(change(other, false).changes);
  EXPECT_THAT(patches(), ElementsAre("?fieldManager=talos&dryRun=All {\"image\":\"b\"}",
                                     "?fieldManager=talos&force=true {\"image\":\"b\"}"));
  EXPECT_TRUE(change(wanted("{}", "away"), false).missing);
  EXPECT_EQ(patches().size(), 0u);
}

// Catches: an administrator's setting that an upgrade reverts; an object that stays old because
// kubed created it under the same name; a path that cannot be left out and is overwritten by force.
TEST_F(ChangeObject, FieldsOfOthersStay) {
  auto other = wanted(R"({"image":"b","replicas":2})");
  conflictAt("kubectl-edit", ".spec.replicas");
  auto changed = change(other, false);
  EXPECT_TRUE(changed.changes);
  ASSERT_EQ(changed.kept.size(), 1u);
  EXPECT_EQ(changed.kept[0], ".spec.replicas by kubectl-edit"_kj);
  EXPECT_EQ(patches().back(), "?fieldManager=talos&force=true {\"image\":\"b\"}");

  conflictAt("talos", ".spec.replicas");
  auto own = change(other, false);
  EXPECT_EQ(own.kept.size(), 0u);
  EXPECT_EQ(patches().back(), "?fieldManager=talos&force=true {\"image\":\"b\",\"replicas\":2}");

  conflictAt("kubectl-edit", ".spec.strange[0]");
  auto left = change(wanted(R"({"image":"c"})"), false);
  EXPECT_FALSE(left.changes);
  EXPECT_EQ(left.kept.size(), 1u);
  EXPECT_EQ(patches().size(), 1u);
}

// Catches: a conflict of another kind that is taken for a field conflict.
TEST_F(ChangeObject, AnotherConflictIsAnError) {
  model.instead = [](auto& asked) -> kj::Maybe<ModelKube::Reply> {
    if (asked.method != "PATCH") return nullptr;
    return ModelKube::Reply{409, R"({"kind":"Status","reason":"Conflict","message":"changed"})",
                            ""};
  };
  auto failed = kj::runCatchingExceptions([&]() { change(wanted(R"({"image":"b"})"), false); });
  EXPECT_EQ(kindOf(KJ_ASSERT_NONNULL(failed)), ErrorKind::kConflict);
}

// Catches: a Secret in a terminal.
TEST_F(ChangeObject, ValuesOfSecretsAreNotShown) {
  model.put("/api/v1/namespaces/default/secrets/s", object(R"({"apiVersion":"v1","kind":"Secret",
      "metadata":{"name":"s","namespace":"default"},"data":{"k":"old"}})"));
  kube::ManifestObject secret{
      kj::str("11-x"),
      object(R"({"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"data":{"k":"new"}})")};
  auto changed = change(secret, true);
  EXPECT_TRUE(changed.changes);
  EXPECT_THAT(changed.diff.cStr(), Not(HasSubstr("old")));
  EXPECT_THAT(changed.diff.cStr(), Not(HasSubstr("new")));
}

}  // namespace
}  // namespace talos::talosctl
