// config new: a client configuration for another user, or with fewer rights, signed by a node.
// config renew: a renewed certificate for the context itself.
//
// The key is generated here and stored only in the file; the node receives a signing request.
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "common/base/date.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/fill-list.h"
#include "common/net/dns-resolver.h"
#include "common/talosconfig/talosconfig.h"
#include "common/tls/authorities.h"
#include "common/wire/roles.h"
#include "talosctl/client/cluster-client.h"
#include "talosctl/client/file-lock.h"
#include "talosctl/commands/all-commands.h"

namespace talos::talosctl {
namespace {

// Refuses an existing file before a certificate is requested; the exclusive creation of the file is
// the real check. A link of any kind counts as existing, and so does a path that cannot be
// examined.
void refuseToReplace(kj::StringPtr path) {
  struct stat found;
  if (lstat(path.cStr(), &found) == 0 || errno != ENOENT) {
    fail(ErrorKind::kConflict, kj::str(path,
                                       " already exists and may hold the only copy of a "
                                       "key; use another name"));
  }
}

// Returns the node in --nodes, otherwise the endpoint, which normally is a control-plane node.
Target signerOf(Invocation& call) {
  auto target = resolveTarget(call);
  if (!call.given("nodes")) {
    target.nodes.clear();
    target.nodes.add(kj::str());
  }
  if (target.nodes.size() != 1) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("one node signs the certificate, but ", target.nodes.size(), " are given"));
  }
  return target;
}

// Returns true if `one` is among the trusted CAs, of which a client configuration has several while
// CAs are replaced.
bool trusts(kj::StringPtr authorities, kj::StringPtr one) {
  for (auto& trusted : pki::certificatesIn(authorities)) {
    if (pki::sameCertificate(trusted, one)) return true;
  }
  return false;
}

struct NewClient {
  kj::String certificate;
  pki::Pem key;
};

// Throws if the certificate's CA is not trusted by the target, or if the certificate does not match
// the key.
kj::Promise<NewClient> requestClient(Invocation& call, Target target, kj::String name,
                                     kj::ArrayPtr<const kj::String> roles) {
  auto lifetime = call.duration("crt-ttl");
  auto authorities = kj::str(target.credentials.authorities);
  auto node = kj::str(target.nodes[0]);
  Session session(call.deps, kj::mv(target), call.deadline());
  co_await session.client.connect(session.deadline);
  auto key = pki::makeKey(pki::KeyType::kEd25519);
  auto request =
      session.client.node(node).machineRequest().send().getMachine().clientCertificateRequest();
  request.setRequest(pki::makeRequest(key, {.commonName = name}).asBytes());
  fillTexts(request.initRoles(roles.size()), roles);
  request.setLifetimeS(kj::max(lifetime, 0 * kj::SECONDS) / kj::SECONDS);
  kj::Promise<capnp::Response<rpc::Machine::ClientCertificateResults>> pending = request.send();
  auto answer = co_await within(call.deps.timer, session.deadline, kj::mv(pending));
  // If the node could choose the CA, it could impersonate every node to the user of the new file.
  if (!trusts(authorities, kj::heapString(answer.getCa().asChars()))) {
    fail(ErrorKind::kPermissionDenied,
         kj::str(node,
                 ": the node answered with another CA than that of this client "
                 "configuration; use a control-plane node of this cluster"));
  }
  NewClient made{kj::heapString(answer.getCertificate().asChars()), kj::mv(key)};
  TlsEndpoint check(Credentials{kj::mv(authorities), kj::str(made.certificate), made.key.clone()});
  co_return kj::mv(made);
}

kj::Promise<int> runConfigNew(Invocation& call) {
  auto path = call.arguments.size() > 0 ? kj::str(call.arguments[0]) : kj::str("talosconfig");
  refuseToReplace(path);
  auto roles = call.list("roles");
  checkClientRoles(roles, "--roles");
  auto target = signerOf(call);
  Context context{.endpoints = {},
                  .nodes = {},
                  .ca = kj::str(target.credentials.authorities),
                  .certificate = {},
                  .key = {}};
  for (auto& endpoint : target.endpoints) context.endpoints.add(kj::str(endpoint));
  auto config = Talosconfig::load(configPath(call));
  for (auto& node : config.resolve(call.text("context")).nodes) context.nodes.add(kj::str(node));
  auto name = kj::str(call.given("context") ? call.text("context") : config.currentName());
  auto user = call.deps.environment("USER").orDefault(kj::str());
  auto made = co_await requestClient(call, kj::mv(target), kj::mv(user), roles);
  context.certificate = kj::mv(made.certificate);
  context.key = kj::mv(made.key);
  Talosconfig fresh;
  fresh.add(name, kj::mv(context));
  fresh.saveNew(path);
  call.wrote(path);
  co_return 0;
}

// At every moment, the file has either the old certificate or the new one.
kj::Promise<int> runConfigRenew(Invocation& call) {
  auto target = signerOf(call);
  auto old = kj::str(target.credentials.certificate);
  auto present = pki::inspect(old);
  auto made = co_await requestClient(call, kj::mv(target), kj::str(present.commonName),
                                     present.organizations);
  auto until = dateText(pki::inspect(made.certificate).notAfter);
  bool replaced = false;
  co_await changeTalosconfig(call.deps.timer, configPath(call), [&](Talosconfig& config) {
    auto& context = config.resolve(call.text("context"));
    replaced = context.certificate == old;
    if (!replaced) return false;
    context.certificate = kj::mv(made.certificate);
    context.key = kj::mv(made.key);
    return true;
  });
  if (!replaced) {
    fail(ErrorKind::kConflict,
         "the certificate of the context was replaced meanwhile; nothing was changed");
  }
  call.err(kj::str("renewed until ", until, "\n"));
  co_return 0;
}

void addLifetimeFlag(Command& command) {
  command.flag({.name = "crt-ttl",
                .kind = FlagKind::kDuration,
                .fallback = "8760h",
                .help = "lifetime of the certificate"});
}

}  // namespace

void addConfigNewCommand(Command& root) {
  auto& config = KJ_ASSERT_NONNULL(root.child("config"));
  auto& command = config.add("new", "Create a client configuration with the given roles");
  command.arguments = "[path]";
  command.most = 1;
  command.details =
      "A control-plane node signs the certificate: the endpoint, or the node in --nodes. The key "
      "is generated here and stored in the new file only (default: talosconfig).";
  command.flag({.name = "roles",
                .kind = FlagKind::kList,
                .fallback = kRoleAdmin,
                .help = "roles of the holder"});
  addLifetimeFlag(command);
  command.run = runConfigNew;

  auto& renew = config.add("renew", "Replace the certificate of the context by a new one");
  renew.details =
      "With the same name and roles, and a new key, which is generated here. A control-plane node "
      "signs it: the endpoint, or the node in --nodes. The present certificate must be valid and "
      "have the role os:admin; it stays valid until its end.";
  addLifetimeFlag(renew);
  renew.run = runConfigRenew;
}

}  // namespace talos::talosctl
