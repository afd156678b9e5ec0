// Follows all nodes of a cluster, and the state of the cluster as a whole.
//
// The nodes are those of -n, otherwise those of the talosconfig and every other node that etcd,
// Kubernetes and the certificates of workers name. Requests about the cluster go to a control-plane
// node that answers.
#pragma once

#include <capnp/message.h>

#include "talosctl/dashboard/node-follower.h"

namespace talos::talosctl::dashboard {

class ClusterFollower final : private kj::TaskSet::ErrorHandler {
 public:
  // `interval`: the time between two requests to a node.
  ClusterFollower(Invocation& call, kj::Duration interval);
  KJ_DISALLOW_COPY_AND_MOVE(ClusterFollower);

  // Sends requests in intervals from now on, until dropped.
  void start();
  // Requests everything twice, as rates need two values, and then nothing more.
  kj::Promise<void> once();

  // Requests more about the node with this number in the picture; nullptr: about no node.
  void look(kj::Maybe<size_t> node);
  // Requests diagnosis and Kubernetes more often while the user reads about them.
  void lookAtCluster(bool is) { clusterIsShown = is; }

  // Returns the present picture, with nodes in a stable order: control plane first, then by name.
  kj::Own<capnp::MallocMessageBuilder> picture();
  size_t answering() const;

  SharedClient client;
  // Returns the address used for calls to the node with this number in the newest picture.
  kj::StringPtr addressOf(size_t node) const;
  // Returns the number of an address; no node is ever dropped.
  size_t numberOf(kj::StringPtr address) const;

 private:
  Invocation& call;
  kj::Vector<kj::Own<NodeFollower>> nodes;
  kj::Vector<size_t> order;  // order in the newest picture
  kj::Duration interval;
  kj::String context;
  kj::String looked;  // address of the node about which more is requested
  bool looksClosely = false, clusterIsShown = false, started = false;
  Kept<rpc::Etcd::MembersResults> members;
  Kept<rpc::Kubernetes::SurveyResults> survey;
  Kept<rpc::Resources::ListResults> issued;
  kj::Maybe<kj::Own<capnp::MallocMessageBuilder>> diagnosis;
  kj::String membersProblem, surveyProblem, taskProblem;
  kj::Maybe<kj::TimePoint> silentSince;  // since when all nodes are silent
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
