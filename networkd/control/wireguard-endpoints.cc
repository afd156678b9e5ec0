#include "networkd/control/wireguard-endpoints.h"

#include "common/base/backoff.h"
#include "common/base/error.h"
#include "common/base/log.h"

namespace talos::networkd {

namespace {

// Limit for the age of an answer; the resolver does not say how long an answer is valid.
constexpr kj::Duration kAgain = 60 * kj::SECONDS, kFirstRetry = 1 * kj::SECONDS;

kj::String keyOf(const WantedLink& link, const WantedPeer& peer) {
  return kj::str(link.name, ' ', netlink::toText(peer.publicKey));
}

}  // namespace

Endpoints::Endpoints(kj::Timer& timer, Resolve resolve, kj::Function<void()> changed)
    : timer(timer), resolve(kj::mv(resolve)), changed(kj::mv(changed)) {}
Endpoints::~Endpoints() noexcept(false) = default;

Endpoints::Name& Endpoints::nameFor(kj::StringPtr text) {
  KJ_IF_MAYBE (there, names.find(text)) return **there;
  auto made = kj::heap<Name>();
  auto& name = *made;
  KJ_IF_MAYBE (colon, text.findLast(':')) {
    name.host = kj::str(text.slice(0, *colon));
    KJ_IF_MAYBE (port, text.slice(*colon + 1).tryParseAs<uint16_t>()) name.port = *port;
  }
  names.insert(kj::str(text), kj::mv(made));
  if (name.port == 0 || name.host.size() == 0) {
    name.problem = kj::str("\"", text, "\" is not host:port");
  } else {
    begin(name);
  }
  return name;
}

void Endpoints::begin(Name& name) {
  name.looking = keepLooking(name).eagerlyEvaluate(
      [](kj::Exception&& e) { log::error("endpoints", {{"error", messageOf(e)}}); });
}

// New servers may know names that the old servers did not.
void Endpoints::setServers(kj::ArrayPtr<const kj::String> list) {
  kj::Vector<kj::String> addresses;
  for (auto& server : list) {
    KJ_IF_MAYBE (ip, Ip::parse(server)) {
      addresses.add(ip->family() == AF_INET ? kj::str(*ip) : kj::str('[', *ip, ']'));
    }
  }
  auto text = kj::strArray(addresses, ",");
  if (text == servers) return;
  servers = kj::mv(text);
  for (auto& entry : names) {
    auto& name = *entry.value;
    if (!name.found && name.port != 0 && name.host.size() > 0) begin(name);
  }
}

kj::Promise<void> Endpoints::keepLooking(Name& name) {
  Backoff backoff({kFirstRetry, kAgain});
  // Runs after fill(), which started this lookup.
  co_await timer.afterDelay(0 * kj::SECONDS);
  for (;;) {
    kj::Maybe<kj::String> failure;
    bool news = false;
    try {
      auto addresses = co_await resolve(kj::str(name.host), kj::str(servers));
      news = take(name, addresses);
    } catch (...) {
      failure = messageOf(kj::getCaughtExceptionAsKj());
    }
    KJ_IF_MAYBE (error, failure) {
      news = *error != name.problem;
      name.problem = kj::mv(*error);
    }
    if (news) changed();
    if (name.problem.size() == 0) {
      backoff.reset();
      co_await timer.afterDelay(kAgain);
    } else {
      co_await timer.afterDelay(backoff.next());
    }
  }
}

// Returns true if the address is new. The current address stays while it is among the answers, in
// any order.
bool Endpoints::take(Name& name, kj::ArrayPtr<const kj::String> addresses) {
  bool news = name.problem.size() > 0;
  name.problem = kj::String();
  std::optional<Endpoint> first;
  for (auto& text : addresses) {
    KJ_IF_MAYBE (ip, Ip::parse(text)) {
      Endpoint found{*ip, name.port};
      if (name.found && *name.found == found) return news;
      if (!first) first = found;
    }
  }
  if (!first) {
    name.problem = kj::str(name.host, " has no address");
    return true;
  }
  log::info("endpoint", {{"name", name.host}, {"address", first->toString()}});
  name.found = first;
  return true;
}

void Endpoints::fill(Wanted& wanted, kj::ArrayPtr<const kj::String> serverList) {
  setServers(serverList);
  for (auto& entry : names) entry.value->wanted = false;
  for (auto& link : wanted.links) {
    for (auto& peer : link.wireguard.peers) {
      if (peer.endpoint.size() > 0 && !peer.resolved) {
        auto& name = nameFor(peer.endpoint);
        name.wanted = true;
        peer.resolved = name.found;
        if (name.problem.size() > 0) {
          wanted.problems.add(kj::str("link ", link.name, ": the endpoint ", peer.endpoint,
                                      " of the peer ", netlink::toText(peer.publicKey), ": ",
                                      name.problem));
        }
      }
      KJ_IF_MAYBE (before, reachedAt.find(keyOf(link, peer))) {
        peer.moved = peer.resolved && *peer.resolved != *before;
      }
    }
  }
  kj::Vector<kj::String> gone;
  for (auto& entry : names) {
    if (!entry.value->wanted) gone.add(kj::str(entry.key));
  }
  for (auto& text : gone) names.erase(text);
}

void Endpoints::fillKnown(Wanted& wanted) const {
  for (auto& link : wanted.links) {
    for (auto& peer : link.wireguard.peers) {
      if (peer.resolved) continue;
      KJ_IF_MAYBE (name, names.find(peer.endpoint)) peer.resolved = (*name)->found;
    }
  }
}

void Endpoints::reached(const Wanted& wanted) {
  reachedAt.clear();
  for (auto& link : wanted.links) {
    for (auto& peer : link.wireguard.peers) {
      if (peer.resolved)
        reachedAt.upsert(keyOf(link, peer), *peer.resolved,
                         [](auto& there, auto&& now) { there = now; });
    }
  }
}

}  // namespace talos::networkd
