#include "networkd/dns/dns-resolver.h"

#include <kj/debug.h>

#include <algorithm>

#include "common/base/error.h"
#include "common/base/log.h"

namespace talos::networkd::dns {

void Hosts::add(kj::StringPtr name, const Ip& address) {
  KJ_IF_MAYBE (wire, wireName(name)) {
    auto& list = addresses[*wire];
    if (std::find(list.begin(), list.end(), address) == list.end()) list.push_back(address);
  }
}

bool Hosts::knows(const QueryKey& key) const {
  bool asksForAddress = key.type == kAddress || key.type == kAddress6;
  return asksForAddress && key.klass == kInternet && addresses.contains(key.name);
}

std::vector<Ip> Hosts::find(const QueryKey& key) const {
  std::vector<Ip> found;
  if (!knows(key)) return found;
  auto place = addresses.find(key.name);
  int family = key.type == kAddress ? AF_INET : AF_INET6;
  for (auto& address : place->second) {
    if (address.family() == family) found.push_back(address);
  }
  return found;
}

void Resolver::configure(ResolverSettings settings) {
  bool same = settings.upstreams == upstreams.all() && settings.hosts == hosts &&
              settings.members == members;
  if (same) return;
  if (settings.upstreams != upstreams.all()) upstreams.set(kj::mv(settings.upstreams));
  hosts = kj::mv(settings.hosts);
  members = kj::mv(settings.members);
  cache.clear();
  ++generation;
}

kj::Promise<kj::Array<kj::byte>> Resolver::answer(Query query, Client client) {
  if (query.laterEdns) co_return errorAnswer(query, kBadVersion);
  if (query.key.type == kAxfr || query.key.type == kIxfr) {
    co_return errorAnswer(query, kNotImplemented);
  }
  auto cached = cache.find(query, timer.now());
  KJ_IF_MAYBE (found, cached) {
    ++counted.hits;
    co_return kj::mv(*found);
  }
  auto own = known(query);
  KJ_IF_MAYBE (found, own) co_return kj::mv(*found);
  auto answer = co_await shared(query.key, client);
  KJ_IF_MAYBE (found, answer) {
    ++counted.misses;
    auto& response = (*found)->response;
    co_return answerOf(query, (*found)->message,
                       kj::arrayPtr(response.ttls.data(), response.ttls.size()), 0);
  }
  ++counted.failures;
  co_return errorAnswer(query, kServerFailure);
}

kj::Maybe<kj::Array<kj::byte>> Resolver::known(const Query& query) const {
  for (auto list : {&hosts, &members}) {
    auto found = list->find(query.key);
    if (!found.empty()) {
      return addressAnswer(query, kj::arrayPtr(found.data(), found.size()), kHostLifetime);
    }
  }
  if (hosts.knows(query.key) || members.knows(query.key)) {
    return addressAnswer(query, nullptr, kHostLifetime);
  }
  return nullptr;
}

kj::Promise<Resolver::Answer> Resolver::shared(const QueryKey& key, Client client) {
  Lookup lookup{generation, key};
  auto place = waiting.find(lookup);
  if (place == waiting.end()) {
    auto most = client == Client::kPod ? kMostBeforePods : kMostLookups;
    if (waiting.size() >= most) return Answer(nullptr);
    place = waiting.emplace(kj::mv(lookup), Waiters()).first;
    lookups.add(lookUp(key));
  }
  auto paf = kj::newPromiseAndFulfiller<Answer>();
  place->second.add(kj::mv(paf.fulfiller));
  return kj::mv(paf.promise);
}

kj::Promise<void> Resolver::lookUp(QueryKey key) {
  auto began = generation;
  co_await kj::evalLater([] {});  // Until then its first query becomes a waiter.
  auto late = timer.afterDelay(kRequestLimit).then([]() -> Answer { return nullptr; });
  auto answer = co_await askInTurn(key)
                    .catch_([](kj::Exception&& e) -> Answer {
                      log::warn("cannot look up a name", {{"error", messageOf(e)}});
                      return nullptr;
                    })
                    .exclusiveJoin(kj::mv(late));
  KJ_IF_MAYBE (found, answer) {
    if (began == generation) {
      cache.add(key, (*found)->message, (*found)->response, timer.now());
    }
  }
  auto place = waiting.find(Lookup{began, key});
  auto waiters = kj::mv(place->second);
  waiting.erase(place);
  for (auto& waiter : waiters) {
    waiter->fulfill(answer.map([](kj::Own<UpstreamAnswer>& found) { return kj::addRef(*found); }));
  }
}

// Settings may change while it runs: it asks the upstreams of its beginning.
kj::Promise<Resolver::Answer> Resolver::askInTurn(QueryKey key) {
  using Transport = UpstreamNetwork::Transport;
  auto attempts = upstreams.attempts(timer.now());
  for (;;) {
    auto upstream = attempts.next();
    if (!upstream) co_return nullptr;
    auto began = timer.now();
    auto outcome = co_await attempt(*upstream, key, Transport::kUdp);
    KJ_IF_MAYBE (found, outcome.answer) {
      upstreams.answered(*upstream, timer.now());
      if ((*found)->response.truncated) {
        outcome = co_await attempt(*upstream, key, Transport::kTcp);
      }
    }
    if (outcome.silent) {
      upstreams.silent(*upstream, began, timer.now());
      continue;
    }
    KJ_IF_MAYBE (found, outcome.answer) {
      auto rcode = (*found)->response.rcode;
      if (rcode != kServerFailure && rcode != kRefused) co_return kj::mv(*found);
    }
    attempts.failed();
  }
}

kj::Promise<Resolver::Attempt> Resolver::attempt(Endpoint upstream, QueryKey key,
                                                 UpstreamNetwork::Transport transport) {
  auto late = timer.afterDelay(kAttemptLimit).then([] { return Attempt{nullptr, true}; });
  return kj::evalNow([&] { return network.exchange(upstream, kj::mv(key), transport); })
      .then([](kj::Own<UpstreamAnswer> answer) { return Attempt{kj::mv(answer), false}; },
            [](kj::Exception&&) { return Attempt{nullptr, false}; })  // unreachable
      .exclusiveJoin(kj::mv(late));
}

void Resolver::taskFailed(kj::Exception&& exception) {
  log::error("a lookup of a name ended early", {{"error", messageOf(exception)}});
}

}  // namespace talos::networkd::dns
