// Tells which nodes the cluster has, as Kubernetes knows them: Members, one for each node.
//
// The nodes are watched. While the API is not to be reached what was known last stays, also after
// a crash of this program: a node does not leave the cluster because nobody can be asked. It is
// tried again after half a second and then after up to 10 s, by turns at the API server of this
// node and by the endpoint of the cluster: a node that is to join it has no API server yet.
#pragma once

#include "kubed/nodes/watch-reconciler.h"

namespace talos::kubed {

struct Member {
  kj::String hostname;
  bool controlPlane = false;
  kj::String operatingSystem;
  kj::Vector<kj::String> addresses;  // internal ones, in the order of the node
};
// Of an object of kind Node. What it does not say is empty. Pure.
Member memberOf(const kube::Json& node);

class MemberKeeper {
 public:
  explicit MemberKeeper(KubedWorld world)
      : world(world), loop(world.timer, world.random, world.changed) {}
  KJ_DISALLOW_COPY_AND_MOVE(MemberKeeper);

  kj::Promise<void> run();  // until dropped

 private:
  KubedWorld world;
  WatchLoop loop;
  kj::TreeMap<kj::String, Member> known;  // by name of the node
  kj::String told[2];                     // why they are not known, by either way
  bool far = false;                       // asks by the endpoint

  kj::Promise<void> follow();  // until what is wanted changes
  void take(const kube::Json& node, bool deleted);
  kj::Promise<void> publish();
};

}  // namespace talos::kubed
