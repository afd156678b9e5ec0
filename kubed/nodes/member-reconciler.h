// Publishes the nodes of the cluster as Kubernetes knows them: Members, one for each node.
//
// A member's name is the name of its Node object, to which its kubelet's certificate is bound. A
// member is a control plane if a member of etcd has its name, which takes a certificate that only
// control planes have; if it is this node itself; or if it has the label of a control plane, which
// a kubelet may not give to its own Node and which is added later. Everything else is in the
// status, which the kubelet of the node can write at will: the addresses and the system are claims,
// and the host name there is not read.
//
// The nodes are watched. While the API cannot be reached the last known members stay, also after a
// crash of this program: no node leaves the cluster because the API does not answer. Retries
// alternate between the API server of this node and the endpoint of the cluster: a node that is
// joining has no API server yet.
#pragma once

#include "kubed/nodes/watch-reconciler.h"
#include "rpc/etcd-resources.capnp.h"

namespace talos::kubed {

struct Member {
  kj::String name;
  bool controlPlane = false;
  kj::String operatingSystem;
  kj::Vector<kj::String> addresses;  // internal addresses, in the order of the node
};
// Reads an object of kind Node. A field that the object does not have is empty. Pure.
Member memberOf(const kube::Json& node);

class MemberReconciler final : public MirrorReconciler<rpc::MemberSpec, Member> {
 public:
  explicit MemberReconciler(const KubedDependencies& deps)
      : MirrorReconciler(deps), adapter(deps.adapter) {
    ofEtcd = store.watch<rpc::EtcdMemberSpec>([&changed = deps.changed] { changed.raise(); });
  }
  ~MemberReconciler() noexcept(false) = default;

 private:
  KubernetesStoreAdapter& adapter;
  Watched<rpc::EtcdMemberSpec> ofEtcd;
  kj::String logged[2];      // last errors logged, of this node's server and of the endpoint
  bool useEndpoint = false;  // for the next attempt

  kj::Promise<kj::Maybe<Selection>> select() override;
  bool isControlPlane(const Member& member) const;
  kj::Maybe<Entry> entryOf(const kube::Json& node) override;
  void fill(const Member& member, rpc::MemberSpec::Builder spec) override;
  void watchStarted() override;
  kj::Promise<void> failed(kj::String error) override;
};

}  // namespace talos::kubed
