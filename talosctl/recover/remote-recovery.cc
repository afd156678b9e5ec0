#include "talosctl/recover/remote-recovery.h"

#include "common/base/error.h"
#include "rpc/etcd-resources.capnp.h"
#include "talosctl/client/follow-node.h"
#include "talosctl/client/node-resource.h"
#include "talosctl/rollout/attempts.h"
#include "talosctl/upgrade-cluster/node-answers-read.h"

namespace talos::talosctl {
namespace {

constexpr auto kConnect = 10 * kj::SECONDS, kAnswer = 8 * kj::SECONDS,
               kResetAnswer = 2 * kj::MINUTES;

// Returns "10.5.0.2" for "https://10.5.0.2:2380"; the text itself if it is not a URL.
kj::String hostOf(kj::StringPtr url) {
  auto text = url;
  KJ_IF_MAYBE (scheme, url.findFirst('/')) {
    if (url.slice(*scheme).startsWith("//")) text = url.slice(*scheme + 2);
  }
  auto end = text.findLast(':').orDefault(text.size());
  auto host = kj::str(text.slice(0, end));
  bool bracketed = host.startsWith("[") && host.endsWith("]");
  return bracketed ? kj::str(host.slice(1, host.size() - 1)) : kj::mv(host);
}

RecoveryNode nodeOf(NodeSurvey&& survey) {
  RecoveryNode node;
  node.address = kj::mv(survey.address);
  node.silence = kj::mv(survey.silence);
  node.hostname = kj::mv(survey.hostname);
  node.bootId = kj::mv(survey.bootId);
  node.controlPlane = survey.controlPlane;
  node.phase = kj::mv(survey.etcdPhase);
  node.message = kj::mv(survey.etcdMessage);
  return node;
}

void take(rpc::Etcd::MembersResults::Reader members, RecoveryNode& node) {
  node.quorum = members.getQuorum();
  for (auto member : members.getMembers()) {
    auto urls = member.getPeerUrls();
    node.members.add(KnownMember{kj::str(member.getName()),
                                 urls.size() > 0 ? hostOf(urls[0]) : kj::String(),
                                 member.getLearner()});
  }
}

// Ignores an error, which means that the node's etcd does not run, or that the node is a worker.
template <typename T, typename F>
kj::Promise<void> ifAnswered(kj::Timer& timer, kj::Promise<T> answer, F take) {
  return within(timer, kAnswer, kj::mv(answer)).then(kj::mv(take), [](kj::Exception&&) {});
}

}  // namespace

kj::Promise<RecoveryNode> RemoteRecovery::ask(Client& client, kj::StringPtr name) {
  auto& timer = call.deps.timer;
  auto remote = client.node(name);
  auto node = nodeOf(co_await surveyNode(timer, remote, kj::str(name), kAnswer));
  if (node.silence != nullptr || !node.controlPlane) co_return kj::mv(node);
  auto etcd = remote.etcdRequest().send().getEtcd();
  using Members = capnp::Response<rpc::Etcd::MembersResults>;
  using Status = capnp::Response<rpc::Etcd::StatusResults>;
  auto asking = kj::heapArrayBuilder<kj::Promise<void>>(4);
  asking.add(ifAnswered(timer, kj::Promise<Members>(etcd.membersRequest().send()),
                        [&](Members&& answer) { take(answer, node); }));
  asking.add(
      ifAnswered(timer, kj::Promise<Status>(etcd.statusRequest().send()),
                 [&](Status&& answer) { node.revision = answer.getStatus().getRevision(); }));
  asking.add(ifAnswered(timer, getResource<rpc::EtcdConfigSpec>(remote, "etcd"),
                        [&](ResourceAnswer&& found) {
                          auto config = resourceIn<rpc::EtcdConfigSpec>(found);
                          node.authorities = kj::str(config.getAuthorities());
                        }));
  asking.add(ifAnswered(timer, getResource<rpc::EtcdSpecSpec>(remote, "etcd"),
                        [&](ResourceAnswer&& found) {
                          auto waits = resourceIn<rpc::EtcdSpecSpec>(found).getWaitsFor();
                          node.damaged = waits.startsWith("its data:");
                          if (node.damaged) node.message = kj::str(waits);
                        }));
  co_await kj::joinPromises(asking.finish());
  co_return kj::mv(node);
}

kj::Promise<kj::Array<RecoveryNode>> RemoteRecovery::survey() {
  auto client = kj::heap<Client>(call.deps, resolveTarget(call));
  auto unreached = co_await failureOf([&] { return client->connect(kConnect); });
  KJ_IF_MAYBE (e, unreached) {
    co_return KJ_MAP(name, names) {
      RecoveryNode silent;
      silent.address = kj::str(name);
      silent.silence = messageOf(*e);
      return silent;
    };
  }
  auto asking = KJ_MAP(name, names) {
    return ask(*client, name);
  };
  co_return co_await kj::joinPromises(kj::mv(asking));
}

kj::Promise<void> RemoteRecovery::erase(const RecoveryNode& node, Progress& progress,
                                        size_t index) {
  {
    Client client(call.deps, resolveTarget(call));
    co_await client.connect(kConnect);
    auto request = client.node(node.address).machineRequest().send().getMachine().resetRequest();
    request.setGraceful(false);
    request.setReboot(true);
    request.initLabels(1).set(0, "EPHEMERAL");
    progress.set(index, "erasing its data");
    co_await within(call.deps.timer, kResetAnswer,
                    kj::Promise<capnp::Response<rpc::Machine::ResetResults>>(request.send()))
        .ignoreResult();
  }
  co_await follow(call, Outcome::Kind::kReboot, node.address, kj::str(node.bootId), progress,
                  index);
}

kj::Promise<void> RemoteRecovery::restore(Progress& progress) {
  Session session(call.deps, resolveTarget(call), call.deadline());
  co_await session.client.connect(kConnect);
  BootstrapCall how{.among = names.slice(1, names.size()),
                    .without = without,
                    .snapshot = snapshot,
                    .skipHashCheck = skipHashCheck};
  kj::String last;
  co_await callBootstrap(call, session, names[0], how, progress, last).ignoreResult();
}

}  // namespace talos::talosctl
