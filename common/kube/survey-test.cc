#include "common/kube/survey.h"

#include <gtest/gtest.h>

#include "common/base/error.h"
#include "common/kube/test-kube-server.h"
#include "common/testing/virtual-time.h"

namespace talos::kube {
namespace {

Json surveyJson(kj::StringPtr text) {
  return readJson(text, "the test");
}

// Holds what was filled in.
class FilledSurvey {
 public:
  explicit FilledSurvey(SurveyObjects& objects) { objects.fill(message.initRoot<rpc::Survey>()); }
  rpc::Survey::Reader get() { return message.getRoot<rpc::Survey>().asReader(); }

 private:
  capnp::MallocMessageBuilder message;
};

template <typename List>
kj::String joined(List list) {
  kj::Vector<kj::StringPtr> texts;
  for (auto text : list) texts.add(text);
  return kj::strArray(texts, " ");
}

kj::String surveyedNode(kj::StringPtr text) {
  SurveyObjects objects;
  objects.addNode(surveyJson(text));
  FilledSurvey filled(objects);
  auto node = filled.get().getNodes()[0];
  return kj::str(node.getName(), "|", joined(node.getAddresses()), "|",
                 node.getReady() ? "ready" : "", "|", node.getReason(), ": ", node.getMessage(),
                 "|", node.getControlPlane() ? "control plane" : "", "|",
                 node.getUnschedulable() ? "unschedulable" : "", "|", joined(node.getTaints()), "|",
                 joined(node.getPressures()), "|", joined(node.getPodCidrs()), "|",
                 node.getKubeletVersion(), "|", node.getSince());
}

// Catches: a node that counts as ready although its readiness is unknown; an old or current label
// that is not recognized; a condition that is false but reported as a pressure.
TEST(SurveyOfNodes, ReadsReadinessTaintsAndPressures) {
  struct Case {
    kj::StringPtr object, expected;
  };
  constexpr Case kCases[] = {
      {R"({"metadata":{"name":"m1","labels":{"node-role.kubernetes.io/control-plane":""}},
          "spec":{"podCIDR":"10.244.0.0/24","podCIDRs":["10.244.0.0/24"],"unschedulable":true,
            "taints":[{"key":"a","value":"b","effect":"NoSchedule"},{"key":"c","effect":"NoExecute"}]},
          "status":{"addresses":[{"type":"Hostname","address":"m1"},
              {"type":"InternalIP","address":"10.5.0.2"},{"type":"InternalIP","address":"fd00::2"}],
            "nodeInfo":{"kubeletVersion":"v1.34.4"},
            "conditions":[{"type":"DiskPressure","status":"True","message":"full"},
              {"type":"MemoryPressure","status":"False","message":"enough"},
              {"type":"Ready","status":"True","reason":"KubeletReady","message":"posting",
               "lastTransitionTime":"2026-01-02T03:04:05Z"}]}})"_kj,
       "m1|10.5.0.2 fd00::2|ready|KubeletReady: posting|control plane|unschedulable|"
       "a=b:NoSchedule c:NoExecute|DiskPressure: full|10.244.0.0/24|v1.34.4|1767323045"_kj},
      {R"({"metadata":{"name":"w1","labels":{"node-role.kubernetes.io/master":""}},
          "spec":{"podCIDR":"10.244.1.0/24"},
          "status":{"conditions":[{"type":"Ready","status":"Unknown","reason":"NodeStatusUnknown"}]}})"_kj,
       "w1|||NodeStatusUnknown: |control plane||||10.244.1.0/24||0"_kj},
      {R"({"metadata":7,"spec":{"taints":{},"podCIDRs":[1]},"status":{"conditions":["x"],"addresses":null}})"_kj,
       "|||: |||||||0"_kj},
      {"[]"_kj, "|||: |||||||0"_kj},
  };
  for (auto& one : kCases) EXPECT_EQ(surveyedNode(one.object), one.expected) << one.object.cStr();
}

kj::String surveyedPod(kj::StringPtr text) {
  SurveyObjects objects;
  objects.addPod(surveyJson(text));
  FilledSurvey filled(objects);
  if (filled.get().getPods().size() == 0) return kj::str("left out");
  auto pod = filled.get().getPods()[0];
  return kj::str(pod.getReady() ? "ready" : "", "|", pod.getReason(), ": ", pod.getMessage(), "|",
                 pod.getContainer(), "|", pod.getRestarts(), "|", pod.getOwner(),
                 pod.getMirror() ? " mirror" : "", pod.getCheckpoint() ? " checkpoint" : "",
                 pod.getDeleted() ? " deleted" : "");
}

// Catches: the cause of a pod that does not come up taken from the wrong place, or lost; pods of
// users that are well, or done, sent along.
TEST(SurveyOfPods, ReadReasonsOfPodsThatAreNotReady) {
  struct Case {
    kj::StringPtr object, expected;
  };
  constexpr Case kCases[] = {
      {R"({"metadata":{"namespace":"kube-system","name":"a","deletionTimestamp":"2026-01-02T03:04:05Z",
            "annotations":{"kubernetes.io/config.mirror":"x","checkpointer.alpha.coreos.com/checkpoint-of":"y"},
            "ownerReferences":[{"kind":"X","name":"x"},{"kind":"Node","name":"m1","controller":true}]},
          "status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}],
            "containerStatuses":[{"restartCount":2},{"restartCount":3}],
            "initContainerStatuses":[{"restartCount":1}]}})"_kj,
       "ready|: ||6|Node/m1 mirror checkpoint deleted"_kj},
      {R"({"metadata":{"namespace":"a"},"status":{"phase":"Running",
          "conditions":[{"type":"Ready","status":"True"}]}})"_kj,
       "left out"_kj},
      {R"({"metadata":{"namespace":"a"},"status":{"phase":"Succeeded",
          "conditions":[{"type":"Ready","status":"False"}]}})"_kj,
       "left out"_kj},
      {R"({"metadata":{"namespace":"a"},"status":{"phase":"Pending","conditions":[
          {"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"no node"}]}})"_kj,
       "|Unschedulable: no node||0|"_kj},
      {R"({"metadata":{"namespace":"a"},"status":{"phase":"Failed","reason":"Evicted","message":"disk"}})"_kj,
       "|Evicted: disk||0|"_kj},
      {R"({"metadata":{"namespace":"a"},"status":{"phase":"Pending","containerStatuses":[
          {"name":"c","state":{"waiting":{"reason":"ImagePullBackOff","message":"Back-off"}}}]}})"_kj,
       "|ImagePullBackOff: Back-off|c|0|"_kj},
      {R"({"metadata":{"namespace":"a"},"status":{"phase":"Running","containerStatuses":[
          {"name":"good","ready":true,"state":{"running":{}}},
          {"name":"bad","restartCount":7,"state":{"waiting":{"reason":"CrashLoopBackOff","message":"back-off 5m"}},
           "lastState":{"terminated":{"exitCode":3,"message":"no config"}}}]}})"_kj,
       "|CrashLoopBackOff: back-off 5m; ended with exit status 3: no config|bad|7|"_kj},
      // The containers wait for the first one.
      {R"({"metadata":{"namespace":"a"},"status":{"phase":"Pending","initContainerStatuses":[
          {"name":"done","state":{"terminated":{"exitCode":0,"reason":"Completed"}}},
          {"name":"first","state":{"terminated":{"exitCode":1,"reason":"Error"}}}],
          "containerStatuses":[{"name":"c","state":{"waiting":{"reason":"PodInitializing"}}}]}})"_kj,
       "|Error: exit status 1|first|0|"_kj},
      {R"({"metadata":{"namespace":"a"},"status":{"phase":"Running","containerStatuses":[
          {"name":"c","ready":false,"state":{"running":{}}}]}})"_kj,
       "|NotReady: its readiness probe fails|c|0|"_kj},
      {R"({"metadata":{"namespace":"a"},"status":{"phase":"Running","conditions":[
          {"type":"Ready","status":"False","reason":"ReadinessGatesNotReady","message":"gate"}]}})"_kj,
       "|ReadinessGatesNotReady: gate||0|"_kj},
      {R"({"metadata":{"namespace":"a"},"status":{"containerStatuses":[5,{"restartCount":"x","state":[]}]}})"_kj,
       "|: ||0|"_kj},
  };
  for (auto& one : kCases) EXPECT_EQ(surveyedPod(one.object), one.expected) << one.object.cStr();
}

// Catches: a survey that a user's thousand broken pods make larger than an answer may be; a pod of
// the system that is left out for them.
TEST(SurveyOfPods, ThereAreNoMoreThanTheSchemaSays) {
  SurveyObjects objects;
  for (size_t i = 0; i < kMostOtherPods + 3; ++i) {
    objects.addPod(surveyJson(kj::str(R"({"metadata":{"namespace":"a","name":"p)", i, R"("}})")));
  }
  objects.addPod(surveyJson(R"({"metadata":{"namespace":"kube-system","name":"dns"}})"));
  FilledSurvey filled(objects);
  EXPECT_EQ(filled.get().getPods().size(), kMostOtherPods + 1);
  EXPECT_EQ(filled.get().getPods()[0].getName(), "dns");
  EXPECT_EQ(filled.get().getUnreadPods(), 3u);
}

// Catches: a text that is cut within a character, so that it is not valid UTF-8.
TEST(SurveyOfPods, LongTextsAreCutBetweenCharacters) {
  auto spaces = kj::str(kj::repeat('x', kMostSurveyText - 1));
  SurveyObjects objects;
  objects.addVersion(surveyJson(kj::str("{\"gitVersion\":\"", spaces, "ä\"}")));
  FilledSurvey filled(objects);
  EXPECT_EQ(filled.get().getVersion(), kj::str(spaces, "…"));
}

kj::String surveyedWorkload(kj::StringPtr kind, kj::StringPtr text) {
  SurveyObjects objects;
  objects.addWorkload(kind, surveyJson(text));
  FilledSurvey filled(objects);
  auto one = filled.get().getWorkloads()[0];
  return kj::str(one.getKind(), " ", one.getName(), " ", one.getApp(), " ", one.getReady(), "/",
                 one.getDesired(), " ", one.getMessage());
}

TEST(SurveyOfWorkloads, CountsAndComplaints) {
  EXPECT_EQ(
      surveyedWorkload("DaemonSet", R"({"metadata":{"name":"p","labels":{"k8s-app":"kube-proxy"}},
                "status":{"desiredNumberScheduled":3,"numberReady":2}})"),
      "DaemonSet p kube-proxy 2/3 "_kj);
  EXPECT_EQ(
      surveyedWorkload("Deployment", R"({"metadata":{"name":"d"},"spec":{"replicas":2},"status":{
                "readyReplicas":-4,"conditions":[{"type":"Progressing","status":"False","message":"slow"},
                {"type":"ReplicaFailure","status":"True","message":"quota"}]}})"),
      "Deployment d  0/2 quota"_kj);
  EXPECT_EQ(surveyedWorkload("ReplicaSet", R"({"metadata":{"name":"r"},"status":{"conditions":[
                {"type":"Progressing","status":"False","message":"slow"}]}})"),
            "ReplicaSet r  0/1 slow"_kj);
}

// Catches: a pod that was made again and gets the blame for the one before it.
TEST(SurveyOfEvents, AWarningIsAboutThePodOfItsTime) {
  SurveyObjects objects;
  auto addPod = [&](kj::StringPtr name, kj::StringPtr created) {
    objects.addPod(surveyJson(kj::str(R"({"metadata":{"namespace":"a","name":")", name,
                                      R"(","creationTimestamp":")", created, R"("}})")));
  };
  auto addWarning = [&](kj::StringPtr name) {
    objects.addEvent(
        surveyJson(kj::str(R"({"type":"Warning","lastTimestamp":"2026-01-01T00:00:05Z",)"
                           R"("involvedObject":{"kind":"Pod","namespace":"a","name":")",
                           name, R"("}})")));
  };
  addWarning("again");
  addPod("again", "2026-01-01T00:00:06Z");
  addPod("old", "2026-01-01T00:00:05Z");
  addWarning("old");
  addWarning("gone");
  FilledSurvey filled(objects);
  auto events = filled.get().getWarnings();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].getObject(), "Pod a/old");
  EXPECT_EQ(events[1].getObject(), "Pod a/gone");
}

// Catches: the oldest event kept instead of the newest; a time with a fraction that is refused.
TEST(SurveyOfEvents, TheNewestComeFirst) {
  SurveyObjects objects;
  auto add = [&](kj::StringPtr time, kj::StringPtr reason, kj::StringPtr type = "Warning") {
    objects.addEvent(surveyJson(
        kj::str(R"({"type":")", type, R"(","reason":")", reason, R"(",)", time,
                R"("count":3,"involvedObject":{"kind":"Pod","namespace":"a","name":"b"}})")));
  };
  for (unsigned i = 0; i < kMostSurveyEvents; ++i) {
    add(R"("lastTimestamp":"2026-01-01T00:00:00Z",)", "Old");
  }
  add(R"("eventTime":"2026-01-01T00:00:05.123456Z",)", "Second");
  add(R"("lastTimestamp":"2026-01-01T00:00:06Z",)", "First");
  add(R"("lastTimestamp":"2025-01-01T00:00:06Z",)", "TooOld");
  add(R"("lastTimestamp":"2026-01-01T00:00:09Z",)", "Fine", "Normal");
  FilledSurvey filled(objects);
  auto events = filled.get().getWarnings();
  ASSERT_EQ(events.size(), kMostSurveyEvents);
  EXPECT_EQ(events[0].getReason(), "First");
  EXPECT_EQ(events[1].getReason(), "Second");
  EXPECT_EQ(events[2].getReason(), "Old");
  EXPECT_EQ(events[kMostSurveyEvents - 1].getReason(), "Old");
  EXPECT_EQ(events[0].getTime() - events[1].getTime(), 1);
  EXPECT_EQ(events[0].getObject(), "Pod a/b");
  EXPECT_EQ(events[0].getCount(), 3u);
}

kj::String surveyedEnds(SurveyObjects& objects) {
  FilledSurvey filled(objects);
  auto one = filled.get().getEndpoints()[0];
  return kj::str(one.getService(), " ", one.getClusterIp(), " | ", joined(one.getReady()), " | ",
                 joined(one.getNotReady()));
}

// Catches: an endpoint whose readiness is unknown and that is taken for unready; IPv6 without
// brackets.
TEST(SurveyOfEndpoints, BothKindsOfObjectsSayTheSame) {
  SurveyObjects old, fresh;
  for (auto objects : {&old, &fresh}) {
    objects->addService(surveyJson(
        R"({"metadata":{"namespace":"kube-system","name":"kube-dns"},"spec":{"clusterIP":"10.96.0.10"}})"));
  }
  old.addEndpoints(
      surveyJson(R"({"metadata":{"namespace":"kube-system","name":"kube-dns"},"subsets":[
      {"addresses":[{"ip":"10.244.0.2"},{"ip":"fd00::2"}],"notReadyAddresses":[{"ip":"10.244.0.3"}],
       "ports":[{"port":53},{"port":53},{"port":9153},{"port":0},{"port":70000}]}]})"));
  fresh.addEndpointSlice(surveyJson(R"({"metadata":{"namespace":"kube-system","name":"kube-dns-x",
      "labels":{"kubernetes.io/service-name":"kube-dns"}},"endpoints":[
      {"addresses":["10.244.0.2"],"conditions":{"ready":true}},{"addresses":["fd00::2"]},
      {"addresses":["10.244.0.3"],"conditions":{"ready":false}}],
      "ports":[{"port":53},{"port":53},{"port":9153},{"port":"x"}]})"));
  auto expected =
      "kube-system/kube-dns 10.96.0.10 | 10.244.0.2:53 10.244.0.2:9153 [fd00::2]:53 "
      "[fd00::2]:9153 | 10.244.0.3:53 10.244.0.3:9153"_kj;
  EXPECT_EQ(surveyedEnds(old), expected);
  EXPECT_EQ(surveyedEnds(fresh), expected);
}

class SurveyReaderTest : public testing::Test {
 protected:
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  ModelKube model{timer};
  KubeClient client{timer, [] { return 0.0; }, model.dialer(), ModelKube::access()};
  bool hasVersion = true;

  SurveyReaderTest() {
    model.addUsualKinds();
    for (auto kind : {"services"_kj, "endpoints"_kj, "events"_kj}) {
      model.addKind(coreResource(kind, kind));
    }
    model.addKind(appsResource("deployments", "Deployment"));
    model.instead = [this](auto& asked) -> kj::Maybe<ModelKube::Reply> {
      if (!hasVersion) return ModelKube::Reply{503, "", ""};
      if (asked.path == "/version") return ModelKube::Reply{200, R"({"gitVersion":"v1.34.4"})", ""};
      return nullptr;
    };
    model.put("/api/v1/nodes/m1", surveyJson(R"({"metadata":{"name":"m1"}})"));
    model.put("/api/v1/namespaces/kube-system/pods/x",
              surveyJson(R"({"metadata":{"namespace":"kube-system","name":"x"}})"));
    model.put("/apis/apps/v1/namespaces/kube-system/daemonsets/d",
              surveyJson(R"({"metadata":{"namespace":"kube-system","name":"d"}})"));
    model.put("/api/v1/namespaces/a/events/e",
              surveyJson(R"({"metadata":{"name":"e"},"type":"Warning"})"));
    model.put("/api/v1/namespaces/default/services/kubernetes",
              surveyJson(R"({"metadata":{"namespace":"default","name":"kubernetes"}})"));
    model.put("/api/v1/namespaces/default/endpoints/kubernetes",
              surveyJson(R"({"metadata":{"namespace":"default","name":"kubernetes"},"subsets":[
                  {"addresses":[{"ip":"10.5.0.2"}],"ports":[{"port":6443}]}]})"));
  }
  ~SurveyReaderTest() noexcept override {}

  kj::String read() {
    auto message = readSurvey(timer, client).wait(scope);
    auto survey = message->getRoot<rpc::Survey>();
    kj::Vector<kj::String> parts;
    for (auto node : survey.getNodes()) parts.add(kj::str("node ", node.getName()));
    for (auto one : survey.getWorkloads()) parts.add(kj::str(one.getKind(), " ", one.getName()));
    for (auto pod : survey.getPods()) parts.add(kj::str("pod ", pod.getName()));
    for (auto one : survey.getEndpoints()) {
      parts.add(kj::str(one.getService(), " ", joined(one.getReady().asReader())));
    }
    for (auto one : survey.getBudgets()) {
      parts.add(kj::str("budget ", one.getName(), " of ", one.getPods().size(), " pods"));
    }
    parts.add(kj::str(survey.getWarnings().size(), " warnings"));
    for (auto problem : survey.getProblems()) parts.add(kj::str(problem));
    return kj::str(survey.getServer(), " ", survey.getVersion(), ": ", kj::strArray(parts, ", "));
  }
};

// Catches: a part that is not read; a missing service reported as a problem.
TEST_F(SurveyReaderTest, AllPartsAreRead) {
  EXPECT_EQ(read(),
            "model:6443 v1.34.4: node m1, DaemonSet d, pod x, default/kubernetes 10.5.0.2:6443, "
            "1 warnings"_kj);
}

// Catches: budgets that are read after the pods that they are about, or by a name that only newer
// or older servers know.
TEST_F(SurveyReaderTest, BudgetsAreReadBeforePods) {
  model.addKind(Resource{kj::str("policy"), kj::str("v1beta1"), kj::str("poddisruptionbudgets"),
                         kj::str("PodDisruptionBudget")});
  model.put("/apis/policy/v1beta1/namespaces/a/poddisruptionbudgets/b",
            surveyJson(R"({"metadata":{"namespace":"a","name":"b"},
                "spec":{"selector":{"matchLabels":{"app":"x"}}}})"));
  model.put("/api/v1/namespaces/a/pods/p",
            surveyJson(R"({"metadata":{"namespace":"a","name":"p","labels":{"app":"x"},
                "ownerReferences":[{"kind":"ReplicaSet","controller":true}]},
                "spec":{"nodeName":"m1"},"status":{"phase":"Running","conditions":[
                  {"type":"Ready","status":"True"}]}})"));
  EXPECT_EQ(read(),
            "model:6443 v1.34.4: node m1, DaemonSet d, pod x, default/kubernetes 10.5.0.2:6443, "
            "budget b of 1 pods, 1 warnings"_kj);
}

// Catches: one part that fails and takes the others with it.
TEST_F(SurveyReaderTest, APartThatFailsIsAProblem) {
  model.instead = [](auto& asked) -> kj::Maybe<ModelKube::Reply> {
    if (asked.path == "/version") return ModelKube::Reply{200, "{}", ""};
    if (asked.path.starts_with("/api/v1/pods")) return ModelKube::Reply{500, "", ""};
    return nullptr;
  };
  EXPECT_EQ(read(),
            "model:6443 : node m1, DaemonSet d, default/kubernetes 10.5.0.2:6443, 1 warnings, "
            "Kubernetes at model:6443: cannot list pods: 500 Text"_kj);
}

// Catches: an empty cluster shown for one that does not answer.
TEST_F(SurveyReaderTest, AServerThatDoesNotAnswerIsAFailure) {
  hasVersion = false;
  auto failed = kj::runCatchingExceptions([&]() { readSurvey(timer, client).wait(scope); });
  auto& e = KJ_ASSERT_NONNULL(failed);
  EXPECT_EQ(kindOf(e), ErrorKind::kUnavailable);
  EXPECT_EQ(messageOf(e), "Kubernetes at model:6443: cannot get /version: 503 Text"_kj);
}

// Catches: a part that never ends, and keeps the other parts from being read.
TEST_F(SurveyReaderTest, ASilentPartCostsItsTime) {
  class Silence final : public kj::AsyncIoStream {
   public:
    kj::Promise<size_t> tryRead(void*, size_t, size_t) override { return kj::NEVER_DONE; }
    kj::Promise<void> write(const void*, size_t) override { return kj::READY_NOW; }
    kj::Promise<void> write(kj::ArrayPtr<const kj::ArrayPtr<const kj::byte>>) override {
      return kj::READY_NOW;
    }
    kj::Promise<void> whenWriteDisconnected() override { return kj::NEVER_DONE; }
    void shutdownWrite() override {}
  };
  KubeClient silent(
      timer, [] { return 0.0; },
      []() -> kj::Promise<kj::Own<kj::AsyncIoStream>> {
        return kj::Own<kj::AsyncIoStream>(kj::heap<Silence>());
      },
      ModelKube::access());
  auto reading = readSurvey(timer, silent);
  EXPECT_FALSE(reading.poll(scope));
  timer.advanceTo(timer.now() + 11 * kj::SECONDS);
  auto failed = kj::runCatchingExceptions([&]() { reading.wait(scope); });
  EXPECT_EQ(messageOf(KJ_ASSERT_NONNULL(failed)),
            "Kubernetes at model:6443: cannot read the version in time"_kj);
}

}  // namespace
}  // namespace talos::kube
