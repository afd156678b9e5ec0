// Follows all nodes of a cluster, and what is known about the cluster as a whole.
//
// The nodes are those of -n, else those of the talosconfig and every other one that etcd,
// Kubernetes and the certificates of workers name. Questions about the cluster go to a
// control-plane node that answers.
#pragma once

#include <capnp/message.h>

#include "talosctl/dashboard/node-follower.h"

namespace talos::talosctl::dashboard {

class ClusterFollower final : private kj::TaskSet::ErrorHandler {
 public:
  // Each node is asked in this interval.
  ClusterFollower(Invocation& call, kj::Duration interval);
  KJ_DISALLOW_COPY_AND_MOVE(ClusterFollower);

  // Asks in intervals from now on, until it is dropped.
  void start();
  // Everything twice, so that there are rates; then nothing more is asked.
  kj::Promise<void> once();

  // The node with this number in the picture is looked at closely; none: no node is.
  void look(kj::Maybe<size_t> node);
  // Diagnosis and Kubernetes are asked more often while somebody reads about them.
  void lookAtCluster(bool is) { clusterIsShown = is; }

  // The picture as it is now; nodes in a stable order: control plane first, then by name.
  kj::Own<capnp::MallocMessageBuilder> picture();
  size_t answering() const;

  SharedClient client;
  // The address by which the node of this number in the newest picture is asked.
  kj::StringPtr addressOf(size_t node) const;
  // The other way round; no node is ever dropped.
  size_t numberOf(kj::StringPtr address) const;

 private:
  Invocation& call;
  kj::Vector<kj::Own<NodeFollower>> nodes;
  kj::Vector<size_t> order;  // of the newest picture
  kj::Duration interval;
  kj::String context;
  kj::String looked;  // the address of the node that is looked at
  bool looksClosely = false, clusterIsShown = false, started = false;
  Kept<rpc::Etcd::MembersResults> members;
  Kept<rpc::Kubernetes::SurveyResults> survey;
  Kept<rpc::Resources::ListResults> issued;
  kj::Maybe<kj::Own<capnp::MallocMessageBuilder>> diagnosis;
  kj::String membersProblem, surveyProblem, taskProblem;
  kj::Maybe<kj::TimePoint> silentSince;  // all of them
  kj::TaskSet tasks;

  void add(kj::StringPtr address);
  void discover();
  kj::Maybe<NodeFollower&> controlPlane();
  void addUnknown(kj::ArrayPtr<const kj::String> addressesOfOne);
  template <typename Results, typename Request>
  kj::Promise<void> ask(Kept<Results>& slot, kj::String& problem, kj::Duration timeout,
                        Request request);
  kj::Promise<void> askMembers();
  kj::Promise<void> askIssued();
  kj::Promise<void> askSurvey();
  kj::Promise<void> askDiagnosis();
  kj::Promise<void> followMembers();
  kj::Promise<void> followSurvey();
  kj::Promise<void> followDiagnosis();
  kj::Promise<void> renewConnection();
  void sortNodes(kj::ArrayPtr<const rpc::DashboardNode::Reader> written);
  void taskFailed(kj::Exception&& e) override;
};

}  // namespace talos::talosctl::dashboard
