// For tests: models of etcd-supervisor for machined's requests.
// tests/contracts/etcd-contract-test.cc checks that they answer as it does.
#pragma once

#include <kj/function.h>

#include <string>
#include <vector>

#include "common/base/error.h"
#include "rpc/local.capnp.h"

namespace talos::machined {

// The answers of ModelSupervisor.
struct Said {
  std::string objection, problem,
      leaves;  // `leaves`: why it does not leave, apart from the objection
  ErrorKind kind = ErrorKind::kUnavailable;  // of `leaves`
  bool silent = false, hangs = false;
  unsigned members = 3;  // of its cluster
  std::vector<std::string> asked;
};

// For code that queries before a node leaves its cluster.
class ModelSupervisor final : public rpc::EtcdSupervisor::Server {
 public:
  explicit ModelSupervisor(Said& said) : said(said) {}

  kj::Promise<void> outlook(OutlookContext context) override {
    said.asked.push_back("outlook");
    if (said.silent) return kj::NEVER_DONE;
    if (!said.problem.empty()) return error(ErrorKind::kUnavailable, said.problem.c_str());
    context.getResults().setObjection(said.objection.c_str());
    context.getResults().initMembers(said.members);
    return kj::READY_NOW;
  }
  kj::Promise<void> withdraw(WithdrawContext context) override {
    auto going = context.getParams().getKind();
    said.asked.push_back(std::string(context.getParams().getForce() ? "forced " : "") +
                         (going == rpc::DepartureKind::LEAVES ? "leaves" : "rejoins"));
    if (said.hangs) return kj::NEVER_DONE;
    if (!said.leaves.empty()) return error(said.kind, said.leaves.c_str());
    bool insists = context.getParams().getForce() && said.members > 1;  // the last one stays
    if (!said.objection.empty() && !insists) {
      return error(ErrorKind::kFailedPrecondition, said.objection.c_str());
    }
    return kj::READY_NOW;
  }
  kj::Promise<void> stay(StayContext) override {
    said.asked.push_back("stays");
    return said.hangs ? kj::Promise<void>(kj::NEVER_DONE) : kj::READY_NOW;
  }

 private:
  Said& said;
};

// For code that restarts etcd and recovers it.
struct ModelOfReruns final : public rpc::EtcdSupervisor::Server {
  struct Turn final : public rpc::EtcdTurn::Server {
    explicit Turn(ModelOfReruns& model) : model(model) { ++model.turns; }
    ~Turn() noexcept(false) { --model.turns; }
    ModelOfReruns& model;
  };
  bool refuses = false, deaf = false;
  bool alone = false;  // no other member could restart its own etcd
  int turns = 0;
  kj::String failed;
  kj::Function<void()> whenFailed = [] {};

  kj::Promise<void> rerun(RerunContext context) override {
    if (turns > 0 && !alone)
      return error(ErrorKind::kConflict, kj::str("the last one has not finished"));
    if (refuses) return error(ErrorKind::kFailedPrecondition, kj::str("the others need it"));
    context.getResults().setTurn(kj::heap<Turn>(*this));
    return kj::READY_NOW;
  }
  kj::Promise<void> recoveryFailed(RecoveryFailedContext context) override {
    if (deaf) return error(ErrorKind::kUnavailable, kj::str("starting"));
    failed = kj::str(context.getParams().getError());
    whenFailed();
    return kj::READY_NOW;
  }
};

}  // namespace talos::machined
