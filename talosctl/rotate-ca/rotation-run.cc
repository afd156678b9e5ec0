#include "talosctl/rotate-ca/rotation-run.h"

#include <algorithm>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/net/dns-resolver.h"
#include "common/text/texts.h"
#include "talosctl/cli/cli-text.h"

namespace talos::talosctl {
namespace {

// A worker gets its certificate within seconds, or within half a minute if the first trustd does
// not answer; a node that was restarted boots meanwhile.
constexpr auto kOneNode = 5 * kj::MINUTES, kQuiet = 3 * kj::SECONDS;

bool sameHost(kj::StringPtr one, kj::StringPtr other) {
  return asAddress(one).orDefault(kj::str(one)) == asAddress(other).orDefault(kj::str(other));
}

bool isOf(kj::StringPtr host, const ClusterMember& member) {
  if (host == member.name) return true;
  for (auto& address : member.addresses) {
    if (sameHost(host, address)) return true;
  }
  return false;
}

}  // namespace

RotationRun::RotationRun(Invocation& call, RemoteRotation& cluster, const RotationOptions& options,
                         RotatedCa which)
    : call(call), cluster(cluster), options(options) {
  rotation.which = which;
}

kj::StringPtr RotationRun::doneText(RotationPhase phase) const {
  switch (phase) {
    case RotationPhase::kAccept:
      return "accepts the new CA beside its own"_kj;
    case RotationPhase::kIssue:
      return "has certificates of the new CA, and accepts the old one"_kj;
    case RotationPhase::kDrop:
      return "accepts the new CA only"_kj;
  }
  KJ_UNREACHABLE;
}

void RotationRun::note(kj::StringPtr text) {
  call.err(kj::str("> ", printable(text), "\n"));
}

kj::Promise<void> RotationRun::repeat(Attempt attempt, kj::Duration limit, kj::StringPtr problem) {
  RetryOptions options{.limit = limit, .pause = pause(), .late = [&](kj::StringPtr reason) {
                         return error(ErrorKind::kDeadlineExceeded, kj::str(problem, ": ", reason));
                       }};
  co_await retryUntilReached(call.deps.timer, kj::mv(options),
                             [&] { return cluster.attempt(attempt()); });
}

kj::Promise<void> RotationRun::prepare() {
  for (auto& node : nodes) {
    if (node.name.size() > 0) continue;
    fail(ErrorKind::kFailedPrecondition,
         kj::str(node.address, " is not a node of Kubernetes; leave it out, or wait for its join"));
  }
  return kj::READY_NOW;
}

kj::Promise<bool> RotationRun::forgetOldCa(bool aggregator) {
  auto kubernetes = co_await cluster.kubernetes(nodes[0]);
  auto request = kubernetes.forgetClientCaRequest();
  request.setAuthority(rotation.oldCa.asBytes());
  request.setAggregator(aggregator);
  auto answer = co_await cluster.answer<rpc::Kubernetes::ForgetClientCaResults>(request.send());
  co_return answer.getFound();
}

void RotationRun::addMember(kj::Vector<Named>& named, const ClusterMember& member,
                            kj::StringPtr asked) const {
  if (member.addresses.empty()) {
    fail(ErrorKind::kFailedPrecondition, kj::str(member.name, " has no address in Kubernetes"));
  }
  if (options.nodes.empty()) named.add(Named{kj::str(member.addresses[0]), {}, {}, {}});
  bool known = false;
  for (auto& node : named) {
    if (!isOf(node.host, member)) continue;
    if (node.name.size() > 0) {
      fail(ErrorKind::kFailedPrecondition,
           kj::str(node.host, " is a name or an address of two nodes of Kubernetes, ", node.name,
                   " and ", member.name, "; correct their addresses first"));
    }
    known = true;
    node.name = kj::str(member.name);
    node.ip = kj::str(member.addresses[0]);
    node.role.byMembers = member.controlPlane;
    node.role.asked = asked;
  }
  if (known) return;
  fail(ErrorKind::kFailedPrecondition,
       kj::str("the cluster has the node ", member.name, " (", kj::strArray(member.addresses, ", "),
               ") as well; name it too, or remove it from Kubernetes first"));
}

// Finds all nodes: a node that is left out would refuse all others when the old CA is dropped.
kj::Promise<kj::Vector<RotationRun::Named>> RotationRun::findNodes(kj::StringPtr asked) {
  auto members = co_await cluster.members(asked);
  if (asked.size() == 0) asked = "the endpoint"_kj;
  bool all = options.nodes.empty();
  if (members.empty() && (all || rotation.which != RotatedCa::kMachine)) {
    fail(
        ErrorKind::kFailedPrecondition,
        kj::str(asked, " knows no nodes of Kubernetes",
                all ? "; name all nodes with --control-plane-nodes and --worker-nodes"_kj : ""_kj));
  }
  kj::Vector<Named> named;
  for (auto& node : options.nodes) {
    auto& one = named.add(Named{kj::str(node), {}, {}, {}});
    if (contains(options.planes, node)) one.role.byFlag = true;
    if (contains(options.workers, node)) one.role.byFlag = false;
  }
  for (auto& member : members) addMember(named, member, asked);
  co_return kj::mv(named);
}

// The list may come from a worker, so it must equal the list of a node that has proved to belong to
// the control plane.
kj::Promise<void> RotationRun::requireSameMembers(kj::ArrayPtr<const Named> named) {
  auto linesOf = [](kj::ArrayPtr<const Named> list) {
    auto lines = KJ_MAP(node, list) {
      return kj::str(node.host, " ", node.name, " ", node.ip, " ",
                     node.role.byMembers.orDefault(false) ? "controlplane" : "worker");
    };
    std::sort(lines.begin(), lines.end());
    return kj::strArray(lines, "; ");
  };
  auto listed = co_await findNodes(nodes[0].address);
  auto first = linesOf(named), second = linesOf(listed);
  if (first == second) co_return;
  fail(ErrorKind::kFailedPrecondition,
       kj::str("nothing is changed in this run, because ",
               options.asked.size() > 0 ? options.asked.asPtr() : "the endpoint"_kj,
               " lists other members than the control-plane node ", nodes[0].address, ": ", first,
               ", not ", second, "; ask a control-plane node"));
}

// Assigns the roles. The nodes may be in any phase of a rotation: nodes that know the CA of the
// client lead to the others.
void RotationRun::fixRoles(kj::ArrayPtr<const Named> named) {
  auto& proof = cluster.controlPlaneProof();
  for (int pass = 0; pass < 2; ++pass) {
    for (auto& node : nodes) {
      if (node.controlPlane) proof.learn(node.machine);
    }
  }
  for (auto i : kj::indices(nodes)) requireRole(nodes[i], named[i].role, proof);
}

kj::Promise<void> RotationRun::readNodes(kj::ArrayPtr<const Named> named) {
  kj::Vector<kj::String> silent;
  for (auto& one : named) {
    auto failure = co_await failureOf([&]() -> kj::Promise<void> {
      auto node = co_await cluster.read(one.host, rotation.which);
      node.name = kj::str(one.name);
      node.ip = kj::str(one.ip);
      nodes.add(kj::mv(node));
    });
    KJ_IF_MAYBE (e, failure) silent.add(kj::str("\n  ", one.host, ": ", messageOf(*e)));
  }
  if (!silent.empty()) {
    fail(ErrorKind::kUnavailable,
         kj::str("nothing is changed in this run, because not every node can be read:",
                 kj::strArray(silent, "")));
  }
  fixRoles(named);
  std::stable_partition(nodes.begin(), nodes.end(),
                        [](const RotatedNode& node) { return node.controlPlane; });
  if (nodes.empty() || !nodes[0].controlPlane) {
    fail(ErrorKind::kFailedPrecondition, "none of the nodes is a control-plane node");
  }
  co_await requireSameMembers(named);
  if (!isOfControlPlane(rotation.which)) co_return;
  while (!nodes.empty() && !nodes.back().controlPlane) nodes.removeLast();
}

void RotationRun::showPlan() {
  auto line = [&](kj::StringPtr text) { call.out(kj::str("> ", printable(text), "\n")); };
  line(kj::str("present ", thing(), " of ", owner(), ": ", shownOld()));
  // Only the new key of Secrets is in configs from the first phase on.
  bool again = rotation.phase == RotationPhase::kAccept && rotation.which != RotatedCa::kSecretsKey;
  line(!rotation.begun ? kj::str("new ", thing(), ": to be made")
       : again ? kj::str("a rotation that was begun has issued nothing; it begins again with "
                         "another new ",
                         thing())
               : kj::str("new ", thing(), ", of a rotation that was begun: ", shownNew()));
  for (auto phase : {RotationPhase::kAccept, RotationPhase::kIssue, RotationPhase::kDrop}) {
    if (phase < rotation.phase) {
      line(kj::str(phaseName(phase), ": done"));
      continue;
    }
    for (auto i : order(phase)) {
      auto& node = nodes[i];
      // A later phase starts from the configs that the earlier phases leave.
      bool there = phase == rotation.phase && phase != RotationPhase::kAccept &&
                   rotationPatch(node, rotation, phase) == nullptr;
      line(kj::str(phaseName(phase), ": ", node.address, " (",
                   node.controlPlane ? "control plane" : "worker", ") ",
                   there ? "is done" : doneText(phase)));
    }
  }
  showMore();
}

// Returns the order of a phase: workers first in `drop`, so that the control plane's configs show a
// rotation with remaining workers.
kj::Vector<size_t> RotationRun::order(RotationPhase phase) const {
  kj::Vector<size_t> order;
  bool first = phase != RotationPhase::kDrop;
  for (bool controlPlane : {first, !first}) {
    for (auto i : kj::indices(nodes)) {
      if (nodes[i].controlPlane == controlPlane) order.add(i);
    }
  }
  return order;
}

kj::Promise<void> RotationRun::reachPhase(RotatedNode& node, RotationPhase phase, bool changes,
                                          kj::StringPtr left) {
  auto stopped = [&](kj::StringPtr reason) {
    return kj::str("stopped in the phase ", phaseName(phase), " at ", node.address, ": ", reason,
                   "; left are: ", left);
  };
  kj::String last;
  RetryOptions options{
      .limit = kOneNode,
      .pause = pause(),
      .late =
          [&](kj::StringPtr reason) {
            return error(ErrorKind::kDeadlineExceeded,
                         kj::str(stopped(reason), "; ", stateWhenStopped(),
                                 "; start the command again to continue"));
          },
      .retrying =
          [&](kj::StringPtr reason, kj::Duration waited) {
            // A change normally takes effect within a moment.
            if (waited <= kQuiet || reason == last) return;
            note(kj::str(phaseName(phase), ": waiting for ", node.address, ": ", reason));
            last = kj::str(reason);
          }};
  RemoteRotation::Served inEffect = [&] { return served(node, phase); };
  auto attempt = [&] {
    return (changes ? cluster.advance(node, rotation, phase, inEffect)
                    : cluster.look(node, rotation, phase, inEffect))
        .catch_([&](kj::Exception&& e) -> kj::Promise<Missing> {
          return error(kindOf(e), stopped(messageOf(e)));
        });
  };
  co_await retryUntilReached(call.deps.timer, kj::mv(options), attempt);
}

kj::Promise<void> RotationRun::phase(RotationPhase phase) {
  co_await begin(phase);
  auto indices = order(phase);
  auto leftFrom = [&](size_t from) {
    kj::Vector<kj::StringPtr> names;
    for (auto i : indices.asPtr().slice(from, indices.size())) names.add(nodes[i].address);
    return kj::strArray(names, ", ");
  };
  for (auto i : kj::indices(indices)) {
    auto& node = nodes[indices[i]];
    co_await reachPhase(node, phase, true, leftFrom(i));
    note(kj::str(phaseName(phase), ": ", node.address, " ", doneText(phase)));
    reached(phase);
  }
  for (auto i : kj::indices(indices)) {
    co_await reachPhase(nodes[indices[i]], phase, false, leftFrom(i));
  }
  co_await tryClients(phase);
}

kj::Promise<void> RotationRun::look() {
  auto named = co_await findNodes(options.asked);
  co_await readNodes(named);
  co_await readMore();
  rotation = planRotation(rotation.which, nodes, call.deps.clock.now(), tokens);
}

kj::Promise<void> RotationRun::show() {
  co_await prepare();
  showPlan();
}

kj::Promise<void> RotationRun::run() {
  co_await prepare();
  // From `issue` on, control-plane nodes show the key of the new CA.
  if (rotation.which == RotatedCa::kMachine) cluster.controlPlaneProof().add(rotation.newCa);
  note(kj::str("present ", thing(), " of ", owner(), " ", shownOld(), ", new ", thing(), " ",
               shownNew(), rotation.begun ? ", continued" : ""));
  if (options.mark.size() > 0) writeFileAtomically(options.mark, ""_kj, 0600);
  if (rotation.phase == RotationPhase::kAccept) co_await phase(RotationPhase::kAccept);
  if (rotation.phase <= RotationPhase::kIssue) co_await phase(RotationPhase::kIssue);
  co_await phase(RotationPhase::kDrop);
  finish();
}

}  // namespace talos::talosctl
