#include "machined/kubernetes/manifests/node-spec-controller.h"

#include "common/base/fill-list.h"
#include "common/base/reserved-names.h"
#include "common/config/config.h"
#include "common/config/kubernetes/cluster-networks.h"
#include "common/kube/node-roles.h"
#include "machined/kubernetes/control-plane-config.h"
#include "machined/kubernetes/kube-versions.h"
#include "machined/resources/controller-outputs.h"
#include "rpc/kubernetes-resources.capnp.h"

namespace talos::machined {
namespace {

// Sorted, so that the resource does not depend on the order of the inputs.
using Pairs = kj::TreeMap<kj::String, kj::String>;

void put(Pairs& pairs, kj::StringPtr key, kj::StringPtr value) {
  pairs.upsert(kj::str(key), kj::str(value),
               [](kj::String& there, kj::String&& given) { there = kj::mv(given); });
}

void fillPairs(capnp::List<config::StringPair>::Builder out, const Pairs& pairs) {
  size_t i = 0;
  for (auto& pair : pairs) {
    out[i].setKey(pair.key);
    out[i].setValue(pair.value);
    ++i;
  }
}

// A key of the config with entries of the Node object.
struct NodeKey {
  kj::StringPtr key, kind;
  kj::ArrayPtr<const kube::ReservedName> reserved;
};
const NodeKey kLabelsKey{"machine.nodeLabels"_kj, "a label"_kj, kube::kReservedLabels},
    kAnnotationsKey{"machine.nodeAnnotations"_kj, "an annotation"_kj, kube::kReservedAnnotations},
    kTaintsKey{"machine.nodeTaints"_kj, "a taint"_kj, kube::kReservedTaints};

// Adds the entries to `pairs`, those with a reserved name to `leftOut`.
void putEntries(Pairs& pairs, const NodeKey& key, capnp::List<config::StringPair>::Reader entries,
                kj::Vector<kj::String>& leftOut) {
  for (auto entry : entries) {
    KJ_IF_MAYBE (owner, kube::reservedFor(key.reserved, entry.getKey())) {
      leftOut.add(kj::str(key.key, ": ", entry.getKey(), " is ", key.kind, " of ", *owner,
                          "; use another name"));
    } else {
      put(pairs, entry.getKey(), entry.getValue());
    }
  }
}

class NodeSpecController final : public Controller {
 public:
  explicit NodeSpecController(MachineConfigReader& config) : config(config) {}

  kj::StringPtr name() const override { return "k8s.NodeSpecController"; }
  kj::Array<Input> inputs() const override {
    return kj::arr(input<rpc::MachineConfigSpec>(kMachineConfigId), input<rpc::NodenameSpec>(),
                   input<rpc::ControlPlaneConfigSpec>(kSystemManifestsId));
  }
  kj::Array<kj::StringPtr> outputs() const override { return typeNames<rpc::NodeSpecSpec>(); }

  kj::Promise<void> reconcile(Store& store) override {
    Outputs<rpc::NodeSpecSpec> outputs(name());
    KJ_IF_MAYBE (document, config.document(store)) {
      for (auto nodename : store.list<rpc::NodenameSpec>()) {
        fillNodeSpec(outputs.add("node"), document->get(), nodename.getNodename(),
                     versionIn(store));
      }
    }
    outputs.apply(store);
    return kj::READY_NOW;
  }

 private:
  MachineConfigReader& config;

  static KubernetesVersion versionIn(Store& store) {
    KJ_IF_MAYBE (found, store.tryGet<rpc::ControlPlaneConfigSpec>(kSystemManifestsId)) {
      if (found->isSystemManifests()) {
        auto text = found->getSystemManifests().getKubernetesVersion();
        return config::parseKubernetesVersion(text).orDefault(config::kDefaultKubernetes);
      }
    }
    return config::kDefaultKubernetes;
  }
};

}  // namespace

void fillNodeSpec(rpc::NodeSpecSpec::Builder out, config::Config::Reader config,
                  kj::StringPtr nodename, config::KubernetesVersion version) {
  auto machine = config.getMachine();
  auto cluster = config.getCluster();
  bool controlPlane = config::isControlPlane(machine.getType());
  out.setNodename(nodename);
  out.setControlPlane(controlPlane);
  out.setUnregistered(machine.getKubelet().getSkipNodeRegistration());
  Pairs labels, annotations, taints;
  if (controlPlane) {
    bool schedulable = takesWorkloads(cluster);
    out.setSchedulable(schedulable);
    put(labels, kube::kControlPlaneRole, "");
    if (has(version, KubeFact::kMasterRole)) put(labels, kube::kMasterRole, "");
    if (!schedulable) put(taints, roleTaint(version), ":NoSchedule");
  }
  kj::Vector<kj::String> leftOut;
  putEntries(labels, kLabelsKey, machine.getNodeLabels(), leftOut);
  putEntries(taints, kTaintsKey, machine.getNodeTaints(), leftOut);
  putEntries(annotations, kAnnotationsKey, machine.getNodeAnnotations(), leftOut);
  fillTexts(out.initLeftOut(leftOut.size()), leftOut);
  fillPairs(out.initLabels(labels.size()), labels);
  fillPairs(out.initAnnotations(annotations.size()), annotations);
  fillPairs(out.initTaints(taints.size()), taints);
}

kj::Own<Controller> nodeSpecController(ControllerDependencies& deps) {
  return kj::heap<NodeSpecController>(deps.config);
}

}  // namespace talos::machined
