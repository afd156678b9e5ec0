#include "machined/kubernetes/etcd/etcd-departure.h"

#include "common/base/within.h"

namespace talos::machined {
namespace {

// etcd-supervisor waits 7 s for members that do not answer, and before that for nodes that might
// know members. talosctl waits 25 s for the answer of a reset, which also reads the disks.
constexpr auto kAnswer = 15 * kj::SECONDS;
constexpr auto kStaying = 5 * kj::SECONDS;
// Another change of members may come first, and etcd refuses changes for some seconds after one.
constexpr auto kLeaving = 100 * kj::SECONDS;

}  // namespace

kj::Promise<kj::Maybe<EtcdDeparture::Outlook>> EtcdDeparture::outlook(rpc::DepartureKind going) {
  if (!deps.runsEtcd()) co_return nullptr;
  auto request = deps.supervisor.outlookRequest();
  request.setKind(going);
  co_return co_await within(
      deps.timer, kAnswer, kj::Promise<Outlook>(request.send()),
      kj::str("no answer of etcd-supervisor within ", kAnswer / kj::SECONDS, " s"));
}

kj::Promise<kj::Maybe<EtcdDeparture::Outlook>> EtcdDeparture::require(rpc::DepartureKind going,
                                                                      ErrorKind kind,
                                                                      kj::StringPtr otherwise) {
  kj::Maybe<Outlook> result;
  kj::Maybe<kj::String> problem;
  co_await outlook(going).then(
      [&](kj::Maybe<Outlook>&& found) { result = kj::mv(found); },
      [&](kj::Exception&& e) {
        problem = kj::str("cannot find out whether the etcd cluster can do without this node: ",
                          messageOf(e));
      });
  KJ_IF_MAYBE (found, result) {
    if (found->getObjection().size() > 0) problem = kj::str(found->getObjection());
  }
  KJ_IF_MAYBE (why, problem) fail(kind, kj::str(*why, "; ", otherwise));
  co_return kj::mv(result);
}

kj::Promise<void> EtcdDeparture::withdraw(rpc::DepartureKind going, bool force) {
  auto request = deps.supervisor.withdrawRequest();
  request.setKind(going);
  request.setForce(force);
  return within(deps.timer, kLeaving, request.send().ignoreResult(),
                kj::str("not done within ", kLeaving / kj::SECONDS,
                        " s; talosctl get etcdstatus shows what it waits for"));
}

kj::Promise<void> EtcdDeparture::leave(rpc::DepartureKind going, bool force, ErrorKind kind,
                                       kj::StringPtr otherwise) {
  if (!deps.runsEtcd()) co_return;
  kj::Maybe<kj::Exception> wrong;
  // `force` also skips the wait for this check.
  auto checked =
      force ? kj::Promise<void>(kj::READY_NOW) : require(going, kind, otherwise).ignoreResult();
  co_await checked;
  bool stays = going == rpc::DepartureKind::RESTARTS;
  deps.print(stays ? "etcd: waiting for this node's turn to restart"_kj
                   : "etcd: leaving the cluster"_kj);
  co_await withdraw(going, force).catch_([&](kj::Exception&& e) { wrong = kj::mv(e); });
  KJ_IF_MAYBE (e, wrong) {
    auto error = kj::str(stays ? "etcd cannot do without this node yet: " : "cannot leave etcd: ",
                         messageOf(*e));
    auto found = kindOf(*e);
    if (found == ErrorKind::kFailedPrecondition) found = kind;  // an objection
    if (!force) fail(found, kj::str(error, "; retry, ", otherwise));
    deps.print(error);
  } else {
    deps.print(stays ? "etcd: this node may restart"_kj : "etcd: this node is in no cluster"_kj);
  }
}

kj::Promise<void> EtcdDeparture::stay() {
  if (!deps.runsEtcd()) return kj::READY_NOW;
  return within(deps.timer, kStaying, deps.supervisor.stayRequest().send().ignoreResult(),
                kj::str("no answer"))
      .catch_([](kj::Exception&&) {});
}

}  // namespace talos::machined
