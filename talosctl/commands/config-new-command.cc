// config new: a client configuration for someone else, or with fewer rights, signed by a node.
//
// The key is generated here and stored in the new file only; the node gets a signing request.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/config/talosconfig.h"
#include "common/net/dns-resolver.h"
#include "common/wire/roles.h"
#include "talosctl/client/cluster-client.h"
#include "talosctl/commands/all-commands.h"

namespace talos::talosctl {
namespace {

// Before a certificate is asked for; what counts is that the file is made as a new one. A link is
// something too, whatever it leads to, and so is what cannot be looked at.
void refuseToReplace(kj::StringPtr path) {
  struct stat found;
  if (lstat(path.cStr(), &found) == 0 || errno != ENOENT) {
    fail(ErrorKind::kConflict, kj::str(path,
                                       " already exists and may hold the only copy of a "
                                       "key; use another name"));
  }
}

// The node in --nodes, else the endpoint, which normally is a control-plane node.
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

// A client configuration may trust several, while they are replaced.
bool trusts(kj::StringPtr authorities, kj::StringPtr one) {
  constexpr kj::StringPtr kBegin = "-----BEGIN CERTIFICATE-----"_kj;
  auto at = strstr(authorities.cStr(), kBegin.cStr());
  for (; at != nullptr; at = strstr(at + 1, kBegin.cStr())) {
    if (pki::sameCertificate(at, one)) return true;
  }
  return false;
}

kj::Promise<int> runConfigNew(Invocation& call) {
  auto path = call.arguments.size() > 0 ? kj::str(call.arguments[0]) : kj::str("talosconfig");
  refuseToReplace(path);
  auto roles = call.list("roles");
  checkClientRoles(roles, "--roles");
  auto lifetime = call.duration("crt-ttl");
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

  auto node = kj::str(target.nodes[0]);
  Session session(call.deps, kj::mv(target), call.deadline());
  co_await session.client.connect(session.deadline);
  context.key = pki::makeKey(pki::KeyType::kEd25519);
  auto user = call.deps.environment("USER").orDefault(kj::str());
  auto request =
      session.client.node(node).machineRequest().send().getMachine().clientCertificateRequest();
  request.setRequest(pki::makeRequest(context.key, {.commonName = user}).asBytes());
  auto list = request.initRoles(roles.size());
  for (size_t i = 0; i < roles.size(); ++i) list.set(i, roles[i]);
  request.setLifetimeS(kj::max(lifetime, 0 * kj::SECONDS) / kj::SECONDS);
  kj::Promise<capnp::Response<rpc::Machine::ClientCertificateResults>> asked = request.send();
  auto answer = co_await within(call.deps.timer, session.deadline, kj::mv(asked));
  // A node that could choose it would be every node to whoever gets the new file.
  if (!trusts(context.ca, kj::heapString(answer.getCa().asChars()))) {
    fail(ErrorKind::kPermissionDenied,
         kj::str(node,
                 ": the node answered with another CA than that of this client "
                 "configuration; use a control-plane node of this cluster"));
  }
  context.certificate = kj::heapString(answer.getCertificate().asChars());
  TlsEndpoint check(context.credentials());  // throws if the certificate is not for our key

  Talosconfig made;
  made.add(name, kj::mv(context));
  made.saveNew(path);
  co_return 0;
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
  command.flag({.name = "crt-ttl",
                .kind = FlagKind::kDuration,
                .fallback = "8760h",
                .help = "lifetime of the certificate"});
  command.run = runConfigNew;
}

}  // namespace talos::talosctl
