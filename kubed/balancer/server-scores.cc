#include "kubed/balancer/server-scores.h"

#include "common/net/ip.h"

namespace talos::kubed {
namespace {

constexpr kj::Duration kTiers[] = {1 * kj::MILLISECONDS, 10 * kj::MILLISECONDS,
                                   100 * kj::MILLISECONDS};

bool isAmong(kj::ArrayPtr<const ApiServer> servers, const ApiServer& server) {
  for (auto& one : servers) {
    if (one == server) return true;
  }
  return false;
}

}  // namespace

kj::String ApiServer::name() const {
  return hostInUrl(host, port);
}

unsigned ServerScores::Entry::tier() const {
  unsigned tier = 0;
  KJ_IF_MAYBE (time, connectTime) {
    for (auto limit : kTiers) tier += *time >= limit ? 1 : 0;
  }
  return tier;
}

kj::Maybe<ServerScores::Entry&> ServerScores::find(const ApiServer& server) {
  for (auto& entry : entries) {
    if (entry.server == server) return entry;
  }
  return nullptr;
}

bool ServerScores::set(kj::ArrayPtr<const ApiServer> servers) {
  kj::Vector<Entry> fresh;
  for (auto i : kj::indices(servers)) {
    if (isAmong(servers.slice(0, i), servers[i])) continue;
    auto& entry = fresh.add(Entry{.server = servers[i].clone(), .connectTime = nullptr});
    KJ_IF_MAYBE (known, find(servers[i])) {
      entry.score = known->score;
      entry.connectTime = known->connectTime;
    }
  }
  bool same = fresh.size() == entries.size();
  for (size_t i = 0; same && i < fresh.size(); ++i) same = fresh[i].server == entries[i].server;
  entries = kj::mv(fresh);
  return !same;
}

void ServerScores::reached(const ApiServer& server, kj::Duration connectTime) {
  KJ_IF_MAYBE (entry, find(server)) {
    entry->score = kj::min(entry->score + 1, int{kHighest});
    entry->connectTime = connectTime;
  }
}

void ServerScores::failed(const ApiServer& server) {
  KJ_IF_MAYBE (entry, find(server)) entry->score = kj::max(entry->score - 1, int{kLowest});
}

kj::Maybe<const ApiServer&> ServerScores::pick(kj::ArrayPtr<const ApiServer> tried) {
  kj::Maybe<size_t> best;
  for (auto i : kj::indices(entries)) {
    auto at = (next + i) % entries.size();
    if (!entries[at].isUsable() || isAmong(tried, entries[at].server)) continue;
    bool better = true;
    KJ_IF_MAYBE (other, best) better = entries[at].tier() < entries[*other].tier();
    if (better) best = at;
  }
  KJ_IF_MAYBE (at, best) {
    next = *at + 1;
    return entries[*at].server;
  }
  return nullptr;
}

Health ServerScores::health() const {
  auto health = Health::kNone;
  for (auto& entry : entries) {
    if (!entry.isUsable()) continue;
    if (entry.connectTime != nullptr) return Health::kReached;
    health = Health::kUnknown;
  }
  return health;
}

}  // namespace talos::kubed
