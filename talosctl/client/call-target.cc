// Addresses and identity of a call: from the flags first, then from the context of the client
// configuration.
#include <errno.h>
#include <kj/map.h>
#include <string.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/node-layout.h"
#include "common/base/problem.h"
#include "common/net/dns-resolver.h"
#include "common/talosconfig/talosconfig.h"
#include "talosctl/client/cluster-client.h"
#include "talosctl/client/file-lock.h"
#include "talosctl/client/tls-unverified.h"

namespace talos::talosctl {

namespace {

// Path at which a pod has the Secret of its service account (`inject serviceaccount`).
constexpr kj::StringPtr kPodConfig = "/var/run/secrets/talos.dev/config"_kj;

bool exists(kj::StringPtr path) {
  return access(path.cStr(), F_OK) == 0;
}

// Copies each host once, in the order in which the user named them. An address may have several
// notations.
kj::Vector<kj::String> copy(kj::ArrayPtr<const kj::String> list) {
  kj::Vector<kj::String> result;
  kj::HashSet<kj::String> seen;
  for (auto& item : list) {
    auto key = asAddress(item).orDefault(kj::str(item));
    if (seen.contains(key)) continue;
    seen.insert(kj::mv(key));
    result.add(kj::str(item));
  }
  return result;
}

// Returns the host of a URL: "10.0.0.2" for "https://10.0.0.2:6443/x". Returns nullptr if the text
// has no scheme.
kj::Maybe<kj::String> hostOfUrl(kj::StringPtr text) {
  constexpr kj::StringPtr kScheme = "://"_kj;
  auto* scheme = strstr(text.cStr(), kScheme.cStr());
  if (scheme == nullptr) return nullptr;
  auto begin = scheme + kScheme.size();
  auto host = kj::heapString(begin, strcspn(begin, "/?#"));
  KJ_IF_MAYBE (user, host.findLast('@')) host = kj::str(host.slice(*user + 1));
  if (host.startsWith("[")) {
    auto end = host.findFirst(']').orDefault(host.size());
    return kj::heapString(host.slice(1, end));
  }
  return kj::heapString(host.slice(0, host.findLast(':').orDefault(host.size())));
}

bool isHost(kj::StringPtr text) {
  if (asAddress(text) != nullptr) return true;
  for (char c : text) {
    if (c <= ' ' || c == '/' || c == ':' || c == 0x7f) return false;
  }
  return text.size() > 0;
}

}  // namespace

void checkHost(kj::StringPtr host, kj::StringPtr what) {
  if (host.size() == 0)
    fail(ErrorKind::kInvalidArgument, kj::str("empty ", what, "; use an address or a name"));
  if (asAddress(host) != nullptr) return;
  KJ_IF_MAYBE (alone, hostOfUrl(host)) {
    auto instead = isHost(*alone) ? kj::str("the host alone, \"", *alone, "\"")
                                  : kj::str("an address or a name");
    fail(ErrorKind::kInvalidArgument, kj::str(what, " \"", host, "\" is a URL; use ", instead,
                                              " (the API is always on port ", kApidPort, ")"));
  }
  KJ_IF_MAYBE (colon, host.findLast(':')) {
    fail(ErrorKind::kInvalidArgument,
         kj::str(what, " \"", host, "\" must not have a port (the API is always on port ",
                 kApidPort, "); use \"", host.slice(0, *colon), "\""));
  }
  if (!isHost(host)) {
    fail(ErrorKind::kInvalidArgument,
         kj::str(what, " \"", host, "\" is not a valid address or name"));
  }
}

kj::String configPath(Invocation& call) {
  if (call.given("talosconfig")) return kj::str(call.text("talosconfig"));
  KJ_IF_MAYBE (path, call.deps.environment("TALOSCONFIG")) {
    if (path->size() > 0) return kj::mv(*path);
  }
  KJ_IF_MAYBE (home, call.deps.environment("HOME")) {
    auto own = kj::str(*home, "/.talos/config");
    if (exists(own) || !exists(kPodConfig)) return own;
  }
  if (exists(kPodConfig)) return kj::str(kPodConfig);
  fail(ErrorKind::kInvalidArgument,
       "no client configuration; use --talosconfig, or set TALOSCONFIG or HOME");
}

Talosconfig readTalosconfig(Invocation& call) {
  auto path = configPath(call);
  if (access(path.cStr(), F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR)) {
    return Talosconfig::load(path);
  }
  bool byVariable = !call.given("talosconfig") &&
                    call.deps.environment("TALOSCONFIG").orDefault(kj::str()).size() > 0;
  auto origin = call.given("talosconfig") ? "--talosconfig names "_kj
                : byVariable              ? "TALOSCONFIG names "_kj
                                          : "the client configuration is "_kj;
  fail(ErrorKind::kNotFound,
       kj::str(origin, "\"", path,
               "\", which does not exist; use `talosctl config merge FILE` to create it, or name "
               "another with --talosconfig"));
}

void addInsecureFlags(Command& command) {
  command.flag({.name = "insecure",
                .letter = "i",
                .help = "connect without a certificate, directly to the node in --nodes, which has "
                        "no config yet"});
  command.flag(
      {.name = "cert-fingerprint",
       .kind = FlagKind::kList,
       .help = "with --insecure: fingerprint that the node must have, as its console shows it"});
}

bool isInsecure(const Invocation& call) {
  return call.declared("insecure") && call.on("insecure");
}

namespace {

Target resolveInsecure(Invocation& call) {
  if (call.given("endpoints")) {
    failUsage("--endpoints cannot be used with --insecure, which connects to the node itself");
  }
  auto nodes = call.list("nodes");
  if (nodes.size() != 1) {
    failUsage(kj::str("--insecure needs exactly one node in --nodes, not ", nodes.size()));
  }
  checkHost(nodes[0], "node");
  Target target{.endpoints = copy(nodes),
                .nodes = copy(nodes),
                .credentials = {},
                .insecure = true,
                .fingerprints = copy(call.list("cert-fingerprint"))};
  for (auto& fingerprint : target.fingerprints) checkFingerprint(fingerprint);
  return target;
}

}  // namespace

// Reads no file: the socket belongs to this host, and the kernel reports its owner.
kj::Maybe<Target> resolveLocal(Invocation& call) {
  if (!call.given("endpoints")) return nullptr;
  auto endpoints = call.list("endpoints");
  bool isLocal = false;
  for (auto& endpoint : endpoints) isLocal |= endpoint.startsWith(kUnixEndpoint);
  if (!isLocal) return nullptr;
  if (endpoints.size() != 1) {
    failUsage("a unix: endpoint is the socket of one node: name no other endpoint");
  }
  auto nodes = copy(call.list("nodes"));
  if (nodes.size() > 1) {
    failUsage(kj::str("a unix: endpoint is the socket of one node; --nodes names ", nodes.size()));
  }
  if (nodes.empty()) nodes.add(kj::str("local"));
  return Target{.endpoints = copy(endpoints),
                .nodes = kj::mv(nodes),
                .credentials = {},
                .local = true,
                .fingerprints = {}};
}

Target resolveTarget(Invocation& call) {
  if (isInsecure(call)) return resolveInsecure(call);
  KJ_IF_MAYBE (target, resolveLocal(call)) {
    return kj::mv(*target);
  }
  if (call.declared("cert-fingerprint") && call.given("cert-fingerprint")) {
    failUsage("--cert-fingerprint needs --insecure; without it the node's certificate is verified");
  }
  auto path = configPath(call);
  auto config = readTalosconfig(call);
  auto& context = config.resolve(call.text("context"));
  Target target{.endpoints = copy(call.given("endpoints") ? call.list("endpoints")
                                                          : context.endpoints.asPtr()),
                .nodes = copy(call.given("nodes") ? call.list("nodes") : context.nodes.asPtr()),
                .credentials = context.credentials(),
                .fingerprints = {}};
  if (target.endpoints.empty()) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("the context has no endpoint; use --endpoints, or set one in ", path,
                 " with \"talosctl config endpoint\""));
  }
  for (auto& endpoint : target.endpoints) checkHost(endpoint, "endpoint");
  for (auto& node : target.nodes) checkHost(node, "node");
  return target;
}

kj::Vector<kj::String> namedHosts(Invocation& call) {
  KJ_IF_MAYBE (local, resolveLocal(call)) {
    bool given = call.given("talosconfig") || call.given("context");
    if (!given && access(configPath(call).cStr(), F_OK) != 0) return kj::mv(local->nodes);
  }
  auto config = readTalosconfig(call);
  auto& context = config.resolve(call.text("context"));
  kj::Vector<kj::String> all;
  using Hosts = kj::ArrayPtr<const kj::String>;
  for (Hosts list : {Hosts(context.endpoints), Hosts(context.nodes), call.list("endpoints"),
                     call.list("nodes")}) {
    for (auto& host : list) {
      if (!host.startsWith(kUnixEndpoint)) all.add(kj::str(host));
    }
  }
  return copy(all);
}

kj::String renamedText(const Talosconfig::Rename& rename) {
  return kj::str("renamed talosconfig context \"", rename.from, "\" -> \"", rename.to, "\"");
}

kj::Promise<kj::Array<kj::String>> mergeTalosconfigFile(kj::Timer& timer, kj::StringPtr from,
                                                        kj::StringPtr into) {
  kj::Vector<kj::String> lines;
  auto other = Talosconfig::load(from);
  co_await changeTalosconfig(timer, into, [&](Talosconfig& config) {
    for (auto& rename : config.merge(kj::mv(other))) lines.add(renamedText(rename));
    return true;
  });
  co_return lines.releaseAsArray();
}

}  // namespace talos::talosctl
