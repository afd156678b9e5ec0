// etcd-supervisor, as its callers in machined ask it, beside the models by which these are tested:
// in the same situation, both answer with the same kind of error, or with none.
#include "etcd-supervisor/control/supervisor-server.h"

#include <gtest/gtest.h>

#include "common/testing/test-inline-disk.h"
#include "common/testing/test-tree.h"
#include "etcd-supervisor/membership/test-operator-calls.h"
#include "machined/kubernetes/etcd/test-etcd-supervisor.h"
#include "tests/contracts/schema-comments.h"

namespace talos {
namespace {

using rpc::DepartureKind;
using Calls = std::map<std::string, std::string>;  // by call: "ok", or the kind of the error

// Runs a call to its end, however long that takes on its clock.
using Finish = kj::Function<void(kj::Promise<void>& done)>;

class Asked {
 public:
  Asked(rpc::EtcdSupervisor::Client supervisor, kj::WaitScope& scope, Finish finish)
      : supervisor(kj::mv(supervisor)), scope(scope), finish(kj::mv(finish)) {}

  Calls calls;

  void outlook() {
    auto request = supervisor.outlookRequest();
    request.setKind(DepartureKind::LEAVES);
    note("outlook", request.send().then([this](auto&& answer) {
      calls["members"] = std::to_string(answer.getMembers().size());
      calls["objection"] = answer.getObjection().size() > 0 ? "yes" : "no";
    }));
  }
  // Last, since it may end the membership.
  void withdraw(bool force) {
    auto request = supervisor.withdrawRequest();
    request.setKind(DepartureKind::LEAVES);
    request.setForce(force);
    note(force ? "withdraw, forced" : "withdraw", request.send().ignoreResult());
  }
  void stay() { note("stay", supervisor.stayRequest().send().ignoreResult()); }
  void recoveryFailed() {
    auto request = supervisor.recoveryFailedRequest();
    request.setError("damaged");
    note("recoveryFailed", request.send().ignoreResult());
  }
  // Two, while the turn of the first one is held.
  void rerun() {
    kj::Maybe<rpc::EtcdTurn::Client> turn;
    note("rerun",
         supervisor.rerunRequest().send().then([&](auto&& answer) { turn = answer.getTurn(); }));
    if (turn == nullptr) return;
    note("rerun, meanwhile", supervisor.rerunRequest().send().ignoreResult());
  }

 private:
  rpc::EtcdSupervisor::Client supervisor;
  kj::WaitScope& scope;
  Finish finish;

  void note(const char* call, kj::Promise<void> promise) {
    auto& outcome = calls[call];
    auto done = promise
                    .then([&]() { outcome = "ok"; },
                          [&](kj::Exception&& e) { outcome = nameOf(kindOf(e)).cStr(); })
                    .eagerlyEvaluate(nullptr);
    finish(done);
    done.wait(scope);
  }
};

void askAll(Asked& asked) {
  asked.stay();
  asked.recoveryFailed();
  asked.rerun();
  asked.outlook();
  asked.withdraw(false);
  asked.withdraw(true);
}

// Returns the calls of the real etcd-supervisor, in a cluster of `members` nodes; 0: in no cluster.
Calls ofEtcdSupervisor(unsigned members) {
  supervisor::Quiet quiet;
  supervisor::Testbed bed(1, kj::max(members, 1u));
  machined::TestTree tree;
  InlineDisk disk;
  supervisor::KeptSnapshot kept(bed.timer, disk, tree.root);
  for (auto& node : bed.nodes) bed.powerOn(*node);
  bed.pass(5 * kj::SECONDS);
  auto& first = *bed.nodes[0];
  if (members > 0) {
    supervisor::bootstrap(bed, first);
    bool formed = bed.eventually(supervisor::kTimeout, [&] {
      for (auto& node : bed.nodes) {
        if (!bed.votes(*node) || node->status.phase != "member") return false;
      }
      return true;
    });
    KJ_REQUIRE(formed, "no cluster in the model world");
    bed.pass(10 * kj::SECONDS);
  }
  Calls calls;
  {
    supervisor::JoinTokenBook tokens(
        {.timer = bed.timer,
         .clock = kj::systemPreciseCalendarClock(),
         .member = [&]() -> etcd::Etcd& { return first.process->reconciler.localMember(); }});
    supervisor::SignSnapshot sign = [](const SnapshotStatement&) {
      return kj::heapArray<kj::byte>("signature"_kj.asBytes());
    };
    auto server = supervisor::makeServer({bed.timer, kj::systemPreciseCalendarClock(),
                                          first.process->reconciler, *first.process, kept, disk,
                                          tokens, sign});
    Asked asked(server, bed.scope, [&](kj::Promise<void>& done) {
      KJ_REQUIRE(bed.eventually(supervisor::kTimeout, [&] { return done.poll(bed.scope); }),
                 "it does not answer");
    });
    askAll(asked);
    calls = kj::mv(asked.calls);
  }
  return calls;
}

// Both models, as one etcd-supervisor: each has the methods of its callers.
Calls ofModels(unsigned members, const char* objection) {
  machined::Said said;
  said.members = members;
  said.objection = objection;
  kj::EventLoop loop;
  kj::WaitScope scope(loop);
  auto finish = [](kj::Promise<void>&) {};
  Asked departure(kj::heap<machined::ModelSupervisor>(said), scope, finish);
  departure.stay();
  departure.outlook();
  departure.withdraw(false);
  departure.withdraw(true);
  auto reruns = kj::heap<machined::ModelOfReruns>();
  reruns->alone = said.members < 2;
  Asked restart(kj::mv(reruns), scope, finish);
  restart.recoveryFailed();
  restart.rerun();
  departure.calls.merge(restart.calls);
  return kj::mv(departure.calls);
}

// Catches: a model that lets a node go that etcd-supervisor holds, or the reverse; a second restart
// of etcd beside one that has not ended; an error that machined never meets in a test.
TEST(EtcdContract, TheModelsOfMachinedAnswerAsEtcdSupervisorDoes) {
  EXPECT_EQ(ofEtcdSupervisor(0), ofModels(0, ""));
  EXPECT_EQ(ofEtcdSupervisor(1), ofModels(1, "it is the only member"));
  EXPECT_EQ(ofEtcdSupervisor(3), ofModels(3, ""));
}

// Catches: an error that the documents do not name, and that a caller cannot expect.
TEST(EtcdContract, TheErrorsAreThoseOfTheDocuments) {
  SchemaComments comments(TALOS_SOURCE_DIR);
  auto schema = capnp::Schema::from<rpc::EtcdSupervisor>();
  for (unsigned members : {0u, 1u, 3u}) {
    for (auto& [call, outcome] : ofEtcdSupervisor(members)) {
      if (outcome == "ok" || call == "members" || call == "objection") continue;
      auto method = call.substr(0, call.find(','));
      auto named = errorsNamedIn(comments.of(schema.getMethodByName(method.c_str())));
      bool is = false;
      for (auto kind : named) is = is || outcome == nameOf(kind).cStr();
      EXPECT_TRUE(is) << call << ", in a cluster of " << members << ": " << outcome;
    }
  }
}

}  // namespace
}  // namespace talos
