// For tests: the answers of a node about its etcd before an upgrade, and the upgrade requests.
#pragma once

#include <string.h>

#include "common/base/error.h"
#include "common/base/sha256.h"
#include "rpc/node.capnp.h"

namespace talos::talosctl {

struct FakeUpgrades {
  unsigned voters = 0;  // voting members of etcd; 0: the node has no etcd
  bool etcdHangs = false;
  bool requestsHang = false;                   // requests for a new system or a new etcd never end
  bool alarm = false;                          // alarm of the node's member
  bool canStage = true;                        // false: an older system, which cannot stage
  kj::StringPtr staged, lacks;                 // withdrawn by a rollback; why a system is on trial
  kj::Vector<kj::String> asked;                // "upgrade x:y preserve", "rollback forced"
  kj::String stage = kj::str("none"), reason;  // fields of UpgradeStatuses
  // Effect of the next request on these fields; empty: no change.
  kj::StringPtr outcome, outcomeReason;
  bool rebooted = false;  // rebooted since this request
  bool snapshotFails = false;
  kj::Vector<rpc::ByteSink::Client> keptSinks;  // sinks of failed snapshots
};

class FakeEtcdServer final : public rpc::Etcd::Server {
 public:
  explicit FakeEtcdServer(FakeUpgrades& node) : node(node) {}

  kj::Promise<void> members(MembersContext context) override {
    if (node.etcdHangs) return kj::NEVER_DONE;
    if (node.voters == 0) fail(ErrorKind::kFailedPrecondition, "this node is a worker");
    context.getResults().setQuorum(true);
    auto members = context.getResults().initMembers(node.voters);
    for (auto i : kj::zeroTo(node.voters)) {
      members[i].setName(kj::str("m", i + 1));
      members[i].setId(i + 1);
      members[i].setLocal(i == 0);
    }
    return kj::READY_NOW;
  }
  // Sends a page of zeros, followed by its hash.
  kj::Promise<void> snapshot(SnapshotContext context) override {
    if (node.snapshotFails) {
      node.keptSinks.add(context.getParams().getSink());
      fail(ErrorKind::kUnavailable, "etcd is not ready");
    }
    auto page = kj::heapArray<kj::byte>(512);
    memset(page.begin(), 0, page.size());
    Sha256 hash;
    hash.add(page);
    auto digest = hash.finish();
    for (kj::ArrayPtr<const kj::byte> part : {page.asPtr().asConst(), digest.asPtr().asConst()}) {
      auto request = context.getParams().getSink().writeRequest();
      request.setBytes(part);
      co_await request.send();
    }
    context.getResults().setSignature("signature"_kj.asBytes());
  }
  kj::Promise<void> bootstrap(BootstrapContext context) override {
    if (node.requestsHang) return kj::NEVER_DONE;
    context.getResults().setDone(false);
    return kj::READY_NOW;
  }
  kj::Promise<void> status(StatusContext context) override {
    context.getResults().initStatus().setId(1);
    return kj::READY_NOW;
  }
  kj::Promise<void> leave(LeaveContext context) override { return kj::READY_NOW; }
  kj::Promise<void> removeMember(RemoveMemberContext context) override { return kj::READY_NOW; }
  kj::Promise<void> alarms(AlarmsContext context) override {
    if (node.alarm) context.getResults().initAlarms(1)[0].setAlarm("NOSPACE");
    return kj::READY_NOW;
  }
  kj::Promise<void> disarm(DisarmContext context) override {
    if (node.alarm) context.getResults().initAlarms(1)[0].setAlarm("NOSPACE");
    node.alarm = false;
    return kj::READY_NOW;
  }
  kj::Promise<void> forfeitLeadership(ForfeitLeadershipContext context) override {
    context.getResults().setLeader("m2");
    return kj::READY_NOW;
  }
  kj::Promise<void> defragment(DefragmentContext context) override {
    context.getResults().setBefore(20'000'000);
    context.getResults().setAfter(8'000'000);
    return kj::READY_NOW;
  }
  kj::Promise<void> createJoinToken(CreateJoinTokenContext context) override {
    auto params = context.getParams();
    node.asked.add(kj::str("token ", params.getHostname(), " ", params.getTtlS()));
    auto out = context.getResults();
    out.setToken("join-abcdef.0123456789abcdef");
    out.setId("abcdef");
    out.setEnds("2026-11-28T13:00:00Z");
    return kj::READY_NOW;
  }
  kj::Promise<void> joinTokens(JoinTokensContext context) override {
    auto tokens = context.getResults().initTokens(2);
    tokens[0].setId("abcdef");
    tokens[0].setHostname("w1");
    tokens[0].setState(rpc::Etcd::JoinToken::State::USED);
    tokens[0].setUsedBy("w1 10.0.0.9");
    tokens[0].setUsedAt("2026-11-28T12:10:00Z");
    tokens[1].setId("ghijkl");
    tokens[1].setState(rpc::Etcd::JoinToken::State::UNUSED);
    tokens[1].setCreatedBy("admin");
    for (auto token : tokens) {
      token.setCreated("2026-11-28T12:00:00Z");
      token.setEnds("2026-11-28T13:00:00Z");
    }
    return kj::READY_NOW;
  }
  kj::Promise<void> revokeJoinToken(RevokeJoinTokenContext context) override {
    auto id = context.getParams().getId();
    if (id != "abcdef") {
      fail(ErrorKind::kNotFound, kj::str("there is no join token with the id \"", id, "\""));
    }
    node.asked.add(kj::str("revoke ", id));
    return kj::READY_NOW;
  }

 private:
  FakeUpgrades& node;
};

class FakeUpgradesServer final : public rpc::Upgrades::Server {
 public:
  explicit FakeUpgradesServer(FakeUpgrades& node) : node(node) {}

  kj::Promise<void> upgrade(UpgradeContext context) override {
    auto params = context.getParams();
    node.asked.add(kj::str("upgrade ", params.getImage(), params.getPreserve() ? " preserve" : "",
                           params.getForce() ? " forced" : "", params.getStage() ? " staged" : ""));
    if (node.requestsHang) return kj::NEVER_DONE;
    context.getResults().setBootId("boot-1");
    if (node.outcome.size() > 0) {
      node.stage = kj::str(node.outcome);
      node.reason = kj::str(node.outcomeReason);
      node.rebooted = true;
    }
    return kj::READY_NOW;
  }
  kj::Promise<void> rollback(RollbackContext context) override {
    node.asked.add(kj::str("rollback", context.getParams().getForce() ? " forced" : ""));
    context.getResults().setBootId("boot-1");
    context.getResults().setWithdrawn(node.staged);
    return kj::READY_NOW;
  }
  kj::Promise<void> fetch(FetchContext context) override {
    auto params = context.getParams();
    node.asked.add(kj::str("fetch ", params.getImage(), params.getKeep() ? " keep" : ""));
    if (node.requestsHang) return kj::NEVER_DONE;
    context.getResults().setDigest("x/i@sha256:33");
    context.getResults().setVersion("v3");
    return kj::READY_NOW;
  }
  kj::Promise<void> confirm(ConfirmContext context) override {
    context.getResults().setLacked(node.lacks);
    return kj::READY_NOW;
  }

 private:
  FakeUpgrades& node;
};

}  // namespace talos::talosctl
