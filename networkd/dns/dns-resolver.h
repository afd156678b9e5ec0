// The caching resolver of the node: cache, hosts of the config, members of the cluster, upstreams.
//
// Every query gets an answer within kRequestLimit: the failure of all upstreams is SERVFAIL. Equal
// queries that come while the first is at the upstreams wait for its answer, so that a flood of
// them gives a forger no more chances than one (RFC 5452 section 5). At most kMostLookups go to the
// upstreams at once; a query beyond that fails at once. Those of pods fail from kMostBeforePods on,
// so that names whose servers are down do not keep the node from pulling images. The resolver holds
// nothing that a crash could lose but its cache.
#pragma once

#include <kj/timer.h>

#include <map>
#include <utility>

#include "networkd/dns/dns-cache.h"
#include "networkd/dns/dns-upstreams.h"
#include "networkd/dns/upstream-exchange.h"

namespace talos::networkd::dns {

// Names with addresses that the resolver knows itself.
class Hosts {
 public:
  // Ignores a name that is no name of DNS.
  void add(kj::StringPtr name, const Ip& address);
  // Returns true if the query is for addresses of a name that has any.
  bool knows(const QueryKey& key) const;
  // Returns the addresses of the family in the query; empty if the name has no such address.
  std::vector<Ip> find(const QueryKey& key) const;
  bool operator==(const Hosts&) const = default;

 private:
  std::map<std::string, std::vector<Ip>> addresses;  // by QueryKey::name
};

struct ResolverSettings {
  std::vector<Endpoint> upstreams;
  Hosts hosts, members;  // `hosts` come first
  bool operator==(const ResolverSettings&) const = default;
};

struct ResolverCounts {
  uint64_t hits = 0;      // answered from the cache
  uint64_t misses = 0;    // answered by an upstream
  uint64_t failures = 0;  // no upstream answered
  bool operator==(const ResolverCounts&) const = default;
};

class Resolver final : private kj::TaskSet::ErrorHandler {
 public:
  static constexpr kj::Duration kRequestLimit = 4500 * kj::MILLISECONDS,
                                kAttemptLimit = 1500 * kj::MILLISECONDS;
  static constexpr size_t kMostLookups = 256, kMostBeforePods = 192;
  enum class Client { kNode, kPod };
  static constexpr uint32_t kHostLifetime = 10;  // s

  Resolver(kj::Timer& timer, UpstreamNetwork& network)
      : timer(timer), network(network), lookups(*this) {}
  KJ_DISALLOW_COPY_AND_MOVE(Resolver);

  // Empties the cache if the settings differ from those before.
  void configure(ResolverSettings settings);
  // Never rejects.
  kj::Promise<kj::Array<kj::byte>> answer(Query query, Client client = Client::kNode);
  const ResolverCounts& counts() const { return counted; }

 private:
  using Answer = kj::Maybe<kj::Own<UpstreamAnswer>>;  // nullptr: no upstream has answered
  using Waiters = kj::Vector<kj::Own<kj::PromiseFulfiller<Answer>>>;
  struct Attempt {
    Answer answer;
    bool silent = false;
  };

  kj::Timer& timer;
  UpstreamNetwork& network;
  Hosts hosts, members;
  Upstreams upstreams;
  Cache cache;
  ResolverCounts counted;
  uint64_t generation = 0;  // of the settings
  // With the generation of the settings: a query after a change does not wait for the upstreams of
  // before.
  using Lookup = std::pair<uint64_t, QueryKey>;
  std::map<Lookup, Waiters> waiting;
  kj::TaskSet lookups;

  // Returns the answer of the hosts or the members. A name without an address of the family has no
  // data (RFC 2308, section 2.2): an upstream would say that the name does not exist, and some
  // clients (musl) then do not use the address of the other family either.
  kj::Maybe<kj::Array<kj::byte>> known(const Query& query) const;
  // Resolves with the answer of an upstream; equal queries share one lookup.
  kj::Promise<Answer> shared(const QueryKey& key, Client client);
  kj::Promise<void> lookUp(QueryKey key);
  kj::Promise<Answer> askInTurn(QueryKey key);
  kj::Promise<Attempt> attempt(Endpoint upstream, QueryKey key,
                               UpstreamNetwork::Transport transport);
  void taskFailed(kj::Exception&& exception) override;
};

}  // namespace talos::networkd::dns
