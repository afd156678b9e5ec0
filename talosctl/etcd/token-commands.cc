// token create, list, revoke
#include "talosctl/etcd/etcd-commands.h"

#include "common/base/error.h"
#include "common/memory/zeroize.h"
#include "talosctl/cli/cli-text.h"
#include "talosctl/cli/table.h"
#include "talosctl/client/long-calls.h"

namespace talos::talosctl {

namespace {

using rpc::Etcd;

Etcd::Client tokensOf(rpc::Node::Client node) {
  return node.etcdRequest().send().getEtcd();
}

kj::StringPtr stateOf(Etcd::JoinToken::Reader token) {
  switch (token.getState()) {
    case Etcd::JoinToken::State::UNUSED:
      return "unused";
    case Etcd::JoinToken::State::USED:
      return "used";
    case Etcd::JoinToken::State::EXPIRED:
      return "expired";
    case Etcd::JoinToken::State::REVOKED:
      return token.getRecovered() ? "revoked (recovery)" : "revoked";
  }
  return "unknown";
}

kj::StringPtr orDash(kj::StringPtr text) {
  return text.size() > 0 ? text : "-"_kj;
}

kj::String renderTokens(kj::ArrayPtr<const Reply<Etcd::JoinTokensResults>> replies) {
  Table table(
      {"NODE", "ID", "HOSTNAME", "STATE", "ENDS", "USED BY", "USED AT", "CREATED", "CREATED BY"});
  for (auto& r : replies) {
    for (auto t : r.value.getTokens()) {
      table.add(r.node, t.getId(), orDash(t.getHostname()), stateOf(t), t.getEnds(),
                orDash(t.getUsedBy()), orDash(t.getUsedAt()), t.getCreated(),
                orDash(t.getCreatedBy()));
    }
  }
  return table.render();
}

// Prints only the token on stdout, for scripts.
kj::Promise<int> runCreate(Invocation& call) {
  auto ttl = call.duration("ttl");
  if (ttl % kj::SECONDS != 0 * kj::SECONDS) {
    failUsage("--ttl has a fraction of a second; use whole seconds");
  }
  auto session = co_await openSingle(call);
  kj::StringPtr node = session->client.nodes()[0];
  auto request = tokensOf(session->client.node(node)).createJoinTokenRequest();
  request.setTtlS(static_cast<uint64_t>(ttl / kj::SECONDS));
  request.setHostname(call.text("hostname"));
  auto answer =
      co_await within(call.deps.timer, session->deadline,
                      kj::Promise<capnp::Response<Etcd::CreateJoinTokenResults>>(request.send()));
  auto format = formatOf(call);
  if (format == Format::kTable) {
    auto line = kj::str(printableText(answer.getToken()), "\n");
    KJ_DEFER(zeroize(line.asArray()));
    call.out(line);
    call.err(kj::str("one worker can join with it until ", printableText(answer.getEnds()), "\n"));
  } else {
    Documents(call, format).answer(node, dynamic<Etcd::CreateJoinTokenResults>(answer));
  }
  co_return 0;
}

// Lists the tokens of the cluster: every control-plane node has the same list.
kj::Promise<int> runList(Invocation& call) {
  return tabulate<Etcd::JoinTokensResults>(
      call,
      [](rpc::Node::Client node) { return tokensOf(kj::mv(node)).joinTokensRequest().send(); },
      [](Invocation&, kj::ArrayPtr<const Reply<Etcd::JoinTokensResults>> replies) {
        return renderTokens(replies);
      });
}

kj::Promise<int> runRevoke(Invocation& call) {
  auto id = kj::str(call.arguments[0]);
  auto session = co_await openSingle(call);
  auto answers =
      co_await askAll<Etcd::RevokeJoinTokenResults>(*session, [&](rpc::Node::Client node) {
        auto request = tokensOf(kj::mv(node)).revokeJoinTokenRequest();
        request.setId(id);
        return request.send();
      });
  call.done = kj::str("revoked the join token ", id);
  co_return concludeDone(call, answers);
}

}  // namespace

void addTokenCommands(Command& root) {
  auto& token = root.add("token", "Create, list and revoke tokens with which one worker joins");

  auto& create = token.add("create", "Create a token with which one worker joins once");
  create.details =
      "Prints it: nobody can see it again. Set it as machine.token in the config of a worker that "
      "joins. cluster.token of that config stays as it is.";
  create.flag({.name = "ttl",
               .kind = FlagKind::kDuration,
               .fallback = "1h",
               .help = "how long it can be used, 1m to 720h (30d)"});
  create.flag({.name = "hostname",
               .kind = FlagKind::kText,
               .help = "only for the worker with this host name; with a domain also for the name "
                       "without it"});
  addOutputFlag(create);
  create.run = runCreate;

  auto& list = token.add("list", "List the tokens with which workers join");
  list.details =
      "Without their secrets. Every control-plane node has the same. Those that a snapshot brought "
      "back are revoked: \"revoked (recovery)\".";
  addOutputFlag(list);
  list.run = runList;

  auto& revoke = token.add("revoke", "Revoke a token with which no worker is to join");
  revoke.arguments = "<id>";
  revoke.least = revoke.most = 1;
  revoke.details = "A worker that has joined with it keeps its certificate, and renews it.";
  addOutputFlag(revoke);
  revoke.run = runRevoke;
}

}  // namespace talos::talosctl
