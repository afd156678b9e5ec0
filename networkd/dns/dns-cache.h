// Answers of upstreams, kept for their times to live. Pure: the caller passes the time.
//
// The cache has at most kMostAnswers answers of kMostBytes together; beyond that it drops those
// that were not used for the longest time. It exists only in memory, so a crash empties it.
#pragma once

#include <kj/time.h>

#include <list>
#include <map>

#include "networkd/dns/dns-message.h"

namespace talos::networkd::dns {

class Cache {
 public:
  static constexpr size_t kMostAnswers = 4096, kMostBytes = 4 << 20;

  // Returns the answer for this client; nullptr if no stored answer still holds.
  kj::Maybe<kj::Array<kj::byte>> find(const Query& query, kj::TimePoint now);
  // Keeps the answer for its lifetime; does nothing if that is 0.
  void add(const QueryKey& key, Bytes message, const Response& response, kj::TimePoint now);
  void clear();
  size_t size() const { return answers.size(); }

 private:
  struct Answer {
    QueryKey key;
    kj::Array<kj::byte> message;
    std::vector<uint32_t> ttls;
    kj::TimePoint came, until;
  };
  using Answers = std::list<Answer>;
  Answers answers;  // the one that was used last is the first
  std::map<QueryKey, Answers::iterator> places;
  size_t bytes = 0;  // of the messages

  void drop(Answers::iterator answer);
};

}  // namespace talos::networkd::dns
