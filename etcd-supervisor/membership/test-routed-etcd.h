// etcd at an address as one supervisor of test-membership-bed.h reaches it: calls go to the node
// that serves there at that moment, if the network lets them through.
#pragma once

#include <vector>

#include "common/etcd/test-etcd.h"

namespace talos::supervisor {

class Process;

// Client of one address, for one supervisor.
class RoutedEtcd final : public etcd::Etcd {
 public:
  RoutedEtcd(Process& process, kj::StringPtr address)
      : process(process),
        address(kj::str(address)),
        ownName(kj::str("etcd at ", address, ":2379")) {}

  kj::StringPtr name() const override { return ownName; }
  kj::Promise<etcd::RangeResult> range(etcd::Range r) override;
  kj::Promise<etcd::PutResult> put(etcd::Put r) override {
    return route<etcd::PutResult>([&](auto& e) { return e.put(kj::mv(r)); });
  }
  kj::Promise<etcd::DeleteResult> remove(etcd::Delete r) override {
    return route<etcd::DeleteResult>([&](auto& e) { return e.remove(kj::mv(r)); });
  }
  kj::Promise<etcd::TxnResult> txn(etcd::Txn r) override {
    if (alone(process)) return noLeader();
    return route<etcd::TxnResult>([&](auto& e) { return e.txn(kj::mv(r)); });
  }
  kj::Promise<kj::Own<etcd::Watch>> watch(etcd::WatchRequest r) override {
    return route<kj::Own<etcd::Watch>>([&](auto& e) { return e.watch(kj::mv(r)); });
  }
  kj::Promise<etcd::Lease> grant(kj::Duration ttl) override {
    if (alone(process)) return noLeader();
    return route<etcd::Lease>([&](auto& e) { return e.grant(ttl); });
  }
  kj::Promise<etcd::Lease> keepAlive(etcd::LeaseId id) override {
    return route<etcd::Lease>([&](auto& e) { return e.keepAlive(id); });
  }
  kj::Promise<void> revoke(etcd::LeaseId id) override {
    return route<void>([&](auto& e) { return e.revoke(id); });
  }
  kj::Promise<etcd::MemberList> members(bool linearizable = true) override {
    if (linearizable && alone(process)) return noLeader();
    return route<etcd::MemberList>([&](auto& e) { return e.members(linearizable); });
  }
  kj::Promise<etcd::MemberAdded> addMember(kj::Array<kj::String> urls, bool learner) override {
    return changing(
        route<etcd::MemberAdded>([&](auto& e) { return e.addMember(kj::mv(urls), learner); }));
  }
  kj::Promise<kj::Array<etcd::Member>> removeMember(etcd::MemberId id) override;
  kj::Promise<kj::Array<etcd::Member>> updateMember(etcd::MemberId id,
                                                    kj::Array<kj::String> urls) override {
    return changing(
        route<kj::Array<etcd::Member>>([&](auto& e) { return e.updateMember(id, kj::mv(urls)); }));
  }
  kj::Promise<kj::Array<etcd::Member>> promoteMember(etcd::MemberId id) override {
    return changing(route<kj::Array<etcd::Member>>([&](auto& e) { return e.promoteMember(id); }));
  }
  kj::Promise<etcd::Status> status() override { return status(process); }
  kj::Promise<void> moveLeader(etcd::MemberId to) override {
    return route<void>([&](auto& e) { return e.moveLeader(to); });
  }
  kj::Promise<kj::Array<etcd::Alarm>> alarms() override {
    return route<kj::Array<etcd::Alarm>>([&](auto& e) { return e.alarms(); });
  }
  kj::Promise<kj::Array<etcd::Alarm>> disarm(etcd::Alarm alarm) override {
    return route<kj::Array<etcd::Alarm>>([&](auto& e) { return e.disarm(alarm); });
  }
  kj::Promise<void> defragment() override {
    return route<void>([&](auto& e) { return e.defragment(); });
  }
  kj::Promise<uint64_t> snapshot(etcd::SnapshotSink sink) override {
    return route<uint64_t>([&](auto& e) { return e.snapshot(kj::mv(sink)); });
  }

 private:
  // Return true for a local member that is cut off from the others. Templates, because Process is
  // not defined yet.
  template <typename P>
  bool alone(P& process) const {
    return process.node.cutOff && address == "127.0.0.1";
  }
  template <typename P>
  kj::Promise<etcd::Status> status(P& process) {
    auto answer = route<etcd::Status>([&](auto& e) { return e.status(); });
    auto* node = address == "127.0.0.1" ? &process.node : process.bed.at(address);
    if (process.bed.slow.contains(node)) {
      co_await process.bed.timer.afterDelay(process.bed.slow.at(node));
    }
    auto status = co_await answer;
    if (alone(process)) status.leader = 0;
    co_return kj::mv(status);
  }
  kj::Exception noLeader() const {
    return error(ErrorKind::kUnavailable, kj::str(ownName, ": etcdserver: no leader"));
  }

  Process& process;
  kj::String address, ownName;
  std::vector<kj::Own<etcd::ModelEtcd>> models;

  template <typename T, typename F>
  kj::Promise<T> route(F&& call);
  template <typename T>
  kj::Promise<T> changing(kj::Promise<T> change);
};

}  // namespace talos::supervisor
