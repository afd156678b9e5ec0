#include "tests/tier/supervisor-socket.h"

#include "tests/tier/tier.h"

namespace talos::tier {
namespace {

using supervisor::Going;

Going goingOf(rpc::DepartureKind kind) {
  switch (kind) {
    case rpc::DepartureKind::LEAVES:
      return Going::kLeaves;
    case rpc::DepartureKind::REJOINS:
      return Going::kRejoins;
    case rpc::DepartureKind::RESTARTS:
      return Going::kRestarts;
  }
  fail(ErrorKind::kInvalidArgument, "unknown kind of departure");
}

class SupervisorSocket final : public rpc::EtcdSupervisor::Server {
 public:
  explicit SupervisorSocket(Machine& machine) : machine(machine) {}

  kj::Promise<void> outlook(OutlookContext context) override {
    auto& process = require();
    auto outlook = co_await process.canceler.wrap(
        process.reconciler.outlook(goingOf(context.getParams().getKind())));
    auto results = context.getResults();
    auto list = results.initMembers(unsigned(outlook.members.size()));
    for (auto i : kj::indices(outlook.members)) {
      auto& member = outlook.members[i];
      list[i].setId(member.member.id);
      list[i].setName(member.member.name);
      list[i].setLearner(member.member.learner);
      list[i].setLeader(member.member.id == outlook.leader);
      list[i].setLocal(member.isLocal);
      list[i].setProblem(member.problem);
    }
    KJ_IF_MAYBE (objection, outlook.objection) results.setObjection(*objection);
  }

  kj::Promise<void> withdraw(WithdrawContext context) override {
    auto& process = require();
    auto params = context.getParams();
    auto going = goingOf(params.getKind());
    if (machine.tier.mistakes.removesInsteadOfWaiting && going == Going::kRestarts) {
      return process.canceler.wrap(process.reconciler.leave(true));
    }
    if (machine.tier.mistakes.leavesAtOnce && going == Going::kRejoins) {
      return process.canceler.wrap(process.reconciler.leave(true));
    }
    return process.canceler.wrap(process.reconciler.withdraw(going, params.getForce()));
  }

  kj::Promise<void> stay(StayContext) override {
    require().reconciler.stay();
    return kj::READY_NOW;
  }

 private:
  Machine& machine;

  supervisor::Process& require() {
    KJ_IF_MAYBE (node, machine.member) {
      if (node->process.get() != nullptr && !node->process->dead) return *node->process;
    }
    fail(ErrorKind::kUnavailable, "etcd-supervisor does not run");
  }
};

}  // namespace

rpc::EtcdSupervisor::Client supervisorSocket(Machine& machine) {
  return kj::heap<SupervisorSocket>(machine);
}

}  // namespace talos::tier
