// State of a Kubernetes cluster for its health checks and its diagnosis (rpc/kubernetes.capnp,
// Survey), made of Kubernetes' objects. Contents of Secrets, ConfigMaps and environments are not in
// the objects read, or are not copied from them.
//
// Objects are foreign: a field of another type counts as absent, texts are cut to kMostSurveyText
// bytes, lists to the room in an answer of 8 MiB; omissions are reported as a problem. Only what
// the survey shows is kept of an object, so a cluster of any size is read in little memory.
#pragma once

#include <capnp/message.h>
#include <capnp/orphan.h>

#include <map>
#include <string>

#include "common/kube/disruption-budgets.h"
#include "common/kube/kube-client.h"
#include "rpc/kubernetes.capnp.h"

namespace talos::kube {

constexpr size_t kMostSurveyText = 512;
constexpr size_t kMostSurveyNodes = 5000, kMostSurveyWorkloads = 1000, kMostSystemPods = 10'000,
                 kMostOtherPods = 500, kMostSurveyEvents = 50;

// Takes objects one by one, in any order. Pure.
class SurveyObjects {
 public:
  SurveyObjects() = default;
  KJ_DISALLOW_COPY_AND_MOVE(SurveyObjects);

  void addVersion(const Json& version);  // the answer of /version
  void addNode(const Json& node);
  void addWorkload(kj::StringPtr kind, const Json& workload);  // a workload of kube-system
  void addBudget(const Json& budget, kj::StringPtr version) {  // call before addPod()
    budgets.addBudget(budget, version);
  }
  void addPod(const Json& pod);  // a pod of any namespace
  // A warning about an earlier pod with the name of a pod in the survey is left out.
  void addEvent(const Json& event);
  void addService(const Json& service);
  // Adds endpoints of a service that is added before or later.
  void addEndpoints(const Json& endpoints);  // before 1.21
  void addEndpointSlice(const Json& slice);  // since 1.21
  void addProblem(kj::StringPtr text);

  // Writes the survey, sorted and cut as the schema says.
  void fill(rpc::Survey::Builder out);

 private:
  template <typename T>
  using Rows = kj::Vector<capnp::Orphan<T>>;
  struct ServiceEnds {
    kj::String service, clusterIp;
    kj::Vector<kj::String> ready, notReady;
  };
  capnp::MallocMessageBuilder scratch;
  kj::String version;
  Rows<rpc::Survey::Node> nodes;
  Rows<rpc::Survey::Workload> workloads;
  Rows<rpc::Survey::Pod> systemPods, otherPods;
  std::map<std::string, int64_t> created;  // s since 1970, of the pods, by Event::object
  Rows<rpc::Survey::Event> events;
  kj::Vector<ServiceEnds> services;
  DisruptionBudgets budgets;
  kj::Vector<kj::String> problems;
  uint32_t unreadPods = 0;
  size_t leftOut = 0;  // nodes, workloads and pods of kube-system

  ServiceEnds& endsOf(kj::String service);
  void showPod(const Json& pod, bool ready, rpc::Survey::Pod::Builder out);
  bool isOfEarlierPod(rpc::Survey::Event::Reader event) const;
  template <typename T>
  kj::Maybe<typename T::Builder> addRow(Rows<T>& rows, size_t most);
};

// Reads a cluster's survey. Each part has 10 s, all together kSurveyDeadline; failures are reported
// in `problems`. Fails with Unavailable if the API server does not answer at all.
constexpr auto kSurveyDeadline = 15 * kj::SECONDS;
kj::Promise<kj::Own<capnp::MallocMessageBuilder>> readSurvey(kj::Timer& timer, KubeClient& client);

}  // namespace talos::kube
