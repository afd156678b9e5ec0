#include "talosctl/rotate-ca/rotation-run.h"

#include <unistd.h>

#include <algorithm>

#include "common/base/error.h"
#include "common/net/dns-resolver.h"
#include "common/tls/authorities.h"
#include "common/tls/public-key.h"
#include "common/wire/roles.h"
#include "talosctl/cli/cli-text.h"

namespace talos::talosctl {
namespace {

// A worker gets its certificate within seconds, and asks again within half a minute if the first
// trustd did not answer; a node that was restarted boots meanwhile.
constexpr auto kOneNode = 5 * kj::MINUTES, kOneEndpoint = 1 * kj::MINUTES, kQuiet = 3 * kj::SECONDS,
               kPause = 200 * kj::MILLISECONDS;
constexpr auto kClientLifetime = 8760 * kj::HOURS;

kj::StringPtr doneText(RotationPhase phase) {
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

bool sameHost(kj::StringPtr one, kj::StringPtr other) {
  return asAddress(one).orDefault(kj::str(one)) == asAddress(other).orDefault(kj::str(other));
}

}  // namespace

RotationRun::RotationRun(Invocation& call, RemoteRotation& cluster, Credentials present,
                         RotationOptions options)
    : call(call), cluster(cluster), present(kj::mv(present)), options(kj::mv(options)) {}

// A node that is left out would refuse all others when the old CA is dropped.
kj::Promise<void> RotationRun::findNodes() {
  auto members = co_await cluster.members(options.asked);
  if (options.nodes.empty()) {
    if (members.empty()) {
      fail(ErrorKind::kFailedPrecondition,
           kj::str(options.asked.size() > 0 ? options.asked.asPtr() : "the endpoint"_kj,
                   " knows no nodes of Kubernetes; name all nodes with --control-plane-nodes and "
                   "--worker-nodes"));
    }
    for (auto& member : members) {
      if (member.addresses.empty()) {
        fail(ErrorKind::kFailedPrecondition, kj::str(member.name, " has no address in Kubernetes"));
      }
      options.nodes.add(kj::str(member.addresses[0]));
    }
    co_return;
  }
  for (auto& member : members) {
    bool named = false;
    for (auto& node : options.nodes) {
      named = named || node == member.name;
      for (auto& address : member.addresses) named = named || sameHost(node, address);
    }
    if (!named) {
      fail(ErrorKind::kFailedPrecondition,
           kj::str("the cluster has the node ", member.name, " (",
                   kj::strArray(member.addresses, ", "),
                   ") as well; name it too, or remove it from Kubernetes first"));
    }
  }
}

kj::Promise<void> RotationRun::readNodes() {
  kj::Vector<kj::String> silent;
  for (auto& name : options.nodes) {
    kj::Maybe<kj::Exception> failure;
    try {
      nodes.add(co_await cluster.read(name));
    } catch (const kj::Exception& e) {
      failure = kj::cp(e);
    }
    KJ_IF_MAYBE (e, failure) silent.add(kj::str("\n  ", name, ": ", messageOf(*e)));
  }
  if (!silent.empty()) {
    fail(ErrorKind::kUnavailable,
         kj::str("nothing is changed in this run, because not every node can be read:",
                 kj::strArray(silent, "")));
  }
  std::stable_partition(nodes.begin(), nodes.end(),
                        [](const RotatedNode& node) { return node.controlPlane; });
}

// The file of an earlier run of this rotation is kept; any other one is not replaced.
void RotationRun::checkOutput() {
  if (access(options.output.cStr(), F_OK) != 0) return;
  bool ours = false;
  kj::runCatchingExceptions([&] {
    auto config = Talosconfig::load(options.output);
    ours = pki::sameCertificate(config.resolve().ca, rotation.newCa);
    if (ours) fresh = config.resolve().credentials();
  });
  if (!ours) {
    fail(ErrorKind::kConflict,
         kj::str(options.output,
                 " already exists, and the new client configuration does not replace it; use "
                 "another name with --output"));
  }
  written = true;
}

void RotationRun::showPlan() {
  auto line = [&](kj::StringPtr text) { call.out(kj::str("> ", text, "\n")); };
  line(kj::str("present CA of the machine API: ", shortHash(rotation.oldCa)));
  line(rotation.phase == RotationPhase::kAccept
           ? rotation.begun ? kj::str("a rotation that was begun has issued nothing; it begins "
                                      "again with another new CA")
                            : kj::str("new CA: to be made")
           : kj::str("new CA, of a rotation that was begun: ", shortHash(rotation.newCa)));
  for (auto phase : {RotationPhase::kAccept, RotationPhase::kIssue, RotationPhase::kDrop}) {
    if (phase < rotation.phase) {
      line(kj::str(phaseName(phase), ": done"));
      continue;
    }
    for (auto& node : nodes) {
      // A later phase begins with the configs that those before it leave.
      bool there = phase == rotation.phase && phase != RotationPhase::kAccept &&
                   rotationPatch(node, rotation, phase) == nullptr;
      line(kj::str(phaseName(phase), ": ", node.address, " (",
                   node.controlPlane ? "control plane" : "worker", ") ",
                   there ? "is done" : doneText(phase)));
    }
  }
  line(written ? kj::str("client configuration: ", options.output, " is there")
               : kj::str("client configuration of the new CA: ", options.output));
  line("nothing was changed; use --dry-run=false to rotate");
}

kj::String RotationRun::left(size_t from) const {
  kj::Vector<kj::StringPtr> names;
  for (size_t i = from; i < nodes.size(); ++i) names.add(nodes[i].address);
  return kj::strArray(names, ", ");
}

kj::Promise<void> RotationRun::reachPhase(size_t index, RotationPhase phase, bool changes) {
  auto& timer = call.deps.timer;
  auto start = timer.now();
  auto& node = nodes[index].address;
  kj::String last;
  for (;;) {
    kj::Maybe<kj::String> error;
    kj::Maybe<kj::Exception> failure;
    try {
      error = changes ? co_await cluster.advance(node, rotation, phase)
                      : co_await cluster.look(node, rotation, phase);
    } catch (const kj::Exception& e) {
      failure = kj::cp(e);
    }
    KJ_IF_MAYBE (e, failure) {
      fail(kindOf(*e), kj::str("stopped in the phase ", phaseName(phase), " at ", node, ": ",
                               messageOf(*e), "; left are: ", left(index)));
    }
    KJ_IF_MAYBE (e, error) {
      // A change is in effect after a moment.
      bool isLong = timer.now() - start > kQuiet;
      if (isLong && *e != last) {
        call.err(kj::str("> ", phaseName(phase), ": waiting for ", node, ": ", *e, "\n"));
        last = kj::mv(*e);
      }
    } else {
      co_return;
    }
    if (timer.now() - start > kOneNode) {
      fail(ErrorKind::kDeadlineExceeded,
           kj::str("stopped in the phase ", phaseName(phase), " at ", node, ": ", last,
                   "; left are: ", left(index),
                   "; the cluster serves clients of the present CA; start the command again to "
                   "continue"));
    }
    co_await timer.afterDelay(kPause);
  }
}

void RotationRun::makeClient() {
  if (fresh != nullptr) return;
  auto old = pki::inspect(present.certificate);
  pki::LeafOptions options;
  options.commonName = old.commonName;
  options.organizations = kj::arr(kj::str(kRoleAdmin));
  options.server = false;
  auto left = pki::inspect(rotation.newCa).notAfter - call.deps.clock.now();
  options.lifetime = kj::min(kClientLifetime, left);
  auto made = pki::issue(rotation.newCa, rotation.newKey, kj::mv(options));
  fresh = Credentials{kj::str(rotation.newCa), kj::mv(made.certificate), kj::mv(made.key)};
}

void RotationRun::writeClient() {
  if (written) return;
  auto& credentials = KJ_ASSERT_NONNULL(fresh);
  Context context{.endpoints = {},
                  .nodes = {},
                  .ca = kj::str(credentials.authorities),
                  .certificate = kj::str(credentials.certificate),
                  .key = credentials.key.clone()};
  for (auto& endpoint : cluster.endpoints()) context.endpoints.add(kj::str(endpoint));
  for (auto& node : options.contextNodes) context.nodes.add(kj::str(node));
  Talosconfig config;
  config.add(options.contextName, kj::mv(context));
  config.saveNew(options.output);
  written = true;
  call.err(kj::str("> client configuration of the new CA written: ", options.output, "\n"));
}

// Clients of the new CA are served from `accept` on, those of the old one until `drop`.
kj::Promise<void> RotationRun::tryEndpoint(kj::StringPtr endpoint, RotationPhase phase) {
  auto& timer = call.deps.timer;
  auto start = timer.now();
  for (;;) {
    auto newError = co_await cluster.tryClient(endpoint, KJ_ASSERT_NONNULL(fresh));
    kj::Maybe<kj::String> oldError;
    if (rotation.oldClient) oldError = co_await cluster.tryClient(endpoint, present);
    bool oldServed = rotation.oldClient && oldError == nullptr;
    bool wanted = phase != RotationPhase::kDrop;
    kj::String problem;
    KJ_IF_MAYBE (e, newError) {
      problem = kj::str("a client of the new CA is not served: ", *e);
    } else if (rotation.oldClient && oldServed != wanted) {
      problem = wanted
                    ? kj::str("a client of the old CA is not served: ", KJ_ASSERT_NONNULL(oldError))
                    : kj::str("a client of the old CA is served still");
    } else {
      co_return;
    }
    if (timer.now() - start > kOneEndpoint) {
      fail(ErrorKind::kFailedPrecondition,
           kj::str("stopped after the phase ", phaseName(phase), ": endpoint ", endpoint, ": ",
                   problem, "; start the command again to continue"));
    }
    co_await timer.afterDelay(kPause);
  }
}

kj::Promise<void> RotationRun::tryClients(RotationPhase phase) {
  for (auto& endpoint : cluster.endpoints()) co_await tryEndpoint(endpoint, phase);
  call.err(kj::str("> ", phaseName(phase), ": tried: every endpoint serves clients of ",
                   phase == RotationPhase::kDrop ? "the new CA only"_kj : "both CAs"_kj, "\n"));
}

kj::Promise<void> RotationRun::phase(RotationPhase phase) {
  for (size_t i = 0; i < nodes.size(); ++i) {
    co_await reachPhase(i, phase, true);
    call.err(kj::str("> ", phaseName(phase), ": ", nodes[i].address, " ", doneText(phase), "\n"));
    // From now on the key of the new CA is kept by a node: whoever has the file can use it.
    if (phase == RotationPhase::kIssue) writeClient();
  }
  for (size_t i = 0; i < nodes.size(); ++i) co_await reachPhase(i, phase, false);
  co_await tryClients(phase);
}

kj::Promise<void> RotationRun::run() {
  co_await findNodes();
  co_await readNodes();
  rotation = planRotation(nodes, call.deps.clock.now());
  rotation.oldClient = pki::isSignedBy(present.certificate, rotation.oldCa);
  checkOutput();
  if (options.dryRun) {
    showPlan();
    co_return;
  }
  call.err(kj::str("> present CA ", shortHash(rotation.oldCa), ", new CA ",
                   shortHash(rotation.newCa), rotation.begun ? ", continued" : "", "\n"));
  makeClient();
  if (rotation.phase == RotationPhase::kAccept) co_await phase(RotationPhase::kAccept);
  if (rotation.phase <= RotationPhase::kIssue) co_await phase(RotationPhase::kIssue);
  writeClient();
  cluster.use(copyOf(KJ_ASSERT_NONNULL(fresh)));
  co_await phase(RotationPhase::kDrop);
  call.err(kj::str("> the CA of the machine API is rotated; use --talosconfig ", options.output,
                   ", or talosctl config merge ", options.output, "\n"));
}

}  // namespace talos::talosctl
