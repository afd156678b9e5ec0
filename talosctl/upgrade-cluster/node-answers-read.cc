#include "talosctl/upgrade-cluster/node-answers-read.h"

#include <capnp/dynamic.h>

#include "common/base/error.h"
#include "common/base/resource.h"
#include "rpc/etcd-resources.capnp.h"
#include "rpc/network-resources.capnp.h"
#include "talosctl/etcd/etcd-quorum.h"
#include "talosctl/upgrade/upgrade-answers.h"

namespace talos::talosctl {
namespace {

kj::String stageName(rpc::Status::Stage stage) {
  auto names = capnp::Schema::from<rpc::Status::Stage>().getEnumerants();
  auto number = static_cast<uint16_t>(stage);
  if (number >= names.size()) return kj::str("in a stage that this talosctl does not know");
  return kj::str(names[number].getProto().getName());
}

// Ignores an error, which means that the node has no such resource or does not report it.
template <typename T, typename F>
kj::Promise<void> optional(kj::Promise<T> answer, F take) {
  return answer.then(kj::mv(take), [](kj::Exception&&) {});
}

template <typename Spec>
kj::Promise<UpgradeAnswer> get(rpc::Resources::Client resources, kj::StringPtr id) {
  auto request = resources.getRequest();
  request.initKind().setType(typeName<Spec>());
  request.setId(id);
  return request.send();
}

class NodeReader {
 public:
  NodeReader(rpc::Node::Client node, kj::String address) : node(kj::mv(node)) {
    out.address = kj::mv(address);
  }

  kj::Promise<NodeSurvey> read() {
    auto machine = node.machineRequest().send().getMachine();
    auto resources = node.resourcesRequest().send().getResources();
    auto asking = kj::heapArrayBuilder<kj::Promise<void>>(7);
    asking.add(machine.versionRequest().send().then([this](auto&& version) {
      out.hostname = kj::str(version.getHostname());
      out.version = kj::str(version.getTag());
      out.bootId = kj::str(version.getBootId());
    }));
    asking.add(machine.statusRequest().send().then([this](auto&& status) {
      out.stage = stageName(status.getStage());
      for (auto problem : status.getProblems()) out.problems.add(kj::str(problem));
    }));
    using Mounts = capnp::Response<rpc::Machine::MountsResults>;
    asking.add(optional(kj::Promise<Mounts>(machine.mountsRequest().send()), [this](Mounts&& m) {
      for (auto mount : m.getMounts()) {
        if (mount.getMountedOn() == "/var") out.freeBytes = mount.getAvailable();
      }
    }));
    asking.add(optional(askUpgradeStatus(node), [this](UpgradeAnswer&& answer) {
      auto status = upgradeStatusOf(answer);
      out.upgrade = UpgradeState{.stage = kj::str(status.getStage()),
                                 .slot = kj::str(status.getSlot()),
                                 .version = kj::str(status.getVersion()),
                                 .image = kj::str(status.getImage()),
                                 .digest = kj::str(status.getDigest()),
                                 .reason = kj::str(status.getReason())};
    }));
    auto list = resources.listRequest();
    list.initKind().setType(typeName<rpc::VipStatusSpec>());
    using Listed = capnp::Response<rpc::Resources::ListResults>;
    asking.add(optional(kj::Promise<Listed>(list.send()), [this](Listed&& listed) {
      for (auto one : listed.getResources()) {
        if (one.getSpec().getAs<rpc::VipStatusSpec>().getState() != "holder") continue;
        out.sharedAddresses.add(kj::str(one.getMetadata().getId()));
      }
    }));
    asking.add(readEtcdStatus(resources));
    asking.add(readMember());
    co_await kj::joinPromises(asking.finish());
    co_return kj::mv(out);
  }

 private:
  rpc::Node::Client node;
  NodeSurvey out;

  // Only control-plane nodes have it.
  kj::Promise<void> readEtcdStatus(rpc::Resources::Client resources) {
    return optional(get<rpc::EtcdStatusSpec>(resources, "etcd"), [this](UpgradeAnswer&& answer) {
      auto status = answer.getResource().getSpec().getAs<rpc::EtcdStatusSpec>();
      out.controlPlane = true;
      out.etcdPhase = kj::str(status.getPhase());
      out.etcdMessage = kj::str(status.getMessage());
    });
  }
  kj::Promise<void> readMember() {
    using Status = capnp::Response<rpc::Etcd::StatusResults>;
    auto etcd = node.etcdRequest().send().getEtcd();
    return optional(kj::Promise<Status>(etcd.statusRequest().send()), [this](Status&& answer) {
      out.etcdApplied = answer.getStatus().getRaftAppliedIndex();
    });
  }
};

}  // namespace

kj::Promise<NodeSurvey> surveyNode(kj::Timer& timer, rpc::Node::Client node, kj::String address,
                                   kj::Duration deadline) {
  auto reader = kj::heap<NodeReader>(kj::mv(node), kj::str(address));
  auto& one = *reader;
  kj::String silence;
  try {
    co_return co_await within(timer, deadline, one.read().attach(kj::mv(reader)));
  } catch (...) {
    silence = messageOf(kj::getCaughtExceptionAsKj());
  }
  NodeSurvey silent;
  silent.address = kj::mv(address);
  silent.silence = kj::mv(silence);
  co_return kj::mv(silent);
}

EtcdSurvey readMembers(rpc::Etcd::MembersResults::Reader members) {
  EtcdSurvey etcd;
  etcd.quorum = members.getQuorum();
  for (auto member : members.getMembers()) {
    auto name =
        member.getName().size() > 0 ? kj::str(member.getName()) : memberIdText(member.getId());
    etcd.members.add(EtcdSurvey::Member{kj::mv(name), kj::str(member.getProblem()),
                                        member.getLearner(), member.getLeader()});
  }
  return etcd;
}

void readAlarms(rpc::Etcd::AlarmsResults::Reader alarms, EtcdSurvey& into) {
  for (auto alarm : alarms.getAlarms()) {
    into.alarms.add(kj::str(alarm.getName(), ": ", alarm.getAlarm()));
  }
}

KubernetesSurvey readSurvey(rpc::Survey::Reader survey) {
  KubernetesSurvey out;
  for (auto node : survey.getNodes()) {
    auto& one = out.nodes.add();
    one.name = kj::str(node.getName());
    if (node.getAddresses().size() > 0) one.address = kj::str(node.getAddresses()[0]);
    auto reason = node.getReason();
    auto message = node.getMessage();
    one.reason = kj::str(reason, message.size() > 0 ? ": " : "", message);
    one.ready = node.getReady();
    one.unschedulable = node.getUnschedulable();
    one.controlPlane = node.getControlPlane();
  }
  for (auto budget : survey.getBudgets()) {
    auto& one = out.budgets.add();
    one.name = kj::str(budget.getNamespace(), "/", budget.getName());
    one.allowed = budget.getAllowed();
    for (auto pod : budget.getPods()) {
      one.pods.add(KubernetesSurvey::Budget::Pod{kj::str(pod.getName()), kj::str(pod.getNode())});
    }
  }
  for (auto problem : survey.getProblems()) out.unread.add(kj::str(problem));
  return out;
}

}  // namespace talos::talosctl
