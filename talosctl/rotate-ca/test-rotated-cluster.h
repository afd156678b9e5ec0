// For tests: a cluster of model nodes whose CAs and keys are rotated, over real TLS. A node keeps
// the configs that it receives, and a test makes it lie about its own config.
#pragma once

#include "rpc/kubernetes-resources.capnp.h"
#include "talosctl/commands/test-cluster.h"
#include "talosctl/config/patches.h"
#include "talosctl/rotate-ca/rotation-run.h"

namespace talos::talosctl {

struct RotatedModel {
  kj::String address, document;
  uint64_t version = 1;
  kj::Vector<kj::String> received;
  // Returns the JSON Patch from the node's config to the config that it shows; nullptr: no lie.
  kj::Function<kj::Maybe<kj::StringPtr>()> lie = [] { return nullptr; };
  // Returns the members of Kubernetes that this node lists.
  kj::Function<kj::Vector<ClusterMember>()> members = [] { return kj::Vector<ClusterMember>(); };

  kj::String shown() {
    auto patch = lie();
    KJ_IF_MAYBE (text, patch) {
      kj::Vector<Patch> patches;
      patches.add(Patch{kj::str("the lie"), kj::str(*text)});
      return applyPatches(document, "the config", patches);
    }
    return kj::str(document);
  }
};

class RotatedModelResources final : public rpc::Resources::Server {
 public:
  explicit RotatedModelResources(RotatedModel& node) : node(node) {}

  kj::Promise<void> get(GetContext context) override {
    auto resource = context.getResults().initResource();
    resource.initMetadata().setVersion(node.version);
    resource.getSpec().initAs<rpc::MachineConfigSpec>().setDocument(node.shown());
    return kj::READY_NOW;
  }
  kj::Promise<void> list(ListContext context) override {
    auto members = node.members();
    auto list = context.getResults().initResources(static_cast<unsigned>(members.size()));
    for (auto i : kj::indices(members)) {
      list[i].initMetadata().setId(members[i].name);
      auto spec = list[i].getSpec().initAs<rpc::MemberSpec>();
      spec.setMachineType(members[i].controlPlane ? "controlplane" : "worker");
      auto addresses = spec.initAddresses(static_cast<unsigned>(members[i].addresses.size()));
      for (auto a : kj::indices(members[i].addresses)) addresses.set(a, members[i].addresses[a]);
    }
    return kj::READY_NOW;
  }

 private:
  RotatedModel& node;
};

class RotatedModelConfiguration final : public rpc::Configuration::Server {
 public:
  explicit RotatedModelConfiguration(RotatedModel& node) : node(node) {}

  kj::Promise<void> apply(ApplyContext context) override {
    auto request = context.getParams().getRequest();
    if (request.getIfVersion() != node.version) fail(ErrorKind::kConflict, "another version");
    node.document = kj::heapString(request.getDocument().asChars());
    node.received.add(kj::str(node.document));
    ++node.version;
    return kj::READY_NOW;
  }

 private:
  RotatedModel& node;
};

class RotatedModelServer final : public rpc::Node::Server {
 public:
  explicit RotatedModelServer(RotatedModel& node) : node(node) {}

  kj::Promise<void> resources(ResourcesContext context) override {
    context.getResults().setResources(kj::heap<RotatedModelResources>(node));
    return kj::READY_NOW;
  }
  kj::Promise<void> sensitiveResources(SensitiveResourcesContext context) override {
    context.getResults().setResources(kj::heap<RotatedModelResources>(node));
    return kj::READY_NOW;
  }
  kj::Promise<void> configuration(ConfigurationContext context) override {
    context.getResults().setConfiguration(kj::heap<RotatedModelConfiguration>(node));
    return kj::READY_NOW;
  }

 private:
  RotatedModel& node;
};

class RotatedModelCluster final : public rpc::Cluster::Server {
 public:
  // `calls`: counter of the calls to all nodes. Both arguments must outlive the cluster.
  RotatedModelCluster(kj::Vector<kj::Own<RotatedModel>>& nodes, unsigned& calls)
      : nodes(nodes), calls(calls) {}
  kj::Promise<void> node(NodeContext context) override {
    ++calls;
    auto address = context.getParams().getAddress();
    for (auto& one : nodes) {
      if (address.size() > 0 && one->address != address) continue;
      context.getResults().setNode(kj::heap<RotatedModelServer>(*one));
      return kj::READY_NOW;
    }
    fail(ErrorKind::kUnavailable, kj::str(address, ":50000: connection refused"));
  }

 private:
  kj::Vector<kj::Own<RotatedModel>>& nodes;
  unsigned& calls;
};

// A rotation in which any config is in effect at once.
class ModelRotation final : public RotationRun {
 public:
  using RotationRun::RotationRun;
  const Rotation& plan() const { return rotation; }
  kj::Maybe<RotationPhase> now;  // present phase

 private:
  kj::StringPtr owner() const override { return "the model"_kj; }
  kj::String shownOld() const override { return kj::str("old"); }
  kj::String shownNew() const override { return kj::str("new"); }
  kj::Promise<void> prepare() override { return kj::READY_NOW; }
  kj::Promise<void> begin(RotationPhase phase) override {
    now = phase;
    return kj::READY_NOW;
  }
  kj::Promise<Missing> served(const RotatedNode&, RotationPhase) override {
    return Missing(nullptr);
  }
  kj::Duration pause() const override { return 200 * kj::MILLISECONDS; }
};

}  // namespace talos::talosctl
