#include "talosctl/cluster/nodes/cluster-bootstrap.h"

#include "common/base/error.h"
#include "common/base/fill-list.h"
#include "common/talosconfig/talosconfig.h"
#include "talosctl/client/cluster-client.h"
#include "talosctl/etcd/bootstrap-call.h"
#include "talosctl/etcd/etcd-quorum.h"

namespace talos::cluster {
namespace {

constexpr kj::Duration kEtcdAnswer = 5 * kj::SECONDS, kEtcdPause = 200 * kj::MILLISECONDS;

// The connection to the first control-plane node; reconnects when it is lost.
class FirstNode {
 public:
  FirstNode(talosctl::Invocation& call, const Context& context, rpc::LocalNode::Reader node)
      : call(call), context(context), endpoint(kj::str(node.getEndpoint())) {}

  kj::Promise<rpc::Node::Client> node() {
    if (client == nullptr) client = kj::heap<talosctl::Client>(call.deps, target());
    auto& c = *KJ_ASSERT_NONNULL(client);
    co_await c.connect(kEtcdAnswer);
    co_return c.node("");
  }
  void forget() { client = nullptr; }

 private:
  talosctl::Invocation& call;
  const Context& context;
  kj::String endpoint;
  kj::Maybe<kj::Own<talosctl::Client>> client;

  talosctl::Target target() {
    talosctl::Target target{
        .endpoints = {}, .nodes = {}, .credentials = context.credentials(), .fingerprints = {}};
    target.endpoints.add(kj::str(endpoint));
    return target;
  }
};

// `among`: the control-plane nodes, which the nodes' configs do not name.
kj::Promise<void> makeCluster(talosctl::Invocation& call, FirstNode& first,
                              kj::ArrayPtr<const kj::String> among, talosctl::Progress& progress,
                              kj::TimePoint until) {
  auto node = co_await first.node();
  auto request = node.etcdRequest().send().getEtcd().bootstrapRequest();
  fillTexts(request.initAmong(static_cast<unsigned>(among.size())), among);
  kj::Promise<void> pending = request.send().ignoreResult();
  kj::String last;
  auto left = kj::max(until - call.deps.timer.now(), kEtcdAnswer);
  co_await talosctl::within(call.deps.timer, left, kj::mv(pending))
      .exclusiveJoin(talosctl::followEtcd(call, node, progress, last));
}

kj::Promise<kj::String> askVoters(FirstNode& first, size_t wanted, bool& all) {
  auto node = co_await first.node();
  auto members = co_await node.etcdRequest().send().getEtcd().membersRequest().send();
  co_return votersText(members.getMembers(), wanted, all);
}

kj::Promise<void> awaitVoters(talosctl::Invocation& call, FirstNode& first, size_t wanted,
                              talosctl::Progress& progress, kj::TimePoint until) {
  auto& timer = call.deps.timer;
  for (;;) {
    bool all = false;
    kj::String observed;
    try {
      observed = co_await talosctl::within(timer, kEtcdAnswer, askVoters(first, wanted, all));
    } catch (const kj::Exception& e) {
      observed = kj::str("no answer: ", messageOf(e));
      first.forget();
      all = false;
    }
    progress.set(0, observed);
    if (all) co_return;
    if (timer.now() > until) {
      fail(ErrorKind::kDeadlineExceeded, kj::str("etcd: timed out: ", observed));
    }
    co_await timer.afterDelay(kEtcdPause);
  }
}

}  // namespace

kj::String votersText(capnp::List<rpc::Etcd::Member>::Reader members, size_t wanted, bool& all) {
  size_t voters = 0;
  kj::Vector<kj::String> problems;
  for (auto member : members) {
    auto problem = member.getProblem();
    if (problem.size() > 0) {
      problems.add(kj::str("; ",
                           member.getName().size() > 0 ? kj::str(member.getName())
                                                       : talosctl::memberIdText(member.getId()),
                           ": ", problem));
    } else if (!member.getLearner()) {
      ++voters;
    }
  }
  all = voters >= wanted && problems.empty();
  return kj::str(voters, " of ", wanted,
                 wanted == 1 ? " control-plane node is a voting member"
                             : " control-plane nodes are voting members",
                 kj::strArray(problems, ""));
}

kj::Promise<void> bootstrapEtcd(talosctl::Invocation& call, rpc::LocalCluster::Reader cluster,
                                kj::StringPtr stateFolder, kj::Duration deadline) {
  auto config = Talosconfig::load(kj::str(stateFolder, "/talosconfig"));
  auto& context = config.resolve();
  kj::Vector<kj::String> masters;
  for (auto node : cluster.getNodes()) {
    if (node.getType() != "join") masters.add(kj::str(node.getAddress()));
  }
  auto until = call.deps.timer.now() + deadline;
  auto names = kj::arr(kj::str("etcd"));
  talosctl::Progress progress(call.deps.console, names);
  auto node = cluster.getNodes()[0];
  FirstNode first(call, context, node);
  if (node.getType() != "init") co_await makeCluster(call, first, masters, progress, until);
  co_await awaitVoters(call, first, masters.size(), progress, until);
}

}  // namespace talos::cluster
