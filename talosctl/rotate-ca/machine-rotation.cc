// Rotates the CA of the machine API (rotation-run.h). Nothing restarts.
//
// A client configuration of the new CA is written when the first node has the key of the new CA:
// from then on any user with the file can use it. The user's context gets the same certificate
// before the first node drops the old CA, so it works at every moment, and with any --output.
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/join-token.h"
#include "common/talosconfig/talosconfig.h"
#include "common/tls/public-key.h"
#include "common/wire/roles.h"
#include "rpc/etcd.capnp.h"
#include "rpc/secret-resources.capnp.h"
#include "talosctl/client/file-lock.h"
#include "talosctl/rotate-ca/rotations.h"

namespace talos::talosctl {
namespace {

constexpr auto kOneEndpoint = 1 * kj::MINUTES;
constexpr auto kClientLifetime = 8760 * kj::HOURS;

class MachineRotation final : public RotationRun {
 public:
  MachineRotation(Invocation& call, RemoteRotation& cluster, const RotationOptions& options,
                  Credentials present)
      : RotationRun(call, cluster, options, RotatedCa::kMachine), present(kj::mv(present)) {}

 private:
  Credentials present;           // credentials of the user
  kj::Maybe<Credentials> fresh;  // credentials of the new CA
  bool oldClient = false;        // the user's certificate is of the old CA
  bool written = false;          // the new client configuration is in its file

  kj::Promise<void> readMore() override;
  kj::StringPtr owner() const override { return "the machine API"_kj; }
  kj::Promise<void> prepare() override;
  void showMore() override;
  kj::Promise<void> begin(RotationPhase phase) override;
  kj::Promise<Missing> served(const RotatedNode& node, RotationPhase phase) override;
  void reached(RotationPhase phase) override;
  kj::Promise<void> tryClients(RotationPhase phase) override;
  void finish() override;
  kj::Duration pause() const override { return 200 * kj::MILLISECONDS; }

  struct ApiCertificates {
    kj::String trusted, server;  // as PEM
  };
  kj::Promise<ApiCertificates> apiCertificates(const RotatedNode& node);
  kj::Promise<void> listTokens();
  void checkOutput();
  void makeClient();
  void writeClient();
  kj::Promise<void> renewContext(kj::StringPtr path, kj::StringPtr context);
  kj::Promise<Missing> clientError(kj::StringPtr endpoint, bool old);
};

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
    failure = co_await failureOf([&]() -> kj::Promise<void> {
      auto etcd = co_await cluster.etcd(node);
      auto got =
          co_await cluster.answer<rpc::Etcd::JoinTokensResults>(etcd.joinTokensRequest().send());
      for (auto token : got.getTokens()) {
        tokens.add(ListedToken{kj::str(token.getId()), token.getState(), kj::str(token.getUsedBy()),
                               kj::str(token.getFingerprint())});
      }
    });
    if (failure == nullptr) co_return;
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
  auto got =
      co_await cluster.answer(getResource<rpc::ApiCertificateSpec>(kj::mv(reached), "api", true));
  auto spec = resourceIn<rpc::ApiCertificateSpec>(got);
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
  bool ours = false, isPresent = false;
  kj::runCatchingExceptions([&] {
    auto config = Talosconfig::load(options.output);
    auto& authority = config.resolve().ca;
    ours = pki::sameCertificate(authority, rotation.newCa);
    isPresent = pki::sameCertificate(authority, rotation.oldCa);
    if (ours) fresh = config.resolve().credentials();
  });
  if (!ours) {
    fail(ErrorKind::kConflict,
         kj::str(options.output,
                 " already exists, and the new client configuration does not replace it; use "
                 "another name with --output",
                 isPresent
                     ? ", or --talos=false if the rotation that wrote it was cut off at its end"
                     : ""));
  }
  written = true;
}

void MachineRotation::showMore() {
  call.out(written ? kj::str("> client configuration: ", options.output, " is there\n")
                   : kj::str("> client configuration of the new CA: ", options.output, "\n"));
}

kj::Promise<void> MachineRotation::begin(RotationPhase phase) {
  makeClient();
  if (phase != RotationPhase::kDrop) co_return;
  writeClient();
  // The user's own comes last: after a crash it shows that the others are not renewed yet.
  for (auto& path : options.renewed) co_await renewContext(path, "");
  co_await renewContext(configPath(call), options.contextName);
  cluster.use(copyOf(KJ_ASSERT_NONNULL(fresh)));
}

kj::Promise<Missing> MachineRotation::served(const RotatedNode& node, RotationPhase phase) {
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

// A file that cannot be written, such as that of a pod, does not stop the rotation: the new client
// configuration is in --output.
kj::Promise<void> MachineRotation::renewContext(kj::StringPtr path, kj::StringPtr context) {
  bool renewed = false;
  auto failure = co_await failureOf([&]() -> kj::Promise<void> {
    renewed = co_await replaceClient(call.deps.timer, path, context, rotation.oldCa,
                                     KJ_ASSERT_NONNULL(fresh));
  });
  KJ_IF_MAYBE (e, failure) {
    note(kj::str(path, " keeps its certificate of the old CA: ", messageOf(*e), "; use ",
                 options.output, " from now on"));
  } else if (renewed) {
    note(kj::str("client configuration renewed: ", path));
  }
}

// `old`: clients of the old CA are served as well.
kj::Promise<Missing> MachineRotation::clientError(kj::StringPtr endpoint, bool old) {
  auto newError = co_await cluster.tryClient(endpoint, KJ_ASSERT_NONNULL(fresh));
  kj::Maybe<kj::String> oldError;
  if (oldClient) oldError = co_await cluster.tryClient(endpoint, present);
  KJ_IF_MAYBE (e, newError) {
    co_return kj::str("a client of the new CA is not served: ", *e);
  }
  if (!oldClient || (oldError == nullptr) == old) co_return nullptr;
  KJ_IF_MAYBE (e, oldError) co_return kj::str("a client of the old CA is not served: ", *e);
  co_return kj::str("a client of the old CA is served still");
}

// Clients of the new CA are served from `accept` on, clients of the old CA until `drop`.
kj::Promise<void> MachineRotation::tryClients(RotationPhase phase) {
  bool old = phase != RotationPhase::kDrop;
  for (auto& endpoint : cluster.endpoints()) {
    RetryOptions options{
        .limit = kOneEndpoint, .pause = pause(), .late = [&](kj::StringPtr reason) {
          return error(ErrorKind::kFailedPrecondition,
                       kj::str("stopped after the phase ", phaseName(phase), ": endpoint ",
                               endpoint, ": ", reason, "; start the command again to continue"));
        }};
    co_await retryUntilReached(call.deps.timer, kj::mv(options),
                               [&] { return clientError(endpoint, old); });
  }
  note(kj::str(phaseName(phase), ": tried: every endpoint serves clients of ",
               old ? "both CAs"_kj : "the new CA only"_kj));
}

void MachineRotation::finish() {
  note(kj::str("the CA of the machine API is rotated; use --talosconfig ", options.output,
               ", or talosctl config merge ", options.output));
}

kj::Promise<bool> replaceClient(kj::Timer& timer, kj::StringPtr path, kj::StringPtr name,
                                kj::StringPtr oldCa, const Credentials& fresh) {
  bool replaced = false;
  co_await changeTalosconfig(timer, path, [&](Talosconfig& config) {
    auto& context = config.resolve(name);
    replaced = pki::isSignedBy(context.certificate, oldCa);
    if (!replaced) return false;
    context.ca = kj::str(fresh.authorities);
    context.certificate = kj::str(fresh.certificate);
    context.key = fresh.key.clone();
    return true;
  });
  co_return replaced;
}

kj::Own<RotationRun> machineRotation(Invocation& call, RemoteRotation& cluster,
                                     const RotationOptions& options, Credentials present) {
  return kj::heap<MachineRotation>(call, cluster, options, kj::mv(present));
}

}  // namespace talos::talosctl
