#include "talosctl/rotate-ca/machine-rotation.h"

#include <unistd.h>

#include "common/base/error.h"
#include "common/base/join-token.h"
#include "common/base/resource.h"
#include "common/tls/public-key.h"
#include "common/wire/roles.h"
#include "rpc/etcd.capnp.h"
#include "rpc/secret-resources.capnp.h"

namespace talos::talosctl {
namespace {

constexpr auto kOneEndpoint = 1 * kj::MINUTES;
constexpr auto kClientLifetime = 8760 * kj::HOURS;

}  // namespace

kj::Promise<void> MachineRotation::readMore() {
  bool joined = false;
  for (auto& node : nodes) {
    if (!hasTokenOfItsOwn(node, nodes)) continue;
    auto shown = co_await apiCertificates(node);
    node.certificate = kj::mv(shown.server);
    joined = joined || isJoinTokenLike(kj::StringPtr(node.token));
  }
  if (joined) co_await listTokens();
}

// Every control-plane node with a running etcd member has the same list.
kj::Promise<void> MachineRotation::listTokens() {
  kj::Maybe<kj::Exception> failure;
  for (auto& node : nodes) {
    if (!node.controlPlane) continue;
    try {
      auto reached = co_await cluster.reach(node.address);
      auto request = reached.etcdRequest().send().getEtcd().joinTokensRequest();
      auto got = co_await cluster.answer<rpc::Etcd::JoinTokensResults>(request.send());
      for (auto token : got.getTokens()) {
        tokens.add(ListedToken{kj::str(token.getId()), token.getState(), kj::str(token.getUsedBy()),
                               kj::str(token.getFingerprint())});
      }
      co_return;
    } catch (const kj::Exception& e) {
      failure = kj::cp(e);
    }
  }
  KJ_IF_MAYBE (e, failure) {
    fail(kindOf(*e), kj::str("nothing is changed in this run, because the join tokens of workers "
                             "cannot be listed: ",
                             messageOf(*e)));
  }
}

kj::Promise<MachineRotation::ApiCertificates> MachineRotation::apiCertificates(
    const RotatedNode& node) {
  auto reached = co_await cluster.reach(node.address);
  auto request = reached.sensitiveResourcesRequest().send().getResources().getRequest();
  request.initKind().setType(typeName<rpc::ApiCertificateSpec>());
  request.setId("api");
  auto got = co_await cluster.answer<rpc::Resources::GetResults>(request.send());
  auto spec = got.getResource().getSpec().getAs<rpc::ApiCertificateSpec>();
  co_return ApiCertificates{pemOf(spec.getCa()), pemOf(spec.getServer().getCrt())};
}

kj::Promise<void> MachineRotation::prepare() {
  oldClient = pki::isSignedBy(present.certificate, rotation.oldCa);
  checkOutput();
  return kj::READY_NOW;
}

// Keeps the file of an earlier run of this rotation; must not replace any other file.
void MachineRotation::checkOutput() {
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

void MachineRotation::showMore() {
  call.out(written ? kj::str("> client configuration: ", options.output, " is there\n")
                   : kj::str("> client configuration of the new CA: ", options.output, "\n"));
}

kj::Promise<void> MachineRotation::begin(RotationPhase phase) {
  makeClient();
  if (phase == RotationPhase::kDrop) {
    writeClient();
    cluster.use(copyOf(KJ_ASSERT_NONNULL(fresh)));
  }
  return kj::READY_NOW;
}

kj::Promise<kj::Maybe<kj::String>> MachineRotation::served(const RotatedNode& node,
                                                           RotationPhase phase) {
  auto now = co_await apiCertificates(node);
  auto error = phaseError(rotation, phase, now.trusted, now.server);
  co_return error.map([](kj::StringPtr& text) { return kj::str(text); });
}

// From now on a node keeps the key of the new CA, so any user with the file can use it.
void MachineRotation::reached(RotationPhase phase) {
  if (phase == RotationPhase::kIssue) writeClient();
}

void MachineRotation::makeClient() {
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

void MachineRotation::writeClient() {
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
  note(kj::str("client configuration of the new CA written: ", options.output));
}

// Clients of the new CA are served from `accept` on, clients of the old CA until `drop`.
kj::Promise<void> MachineRotation::tryEndpoint(kj::StringPtr endpoint, RotationPhase phase) {
  auto& timer = call.deps.timer;
  auto start = timer.now();
  for (;;) {
    auto newError = co_await cluster.tryClient(endpoint, KJ_ASSERT_NONNULL(fresh));
    kj::Maybe<kj::String> oldError;
    if (oldClient) oldError = co_await cluster.tryClient(endpoint, present);
    bool oldServed = oldClient && oldError == nullptr;
    bool wanted = phase != RotationPhase::kDrop;
    kj::String problem;
    KJ_IF_MAYBE (e, newError) {
      problem = kj::str("a client of the new CA is not served: ", *e);
    } else if (oldClient && oldServed != wanted) {
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
    co_await timer.afterDelay(pause());
  }
}

kj::Promise<void> MachineRotation::tryClients(RotationPhase phase) {
  for (auto& endpoint : cluster.endpoints()) co_await tryEndpoint(endpoint, phase);
  note(kj::str(phaseName(phase), ": tried: every endpoint serves clients of ",
               phase == RotationPhase::kDrop ? "the new CA only"_kj : "both CAs"_kj));
}

kj::Promise<void> MachineRotation::finish() {
  note(kj::str("the CA of the machine API is rotated; use --talosconfig ", options.output,
               ", or talosctl config merge ", options.output));
  return kj::READY_NOW;
}

}  // namespace talos::talosctl
