#include "etcd-supervisor/membership/peer-queries.h"

#include "common/base/error.h"
#include "common/net/ip.h"
#include "common/text/texts.h"

namespace talos::supervisor {
namespace {

// Adds the host of a URL, if it is an address: names cannot be dialled.
void addHost(kj::Vector<kj::String>& to, const Config& config, kj::StringPtr url) {
  auto host = hostOf(url);
  if (Ip::parse(host) != nullptr && !isOwn(config, host)) addOnce(to, kj::mv(host));
}

kj::String canonical(kj::StringPtr host) {
  KJ_IF_MAYBE (ip, Ip::parse(host)) return ip->unmapped().toString();
  return kj::str(host);
}

kj::Promise<PeerAnswer> queryPeer(Dependencies& deps, kj::String host, kj::String address,
                                  bool shared, kj::StringPtr asker) {
  PeerAnswer asked{.host = host == address ? kj::str(host) : kj::str(host, " at ", address),
                   .address = kj::str(address),
                   .shared = shared,
                   .said = BootstrapState()};
  co_await deps.peers.bootstrapState(address, asker)
      .then([&](BootstrapState&& bootstrapState) { asked.said = kj::mv(bootstrapState); },
            [&](kj::Exception&& e) { asked.said = messageOf(e); });
  co_return kj::mv(asked);
}

// Returns the addresses of a host to query; a name without an address is an answer already.
kj::Promise<kj::Array<PeerAnswer>> resolveOne(Dependencies& deps, const Config& config,
                                              kj::String host, bool shared) {
  kj::Vector<PeerAnswer> found;
  kj::Array<kj::String> addresses;
  kj::Maybe<kj::String> wrong;
  co_await deps.peers.resolve(host).then(
      [&](kj::Array<kj::String>&& result) { addresses = kj::mv(result); },
      [&](kj::Exception&& e) { wrong = messageOf(e); });
  KJ_IF_MAYBE (problem, wrong) {
    found.add(PeerAnswer{.host = kj::str(host),
                         .address = kj::String(),
                         .shared = shared,
                         .said = kj::mv(*problem)});
  }
  for (auto& address : addresses) {
    if (isOwn(config, address)) continue;
    auto text = canonical(address);
    bool moves = shared || contains(config.shared, text);
    found.add(PeerAnswer{
        .host = kj::str(host), .address = kj::mv(text), .shared = moves, .said = BootstrapState()});
  }
  co_return found.releaseAsArray();
}

}  // namespace

bool isOwn(const Config& config, kj::StringPtr address) {
  KJ_IF_MAYBE (ip, Ip::parse(address)) {
    if (ip->unmapped().isLoopback()) return true;
  }
  return contains(config.addresses, canonical(address));
}

void addPeers(Config& config, kj::ArrayPtr<const kj::String> hosts) {
  for (auto& host : hosts) {
    auto text = canonical(host);
    if (isOwn(config, text) || contains(config.shared, text) || text == config.name) continue;
    addOnce(config.peers, kj::mv(text));
  }
}

Hosts othersOf(const Config& config, kj::ArrayPtr<const kj::String> without) {
  for (auto& excepted : without) {
    if (contains(config.peers, canonical(excepted))) continue;
    fail(ErrorKind::kInvalidArgument,
         kj::str("cannot do without ", excepted, ": this node ",
                 config.peers.empty()
                     ? kj::str("does not know of any other one")
                     : kj::str("would not ask it; it would ask ", joined(config.peers))));
  }
  Hosts hosts;
  for (auto& peer : config.peers) {
    bool excepted = false;
    for (auto& one : without) excepted |= canonical(one) == peer;
    if (!excepted) hosts.peers.add(kj::str(peer));
  }
  for (auto& address : config.shared) hosts.shared.add(kj::str(address));
  return hosts;
}

kj::Promise<kj::Array<PeerAnswer>> queryPeers(Dependencies& deps, const Config& config, Hosts hosts,
                                              kj::StringPtr asker) {
  kj::Vector<kj::Promise<kj::Array<PeerAnswer>>> resolving;
  for (auto& host : hosts.peers) resolving.add(resolveOne(deps, config, kj::str(host), false));
  for (auto& host : hosts.shared) resolving.add(resolveOne(deps, config, kj::str(host), true));
  auto found = co_await kj::joinPromises(resolving.releaseAsArray());
  kj::Vector<PeerAnswer> silent;
  kj::Vector<kj::String> addresses;
  kj::Vector<kj::Promise<PeerAnswer>> asking;
  for (auto& list : found) {
    for (auto& one : list) {
      if (one.address.size() == 0) {
        silent.add(kj::mv(one));
      } else if (!contains(addresses, one.address)) {
        addresses.add(kj::str(one.address));
        asking.add(queryPeer(deps, kj::mv(one.host), kj::mv(one.address), one.shared, asker));
      }
    }
  }
  auto answers = co_await kj::joinPromises(asking.releaseAsArray());
  kj::Vector<PeerAnswer> all;
  for (auto& answer : answers) all.add(kj::mv(answer));
  for (auto& one : silent) all.add(kj::mv(one));
  co_return all.releaseAsArray();
}

void addHosts(kj::Vector<kj::String>& to, const Config& config, const etcd::Member& member) {
  // The member of this node, which may still have an address that the config had before.
  if (config.member != 0 && member.id == config.member) return;
  // A member that has not started has published its peer URLs only.
  auto& urls = member.clientUrls.size() > 0 ? member.clientUrls : member.peerUrls;
  for (auto& url : urls) addHost(to, config, url);
}

void addHosts(kj::Vector<kj::String>& to, const Config& config, kj::StringPtr cluster) {
  while (cluster.size() > 0) {
    auto end = cluster.findFirst(',').orDefault(cluster.size());
    auto entry = kj::str(cluster.slice(0, end));
    cluster = cluster.slice(kj::min(end + 1, cluster.size()));
    KJ_IF_MAYBE (equals, entry.findFirst('=')) addHost(to, config, entry.slice(*equals + 1));
  }
}

kj::Vector<etcd::Etcd*> endpointsFor(Dependencies& deps, const Config& config, etcd::Etcd& through,
                                     kj::ArrayPtr<const etcd::Member> members,
                                     etcd::MemberId except) {
  kj::Vector<etcd::Etcd*> endpoints;
  endpoints.add(&through);
  for (auto& member : members) {
    if (member.learner || member.name.size() == 0 || member.id == except) continue;
    kj::Vector<kj::String> hosts;
    addHosts(hosts, config, member);
    // The local addresses were left out, and this node is a voter like others.
    if (hosts.empty() && deps.store.running()) hosts.add(kj::str(kLocal));
    for (auto& host : hosts) {
      auto* endpoint = &deps.endpoints.at(host);
      if (endpoint != &through) endpoints.add(endpoint);
    }
  }
  return endpoints;
}

bool mayPass(const kj::Exception& failure) {
  auto kind = kindOf(failure);
  return kind == ErrorKind::kUnavailable || kind == ErrorKind::kDeadlineExceeded;
}

void keepError(kj::Maybe<kj::Exception>& kept, kj::Exception&& failure) {
  KJ_IF_MAYBE (before, kept) {
    if (kindOf(*before) == ErrorKind::kUnavailable) return;
  }
  kept = kj::mv(failure);
}

kj::Vector<kj::String> withLocal(kj::ArrayPtr<const kj::String> known, bool running) {
  kj::Vector<kj::String> all;
  for (auto& one : known) all.add(kj::str(one));
  if (running) addOnce(all, kj::str(kLocal));
  return all;
}

kj::Promise<kj::Vector<kj::String>> membersAt(Dependencies& deps, const Config& config,
                                              kj::ArrayPtr<const PeerAnswer> asked) {
  kj::Vector<kj::Promise<kj::Array<etcd::Member>>> asking;
  for (auto& one : asked) {
    if (!one.said.is<BootstrapState>() ||
        one.said.get<BootstrapState>().state != BootstrapState::State::kMember)
      continue;
    asking.add(deps.peers.members(one.address).catch_([](kj::Exception&&) {
      return kj::Array<etcd::Member>();
    }));
  }
  auto lists = co_await kj::joinPromises(asking.releaseAsArray());
  kj::Vector<kj::String> hosts;
  for (auto& list : lists) {
    for (auto& member : list) addHosts(hosts, config, member);
  }
  co_return hosts;
}

}  // namespace talos::supervisor
